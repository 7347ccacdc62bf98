/* clang-format off */
/* Convolution of images stored channel by channel, with stride s, padding p, dilation d (each of its
 * own for height and width) and groups. For an output channel o of group g:
 *   y[n,o,i,j]   = b[o] + sum over c, r, t of W[o,c,r,t] x[n, g Ci/groups + c, i s - p + r d, j s - p + t d]
 *   dx[n,c,h,w]  = sum over o, r, t of W[o,c,r,t] dy[n,o,i,j] where i s - p + r d = h and j s - p + t d = w
 *   dW[o,c,r,t]  = sum over n, i, j of dy[n,o,i,j] x[n, g Ci/groups + c, i s - p + r d, j s - p + t d]
 *   db[o]        = sum over n, i, j of dy[n,o,i,j]
 * and of volumes likewise, with a third axis, where x is zero outside of the image. The weight gradient comes first, so that x can be freed before dx is made.
 * dx is what conv_transpose2d computes of dy, and dy is what conv2d computes of the gradient of that. So in
 * conv_transpose2d x takes the place of dy, and y that of dx. convolve.c has the builders. */
/* clang-format on */
#include "ops/convolution/conv2d.h"

#include "graph/differentiate.h"
#include "ops/reduction/reduce.h"
#include "ops/words.h"

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_graph *graph = d->graph;
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  int x = node->in[0], weight = node->in[1], bias = node->in[2];
  ac_tensor *of_weight[] = {ac_tensor_at(graph, x), dy},
            *of_input[] = {dy, ac_tensor_at(graph, weight)};
  int parameters[] = {weight, bias};
  AC_TRY(ac_gradient_emit(d, AC_OP_conv2d_weight_gradient, node->attributes,
                          sizeof(ac_conv2d_attributes), 2, of_weight, 2, parameters));
  return ac_gradient_emit(d, AC_OP_conv_transpose2d, node->attributes, sizeof(ac_conv2d_attributes),
                          2, of_input, 1, &x);
}

/* The bias is added to all positions of the larger image. */
static ac_status gradient_transposed(ac_differentiation *d, const ac_node *node) {
  ac_graph *graph = d->graph;
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  const ac_reduce_attributes positions = {
      .kind = AC_REDUCE_SUM, .axes = (1u << dy->shape.rank) - 1 - (1u << 1), .divisor = 1};
  int x = node->in[0], weight = node->in[1], bias = node->in[2];
  ac_tensor *of_weight[] = {dy, ac_tensor_at(graph, x)},
            *of_input[] = {dy, ac_tensor_at(graph, weight)};
  int parameters[] = {weight, -1};
  AC_TRY(ac_gradient_emit(d, AC_OP_conv2d_weight_gradient, node->attributes,
                          sizeof(ac_conv2d_attributes), 2, of_weight, 2, parameters));
  if (bias >= 0)
    AC_TRY(ac_gradient_emit(d, AC_OP_reduce, &positions, sizeof positions, 1, &dy, 1, &bias));
  return ac_gradient_emit(d, AC_OP_conv2d, node->attributes, sizeof(ac_conv2d_attributes), 2,
                          of_input, 1, &x);
}

/* Each output channel's part of the weight meets each of its positions; padding is counted. */
static double product_flops(const ac_operand *y, const ac_operand *weight) {
  return 2.0 * (double)y->count * (double)(weight->count / weight->dim[0]);
}

static double flops(const ac_op_args *args) {
  return product_flops(&args->out[0], &args->in[1]);
}

static double transposed_flops(const ac_op_args *args) {
  return product_flops(&args->in[0], &args->in[1]);
}

static double weight_gradient_flops(const ac_op_args *args) {
  const ac_operand *dy = &args->in[1], *dw = &args->out[0];
  return (dw->count ? product_flops(dy, dw) : 0) + (args->out[1].count ? (double)dy->count : 0);
}

static void words(ac_words *words, const ac_op_args *args) {
  const ac_conv2d_attributes *a = args->attributes;
  ac_words_put_pair(words, "stride", a->stride, 1);
  ac_words_put_pair(words, "padding", a->padding, 0);
  ac_words_put_pair(words, "dilation", a->dilation, 1);
  if (args->in[0].rank < 5) return;
  if (a->depth_stride != 1) ac_words_put(words, ", stride %d in depth", a->depth_stride);
  if (a->depth_padding) ac_words_put(words, ", padding %d in depth", a->depth_padding);
  if (a->depth_dilation != 1) ac_words_put(words, ", dilation %d in depth", a->depth_dilation);
}

static const ac_conv2d_attributes sampled = {
    .stride = {1, 1}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};

const ac_op_desc ac_op_desc_conv2d = {
    .can_add = 1,
    .bound = AC_BOUND_BY_ARITHMETIC,
    .gradient = gradient,
    .flops = flops,
    .words = words,
    .sample = {{"8kSS", "kk33", "k"}, {"8kSS"}, &sampled},
};
const ac_op_desc ac_op_desc_conv_transpose2d = {
    .can_add = 1,
    .bound = AC_BOUND_BY_ARITHMETIC,
    .gradient = gradient_transposed,
    .flops = transposed_flops,
    .words = words,
    .sample = {{"8kSS", "kk33"}, {"8kSS"}, &sampled},
};
const ac_op_desc ac_op_desc_conv2d_weight_gradient = {
    .can_add = 3,
    .backward = true,
    .bound = AC_BOUND_BY_ARITHMETIC,
    .flops = weight_gradient_flops,
    .words = words,
    .sample = {{"8kSS", "8kSS"}, {"kk33", "k"}, &sampled},
};
