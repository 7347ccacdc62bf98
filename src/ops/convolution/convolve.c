/* The builders of convolutions: lines are images of height 1, so what is checked and emitted is a
 * convolution of images or of volumes, or the transposed one. Padding is the one before the first
 * element; what there is after the last one follows from the size of the result. */
#include "graph/builder.h"
#include "ops/convolution/conv2d.h"

enum { MOST_AXES = 3 };

/* What a descriptor says of one axis. */
typedef struct axis {
  int stride, padding, dilation;
  int more; /* padding after the last element, or what a transposed one has more */
} axis;

/* What is being built: with so many axes of positions, which are the last ones of x and weight. */
typedef struct call {
  const ac_builder *builder;
  ac_graph *graph;
  ac_tensor *operands[3];
  int axes;
  axis axis[MOST_AXES];
  int groups;
  bool same, transposed;
} call;

static const ac_shape *x_of(const call *c) {
  return &c->operands[0]->shape;
}

static const ac_shape *weight_of(const call *c) {
  return &c->operands[1]->shape;
}

/* An axis, for sentences. */
static const char *name_of(const call *c, int i) {
  static const char *const names[][MOST_AXES] = {
      {"length"}, {"height", "width"}, {"depth", "height", "width"}};
  return names[c->axes - 1][i];
}

/* Fills in defaults, and the padding that gives x's size. */
static bool resolve(call *c) {
  c->groups = c->groups ? c->groups : 1;
  for (int i = 0; i < c->axes; i++) {
    axis *a = &c->axis[i];
    a->stride = a->stride ? a->stride : 1;
    a->dilation = a->dilation ? a->dilation : 1;
    if (a->stride < 1 || a->padding < 0 || a->dilation < 1) {
      ac_builder_fail(c->graph, c->builder, c->operands,
                      "stride %d, padding %d and dilation %d; strides and dilations are at least "
                      "1, paddings at least 0",
                      a->stride, a->padding, a->dilation);
      return false;
    }
    if (!c->same) continue;
    const int64_t all = (weight_of(c)->dim[2 + i] - 1) * (int64_t)a->dilation;
    if (a->stride != 1 || a->padding || a->more || all > INT32_MAX) {
      ac_builder_fail(c->graph, c->builder, c->operands,
                      "the result can have the size of x only with strides of 1, and no other "
                      "padding");
      return false;
    }
    a->padding = (int)(all / 2);
    a->more = (int)(all % 2);
  }
  return true;
}

static bool check_channels(const call *c) {
  const ac_shape *x = x_of(c), *w = weight_of(c);
  const int groups = c->groups;
  if (groups < 1 || x->dim[1] % groups || (!c->transposed && w->dim[0] % groups))
    ac_builder_fail(c->graph, c->builder, c->operands,
                    c->transposed ? "%d groups do not divide the channels of x"
                                  : "%d groups do not divide the channels of x and of the result",
                    groups);
  else if (c->transposed && w->dim[0] != x->dim[1])
    ac_builder_fail(c->graph, c->builder, c->operands,
                    "x has %lld channels, and the weight takes %lld", (long long)x->dim[1],
                    (long long)w->dim[0]);
  else if (!c->transposed && w->dim[1] != x->dim[1] / groups)
    ac_builder_fail(c->graph, c->builder, c->operands,
                    "%d groups of x's %lld channels have %lld each, and the weight takes %lld",
                    groups, (long long)x->dim[1], (long long)(x->dim[1] / groups),
                    (long long)w->dim[1]);
  return c->graph->status == AC_OK;
}

/* The size of the result along an axis; 0 with the failure recorded. */
static int64_t outputs(const call *c, int i) {
  const axis *a = &c->axis[i];
  const int64_t kernel = weight_of(c)->dim[2 + i];
  const int64_t padded = x_of(c)->dim[2 + i] + 2 * (int64_t)a->padding + a->more;
  if (padded >= 1 && kernel - 1 <= (padded - 1) / a->dilation)
    return (padded - 1 - (kernel - 1) * a->dilation) / a->stride + 1;
  ac_builder_fail(c->graph, c->builder, c->operands,
                  "a kernel of %s %lld and dilation %d is larger than the padded image's %lld",
                  name_of(c, i), (long long)kernel, a->dilation, (long long)padded);
  return 0;
}

