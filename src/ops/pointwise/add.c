/* c = a + b, b repeated along a's leading dimensions: da = dc, db = dc summed over them.
 * sum_leading is that sum: y[j] = sum over i of x[i, j]. */
#include "ops/pointwise/elementwise.h"

ac_tensor *ac_add(ac_tensor *a, ac_tensor *b) {
  return ac_binary(AC_OP_add, a, b);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_tensor *dc = ac_gradient_of(d, node->out[0]);
  AC_TRY(ac_broadcast_gradient(d, node->in[0], dc));
  return ac_broadcast_gradient(d, node->in[1], dc);
}

const ac_op_desc ac_op_desc_add = {
    .in_place = 1,
    .gradient = gradient,
    .flops_per_element = 1,
    .sample = {{"n", "n"}, {"n"}, NULL},
};
const ac_op_desc ac_op_desc_sum_leading = {
    .can_add = 1,
    .backward = true,
    .flops_per_element = 1,
    .sample = {{"RC"}, {"C"}, NULL},
};
