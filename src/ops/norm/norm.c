#include "ops/norm/norm.h"

#include <math.h>

bool ac_norm_over_channels(ac_graph *graph, const ac_builder *builder, ac_tensor *const *operands) {
  const ac_tensor *x = operands[0], *gamma = operands[1], *beta = operands[2];
  if (x->dtype == AC_F32 && x->shape.rank >= 2 &&
      (!gamma || ac_is_float_vector(gamma, x->shape.dim[1])) &&
      (!beta || ac_is_float_vector(beta, x->shape.dim[1])))
    return true;
  ac_builder_fail(graph, builder, operands, NULL);
  return false;
}

bool ac_norm_epsilon(ac_graph *graph, const ac_builder *builder, ac_tensor *const *operands,
                     float *epsilon) {
  if (*epsilon == 0) *epsilon = 1e-5f;
  if (*epsilon > 0 && !isinf(*epsilon)) return true;
  ac_builder_fail(graph, builder, operands, "epsilon is %g", (double)*epsilon);
  return false;
}

ac_tensor *ac_norm_emit(ac_graph *graph, ac_op op, const void *attributes, size_t size, int count,
                        ac_tensor *const *operands, const ac_shape *statistics) {
  ac_tensor *y = ac_graph_emit(graph, op, attributes, size, count, operands, &operands[0]->shape);
  if (!y || !ac_graph_add_output(graph, y->producer, AC_ROLE_ACTIVATION, AC_F32, statistics))
    return NULL;
  return y;
}
