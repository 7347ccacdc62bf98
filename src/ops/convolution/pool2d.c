/* Pooling over patches of K = kh kw positions that count, for each sample and channel:
 *   max      y[i,j] = the largest x of the patch; padding never is. A NaN is larger than anything.
 *            dx[h,w] = sum of dy over the patches that have their first largest element here
 *   average  y[i,j] = sum over the patch / K, padding counting as zeros or not at all
 *            dx[h,w] = sum of dy / K over the patches that contain it
 * Where the largest element lies is found again from x, so no indices are kept.
 * pools.c has the builders. */
#include "ops/convolution/pool2d.h"

#include "graph/differentiate.h"
#include "core/integers.h"
#include "ops/pointwise/elementwise.h"
#include "ops/words.h"

static ac_status max_gradient(ac_differentiation *d, const ac_node *node) {
  return ac_unary_gradient(d, node, AC_OP_max_pool2d_gradient, node->in[0],
                           sizeof(ac_pool2d_attributes));
}

static ac_status average_gradient(ac_differentiation *d, const ac_node *node) {
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  return ac_gradient_emit(d, AC_OP_average_pool2d_gradient, node->attributes,
                          sizeof(ac_pool2d_attributes), 1, &dy, 1, &node->in[0]);
}

static double patch_flops(const ac_op_args *args, const ac_operand *x, const ac_operand *y) {
  const ac_pool2d_attributes *a = args->attributes;
  double taps = 1;
  for (int i = 0; i < 2; i++)
    taps *= a->kernel[i] ? (double)a->kernel[i] : (double)ac_ceil_div(x->dim[2 + i], y->dim[2 + i]);
  return (double)y->count * taps;
}

static double flops(const ac_op_args *args) {
  return patch_flops(args, &args->in[0], &args->out[0]);
}

static double gradient_flops(const ac_op_args *args) {
  return patch_flops(args, &args->out[0], &args->in[0]);
}

static void words(ac_words *words, const ac_op_args *args) {
  const ac_pool2d_attributes *a = args->attributes;
  ac_words_put_pair(words, "kernel", a->kernel, 1);
  ac_words_put_pair(words, "stride", a->stride, 1);
  ac_words_put_pair(words, "padding", a->padding, 0);
  if (a->skip_padding) ac_words_put(words, ", padding skipped");
}

static const ac_pool2d_attributes sampled = {.kernel = {2, 2}, .stride = {2, 2}};

const ac_op_desc ac_op_desc_max_pool2d = {
    .copies_values = true,
    .gradient = max_gradient,
    .flops = flops,
    .words = words,
    .sample = {{"8kSS"}, {"8kss"}, &sampled},
};
const ac_op_desc ac_op_desc_max_pool2d_gradient = {
    .can_add = 1,
    .backward = true,
    .flops = gradient_flops,
    .words = words,
    .sample = {{"8kss", "8kSS"}, {"8kSS"}, &sampled},
};
const ac_op_desc ac_op_desc_average_pool2d = {
    .gradient = average_gradient,
    .flops = flops,
    .words = words,
    .sample = {{"8kSS"}, {"8kss"}, &sampled},
};
const ac_op_desc ac_op_desc_average_pool2d_gradient = {
    .can_add = 1,
    .backward = true,
    .flops = gradient_flops,
    .words = words,
    .sample = {{"8kss"}, {"8kSS"}, &sampled},
};
