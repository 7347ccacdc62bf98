/* Pooling over patches of K = kh kw positions, for each sample and channel:
 *   max      y[i,j] = the largest x of the patch; padding never is. A NaN is larger than anything.
 *            dx[h,w] = sum of dy over the patches that have their first largest element here
 *   average  y[i,j] = sum over the patch / K, padding counting as zeros
 *            dx[h,w] = sum of dy over the patches that contain it / K
 * Where the largest element lies is found again from x, so no indices are kept. */
#include "ops/convolution/pool2d.h"

#include "graph/builder.h"
#include "graph/differentiate.h"
#include "ops/pointwise/elementwise.h"
#include "ops/words.h"

static ac_tensor *pool(ac_op op, const char *name, ac_tensor *x, const ac_pool2d_desc *desc) {
  const ac_builder builder = {name, 1, {"x f32 [B, channels, height, width]"}};
  const ac_pool2d_desc described = AC_DESCRIBED(ac_pool2d_desc, desc);
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  ac_shape shape = x->shape;
  if (x->dtype != AC_F32 || shape.rank != 4) return ac_builder_fail(graph, &builder, &x, NULL);
  ac_pool2d_attributes a = {{0}, {0}, {0}};
  for (int i = 0; i < 2; i++) {
    a.kernel[i] = described.kernel[i];
    a.stride[i] = described.stride[i] ? described.stride[i] : a.kernel[i];
    a.padding[i] = described.padding[i];
    if (a.kernel[i] < 1 || a.stride[i] < 1 || a.padding[i] < 0 || a.padding[i] > a.kernel[i] / 2)
      return ac_builder_fail(graph, &builder, &x,
                             "kernel %d, stride %d and padding %d; kernels and strides are at "
                             "least 1, paddings at most half the kernel",
                             a.kernel[i], a.stride[i], a.padding[i]);
    int64_t padded = shape.dim[2 + i] + 2 * (int64_t)a.padding[i];
    if (a.kernel[i] > padded)
      return ac_builder_fail(graph, &builder, &x,
                             "a kernel of %s %d is larger than the padded image's %lld",
                             i ? "width" : "height", a.kernel[i], (long long)padded);
    shape.dim[2 + i] = (padded - a.kernel[i]) / a.stride[i] + 1;
  }
  return ac_graph_emit(graph, op, &a, sizeof a, 1, &x, &shape);
}

ac_tensor *ac_max_pool2d(ac_tensor *x, const ac_pool2d_desc *desc) {
  return pool(AC_OP_max_pool2d, "max_pool2d", x, desc);
}

ac_tensor *ac_average_pool2d(ac_tensor *x, const ac_pool2d_desc *desc) {
  return pool(AC_OP_average_pool2d, "average_pool2d", x, desc);
}

ac_tensor *ac_global_average_pool(ac_tensor *x) {
  ac_pool2d_desc whole = {{0}, {0}, {0}};
  if (x && x->shape.rank == 4 && x->shape.dim[2] <= INT32_MAX && x->shape.dim[3] <= INT32_MAX)
    for (int i = 0; i < 2; i++) whole.kernel[i] = (int)x->shape.dim[2 + i];
  ac_tensor *y = pool(AC_OP_average_pool2d, "global_average_pool", x, &whole);
  if (!y) return NULL;
  ac_shape shape = y->shape;
  shape.rank = 2;
  return ac_graph_view(y->graph, y, &shape);
}

static ac_status max_gradient(ac_differentiation *d, const ac_node *node) {
  return ac_unary_gradient(d, node, AC_OP_max_pool2d_gradient, node->in[0],
                           sizeof(ac_pool2d_attributes));
}

static ac_status average_gradient(ac_differentiation *d, const ac_node *node) {
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  return ac_gradient_emit(d, AC_OP_average_pool2d_gradient, node->attributes,
                          sizeof(ac_pool2d_attributes), 1, &dy, 1, &node->in[0]);
}

static double patch_flops(const ac_op_args *args, const ac_operand *y) {
  const ac_pool2d_attributes *a = args->attributes;
  return (double)y->count * (double)a->kernel[0] * (double)a->kernel[1];
}

static double flops(const ac_op_args *args) {
  return patch_flops(args, &args->out[0]);
}

static double gradient_flops(const ac_op_args *args) {
  return patch_flops(args, &args->in[0]);
}

static void words(ac_words *words, const ac_op_args *args) {
  const ac_pool2d_attributes *a = args->attributes;
  ac_words_put_pair(words, "kernel", a->kernel, 1);
  ac_words_put_pair(words, "stride", a->stride, 1);
  ac_words_put_pair(words, "padding", a->padding, 0);
}

static const ac_pool2d_attributes sampled = {{2, 2}, {2, 2}, {0, 0}};

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