static int64_t outputs_transposed(const call *c, int i) {
  const axis *a = &c->axis[i];
  const int64_t size = x_of(c)->dim[2 + i], kernel = weight_of(c)->dim[2 + i];
  if (a->more < 0 || (a->more >= a->stride && a->more >= a->dilation)) {
    ac_builder_fail(c->graph, c->builder, c->operands,
                    "output padding %d is not below the stride %d or the dilation %d", a->more,
                    a->stride, a->dilation);
    return 0;
  }
  if (size > AC_MAX_ELEMENTS / a->stride || kernel > AC_MAX_ELEMENTS / a->dilation) {
    ac_builder_fail(c->graph, c->builder, c->operands, "the result is beyond any device");
    return 0;
  }
  const int64_t result =
      (size - 1) * a->stride - 2 * (int64_t)a->padding + a->dilation * (kernel - 1) + a->more + 1;
  if (result >= 1) return result;
  ac_builder_fail(c->graph, c->builder, c->operands, "padding %d leaves %lld of the result's %s",
                  a->padding, (long long)result, name_of(c, i));
  return 0;
}

/* A line as an image. */
static ac_tensor *as_image(const call *c, const ac_tensor *line) {
  ac_shape shape = line->shape;
  if (c->axes > 1) return ac_tensor_at(c->graph, line->id);
  shape.rank = 4;
  shape.dim[3] = shape.dim[2];
  shape.dim[2] = 1;
  return ac_graph_view(c->graph, line, &shape);
}

static ac_tensor *emit(const call *c, const ac_shape *shape) {
  ac_conv2d_attributes a = {
      .stride = {1, 1}, .padding = {0, 0}, .dilation = {1, 1}, .groups = c->groups};
  for (int i = 0; i < c->axes; i++) {
    const axis *from = &c->axis[i];
    const int to = i + 2 - c->axes;
    if (to < 0) {
      a.depth_stride = from->stride;
      a.depth_padding = from->padding;
      a.depth_dilation = from->dilation;
      continue;
    }
    a.stride[to] = from->stride;
    a.padding[to] = from->padding;
    a.dilation[to] = from->dilation;
  }
  ac_tensor *operands[] = {as_image(c, c->operands[0]), as_image(c, c->operands[1]),
                           c->operands[2]};
  if (!operands[0] || !operands[1]) return NULL;
  ac_shape image = *shape;
  if (c->axes == 1) image.rank = 4, image.dim[3] = shape->dim[2], image.dim[2] = 1;
  ac_tensor_at(c->graph, c->operands[1]->storage)->matrix =
      c->transposed ? AC_MATRIX_IN_OUT : AC_MATRIX_OUT_IN;
  ac_tensor *y = ac_graph_emit(c->graph, c->transposed ? AC_OP_conv_transpose2d : AC_OP_conv2d, &a,
                               sizeof a, 3, operands, &image);
  return y && c->axes == 1 ? ac_graph_view(c->graph, y, shape) : y;
}

static ac_tensor *build(call *c) {
  c->graph = ac_builder_graph(c->builder, c->operands);
  if (!c->graph) return NULL;
  const ac_tensor *x = c->operands[0], *weight = c->operands[1], *bias = c->operands[2];
  const int rank = 2 + c->axes;
  if (x->dtype != AC_F32 || weight->dtype != AC_F32 || x->shape.rank != rank ||
      weight->shape.rank != rank || weight->shape.batched)
    return ac_builder_fail(c->graph, c->builder, c->operands, NULL);
  if (!resolve(c) || !check_channels(c)) return NULL;
  const int64_t out = c->transposed ? weight->shape.dim[1] * c->groups : weight->shape.dim[0];
  if (bias && !ac_is_float_vector(bias, out))
    return ac_builder_fail(c->graph, c->builder, c->operands, NULL);
  ac_shape shape = x->shape;
  shape.dim[1] = out;
  for (int i = 0; i < c->axes; i++) {
    shape.dim[2 + i] = c->transposed ? outputs_transposed(c, i) : outputs(c, i);
    if (!shape.dim[2 + i]) return NULL;
  }
  return emit(c, &shape);
}

