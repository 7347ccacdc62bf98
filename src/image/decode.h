/* Pictures of files, decoded to bytes: JPEG by libjpeg-turbo, PNG by libpng, WebP by libwebp, each
 * if the library was built with it. A file is in memory whole. Nothing in it is believed before it
 * is checked: sizes have a limit, and what is damaged or truncated is refused by a sentence that
 * names the file. */
#ifndef AC_IMAGE_DECODE_H
#define AC_IMAGE_DECODE_H

#include <accrue/base.h>

typedef enum ac_picture_format {
  AC_PICTURE_JPEG,
  AC_PICTURE_PNG,
  AC_PICTURE_WEBP,
  AC_PICTURE_FORMATS
} ac_picture_format;

/* What a file says about itself. */
typedef struct ac_picture_info {
  ac_picture_format format;
  int64_t width, height; /* as stored, before the orientation */
  int orientation;       /* 1 to 8, as in EXIF */
} ac_picture_info;

/* A file in memory. */
typedef struct ac_picture_file {
  const char *path; /* for sentences */
  const uint8_t *data;
  size_t bytes;
} ac_picture_file;

/* Pixels that a picture may have; more are refused before they take memory. */
#define AC_PICTURE_MOST_PIXELS (INT64_C(1) << 27)
enum { AC_PICTURE_MOST_SIDE = 65535, AC_PICTURE_MOST_BYTES = 1 << 30 /* of a file */ };

/* Reads the header. */
ac_status ac_picture_inspect(const ac_picture_file *file, ac_picture_info *info);

/* How much smaller a JPEG is decoded: 1, 2, 4 or 8 times. It is the most that leaves both sides of
 * the picture, as stored, at least that large. */
int ac_picture_reduction(const ac_picture_info *info, int64_t width, int64_t height);
/* A side after that. */
int64_t ac_picture_reduced(int64_t side, int reduction);

/* Writes rows of `channels` (1 or 3) bytes a pixel to `pixels`, which has room for 3 bytes for each
 * pixel of the reduced picture, also for one channel. Alpha is dropped; of 16 bits the upper 8 are
 * kept; a grey picture has three equal channels; grey of a coloured one is (19595 R + 38470 G +
 * 7471 B) / 65536, rounded. Not turned by the orientation yet. */
ac_status ac_picture_decode(const ac_picture_file *file, const ac_picture_info *info, int reduction,
                            int channels, uint8_t *pixels);

/* Turns a picture as EXIF's orientation says, from `from` to `to`; orientations from 5 on swap
 * width and height, which are those of `from`. */
void ac_picture_orient(const uint8_t *from, int64_t width, int64_t height, int channels,
                       int orientation, uint8_t *to);

/* ---- for the formats ------------------------------------------------------------------------- */

/* The orientation in EXIF data (a TIFF header and its first directory); 1 if there is none. */
int ac_exif_orientation(const uint8_t *data, size_t bytes);

/* Fails if this library has no decoder for the format. */
ac_status ac_jpeg_inspect(const ac_picture_file *file, ac_picture_info *info);
ac_status ac_jpeg_decode(const ac_picture_file *file, const ac_picture_info *info, int reduction,
                         uint8_t *rgb);
ac_status ac_png_inspect(const ac_picture_file *file, ac_picture_info *info);
ac_status ac_png_decode(const ac_picture_file *file, const ac_picture_info *info, uint8_t *rgb);
/* A byte for each pixel as it is stored: its place in the palette, or its level of grey. Refuses
 * other pixels. */
ac_status ac_png_decode_mask(const ac_picture_file *file, const ac_picture_info *info,
                             uint8_t *ids);
ac_status ac_webp_inspect(const ac_picture_file *file, ac_picture_info *info);
ac_status ac_webp_decode(const ac_picture_file *file, const ac_picture_info *info, uint8_t *rgb);

#endif
