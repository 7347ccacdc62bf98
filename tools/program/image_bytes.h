/* Images of samples as rows of pixels, to be shown. */
#ifndef TOOLS_PROGRAM_IMAGE_BYTES_H
#define TOOLS_PROGRAM_IMAGE_BYTES_H

#include <accrue/dataset.h>
#include <jansson.h>

/* A sample of a dataset of images. */
typedef struct image_sample {
  ac_dataset *dataset;
  int64_t channels, height, width;
  int images; /* the field */
  void *fields[AC_MAX_FIELDS];
} image_sample;

/* A status of message.h; image_sample_close is needed in any case. */
int image_sample_open(image_sample *s, ac_dataset *dataset);
void image_sample_close(image_sample *s);

int image_sample_read(image_sample *s, const ac_sample_key *key);

/* Writes the pixel at (x, y) of what was read: `channels` bytes. */
void image_sample_pixel(const image_sample *s, int64_t x, int64_t y, uint8_t *to);

/* What was read, as a PNG picture in base64. It is made smaller by a whole factor, so that no side
 * is longer than `side`. NULL: a message has said why. */
json_t *image_sample_png(const image_sample *s, int64_t side);

#endif
