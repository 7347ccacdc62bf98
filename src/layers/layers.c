/* Layers are made of public builders: each makes its parameters, NAME.weight and so on, and the ops
 * that use them, in the scope NAME. */
#include <accrue/layers.h>
#include <accrue/recurrent.h>

#include "graph/builder.h"

#include <math.h>
#include <stdio.h>

/* A layer while it is built. */
typedef struct layer {
  ac_graph *graph;
  const char *name;
  bool frozen;
  int scope; /* the one before */
} layer;

/* Checks what all layers are handed and enters the scope. */
static bool begin(layer *l, ac_graph *graph, const char *name, bool frozen,
                  const ac_builder *builder, ac_tensor *const *tensors) {
  if (!graph || !ac_builder_begin(graph, builder, tensors)) return false;
  if (!name || !*name) {
    ac_builder_fail(graph, builder, tensors, "the layer has no name");
    return false;
  }
  *l = (layer){graph, name, frozen, graph->scope};
  ac_graph_scope(graph, name);
  return graph->status == AC_OK;
}

static ac_tensor *end(layer *l, ac_tensor *result) {
  l->graph->scope = l->scope;
  return result;
}

static ac_tensor *parameter(const layer *l, const char *part, int rank, const int64_t *shape,
                            ac_init init) {
  char name[AC_MAX_NAME + 32];
  snprintf(name, sizeof name, "%s.%s", l->name, part);
  return ac_parameter(l->graph, name, rank, shape,
                      &(ac_parameter_desc){.init = init, .frozen = l->frozen});
}

static bool is_zero(const ac_init *init) {
  static const ac_init zero = AC_DEFAULTS;
  return init->kind == zero.kind && init->value == 0 && init->mean == 0 && init->deviation == 0 &&
         init->low == 0 && init->high == 0 && init->gain == 0 && !init->in_out && !init->values;
}

/* `init`, or what PyTorch's layers with this fan have: uniform in +-1 / sqrt(fan_in). */
static ac_init by_fan(const ac_init *init, double fan_in) {
  if (!is_zero(init)) return *init;
  const float bound = (float)(1 / sqrt(fan_in));
  return (ac_init){.kind = AC_INIT_UNIFORM, .low = -bound, .high = bound};
}

static ac_init constant(float value) {
  return (ac_init){.kind = AC_INIT_CONSTANT, .value = value};
}

ac_tensor *ac_dense(ac_graph *graph, const char *name, ac_tensor *x, int64_t out,
                    const ac_dense_desc *desc) {
  static const ac_builder builder = {"dense", 1, {"x f32 [..., in]"}};
  const ac_dense_desc d = desc ? *desc : (ac_dense_desc)AC_DEFAULTS;
  layer l;
  if (!begin(&l, graph, name, d.frozen, &builder, &x)) return NULL;
  const int64_t in = ac_shape_last(&x->shape);
  const double fan_in = (double)in;
  if (x->dtype != AC_F32 || x->shape.rank == 0 || (x->shape.batched && x->shape.rank == 1))
    return end(&l, ac_builder_fail(graph, &builder, &x, NULL));
  if (out < 1)
    return end(&l, ac_builder_fail(graph, &builder, &x, "out is %lld; it must be at least 1",
                                   (long long)out));
  ac_init weight = by_fan(&d.weight, fan_in);
  if (d.layout == AC_IN_OUT) weight.in_out = true;
  ac_tensor *w = d.layout == AC_IN_OUT ? parameter(&l, "weight", AC_SHAPE(in, out), weight)
                                       : parameter(&l, "weight", AC_SHAPE(out, in), weight);
  ac_tensor *b = d.no_bias ? NULL : parameter(&l, "bias", AC_SHAPE(out), by_fan(&d.bias, fan_in));
  return end(&l, ac_linear(x, w, b, d.layout));
}

/* ---- convolutions ---------------------------------------------------------------------------- */

/* What layers of convolutions have in common; `groups` as in the description. */
typedef struct convolution {
  layer layer;
  int64_t out;
  int kernel, groups, axes;
  bool transposed;
  ac_tensor *weight, *bias;
} convolution;

