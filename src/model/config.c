/* What is common to configurations of both forms: where they begin, what follows from what they
 * say, and what cannot be. */
#include "model/model.h"

#include "core/error.h"

#include <inttypes.h>

enum { MOST_SIZE = 1 << 24, MOST_TOKENS = 1 << 28, MOST_POSITIONS = 1 << 28 };

void ac_config_begin(ac_model_config *config, const ac_family *family, const char *source) {
  *config = (ac_model_config){.family = family,
                              .source = source,
                              .tied = family->tied,
                              .qkv_bias = family->qkv_bias,
                              .o_bias = family->o_bias,
                              .mlp_bias = family->mlp_bias,
                              .epsilon = family->epsilon,
                              .activation = family->activation,
                              .head_size = family->head_size,
                              .rotated = 1,
                              .window = family->window,
                              .pattern = family->pattern,
                              .window_from = family->window_from,
                              .unrotated_each = family->unrotated_each,
                              .scale_of = family->scale_of,
                              .score_cap = family->score_cap,
                              .logit_cap = family->logit_cap,
                              .rope = {.base = family->rope_base},
                              .local_rope = {.base = family->local_base},
                              .has_local_rope = family->local_base > 0,
                              .begin = -1};
}

static ac_status check_size(const ac_model_config *c, const char *what, int64_t size,
                            int64_t most) {
  if (size >= 1 && size <= most) return AC_OK;
  return ac_fail(AC_ERROR_FORMAT, "%s: %s is %" PRId64 ", not in [1, %" PRId64 "]", c->source, what,
                 size, most);
}

static ac_status check_sizes(const ac_model_config *c) {
  AC_TRY(check_size(c, "the number of layers", c->layers, AC_MODEL_MOST_LAYERS));
  AC_TRY(check_size(c, "the width", c->width, MOST_SIZE));
  AC_TRY(check_size(c, "the number of heads", c->heads, MOST_SIZE));
  AC_TRY(check_size(c, "the number of heads of keys", c->key_heads, MOST_SIZE));
  AC_TRY(check_size(c, "the size of a head", c->head_size, MOST_SIZE));
  AC_TRY(check_size(c, "the inner size of the MLP", c->hidden, MOST_SIZE));
  AC_TRY(check_size(c, "the vocabulary", c->vocabulary, MOST_TOKENS));
  AC_TRY(check_size(c, "the number of positions", c->positions, MOST_POSITIONS));
  if (c->heads % c->key_heads)
    return ac_fail(AC_ERROR_FORMAT,
                   "%s: %" PRId64 " heads of queries are not a multiple of %" PRId64
                   " heads of keys",
                   c->source, c->heads, c->key_heads);
  if ((c->heads + 2 * c->key_heads) * c->head_size > MOST_SIZE)
    return ac_fail(AC_ERROR_FORMAT, "%s: %" PRId64 " heads of %" PRId64 " are too many", c->source,
                   c->heads, c->head_size);
  return AC_OK;
}

/* What becomes a float has to be one that is not 0, which would mean a default. */
static bool is_of_middling_size(double x) {
  return x >= 1e-9 && x <= 1e9;
}

/* Rotary positions turn pairs; the first `rotated` part of a head. */
static ac_status finish_rope(ac_model_config *c) {
  if (c->family->parts[AC_PART_POSITIONS]) return AC_OK;
  const int64_t dimensions = (int64_t)((double)c->head_size * c->rotated);
  if (!(c->rotated > 0 && c->rotated <= 1) || dimensions < 2 || dimensions % 2)
    return ac_fail(AC_ERROR_FORMAT,
                   "%s: rotary positions turn %" PRId64 " elements of a head of %" PRId64
                   "; it must be an even number",
                   c->source, dimensions, c->head_size);
  if (!is_of_middling_size(c->rope.base) ||
      (c->has_local_rope && !is_of_middling_size(c->local_rope.base)))
    return ac_fail(AC_ERROR_FORMAT, "%s: the base of rotary positions is %g", c->source,
                   is_of_middling_size(c->rope.base) ? c->local_rope.base : c->rope.base);
  c->rope.dimensions = c->local_rope.dimensions = (int)dimensions;
  return AC_OK;
}

