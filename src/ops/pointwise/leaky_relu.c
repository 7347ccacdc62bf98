/* y = x where x > 0, else slope x: dx = dy where y > 0, else slope dy. The slope is not negative,
 * so y > 0 just where x > 0, and the output is what the backward pass needs. */
#include "ops/pointwise/leaky_relu.h"

#include "graph/builder.h"
#include "ops/pointwise/elementwise.h"

#include <math.h>

ac_tensor *ac_leaky_relu(ac_tensor *x, float slope) {
  static const ac_builder builder = {"leaky_relu", 1, {"x f32"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  if (!(slope >= 0) || isinf(slope))
    return ac_builder_fail(graph, &builder, &x,
                           "the slope is %g; it must be finite and not negative", (double)slope);
  ac_leaky_relu_attributes attributes = {slope};
  return ac_unary(AC_OP_leaky_relu, x, &attributes, sizeof attributes);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  return ac_unary_gradient(d, node, AC_OP_leaky_relu_gradient, node->out[0],
                           sizeof(ac_leaky_relu_attributes));
}

/* A comparison and a product. */

static const ac_leaky_relu_attributes sampled = {0.01f};

const ac_op_desc ac_op_desc_leaky_relu = {
    .in_place = 1,
    .gradient = gradient,
    .flops_per_element = 2,
    .sample = {{"n"}, {"n"}, &sampled},
};
const ac_op_desc ac_op_desc_leaky_relu_gradient = {
    .in_place = 1,
    .backward = true,
    .flops_per_element = 2,
    .sample = {{"n", "n"}, {"n"}, &sampled},
};
