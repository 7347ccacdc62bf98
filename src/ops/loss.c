#include "ops/loss.h"

#include "ops/linear_cross_entropy.h"

static void add_targets(ac_loss_rows *rows, const ac_tensor *targets,
                        const ac_cross_entropy_attributes *attributes) {
  rows->per_sample = ac_shape_count(&targets->shape);
  rows->ignore = attributes->ignore;
  rows->ignore_index = attributes->ignore_index;
}

bool ac_loss_rows_of(const ac_graph *graph, const ac_node *node, ac_loss_rows *rows) {
  const void *attributes = node->attributes;
  if (node->op == AC_OP_cross_entropy) {
    *rows = (ac_loss_rows){.targets = 1, .weights = node->in[2] >= 0 ? 2 : -1};
    rows->classes = ac_shape_last(&ac_tensor_at(graph, node->in[0])->shape);
    add_targets(rows, ac_tensor_at(graph, node->in[1]), attributes);
    return true;
  }
  if (node->op == AC_OP_linear_cross_entropy) {
    const ac_linear_cross_entropy_attributes *linear = attributes;
    *rows = (ac_loss_rows){.targets = 2, .weights = node->in[3] >= 0 ? 3 : -1};
    rows->classes =
        ac_tensor_at(graph, node->in[1])->shape.dim[linear->layout == AC_OUT_IN ? 0 : 1];
    add_targets(rows, ac_tensor_at(graph, node->in[2]), &linear->loss);
    return true;
  }
  *rows = (ac_loss_rows){.targets = -1, .weights = node->in[2] >= 0 ? 2 : -1, .per_sample = 1};
  return node->op == AC_OP_mean_squared_error || node->op == AC_OP_binary_cross_entropy;
}

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
