/* Over each output's row of w[O, ...], with r = 1 / sqrt(var + epsilon):
 *   y = (w - mean) r;  dw = r (dy - mean(dy) - y mean(dy y))
 * The forward pass keeps (mean, r) of each row; y is computed anew from w. Nothing here depends on
 * the batch: every micro-batch computes the same y, and its gradient adds to that of w. */
#include "ops/norm/weight_standardisation.h"

#include "ops/norm/norm.h"

ac_tensor *ac_weight_standardisation(ac_tensor *weight, float epsilon) {
  static const ac_builder builder = {"weight_standardisation", 1, {"weight f32 [O, ...]"}};
  const ac_op op = AC_OP_weight_standardisation;
  ac_graph *graph = ac_builder_graph(&builder, &weight);
  if (!graph) return NULL;
  if (weight->dtype != AC_F32 || weight->shape.rank < 2 || weight->shape.batched)
    return ac_builder_fail(graph, &builder, &weight, NULL);
  ac_weight_standardisation_attributes attributes = {epsilon};
  if (!ac_norm_epsilon(graph, &builder, &weight, &attributes.epsilon)) return NULL;
  ac_tensor_at(graph, weight->storage)->matrix = AC_MATRIX_OUT_IN;
  ac_shape statistics = {.rank = 2, .dim = {weight->shape.dim[0], 2}};
  return ac_norm_emit(graph, op, &attributes, sizeof attributes, 1, &weight, &statistics);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_graph *graph = d->graph;
  ac_tensor *operands[] = {ac_gradient_of(d, node->out[0]), ac_tensor_at(graph, node->in[0]),
                           ac_tensor_at(graph, node->out[1])};
  return ac_gradient_emit(d, AC_OP_weight_standardisation_gradient, NULL, 0, 3, operands, 1,
                          &node->in[0]);
}

/* Counted by hand from the formulas above, per element of w. */

static const ac_weight_standardisation_attributes sampled = {1e-5f};

const ac_op_desc ac_op_desc_weight_standardisation = {
    .gradient = gradient,
    .flops_per_element = 6,
    .sample = {{"RC"}, {"RC", "R2"}, &sampled},
};
const ac_op_desc ac_op_desc_weight_standardisation_gradient = {
    .in_place = 1,
    .can_add = 1,
    .backward = true,
    .flops_per_element = 9,
    .sample = {{"RC", "RC", "R2"}, {"RC"}, NULL},
};
