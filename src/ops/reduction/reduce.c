/* Results over axes of x, each of n elements. They are f32 whatever x is stored in.
 *
 *   sum of x / divisor        dx = dy / divisor
 */
#include <accrue/reduction.h>

#include "ops/reduction/reduction.h"

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

static ac_graph *begin(const ac_builder *builder, ac_tensor *x, int count, const int *axes,
                       uint32_t *bits) {
  ac_graph *graph = ac_builder_graph(builder, &x);
  if (!graph) return NULL;
  if (x->dtype != AC_F32) return ac_builder_fail(graph, builder, &x, NULL), NULL;
  if (x->shape.batched && x->shape.rank < 2)
    return ac_builder_fail(graph, builder, &x, "the batch is the only dimension of x"), NULL;
  if (!ac_axes_parse(&x->shape, count, axes, bits)) {
    ac_axes_fail(graph, builder, x, count, axes);
    return NULL;
  }
  return graph;
}

static ac_tensor *emit(ac_graph *graph, ac_tensor *x, const ac_reduce_attributes *attributes,
                       bool keep) {
  const ac_shape shape = ac_shape_reduced(&x->shape, attributes->axes, keep);
  return ac_graph_emit(graph, AC_OP_reduce, attributes, sizeof *attributes, 1, &x, &shape);
}

ac_tensor *ac_sum(ac_tensor *x, int count, const int *axes, bool keep) {
  static const ac_builder builder = {"sum", 1, {"x f32"}};
  ac_reduce_attributes a = {.kind = AC_REDUCE_SUM, .divisor = 1};
  ac_graph *graph = begin(&builder, x, count, axes, &a.axes);
  return graph ? emit(graph, x, &a, keep) : NULL;
}

ac_tensor *ac_mean(ac_tensor *x, int count, const int *axes, bool keep) {
  static const ac_builder builder = {"mean", 1, {"x f32"}};
  ac_reduce_attributes a = {.kind = AC_REDUCE_SUM};
  ac_graph *graph = begin(&builder, x, count, axes, &a.axes);
  if (!graph) return NULL;
  a.divisor = (float)length_of(&x->shape, a.axes);
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

ac_tensor *ac_append_sum_to(ac_graph *graph, ac_tensor *x, const ac_shape *shape) {
  if (!x || ac_shape_equal(&x->shape, shape)) return x;
  const ac_reduce_attributes a = {
      .kind = AC_REDUCE_SUM, .axes = ac_repeated_axes(shape, &x->shape), .divisor = 1};
  if (!a.axes) return ac_graph_view(graph, x, shape);
  return ac_graph_emit(graph, AC_OP_reduce, &a, sizeof a, 1, &x, shape);
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
  ac_tensor *operands[] = {ac_gradient_of(d, node->out[0])};
  return ac_gradient_emit(d, AC_OP_reduce_gradient, node->attributes, sizeof(ac_reduce_attributes),
                          1, operands, 1, &node->in[0]);
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
