/* libjpeg's errors leave by longjmp, into the function that called it; what is in use is in a
 * struct, so that no local variable is lost. Where the bytes end early the library is told that the
 * picture ends, as its manual says; if it then lacks data, the file is truncated. */
#include "image/decode.h"

#include "core/error.h"

#ifdef AC_HAVE_JPEG

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

typedef struct reader {
  struct jpeg_decompress_struct jpeg;
  struct jpeg_error_mgr errors;
  struct jpeg_source_mgr source;
  jmp_buf leave;
  const ac_picture_file *file;
  bool ended, lacking; /* all bytes were read; and more were needed */
  char sentence[JMSG_LENGTH_MAX];
} reader;

/* Decoding a hostile progressive file may take many scans over all of a large picture. */
enum { MOST_SCANS = 500 };
/* What the library itself may take, for the coefficients of progressive pictures: six bytes for
 * each pixel, and as much again. */
#define MOST_MEMORY (12 * (long)AC_PICTURE_MOST_PIXELS)

static void leave(j_common_ptr common) {
  reader *r = common->client_data;
  common->err->format_message(common, r->sentence);
  longjmp(r->leave, 1);
}

/* What lacks data is refused, so the rest of a picture, which may be large, is not made up. */
static void note(j_common_ptr common, int level) {
  reader *r = common->client_data;
  if (level >= 0 || !r->ended) return;
  r->lacking = true;
  longjmp(r->leave, 1);
}

static void say_nothing(j_common_ptr common) {
  (void)common;
}

static void begin_source(j_decompress_ptr jpeg) {
  (void)jpeg;
}

static boolean end_of_bytes(j_decompress_ptr jpeg) {
  static const JOCTET end[2] = {0xff, JPEG_EOI};
  reader *r = jpeg->client_data;
  r->ended = true;
  jpeg->src->next_input_byte = end;
  jpeg->src->bytes_in_buffer = sizeof end;
  return TRUE;
}

static void skip(j_decompress_ptr jpeg, long bytes) {
  if (bytes <= 0) return;
  if ((size_t)bytes > jpeg->src->bytes_in_buffer) {
    (void)end_of_bytes(jpeg);
    return;
  }
  jpeg->src->next_input_byte += bytes;
  jpeg->src->bytes_in_buffer -= (size_t)bytes;
}

static void watch_scans(j_common_ptr common) {
  reader *r = common->client_data;
  if (r->jpeg.input_scan_number > MOST_SCANS) ERREXITS(common, JERR_BAD_PROGRESSION, "scans");
}

static void begin(reader *r, const ac_picture_file *file) {
  r->file = file;
  r->jpeg.err = jpeg_std_error(&r->errors);
  r->errors.error_exit = leave;
  r->errors.emit_message = note;
  r->errors.output_message = say_nothing;
  r->jpeg.client_data = r;
}

/* Within setjmp. */
static void read_header(reader *r) {
  jpeg_create_decompress(&r->jpeg);
  r->jpeg.client_data = r;
  r->jpeg.mem->max_memory_to_use = MOST_MEMORY;
  r->source = (struct jpeg_source_mgr){.init_source = begin_source,
                                       .fill_input_buffer = end_of_bytes,
                                       .skip_input_data = skip,
                                       .resync_to_restart = jpeg_resync_to_restart,
                                       .term_source = begin_source,
                                       .next_input_byte = r->file->data,
                                       .bytes_in_buffer = r->file->bytes};
  r->jpeg.src = &r->source;
  jpeg_save_markers(&r->jpeg, JPEG_APP0 + 1, 0xffff);
  (void)jpeg_read_header(&r->jpeg, TRUE);
}

static ac_status damaged(const reader *r) {
  if (r->errors.msg_code == JERR_OUT_OF_MEMORY)
    return ac_fail(AC_ERROR_MEMORY, "%s: no memory to read it", r->file->path);
  if (r->ended || r->lacking)
    return ac_fail(AC_ERROR_FORMAT, "%s is a truncated JPEG picture", r->file->path);
  return ac_fail(AC_ERROR_FORMAT, "%s is a damaged JPEG picture: %s", r->file->path, r->sentence);
}

static int orientation(const reader *r) {
  static const char exif[6] = "Exif\0"; /* and a zero */
  for (jpeg_saved_marker_ptr m = r->jpeg.marker_list; m; m = m->next)
    if (m->data_length > sizeof exif && !memcmp(m->data, exif, sizeof exif))
      return ac_exif_orientation(m->data + sizeof exif, m->data_length - sizeof exif);
  return 1;
}

