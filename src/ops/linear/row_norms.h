#ifndef AC_OPS_ROW_NORMS_H
#define AC_OPS_ROW_NORMS_H

#include "ops/arguments.h"

typedef struct ac_row_norms_attributes {
  ac_layout layout; /* of W: AC_OUT_IN [out, in] or AC_IN_OUT [in, out]; A is [r, in], B [out, r] */
  float scale;      /* s */
} ac_row_norms_attributes;

#endif
