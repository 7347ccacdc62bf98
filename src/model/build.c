/* The graph of a model. A block is
 *
 *     x = x + after_attention(attention(attention_norm(x)))
 *     x = x + after_mlp(mlp(mlp_norm(x)))
 *
 * and each norm is there if the family has its part. All linear layers of blocks are made by
 * `linear`, and all attention by `attend`. */
#include "model/model.h"

#include "core/error.h"
#include "graph/graph.h"
#include "graph/names.h"

#include <accrue/metric.h>
#include <accrue/pointwise.h>
#include <accrue/reduction.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct builder {
  const ac_model *model;
  const ac_model_config *config;
  const ac_family *family;
  ac_graph *graph;
  const ac_model_graph_desc *desc;
  int64_t context, layer;
  ac_tensor *positions, *segments; /* NULL: one document */
  ac_tensor *ends;                 /* of texts that are continued; else NULL */
} builder;

/* A leaf that the graph has already, from a pass over other tokens; NULL: none. */
static ac_tensor *existing(const builder *b, ac_role role, const char *name) {
  int found = -1;
  if (!b->desc->dpo || ac_graph_status(b->graph) != AC_OK) return NULL;
  if (!ac_graph_find_leaf(b->graph, role, name, &found)) return ac_graph_out_of_memory(b->graph);
  return ac_tensor_at(b->graph, found);
}

/* The blocks of a matrix. */
static ac_blocks blocks_of(const builder *b, const char *name, int64_t columns) {
  ac_blocks blocks = b->desc->base;
  if (b->desc->base_as_in_file) blocks = ac_model_blocks_in_file(b->model, name);
  const int elements = ac_blocks_elements(blocks);
  return elements && columns % elements == 0 ? blocks : AC_BLOCKS_NONE;
}

