/* The builders of pools. All are pools of images: lines are images of height 1, and volumes are
 * pooled in planes first and then across them, for the largest of all, the sum and the number of
 * elements are so found in two steps. The first largest one of a volume is the first one of the
 * first plane that has it. */
#include "graph/builder.h"
#include "ops/convolution/pool2d.h"

enum { MOST_AXES = 3 };

/* What a descriptor says of one axis. */
typedef struct axis {
  int64_t kernel, stride, padding, more;
  int64_t outputs; /* as asked for by an adaptive pool */
} axis;

/* What is being built: with so many axes of positions, which are the last ones of x. */
typedef struct call {
  ac_builder builder;
  ac_op op;
  ac_graph *graph;
  ac_tensor *x;
  int axes;
  axis axis[MOST_AXES];
  bool ceil, skip_padding, adaptive;
} call;

/* Checks x, of two to four dimensions, and names what the builder takes. */
static bool begin(call *c, const char *name, ac_op op, ac_tensor *x, int axes) {
  static const char *const takes[] = {"x f32 [B, channels, ...]", "x f32 [B, channels, length]",
                                      "x f32 [B, channels, height, width]",
                                      "x f32 [B, channels, depth, height, width]"};
  c->builder = (ac_builder){name, 1, {takes[axes >= 0 && axes <= MOST_AXES ? axes : 0]}};
  c->op = op;
  c->x = x;
  c->graph = ac_builder_graph(&c->builder, &x);
  if (!c->graph) return false;
  c->axes = axes;
  if (x->dtype == AC_F32 && x->shape.rank == 2 + axes && axes >= 1 && axes <= MOST_AXES)
    return true;
  ac_builder_fail(c->graph, &c->builder, &x, NULL);
  return false;
}

static const char *name_of(const call *c, int i) {
  static const char *const names[][MOST_AXES] = {
      {"length"}, {"height", "width"}, {"depth", "height", "width"}};
  return names[c->axes - 1][i];
}

/* Fills in an axis of the attributes; returns the number of outputs, 0 with the failure recorded.
 */
static int64_t resolve(const call *c, int i, ac_pool2d_attributes *to, int at) {
  const axis *a = &c->axis[i];
  const int64_t size = c->x->shape.dim[2 + i], k = a->kernel, s = a->stride ? a->stride : k,
                before = a->padding, after = before + a->more;
  ac_tensor *x = c->x;
  if (k < 1 || s < 1 || before < 0 || before > k / 2 || after < 0 || after > k / 2) {
    ac_builder_fail(c->graph, &c->builder, &x,
                    "kernel %lld, stride %lld and padding %lld; kernels and strides are at least "
                    "1, paddings at most half the kernel",
                    (long long)k, (long long)s, (long long)(before > k / 2 ? before : after));
    return 0;
  }
  const int64_t padded = size + before + after;
  if (k > padded && !c->ceil) {
    ac_builder_fail(c->graph, &c->builder, &x,
                    "a kernel of %s %lld is larger than the padded image's %lld", name_of(c, i),
                    (long long)k, (long long)padded);
    return 0;
  }
  to->kernel[at] = (int32_t)k;
  to->stride[at] = (int32_t)s;
  to->padding[at] = (int32_t)before;
  to->after[at] = (int32_t)after;
  if (!c->ceil) return (padded - k) / s + 1;
  /* A patch more where something is left, if it begins within x or before it. */
  const int64_t rest = padded - k;
  const int64_t outputs = rest > 0 ? (rest + s - 1) / s + 1 : 1;
  return outputs > 1 && (outputs - 1) * s >= size + before ? outputs - 1 : outputs;
}

