/* libpng's errors leave by longjmp, as those of libjpeg do (jpeg.c). Rows are read into place;
 * those of an interlaced picture in seven passes. */
#include "image/decode.h"

#include "core/error.h"

#ifdef AC_HAVE_PNG

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

typedef struct reader {
  png_structp png;
  png_infop info;
  const ac_picture_file *file;
  size_t at;
  bool ended;     /* more bytes were needed than there are */
  bool no_memory; /* it was refused some */
  char sentence[128];
} reader;

/* Of a chunk that is not pixels, such as a colour profile. */
enum { MOST_CHUNK_BYTES = 8 << 20, MOST_CHUNKS = 1000 };

static void leave(png_structp png, png_const_charp text) {
  reader *r = png_get_error_ptr(png);
  snprintf(r->sentence, sizeof r->sentence, "%s", text);
  png_longjmp(png, 1);
}

static void say_nothing(png_structp png, png_const_charp text) {
  (void)png, (void)text;
}

static png_voidp allocate(png_structp png, png_alloc_size_t bytes) {
  reader *r = png_get_mem_ptr(png);
  void *memory = malloc(bytes);
  if (!memory) r->no_memory = true;
  return memory;
}

static void release(png_structp png, png_voidp memory) {
  (void)png;
  free(memory);
}

static void take(png_structp png, png_bytep data, size_t bytes) {
  reader *r = png_get_io_ptr(png);
  r->ended = bytes > r->file->bytes - r->at;
  if (r->ended) png_error(png, "it ends early");
  memcpy(data, r->file->data + r->at, bytes);
  r->at += bytes;
}

static ac_status begin(reader *r, const ac_picture_file *file) {
  *r = (reader){.file = file};
  r->png =
      png_create_read_struct_2(PNG_LIBPNG_VER_STRING, r, leave, say_nothing, r, allocate, release);
  if (r->png) r->info = png_create_info_struct(r->png);
  if (r->info) return AC_OK;
  png_destroy_read_struct(&r->png, NULL, NULL);
  return ac_fail(AC_ERROR_MEMORY, "%s: no memory to read it", file->path);
}

static ac_status damaged(reader *r) {
  png_destroy_read_struct(&r->png, &r->info, NULL);
  if (r->no_memory) return ac_fail(AC_ERROR_MEMORY, "%s: no memory to read it", r->file->path);
  if (r->ended) return ac_fail(AC_ERROR_FORMAT, "%s is a truncated PNG picture", r->file->path);
  return ac_fail(AC_ERROR_FORMAT, "%s is a damaged PNG picture: %s", r->file->path, r->sentence);
}

/* Within setjmp. */
static void read_header(reader *r) {
  png_set_user_limits(r->png, AC_PICTURE_MOST_SIDE, AC_PICTURE_MOST_SIDE);
  png_set_chunk_malloc_max(r->png, MOST_CHUNK_BYTES);
  png_set_chunk_cache_max(r->png, MOST_CHUNKS);
  png_set_read_fn(r->png, r, take);
  png_read_info(r->png, r->info);
}

