#ifndef AC_OPS_GELU_H
#define AC_OPS_GELU_H

#include "ops/arguments.h"

typedef struct ac_gelu_attributes {
  ac_gelu_kind kind;
} ac_gelu_attributes;

#endif