static ac_tensor *parameter(const builder *b, const char *name, const char *suffix, int rank,
                            const int64_t *shape) {
  char full[AC_PART_NAME + 16];
  const float deviation = 0.02f; /* where no file fills it */
  ac_parameter_desc desc = {.frozen = b->desc->frozen};
  snprintf(full, sizeof full, "%s.%s", name, suffix);
  if (rank > 1) desc.init = (ac_init){.kind = AC_INIT_NORMAL, .deviation = deviation};
  if (b->desc->cache) desc.init = (ac_init){.kind = AC_INIT_ZERO}; /* only made to be filled */
  if (rank == 2) desc.blocks = blocks_of(b, full, shape[1]);
  ac_tensor *there = existing(b, AC_ROLE_PARAMETER, full);
  if (there) return there;
  return ac_parameter(b->graph, full, rank, shape, &desc);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* x [B, T, in] -> [B, T, out], with the matrix NAME.weight: every matrix of a block. */
static ac_tensor *linear(const builder *b, const char *name, ac_tensor *x, int64_t in, int64_t out,
                         bool bias) {
  const ac_layout layout = b->family->in_out ? AC_IN_OUT : AC_OUT_IN;
  ac_tensor *weight = b->family->in_out ? parameter(b, name, "weight", AC_SHAPE(in, out))
                                        : parameter(b, name, "weight", AC_SHAPE(out, in));
  ac_tensor *added = bias ? parameter(b, name, "bias", AC_SHAPE(out)) : NULL;
  return ac_lora_linear(b->graph, name, x, weight, added, layout, b->desc->lora);
}

static ac_tensor *linear_part(const builder *b, ac_model_part part, ac_tensor *x, int64_t in,
                              int64_t out, bool bias) {
  char name[AC_PART_NAME];
  return linear(b, ac_part_name(b->family, part, b->layer, name), x, in, out, bias);
}

static bool has(const builder *b, ac_model_part part) {
  return b->family->parts[part] != NULL;
}

/* The norm of a part over the last dimension, of `size`; x itself if the family has no such part.
 */
static ac_tensor *norm(const builder *b, ac_model_part part, ac_tensor *x, int64_t size) {
  char name[AC_PART_NAME];
  if (!ac_part_name(b->family, part, b->layer, name)) return x;
  ac_parameter_desc desc = {.frozen = b->desc->frozen};
  char full[AC_PART_NAME + 16];
  snprintf(full, sizeof full, "%s.weight", name);
  if (b->family->norm != AC_MODEL_NORM_RMS_PLUS_ONE)
    desc.init = (ac_init){.kind = AC_INIT_CONSTANT, .value = 1};
  ac_tensor *gamma = existing(b, AC_ROLE_PARAMETER, full);
  if (!gamma) gamma = ac_parameter(b->graph, full, AC_SHAPE(size), &desc);
  const float epsilon = (float)b->config->epsilon;
  if (b->family->norm == AC_MODEL_NORM_LAYER)
    return ac_layer_norm(x, gamma, parameter(b, name, "bias", AC_SHAPE(size)), epsilon);
  if (b->family->norm == AC_MODEL_NORM_RMS_PLUS_ONE) gamma = ac_add_scalar(gamma, 1);
  return ac_rms_norm(x, gamma, epsilon);
}

static ac_tensor *activate(const builder *b, ac_tensor *x) {
  switch (b->config->activation) {
  case AC_GELU_OF_TANH:
    return ac_gelu(x, AC_GELU_TANH);
  case AC_GELU_OF_ERF:
    return ac_gelu(x, AC_GELU_ERF);
  case AC_RELU_OF:
    return ac_relu(x);
  default:
    return ac_silu(x);
  }
}

/* cap tanh(x / cap) */
static ac_tensor *soft_cap(ac_tensor *x, double cap) {
  return ac_scale(ac_tanh(ac_scale(x, (float)(1 / cap))), (float)cap);
}

/* ---- attention ------------------------------------------------------------------------------- */

static bool is_local(const builder *b) {
  return b->config->layer[b->layer] & AC_LAYER_LOCAL;
}

/* Queries and keys [B, T, heads, size] turned by their positions. */
static ac_tensor *rotate(const builder *b, ac_tensor *x) {
  const ac_model_config *c = b->config;
  if (has(b, AC_PART_POSITIONS) || (c->layer[b->layer] & AC_LAYER_UNROTATED)) return x;
  return ac_rope(x, b->positions, is_local(b) && c->has_local_rope ? &c->local_rope : &c->rope);
}

/* Attention's factor on products. */
static float scale(const builder *b) {
  const ac_model_config *c = b->config;
  double factor = 1 / sqrt(c->scale_of > 0 ? c->scale_of : (double)c->head_size);
  if (c->unscaled) factor = 1;
  if (c->scaled_by_layer) factor /= (double)(b->layer + 1);
  return (float)factor;
}

/* Attention of q [B, T, H, D] to k and v [B, T, Hkv, D], not yet turned: every block's. */
static ac_tensor *attend(const builder *b, ac_tensor *q, ac_tensor *k, ac_tensor *v) {
  const ac_model_config *c = b->config;
  const int64_t most = b->ends ? b->desc->cache : b->context;
  const bool window = is_local(b) && c->window > 0 && c->window < most;
  const ac_attention_desc desc = {.causal = true,
                                  .scale = scale(b),
                                  .soft_cap = (float)c->score_cap,
                                  .window = window ? (int)c->window : 0,
                                  .segments = b->segments};
  char name[32];
  snprintf(name, sizeof name, "layers.%" PRId64, b->layer);
  if (b->ends)
    return ac_cached_attention(rotate(b, q), rotate(b, k), v, name, b->ends, most, &desc);
  return ac_attention(rotate(b, q), rotate(b, k), v, &desc);
}

static ac_tensor *as_heads(const builder *b, ac_tensor *x, int64_t heads) {
  return ac_reshape(x, AC_SHAPE(AC_BATCH, b->context, heads, b->config->head_size));
}

/* q_norm and k_norm: over each head, or over all of them together. */
static ac_tensor *project(const builder *b, ac_model_part part, ac_model_part norm_part,
                          ac_tensor *x, int64_t heads) {
  const ac_model_config *c = b->config;
  const int64_t out = heads * c->head_size;
  x = linear_part(b, part, x, c->width, out, c->qkv_bias);
  if (norm_part == AC_PARTS) return as_heads(b, x, heads);
  if (b->family->whole_qk_norm) return as_heads(b, norm(b, norm_part, x, out), heads);
  return norm(b, norm_part, as_heads(b, x, heads), c->head_size);
}

static ac_tensor *attention(const builder *b, ac_tensor *x) {
  const ac_model_config *c = b->config;
  ac_tensor *q, *k, *v;
  if (has(b, AC_PART_QKV)) {
    const int64_t all = c->heads + 2 * c->key_heads;
    const int64_t sizes[] = {c->heads, c->key_heads, c->key_heads};
    ac_tensor *parts[3];
    x = linear_part(b, AC_PART_QKV, x, c->width, all * c->head_size, c->qkv_bias);
    ac_split(as_heads(b, x, all), 2, 3, sizes, parts);
    q = parts[0], k = parts[1], v = parts[2];
  } else {
    q = project(b, AC_PART_Q, AC_PART_Q_NORM, x, c->heads);
    k = project(b, AC_PART_K, AC_PART_K_NORM, x, c->key_heads);
    v = project(b, AC_PART_V, AC_PARTS, x, c->key_heads);
  }
  const int64_t in = c->heads * c->head_size;
  x = ac_reshape(attend(b, q, k, v), AC_SHAPE(AC_BATCH, b->context, in));
  return linear_part(b, AC_PART_O, x, in, c->width, c->o_bias);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static ac_tensor *mlp(const builder *b, ac_tensor *x) {
  const ac_model_config *c = b->config;
  ac_tensor *gate = NULL, *up;
  if (has(b, AC_PART_GATE_UP)) {
    ac_tensor *parts[2];
    x = linear_part(b, AC_PART_GATE_UP, x, c->width, 2 * c->hidden, c->mlp_bias);
    ac_split(x, 2, 2, NULL, parts);
    gate = parts[0], up = parts[1];
  } else {
    if (has(b, AC_PART_GATE))
      gate = linear_part(b, AC_PART_GATE, x, c->width, c->hidden, c->mlp_bias);
    up = linear_part(b, AC_PART_UP, x, c->width, c->hidden, c->mlp_bias);
  }
  if (!gate) x = activate(b, up);
  else if (c->activation == AC_SILU) x = ac_swiglu(gate, up);
  else x = ac_multiply(activate(b, gate), up);
  return linear_part(b, AC_PART_DOWN, x, c->hidden, c->width, c->mlp_bias);
}

static ac_tensor *block(const builder *b, ac_tensor *x) {
  const int64_t width = b->config->width;
  ac_tensor *h = attention(b, norm(b, AC_PART_ATTENTION_NORM, x, width));
  x = ac_add(x, norm(b, AC_PART_AFTER_ATTENTION, h, width));
  h = mlp(b, norm(b, AC_PART_MLP_NORM, x, width));
  return ac_add(x, norm(b, AC_PART_AFTER_MLP, h, width));
}

/* ---- both ends ------------------------------------------------------------------------------- */

static ac_tensor *table(const builder *b, ac_model_part part, int64_t rows) {
  char name[AC_PART_NAME];
  return parameter(b, ac_part_name(b->family, part, 0, name), "weight",
                   AC_SHAPE(rows, b->config->width));
}

/* Rows of the learned positions: [B, T, C], or [T, C] of one document. The table stays whole, so
 * that the file that it is saved to is. */
static ac_tensor *learned_positions(const builder *b) {
  ac_tensor *rows = table(b, AC_PART_POSITIONS, b->config->positions), *at = b->positions;
  if (!at) at = existing(b, AC_ROLE_CONSTANT, "positions");
  if (at) return ac_embedding(rows, at);
  int32_t *count = malloc((size_t)b->context * sizeof *count);
  for (int64_t t = 0; count && t < b->context; t++) count[t] = (int32_t)t;
  at = count ? ac_constant(b->graph, "positions", AC_I32, AC_SHAPE(b->context), count) : NULL;
  free(count);
  return at ? ac_embedding(rows, at) : NULL;
}

static ac_tensor *embed(const builder *b, ac_tensor *tokens, ac_tensor *embedding) {
  ac_tensor *x = ac_embedding(embedding, tokens);
  if (b->family->scaled) x = ac_scale(x, (float)sqrt((double)b->config->width));
  if (has(b, AC_PART_POSITIONS)) x = ac_add(x, learned_positions(b));
  return x;
}

static ac_tensor *with_logits(const builder *b, ac_tensor *x, ac_tensor *head) {
  ac_tensor *logits = ac_linear(x, head, NULL, AC_OUT_IN);
  return b->config->logit_cap > 0 ? soft_cap(logits, b->config->logit_cap) : logits;
}

static ac_tensor *finish(const builder *b, ac_tensor *x, ac_tensor *head) {
  const int64_t T = b->context;
  if (b->desc->logits || b->ends) {
    ac_tensor *logits = with_logits(b, x, head);
    ac_graph_set_output(b->graph, "logits", logits);
    return logits;
  }
  ac_tensor *targets = ac_input(b->graph, "targets", AC_I32, AC_SHAPE(AC_BATCH, T)),
            *weights = b->desc->weighted
                           ? ac_input(b->graph, "weights", AC_F32, AC_SHAPE(AC_BATCH, T))
                           : NULL,
            *loss = ac_linear_cross_entropy(
                x, head, AC_OUT_IN, targets, weights,
                &(ac_cross_entropy_desc){.soft_cap = (float)b->config->logit_cap});
  ac_graph_set_loss(b->graph, loss);
  return loss;
}

/* What the head takes of each position, or of the last one; *head is the head. */
static ac_tensor *body(builder *b, ac_tensor *tokens, ac_tensor **head) {
  const ac_model_config *c = b->config;
  char scope[32];
  ac_tensor *embedding = table(b, AC_PART_EMBEDDING, c->vocabulary),
            *x = embed(b, tokens, embedding);
  for (b->layer = 0; b->layer < c->layers; b->layer++) {
    snprintf(scope, sizeof scope, "layers.%lld", (long long)b->layer);
    ac_graph_scope(b->graph, scope);
    x = block(b, x);
  }
  ac_graph_scope(b->graph, "head");
  if (b->ends) x = ac_slice(x, 1, b->context - 1, 1);
  *head = c->tied ? embedding : table(b, AC_PART_HEAD, c->vocabulary);
  return norm(b, AC_PART_NORM, x, c->width);
}

/* ---- preferences ----------------------------------------------------------------------------- */

static ac_tensor *input_of(const builder *b, const char *answer, const char *field,
                           ac_dtype dtype) {
  char name[32];
  snprintf(name, sizeof name, "%s_%s", answer, field);
  return ac_input(b->graph, name, dtype, AC_SHAPE(AC_BATCH, b->context));
}

/* By how much the logarithm of an answer's probability is above that without adapters: [B]. */
static ac_tensor *log_ratio(builder *b, const char *answer) {
  ac_model_graph_desc without = *b->desc;
  builder reference = *b;
  const float cap = (float)b->config->logit_cap;
  without.lora = NULL;
  reference.desc = &without;
  ac_tensor *tokens = input_of(b, answer, "tokens", AC_I32),
            *targets = input_of(b, answer, "targets", AC_I32),
            *weights = input_of(b, answer, "weights", AC_F32), *head;
  ac_tensor *x = body(&reference, tokens, &head);
  ac_tensor *less = ac_linear_log_probability(x, head, AC_OUT_IN, targets, weights, NULL, cap);
  x = body(b, tokens, &head);
  x = ac_linear_log_probability(x, head, AC_OUT_IN, targets, weights, less, cap);
  x = ac_sum(x, AC_AXES(1), false);
  ac_graph_set_output(b->graph, answer, x);
  return x;
}

static ac_tensor *prefer(builder *b) {
  if (!b->desc->lora || !b->desc->frozen || b->desc->packed || b->desc->weighted ||
      b->desc->logits || b->desc->cache)
    return ac_graph_fail(b->graph, AC_ERROR_ARGUMENT,
                         "ac_model_build: preferences need adapters of a frozen model, which is "
                         "the reference, and none of packed, weighted, logits and cache");
  ac_tensor *chosen = log_ratio(b, "chosen"), *rejected = log_ratio(b, "rejected");
  ac_tensor *loss = ac_dpo_loss(chosen, rejected, NULL, NULL, NULL, b->desc->dpo);
  ac_graph_add_metric(b->graph, "accuracy", ac_loss(ac_less(rejected, chosen), NULL),
                      AC_METRIC_MEAN);
  ac_graph_scope(b->graph, NULL);
  ac_graph_set_loss(b->graph, loss);
  return loss;
}

static ac_tensor *build(builder *b) {
  if (b->desc->dpo) return prefer(b);
  ac_tensor *tokens = ac_input(b->graph, "tokens", AC_I32, AC_SHAPE(AC_BATCH, b->context)), *head;
  if (b->desc->packed) {
    b->segments = ac_input(b->graph, "segments", AC_I32, AC_SHAPE(AC_BATCH, b->context));
    b->positions = ac_input(b->graph, "positions", AC_I32, AC_SHAPE(AC_BATCH, b->context));
  }
  if (b->desc->cache) {
    b->positions = ac_input(b->graph, "positions", AC_I32, AC_SHAPE(AC_BATCH, b->context));
    b->ends = ac_input(b->graph, "ends", AC_I32, AC_SHAPE(AC_BATCH));
  }
  ac_tensor *x = body(b, tokens, &head);
  x = finish(b, x, head);
  ac_graph_scope(b->graph, NULL);
  return x;
}

ac_tensor *ac_model_build(const ac_model *model, ac_graph *graph, const ac_model_graph_desc *desc) {
  const ac_model_graph_desc d = AC_DESCRIBED(ac_model_graph_desc, desc);
  if (!AC_GIVEN(graph)) return NULL;
  if (!AC_GIVEN(model)) return ac_graph_fail(graph, AC_ERROR_ARGUMENT, "%s", ac_last_error());
  builder b = {.model = model,
               .config = &model->config,
               .family = model->config.family,
               .graph = graph,
               .desc = &d,
               .context = d.context ? d.context : model->config.positions};
  const int64_t most = has(&b, AC_PART_POSITIONS) ? model->config.positions : INT32_MAX;
  if (d.cache && (d.packed || d.weighted))
    return ac_graph_fail(
        graph, AC_ERROR_ARGUMENT,
        "ac_model_build: packed and weighted are not for texts that are continued");
  if (d.cache < 0 || d.cache > most)
    return ac_graph_fail(graph, AC_ERROR_ARGUMENT,
                         "ac_model_build: caches of %" PRId64 " positions; %s takes from 1 to "
                         "%" PRId64,
                         d.cache, model->config.source, most);
  if (b.context < 1 || b.context > most)
    return ac_graph_fail(graph, AC_ERROR_ARGUMENT,
                         "ac_model_build: a context of %" PRId64 "; %s takes from 1 to %" PRId64
                         " positions",
                         b.context, model->config.source, most);
  if ((unsigned)d.base > AC_BLOCKS_NF4)
    return ac_graph_fail(graph, AC_ERROR_ARGUMENT, "ac_model_build: the unknown blocks %d",
                         (int)d.base);
  if ((d.base || d.base_as_in_file) && !d.frozen)
    return ac_graph_fail(graph, AC_ERROR_ARGUMENT,
                         "ac_model_build: a base in blocks cannot be trained; let it be frozen");
  return build(&b);
}
