#ifndef AC_OPS_LEAKY_RELU_H
#define AC_OPS_LEAKY_RELU_H

#include "ops/arguments.h"

typedef struct ac_leaky_relu_attributes {
  float slope; /* not negative, so that y has the sign of x */
} ac_leaky_relu_attributes;

#endif
