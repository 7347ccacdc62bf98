/* y = x s, s = 1 / (1 + exp(-x)): dx = dy s (1 + x (1 - s)). */
#include "ops/pointwise/elementwise.h"

ac_tensor *ac_silu(ac_tensor *x) {
  return ac_unary(AC_OP_silu, x, NULL, 0);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  return ac_unary_gradient(d, node, AC_OP_silu_gradient, node->in[0], 0);
}

const ac_op_desc ac_op_desc_silu = {
    .in_place = 1,
    .gradient = gradient,
    .flops_per_element = 11,
    .sample = {{"n"}, {"n"}, NULL},
};
const ac_op_desc ac_op_desc_silu_gradient = {
    .in_place = 1,
    .backward = true,
    .flops_per_element = 14,
    .sample = {{"n", "n"}, {"n"}, NULL},
};
