#ifndef AC_OPS_SOFTMAX_H
#define AC_OPS_SOFTMAX_H

#include "ops/arguments.h"

typedef struct ac_softmax_attributes {
  int32_t axis;
  int32_t logarithm; /* of the softmax */
} ac_softmax_attributes;

#endif
