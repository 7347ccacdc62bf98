#include "ops/norm.h"

#include <math.h>

bool ac_norm_is_vector(const ac_tensor *tensor, int64_t count) {
  const ac_shape *shape = &tensor->shape;
  return tensor->dtype == AC_F32 && shape->rank == 1 && !shape->batched && shape->dim[0] == count;
}

bool ac_norm_over_channels(ac_graph *graph, ac_op op, const ac_tensor *x, const ac_tensor *gamma,
                           const ac_tensor *beta) {
  char a[AC_SHAPE_TEXT], b[AC_SHAPE_TEXT];
  const char *name = ac_op_name(op);
  if (x->dtype != AC_F32 || x->shape.rank < 2) {
    ac_graph_fail(graph, AC_ERROR_ARGUMENT, "%s: x is %s %s; it takes f32 [B, C, ...]", name,
                  ac_dtype_name(x->dtype), ac_shape_text(a, &x->shape));
    return false;
  }
  const ac_tensor *vectors[] = {gamma, beta};
  for (int i = 0; i < 2; i++) {
    if (!vectors[i] || ac_norm_is_vector(vectors[i], x->shape.dim[1])) continue;
    ac_graph_fail(graph, AC_ERROR_ARGUMENT, "%s: x is %s but %s is %s", name,
                  ac_shape_text(a, &x->shape), i ? "beta" : "gamma",
                  ac_shape_text(b, &vectors[i]->shape));
    return false;
  }
  return true;
}

bool ac_norm_epsilon(ac_graph *graph, ac_op op, float *epsilon) {
  if (*epsilon == 0) *epsilon = 1e-5f;
  if (*epsilon > 0 && !isinf(*epsilon)) return true;
  ac_graph_fail(graph, AC_ERROR_ARGUMENT, "%s: epsilon is %g", ac_op_name(op), (double)*epsilon);
  return false;
}

ac_tensor *ac_norm_emit(ac_graph *graph, ac_op op, const void *attributes, size_t size, int count,
                        ac_tensor *const *operands, const ac_shape *statistics) {
  ac_tensor *y = ac_graph_emit(graph, op, attributes, size, count, operands, &operands[0]->shape);
  if (!y || !ac_graph_add_output(graph, y->producer, AC_ROLE_ACTIVATION, AC_F32, statistics))
    return NULL;
  return y;
}
