/* Over all samples and positions of each channel of x[B, C, ...], with h = (x - mean) r,
 * r = 1 / sqrt(var + epsilon):
 *   y = gamma h + beta
 *   dx = gamma r (dy - mean(dy) - h mean(dy h)),  dgamma = sum of dy h,  dbeta = sum of dy
 * The forward pass keeps (mean, r) of each channel, and var for the pool; h is computed anew from
 * x. All gradients follow from the sums of dy and dy h of each channel, so one op yields them all.
 * In evaluation mean and variance are the running ones (batch_norm.h). If they are frozen, dx is
 * gamma r dy, and x is needed for dgamma alone. */
#include "ops/norm/batch_norm.h"

#include "ops/norm/norm.h"
#include "ops/words.h"

static bool is_running(const ac_tensor *tensor, int64_t channels) {
  return tensor->role == AC_ROLE_PARAMETER && tensor->desc.frozen &&
         ac_is_float_vector(tensor, channels);
}

ac_tensor *ac_batch_norm(ac_tensor *x, ac_tensor *gamma, ac_tensor *beta, ac_tensor *running_mean,
                         ac_tensor *running_variance, const ac_batch_norm_desc *desc) {
  static const ac_builder builder = {"batch_norm",
                                     5,
                                     {"x f32 [B, C, ...]", "gamma? f32 [C]", "beta? f32 [C]",
                                      "running_mean f32 [C], a frozen parameter",
                                      "running_variance f32 [C], a frozen parameter"}};
  const ac_op op = AC_OP_batch_norm;
  ac_tensor *operands[] = {x, gamma, beta, running_mean, running_variance};
  ac_graph *graph = ac_builder_graph(&builder, operands);
  if (!graph || !ac_norm_over_channels(graph, &builder, operands)) return NULL;
  int64_t channels = x->shape.dim[1];
  if (!is_running(running_mean, channels) || !is_running(running_variance, channels) ||
      !x->shape.batched)
    return ac_builder_fail(graph, &builder, operands, NULL);
  const ac_batch_norm_desc described = AC_DESCRIBED(ac_batch_norm_desc, desc);
  ac_batch_norm_attributes attributes = {described.epsilon, described.momentum,
                                         described.frozen_statistics};
  if (!ac_norm_epsilon(graph, &builder, operands, &attributes.epsilon)) return NULL;
  if (attributes.momentum == 0) attributes.momentum = 0.1f;
  if (!(attributes.momentum > 0 && attributes.momentum <= 1))
    return ac_builder_fail(graph, &builder, operands, "momentum is %g, not in (0, 1]",
                           (double)attributes.momentum);
  ac_shape statistics = {.rank = 2, .dim = {channels, 2}},
           variance = {.rank = 1, .dim = {channels}};
  ac_tensor *y = ac_norm_emit(graph, op, &attributes, sizeof attributes, 5, operands, &statistics);
  if (y && attributes.frozen) return y;
  if (!y || !ac_graph_add_output(graph, y->producer, AC_ROLE_ACTIVATION, AC_F32, &variance))
    return NULL;
  return y;
}

static bool is_frozen(const void *attributes) {
  return ((const ac_batch_norm_attributes *)attributes)->frozen;
}
static bool couples(const void *attributes) {
  return !is_frozen(attributes);
}

static ac_status gradient(ac_differentiation *d, const ac_node *node) {
  ac_graph *graph = d->graph;
  const bool takes_x = !is_frozen(node->attributes) || ac_gradient_wanted(d, node->in[1]);
  ac_tensor *operands[] = {ac_gradient_of(d, node->out[0]),
                           takes_x ? ac_tensor_at(graph, node->in[0]) : NULL,
                           ac_tensor_at(graph, node->out[1]), ac_tensor_at(graph, node->in[1])};
  return ac_gradient_emit(d, AC_OP_batch_norm_gradient, node->attributes,
                          sizeof(ac_batch_norm_attributes), 4, operands, 3, node->in);
}

ac_status ac_batch_norm_append_update(ac_graph *graph, const ac_node *node, ac_tensor *pooled,
                                      const int running[2]) {
  const ac_batch_norm_attributes *norm = (const void *)node->attributes;
  ac_batch_norm_update_attributes attributes = {norm->momentum};
  int index =
      ac_graph_append(graph, AC_OP_batch_norm_update, &attributes, sizeof attributes, 1, &pooled);
  if (index < 0) return graph->status;
  for (int j = 0; j < 2; j++) ac_node_at(graph, index)->out[j] = running[j];
  return AC_OK;
}

