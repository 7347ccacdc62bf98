#ifndef AC_OPS_POOL2D_H
#define AC_OPS_POOL2D_H

#include "ops/arguments.h"

/* Height first, then width, all resolved. A padding is at most half of its kernel, so that no
 * patch lies outside of the image. */
typedef struct ac_pool2d_attributes {
  int32_t kernel[2], stride[2], padding[2];
} ac_pool2d_attributes;

/* Whether each plane of x has one patch, which is the plane: without padding, that is, which would
 * shift it. */
static inline bool ac_pool2d_is_of_planes(const ac_pool2d_attributes *a, const ac_operand *x,
                                          const ac_operand *y) {
  bool one = y->dim[2] * y->dim[3] == 1, padded = a->padding[0] || a->padding[1];
  return one && !padded && a->kernel[0] == x->dim[2] && a->kernel[1] == x->dim[3];
}

#endif
