/* With h = x r, r = 1 / sqrt(mean(x^2) + epsilon) over the last dimension, and gamma 1 where it is
 * absent:
 *   y = gamma h
 *   g = gamma dy;  dx = r (g - h mean(g h))
 *   dgamma = sum over rows of dy h
 * The forward pass keeps r of each row; h is computed anew from x. */
#include "ops/norm/rms_norm.h"

#include "ops/norm/norm.h"

static ac_tensor *of_rows(ac_graph *graph, ac_tensor *const *operands, float epsilon) {
  const ac_rms_norm_attributes attributes = {epsilon};
  ac_shape statistics = operands[0]->shape;
  statistics.dim[statistics.rank - 1] = 1;
  return ac_norm_emit(graph, AC_OP_rms_norm, &attributes, sizeof attributes, 2, operands,
                      &statistics);
}

ac_tensor *ac_rms_norm(ac_tensor *x, ac_tensor *gamma, float epsilon) {
  static const ac_builder builder = {"rms_norm", 2, {"x f32 [..., C]", "gamma? f32 [C]"}};
  ac_tensor *operands[] = {x, gamma};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph) return NULL;
  if (x->dtype != AC_F32 || (x->shape.batched && x->shape.rank < 2) ||
      (gamma && !ac_is_float_vector(gamma, ac_shape_last(&x->shape))))
    return ac_builder_fail(graph, &builder, operands, NULL);
  ac_rms_norm_attributes attributes = {epsilon};
  if (!ac_norm_epsilon(graph, &builder, operands, &attributes.epsilon)) return NULL;
  return of_rows(graph, operands, attributes.epsilon);
}

ac_tensor *ac_rms_norm_over(ac_tensor *x, ac_tensor *gamma, int count, const int *axes,
                            float epsilon) {
  static const ac_builder builder = {"rms_norm_over", 2, {"x f32", "gamma? f32 [the axes]"}};
  ac_tensor *operands[] = {x, gamma};
  return ac_norm_over(&builder, operands, count, axes, epsilon, of_rows);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_graph *graph = d->graph;
  ac_tensor *operands[] = {ac_gradient_of(d, node->out[0]), ac_tensor_at(graph, node->in[0]),
                           ac_tensor_at(graph, node->out[1]), ac_tensor_at(graph, node->in[1])};
  AC_TRY(ac_gradient_emit(d, AC_OP_rms_norm_parameter_gradient, NULL, 0, 3, operands, 1,
                          &node->in[1]));
  return ac_gradient_emit(d, AC_OP_rms_norm_input_gradient, NULL, 0, 4, operands, 1, &node->in[0]);
}

/* Counted by hand from the formulas above, per element of x. */

static const ac_rms_norm_attributes sampled = {1e-5f};

const ac_op_desc ac_op_desc_rms_norm = {
    .gradient = gradient,
    .flops_per_element = 4,
    .sample = {{"RC", "C"}, {"RC", "R"}, &sampled},
};
const ac_op_desc ac_op_desc_rms_norm_input_gradient = {
    .in_place = 1,
    .can_add = 1,
    .backward = true,
    .flops_per_element = 8,
    .sample = {{"RC", "RC", "R", "C"}, {"RC"}, NULL},
};
const ac_op_desc ac_op_desc_rms_norm_parameter_gradient = {
    .can_add = 1,
    .backward = true,
    .flops_per_element = 3,
    .sample = {{"RC", "RC", "R"}, {"C"}, NULL},
};
