#ifndef AC_OPS_LINEAR_H
#define AC_OPS_LINEAR_H

#include "ops/arguments.h"

typedef struct ac_linear_attributes {
  ac_layout layout; /* of the weight: AC_OUT_IN [out, in] or AC_IN_OUT [in, out] */
} ac_linear_attributes;

#endif
