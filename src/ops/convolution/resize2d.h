/* How images are resized, along each axis by itself: the element i of the result is a sum of one,
 * two or four neighbours around the position s of the image,
 *   nearest    x[floor(scale i)], a product in floats, so that every device picks the same
 *   bilinear   (1 - t) x[f] + t x[f + 1]
 *   bicubic    sum over k from -1 to 2 of c(t - k) x[f + k], with Keys' kernel for a = -3/4
 * with s = scale i where corners are aligned, else scale (i + 1/2) - 1/2, f = floor(s) and
 * t = s - f. Bilinear s are at least 0. Neighbours beyond the image are those at its edge. */
#ifndef AC_OPS_RESIZE2D_H
#define AC_OPS_RESIZE2D_H

#include "ops/arguments.h"

#include <accrue/image.h>

typedef struct ac_resize2d_attributes {
  int32_t kind; /* ac_resize_kind */
  int32_t align_corners;
  float scale[2]; /* pixels of the image for one of the result; height first */
} ac_resize2d_attributes;

/* Neighbours of an axis. */
static inline int ac_resize_taps(int32_t kind) {
  return kind == AC_RESIZE_BICUBIC ? 4 : kind == AC_RESIZE_BILINEAR ? 2 : 1;
}

#endif
