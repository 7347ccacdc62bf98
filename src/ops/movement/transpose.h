#ifndef AC_OPS_TRANSPOSE_H
#define AC_OPS_TRANSPOSE_H

#include "ops/arguments.h"

typedef struct ac_transpose_attributes {
  int32_t axis_a, axis_b; /* axis_a < axis_b */
} ac_transpose_attributes;

#endif
