#include "ops/pointwise/elementwise.h"

#include "graph/builder.h"

ac_tensor *ac_unary(ac_op op, ac_tensor *x, const void *attributes, size_t size) {
  const ac_builder builder = {ac_op_name(op), 1, {"x f32"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  if (x->dtype != AC_F32) return ac_builder_fail(graph, &builder, &x, NULL);
  return ac_graph_emit(graph, op, attributes, size, 1, &x, &x->shape);
}

ac_status ac_unary_gradient(ac_differentiation *d, const ac_node *node, ac_op op, int saved,
                            size_t attribute_bytes) {
  ac_tensor *operands[] = {ac_gradient_of(d, node->out[0]), ac_tensor_at(d->graph, saved)};
  return ac_gradient_emit(d, op, node->attributes, attribute_bytes, 2, operands, 1, &node->in[0]);
}
