/* y = factor * x: dx = factor * dy. */
#include "ops/pointwise/scale.h"

#include "graph/builder.h"
#include "ops/pointwise/elementwise.h"

#include <math.h>

ac_tensor *ac_scale(ac_tensor *x, float factor) {
  static const ac_builder builder = {"scale", 1, {"x f32"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  if (!isfinite(factor))
    return ac_builder_fail(graph, &builder, &x, "the factor %g is not finite", (double)factor);
  ac_scale_attributes attributes = {factor};
  return ac_unary(AC_OP_scale, x, &attributes, sizeof attributes);
}

int ac_append_scale(ac_graph *graph, float factor, ac_tensor *x) {
  const ac_scale_attributes attributes = {factor};
  return ac_graph_append(graph, AC_OP_scale, &attributes, sizeof attributes, 1, &x);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_tensor *dy = ac_gradient_of(d, node->out[0]);
  return ac_gradient_emit(d, AC_OP_scale, node->attributes, sizeof(ac_scale_attributes), 1, &dy, 1,
                          &node->in[0]);
}

static const ac_scale_attributes sampled = {0.5f};

const ac_op_desc ac_op_desc_scale = {
    .in_place = 1,
    .can_add = 1,
    .gradient = gradient,
    .flops_per_element = 1,
    .sample = {{"n"}, {"n"}, &sampled},
};
