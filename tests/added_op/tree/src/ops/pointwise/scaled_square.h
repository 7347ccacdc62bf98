#ifndef AC_OPS_SCALED_SQUARE_H
#define AC_OPS_SCALED_SQUARE_H

#include "ops/arguments.h"

typedef struct ac_scaled_square_attributes {
  float factor;
} ac_scaled_square_attributes;

#endif