static size_t number(const uint8_t *at) {
  return (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
}

/* The orientation of the chunk eXIf, which may come before or after the pixels. A chunk is a
 * length, a name, so many bytes, and a checksum. */
static int orientation(const ac_picture_file *file) {
  enum { SIGNATURE = 8, AROUND = 12 };
  size_t at = SIGNATURE;
  while (at <= file->bytes && file->bytes - at >= AROUND) {
    const uint8_t *chunk = file->data + at;
    const size_t bytes = number(chunk);
    if (bytes > file->bytes - at - AROUND) return 1;
    if (!memcmp(chunk + 4, "eXIf", 4)) return ac_exif_orientation(chunk + 8, bytes);
    at += AROUND + bytes;
  }
  return 1;
}

ac_status ac_png_inspect(const ac_picture_file *file, ac_picture_info *info) {
  reader r;
  AC_TRY(begin(&r, file));
  if (setjmp(png_jmpbuf(r.png))) return damaged(&r);
  read_header(&r);
  info->width = png_get_image_width(r.png, r.info);
  info->height = png_get_image_height(r.png, r.info);
  info->orientation = orientation(file);
  png_destroy_read_struct(&r.png, &r.info, NULL);
  return AC_OK;
}

/* Within setjmp. */
static void read_rows(reader *r, const ac_picture_info *info, uint8_t *rgb) {
  png_structp png = r->png;
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_strip_alpha(png);
  png_set_gray_to_rgb(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, r->info);
  if (png_get_rowbytes(png, r->info) != (size_t)info->width * 3 ||
      png_get_image_height(png, r->info) != info->height)
    png_error(png, "its rows have another length");
  for (int pass = 0; pass < passes; pass++)
    for (int64_t y = 0; y < info->height; y++) png_read_row(png, rgb + 3 * y * info->width, NULL);
}

ac_status ac_png_decode(const ac_picture_file *file, const ac_picture_info *info, uint8_t *rgb) {
  reader r;
  AC_TRY(begin(&r, file));
  if (setjmp(png_jmpbuf(r.png))) return damaged(&r);
  read_header(&r);
  read_rows(&r, info, rgb);
  png_destroy_read_struct(&r.png, &r.info, NULL);
  return AC_OK;
}

/* Within setjmp. Ids as they are in the file: places of a palette, or levels of grey. */
static void read_ids(reader *r, const ac_picture_info *info, uint8_t *ids) {
  png_structp png = r->png;
  png_set_packing(png);
  png_set_strip_alpha(png);
  const int passes = png_set_interlace_handling(png);
  png_read_update_info(png, r->info);
  if (png_get_rowbytes(png, r->info) != (size_t)info->width ||
      png_get_image_height(png, r->info) != info->height)
    png_error(png, "its rows have another length");
  for (int pass = 0; pass < passes; pass++)
    for (int64_t y = 0; y < info->height; y++) png_read_row(png, ids + y * info->width, NULL);
}

ac_status ac_png_decode_mask(const ac_picture_file *file, const ac_picture_info *info,
                             uint8_t *ids) {
  reader r;
  AC_TRY(begin(&r, file));
  if (setjmp(png_jmpbuf(r.png))) return damaged(&r);
  read_header(&r);
  const bool coloured = png_get_color_type(r.png, r.info) & PNG_COLOR_MASK_COLOR &&
                        !(png_get_color_type(r.png, r.info) & PNG_COLOR_MASK_PALETTE),
             wide = png_get_bit_depth(r.png, r.info) > 8;
  if (!coloured && !wide) read_ids(&r, info, ids);
  png_destroy_read_struct(&r.png, &r.info, NULL);
  if (coloured)
    return ac_fail(AC_ERROR_FORMAT,
                   "%s has pixels of three colours; those of a mask are places of a palette, or "
                   "grey",
                   file->path);
  if (wide)
    return ac_fail(AC_ERROR_FORMAT, "%s has pixels of 16 bits; those of a mask have at most 8",
                   file->path);
  return AC_OK;
}

#else

static ac_status missing(const ac_picture_file *file) {
  return ac_fail(AC_ERROR_UNSUPPORTED,
                 "%s is a PNG picture, and this build of Accrue has no libpng to read it",
                 file->path);
}

ac_status ac_png_inspect(const ac_picture_file *file, ac_picture_info *info) {
  (void)info;
  return missing(file);
}

ac_status ac_png_decode(const ac_picture_file *file, const ac_picture_info *info, uint8_t *rgb) {
  (void)info, (void)rgb;
  return missing(file);
}

ac_status ac_png_decode_mask(const ac_picture_file *file, const ac_picture_info *info,
                             uint8_t *ids) {
  (void)info, (void)ids;
  return missing(file);
}

#endif
