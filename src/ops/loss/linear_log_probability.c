/* The logarithm of the probability that the output projection gives to each row's target, so that
 * the logits of a micro-batch are never stored whole. For each row x[in] with target t, weight w
 * and a number l that is taken off:
 *   z = W x,  y = w (z[t] - log sum exp(z)) - l
 *   dz[j] = dy w ([j = t] - exp(z[j] - log sum exp(z))),  dx = W^T dz,  dW += dz x^T
 *
 * It is linear_cross_entropy without the sum, and with any gradient of a row; a soft cap is as
 * there. Backward computes the logits of a chunk again. `l` is the same of another model: a
 * difference of two such numbers is far smaller than they are, so it is made here, in float,
 * whatever the storage. */
#include "ops/loss/linear_log_probability.h"

#include "ops/loss/loss.h"
#include "ops/words.h"

#include <accrue/pointwise.h>

ac_tensor *ac_linear_log_probability(ac_tensor *x, ac_tensor *weight, ac_layout layout,
                                     ac_tensor *targets, ac_tensor *weights, ac_tensor *less,
                                     float soft_cap) {
  const ac_builder builder = {
      "linear_log_probability",
      5,
      {"x f32 [..., in]",
       layout == AC_OUT_IN ? "weight f32 [classes, in]" : "weight f32 [in, classes]",
       "targets i32 [...]", "weights? f32 [...]", "less? f32 [...]"}};
  ac_tensor *operands[] = {x, weight, targets, weights, less};
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
      !ac_loss_weights_match(weights, &rows) || !ac_loss_weights_match(less, &rows))
    return ac_builder_fail(graph, &builder, operands, NULL);
  if (!ac_loss_cap_fits(&builder, operands, soft_cap)) return NULL;
  const ac_linear_cross_entropy_attributes attributes = {
      .layout = layout, .chunk_bytes = ac_loss_chunk_bytes(weight), .soft_cap = (double)soft_cap};
  ac_tensor_at(graph, weight->storage)->matrix =
      layout == AC_OUT_IN ? AC_MATRIX_OUT_IN : AC_MATRIX_IN_OUT;
  return ac_graph_emit(graph, AC_OP_linear_log_probability, &attributes, sizeof attributes, 5,
                       operands, &rows);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  AC_TRY(ac_loss_refuse_gradient(d, node, 2, "let it pass through ac_stop_gradient"));
  ac_graph *graph = d->graph;
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  if (node->in[3] >= 0) dy = ac_multiply(ac_tensor_at(graph, node->in[3]), dy);
  if (!dy) return graph->status;
  ac_tensor *operands[] = {ac_tensor_at(graph, node->in[0]), ac_tensor_at(graph, node->in[1]),
                           ac_tensor_at(graph, node->in[2]), dy};
  return ac_gradient_emit(d, AC_OP_linear_log_probability_gradient, node->attributes,
                          sizeof(ac_linear_cross_entropy_attributes), 4, operands, 2, node->in);
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
  const int products = 1 + (args->out[0].count > 0) + (args->out[1].count > 0);
  return products * product_flops(args) + 21.0 * logits(args);
}

static void words(ac_words *words, const ac_op_args *args) {
  const ac_linear_cross_entropy_attributes *a = args->attributes;
  ac_words_put_layout(words, a->layout, &args->in[1]);
  if (a->soft_cap > 0) ac_words_put(words, ", capped");
}

static const ac_linear_cross_entropy_attributes sampled = {
    AC_OUT_IN, {.ignore = false}, AC_LINEAR_CROSS_ENTROPY_CHUNK, 0};

const ac_op_desc ac_op_desc_linear_log_probability = {
    .bound = AC_BOUND_BY_ARITHMETIC,
    .gradient = gradient,
    .flops = flops,
    .ids = 2,
    .id_limit = ac_linear_cross_entropy_classes,
    .words = words,
    .sample = {{"rD", "VD", "#r"}, {"r"}, &sampled},
};
const ac_op_desc ac_op_desc_linear_log_probability_gradient = {
    .in_place = 1,
    .can_add = 3,
    .backward = true,
    .bound = AC_BOUND_BY_ARITHMETIC,
    .flops = gradient_flops,
    .ids = 2,
    .id_limit = ac_linear_cross_entropy_classes,
    .words = words,
    .sample = {{"rD", "VD", "#r", "r"}, {"rD", "VD"}, &sampled},
};
