#ifndef AC_OPS_SQUARE_H
#define AC_OPS_SQUARE_H

#include "ops/arguments.h"

typedef struct ac_square_attributes {
  float factor;
} ac_square_attributes;

#endif
