/* A PNG file is a signature and chunks: a length, a name, so many bytes, and a checksum of name and
 * bytes. The pixels, each row after the number of its filter (0: none), are one zlib stream. */
#include "core/error.h"
#include "core/platform/atomic_file.h"
#include "image/decode.h"

#include <accrue/masks.h>

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void put_number(uint8_t *to, uint32_t value) {
  for (int i = 0; i < 4; i++) to[i] = (uint8_t)(value >> (24 - 8 * i));
}

static ac_status put_chunk(ac_atomic_file *file, const char *name, const uint8_t *data,
                           uint32_t bytes) {
  uint8_t head[8], sum[4];
  put_number(head, bytes);
  memcpy(head + 4, name, 4);
  uLong crc = crc32(0, head + 4, 4);
  if (bytes) crc = crc32(crc, data, bytes);
  put_number(sum, (uint32_t)crc);
  AC_TRY(ac_atomic_write(file, head, 8));
  AC_TRY(ac_atomic_write(file, data, bytes));
  return ac_atomic_write(file, sum, 4);
}

/* Bits of a class's number, three at a time and the lowest first, become the upper bits of red,
 * green and blue: the colours of Pascal VOC's masks. */
static void make_palette(uint8_t palette[3 * 256]) {
  for (int class = 0; class < 256; class ++)
    for (int colour = 0; colour < 3; colour++) {
      int value = 0;
      for (int bit = 0; 3 * bit < 8; bit++) value |= (class >> (3 * bit + colour) & 1) << (7 - bit);
      palette[3 * class + colour] = (uint8_t)value;
    }
}

/* How pixels are stored, by PNG's numbers. */
typedef enum pixel_kind { GREY = 0, COLOURS = 2, PALETTE = 3 } pixel_kind;

static ac_status put_picture(ac_atomic_file *file, int64_t width, int64_t height, pixel_kind kind,
                             const uint8_t *data, uint32_t bytes) {
  uint8_t head[13] = {[8] = 8, [9] = (uint8_t)kind}, palette[3 * 256];
  put_number(head, (uint32_t)width);
  put_number(head + 4, (uint32_t)height);
  AC_TRY(ac_atomic_write(file, "\x89PNG\r\n\x1a\n", 8));
  AC_TRY(put_chunk(file, "IHDR", head, 13));
  if (kind == PALETTE) {
    make_palette(palette);
    AC_TRY(put_chunk(file, "PLTE", palette, sizeof palette));
  }
  AC_TRY(put_chunk(file, "IDAT", data, bytes));
  return put_chunk(file, "IEND", head, 0);
}

static ac_status write_file(const char *path, int64_t width, int64_t height, pixel_kind kind,
                            const uint8_t *data, uint32_t bytes) {
  ac_atomic_file file;
  AC_TRY(ac_atomic_open(&file, path));
  const ac_status status = put_picture(&file, width, height, kind, data, bytes);
  if (status == AC_OK) return ac_atomic_commit(&file);
  ac_atomic_abandon(&file);
  return status;
}

static ac_status write_png(const char *path, int64_t width, int64_t height, pixel_kind kind,
                           const uint8_t *pixels) {
  const int channels = kind == COLOURS ? 3 : 1;
  if (width < 1 || height < 1 || width > AC_PICTURE_MOST_SIDE || height > AC_PICTURE_MOST_SIDE ||
      width * height > AC_PICTURE_MOST_PIXELS)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: no picture of %lld x %lld pixels", path,
                   (long long)width, (long long)height);
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
  if (status == AC_OK)
    status = write_file(path, width, height, kind, packed, (uint32_t)packed_bytes);
  free(rows);
  free(packed);
  return status;
}

ac_status ac_picture_write_png(const char *path, int64_t width, int64_t height, int channels,
                               const uint8_t *pixels) {
  AC_REQUIRE(path, pixels);
  if (channels != 1 && channels != 3)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: no picture with %d channels", path, channels);
  return write_png(path, width, height, channels == 1 ? GREY : COLOURS, pixels);
}

ac_status ac_mask_write_png(const char *path, int64_t width, int64_t height, const uint8_t *mask) {
  AC_REQUIRE(path, mask);
  return write_png(path, width, height, PALETTE, mask);
}