/* Enters the scope, checks what the builder of the op does not, and makes the parameters. */
static bool begin_convolution(convolution *c, ac_graph *graph, const char *name, ac_tensor *x,
                              const ac_builder *builder, bool frozen, bool no_bias,
                              const ac_init *weight, const ac_init *bias) {
  if (!begin(&c->layer, graph, name, frozen, builder, &x)) return false;
  const int64_t out = c->out, groups = c->groups ? c->groups : 1;
  if (x->dtype != AC_F32 || x->shape.rank != 2 + c->axes)
    return end(&c->layer, ac_builder_fail(graph, builder, &x, NULL));
  const int64_t in = x->shape.dim[1];
  if (out < 1 || c->kernel < 1)
    return end(&c->layer, ac_builder_fail(graph, builder, &x,
                                          "out is %lld and the kernel %d; both must be at least 1",
                                          (long long)out, c->kernel));
  if (groups < 1 || in % groups)
    return end(&c->layer,
               ac_builder_fail(graph, builder, &x, "%lld groups do not divide %lld channels",
                               (long long)groups, (long long)in));
  if (c->transposed && out % groups)
    return end(&c->layer,
               ac_builder_fail(graph, builder, &x, "%lld groups do not divide %lld channels",
                               (long long)groups, (long long)out));
  int64_t shape[AC_MAX_RANK] = {out, in / groups};
  if (c->transposed) shape[0] = in, shape[1] = out / groups;
  double fan_in = (double)shape[1]; /* as large as they may ask for */
  for (int i = 0; i < c->axes; i++) shape[2 + i] = c->kernel, fan_in *= c->kernel;
  c->weight = parameter(&c->layer, "weight", 2 + c->axes, shape, by_fan(weight, fan_in));
  if (!no_bias) c->bias = parameter(&c->layer, "bias", AC_SHAPE(out), by_fan(bias, fan_in));
  return true;
}

ac_tensor *ac_conv1d_layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t out, int kernel,
                           const ac_conv1d_layer_desc *desc) {
  static const ac_builder builder = {"conv1d_layer", 1, {"x f32 [B, in, L]"}};
  const ac_conv1d_layer_desc d = desc ? *desc : (ac_conv1d_layer_desc)AC_DEFAULTS;
  convolution c = {.out = out, .kernel = kernel, .groups = d.convolution.groups, .axes = 1};
  if (!begin_convolution(&c, graph, name, x, &builder, d.frozen, d.no_bias, &d.weight, &d.bias))
    return NULL;
  return end(&c.layer, ac_conv1d(x, c.weight, c.bias, &d.convolution));
}

ac_tensor *ac_conv2d_layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t out, int kernel,
                           const ac_conv2d_layer_desc *desc) {
  static const ac_builder builder = {"conv2d_layer", 1, {"x f32 [B, in, H, W]"}};
  const ac_conv2d_layer_desc d = desc ? *desc : (ac_conv2d_layer_desc)AC_DEFAULTS;
  convolution c = {.out = out, .kernel = kernel, .groups = d.convolution.groups, .axes = 2};
  if (!begin_convolution(&c, graph, name, x, &builder, d.frozen, d.no_bias, &d.weight, &d.bias))
    return NULL;
  return end(&c.layer, ac_conv2d(x, c.weight, c.bias, &d.convolution));
}

ac_tensor *ac_conv3d_layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t out, int kernel,
                           const ac_conv3d_layer_desc *desc) {
  static const ac_builder builder = {"conv3d_layer", 1, {"x f32 [B, in, D, H, W]"}};
  const ac_conv3d_layer_desc d = desc ? *desc : (ac_conv3d_layer_desc)AC_DEFAULTS;
  convolution c = {.out = out, .kernel = kernel, .groups = d.convolution.groups, .axes = 3};
  if (!begin_convolution(&c, graph, name, x, &builder, d.frozen, d.no_bias, &d.weight, &d.bias))
    return NULL;
  return end(&c.layer, ac_conv3d(x, c.weight, c.bias, &d.convolution));
}

