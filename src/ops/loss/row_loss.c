/* Losses that the graph computes itself, l[i], a row each. Row i has the weight w[i / k], where k
 * neighbouring rows share one (1 without weights):
 *   loss = sum of w l;  dl[i] = scale w[i / k]
 * where scale is the loss scale. A row of weight 0 counts for nothing, whatever its loss is. */
#include "ops/loss/loss.h"

/* Whether `weights` has the leading dimensions of `rows`, and ones or nothing in place of the rest.
 */
static bool weights_lead(const ac_tensor *weights, const ac_shape *rows) {
  if (!weights) return true;
  const ac_shape *w = &weights->shape;
  if (weights->dtype != AC_F32 || w->rank > rows->rank || w->batched != rows->batched) return false;
  int lead = w->rank;
  while (lead > 1 && w->dim[lead - 1] == 1) lead--;
  for (int i = 0; i < lead; i++)
    if (w->dim[i] != rows->dim[i]) return false;
  return true;
}

ac_tensor *ac_loss(ac_tensor *per_row, ac_tensor *weights) {
  static const ac_builder builder = {
      "loss",
      2,
      {"per_row f32 [B, ...]", "weights? f32 [B, ...] like per_row or its first dimensions"}};
  ac_tensor *operands[] = {per_row, weights};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  if (per_row->dtype != AC_F32 || !per_row->shape.batched ||
      !weights_lead(weights, &per_row->shape))
    return ac_builder_fail(graph, &builder, operands, NULL);
  return ac_loss_emit(graph, AC_OP_row_loss, NULL, 0, 2, operands);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  AC_TRY(ac_loss_refuse_gradient(d, node, 1, "multiply per_row with it"));
  ac_tensor *weights = ac_tensor_at(d->graph, node->in[1]);
  return ac_gradient_emit(d, AC_OP_row_loss_gradient, NULL, 0, 1, &weights, 1, &node->in[0]);
}

static double gradient_flops(const ac_op_args *args) {
  return (double)args->out[0].count;
}

static ac_loss_rows loss_rows(const ac_op_args *args) {
  const int64_t rows = args->in[0].count, weights = args->in[1].count;
  return (ac_loss_rows){
      .weights = weights ? 1 : -1, .per_sample = rows, .per_weight = weights ? rows / weights : 0};
}

const ac_op_desc ac_op_desc_row_loss = {
    .can_add = 1,
    .sums = 1,
    .gradient = gradient,
    .flops_per_element = 2,
    .loss_rows = loss_rows,
    .sample = {{"n", "n"}, {"8"}, NULL},
};
const ac_op_desc ac_op_desc_row_loss_gradient = {
    .backward = true,
    .flops = gradient_flops,
    .sample = {{"n"}, {"n"}, NULL},
};
