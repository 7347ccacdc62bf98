/* The channels of x[B, C, ...] are cut into G groups of neighbours. With
 * h = (x - mean) r, r = 1 / sqrt(var + epsilon) over the elements of a sample's group:
 *   y = gamma[c] h + beta[c]
 *   g = gamma[c] dy;  dx = r (g - mean(g) - h mean(g h)), means over the group
 *   dgamma[c] = sum of dy h,  dbeta[c] = sum of dy, over samples and positions
 * The forward pass keeps (mean, r) of each sample's groups; h is computed anew from x. All
 * gradients follow from the sums of dy and dy h of each sample's channel, so one op yields them
 * all. */
#include "ops/norm/group_norm.h"

#include "ops/norm/norm.h"

#define AC_EACH_CHANNEL INT64_MIN /* as many groups as channels */

static ac_tensor *build(const char *name, ac_tensor *x, ac_tensor *gamma, ac_tensor *beta,
                        int64_t groups, float epsilon) {
  const ac_builder builder = {name, 3, {"x f32 [B, C, ...]", "gamma? f32 [C]", "beta? f32 [C]"}};
  const ac_op op = AC_OP_group_norm;
  ac_tensor *operands[] = {x, gamma, beta};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph || !ac_norm_over_channels(graph, &builder, operands)) return NULL;
  int64_t channels = x->shape.dim[1];
  if (groups == AC_EACH_CHANNEL) groups = channels;
  if (groups < 1 || channels % groups)
    return ac_builder_fail(graph, &builder, operands,
                           "%lld channels cannot be divided into %lld groups", (long long)channels,
                           (long long)groups);
  ac_group_norm_attributes attributes = {.groups = groups, .epsilon = epsilon};
  if (!ac_norm_epsilon(graph, &builder, operands, &attributes.epsilon)) return NULL;
  ac_shape statistics = {3, x->shape.batched, {x->shape.dim[0], groups, 2}};
  return ac_norm_emit(graph, op, &attributes, sizeof attributes, 3, operands, &statistics);
}

ac_tensor *ac_group_norm(ac_tensor *x, ac_tensor *gamma, ac_tensor *beta, int groups,
                         float epsilon) {
  return build("group_norm", x, gamma, beta, groups, epsilon);
}

ac_tensor *ac_instance_norm(ac_tensor *x, ac_tensor *gamma, ac_tensor *beta, float epsilon) {
  return build("instance_norm", x, gamma, beta, AC_EACH_CHANNEL, epsilon);
}

ac_tensor *ac_sample_norm(ac_tensor *x, ac_tensor *gamma, ac_tensor *beta, float epsilon) {
  return build("sample_norm", x, gamma, beta, 1, epsilon);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_graph *graph = d->graph;
  ac_tensor *operands[] = {ac_gradient_of(d, node->out[0]), ac_tensor_at(graph, node->in[0]),
                           ac_tensor_at(graph, node->out[1]), ac_tensor_at(graph, node->in[1])};
  return ac_gradient_emit(d, AC_OP_group_norm_gradient, node->attributes,
                          sizeof(ac_group_norm_attributes), 4, operands, 3, node->in);
}

/* Counted by hand from the formulas above, per element of x. */
static double gradient_flops(const ac_op_args *args) {
  return (args->out[0].count ? 11.0 : 5.0) * (double)args->in[0].count;
}

static const ac_group_norm_attributes sampled = {.groups = 8, .epsilon = 1e-5f};

const ac_op_desc ac_op_desc_group_norm = {
    .gradient = gradient,
    .flops_per_element = 7,
    .sample = {{"mcP", "c", "c"}, {"mcP", "m82"}, &sampled},
};
const ac_op_desc ac_op_desc_group_norm_gradient = {
    .in_place = 1,
    .can_add = 7,
    .backward = true,
    .flops = gradient_flops,
    .sample = {{"mcP", "mcP", "m82", "c"}, {"mcP", "c", "c"}, &sampled},
};
