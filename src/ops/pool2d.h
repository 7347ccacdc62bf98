#ifndef AC_OPS_POOL2D_H
#define AC_OPS_POOL2D_H

#include "ops/op.h"

/* Height first, then width, all resolved. A padding is at most half of its kernel, so that no
 * window lies outside of the image. */
typedef struct ac_pool2d_attributes {
  int32_t kernel[2], stride[2], padding[2];
} ac_pool2d_attributes;

#endif