ac_status ac_jpeg_inspect(const ac_picture_file *file, ac_picture_info *info) {
  reader r = {0};
  begin(&r, file);
  if (setjmp(r.leave)) {
    jpeg_destroy_decompress(&r.jpeg);
    return damaged(&r);
  }
  read_header(&r);
  info->width = r.jpeg.image_width;
  info->height = r.jpeg.image_height;
  info->orientation = orientation(&r);
  jpeg_destroy_decompress(&r.jpeg);
  return r.ended ? damaged(&r) : AC_OK;
}

/* ---- pixels ---------------------------------------------------------------------------------- */

static uint8_t product(uint32_t a, uint32_t b) { /* a b / 255, rounded */
  const uint32_t p = a * b + 128;
  return (uint8_t)((p + (p >> 8)) >> 8);
}

/* Inks to light, as Pillow has it. Files store how much light each ink leaves, as Adobe's do. */
static void convert_inks(const uint8_t *cmyk, int64_t width, uint8_t *rgb) {
  for (int64_t x = 0; x < width; x++, cmyk += 4, rgb += 3)
    for (int c = 0; c < 3; c++) rgb[c] = (uint8_t)(cmyk[3] - product(255u - cmyk[c], cmyk[3]));
}

/* Within setjmp. */
static void read_rows(reader *r, const ac_picture_info *info, int reduction, uint8_t *rgb) {
  struct jpeg_decompress_struct *jpeg = &r->jpeg;
  const bool inks = jpeg->jpeg_color_space == JCS_CMYK || jpeg->jpeg_color_space == JCS_YCCK;
  struct jpeg_progress_mgr progress = {.progress_monitor = watch_scans};
  jpeg->progress = &progress;
  jpeg->out_color_space = inks ? JCS_CMYK : JCS_RGB;
  jpeg->scale_num = 1;
  jpeg->scale_denom = (unsigned)reduction;
  (void)jpeg_start_decompress(jpeg);
  const int64_t width = ac_picture_reduced(info->width, reduction),
                height = ac_picture_reduced(info->height, reduction);
  if (jpeg->output_width != width || jpeg->output_height != height)
    ERREXIT2(jpeg, JERR_IMAGE_TOO_BIG, jpeg->output_width, jpeg->output_height);
  JSAMPARRAY row =
      (*jpeg->mem->alloc_sarray)((j_common_ptr)jpeg, JPOOL_IMAGE, jpeg->output_width * 4, 1);
  for (int64_t y = 0; y < height; y++) {
    uint8_t *to = rgb + 3 * y * width;
    if (!inks) *row = to;
    while (jpeg->output_scanline == (JDIMENSION)y) (void)jpeg_read_scanlines(jpeg, row, 1);
    if (inks) convert_inks(*row, width, to);
  }
  /* A progressive picture may end between two scans and look whole. */
  if (r->ended && jpeg->progressive_mode) r->lacking = true;
  jpeg->progress = NULL;
}

ac_status ac_jpeg_decode(const ac_picture_file *file, const ac_picture_info *info, int reduction,
                         uint8_t *rgb) {
  reader r = {0};
  begin(&r, file);
  if (setjmp(r.leave)) {
    jpeg_destroy_decompress(&r.jpeg);
    return damaged(&r);
  }
  read_header(&r);
  if (r.jpeg.image_width != info->width || r.jpeg.image_height != info->height)
    ERREXIT2(&r.jpeg, JERR_IMAGE_TOO_BIG, r.jpeg.image_width, r.jpeg.image_height);
  read_rows(&r, info, reduction, rgb);
  jpeg_destroy_decompress(&r.jpeg);
  return r.lacking ? damaged(&r) : AC_OK;
}

#else

static ac_status missing(const ac_picture_file *file) {
  return ac_fail(AC_ERROR_UNSUPPORTED,
                 "%s is a JPEG picture, and this build of Accrue has no libjpeg-turbo to read it",
                 file->path);
}

ac_status ac_jpeg_inspect(const ac_picture_file *file, ac_picture_info *info) {
  (void)info;
  return missing(file);
}

ac_status ac_jpeg_decode(const ac_picture_file *file, const ac_picture_info *info, int reduction,
                         uint8_t *rgb) {
  (void)info, (void)reduction, (void)rgb;
  return missing(file);
}

#endif