static ac_status window(ac_differentiation *d, const ac_node *node) {
  ac_graph *graph = d->graph;
  if (is_frozen(node->attributes)) return AC_OK;
  const ac_tensor *x = ac_tensor_at(graph, node->in[0]);
  ac_tensor *statistics[] = {ac_tensor_at(graph, node->out[1]), ac_tensor_at(graph, node->out[2])};
  int64_t channels = x->shape.dim[1];
  ac_batch_norm_pool_attributes attributes = {ac_shape_count(&x->shape) / channels};
  ac_shape shape = {.rank = 2, .dim = {channels, 3}};
  int index =
      ac_graph_append(graph, AC_OP_batch_norm_pool, &attributes, sizeof attributes, 2, statistics);
  ac_tensor *pooled = ac_graph_new_tensor(graph, AC_ROLE_POOLED, AC_F32, &shape);
  if (index < 0 || !pooled) return graph->status;
  pooled->parameter = ac_tensor_at(graph, node->in[3])->parameter; /* the running mean's */
  ac_node_at(graph, index)->out[0] = pooled->id;
  return ac_batch_norm_append_update(graph, node, pooled, node->in + 3);
}

/* Counted by hand from the formulas above, per element of x. */
static double flops(const ac_op_args *args) {
  const bool measured = args->run && args->run->training && !is_frozen(args->attributes);
  return (measured ? 8.0 : 3.0) * (double)args->in[0].count;
}
static double gradient_flops(const ac_op_args *args) {
  const double sums = args->out[1].count ? 5 : args->out[2].count ? 1 : 0;
  const double each = is_frozen(args->attributes) ? sums + (args->out[0].count ? 1 : 0)
                      : args->out[0].count        ? 10
                                                  : 5;
  return each * (double)args->in[0].count;
}
/* And of batch_norm.h, per channel. */
static double pool_flops(const ac_op_args *args) {
  return 16.0 * (double)args->in[0].dim[0];
}
static double update_flops(const ac_op_args *args) {
  return 8.0 * (double)args->in[0].dim[0];
}

/* One value of a channel has no variance. */
static int64_t least_samples(const ac_op_args *args) {
  const bool one = args->in[0].count == args->in[0].dim[1];
  return one && !is_frozen(args->attributes) ? 2 : 1;
}

static void words(ac_words *words, const ac_op_args *args) {
  if (is_frozen(args->attributes)) ac_words_put(words, ", frozen statistics");
  else ac_words_put_evaluation(words, args->run);
}
static void gradient_words(ac_words *words, const ac_op_args *args) {
  if (is_frozen(args->attributes)) ac_words_put(words, ", frozen statistics");
}

static const ac_batch_norm_attributes sampled = {.epsilon = 1e-5f};
static const ac_batch_norm_pool_attributes sampled_pool = {1024};
static const ac_batch_norm_update_attributes sampled_update = {0.1f};

const ac_op_desc ac_op_desc_batch_norm = {
    .couples = couples,
    .least_samples = least_samples,
    .gradient = gradient,
    .window = window,
    .flops = flops,
    .words = words,
    .sample = {{"mcP", "c", "c", "c", "c"}, {"mcP", "c2", "c"}, &sampled},
};
const ac_op_desc ac_op_desc_batch_norm_gradient = {
    .in_place = 1,
    .can_add = 7,
    .couples = couples,
    .backward = true,
    .flops = gradient_flops,
    .words = gradient_words,
    .sample = {{"mcP", "mcP", "c2", "c"}, {"mcP", "c", "c"}, &sampled},
};
const ac_op_desc ac_op_desc_batch_norm_pool = {
    .sums = 1,
    .backward = true,
    .flops = pool_flops,
    .sample = {{"n2", "n"}, {"n3"}, &sampled_pool},
};
const ac_op_desc ac_op_desc_batch_norm_update = {
    .phase = AC_PHASE_UPDATE,
    .flops = update_flops,
    .sample = {{"n3"}, {"n", "n"}, &sampled_update},
};
