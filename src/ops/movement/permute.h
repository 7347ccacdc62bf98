/* Axes in another order, and what a kernel makes of it. */
#ifndef AC_OPS_PERMUTE_H
#define AC_OPS_PERMUTE_H

#include "ops/arguments.h"

typedef struct ac_permute_attributes {
  int32_t axes[AC_MAX_RANK]; /* axis d of y is axis axes[d] of x */
} ac_permute_attributes;

/* Axes of y as a kernel goes over them, without those of 1; neighbours in x that are also
 * neighbours in y are one. Their strides are those in x. There is one at least. */
typedef struct ac_permuted_axes {
  int rank;
  int64_t dim[AC_MAX_RANK], stride[AC_MAX_RANK];
} ac_permuted_axes;

ac_permuted_axes ac_permuted_axes_of(const ac_op_args *args);

#endif
