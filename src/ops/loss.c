#include "ops/loss.h"

ac_tensor *ac_loss_emit(ac_graph *graph, ac_op op, const void *attributes, size_t size, int count,
                        ac_tensor *const *operands) {
  static const ac_shape sums = {.rank = 1, .dim = {AC_LOSS_SUMS}};
  int node = ac_graph_append(graph, op, attributes, size, count, operands);
  return ac_graph_add_output(graph, node, AC_ROLE_LOSS, AC_F32, &sums);
}

bool ac_loss_weights_match(const ac_tensor *weights, const ac_shape *rows) {
  return !weights || (weights->dtype == AC_F32 && ac_shape_equal(&weights->shape, rows));
}

ac_status ac_loss_refuse_gradient(ac_differentiation *d, const ac_node *node, int first) {
  for (int i = first; i < AC_MAX_INPUTS; i++)
    if (ac_gradient_wanted(d, node->in[i]))
      return ac_fail(AC_ERROR_UNSUPPORTED, "%s: operand %d must not depend on trainable parameters",
                     ac_op_name(node->op), i);
  return AC_OK;
}
