#ifndef AC_OPS_UPSAMPLE_NEAREST2D_H
#define AC_OPS_UPSAMPLE_NEAREST2D_H

#include "ops/arguments.h"

typedef struct ac_upsample_nearest2d_attributes {
  int32_t factor; /* of height and width */
} ac_upsample_nearest2d_attributes;

#endif