ac_tensor *ac_conv_transpose1d_layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t out,
                                     int kernel, const ac_conv_transpose1d_layer_desc *desc) {
  static const ac_builder builder = {"conv_transpose1d_layer", 1, {"x f32 [B, in, L]"}};
  const ac_conv_transpose1d_layer_desc d =
      desc ? *desc : (ac_conv_transpose1d_layer_desc)AC_DEFAULTS;
  convolution c = {
      .out = out, .kernel = kernel, .groups = d.convolution.groups, .axes = 1, .transposed = true};
  if (!begin_convolution(&c, graph, name, x, &builder, d.frozen, d.no_bias, &d.weight, &d.bias))
    return NULL;
  return end(&c.layer, ac_conv_transpose1d(x, c.weight, c.bias, &d.convolution));
}

ac_tensor *ac_conv_transpose2d_layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t out,
                                     int kernel, const ac_conv_transpose2d_layer_desc *desc) {
  static const ac_builder builder = {"conv_transpose2d_layer", 1, {"x f32 [B, in, H, W]"}};
  const ac_conv_transpose2d_layer_desc d =
      desc ? *desc : (ac_conv_transpose2d_layer_desc)AC_DEFAULTS;
  convolution c = {
      .out = out, .kernel = kernel, .groups = d.convolution.groups, .axes = 2, .transposed = true};
  if (!begin_convolution(&c, graph, name, x, &builder, d.frozen, d.no_bias, &d.weight, &d.bias))
    return NULL;
  return end(&c.layer, ac_conv_transpose2d(x, c.weight, c.bias, &d.convolution));
}

/* ---- norms ----------------------------------------------------------------------------------- */

static ac_tensor *batch_norm(const layer *l, ac_tensor *x, int64_t channels, ac_tensor *weight,
                             ac_tensor *bias, const ac_norm_layer_desc *d) {
  layer still = *l;
  still.frozen = true;
  ac_tensor *mean = parameter(&still, "running_mean", AC_SHAPE(channels), constant(0)),
            *variance = parameter(&still, "running_var", AC_SHAPE(channels), constant(1));
  return ac_batch_norm(x, weight, bias, mean, variance,
                       &(ac_batch_norm_desc){.epsilon = d->epsilon,
                                             .momentum = d->momentum,
                                             .frozen_statistics = d->frozen_statistics});
}

static int groups_of(int64_t channels) {
  int groups = 32;
  while (channels % groups) groups--;
  return groups;
}

static const char *norm_fault(const ac_norm_layer_desc *d) {
  if (d->kind < AC_NORM_LAYER || d->kind > AC_NORM_BATCH) return "unknown kind of norm";
  if (d->groups && d->kind != AC_NORM_GROUP) return "only AC_NORM_GROUP has groups";
  if (d->momentum != 0 && d->kind != AC_NORM_BATCH) return "only AC_NORM_BATCH has a momentum";
  if (d->frozen_statistics && d->kind != AC_NORM_BATCH)
    return "only AC_NORM_BATCH has frozen statistics";
  if (d->no_bias && d->kind == AC_NORM_BATCH) return "AC_NORM_BATCH always has a bias";
  return NULL;
}

ac_tensor *ac_norm_layer(ac_graph *graph, const char *name, ac_tensor *x,
                         const ac_norm_layer_desc *desc) {
  static const ac_builder builder = {"norm_layer", 1, {"x f32 [..., C], or [B, C, ...]"}};
  const ac_norm_layer_desc d = desc ? *desc : (ac_norm_layer_desc)AC_DEFAULTS;
  layer l;
  if (!begin(&l, graph, name, d.frozen, &builder, &x)) return NULL;
  const char *fault = norm_fault(&d);
  if (fault) return end(&l, ac_builder_fail(graph, &builder, &x, "%s", fault));
  if (x->dtype != AC_F32 || x->shape.rank < 2)
    return end(&l, ac_builder_fail(graph, &builder, &x, NULL));
  const bool last = d.kind == AC_NORM_LAYER || d.kind == AC_NORM_RMS;
  const int64_t channels = last ? ac_shape_last(&x->shape) : x->shape.dim[1];
  ac_tensor *weight = parameter(&l, "weight", AC_SHAPE(channels), constant(1));
  ac_tensor *bias = d.kind == AC_NORM_RMS || d.no_bias
                        ? NULL
                        : parameter(&l, "bias", AC_SHAPE(channels), constant(0));
  switch (d.kind) {
  case AC_NORM_LAYER:
    return end(&l, ac_layer_norm(x, weight, bias, d.epsilon));
  case AC_NORM_RMS:
    return end(&l, ac_rms_norm(x, weight, d.epsilon));
  case AC_NORM_GROUP:
    return end(
        &l, ac_group_norm(x, weight, bias, d.groups ? d.groups : groups_of(channels), d.epsilon));
  case AC_NORM_INSTANCE:
    return end(&l, ac_instance_norm(x, weight, bias, d.epsilon));
  case AC_NORM_BATCH:
    break;
  }
  return end(&l, batch_norm(&l, x, channels, weight, bias, &d));
}

