/* y[j] = x[0] + ... + x[j] along an axis: dx[j] = dy[j] + dy[j + 1] + ..., the same from the other
 * end. */
#include <accrue/reduction.h>

#include "graph/builder.h"
#include "ops/reduction/along.h"
#include "ops/reduction/reduction.h"
#include "ops/words.h"

ac_tensor *ac_cumulative_sum(ac_tensor *x, int axis) {
  static const ac_builder builder = {"cumulative_sum", 1, {"x f32"}};
  uint32_t bits;
  ac_graph *graph = ac_axes_begin(&builder, x, 1, &axis, &bits);
  if (!graph) return NULL;
  const ac_cumulative_sum_attributes a = {ac_shape_axis(&x->shape, axis), false};
  return ac_graph_emit(graph, AC_OP_cumulative_sum, &a, sizeof a, 1, &x, &x->shape);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_cumulative_sum_attributes a = *(const ac_cumulative_sum_attributes *)node->attributes;
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  a.reversed = !a.reversed;
  return ac_gradient_emit(d, AC_OP_cumulative_sum, &a, sizeof a, 1, &dy, 1, &node->in[0]);
}

static void words(ac_words *words, const ac_op_args *args) {
  const ac_cumulative_sum_attributes *a = args->attributes;
  ac_words_put(words, ", along %d", (int)a->axis);
  if (a->reversed) ac_words_put(words, ", reversed");
}

static const ac_cumulative_sum_attributes sampled = {1, false};

const ac_op_desc ac_op_desc_cumulative_sum = {
    .in_place = 1,
    .gradient = gradient,
    .flops_per_element = 1,
    .words = words,
    .sample = {{"RC"}, {"RC"}, &sampled},
};
