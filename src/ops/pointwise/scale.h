#ifndef AC_OPS_SCALE_H
#define AC_OPS_SCALE_H

#include "ops/arguments.h"

typedef struct ac_scale_attributes {
  float factor;
} ac_scale_attributes;

#endif