/* ---- the builders ---------------------------------------------------------------------------- */

ac_tensor *ac_conv1d(ac_tensor *x, ac_tensor *weight, ac_tensor *bias, const ac_conv1d_desc *desc) {
  static const ac_builder builder = {"conv1d",
                                     3,
                                     {"x f32 [B, channels, length]",
                                      "weight f32 [out, channels / groups, length]",
                                      "bias? f32 [out]"}};
  const ac_conv1d_desc d = AC_DESCRIBED(ac_conv1d_desc, desc);
  return build(&(call){.builder = &builder,
                       .operands = {x, weight, bias},
                       .axes = 1,
                       .axis = {{d.stride, d.padding, d.dilation, d.more_padding}},
                       .groups = d.groups,
                       .same = d.same});
}

ac_tensor *ac_conv2d(ac_tensor *x, ac_tensor *weight, ac_tensor *bias, const ac_conv2d_desc *desc) {
  static const ac_builder builder = {"conv2d",
                                     3,
                                     {"x f32 [B, channels, height, width]",
                                      "weight f32 [out, channels / groups, height, width]",
                                      "bias? f32 [out]"}};
  const ac_conv2d_desc d = AC_DESCRIBED(ac_conv2d_desc, desc);
  call c = {.builder = &builder,
            .operands = {x, weight, bias},
            .axes = 2,
            .groups = d.groups,
            .same = d.same};
  for (int i = 0; i < 2; i++)
    c.axis[i] = (axis){d.stride[i], d.padding[i], d.dilation[i], d.more_padding[i]};
  return build(&c);
}

ac_tensor *ac_conv3d(ac_tensor *x, ac_tensor *weight, ac_tensor *bias, const ac_conv3d_desc *desc) {
  static const ac_builder builder = {"conv3d",
                                     3,
                                     {"x f32 [B, channels, depth, height, width]",
                                      "weight f32 [out, channels / groups, depth, height, width]",
                                      "bias? f32 [out]"}};
  const ac_conv3d_desc d = AC_DESCRIBED(ac_conv3d_desc, desc);
  call c = {.builder = &builder,
            .operands = {x, weight, bias},
            .axes = 3,
            .groups = d.groups,
            .same = d.same};
  for (int i = 0; i < 3; i++)
    c.axis[i] = (axis){d.stride[i], d.padding[i], d.dilation[i], d.more_padding[i]};
  return build(&c);
}

ac_tensor *ac_conv_transpose1d(ac_tensor *x, ac_tensor *weight, ac_tensor *bias,
                               const ac_conv_transpose1d_desc *desc) {
  static const ac_builder builder = {"conv_transpose1d",
                                     3,
                                     {"x f32 [B, channels, length]",
                                      "weight f32 [channels, out / groups, length]",
                                      "bias? f32 [out]"}};
  const ac_conv_transpose1d_desc d = AC_DESCRIBED(ac_conv_transpose1d_desc, desc);
  return build(&(call){.builder = &builder,
                       .operands = {x, weight, bias},
                       .axes = 1,
                       .axis = {{d.stride, d.padding, d.dilation, d.output_padding}},
                       .groups = d.groups,
                       .transposed = true});
}

ac_tensor *ac_conv_transpose2d(ac_tensor *x, ac_tensor *weight, ac_tensor *bias,
                               const ac_conv_transpose2d_desc *desc) {
  static const ac_builder builder = {"conv_transpose2d",
                                     3,
                                     {"x f32 [B, channels, height, width]",
                                      "weight f32 [channels, out / groups, height, width]",
                                      "bias? f32 [out]"}};
  const ac_conv_transpose2d_desc d = AC_DESCRIBED(ac_conv_transpose2d_desc, desc);
  call c = {.builder = &builder,
            .operands = {x, weight, bias},
            .axes = 2,
            .groups = d.groups,
            .transposed = true};
  for (int i = 0; i < 2; i++)
    c.axis[i] = (axis){d.stride[i], d.padding[i], d.dilation[i], d.output_padding[i]};
  return build(&c);
}
