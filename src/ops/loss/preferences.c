/* Losses that prefer one answer to another. */
#include <accrue/pointwise.h>

#include "ops/loss/loss.h"

#include <float.h>
#include <math.h>

ac_tensor *ac_dpo_loss(ac_tensor *policy_chosen, ac_tensor *policy_rejected,
                       ac_tensor *reference_chosen, ac_tensor *reference_rejected,
                       ac_tensor *weights, const ac_dpo_desc *desc) {
  static const ac_builder builder = {
      "dpo_loss",
      5,
      {"policy_chosen f32 [B, ...]", "policy_rejected f32 [B, ...]",
       "reference_chosen? f32 [B, ...]", "reference_rejected? f32 [B, ...]",
       "weights? f32 [B, ...] like the others or their first dimensions"}};
  ac_tensor *operands[] = {policy_chosen, policy_rejected, reference_chosen, reference_rejected,
                           weights};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  const ac_dpo_desc d = desc ? *desc : (ac_dpo_desc)AC_DEFAULTS;
  const int count = reference_chosen ? 4 : 2;
  if (!reference_chosen != !reference_rejected)
    return ac_builder_fail(graph, &builder, operands, "there is one reference without the other");
  for (int i = 0; i < count; i++)
    if (operands[i]->dtype != AC_F32 || !operands[i]->shape.batched ||
        !ac_shape_equal(&operands[i]->shape, &policy_chosen->shape))
      return ac_builder_fail(graph, &builder, operands, NULL);
  if (weights && !ac_loss_weights_lead(weights, &policy_chosen->shape))
    return ac_builder_fail(graph, &builder, operands, NULL);
  const float beta = d.beta == 0 ? 0.1f : d.beta, s = d.label_smoothing;
  if (!ac_loss_number(&builder, operands, "beta", beta, FLT_MIN, FLT_MAX) ||
      !ac_loss_number(&builder, operands, "label_smoothing", s, 0, 0.5f))
    return NULL;
  /* -(1 - s) log sigmoid(z) - s log sigmoid(-z), with log sigmoid(-z) = log sigmoid(z) - z. */
  const float numbers[] = {beta, s, beta};
  const char *formula = count == 4
                            ? "# * ((a - c) - (b - d)) * # - log_sigmoid(# * ((a - c) - (b - d)))"
                            : "# * (a - b) * # - log_sigmoid(# * (a - b))";
  return ac_loss(ac_loss_formula(graph, formula, operands, count, numbers), weights);
}
