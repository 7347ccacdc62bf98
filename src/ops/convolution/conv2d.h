#ifndef AC_OPS_CONV2D_H
#define AC_OPS_CONV2D_H

#include "ops/arguments.h"

/* Height first, then width, all resolved. Padding is what lies before the first element; shapes say
 * what lies after the last one. Of conv_transpose2d they are those of the convolution that makes
 * its x of its y. */
typedef struct ac_conv2d_attributes {
  int32_t stride[2], padding[2], dilation[2];
  int32_t groups;
  /* Of volumes [n, channels, depth, height, width]; their weights have a depth as well. Else 0. */
  int32_t depth_stride, depth_padding, depth_dilation;
} ac_conv2d_attributes;

#endif
