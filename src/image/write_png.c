/* A PNG file is a signature and chunks: a length, a name, so many bytes, and a checksum of name and
 * bytes. The pixels, each row after the number of its filter (0: none), are one zlib stream. */
#include "core/error.h"
#include "image/decode.h"

#include <accrue/pictures.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void put_number(uint8_t *to, uint32_t value) {
  for (int i = 0; i < 4; i++) to[i] = (uint8_t)(value >> (24 - 8 * i));
}

static bool put_chunk(FILE *stream, const char *name, const uint8_t *data, uint32_t bytes) {
  uint8_t head[8], sum[4];
  put_number(head, bytes);
  memcpy(head + 4, name, 4);
  uLong crc = crc32(0, head + 4, 4);
  if (bytes) crc = crc32(crc, data, bytes);
  put_number(sum, (uint32_t)crc);
  return fwrite(head, 1, 8, stream) == 8 && fwrite(data, 1, bytes, stream) == bytes &&
         fwrite(sum, 1, 4, stream) == 4;
}

static bool put_picture(FILE *stream, int64_t width, int64_t height, int channels,
                        const uint8_t *data, uint32_t bytes) {
  uint8_t head[13] = {[8] = 8, [9] = channels == 1 ? 0 : 2};
  put_number(head, (uint32_t)width);
  put_number(head + 4, (uint32_t)height);
  return fwrite("\x89PNG\r\n\x1a\n", 1, 8, stream) == 8 && put_chunk(stream, "IHDR", head, 13) &&
         put_chunk(stream, "IDAT", data, bytes) && put_chunk(stream, "IEND", head, 0);
}

ac_status ac_picture_write_png(const char *path, int64_t width, int64_t height, int channels,
                               const uint8_t *pixels) {
  AC_REQUIRE(path, pixels);
  if (width < 1 || height < 1 || width > AC_PICTURE_MOST_SIDE || height > AC_PICTURE_MOST_SIDE ||
      width * height > AC_PICTURE_MOST_PIXELS || (channels != 1 && channels != 3))
    return ac_fail(AC_ERROR_ARGUMENT, "%s: no picture of %lld x %lld pixels and %d channels", path,
                   (long long)width, (long long)height, channels);
  const size_t row = (size_t)(width * channels), bytes = (size_t)height * (row + 1);
  uLongf packed_bytes = compressBound((uLong)bytes);
  uint8_t *rows = malloc(bytes), *packed = malloc(packed_bytes);
  ac_status status = rows && packed ? AC_OK : ac_fail(AC_ERROR_MEMORY, "%s: no memory", path);
  for (int64_t y = 0; status == AC_OK && y < height; y++) {
    rows[(size_t)y * (row + 1)] = 0;
    memcpy(rows + (size_t)y * (row + 1) + 1, pixels + (size_t)y * row, row);
  }
  if (status == AC_OK && compress(packed, &packed_bytes, rows, (uLong)bytes) != Z_OK)
    status = ac_fail(AC_ERROR_MEMORY, "%s: no memory to compress it", path);
  FILE *stream = status == AC_OK ? fopen(path, "wb") : NULL;
  bool written =
      stream && put_picture(stream, width, height, channels, packed, (uint32_t)packed_bytes);
  if (stream && fclose(stream) != 0) written = false;
  if (status == AC_OK && !written)
    status = ac_fail(AC_ERROR_IO, "cannot write %s: %s", path, strerror(errno));
  free(rows);
  free(packed);
  return status;
}
