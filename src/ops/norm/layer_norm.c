/* With h = (x - mean) r, r = 1 / sqrt(var + epsilon) over the last dimension of size C, and gamma 1
 * or beta 0 where they are absent:
 *   y = gamma h + beta
 *   g = gamma dy;  dx = r (g - mean(g) - h mean(g h))
 *   dgamma = sum over rows of dy h,  dbeta = sum over rows of dy
 * The forward pass keeps (mean, r) of each row; h is computed anew from x. */
#include "ops/norm/layer_norm.h"

#include "ops/norm/norm.h"

static ac_tensor *of_rows(ac_graph *graph, ac_tensor *const *operands, float epsilon) {
  const ac_layer_norm_attributes attributes = {epsilon};
  ac_shape statistics = operands[0]->shape;
  statistics.dim[statistics.rank - 1] = 2;
  return ac_norm_emit(graph, AC_OP_layer_norm, &attributes, sizeof attributes, 3, operands,
                      &statistics);
}

ac_tensor *ac_layer_norm(ac_tensor *x, ac_tensor *gamma, ac_tensor *beta, float epsilon) {
  static const ac_builder builder = {
      "layer_norm", 3, {"x f32 [..., C]", "gamma? f32 [C]", "beta? f32 [C]"}};
  ac_tensor *operands[] = {x, gamma, beta};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  int64_t channels = ac_shape_last(&x->shape);
  if (x->dtype != AC_F32 || (x->shape.batched && x->shape.rank < 2) ||
      (gamma && !ac_is_float_vector(gamma, channels)) ||
      (beta && !ac_is_float_vector(beta, channels)))
    return ac_builder_fail(graph, &builder, operands, NULL);
  ac_layer_norm_attributes attributes = {epsilon};
  if (!ac_norm_epsilon(graph, &builder, operands, &attributes.epsilon)) return NULL;
  return of_rows(graph, operands, attributes.epsilon);
}

ac_tensor *ac_layer_norm_over(ac_tensor *x, ac_tensor *gamma, ac_tensor *beta, int count,
                              const int *axes, float epsilon) {
  static const ac_builder builder = {
      "layer_norm_over", 3, {"x f32", "gamma? f32 [the axes]", "beta? f32 [the axes]"}};
  ac_tensor *operands[] = {x, gamma, beta};
  return ac_norm_over(&builder, operands, count, axes, epsilon, of_rows);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_graph *graph = d->graph;
  ac_tensor *operands[] = {ac_gradient_of(d, node->out[0]), ac_tensor_at(graph, node->in[0]),
                           ac_tensor_at(graph, node->out[1]), ac_tensor_at(graph, node->in[1])};
  AC_TRY(ac_gradient_emit(d, AC_OP_layer_norm_parameter_gradient, NULL, 0, 3, operands, 2,
                          &node->in[1]));
  return ac_gradient_emit(d, AC_OP_layer_norm_input_gradient, NULL, 0, 4, operands, 1,
                          &node->in[0]);
}

/* Counted by hand from the formulas above, per element of x. */

static const ac_layer_norm_attributes sampled = {1e-5f};

const ac_op_desc ac_op_desc_layer_norm = {
    .gradient = gradient,
    .flops_per_element = 7,
    .sample = {{"RC", "C", "C"}, {"RC", "R2"}, &sampled},
};
const ac_op_desc ac_op_desc_layer_norm_input_gradient = {
    .in_place = 1,
    .can_add = 1,
    .backward = true,
    .flops_per_element = 11,
    .sample = {{"RC", "RC", "R2", "C"}, {"RC"}, NULL},
};
const ac_op_desc ac_op_desc_layer_norm_parameter_gradient = {
    .can_add = 3,
    .backward = true,
    .flops_per_element = 5,
    .sample = {{"RC", "RC", "R2"}, {"C", "C"}, NULL},
};
