/* clang-format off */
/* Two-dimensional convolution of images stored channel by channel, with stride s, padding p, dilation d (each of its
 * own for height and width) and groups. For an output channel o of group g:
 *   y[n,o,i,j]   = b[o] + sum over c, r, t of W[o,c,r,t] x[n, g Ci/groups + c, i s - p + r d, j s - p + t d]
 *   dx[n,c,h,w]  = sum over o, r, t of W[o,c,r,t] dy[n,o,i,j] where i s - p + r d = h and j s - p + t d = w
 *   dW[o,c,r,t]  = sum over n, i, j of dy[n,o,i,j] x[n, g Ci/groups + c, i s - p + r d, j s - p + t d]
 *   db[o]        = sum over n, i, j of dy[n,o,i,j]
 * where x is zero outside of the image. The weight gradient comes first, so that x can be freed before dx is made. */
/* clang-format on */
#include "ops/convolution/conv2d.h"

#include "graph/builder.h"
#include "graph/differentiate.h"
#include "ops/words.h"

/* What is being built, for the sentences about what does not fit. */
typedef struct call {
  ac_graph *graph;
  ac_tensor *operands[3];
} call;

static const ac_builder builder = {"conv2d",
                                   3,
                                   {"x f32 [B, channels, height, width]",
                                    "weight f32 [out, channels / groups, height, width]",
                                    "bias? f32 [out]"}};

/* Checks the descriptor and fills in its defaults. */
static bool resolve(const call *c, const ac_conv2d_desc *desc, ac_conv2d_attributes *a) {
  const ac_conv2d_desc described = AC_DESCRIBED(ac_conv2d_desc, desc);
  for (int i = 0; i < 2; i++) {
    a->stride[i] = described.stride[i] ? described.stride[i] : 1;
    a->padding[i] = described.padding[i];
    a->dilation[i] = described.dilation[i] ? described.dilation[i] : 1;
    if (a->stride[i] >= 1 && a->padding[i] >= 0 && a->dilation[i] >= 1) continue;
    ac_builder_fail(c->graph, &builder, c->operands,
                    "stride %d, padding %d and dilation %d; strides and dilations are at least 1, "
                    "paddings at least 0",
                    a->stride[i], a->padding[i], a->dilation[i]);
    return false;
  }
  a->groups = described.groups ? described.groups : 1;
  return true;
}

static bool check_channels(const call *c, int32_t groups) {
  const ac_shape *x = &c->operands[0]->shape, *w = &c->operands[1]->shape;
  if (groups < 1 || x->dim[1] % groups || w->dim[0] % groups)
    ac_builder_fail(c->graph, &builder, c->operands,
                    "%d groups do not divide the channels of x and of the result", groups);
  else if (w->dim[1] != x->dim[1] / groups)
    ac_builder_fail(c->graph, &builder, c->operands,
                    "%d groups of x's %lld channels have %lld each, and the weight takes %lld",
                    groups, (long long)x->dim[1], (long long)(x->dim[1] / groups),
                    (long long)w->dim[1]);
  return c->graph->status == AC_OK;
}

static bool image_size(const call *c, const ac_conv2d_attributes *a, ac_shape *y) {
  const ac_shape *x = &c->operands[0]->shape, *w = &c->operands[1]->shape;
  for (int i = 0; i < 2; i++) {
    int64_t padded = x->dim[2 + i] + 2 * (int64_t)a->padding[i];
    if (w->dim[2 + i] - 1 > (padded - 1) / a->dilation[i]) {
      ac_builder_fail(c->graph, &builder, c->operands,
                      "a kernel of %s %lld and dilation %d is larger than the padded image's %lld",
                      i ? "width" : "height", (long long)w->dim[2 + i], a->dilation[i],
                      (long long)padded);
      return false;
    }
    y->dim[2 + i] = (padded - 1 - (w->dim[2 + i] - 1) * a->dilation[i]) / a->stride[i] + 1;
  }
  return true;
}

ac_tensor *ac_conv2d(ac_tensor *x, ac_tensor *weight, ac_tensor *bias, const ac_conv2d_desc *desc) {
  call c = {.operands = {x, weight, bias}};
  c.graph = ac_builder_graph(&builder, c.operands);
  if (!c.graph) return NULL;
  const ac_shape *w = &weight->shape;
  ac_shape shape = x->shape;
  if (x->dtype != AC_F32 || weight->dtype != AC_F32 || shape.rank != 4 || w->rank != 4 ||
      w->batched || (bias && !ac_is_float_vector(bias, w->dim[0])))
    return ac_builder_fail(c.graph, &builder, c.operands, NULL);
  ac_conv2d_attributes attributes;
  if (!resolve(&c, desc, &attributes) || !check_channels(&c, attributes.groups) ||
      !image_size(&c, &attributes, &shape))
    return NULL;
  shape.dim[1] = w->dim[0];
  ac_tensor_at(c.graph, weight->storage)->matrix = AC_MATRIX_OUT_IN;
  return ac_graph_emit(c.graph, AC_OP_conv2d, &attributes, sizeof attributes, 3, c.operands,
                       &shape);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_graph *graph = d->graph;
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  int x = node->in[0], weight = node->in[1], bias = node->in[2];
  ac_tensor *of_weight[] = {ac_tensor_at(graph, x), dy},
            *of_input[] = {dy, ac_tensor_at(graph, weight)};
  int parameters[] = {weight, bias};
  AC_TRY(ac_gradient_emit(d, AC_OP_conv2d_weight_gradient, node->attributes,
                          sizeof(ac_conv2d_attributes), 2, of_weight, 2, parameters));
  return ac_gradient_emit(d, AC_OP_conv2d_input_gradient, node->attributes,
                          sizeof(ac_conv2d_attributes), 2, of_input, 1, &x);
}

/* Each output channel's part of the weight meets each of its positions; padding is counted. */
static double product_flops(const ac_operand *y, const ac_operand *weight) {
  return 2.0 * (double)y->count * (double)(weight->count / weight->dim[0]);
}

static double flops(const ac_op_args *args) {
  return product_flops(&args->out[0], &args->in[1]);
}

static double input_gradient_flops(const ac_op_args *args) {
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
}

static const ac_conv2d_attributes sampled = {{1, 1}, {1, 1}, {1, 1}, 1};

const ac_op_desc ac_op_desc_conv2d = {
    .bound = AC_BOUND_BY_ARITHMETIC,
    .gradient = gradient,
    .flops = flops,
    .words = words,
    .sample = {{"8kSS", "kk33", "k"}, {"8kSS"}, &sampled},
};
const ac_op_desc ac_op_desc_conv2d_input_gradient = {
    .can_add = 1,
    .backward = true,
    .bound = AC_BOUND_BY_ARITHMETIC,
    .flops = input_gradient_flops,
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
