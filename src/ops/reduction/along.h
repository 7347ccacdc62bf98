/* What the ops along one axis get: argmax, cumulative_sum, top_k. */
#ifndef AC_OPS_ALONG_H
#define AC_OPS_ALONG_H

#include "ops/arguments.h"

typedef struct ac_argmax_attributes {
  int32_t axis;
} ac_argmax_attributes;

typedef struct ac_cumulative_sum_attributes {
  int32_t axis;
  int32_t reversed; /* from the last element on */
} ac_cumulative_sum_attributes;

/* An operand as [outer, length, inner] around an axis. */
typedef struct ac_along {
  int64_t outer, length, inner;
} ac_along;

static inline ac_along ac_along_axis(const ac_operand *x, int axis) {
  ac_along along = {1, 1, 1};
  for (int d = 0; d < axis; d++) along.outer *= x->dim[d];
  along.length = x->dim[axis];
  for (int d = axis + 1; d < x->rank; d++) along.inner *= x->dim[d];
  return along;
}

#endif
