/* For each sample of m elements with weight w: loss = w / m sum of (p - t)^2;  dp = scale 2 w / m
 * (p - t). */
#include "ops/loss/loss.h"

ac_tensor *ac_mean_squared_error(ac_tensor *prediction, ac_tensor *target, ac_tensor *weights) {
  static const ac_builder builder = {
      "mean_squared_error",
      3,
      {"prediction f32 [B, ...]", "target f32 [B, ...]", "weights? f32 [B]"}};
  ac_tensor *operands[] = {prediction, target, weights};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  ac_shape samples = prediction->shape;
  samples.rank = 1;
  if (prediction->dtype != AC_F32 || target->dtype != AC_F32 || !samples.batched ||
      !ac_shape_equal(&prediction->shape, &target->shape) ||
      !ac_loss_weights_match(weights, &samples))
    return ac_builder_fail(graph, &builder, operands, NULL);
  return ac_loss_emit(graph, AC_OP_mean_squared_error, NULL, 0, 3, operands);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_graph *graph = d->graph;
  AC_TRY(ac_loss_refuse_gradient(d, node, 1, NULL));
  ac_tensor *operands[] = {ac_tensor_at(graph, node->in[0]), ac_tensor_at(graph, node->in[1]),
                           ac_tensor_at(graph, node->in[2])};
  return ac_gradient_emit(d, AC_OP_mean_squared_error_gradient, NULL, 0, 3, operands, 1,
                          &node->in[0]);
}

const ac_op_desc ac_op_desc_mean_squared_error = {
    .can_add = 1,
    .sums = 1,
    .gradient = gradient,
    .flops_per_element = 3,
    .loss_rows = ac_sample_loss_rows,
    .sample = {{"RC", "RC"}, {"8"}, NULL},
};
const ac_op_desc ac_op_desc_mean_squared_error_gradient = {
    .in_place = 1,
    .backward = true,
    .flops_per_element = 2,
    .sample = {{"RC", "RC"}, {"RC"}, NULL},
};