/* The same of an adaptive pool: with patches of one size if the outputs divide x. */
static int64_t resolve_adaptive(const call *c, int i, ac_pool2d_attributes *to, int at) {
  const int64_t size = c->x->shape.dim[2 + i],
                outputs = c->axis[i].outputs ? c->axis[i].outputs : size;
  ac_tensor *x = c->x;
  if (outputs < 1 || outputs > size || size > INT32_MAX) {
    ac_builder_fail(c->graph, &c->builder, &x, "%lld outputs of a %s of %lld", (long long)outputs,
                    name_of(c, i), (long long)size);
    return 0;
  }
  const bool even = size % outputs == 0;
  to->kernel[at] = even ? (int32_t)(size / outputs) : 0;
  to->stride[at] = even ? to->kernel[at] : 1;
  return outputs;
}

/* Pools axes [first, first + count), one or two that are neighbours, of `x`, which has the shape of
 * c's but for those that are pooled already. */
static ac_tensor *pool_axes(const call *c, ac_tensor *x, int first, int count) {
  ac_pool2d_attributes a = {.kernel = {1, 1}, .stride = {1, 1}, .skip_padding = c->skip_padding};
  ac_shape result = x->shape, image = {.rank = 4, .batched = x->shape.batched};
  for (int i = 0; i < 4; i++) image.dim[i] = 1;
  image.dim[0] = x->shape.dim[0];
  for (int i = 1; i < 2 + first; i++) image.dim[1] *= x->shape.dim[i];
  /* One axis is height if others follow, which are then the width; else it is the width. */
  const bool across = count == 1 && 2 + first + count == x->shape.rank;
  for (int i = 2 + first; i < x->shape.rank; i++)
    image.dim[i == 2 + first && !across ? 2 : 3] *= x->shape.dim[i];
  ac_shape pooled = image;
  for (int i = 0; i < count; i++) {
    const int at = across ? 1 : i;
    const int64_t outputs =
        c->adaptive ? resolve_adaptive(c, first + i, &a, at) : resolve(c, first + i, &a, at);
    if (!outputs) return NULL;
    result.dim[2 + first + i] = pooled.dim[2 + at] = outputs;
  }
  const bool is_image = x->shape.rank == 4 && count == 2;
  ac_tensor *in = is_image ? x : ac_graph_view(c->graph, x, &image);
  if (!in) return NULL;
  ac_tensor *y = ac_graph_emit(c->graph, c->op, &a, sizeof a, 1, &in, &pooled);
  return is_image || !y ? y : ac_graph_view(c->graph, y, &result);
}

static ac_tensor *build(const call *c) {
  if (c->axes < 3) return pool_axes(c, c->x, 0, c->axes);
  ac_tensor *planes = pool_axes(c, c->x, 1, 2);
  return planes ? pool_axes(c, planes, 0, 1) : NULL;
}

/* ---- patches of one size --------------------------------------------------------------------- */

static ac_tensor *pool1d(ac_op op, const char *name, ac_tensor *x, const ac_pool1d_desc *desc) {
  const ac_pool1d_desc d = AC_DESCRIBED(ac_pool1d_desc, desc);
  call c = {.ceil = d.ceil, .skip_padding = d.skip_padding};
  if (!begin(&c, name, op, x, 1)) return NULL;
  c.axis[0] = (axis){d.kernel, d.stride, d.padding, d.more_padding, 0};
  return build(&c);
}

static ac_tensor *pool2d(ac_op op, const char *name, ac_tensor *x, const ac_pool2d_desc *desc) {
  const ac_pool2d_desc d = AC_DESCRIBED(ac_pool2d_desc, desc);
  call c = {.ceil = d.ceil, .skip_padding = d.skip_padding};
  if (!begin(&c, name, op, x, 2)) return NULL;
  for (int i = 0; i < 2; i++)
    c.axis[i] = (axis){d.kernel[i], d.stride[i], d.padding[i], d.more_padding[i], 0};
  return build(&c);
}

static ac_tensor *pool3d(ac_op op, const char *name, ac_tensor *x, const ac_pool3d_desc *desc) {
  const ac_pool3d_desc d = AC_DESCRIBED(ac_pool3d_desc, desc);
  call c = {.ceil = d.ceil, .skip_padding = d.skip_padding};
  if (!begin(&c, name, op, x, 3)) return NULL;
  for (int i = 0; i < 3; i++)
    c.axis[i] = (axis){d.kernel[i], d.stride[i], d.padding[i], d.more_padding[i], 0};
  return build(&c);
}

