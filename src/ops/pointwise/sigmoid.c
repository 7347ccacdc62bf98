/* y = 1 / (1 + exp(-x)): dx = dy y (1 - y). The output is what the backward pass needs. */
#include "ops/pointwise/elementwise.h"

ac_tensor *ac_sigmoid(ac_tensor *x) {
  return ac_unary(AC_OP_sigmoid, x, NULL, 0);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  return ac_unary_gradient(d, node, AC_OP_sigmoid_gradient, node->out[0], 0);
}

const ac_op_desc ac_op_desc_sigmoid = {
    .in_place = 1,
    .gradient = gradient,
    .flops_per_element = 10,
    .sample = {{"n"}, {"n"}, NULL},
};
const ac_op_desc ac_op_desc_sigmoid_gradient = {
    .in_place = 1,
    .backward = true,
    .flops_per_element = 3,
    .sample = {{"n", "n"}, {"n"}, NULL},
};
