/* y = m x, m = 0 with probability p, else 1 / (1 - p); dx = m dy with the same m, which is drawn
 * anew from its counter instead of being kept. */
#include "ops/dropout.h"

#include "ops/elementwise.h"

ac_tensor *ac_dropout(ac_tensor *x, float p) {
  ac_graph *graph = ac_graph_of(AC_OP_dropout, 1, &x);
  if (!graph) return NULL;
  if (!(p >= 0 && p < 1))
    return ac_graph_fail(graph, AC_ERROR_ARGUMENT, "dropout: p is %g, not in [0, 1)", (double)p);
  if (!x->shape.batched)
    return ac_graph_fail(graph, AC_ERROR_ARGUMENT,
                         "dropout: x has no batch dimension, and masks are drawn by sample");
  if (p == 0) return x;
  ac_dropout_attributes attributes = {p, ++graph->streams, ac_shape_count(&x->shape)};
  return ac_unary(AC_OP_dropout, x, &attributes, sizeof attributes);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  return ac_gradient_emit(d, AC_OP_dropout, node->attributes, sizeof(ac_dropout_attributes), 1, &dy,
                          1, &node->in[0]);
}

const ac_op_desc ac_op_desc_dropout = {
    .name = "dropout", .in_place = 1, .gradient = gradient, .flops = ac_flops_per_output};
