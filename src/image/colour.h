/* Changes of a picture's colours, equal to those of Pillow's ImageEnhance and ImageOps to the bit.
 * Pixels have 1 or 3 bytes, and are changed in place. */
#ifndef AC_IMAGE_COLOUR_H
#define AC_IMAGE_COLOUR_H

#include <stdint.h>

typedef struct ac_pixels {
  uint8_t *data;
  int64_t width, height;
  int channels;
} ac_pixels;

/* What is between black, grey of the mean, grey of each pixel, or a smoothed picture (0) and the
 * picture (1); a factor beyond 1 goes on in the same direction. */
void ac_picture_brightness(const ac_pixels *p, float factor);
void ac_picture_contrast(const ac_pixels *p, float factor);
void ac_picture_saturation(const ac_pixels *p, float factor);
/* `room` has as many bytes as the picture. */
void ac_picture_sharpness(const ac_pixels *p, float factor, uint8_t *room);
/* Turns the circle of hues by `turn` (1: all of it), in [-1/2, 1/2]. */
void ac_picture_hue(const ac_pixels *p, double turn);

void ac_picture_posterize(const ac_pixels *p, int bits);        /* keeps so many of 8 */
void ac_picture_solarize(const ac_pixels *p, double threshold); /* inverts from there on */
void ac_picture_autocontrast(const ac_pixels *p);               /* each channel from 0 to 255 */
void ac_picture_equalize(const ac_pixels *p);                   /* each channel's histogram */
void ac_picture_mirror(const ac_pixels *p);                     /* left to right */

/* The pixel at (x, y) is that at (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]), of `room`, which
 * gets a copy of the picture; centres of pixels are at halves. What is outside gets the bytes
 * `fill`. */
void ac_picture_transform(const ac_pixels *p, const double m[6], uint8_t fill, uint8_t *room);

#endif
