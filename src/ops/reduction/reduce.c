/* Results y over axes of x. They are f32 whatever x is stored in. With dy, and with the share
 * 1 / (number of the largest), or the mean, kept in addition to y, for each element:
 *
 *   sum         sum of x / divisor                  dx = dy / divisor
 *   absolutes   sum of |x|                          dx = dy sign(x)
 *   squares     sqrt(sum of x^2)                    dx = dy x / y, 0 if y is
 *   powers      (sum of |x|^p)^(1/p)                dx = dy sign(x) (|x| / y)^(p-1), 0 if y is
 *   max, min                                        dx = dy share where x = y, else 0
 *   largest     max of |x|                          dx = dy share sign(x) where |x| = y, else 0
 *   logsumexp   log of the sum of e^x               dx = dy e^(x - y), 0 if y is -infinity
 *   variance    sum of (x - mean)^2 / divisor       dx = dy 2 (x - mean) / divisor */
#include <accrue/reduction.h>

#include "ops/reduction/reduction.h"

#include <math.h>

#include "graph/builder.h"
#include "ops/words.h"

/* ---- builders -------------------------------------------------------------------------------- */

/* Elements of x that make one result. */
static int64_t length_of(const ac_shape *shape, uint32_t axes) {
  int64_t length = 1;
  for (int d = 0; d < shape->rank; d++)
    if (axes >> d & 1) length *= shape->dim[d];
  return length;
}

static bool keeps(int kind) {
  return kind == AC_REDUCE_MAX || kind == AC_REDUCE_MIN || kind == AC_REDUCE_LARGEST ||
         kind == AC_REDUCE_VARIANCE;
}

static ac_tensor *emit(ac_graph *graph, ac_tensor *x, const ac_reduce_attributes *attributes,
                       bool keep) {
  const ac_shape shape = ac_shape_reduced(&x->shape, attributes->axes, keep);
  ac_tensor *y = ac_graph_emit(graph, AC_OP_reduce, attributes, sizeof *attributes, 1, &x, &shape);
  if (!y || !keeps(attributes->kind)) return y;
  return ac_graph_add_output(graph, y->producer, AC_ROLE_ACTIVATION, AC_F32, &shape) ? y : NULL;
}

static ac_tensor *reduce(const char *name, ac_reduce_kind kind, ac_tensor *x, int count,
                         const int *axes, bool keep) {
  const ac_builder builder = {name, 1, {"x f32"}};
  ac_reduce_attributes a = {.kind = kind, .divisor = 1};
  ac_graph *graph = ac_axes_begin(&builder, x, count, axes, &a.axes);
  return graph ? emit(graph, x, &a, keep) : NULL;
}

ac_tensor *ac_sum(ac_tensor *x, int count, const int *axes, bool keep) {
  return reduce("sum", AC_REDUCE_SUM, x, count, axes, keep);
}

ac_tensor *ac_max(ac_tensor *x, int count, const int *axes, bool keep) {
  return reduce("max", AC_REDUCE_MAX, x, count, axes, keep);
}

ac_tensor *ac_min(ac_tensor *x, int count, const int *axes, bool keep) {
  return reduce("min", AC_REDUCE_MIN, x, count, axes, keep);
}

ac_tensor *ac_logsumexp(ac_tensor *x, int count, const int *axes, bool keep) {
  return reduce("logsumexp", AC_REDUCE_LOGSUMEXP, x, count, axes, keep);
}

ac_tensor *ac_mean(ac_tensor *x, int count, const int *axes, bool keep) {
  static const ac_builder builder = {"mean", 1, {"x f32"}};
  ac_reduce_attributes a = {.kind = AC_REDUCE_SUM};
  ac_graph *graph = ac_axes_begin(&builder, x, count, axes, &a.axes);
  if (!graph) return NULL;
  a.divisor = (float)length_of(&x->shape, a.axes);
  return emit(graph, x, &a, keep);
}

ac_tensor *ac_norm(ac_tensor *x, float p, int count, const int *axes, bool keep) {
  static const ac_builder builder = {"norm", 1, {"x f32"}};
  ac_reduce_attributes a = {.divisor = 1};
  ac_graph *graph = ac_axes_begin(&builder, x, count, axes, &a.axes);
  if (!graph) return NULL;
  if (p != 0 && !(p >= 1))
    return ac_builder_fail(graph, &builder, &x, "p is %g, not 1 or more", (double)p);
  if (p == 0) p = 2;
  a.kind = p == 1          ? AC_REDUCE_ABSOLUTES
           : p == 2        ? AC_REDUCE_SQUARES
           : p == INFINITY ? AC_REDUCE_LARGEST
                           : AC_REDUCE_POWERS;
  if (a.kind == AC_REDUCE_POWERS) a.power = p;
  return emit(graph, x, &a, keep);
}