static bool is_unrotated(const ac_model_config *c, int64_t layer) {
  if (c->has_unrotated) return c->layer[layer] & AC_LAYER_UNROTATED;
  return c->unrotated_each && (layer + 1) % c->unrotated_each == 0;
}

static bool is_local(const ac_model_config *c, int64_t layer) {
  if (c->has_layer_types) return c->layer[layer] & AC_LAYER_LOCAL;
  switch (c->family->window_rule) {
  case AC_WINDOW_PATTERN:
    return (layer + 1) % c->pattern != 0;
  case AC_WINDOW_LATE:
    return c->window_in_use && layer >= c->window_from;
  case AC_WINDOW_UNROTATED:
    return c->window_in_use && is_unrotated(c, layer);
  default:
    return true;
  }
}

static ac_status finish_layers(ac_model_config *c) {
  if ((c->has_layer_types && c->listed_layers != c->layers) ||
      (c->has_unrotated && c->listed_unrotated != c->layers))
    return ac_fail(
        AC_ERROR_FORMAT, "%s: %s has another number of entries than there are layers", c->source,
        c->has_layer_types && c->listed_layers != c->layers ? "layer_types" : "no_rope_layers");
  if (c->family->window_rule == AC_WINDOW_PATTERN && c->pattern < 1)
    return ac_fail(AC_ERROR_FORMAT, "%s: the pattern of layers with a window is %" PRId64,
                   c->source, c->pattern);
  if (c->window < 0 || c->window > INT32_MAX)
    return ac_fail(AC_ERROR_FORMAT, "%s: the sliding window is %" PRId64, c->source, c->window);
  bool any = false;
  for (int64_t layer = 0; layer < c->layers; layer++) {
    const bool unrotated = is_unrotated(c, layer), local = is_local(c, layer);
    any |= local;
    c->layer[layer] =
        (uint8_t)((local ? AC_LAYER_LOCAL : 0) | (unrotated ? AC_LAYER_UNROTATED : 0));
  }
  if (!any) c->window = 0;
  const bool needed = c->has_layer_types || c->family->window_rule == AC_WINDOW_PATTERN;
  if (any && needed && !c->window)
    return ac_fail(AC_ERROR_FORMAT, "%s: layers have a sliding window, but its size is missing",
                   c->source);
  return AC_OK;
}

static ac_status check_numbers(const ac_model_config *c) {
  if (!is_of_middling_size(c->epsilon) || c->epsilon >= 1)
    return ac_fail(AC_ERROR_FORMAT, "%s: the epsilon of norms is %g", c->source, c->epsilon);
  if (c->scale_of && !is_of_middling_size(c->scale_of))
    return ac_fail(AC_ERROR_FORMAT, "%s: query_pre_attn_scalar is %g", c->source, c->scale_of);
  if ((c->score_cap && !is_of_middling_size(c->score_cap)) ||
      (c->logit_cap && !is_of_middling_size(c->logit_cap)))
    return ac_fail(AC_ERROR_FORMAT, "%s: a soft cap is %g", c->source,
                   c->score_cap && !is_of_middling_size(c->score_cap) ? c->score_cap
                                                                      : c->logit_cap);
  return AC_OK;
}

ac_status ac_config_finish(ac_model_config *c) {
  if (!c->key_heads) c->key_heads = c->heads;
  if (!c->head_size && c->heads > 0) {
    if (c->width % c->heads)
      return ac_fail(AC_ERROR_FORMAT, "%s: %" PRId64 " heads do not divide the width of %" PRId64,
                     c->source, c->heads, c->width);
    c->head_size = c->width / c->heads;
  }
  if (!c->hidden && c->family->norm == AC_MODEL_NORM_LAYER && c->width <= MOST_SIZE)
    c->hidden = 4 * c->width;
  AC_TRY(check_sizes(c));
  AC_TRY(check_numbers(c));
  AC_TRY(finish_rope(c));
  return finish_layers(c);
}
