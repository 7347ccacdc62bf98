/* Over the last dimension: y = exp(x - max x) / sum: dx = y (dy - sum of dy y). */
#include "graph/builder.h"
#include "ops/pointwise/elementwise.h"

ac_tensor *ac_softmax(ac_tensor *x) {
  static const ac_builder builder = {"softmax", 1, {"x f32 [..., C]"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  if (x->shape.batched && x->shape.rank < 2)
    return ac_builder_fail(graph, &builder, &x, "the batch is the only dimension of x");
  return ac_unary(AC_OP_softmax, x, NULL, 0);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  return ac_unary_gradient(d, node, AC_OP_softmax_gradient, node->out[0], 0);
}

const ac_op_desc ac_op_desc_softmax = {
    .in_place = 1,
    .gradient = gradient,
    .flops_per_element = 12,
    .sample = {{"RC"}, {"RC"}, NULL},
};
const ac_op_desc ac_op_desc_softmax_gradient = {
    .in_place = 1,
    .backward = true,
    .flops_per_element = 4,
    .sample = {{"RC", "RC"}, {"RC"}, NULL},
};