/* ---- recurrent layers ------------------------------------------------------------------------ */

typedef ac_tensor *recurrent_builder(ac_tensor *x, ac_tensor *lengths,
                                     const ac_recurrent_state *initial,
                                     const ac_recurrent_weights *weights,
                                     const ac_recurrent_desc *desc, ac_recurrent_state *final);

enum { RECURRENT_LAYERS = 32 };

/* Of layer `index / directions`, with PyTorch's names. */
static ac_recurrent_weights recurrent_weights(const layer *l, const ac_recurrent_layer_desc *d,
                                              int index, int directions, int64_t width, int64_t in,
                                              int64_t units) {
  char name[48];
  const char *suffix = index % directions ? "_reverse" : "";
  const ac_init weight = by_fan(&d->weight, (double)units), bias = by_fan(&d->bias, (double)units);
  const int number = index / directions;
  ac_recurrent_weights w = {NULL, NULL, NULL, NULL};
  snprintf(name, sizeof name, "weight_ih_l%d%s", number, suffix);
  w.input = parameter(l, name, AC_SHAPE(width, in), weight);
  snprintf(name, sizeof name, "weight_hh_l%d%s", number, suffix);
  w.hidden = parameter(l, name, AC_SHAPE(width, units), weight);
  if (d->no_bias) return w;
  snprintf(name, sizeof name, "bias_ih_l%d%s", number, suffix);
  w.input_bias = parameter(l, name, AC_SHAPE(width), bias);
  snprintf(name, sizeof name, "bias_hh_l%d%s", number, suffix);
  w.hidden_bias = parameter(l, name, AC_SHAPE(width), bias);
  return w;
}

static ac_tensor *recurrent_layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t units,
                                  const ac_recurrent_layer_desc *desc, ac_recurrent_state *final,
                                  const ac_builder *builder, int gates, recurrent_builder *build) {
  const ac_recurrent_layer_desc d = desc ? *desc : (ac_recurrent_layer_desc)AC_DEFAULTS;
  const int layers = d.recurrence.layers ? d.recurrence.layers : 1;
  const int directions = d.recurrence.direction == AC_BOTH_DIRECTIONS ? 2 : 1;
  layer l;
  if (final) *final = (ac_recurrent_state){NULL, NULL};
  if (!begin(&l, graph, name, d.frozen, builder, &x)) return NULL;
  if (x->dtype != AC_F32 || x->shape.rank != 3 || !x->shape.batched)
    return end(&l, ac_builder_fail(graph, builder, &x, NULL));
  if (units < 1 || units > INT32_MAX || layers < 1 || layers > RECURRENT_LAYERS)
    return end(&l, ac_builder_fail(graph, builder, &x,
                                   "%lld units in %d layers; there must be at least 1, and at most "
                                   "%d layers",
                                   (long long)units, layers, RECURRENT_LAYERS));
  ac_recurrent_weights weights[2 * RECURRENT_LAYERS];
  for (int i = 0; i < layers * directions; i++)
    weights[i] = recurrent_weights(&l, &d, i, directions, gates * units,
                                   i < directions ? x->shape.dim[2] : directions * units, units);
  return end(&l, graph->status == AC_OK
                     ? build(x, d.lengths, &d.initial, weights, &d.recurrence, final)
                     : NULL);
}

