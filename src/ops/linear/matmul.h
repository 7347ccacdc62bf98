#ifndef AC_OPS_MATMUL_H
#define AC_OPS_MATMUL_H

#include "ops/arguments.h"

typedef struct ac_matmul_attributes {
  bool transpose_a, transpose_b; /* of the last two dimensions */
} ac_matmul_attributes;

#endif
