/* The output projection and the softmax cross-entropy of its result, in one op, so that the logits
 * of a micro-batch are never stored whole. For each row x[in] with target t and weight w, and W as
 * [classes, in]:
 *   z = W x,  lse = log sum exp(z),  loss = w (lse - z[t])
 *   dz[j] = scale w (exp(z[j] - lse) - [j = t]),  dx = W^T dz,  dW += dz x^T
 * where scale is the loss scale: the gradient is that of the sum. Smoothing is cross_entropy's.
 * With a soft cap c, l = c tanh(z / c) replaces z, and dz[j] is multiplied by 1 - (l[j] / c)^2.
 *
 * The gradient kernel needs z, and the loss follows from z. So it also yields the loss's sums, and
 * training runs it instead of the forward kernel: it needs as many flops as the unfused ops, and
 * only x is kept from the forward pass. For a chunk of rows at a time, z is computed into
 * workspace, overwritten by dz, and used up. */
#include "ops/loss/linear_cross_entropy.h"

#include "ops/loss/loss.h"
#include "ops/words.h"

int64_t ac_loss_chunk_bytes(const ac_tensor *weight) {
  return ac_tensor_at(weight->graph, weight->storage)->desc.blocks
             ? AC_LINEAR_CROSS_ENTROPY_CHUNK_OF_BLOCKS
             : AC_LINEAR_CROSS_ENTROPY_CHUNK;
}

ac_tensor *ac_linear_cross_entropy(ac_tensor *x, ac_tensor *weight, ac_layout layout,
                                   ac_tensor *targets, ac_tensor *weights,
                                   const ac_cross_entropy_desc *desc) {
  const ac_builder builder = {
      "linear_cross_entropy",
      4,
      {"x f32 [..., in]",
       layout == AC_OUT_IN ? "weight f32 [classes, in]" : "weight f32 [in, classes]",
       "targets i32 [...]", "weights? f32 [...]"}};
  const ac_op op = AC_OP_linear_cross_entropy;
  ac_tensor *operands[] = {x, weight, targets, weights};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  if (layout != AC_OUT_IN && layout != AC_IN_OUT)
    return ac_builder_fail(graph, &builder, operands, "unknown weight layout %d", (int)layout);
  const ac_shape *w = &weight->shape;
  ac_shape rows = x->shape;
  rows.rank--;
  if (x->dtype != AC_F32 || weight->dtype != AC_F32 || w->rank != 2 || w->batched ||
      rows.rank < 1 || w->dim[layout == AC_OUT_IN] != ac_shape_last(&x->shape) ||
      targets->dtype != AC_I32 || !ac_shape_equal(&targets->shape, &rows) ||
      !ac_loss_weights_match(weights, &rows))
    return ac_builder_fail(graph, &builder, operands, NULL);
  ac_linear_cross_entropy_attributes attributes = {.layout = layout,
                                                   .chunk_bytes = ac_loss_chunk_bytes(weight)};
  ac_tensor_at(graph, weight->storage)->matrix =
      layout == AC_OUT_IN ? AC_MATRIX_OUT_IN : AC_MATRIX_IN_OUT;
  if (!ac_cross_entropy_describe(graph, &builder, operands, desc, &attributes.loss)) return NULL;
  if (desc && desc->axis && desc->axis != rows.rank && desc->axis != -1)
    return ac_builder_fail(graph, &builder, operands, "axis is %d, but the classes come last",
                           desc->axis);
  if (desc) attributes.soft_cap = (double)desc->soft_cap;
  return ac_loss_emit(graph, op, &attributes, sizeof attributes, 4, operands);
}

/* The node that is emitted takes the forward node's place while training (ac_select_nodes): its
 * output 2 is the loss. */
static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  AC_TRY(ac_loss_refuse_gradient(d, node, 2, NULL));
  ac_graph *graph = d->graph;
  ac_tensor *operands[4];
  for (int i = 0; i < 4; i++) operands[i] = ac_tensor_at(graph, node->in[i]);
  int index = graph->node_count;
  AC_TRY(ac_gradient_emit(d, AC_OP_linear_cross_entropy_gradient, node->attributes,
                          sizeof(ac_linear_cross_entropy_attributes), 4, operands, 2, node->in));
  ac_node_at(graph, index)->out[2] = node->out[0];
  return AC_OK;
}

static double product_flops(const ac_op_args *args) {
  return 2.0 * (double)args->in[0].count * (double)ac_linear_cross_entropy_classes(args);
}

static double logits(const ac_op_args *args) {
  return (double)ac_rows(&args->in[0]) * (double)ac_linear_cross_entropy_classes(args);
}

/* A logit costs as much as in cross_entropy. */
static double flops(const ac_op_args *args) {
  return product_flops(args) + 11.0 * logits(args);
}

static double gradient_flops(const ac_op_args *args) {
  int products = 1 + (args->out[0].count > 0) + (args->out[1].count > 0);
  return products * product_flops(args) + 21.0 * logits(args);
}

static ac_loss_rows loss_rows(const ac_op_args *args) {
  const ac_linear_cross_entropy_attributes *a = args->attributes;
  return ac_cross_entropy_rows(&a->loss, &args->in[2], args->in[3].count ? 3 : -1);
}

static void words(ac_words *words, const ac_op_args *args) {
  const ac_linear_cross_entropy_attributes *a = args->attributes;
  ac_words_put_layout(words, a->layout, &args->in[1]);
  ac_cross_entropy_words(words, &a->loss);
  if (a->soft_cap > 0) ac_words_put(words, ", capped");
}

static const ac_linear_cross_entropy_attributes sampled = {
    AC_OUT_IN, {.ignore = false}, AC_LINEAR_CROSS_ENTROPY_CHUNK, 0};

const ac_op_desc ac_op_desc_linear_cross_entropy = {
    .can_add = 1,
    .sums = 1,
    .bound = AC_BOUND_BY_ARITHMETIC,
    .gradient = gradient,
    .flops = flops,
    .ids = 2,
    .id_limit = ac_linear_cross_entropy_classes,
    .loss_rows = loss_rows,
    .words = words,
    .sample = {{"rD", "VD", "#r"}, {"8"}, &sampled},
};
const ac_op_desc ac_op_desc_linear_cross_entropy_gradient = {
    .in_place = 1,
    .can_add = 7,
    .sums = 4,
    .backward = true,
    .bound = AC_BOUND_BY_ARITHMETIC,
    .flops = gradient_flops,
    .ids = 2,
    .id_limit = ac_linear_cross_entropy_classes,
    .words = words,
    .sample = {{"rD", "VD", "#r"}, {"rD", "VD", "8"}, &sampled},
};
