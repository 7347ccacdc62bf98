/* Images of another size (resize2d.h): y = A x B^T for each plane, where A and B have the weights
 * of the rows' and the columns' neighbours; dx = A^T dy B. */
#include "ops/convolution/resize2d.h"

#include "core/integers.h"
#include "graph/builder.h"
#include "graph/differentiate.h"
#include "ops/words.h"

#include <math.h>

static const char *const axes[] = {"height", "width"};

/* The size of an axis of the result, or 0. */
static int64_t resized(const ac_resize2d_desc *desc, int axis, int64_t size) {
  const double factor = desc->factor[axis];
  if (desc->size[axis]) return ac_larger(0, desc->size[axis]);
  if (factor == 0) return size;
  const double result = floor((double)size * factor);
  return result >= 1 && result <= (double)AC_MAX_ELEMENTS ? (int64_t)result : 0;
}

/* As PyTorch computes it: a factor that is given counts itself, not the size that it leads to. An
 * axis that keeps its size keeps its pixels, which cubic kernels of a factor would not. */
static float scale_of(const ac_resize2d_desc *desc, int axis, int64_t from, int64_t to) {
  const bool bicubic = desc->kind == AC_RESIZE_BICUBIC;
  if (desc->align_corners) return to > 1 ? (float)(from - 1) / (float)(to - 1) : 0.0f;
  if (from == to && !(bicubic && desc->factor[axis] != 0)) return 1;
  if (desc->size[axis] || desc->factor[axis] == 0) return (float)from / (float)to;
  return desc->kind == AC_RESIZE_NEAREST && to == 2 * from ? 0.5f : (float)(1 / desc->factor[axis]);
}

static ac_tensor *resize(const char *name, ac_tensor *x, const ac_resize2d_desc *desc) {
  const ac_builder builder = {name, 1, {"x f32 [B, channels, height, width]"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  ac_shape shape = x->shape;
  if (x->dtype != AC_F32 || shape.rank != 4) return ac_builder_fail(graph, &builder, &x, NULL);
  const int kind = (int)desc->kind;
  if (kind < AC_RESIZE_NEAREST || kind > AC_RESIZE_BICUBIC)
    return ac_builder_fail(graph, &builder, &x, "unknown kind %d", kind);
  if (kind == AC_RESIZE_NEAREST && desc->align_corners)
    return ac_builder_fail(graph, &builder, &x, "nearest pixels have no corners to align");
  ac_resize2d_attributes attributes = {kind, desc->align_corners, {0}};
  for (int i = 0; i < 2; i++) {
    const int64_t from = x->shape.dim[2 + i], to = resized(desc, i, from);
    if (desc->size[i] && desc->factor[i] != 0)
      return ac_builder_fail(graph, &builder, &x, "there are both a size and a factor of %s",
                             axes[i]);
    if (to < 1 || from < 1)
      return ac_builder_fail(graph, &builder, &x,
                             "a size of %lld and a factor of %g make %s %lld to none",
                             (long long)desc->size[i], desc->factor[i], axes[i], (long long)from);
    if (to > INT32_MAX || from > INT32_MAX)
      return ac_builder_fail(graph, &builder, &x, "a %s of %lld is beyond any device", axes[i],
                             (long long)ac_larger(from, to));
    attributes.scale[i] = scale_of(desc, i, from, to);
    shape.dim[2 + i] = to;
  }
  return ac_graph_emit(graph, AC_OP_resize2d, &attributes, sizeof attributes, 1, &x, &shape);
}

ac_tensor *ac_resize2d(ac_tensor *x, const ac_resize2d_desc *desc) {
  const ac_resize2d_desc described = AC_DESCRIBED(ac_resize2d_desc, desc);
  return resize("resize2d", x, &described);
}

ac_tensor *ac_upsample_nearest2d(ac_tensor *x, int factor) {
  static const ac_builder builder = {
      "upsample_nearest2d", 1, {"x f32 [B, channels, height, width]"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  if (factor < 1)
    return ac_builder_fail(graph, &builder, &x, "the factor is %d, not at least 1", factor);
  return resize("upsample_nearest2d", x, &(ac_resize2d_desc){.factor = {factor, factor}});
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  return ac_gradient_emit(d, AC_OP_resize2d_gradient, node->attributes,
                          sizeof(ac_resize2d_attributes), 1, &dy, 1, &node->in[0]);
}

/* The rows of each plane, then its columns: a multiplication and a sum for each neighbour. Nearest
 * pixels are copied. */
static double work(const ac_op_args *args, const ac_operand *x, const ac_operand *y) {
  const ac_resize2d_attributes *a = args->attributes;
  const double taps = ac_resize_taps(a->kind);
  return 2 * taps * ((double)(x->count / x->dim[2] * y->dim[2]) + (double)y->count);
}
static double flops(const ac_op_args *args) {
  const ac_resize2d_attributes *a = args->attributes;
  return a->kind == AC_RESIZE_NEAREST ? 0 : work(args, &args->in[0], &args->out[0]);
}
static double gradient_flops(const ac_op_args *args) {
  const ac_resize2d_attributes *a = args->attributes;
  return a->kind == AC_RESIZE_NEAREST ? (double)args->in[0].count
                                      : work(args, &args->out[0], &args->in[0]);
}

static void words(ac_words *words, const ac_op_args *args) {
  static const char *const kinds[] = {"nearest", "bilinear", "bicubic"};
  const ac_resize2d_attributes *a = args->attributes;
  ac_words_put(words, ", %s", kinds[a->kind]);
}

static const ac_resize2d_attributes sampled = {AC_RESIZE_BILINEAR, 0, {0.5f, 0.5f}};

const ac_op_desc ac_op_desc_resize2d = {
    .gradient = gradient,
    .flops = flops,
    .words = words,
    .sample = {{"8kss"}, {"8kSS"}, &sampled},
};
const ac_op_desc ac_op_desc_resize2d_gradient = {
    .can_add = 1,
    .backward = true,
    .flops = gradient_flops,
    .words = words,
    .sample = {{"8kSS"}, {"8kss"}, &sampled},
};
