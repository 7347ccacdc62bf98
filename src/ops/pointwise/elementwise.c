#include "ops/pointwise/elementwise.h"

#include "graph/builder.h"
#include "ops/reduction/reduction.h"

#include <string.h>

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

/* Whether b's shape equals the last dimensions of a's. The batch matches only the batch. */
static bool is_suffix(const ac_shape *a, const ac_shape *b) {
  if (b->rank > a->rank || (b->batched && b->rank < a->rank)) return false;
  if (b->rank == a->rank) return ac_shape_equal(a, b);
  return !memcmp(a->dim + a->rank - b->rank, b->dim, (size_t)b->rank * sizeof b->dim[0]);
}

ac_tensor *ac_binary(ac_op op, ac_tensor *a, ac_tensor *b) {
  ac_tensor *operands[] = {a, b};
  const ac_builder builder = {
      ac_op_name(op), 2, {"a f32 [..., X]", "b f32 [X], or the other way round"}};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  if (b->shape.rank > a->shape.rank) operands[0] = b, operands[1] = a;
  const ac_shape *larger = &operands[0]->shape, *smaller = &operands[1]->shape;
  if (a->dtype != AC_F32 || b->dtype != AC_F32 || !is_suffix(larger, smaller))
    return ac_builder_fail(graph, &builder, (ac_tensor *[]){a, b}, NULL);
  return ac_graph_emit(graph, op, NULL, 0, 2, operands, larger);
}

ac_status ac_broadcast_gradient(ac_differentiation *d, int target, ac_tensor *gradient) {
  return ac_gradient_sum_to(d, target, gradient);
}