ac_tensor *ac_max_pool1d(ac_tensor *x, const ac_pool1d_desc *desc) {
  return pool1d(AC_OP_max_pool2d, "max_pool1d", x, desc);
}

ac_tensor *ac_average_pool1d(ac_tensor *x, const ac_pool1d_desc *desc) {
  return pool1d(AC_OP_average_pool2d, "average_pool1d", x, desc);
}

ac_tensor *ac_max_pool2d(ac_tensor *x, const ac_pool2d_desc *desc) {
  return pool2d(AC_OP_max_pool2d, "max_pool2d", x, desc);
}

ac_tensor *ac_average_pool2d(ac_tensor *x, const ac_pool2d_desc *desc) {
  return pool2d(AC_OP_average_pool2d, "average_pool2d", x, desc);
}

ac_tensor *ac_max_pool3d(ac_tensor *x, const ac_pool3d_desc *desc) {
  return pool3d(AC_OP_max_pool2d, "max_pool3d", x, desc);
}

ac_tensor *ac_average_pool3d(ac_tensor *x, const ac_pool3d_desc *desc) {
  return pool3d(AC_OP_average_pool2d, "average_pool3d", x, desc);
}

/* ---- so many outputs ------------------------------------------------------------------------- */

static ac_tensor *adaptive(ac_op op, const char *name, ac_tensor *x, int axes,
                           const int64_t *outputs) {
  call c = {.adaptive = true};
  if (!begin(&c, name, op, x, axes)) return NULL;
  if (!outputs) return ac_builder_fail(c.graph, &c.builder, &x, "%d sizes at NULL", axes);
  for (int i = 0; i < axes; i++) c.axis[i].outputs = outputs[i];
  return build(&c);
}

ac_tensor *ac_adaptive_max_pool(ac_tensor *x, int axes, const int64_t *outputs) {
  return adaptive(AC_OP_max_pool2d, "adaptive_max_pool", x, axes, outputs);
}

ac_tensor *ac_adaptive_average_pool(ac_tensor *x, int axes, const int64_t *outputs) {
  return adaptive(AC_OP_average_pool2d, "adaptive_average_pool", x, axes, outputs);
}

/* All positions as one patch of an image. */
static ac_tensor *global(ac_op op, const char *name, ac_tensor *x) {
  const ac_builder builder = {name, 1, {"x f32 [B, channels, ...]"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  if (x->dtype != AC_F32 || x->shape.rank < 3) return ac_builder_fail(graph, &builder, &x, NULL);
  ac_shape image = {.rank = 4,
                    .batched = x->shape.batched,
                    .dim = {x->shape.dim[0], x->shape.dim[1], 1, ac_shape_last(&x->shape)}};
  for (int i = 2; i + 1 < x->shape.rank; i++) image.dim[2] *= x->shape.dim[i];
  if (image.dim[2] > INT32_MAX || image.dim[3] > INT32_MAX)
    return ac_builder_fail(graph, &builder, &x, "more than 2^31 - 1 positions");
  ac_tensor *in = x->shape.rank == 4 ? x : ac_graph_view(graph, x, &image);
  if (!in) return NULL;
  const ac_pool2d_attributes a = {.kernel = {(int32_t)image.dim[2], (int32_t)image.dim[3]},
                                  .stride = {(int32_t)image.dim[2], (int32_t)image.dim[3]}};
  image.dim[2] = image.dim[3] = 1;
  ac_tensor *y = ac_graph_emit(graph, op, &a, sizeof a, 1, &in, &image);
  image.rank = 2;
  return y ? ac_graph_view(graph, y, &image) : NULL;
}

ac_tensor *ac_global_average_pool(ac_tensor *x) {
  return global(AC_OP_average_pool2d, "global_average_pool", x);
}

ac_tensor *ac_global_max_pool(ac_tensor *x) {
  return global(AC_OP_max_pool2d, "global_max_pool", x);
}
