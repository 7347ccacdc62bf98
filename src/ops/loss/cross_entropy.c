/* For each row with target t and weight w: loss = w (lse - x[t]), lse = log sum exp(x), which is
 * kept as two floats, max(x) and log sum exp(x - max): their sum would lose the smaller one.
 *   dx[j] = scale w (exp(x[j] - lse) - [j = t])
 * where scale is the loss scale: the gradient is that of the sum. With smoothing s the target is,
 * while training, a distribution over the V classes, q[j] = (1 - s) [j = t] + s / V:
 *   loss = w (lse - sum of q x) = w ((1 - s) (lse - x[t]) + s (lse - mean(x)))
 *   dx[j] = scale w (exp(x[j] - lse) - q[j]) */
#include "ops/loss/cross_entropy.h"

#include "ops/loss/loss.h"
#include "ops/words.h"

#include <string.h>

bool ac_loss_cap_fits(const ac_builder *builder, ac_tensor *const *operands, float cap) {
  return cap == 0 || ac_loss_number(builder, operands, "soft_cap", cap, 1e-6f, 1e6f);
}

bool ac_cross_entropy_describe(ac_graph *graph, const ac_builder *builder,
                               ac_tensor *const *operands, const ac_cross_entropy_desc *desc,
                               ac_cross_entropy_attributes *attributes) {
  const ac_cross_entropy_desc described = AC_DESCRIBED(ac_cross_entropy_desc, desc);
  memset(attributes, 0, sizeof *attributes); /* plans compare all bytes (plan/works.c) */
  attributes->ignore = described.ignore;
  attributes->ignore_index = described.ignore_index;
  attributes->smoothing = described.smoothing;
  if (!(described.smoothing >= 0 && described.smoothing < 1)) {
    ac_builder_fail(graph, builder, operands, "smoothing is %g, not in [0, 1)",
                    (double)described.smoothing);
    return false;
  }
  return ac_loss_cap_fits(builder, operands, described.soft_cap);
}

/* Dimensions [first, last) as one. The batch's stays the first. */
static int64_t product_of(const ac_shape *shape, int first, int last) {
  int64_t product = 1;
  for (int i = first; i < last; i++) product *= shape->dim[i];
  return product;
}

/* Logits [..., V, ...] as [rows, V] and their targets and weights as [rows], by a transposition:
 * the dimensions before the classes are one, and those after them another. */
static bool move_classes(ac_graph *graph, ac_tensor **operands, int axis) {
  const ac_shape *x = &operands[0]->shape;
  ac_shape shape = {.rank = 3, .batched = x->batched};
  shape.dim[0] = product_of(x, 0, axis);
  shape.dim[1] = x->dim[axis];
  shape.dim[2] = product_of(x, axis + 1, x->rank);
  ac_shape rows = {.rank = 2, .batched = x->batched, .dim = {shape.dim[0], shape.dim[2]}};
  operands[0] = ac_transpose(ac_graph_view(graph, operands[0], &shape), 1, 2);
  for (int i = 1; i < 3; i++)
    if (operands[i]) operands[i] = ac_graph_view(graph, operands[i], &rows);
  return operands[0] != NULL;
}

ac_tensor *ac_cross_entropy(ac_tensor *logits, ac_tensor *targets, ac_tensor *weights,
                            const ac_cross_entropy_desc *desc) {
  static const ac_builder builder = {
      "cross_entropy", 3, {"logits f32 [..., V]", "targets i32 [...]", "weights? f32 [...]"}};
  ac_tensor *operands[] = {logits, targets, weights};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  const int given = desc ? desc->axis : 0, rank = logits->shape.rank;
  const int axis = given > 0 ? given : given + rank - (given == 0);
  if (given && (axis < 1 || axis >= rank))
    return ac_builder_fail(graph, &builder, operands,
                           "axis is %d, but the classes are on another axis than the first", given);
  ac_shape rows = logits->shape;
  rows.rank--;
  for (int i = axis; i < rows.rank; i++) rows.dim[i] = rows.dim[i + 1];
  if (logits->dtype != AC_F32 || rows.rank < 1 || targets->dtype != AC_I32 ||
      !ac_shape_equal(&targets->shape, &rows) || !ac_loss_weights_match(weights, &rows))
    return ac_builder_fail(graph, &builder, operands, NULL);
  ac_cross_entropy_attributes attributes;
  if (!ac_cross_entropy_describe(graph, &builder, operands, desc, &attributes)) return NULL;
  if (desc && desc->soft_cap)
    return ac_builder_fail(graph, &builder, operands,
                           "soft_cap is for linear_cross_entropy; cap the logits by tanh");
  if (axis < rank - 1 && !move_classes(graph, operands, axis)) return NULL;
  ac_tensor *sums =
      ac_loss_emit(graph, AC_OP_cross_entropy, &attributes, sizeof attributes, 3, operands);
  ac_shape extents = operands[0]->shape;
  extents.dim[extents.rank - 1] = 2;
  if (!sums || !ac_graph_add_output(graph, sums->producer, AC_ROLE_ACTIVATION, AC_F32, &extents))
    return NULL;
  return sums;
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  AC_TRY(ac_loss_refuse_gradient(d, node, 1, NULL));
  ac_graph *graph = d->graph;
  ac_tensor *weights = ac_tensor_at(graph, node->in[2]);
  ac_tensor *operands[] = {ac_tensor_at(graph, node->in[0]), ac_tensor_at(graph, node->in[1]),
                           weights, ac_tensor_at(graph, node->out[1])};
  return ac_gradient_emit(d, AC_OP_cross_entropy_gradient, node->attributes,
                          sizeof(ac_cross_entropy_attributes), 4, operands, 1, &node->in[0]);
}

static int64_t id_limit(const ac_op_args *args) {
  return ac_columns(&args->in[0]);
}

static ac_loss_rows loss_rows(const ac_op_args *args) {
  return ac_cross_entropy_rows(args->attributes, &args->in[1], args->in[2].count ? 2 : -1);
}

static void words(ac_words *words, const ac_op_args *args) {
  ac_cross_entropy_words(words, args->attributes);
}

static const ac_cross_entropy_attributes sampled = {.ignore = false};

const ac_op_desc ac_op_desc_cross_entropy = {
    .can_add = 1,
    .sums = 1,
    .gradient = gradient,
    .flops_per_element = 11,
    .ids = 1,
    .id_limit = id_limit,
    .loss_rows = loss_rows,
    .words = words,
    .sample = {{"vV", "#v"}, {"8", "v2"}, &sampled},
};
const ac_op_desc ac_op_desc_cross_entropy_gradient = {
    .in_place = 1,
    .backward = true,
    .flops_per_element = 10,
    .ids = 1,
    .id_limit = id_limit,
    .words = words,
    .sample = {{"vV", "#v", NULL, "v2"}, {"vV"}, &sampled},
};
