#include "image/decode.h"

#include "core/error.h"
#include "core/format.h"

#include <string.h>

/* ---- formats --------------------------------------------------------------------------------- */

typedef struct form {
  const char *name;
  ac_status (*inspect)(const ac_picture_file *file, ac_picture_info *info);
} form;

static const form forms[AC_PICTURE_FORMATS] = {
    [AC_PICTURE_JPEG] = {"a JPEG picture", ac_jpeg_inspect},
    [AC_PICTURE_PNG] = {"a PNG picture", ac_png_inspect},
    [AC_PICTURE_WEBP] = {"a WebP picture", ac_webp_inspect},
};

/* By its first bytes; a file's name may say something else. */
static ac_status find_form(const ac_picture_file *file, ac_picture_format *format) {
  const char *name = NULL;
  if (!file->bytes) return ac_fail(AC_ERROR_FORMAT, "%s is empty", file->path);
  ac_format_of(file->data, file->bytes < 4096 ? file->bytes : 4096, file->bytes, &name);
  for (int i = 0; name && i < AC_PICTURE_FORMATS; i++)
    if (!strcmp(name, forms[i].name)) {
      *format = (ac_picture_format)i;
      return AC_OK;
    }
  return ac_fail(AC_ERROR_FORMAT, "%s is %s, not a picture that is JPEG, PNG or WebP", file->path,
                 name ? name : "of an unknown format");
}

ac_status ac_picture_inspect(const ac_picture_file *file, ac_picture_info *info) {
  *info = (ac_picture_info){.orientation = 1};
  AC_TRY(find_form(file, &info->format));
  AC_TRY(forms[info->format].inspect(file, info));
  if (info->width < 1 || info->height < 1)
    return ac_fail(AC_ERROR_FORMAT, "%s: a picture of %lld x %lld pixels", file->path,
                   (long long)info->width, (long long)info->height);
  if (info->width > AC_PICTURE_MOST_SIDE || info->height > AC_PICTURE_MOST_SIDE ||
      info->width * info->height > AC_PICTURE_MOST_PIXELS)
    return ac_fail(AC_ERROR_FORMAT,
                   "%s: %lld x %lld pixels are too many; a picture may have %lld, and a side %d",
                   file->path, (long long)info->width, (long long)info->height,
                   (long long)AC_PICTURE_MOST_PIXELS, (int)AC_PICTURE_MOST_SIDE);
  return AC_OK;
}

int ac_picture_reduction(const ac_picture_info *info, int64_t width, int64_t height) {
  if (info->format != AC_PICTURE_JPEG) return 1;
  int reduction = 8;
  while (reduction > 1 && (ac_picture_reduced(info->width, reduction) < width ||
                           ac_picture_reduced(info->height, reduction) < height))
    reduction /= 2;
  return reduction;
}

int64_t ac_picture_reduced(int64_t side, int reduction) {
  return (side + reduction - 1) / reduction;
}

/* ---- pixels ---------------------------------------------------------------------------------- */

static void make_grey(uint8_t *pixels, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    const uint32_t r = pixels[3 * i], g = pixels[3 * i + 1], b = pixels[3 * i + 2];
    pixels[i] = (uint8_t)((19595 * r + 38470 * g + 7471 * b + 0x8000) >> 16);
  }
}

ac_status ac_picture_decode(const ac_picture_file *file, const ac_picture_info *info, int reduction,
                            int channels, uint8_t *pixels) {
  if (info->format == AC_PICTURE_JPEG) AC_TRY(ac_jpeg_decode(file, info, reduction, pixels));
  else if (info->format == AC_PICTURE_PNG) AC_TRY(ac_png_decode(file, info, pixels));
  else AC_TRY(ac_webp_decode(file, info, pixels));
  if (channels == 1)
    make_grey(pixels, ac_picture_reduced(info->width, reduction) *
                          ac_picture_reduced(info->height, reduction));
  return AC_OK;
}

/* Orientation: the pixel of the result at (x, y) is that at (a, b) of what is stored, by one of
 * eight ways. Bit 0: a runs backwards; bit 1: b does; bit 2: they are swapped. */
void ac_picture_orient(const uint8_t *from, int64_t width, int64_t height, int channels,
                       int orientation, uint8_t *to) {
  static const int ways[9] = {0, 0, 1, 3, 2, 4, 6, 7, 5};
  const int way = ways[orientation];
  const int64_t columns = way & 4 ? height : width, rows = way & 4 ? width : height;
  for (int64_t y = 0; y < rows; y++)
    for (int64_t x = 0; x < columns; x++, to += channels) {
      int64_t a = way & 4 ? y : x, b = way & 4 ? x : y;
      if (way & 1) a = width - 1 - a;
      if (way & 2) b = height - 1 - b;
      memcpy(to, from + (b * width + a) * channels, (size_t)channels);
    }
}

/* ---- EXIF ------------------------------------------------------------------------------------ */

static uint32_t number(const uint8_t *at, int bytes, bool big) {
  uint32_t value = 0;
  for (int i = 0; i < bytes; i++) value |= (uint32_t)at[i] << (8 * (big ? bytes - 1 - i : i));
  return value;
}

int ac_exif_orientation(const uint8_t *data, size_t bytes) {
  enum { ORIENTATION = 0x112, SHORT = 3, ENTRY = 12 };
  if (bytes < 8 || (memcmp(data, "II*\0", 4) != 0 && memcmp(data, "MM\0*", 4) != 0)) return 1;
  const bool big = data[0] == 'M';
  const size_t directory = number(data + 4, 4, big);
  if (directory > bytes || bytes - directory < 2) return 1;
  const uint8_t *entry = data + directory + 2;
  size_t left = (bytes - directory - 2) / ENTRY;
  const size_t entries = number(data + directory, 2, big);
  if (left > entries) left = entries;
  for (; left; left--, entry += ENTRY) {
    if (number(entry, 2, big) != ORIENTATION) continue;
    const uint32_t value = number(entry + 8, 2, big);
    return number(entry + 2, 2, big) == SHORT && value >= 1 && value <= 8 ? (int)value : 1;
  }
  return 1;
}
