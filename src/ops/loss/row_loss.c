/* Losses that the graph computes itself: m neighbouring elements l form a row, and each weight w is
 * that of so many neighbouring rows (1 without weights):
 *   loss = f sum of w l,  weight = sum of w over rows,  dl = scale f w
 * where scale is the loss scale, and f is 1 for sums and 1 / m for means. What has weight 0 counts
 * for nothing, whatever its loss is. */
#include "ops/loss/row_loss.h"

#include "ops/loss/loss.h"

/* Whether `weights` has the leading dimensions of `rows`, and ones or nothing in place of the rest.
 */
bool ac_loss_weights_lead(const ac_tensor *weights, const ac_shape *rows) {
  if (!weights) return true;
  const ac_shape *w = &weights->shape;
  if (weights->dtype != AC_F32 || w->rank > rows->rank || w->batched != rows->batched) return false;
  int lead = w->rank;
  while (lead > 1 && w->dim[lead - 1] == 1) lead--;
  for (int i = 0; i < lead; i++)
    if (w->dim[i] != rows->dim[i]) return false;
  return true;
}

ac_tensor *ac_loss_of_rows(ac_tensor *losses, ac_tensor *weights, int64_t elements, float factor,
                           const ac_tensor *made_by) {
  if (!losses) return NULL;
  const ac_row_loss_attributes attributes = {.elements = elements, .factor = factor};
  ac_tensor *operands[] = {losses, weights};
  ac_tensor *loss =
      ac_loss_emit(losses->graph, AC_OP_row_loss, &attributes, sizeof attributes, 2, operands);
  if (loss && made_by) loss->made_by = made_by->id;
  return loss;
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
      !ac_loss_weights_lead(weights, &per_row->shape))
    return ac_builder_fail(graph, &builder, operands, NULL);
  return ac_loss_of_rows(per_row, weights, 1, 1, NULL);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  AC_TRY(ac_loss_refuse_gradient(d, node, 1, "multiply the losses with it"));
  ac_tensor *weights = ac_tensor_at(d->graph, node->in[1]);
  return ac_gradient_emit(d, AC_OP_row_loss_gradient, node->attributes,
                          sizeof(ac_row_loss_attributes), 1, &weights, 1, &node->in[0]);
}

static double gradient_flops(const ac_op_args *args) {
  return (double)args->out[0].count;
}

static ac_loss_rows loss_rows(const ac_op_args *args) {
  const ac_row_loss_shape s = ac_row_loss_shape_of(args, args->in[0].count, &args->in[1]);
  return (ac_loss_rows){
      .weights = s.weights ? 1 : -1, .per_sample = s.rows, .per_weight = s.rows_per_weight};
}

static const ac_row_loss_attributes sampled = {.elements = 1, .factor = 1};

const ac_op_desc ac_op_desc_row_loss = {
    .can_add = 1,
    .sums = 1,
    .gradient = gradient,
    .flops_per_element = 2,
    .loss_rows = loss_rows,
    .sample = {{"n", "n"}, {"8"}, &sampled},
};
const ac_op_desc ac_op_desc_row_loss_gradient = {
    .backward = true,
    .flops = gradient_flops,
    .sample = {{"n"}, {"n"}, &sampled},
};
