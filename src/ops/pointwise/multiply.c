/* c = a * b, b repeated along a's leading dimensions: da = dc * b, db = dc * a summed over them. */
#include "ops/pointwise/elementwise.h"

ac_tensor *ac_multiply(ac_tensor *a, ac_tensor *b) {
  return ac_binary(AC_OP_multiply, a, b);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_tensor *a = ac_tensor_at(d->graph, node->in[0]), *b = ac_tensor_at(d->graph, node->in[1]);
  ac_tensor *dc = ac_gradient_of(d, node->out[0]);
  ac_tensor *of_a[] = {dc, b}, *of_b[] = {dc, a};
  AC_TRY(ac_gradient_emit(d, AC_OP_multiply, NULL, 0, 2, of_a, 1, &node->in[0]));
  if (!ac_gradient_wanted(d, b->id)) return AC_OK;
  if (b->shape.rank == a->shape.rank)
    return ac_gradient_emit(d, AC_OP_multiply, NULL, 0, 2, of_b, 1, &node->in[1]);
  ac_tensor *product = ac_graph_emit(d->graph, AC_OP_multiply, NULL, 0, 2, of_b, &a->shape);
  return ac_broadcast_gradient(d, b->id, product);
}

const ac_op_desc ac_op_desc_multiply = {
    .in_place = 1,
    .can_add = 1,
    .gradient = gradient,
    .flops_per_element = 1,
    .sample = {{"n", "n"}, {"n"}, NULL},
};
