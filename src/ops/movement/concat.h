#ifndef AC_OPS_CONCAT_H
#define AC_OPS_CONCAT_H

#include "ops/arguments.h"

/* The parts lie side by side along `axis`, from `first` on. */
typedef struct ac_concat_attributes {
  int64_t axis, first;
} ac_concat_attributes;

/* A tensor seen as [outer, along the axis, inner]. */
typedef struct ac_concat_view {
  int64_t outer, length, inner;
} ac_concat_view;

static inline ac_concat_view ac_concat_view_of(const ac_operand *x, int axis) {
  ac_concat_view v = {1, x->dim[axis], 1};
  for (int i = 0; i < x->rank; i++)
    if (i < axis) v.outer *= x->dim[i];
    else if (i > axis) v.inner *= x->dim[i];
  return v;
}

#endif
