/* What builders of ops that move elements share. */
#ifndef AC_OPS_MOVE_H
#define AC_OPS_MOVE_H

#include "graph/builder.h"

/* Floats, or integers that no other op than those that move them takes. */
static inline bool ac_is_moved(const ac_tensor *x) {
  return x->dtype == AC_F32 || x->dtype == AC_I32;
}

/* Whether it is an axis of the shape, and not the batch. */
static inline bool ac_is_axis(const ac_shape *shape, int axis) {
  return axis >= (shape->batched ? 1 : 0) && axis < shape->rank;
}

/* ac_graph_emit with a result of the first tensor's type. */
ac_tensor *ac_emit_moved(ac_graph *graph, ac_op op, const void *attributes, size_t size, int count,
                         ac_tensor *const *in, const ac_shape *shape);

/* Parts that a backend's slice takes: element (i, j, ...) of the result is element
 * (first[0] + i step[0], ...) of x. */
struct ac_slice_attributes;
ac_tensor *ac_emit_slice(ac_graph *graph, ac_tensor *x, const struct ac_slice_attributes *slice,
                         const ac_shape *shape);

#endif
