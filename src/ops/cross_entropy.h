#ifndef AC_OPS_CROSS_ENTROPY_H
#define AC_OPS_CROSS_ENTROPY_H

#include "ops/op.h"

typedef struct ac_cross_entropy_attributes {
  bool ignore;
  int32_t ignore_index;
  float smoothing;
} ac_cross_entropy_attributes;

#endif
