/* Over an axis, with m = max x and s = sum of e^(x - m):
 *   softmax     y = e^(x - m) / s         dx = y (dy - sum of dy y)
 *   logarithm   y = x - m - log(s)        dx = dy - e^y (sum of dy) */
#include "ops/attention/softmax.h"

#include <accrue/reduction.h>

#include "graph/builder.h"
#include "graph/differentiate.h"
#include "ops/words.h"

static ac_tensor *softmax(const char *name, ac_tensor *x, int axis, bool logarithm) {
  const ac_builder builder = {name, 1, {"x f32 [..., C]"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  if (x->dtype != AC_F32) return ac_builder_fail(graph, &builder, &x, NULL);
  if (x->shape.batched && x->shape.rank < 2)
    return ac_builder_fail(graph, &builder, &x, "the batch is the only dimension of x");
  const int at = ac_shape_axis(&x->shape, axis);
  if (at < 0 || at >= x->shape.rank)
    return ac_builder_fail(graph, &builder, &x, "axis %d is none of x", axis);
  if (at == 0 && x->shape.batched)
    return ac_builder_fail(graph, &builder, &x, "axis %d is the batch", axis);
  const ac_softmax_attributes attributes = {at, logarithm};
  return ac_graph_emit(graph, AC_OP_softmax, &attributes, sizeof attributes, 1, &x, &x->shape);
}

ac_tensor *ac_softmax(ac_tensor *x) {
  return softmax("softmax", x, -1, false);
}

ac_tensor *ac_softmax_over(ac_tensor *x, int axis) {
  return softmax("softmax_over", x, axis, false);
}

ac_tensor *ac_log_softmax(ac_tensor *x, int axis) {
  return softmax("log_softmax", x, axis, true);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_tensor *operands[] = {ac_gradient_of(d, node->out[0]), ac_tensor_at(d->graph, node->out[0])};
  return ac_gradient_emit(d, AC_OP_softmax_gradient, node->attributes,
                          sizeof(ac_softmax_attributes), 2, operands, 1, &node->in[0]);
}

static void words(ac_words *words, const ac_op_args *args) {
  const ac_softmax_attributes *a = args->attributes;
  if (a->axis != args->in[0].rank - 1) ac_words_put(words, ", over %d", (int)a->axis);
  if (a->logarithm) ac_words_put(words, ", logarithm");
}

static const ac_softmax_attributes sampled = {1, false};

const ac_op_desc ac_op_desc_softmax = {
    .in_place = 1,
    .gradient = gradient,
    .flops_per_element = 12,
    .words = words,
    .sample = {{"RC"}, {"RC"}, &sampled},
};
const ac_op_desc ac_op_desc_softmax_gradient = {
    .in_place = 1,
    .backward = true,
    .flops_per_element = 4,
    .words = words,
    .sample = {{"RC", "RC"}, {"RC"}, &sampled},
};
