/* clang-format off */
/* Two-dimensional convolution of images stored channel by channel, with stride s, padding p, dilation d (each of its
 * own for height and width) and groups. For an output channel o of group g:
 *   y[n,o,i,j]   = b[o] + sum over c, r, t of W[o,c,r,t] x[n, g Ci/groups + c, i s - p + r d, j s - p + t d]
 *   dx[n,c,h,w]  = sum over o, r, t of W[o,c,r,t] dy[n,o,i,j] where i s - p + r d = h and j s - p + t d = w
 *   dW[o,c,r,t]  = sum over n, i, j of dy[n,o,i,j] x[n, g Ci/groups + c, i s - p + r d, j s - p + t d]
 *   db[o]        = sum over n, i, j of dy[n,o,i,j]
 * where x is zero outside of the image. The weight gradient comes first, so that x can be freed before dx is made. */
/* clang-format on */
#include "ops/conv2d.h"

#include "graph/differentiate.h"

/* Checks the descriptor and fills in its defaults. */
static bool resolve(ac_graph *graph, const ac_conv2d_desc *desc, ac_conv2d_attributes *a) {
  static const ac_conv2d_desc plain = {0};
  if (!desc) desc = &plain;
  for (int i = 0; i < 2; i++) {
    a->stride[i] = desc->stride[i] ? desc->stride[i] : 1;
    a->padding[i] = desc->padding[i];
    a->dilation[i] = desc->dilation[i] ? desc->dilation[i] : 1;
    if (a->stride[i] < 1 || a->padding[i] < 0 || a->dilation[i] < 1) {
      ac_graph_fail(graph, AC_ERROR_ARGUMENT,
                    "conv2d: stride %d, padding %d and dilation %d; strides and dilations are at "
                    "least 1, paddings at least 0",
                    a->stride[i], a->padding[i], a->dilation[i]);
      return false;
    }
  }
  a->groups = desc->groups ? desc->groups : 1;
  return true;
}

static bool check_channels(ac_graph *graph, const ac_shape *x, const ac_shape *w, int32_t groups) {
  char a[AC_SHAPE_TEXT], b[AC_SHAPE_TEXT];
  if (groups < 1 || x->dim[1] % groups || w->dim[0] % groups) {
    ac_graph_fail(graph, AC_ERROR_ARGUMENT,
                  "conv2d: %d groups do not divide the channels of x %s and of the weight %s",
                  groups, ac_shape_text(a, x), ac_shape_text(b, w));
    return false;
  }
  if (w->dim[1] == x->dim[1] / groups) return true;
  ac_graph_fail(graph, AC_ERROR_ARGUMENT,
                "conv2d: x is %s, in %d groups of channels, but the weight is %s",
                ac_shape_text(a, x), groups, ac_shape_text(b, w));
  return false;
}

static bool image_size(ac_graph *graph, const ac_conv2d_attributes *a, const ac_shape *x,
                       const ac_shape *w, ac_shape *y) {
  for (int i = 0; i < 2; i++) {
    int64_t padded = x->dim[2 + i] + 2 * (int64_t)a->padding[i];
    if (w->dim[2 + i] - 1 > (padded - 1) / a->dilation[i]) {
      ac_graph_fail(graph, AC_ERROR_ARGUMENT,
                    "conv2d: a kernel of %s %lld and dilation %d is larger than the padded image's "
                    "%lld",
                    i ? "width" : "height", (long long)w->dim[2 + i], a->dilation[i],
                    (long long)padded);
      return false;
    }
    y->dim[2 + i] = (padded - 1 - (w->dim[2 + i] - 1) * a->dilation[i]) / a->stride[i] + 1;
  }
  return true;
}

ac_tensor *ac_conv2d(ac_tensor *x, ac_tensor *weight, ac_tensor *bias, const ac_conv2d_desc *desc) {
  ac_tensor *operands[] = {x, weight, bias};
  ac_graph *graph = ac_graph_of(AC_OP_conv2d, 2, operands);
  if (!graph || !ac_graph_optional(graph, AC_OP_conv2d, bias)) return NULL;
  const ac_shape *w = &weight->shape;
  ac_shape shape = x->shape;
  char a[AC_SHAPE_TEXT], b[AC_SHAPE_TEXT];
  if (x->dtype != AC_F32 || weight->dtype != AC_F32 || shape.rank != 4 || w->rank != 4 ||
      w->batched)
    return ac_graph_fail(graph, AC_ERROR_ARGUMENT,
                         "conv2d: x is %s and the weight %s; it takes [B, channels, height, width] "
                         "and [out, in / groups, height, width]",
                         ac_shape_text(a, &shape), ac_shape_text(b, w));
  if (bias && (bias->dtype != AC_F32 || bias->shape.rank != 1 || bias->shape.batched ||
               bias->shape.dim[0] != w->dim[0]))
    return ac_graph_fail(graph, AC_ERROR_ARGUMENT, "conv2d: the bias is %s but the weight is %s",
                         ac_shape_text(a, &bias->shape), ac_shape_text(b, w));
  ac_conv2d_attributes attributes;
  if (!resolve(graph, desc, &attributes) || !check_channels(graph, &shape, w, attributes.groups) ||
      !image_size(graph, &attributes, &shape, w, &shape))
    return NULL;
  shape.dim[1] = w->dim[0];
  return ac_graph_emit(graph, AC_OP_conv2d, &attributes, sizeof attributes, 3, operands, &shape);
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

const ac_op_desc ac_op_desc_conv2d = {.name = "conv2d", .gradient = gradient, .flops = flops};
const ac_op_desc ac_op_desc_conv2d_input_gradient = {
    .name = "conv2d_input_gradient", .can_add = 1, .flops = input_gradient_flops};
const ac_op_desc ac_op_desc_conv2d_weight_gradient = {
    .name = "conv2d_weight_gradient", .can_add = 3, .flops = weight_gradient_flops};
