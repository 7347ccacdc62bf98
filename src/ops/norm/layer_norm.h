#ifndef AC_OPS_LAYER_NORM_H
#define AC_OPS_LAYER_NORM_H

#include "ops/arguments.h"

typedef struct ac_layer_norm_attributes {
  float epsilon;
} ac_layer_norm_attributes;

#endif
