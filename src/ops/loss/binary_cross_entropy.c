/* For each sample of m logits z with targets t and weight w, and s = 1 / (1 + exp(-z)):
 *   loss = -w / m sum of (t log s + (1 - t) log(1 - s))
 *        =  w / m sum of (max(z, 0) - z t + log(1 + exp(-|z|)))
 *   dz = scale w / m (s - t)
 * where scale is the loss scale. The second form never overflows, so it is the one that is
 * computed. */
#include "ops/loss/loss.h"

ac_tensor *ac_binary_cross_entropy(ac_tensor *logits, ac_tensor *targets, ac_tensor *weights) {
  static const ac_builder builder = {
      "binary_cross_entropy",
      3,
      {"logits f32 [B, ...]", "targets f32 [B, ...]", "weights? f32 [B]"}};
  ac_tensor *operands[] = {logits, targets, weights};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  ac_shape samples = logits->shape;
  samples.rank = 1;
  if (logits->dtype != AC_F32 || targets->dtype != AC_F32 || !samples.batched ||
      !ac_shape_equal(&logits->shape, &targets->shape) || !ac_loss_weights_match(weights, &samples))
    return ac_builder_fail(graph, &builder, operands, NULL);
  return ac_loss_emit(graph, AC_OP_binary_cross_entropy, NULL, 0, 3, operands);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  AC_TRY(ac_loss_refuse_gradient(d, node, 1, NULL));
  ac_graph *graph = d->graph;
  ac_tensor *operands[] = {ac_tensor_at(graph, node->in[0]), ac_tensor_at(graph, node->in[1]),
                           ac_tensor_at(graph, node->in[2])};
  return ac_gradient_emit(d, AC_OP_binary_cross_entropy_gradient, NULL, 0, 3, operands, 1,
                          &node->in[0]);
}

const ac_op_desc ac_op_desc_binary_cross_entropy = {
    .can_add = 1,
    .sums = 1,
    .gradient = gradient,
    .flops_per_element = 22,
    .loss_rows = ac_sample_loss_rows,
    .sample = {{"RC", "RC"}, {"8"}, NULL},
};
const ac_op_desc ac_op_desc_binary_cross_entropy_gradient = {
    .in_place = 1,
    .backward = true,
    .flops_per_element = 12,
    .sample = {{"RC", "RC"}, {"RC"}, NULL},
};
