/* A configuration as GGUF metadata. What llama.cpp does not read but knows by the architecture has
 * to be as it knows it, or its computation would differ; that is refused here. */
#include "export/export.h"

#include "core/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct target {
  ac_values *values;
  const ac_model_config *config;
} target;

const char *ac_export_architecture(const ac_family *family) {
  return family->gguf ? family->gguf : !strcmp(family->name, "mistral") ? "llama" : NULL;
}

static const char *key_of(const target *t, const char *rest, char key[AC_PART_NAME]) {
  snprintf(key, AC_PART_NAME, "%s.%s", ac_export_architecture(t->config->family), rest);
  return key;
}

static void add_count(const target *t, const char *rest, int64_t value) {
  char key[AC_PART_NAME];
  ac_values_add_u32(t->values, key_of(t, rest, key), value);
}

static void add_real(const target *t, const char *rest, double value) {
  char key[AC_PART_NAME];
  ac_values_add_f32(t->values, key_of(t, rest, key), value);
}

static void add_text(const target *t, const char *rest, const char *value) {
  char key[AC_PART_NAME];
  ac_values_add_text(t->values, key_of(t, rest, key), value);
}

static ac_status refuse(const ac_model_config *c, const char *what) {
  return ac_fail(AC_ERROR_UNSUPPORTED, "%s: a GGUF file of architecture %s cannot say %s",
                 c->source, ac_export_architecture(c->family), what);
}

/* ---- what llama.cpp knows by itself ---------------------------------------------------------- */

/* The largest Gemma 2 and 3 divide by the width of a head that they do not have. */
static double known_scale_of(const ac_model_config *c) {
  const bool largest =
      (c->layers == 46 && c->width == 4608) || (c->layers == 62 && c->width == 5376);
  return largest ? (double)(c->width / c->heads) : (double)c->head_size;
}

static ac_status check_layers(const ac_model_config *c) {
  const bool pattern = c->family->window_rule == AC_WINDOW_PATTERN;
  for (int64_t layer = 0; layer < c->layers; layer++) {
    const bool local = c->layer[layer] & AC_LAYER_LOCAL;
    if (c->layer[layer] & AC_LAYER_UNROTATED)
      return refuse(c, "which layers have no rotary positions");
    if (pattern && local != ((layer + 1) % c->family->pattern != 0))
      return refuse(c, "which layers have a sliding window");
    if (!pattern && local && c->window && c->window < c->positions &&
        c->family->window_rule == AC_WINDOW_LATE)
      return refuse(c, "that layers have a sliding window");
  }
  return AC_OK;
}

static ac_status check(const ac_model_config *c) {
  AC_TRY(check_layers(c));
  if (c->scale_of > 0 && c->scale_of != known_scale_of(c))
    return refuse(c, "what attention's scores are divided by");
  if (c->unscaled || c->scaled_by_layer) return refuse(c, "another scale of attention's scores");
  if (c->has_local_rope && c->family->local_base > 0 && c->local_rope.base != c->family->local_base)
    return refuse(c, "the base of rotary positions of layers with a sliding window");
  if (c->has_local_rope && c->local_rope.scaling != AC_ROPE_UNSCALED)
    return refuse(c, "a scaling of rotary positions of layers with a sliding window");
  if (c->has_local_rope && !(c->family->local_base > 0) && c->local_rope.base != c->rope.base)
    return refuse(c, "a second base of rotary positions");
  const ac_activation expected = c->family->activation;
  if (c->activation != expected) return refuse(c, "that the MLP has another activation");
  if (c->rope.scaling == AC_ROPE_LLAMA3 &&
      (c->rope.low_freq_factor != 1 || c->rope.high_freq_factor != 4 ||
       c->rope.original_positions != 8192))
    return refuse(c, "this scaling of rotary positions");
  return AC_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

static void add_rope(const target *t) {
  const ac_model_config *c = t->config;
  if (c->family->parts[AC_PART_POSITIONS]) return;
  add_real(t, "rope.freq_base", c->rope.base);
  add_count(t, "rope.dimension_count", c->rope.dimensions);
  if (c->rope.scaling != AC_ROPE_LINEAR) return;
  add_text(t, "rope.scaling.type", "linear");
  add_real(t, "rope.scaling.factor", c->rope.factor);
}

static void add_attention(const target *t) {
  const ac_model_config *c = t->config;
  const bool layer_norm = c->family->norm == AC_MODEL_NORM_LAYER;
  add_count(t, "attention.head_count", c->heads);
  add_count(t, "attention.head_count_kv", c->key_heads);
  add_real(t, layer_norm ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
           c->epsilon);
  if (c->head_size * c->heads != c->width || c->family->head_size) {
    add_count(t, "attention.key_length", c->head_size);
    add_count(t, "attention.value_length", c->head_size);
  }
  /* Of Mistral's, llama.cpp takes no notice. */
  if (c->window && c->window < c->positions && c->family->window_rule != AC_WINDOW_LATE)
    add_count(t, "attention.sliding_window", c->window);
  if (c->score_cap > 0) add_real(t, "attn_logit_softcapping", c->score_cap);
  if (c->logit_cap > 0) add_real(t, "final_logit_softcapping", c->logit_cap);
}

ac_status ac_export_config_values(ac_values *values, const ac_model_config *config) {
  const target t = {values, config};
  const char *architecture = ac_export_architecture(config->family);
  if (!architecture)
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "%s: this library does not write models of the family %s as GGUF files",
                   config->source, config->family->name);
  AC_TRY(check(config));
  ac_values_add_text(values, "general.architecture", architecture);
  ac_values_add_text(values, "general.type", "model");
  add_count(&t, "block_count", config->layers);
  add_count(&t, "context_length", config->positions);
  add_count(&t, "embedding_length", config->width);
  add_count(&t, "feed_forward_length", config->hidden);
  add_count(&t, "vocab_size", config->vocabulary);
  add_attention(&t);
  add_rope(&t);
  return AC_OK;
}
