/* Rows, or single elements, by integers. */
#ifndef AC_OPS_GATHER_H
#define AC_OPS_GATHER_H

#include "ops/arguments.h"

/* What is picked along an axis of the whole. */
typedef struct ac_gather_attributes {
  int64_t length; /* of the axis of the whole: ids are below it */
  int32_t axis;
  int32_t shared;   /* whether ids are the same for every index before the axis */
  int32_t elements; /* an id for each element after the axis; else one for all of these */
  int32_t table;    /* it is an embedding, by name */
} ac_gather_attributes;

/* The whole as [outer, length, inner], what is picked as [outer, count, inner], and ids as
 * [outer, count] without an outer that is shared; with an inner where each element has its own. */
typedef struct ac_gather_view {
  int64_t outer, length, inner, count;
  bool shared, elements;
} ac_gather_view;

static inline ac_gather_view ac_gather_view_of(const ac_operand *whole, const ac_operand *ids,
                                               const ac_gather_attributes *a) {
  ac_gather_view v = {1, whole->dim[a->axis], 1, 0, a->shared, a->elements};
  for (int d = 0; d < whole->rank; d++)
    if (d < a->axis) v.outer *= whole->dim[d];
    else if (d > a->axis) v.inner *= whole->dim[d];
  v.count = ids->count / (v.shared ? 1 : v.outer) / (v.elements ? v.inner : 1);
  return v;
}

#endif