ac_tensor *ac_lstm_layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t units,
                         const ac_recurrent_layer_desc *desc, ac_recurrent_state *final) {
  static const ac_builder builder = {"lstm_layer", 1, {"x f32 [B, T, in]"}};
  return recurrent_layer(graph, name, x, units, desc, final, &builder, 4, ac_lstm);
}

ac_tensor *ac_gru_layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t units,
                        const ac_recurrent_layer_desc *desc, ac_recurrent_state *final) {
  static const ac_builder builder = {"gru_layer", 1, {"x f32 [B, T, in]"}};
  return recurrent_layer(graph, name, x, units, desc, final, &builder, 3, ac_gru);
}

ac_tensor *ac_rnn_layer(ac_graph *graph, const char *name, ac_tensor *x, int64_t units,
                        const ac_recurrent_layer_desc *desc, ac_recurrent_state *final) {
  static const ac_builder builder = {"rnn_layer", 1, {"x f32 [B, T, in]"}};
  return recurrent_layer(graph, name, x, units, desc, final, &builder, 1, ac_rnn);
}

/* ---- the others ------------------------------------------------------------------------------ */

ac_tensor *ac_embedding_layer(ac_graph *graph, const char *name, ac_tensor *ids, int64_t count,
                              int64_t width, const ac_embedding_layer_desc *desc) {
  static const ac_builder builder = {"embedding_layer", 1, {"ids i32 [...]"}};
  const ac_embedding_layer_desc d = desc ? *desc : (ac_embedding_layer_desc)AC_DEFAULTS;
  layer l;
  if (!begin(&l, graph, name, d.frozen, &builder, &ids)) return NULL;
  if (count < 1 || width < 1)
    return end(&l, ac_builder_fail(graph, &builder, &ids,
                                   "the table has %lld rows of %lld; both must be at least 1",
                                   (long long)count, (long long)width));
  const ac_init normal = {.kind = AC_INIT_NORMAL, .deviation = 1};
  ac_tensor *table =
      parameter(&l, "weight", AC_SHAPE(count, width), is_zero(&d.weight) ? normal : d.weight);
  return end(&l, ac_embedding(table, ids));
}

/* The stride that makes `to` of `from` positions with a kernel of one; 0: none does. */
static int stride_between(int64_t from, int64_t to) {
  if (to < 1 || to > from || from > INT32_MAX) return 0;
  if (to == 1) return (int)from;
  int64_t stride = (from - 1) / (to - 1);
  while (stride > 1 && (from - 1) / stride + 1 < to) stride--;
  return (from - 1) / stride + 1 == to ? (int)stride : 0;
}

ac_tensor *ac_residual(ac_graph *graph, const char *name, ac_tensor *x, ac_tensor *branch) {
  static const ac_builder builder = {"residual", 2, {"x f32 [...]", "branch f32 [...]"}};
  ac_tensor *operands[] = {x, branch};
  layer l;
  if (!begin(&l, graph, name, false, &builder, operands)) return NULL;
  if (ac_shape_equal(&x->shape, &branch->shape)) return end(&l, ac_add(branch, x));
  const ac_shape *from = &x->shape, *to = &branch->shape;
  if (from->rank != to->rank || from->rank < 2 || from->batched != to->batched)
    return end(&l, ac_builder_fail(graph, &builder, operands, NULL));
  l.graph->scope = l.scope;
  ac_tensor *projected = NULL;
  if (from->rank == 4) {
    ac_conv2d_layer_desc d = {.no_bias = true};
    for (int i = 0; i < 2; i++)
      d.convolution.stride[i] = stride_between(from->dim[2 + i], to->dim[2 + i]);
    if (!d.convolution.stride[0] || !d.convolution.stride[1])
      return ac_builder_fail(graph, &builder, operands, "no stride makes the branch's size of x's");
    projected = ac_conv2d_layer(graph, name, x, to->dim[1], 1, &d);
  } else {
    projected = ac_dense(graph, name, x, ac_shape_last(to), &(ac_dense_desc){.no_bias = true});
  }
  if (projected && !ac_shape_equal(&projected->shape, to))
    return ac_builder_fail(graph, &builder, operands, "only the last dimension may differ");
  ac_graph_scope(graph, name);
  return end(&l, ac_add(branch, projected));
}
