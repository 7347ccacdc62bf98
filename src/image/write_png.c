/* A PNG file is a signature and chunks: a length, a name, so many bytes, and a checksum of name and
 * bytes. The pixels, each row after the number of its filter (0: none), are one zlib stream. */
#include "core/error.h"
#include "core/platform/atomic_file.h"
#include "image/decode.h"

#include <accrue/masks.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void put_number(uint8_t *to, uint32_t value) {
  for (int i = 0; i < 4; i++) to[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Bytes before the palette or the pixels; around those of a chunk. */
enum { HEAD = 8 + 12 + 13, CHUNK = 12, PALETTE_BYTES = 3 * 256 };

/* How pixels are stored, by PNG's numbers. */
typedef enum pixel_kind { GREY = 0, COLOURS = 2, PALETTE = 3 } pixel_kind;

/* Returns where the next one begins. Its bytes may be in their place already. */
static uint8_t *put_chunk(uint8_t *to, const char *name, const uint8_t *data, uint32_t bytes) {
  put_number(to, bytes);
  memcpy(to + 4, name, 4);
  if (bytes && data != to + 8) memcpy(to + 8, data, bytes);
  put_number(to + 8 + bytes, (uint32_t)crc32(crc32(0, NULL, 0), to + 4, bytes + 4));
  return to + CHUNK + bytes;
}

/* Bits of a class's number, three at a time and the lowest first, become the upper bits of red,
 * green and blue: the colours of Pascal VOC's masks. */
static void make_palette(uint8_t palette[3 * 256]) {
  for (int i = 0; i < 256; i++)
    for (int colour = 0; colour < 3; colour++) {
      int value = 0;
      for (int bit = 0; 3 * bit < 8; bit++) value |= (i >> (3 * bit + colour) & 1) << (7 - bit);
      palette[3 * i + colour] = (uint8_t)value;
    }
}

static bool has_size(int64_t width, int64_t height, int channels) {
  return width >= 1 && height >= 1 && width <= AC_PICTURE_MOST_SIDE &&
         height <= AC_PICTURE_MOST_SIDE && width * height <= AC_PICTURE_MOST_PIXELS &&
         (channels == 1 || channels == 3);
}

uint64_t ac_picture_png_bytes(int64_t width, int64_t height, int channels) {
  if (!has_size(width, height, channels)) return 0;
  return HEAD + 2 * CHUNK + compressBound((uLong)(height * (width * channels + 1)));
}

static ac_status refuse_size(const char *of_what, int64_t width, int64_t height, int channels) {
  return ac_fail(AC_ERROR_ARGUMENT, "%s: no picture of %lld x %lld pixels and %d channels", of_what,
                 (long long)width, (long long)height, channels);
}

/* `to` has room for `most` bytes, and with a palette for its chunk as well. */
static ac_status encode(uint8_t *to, uint64_t most, uint64_t *bytes, int64_t width, int64_t height,
                        pixel_kind kind, const uint8_t *pixels) {
  const size_t row = (size_t)(width * (kind == COLOURS ? 3 : 1)),
               unpacked = (size_t)height * (row + 1),
               before = HEAD + (kind == PALETTE ? CHUNK + PALETTE_BYTES : 0);
  uLongf packed = (uLongf)(most - HEAD - 2 * CHUNK);
  uint8_t *rows = malloc(unpacked);
  if (!rows) return ac_fail(AC_ERROR_MEMORY, "PNG: no memory for %zu bytes", unpacked);
  for (int64_t y = 0; y < height; y++) {
    rows[(size_t)y * (row + 1)] = 0;
    memcpy(rows + (size_t)y * (row + 1) + 1, pixels + (size_t)y * row, row);
  }
  const int done = compress(to + before + 8, &packed, rows, (uLong)unpacked);
  free(rows);
  if (done != Z_OK) return ac_fail(AC_ERROR_MEMORY, "PNG: no memory to compress it");
  uint8_t head[13] = {[8] = 8, [9] = (uint8_t)kind}, palette[PALETTE_BYTES];
  put_number(head, (uint32_t)width);
  put_number(head + 4, (uint32_t)height);
  memcpy(to, "\x89PNG\r\n\x1a\n", 8);
  uint8_t *at = put_chunk(to + 8, "IHDR", head, sizeof head);
  if (kind == PALETTE) {
    make_palette(palette);
    at = put_chunk(at, "PLTE", palette, sizeof palette);
  }
  at = put_chunk(at, "IDAT", to + before + 8, (uint32_t)packed);
  *bytes = (uint64_t)(put_chunk(at, "IEND", NULL, 0) - to);
  return AC_OK;
}

ac_status ac_picture_encode_png(uint8_t *to, uint64_t room, uint64_t *bytes, int64_t width,
                                int64_t height, int channels, const uint8_t *pixels) {
  AC_REQUIRE(to, bytes, pixels);
  *bytes = 0;
  const uint64_t most = ac_picture_png_bytes(width, height, channels);
  if (!most) return refuse_size("PNG", width, height, channels);
  if (room < most)
    return ac_fail(AC_ERROR_ARGUMENT, "PNG: %llu bytes of room; it needs up to %llu",
                   (unsigned long long)room, (unsigned long long)most);
  return encode(to, most, bytes, width, height, channels == 1 ? GREY : COLOURS, pixels);
}

static ac_status write_file(const char *path, const uint8_t *data, uint64_t bytes) {
  ac_atomic_file file;
  AC_TRY(ac_atomic_open(&file, path));
  const ac_status status = ac_atomic_write(&file, data, bytes);
  if (status == AC_OK) return ac_atomic_commit(&file);
  ac_atomic_abandon(&file);
  return status;
}

static ac_status write_png(const char *path, int64_t width, int64_t height, int channels,
                           pixel_kind kind, const uint8_t *pixels) {
  const uint64_t most = ac_picture_png_bytes(width, height, channels);
  if (!most) return refuse_size(path, width, height, channels);
  uint8_t *data = malloc((size_t)most + CHUNK + PALETTE_BYTES);
  if (!data) return ac_fail(AC_ERROR_MEMORY, "%s: no memory", path);
  uint64_t bytes;
  ac_status status = encode(data, most, &bytes, width, height, kind, pixels);
  if (status == AC_OK) status = write_file(path, data, bytes);
  free(data);
  return status;
}

ac_status ac_picture_write_png(const char *path, int64_t width, int64_t height, int channels,
                               const uint8_t *pixels) {
  AC_REQUIRE(path, pixels);
  return write_png(path, width, height, channels, channels == 1 ? GREY : COLOURS, pixels);
}

ac_status ac_mask_write_png(const char *path, int64_t width, int64_t height, const uint8_t *mask) {
  AC_REQUIRE(path, mask);
  return write_png(path, width, height, 1, PALETTE, mask);
}
