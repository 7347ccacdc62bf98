/* A WebP file is RIFF: chunks of a name, a length and as many bytes, padded to an even number. */
#include "image/decode.h"

#include "core/error.h"
#include "core/little_endian.h"

#ifdef AC_HAVE_WEBP

#include <string.h>

#include <webp/decode.h>

/* The orientation of the chunk EXIF, which comes after the pixels. */
static int orientation(const ac_picture_file *file) {
  static const char exif[6] = "Exif\0"; /* and a zero; some programs write it here as well */
  size_t at = 12;
  while (at <= file->bytes && file->bytes - at >= 8) {
    const uint8_t *chunk = file->data + at;
    const size_t left = file->bytes - at - 8;
    const size_t bytes = (size_t)ac_little_endian(chunk + 4, 4);
    if (bytes > left) return 1;
    if (!memcmp(chunk, "EXIF", 4)) {
      const size_t skipped =
          bytes > sizeof exif && !memcmp(chunk + 8, exif, sizeof exif) ? sizeof exif : 0;
      return ac_exif_orientation(chunk + 8 + skipped, bytes - skipped);
    }
    at += 8 + bytes + bytes % 2;
  }
  return 1;
}

static ac_status damaged(const ac_picture_file *file, VP8StatusCode code) {
  if (code == VP8_STATUS_OUT_OF_MEMORY)
    return ac_fail(AC_ERROR_MEMORY, "%s: no memory to read it", file->path);
  if (code == VP8_STATUS_NOT_ENOUGH_DATA || code == VP8_STATUS_SUSPENDED)
    return ac_fail(AC_ERROR_FORMAT, "%s is a truncated WebP picture", file->path);
  return ac_fail(AC_ERROR_FORMAT, "%s is a damaged WebP picture", file->path);
}

ac_status ac_webp_inspect(const ac_picture_file *file, ac_picture_info *info) {
  WebPBitstreamFeatures features;
  if (file->bytes < 12 || file->bytes - 8 < ac_little_endian(file->data + 4, 4))
    return damaged(file, VP8_STATUS_NOT_ENOUGH_DATA); /* what follows the pixels may be missing */
  const VP8StatusCode code = WebPGetFeatures(file->data, file->bytes, &features);
  if (code != VP8_STATUS_OK) return damaged(file, code);
  if (features.has_animation)
    return ac_fail(AC_ERROR_FORMAT, "%s is an animated WebP picture, which is not read",
                   file->path);
  info->width = features.width;
  info->height = features.height;
  info->orientation = orientation(file);
  return AC_OK;
}

ac_status ac_webp_decode(const ac_picture_file *file, const ac_picture_info *info, uint8_t *rgb) {
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config))
    return ac_fail(AC_ERROR_UNSUPPORTED, "%s: libwebp is of another version", file->path);
  config.output = (WebPDecBuffer){
      .colorspace = MODE_RGB,
      .is_external_memory = 1,
      .u.RGBA = {.rgba = rgb,
                 .stride = (int)(3 * info->width),
                 .size = (size_t)(3 * info->width) * (size_t)info->height},
  };
  config.output.width = (int)info->width;
  config.output.height = (int)info->height;
  const VP8StatusCode code = WebPDecode(file->data, file->bytes, &config);
  WebPFreeDecBuffer(&config.output);
  return code == VP8_STATUS_OK ? AC_OK : damaged(file, code);
}

#else

static ac_status missing(const ac_picture_file *file) {
  return ac_fail(AC_ERROR_UNSUPPORTED,
                 "%s is a WebP picture, and this build of Accrue has no libwebp to read it",
                 file->path);
}

ac_status ac_webp_inspect(const ac_picture_file *file, ac_picture_info *info) {
  (void)info;
  return missing(file);
}

ac_status ac_webp_decode(const ac_picture_file *file, const ac_picture_info *info, uint8_t *rgb) {
  (void)info, (void)rgb;
  return missing(file);
}

#endif
