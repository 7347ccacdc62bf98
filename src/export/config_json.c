/* A configuration that came from a GGUF file as a config.json, in the keys that old and new
 * versions of transformers read. */
#include "export/export.h"

#include "core/error.h"

#include "core/platform/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *family, *class;
} classes[] = {{"llama", "LlamaForCausalLM"},     {"mistral", "MistralForCausalLM"},
               {"smollm3", "SmolLM3ForCausalLM"}, {"qwen2", "Qwen2ForCausalLM"},
               {"qwen3", "Qwen3ForCausalLM"},     {"gemma", "GemmaForCausalLM"},
               {"gemma2", "Gemma2ForCausalLM"},   {"gemma3_text", "Gemma3ForCausalLM"},
               {"phi3", "Phi3ForCausalLM"},       {"olmo2", "Olmo2ForCausalLM"},
               {"gpt2", "GPT2LMHeadModel"}};

static const char *class_of(const char *family) {
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
    if (!strcmp(classes[i].family, family)) return classes[i].class;
  return NULL;
}

/* The shortest number that is the same float: 1e-05, not 9.99999975e-06. */
static double shortest(double value) {
  char text[32];
  double found = value;
  const ac_plain_numbers plain = ac_plain_numbers_begin();
  for (int digits = 6; digits <= 9; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    found = strtod(text, NULL);
    if ((float)found == (float)value) break;
  }
  ac_plain_numbers_end(&plain);
  return found;
}

/* Additions to an object. One that fails is remembered. */
typedef struct object {
  json_t *json;
  bool failed;
} object;

static void add(object *o, const char *key, json_t *value) {
  if (json_object_set_new(o->json, key, value) != 0) o->failed = true;
}

static void add_count(object *o, const char *key, int64_t value) {
  add(o, key, json_integer(value));
}

static void add_real(object *o, const char *key, double value) {
  add(o, key, json_real(shortest(value)));
}

static bool is(const ac_model_config *c, const char *family) {
  return !strcmp(c->family->name, family);
}

static void add_rope(object *o, const ac_model_config *c) {
  const ac_rope_desc *r = &c->rope;
  add_real(o, "rope_theta", r->base);
  if (r->scaling == AC_ROPE_LINEAR)
    add(o, "rope_scaling",
        json_pack("{s:s, s:f}", "rope_type", "linear", "factor", shortest(r->factor)));
  if (r->scaling == AC_ROPE_LLAMA3)
    add(o, "rope_scaling",
        json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3", "factor", shortest(r->factor),
                  "low_freq_factor", shortest(r->low_freq_factor), "high_freq_factor",
                  shortest(r->high_freq_factor), "original_max_position_embeddings",
                  (json_int_t)r->original_positions));
}

static const char *activation_of(const ac_model_config *c) {
  switch (c->activation) {
  case AC_GELU_OF_TANH:
    return is(c, "gpt2") ? "gelu_new" : "gelu_pytorch_tanh";
  case AC_GELU_OF_ERF:
    return "gelu";
  case AC_RELU_OF:
    return "relu";
  default:
    return "silu";
  }
}

static void add_gpt2(object *o, const ac_model_config *c) {
  add_count(o, "n_embd", c->width);
  add_count(o, "n_layer", c->layers);
  add_count(o, "n_head", c->heads);
  add_count(o, "n_inner", c->hidden);
  add_count(o, "n_positions", c->positions);
  add_real(o, "layer_norm_epsilon", c->epsilon);
  add(o, "activation_function", json_string(activation_of(c)));
}

/* Keys that only some families have. */
static void add_own(object *o, const ac_model_config *c) {
  const bool gemma2 = is(c, "gemma2"), gemma3 = is(c, "gemma3_text"), gemma = is(c, "gemma");
  add(o, gemma || gemma2 || gemma3 ? "hidden_activation" : "hidden_act",
      json_string(activation_of(c)));
  if (is(c, "llama")) add(o, "mlp_bias", json_boolean(c->mlp_bias));
  if (!is(c, "qwen2") && !is(c, "mistral")) add(o, "attention_bias", json_boolean(c->o_bias));
  if (is(c, "qwen2") || is(c, "qwen3")) add(o, "use_sliding_window", json_false());
  if (is(c, "phi3")) {
    add_real(o, "partial_rotary_factor", c->rotated);
    add(o, "pad_token_id", json_null()); /* its default may be beyond the vocabulary */
  }
  if (c->window) add_count(o, "sliding_window", c->window);
  else if (is(c, "mistral") || is(c, "phi3")) add(o, "sliding_window", json_null());
  if (!gemma2 && !gemma3) return;
  add_count(o, "query_pre_attn_scalar",
            c->scale_of > 0 ? (int64_t)c->scale_of : c->head_size); /* whole numbers alone */
  add(o, "attn_logit_softcapping",
      c->score_cap > 0 ? json_real(shortest(c->score_cap)) : json_null());
  add(o, "final_logit_softcapping",
      c->logit_cap > 0 ? json_real(shortest(c->logit_cap)) : json_null());
  if (!gemma3) return;
  add_real(o, "rope_local_base_freq", c->local_rope.base);
  add_count(o, "sliding_window_pattern", c->pattern);
}

static void add_most(object *o, const ac_model_config *c) {
  add_count(o, "hidden_size", c->width);
  add_count(o, "intermediate_size", c->hidden);
  add_count(o, "num_hidden_layers", c->layers);
  add_count(o, "num_attention_heads", c->heads);
  add_count(o, "num_key_value_heads", c->key_heads);
  add_count(o, "head_dim", c->head_size);
  add_count(o, "max_position_embeddings", c->positions);
  add_real(o, "rms_norm_eps", c->epsilon);
  add_rope(o, c);
  add_own(o, c);
}

static void add_tokens(object *o, const ac_model_config *c) {
  if (c->begin >= 0) add_count(o, "bos_token_id", c->begin);
  if (c->end_count == 1) add_count(o, "eos_token_id", c->ends[0]);
  if (c->end_count < 2) return;
  json_t *ends = json_array();
  for (int i = 0; i < c->end_count; i++)
    if (json_array_append_new(ends, json_integer(c->ends[i])) != 0) o->failed = true;
  add(o, "eos_token_id", ends);
}

ac_status ac_export_generation_json(json_t **json, const ac_model_config *config) {
  object o = {.json = json_object()};
  add_tokens(&o, config);
  *json = o.json;
  if (o.json && !o.failed) return AC_OK;
  json_decref(o.json);
  *json = NULL;
  return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its configuration", config->source);
}

ac_status ac_export_config_json(json_t **json, const ac_model_config *config, ac_dtype dtype) {
  static const char *const names[] = {
      [AC_F32] = "float32", [AC_F16] = "float16", [AC_BF16] = "bfloat16"};
  object o = {.json = json_object()};
  const char *class = class_of(config->family->name);
  *json = NULL;
  if (!class)
    return ac_fail(AC_ERROR_UNSUPPORTED, "%s: this library does not write folders of the family %s",
                   config->source, config->family->name);
  add(&o, "architectures", json_pack("[s]", class));
  add(&o, "model_type", json_string(config->family->name));
  add_count(&o, "vocab_size", config->vocabulary);
  if (is(config, "gpt2")) add_gpt2(&o, config);
  else add_most(&o, config);
  add(&o, "tie_word_embeddings", json_boolean(config->tied));
  add_tokens(&o, config);
  add(&o, "torch_dtype", json_string(names[dtype]));
  if (o.json && !o.failed) {
    *json = o.json;
    return AC_OK;
  }
  json_decref(o.json);
  return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its configuration", config->source);
}