ac_tensor *ac_variance(ac_tensor *x, bool unbiased, int count, const int *axes, bool keep) {
  static const ac_builder builder = {"variance", 1, {"x f32"}};
  ac_reduce_attributes a = {.kind = AC_REDUCE_VARIANCE};
  ac_graph *graph = ac_axes_begin(&builder, x, count, axes, &a.axes);
  if (!graph) return NULL;
  const int64_t length = length_of(&x->shape, a.axes);
  if (unbiased && length < 2)
    return ac_builder_fail(graph, &builder, &x, "one element has no unbiased variance");
  a.divisor = (float)(unbiased ? length - 1 : length);
  return emit(graph, x, &a, keep);
}

/* ---- sums to smaller shapes ------------------------------------------------------------------ */

uint32_t ac_repeated_axes(const ac_shape *from, const ac_shape *to) {
  uint32_t axes = 0;
  const int missing = to->rank - from->rank;
  for (int d = 0; d < to->rank; d++) {
    const bool batched = to->batched && d == 0, had = from->batched && d == missing;
    const bool repeated = d < missing || (from->dim[d - missing] == 1 && to->dim[d] != 1);
    if (repeated || (batched && !had)) axes |= 1u << d;
  }
  return axes;
}

ac_status ac_gradient_sum_to(ac_differentiation *d, int target, ac_tensor *gradient) {
  if (!gradient || !ac_gradient_wanted(d, target)) return d->graph->status;
  const ac_shape *shape = &ac_tensor_at(d->graph, target)->shape;
  const ac_reduce_attributes a = {
      .kind = AC_REDUCE_SUM, .axes = ac_repeated_axes(shape, &gradient->shape), .divisor = 1};
  if (a.axes) return ac_gradient_emit(d, AC_OP_reduce, &a, sizeof a, 1, &gradient, 1, &target);
  if (!ac_shape_equal(&gradient->shape, shape)) gradient = ac_graph_view(d->graph, gradient, shape);
  return ac_gradient_pass(d, target, gradient);
}

/* ---- the op ---------------------------------------------------------------------------------- */

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_graph *graph = d->graph;
  const ac_reduce_attributes *a = (const void *)node->attributes;
  ac_tensor *operands[] = {ac_gradient_of(d, node->out[0]), NULL, NULL, NULL};
  if (a->kind != AC_REDUCE_SUM) operands[1] = ac_tensor_at(graph, node->in[0]);
  if (a->kind != AC_REDUCE_SUM && a->kind != AC_REDUCE_ABSOLUTES && a->kind != AC_REDUCE_VARIANCE)
    operands[2] = ac_tensor_at(graph, node->out[0]);
  operands[3] = ac_tensor_at(graph, node->out[1]);
  return ac_gradient_emit(d, AC_OP_reduce_gradient, node->attributes, sizeof *a, 4, operands, 1,
                          &node->in[0]);
}

static void words(ac_words *words, const ac_op_args *args) {
  static const char *const names[] = {"sum", "absolutes", "squares",   "powers",  "max",
                                      "min", "largest",   "logsumexp", "variance"};
  const ac_reduce_attributes *a = args->attributes;
  ac_words_put(words, ", %s over", names[a->kind]);
  for (int d = 0; d < AC_MAX_RANK; d++)
    if (a->axes >> d & 1) ac_words_put(words, " %d", d);
}

static const ac_reduce_attributes sampled = {.kind = AC_REDUCE_SUM, .axes = 2, .divisor = 1};

const ac_op_desc ac_op_desc_reduce = {
    .can_add = 1,
    .gradient = gradient,
    .flops_per_element = 1,
    .words = words,
    .sample = {{"RC"}, {"R"}, &sampled},
};
const ac_op_desc ac_op_desc_reduce_gradient = {
    .can_add = 1,
    .backward = true,
    .flops_per_element = 1,
    .words = words,
    .sample = {{"R"}, {"RC"}, &sampled},
};
