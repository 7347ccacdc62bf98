/* Labelled images in memory as bytes, wherever they were read from, and the datasets cut from them.
 * Pixels become floats when a sample is read. A set lives until the last dataset cut from it is
 * freed, so datasets are freed one by one, in any order. */
#ifndef AC_DATA_IMAGE_SET_H
#define AC_DATA_IMAGE_SET_H

#include "data/dataset.h"

#include <stdatomic.h>

typedef struct ac_image_set {
  atomic_int users;
  int64_t count, classes;
  int64_t shape[3]; /* channels, height, width */
  uint8_t *pixels;  /* image i begins at pixels + i * pixel_stride ... */
  uint8_t *labels;  /* ... and its label is labels[i * label_stride]; NULL: there are none */
  size_t pixel_stride, label_stride;
  uint8_t *memory[2]; /* what holds them; freed with the set */
} ac_image_set;

/* Makes an empty set; the caller is its first user. `path` is for messages. */
ac_status ac_image_set_create(ac_image_set **set, const char *path);
void ac_image_set_release(ac_image_set *set); /* NULL: nothing */

int64_t ac_image_set_pixels(const ac_image_set *set); /* in an image */

/* Samples [begin, end) of what was read from `path`; end < 0: to the end. */
ac_status ac_image_set_cut(ac_dataset **dataset, ac_image_set *set, const char *path, int64_t begin,
                           int64_t end);

/* What a folder holds: `training` and `validating`, or, where one of them is NULL, the last 10 % of
 * the other (at least one sample) to validate. Not both are NULL. Where nothing is to validate
 * (`validation` NULL), all of the former train. */
ac_status ac_image_set_split(ac_dataset **train, ac_dataset **validation, const char *folder,
                             ac_image_set *training, ac_image_set *validating);

#endif
