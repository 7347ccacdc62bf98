/* config.json, as transformers writes it in versions up to 5: one row for each key that is known.
 * A key that is not is refused, for it may be one that changes what the model computes. */
#include "model/model.h"

#include "core/error.h"
#include "core/quote.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

typedef struct reader {
  ac_model_config *config;
  const char *source;
  const char *key; /* that is read, in sentences */
} reader;

typedef ac_status read_value(reader *r, const json_t *value, size_t member);

static ac_status wrong(const reader *r, const char *expected) {
  return ac_fail(AC_ERROR_FORMAT, "%s: %s is not %s", r->source, ac_quote(r->key).text, expected);
}

static ac_status not_known(const reader *r, const json_t *value) {
  const char *text = json_string_value(value);
  if (text)
    return ac_fail(AC_ERROR_UNSUPPORTED, "%s: this library does not know the %s %s", r->source,
                   ac_quote(r->key).text, ac_quote(text).text);
  return ac_fail(AC_ERROR_UNSUPPORTED, "%s: this library has only one value of %s, another one",
                 r->source, ac_quote(r->key).text);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void *at(const reader *r, size_t member) {
  return (char *)r->config + member;
}

/* null: as if it were not there. */
static ac_status read_count(reader *r, const json_t *value, size_t member) {
  if (json_is_null(value)) return AC_OK;
  const json_int_t n = json_integer_value(value);
  if (!json_is_integer(value) || n < 0) return wrong(r, "a whole number, at least 0");
  *(int64_t *)at(r, member) = n;
  return AC_OK;
}

static ac_status read_real(reader *r, const json_t *value, size_t member) {
  if (json_is_null(value)) return AC_OK;
  const double x = json_number_value(value);
  if (!json_is_number(value) || !isfinite(x)) return wrong(r, "a finite number");
  *(double *)at(r, member) = x;
  return AC_OK;
}

/* Of these two null means none, whatever the family has where nothing is said. */
static ac_status read_cap(reader *r, const json_t *value, size_t member) {
  *(double *)at(r, member) = 0;
  return read_real(r, value, member);
}

static ac_status read_window(reader *r, const json_t *value, size_t member) {
  *(int64_t *)at(r, member) = 0;
  return read_count(r, value, member);
}

static ac_status read_bool(reader *r, const json_t *value, size_t member) {
  if (json_is_null(value)) return AC_OK;
  if (!json_is_boolean(value)) return wrong(r, "true or false");
  *(bool *)at(r, member) = json_is_true(value);
  return AC_OK;
}

/* One that matters to nothing that is computed here. */
static ac_status read_nothing(reader *r, const json_t *value, size_t member) {
  (void)r;
  (void)value;
  (void)member;
  return AC_OK;
}

/* What would be another model if it were true. */
static ac_status read_false(reader *r, const json_t *value, size_t member) {
  (void)member;
  if (json_is_null(value) || json_is_false(value)) return AC_OK;
  return not_known(r, value);
}

static ac_status read_activation(reader *r, const json_t *value, size_t member) {
  static const struct {
    const char *name;
    ac_activation activation;
  } names[] = {{"silu", AC_SILU},
               {"swish", AC_SILU},
               {"gelu_pytorch_tanh", AC_GELU_OF_TANH},
               {"gelu_new", AC_GELU_OF_TANH},
               {"gelu_fast", AC_GELU_OF_TANH},
               {"gelu", AC_GELU_OF_ERF},
               {"relu", AC_RELU_OF}};
  const char *text = json_string_value(value);
  if (json_is_null(value)) return AC_OK;
  if (!text) return wrong(r, "the name of a function");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(text, names[i].name)) {
      *(ac_activation *)at(r, member) = names[i].activation;
      return AC_OK;
    }
  return not_known(r, value);
}

/* Gemma 1 has always computed with tanh, whatever its older files say here. */
static ac_status read_hidden_act(reader *r, const json_t *value, size_t member) {
  if (!strcmp(r->config->family->name, "gemma") && json_is_string(value) &&
      !strcmp(json_string_value(value), "gelu"))
    return AC_OK;
  return read_activation(r, value, member);
}

static ac_status read_attention_bias(reader *r, const json_t *value, size_t member) {
  (void)member;
  AC_TRY(read_bool(r, value, offsetof(ac_model_config, qkv_bias)));
  r->config->o_bias = r->config->qkv_bias;
  return AC_OK;
}

static ac_status read_true_scale(reader *r, const json_t *value, size_t member) {
  bool scaled = true;
  (void)member;
  if (!json_is_boolean(value)) return wrong(r, "true or false");
  scaled = json_is_true(value);
  r->config->unscaled = !scaled;
  return AC_OK;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static ac_status take_token(reader *r, const json_t *value, int32_t *token) {
  const json_int_t id = json_integer_value(value);
  if (!json_is_integer(value) || id < -1 || id > INT32_MAX) return wrong(r, "a token's id");
  *token = (int32_t)id;
  return AC_OK;
}

static ac_status read_begin(reader *r, const json_t *value, size_t member) {
  (void)member;
  return json_is_null(value) ? AC_OK : take_token(r, value, &r->config->begin);
}

static ac_status read_ends(reader *r, const json_t *value, size_t member) {
  ac_model_config *c = r->config;
  const size_t count = json_is_array(value) ? json_array_size(value) : 1;
  (void)member;
  if (json_is_null(value)) return AC_OK;
  if (count > AC_MODEL_MAX_ENDS)
    return ac_fail(AC_ERROR_UNSUPPORTED, "%s: %s has more than %d tokens", r->source,
                   ac_quote(r->key).text, AC_MODEL_MAX_ENDS);
  c->end_count = 0;
  for (size_t i = 0; i < count; i++) {
    int32_t token = -1;
    AC_TRY(take_token(r, json_is_array(value) ? json_array_get(value, i) : value, &token));
    if (token >= 0) c->ends[c->end_count++] = token;
  }
  return AC_OK;
}

/* ---- layers ---------------------------------------------------------------------------------- */

static ac_status read_layer_types(reader *r, const json_t *value, size_t member) {
  ac_model_config *c = r->config;
  (void)member;
  if (json_is_null(value)) return AC_OK;
  if (!json_is_array(value) || json_array_size(value) > AC_MODEL_MOST_LAYERS)
    return wrong(r, "a list of types of layers");
  c->has_layer_types = true;
  c->listed_layers = (int64_t)json_array_size(value);
  for (int64_t i = 0; i < c->listed_layers; i++) {
    const json_t *entry = json_array_get(value, (size_t)i);
    const char *type = json_string_value(entry);
    if (!type) return wrong(r, "a list of types of layers");
    if (!strcmp(type, "sliding_attention")) c->layer[i] |= AC_LAYER_LOCAL;
    else if (strcmp(type, "full_attention")) return not_known(r, entry);
  }
  return AC_OK;
}

/* Despite the key's name, 0 is a layer without rotary positions. */
static ac_status read_unrotated(reader *r, const json_t *value, size_t member) {
  ac_model_config *c = r->config;
  (void)member;
  if (json_is_null(value)) return AC_OK;
  if (!json_is_array(value) || json_array_size(value) > AC_MODEL_MOST_LAYERS)
    return wrong(r, "a list of 0 and 1");
  c->has_unrotated = true;
  c->listed_unrotated = (int64_t)json_array_size(value);
  for (int64_t i = 0; i < c->listed_unrotated; i++) {
    const json_t *entry = json_array_get(value, (size_t)i);
    const json_int_t rotated = json_integer_value(entry);
    if (!json_is_integer(entry) || rotated < 0 || rotated > 1) return wrong(r, "a list of 0 and 1");
    if (!rotated) c->layer[i] |= AC_LAYER_UNROTATED;
  }
  return AC_OK;
}

/* ---- rotary positions ------------------------------------------------------------------------ */

static ac_status take_positive(reader *r, const json_t *value, double *x) {
  *x = json_number_value(value);
  return json_is_number(value) && isfinite(*x) && *x > 0 ? AC_OK : wrong(r, "a positive number");
}

static ac_status take_rope_type(reader *r, const json_t *value, ac_rope_scaling *scaling) {
  const char *type = json_string_value(value);
  if (json_is_null(value)) return AC_OK;
  if (!type) return wrong(r, "the name of a scaling");
  if (!strcmp(type, "default")) *scaling = AC_ROPE_UNSCALED;
  else if (!strcmp(type, "linear")) *scaling = AC_ROPE_LINEAR;
  else if (!strcmp(type, "llama3")) *scaling = AC_ROPE_LLAMA3;
  else return not_known(r, value);
  return AC_OK;
}

/* One member of rope_scaling or rope_parameters. */
static ac_status take_rope_member(reader *r, const char *key, const json_t *value,
                                  ac_rope_desc *rope) {
  double positions = 0;
  if (!strcmp(key, "rope_type") || !strcmp(key, "type"))
    return take_rope_type(r, value, &rope->scaling);
  if (json_is_null(value)) return AC_OK;
  if (!strcmp(key, "rope_theta")) return take_positive(r, value, &rope->base);
  if (!strcmp(key, "factor")) return take_positive(r, value, &rope->factor);
  if (!strcmp(key, "low_freq_factor")) return take_positive(r, value, &rope->low_freq_factor);
  if (!strcmp(key, "high_freq_factor")) return take_positive(r, value, &rope->high_freq_factor);
  if (!strcmp(key, "partial_rotary_factor")) return take_positive(r, value, &r->config->rotated);
  if (!strcmp(key, "original_max_position_embeddings")) {
    AC_TRY(take_positive(r, value, &positions));
    if (positions > INT32_MAX) return wrong(r, "a number of positions");
    rope->original_positions = (int64_t)positions;
    return AC_OK;
  }
  return ac_fail(AC_ERROR_UNSUPPORTED, "%s: this library does not know the key %s", r->source,
                 ac_quote(r->key).text);
}

static ac_status check_rope(reader *r, ac_rope_desc *rope) {
  if (rope->scaling != AC_ROPE_UNSCALED && rope->factor < 1)
    return wrong(r, "a factor of at least 1");
  if (rope->scaling == AC_ROPE_LLAMA3 && (!rope->low_freq_factor || !rope->original_positions ||
                                          rope->high_freq_factor <= rope->low_freq_factor))
    return wrong(r, "a whole description of Llama 3's scaling");
  if (rope->scaling != AC_ROPE_LLAMA3)
    rope->low_freq_factor = rope->high_freq_factor = 0, rope->original_positions = 0;
  if (rope->scaling == AC_ROPE_UNSCALED) rope->factor = 0;
  return AC_OK;
}

static ac_status take_rope(reader *r, const json_t *object, ac_rope_desc *rope) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)object, key, value) {
    char name[AC_PART_NAME];
    snprintf(name, sizeof name, "%s.%s", r->key, key);
    reader member = {.config = r->config, .source = r->source, .key = name};
    AC_TRY(take_rope_member(&member, key, value, rope));
  }
  return check_rope(r, rope);
}

/* Of one type of layer. */
static ac_status take_rope_of(const reader *r, const char *type, const json_t *object,
                              ac_rope_desc *rope) {
  char name[AC_PART_NAME];
  snprintf(name, sizeof name, "%s.%s", r->key, type);
  reader of_type = {.config = r->config, .source = r->source, .key = name};
  return take_rope(&of_type, object, rope);
}

/* rope_scaling, and rope_parameters of 5.x. These may have one object for layers with a window and
 * one for the others. */
static ac_status read_rope(reader *r, const json_t *value, size_t member) {
  ac_model_config *c = r->config;
  (void)member;
  if (json_is_null(value)) return AC_OK;
  if (!json_is_object(value)) return wrong(r, "an object");
  const json_t *all = json_object_get(value, "full_attention"),
               *local = json_object_get(value, "sliding_attention");
  if (!json_is_object(all)) return take_rope(r, value, &c->rope);
  if (json_object_size(value) != 1 + (local != NULL) || (local && !json_is_object(local)))
    return wrong(r, "an object for each type of layer");
  AC_TRY(take_rope_of(r, "full_attention", all, &c->rope));
  if (!local) return AC_OK;
  c->has_local_rope = true;
  return take_rope_of(r, "sliding_attention", local, &c->local_rope);
}

static ac_status read_local_base(reader *r, const json_t *value, size_t member) {
  (void)member;
  if (json_is_null(value)) return AC_OK;
  r->config->has_local_rope = true;
  return take_positive(r, value, &r->config->local_rope.base);
}

static ac_status read_base(reader *r, const json_t *value, size_t member) {
  (void)member;
  return json_is_null(value) ? AC_OK : take_positive(r, value, &r->config->rope.base);
}

/* ---- keys ------------------------------------------------------------------------------------ */

#define MEMBER(name) offsetof(ac_model_config, name)
/* Of all families but GPT-2, which has its own names. */
static const char every[] = "*", not_gpt2[] = "!gpt2";

static const struct {
  const char *key;
  read_value *read;
  size_t member;
  const char *families; /* their names, with blanks around each */
} keys[] = {
    {"hidden_size", read_count, MEMBER(width), not_gpt2},
    {"intermediate_size", read_count, MEMBER(hidden), not_gpt2},
    {"num_hidden_layers", read_count, MEMBER(layers), not_gpt2},
    {"num_attention_heads", read_count, MEMBER(heads), not_gpt2},
    {"num_key_value_heads", read_count, MEMBER(key_heads), not_gpt2},
    {"head_dim", read_count, MEMBER(head_size), not_gpt2},
    {"max_position_embeddings", read_count, MEMBER(positions), not_gpt2},
    {"vocab_size", read_count, MEMBER(vocabulary), every},
    {"rms_norm_eps", read_real, MEMBER(epsilon), not_gpt2},
    {"hidden_act", read_hidden_act, MEMBER(activation), not_gpt2},
    {"hidden_activation", read_activation, MEMBER(activation), " gemma gemma2 gemma3_text "},
    {"tie_word_embeddings", read_bool, MEMBER(tied), every},
    {"rope_theta", read_base, 0, not_gpt2},
    {"rope_scaling", read_rope, 0, not_gpt2},
    {"rope_parameters", read_rope, 0, not_gpt2},
    {"rope_local_base_freq", read_local_base, 0, " gemma3_text "},
    {"partial_rotary_factor", read_real, MEMBER(rotated), " phi3 "},
    {"rope_interleaved", read_false, 0, " llama smollm3 "},
    {"use_mrope", read_false, 0, " qwen2 "},
    {"attention_bias", read_attention_bias, 0,
     " llama smollm3 qwen3 gemma gemma2 gemma3_text olmo2 phi3 mistral "},
    {"mlp_bias", read_bool, MEMBER(mlp_bias), " llama smollm3 "},
    {"sliding_window", read_window, MEMBER(window),
     " mistral qwen2 qwen3 phi3 gemma2 gemma3_text smollm3 "},
    {"use_sliding_window", read_bool, MEMBER(window_in_use), " qwen2 qwen3 smollm3 "},
    {"max_window_layers", read_count, MEMBER(window_from), " qwen2 qwen3 smollm3 "},
    {"layer_types", read_layer_types, 0,
     " qwen2 qwen3 gemma2 gemma3_text smollm3 mistral llama olmo2 phi3 "},
    {"sliding_window_pattern", read_count, MEMBER(pattern), " gemma3_text gemma2 "},
    {"_sliding_window_pattern", read_count, MEMBER(pattern), " gemma3_text gemma2 "},
    {"no_rope_layers", read_unrotated, 0, " smollm3 "},
    {"no_rope_layer_interval", read_count, MEMBER(unrotated_each), " smollm3 "},
    {"query_pre_attn_scalar", read_real, MEMBER(scale_of), " gemma2 gemma3_text "},
    {"attn_logit_softcapping", read_cap, MEMBER(score_cap), " gemma2 gemma3_text "},
    {"final_logit_softcapping", read_cap, MEMBER(logit_cap), " gemma2 gemma3_text "},
    {"use_bidirectional_attention", read_false, 0, " gemma gemma2 gemma3_text "},
    {"original_max_position_embeddings", read_nothing, 0, " phi3 llama "},
    {"max_sequence_length", read_nothing, 0, " llama "},
    {"sliding_window_size", read_nothing, 0, " gemma2 "},
    {"bos_token_id", read_begin, 0, every},
    {"eos_token_id", read_ends, 0, every},
    /* GPT-2's */
    {"n_embd", read_count, MEMBER(width), " gpt2 "},
    {"n_layer", read_count, MEMBER(layers), " gpt2 "},
    {"n_head", read_count, MEMBER(heads), " gpt2 "},
    {"n_inner", read_count, MEMBER(hidden), " gpt2 "},
    {"n_positions", read_count, MEMBER(positions), " gpt2 "},
    {"n_ctx", read_nothing, 0, " gpt2 "},
    {"n_special", read_nothing, 0, " gpt2 "},
    {"predict_special_tokens", read_nothing, 0, " gpt2 "},
    {"output_past", read_nothing, 0, " gpt2 "},
    {"_num_labels", read_nothing, 0, " gpt2 "},
    {"num_labels", read_nothing, 0, " gpt2 "},
    {"layer_norm_epsilon", read_real, MEMBER(epsilon), " gpt2 "},
    {"activation_function", read_activation, MEMBER(activation), " gpt2 "},
    {"scale_attn_weights", read_true_scale, 0, " gpt2 "},
    {"scale_attn_by_inverse_layer_idx", read_bool, MEMBER(scaled_by_layer), " gpt2 "},
    {"add_cross_attention", read_false, 0, every},
    {"is_encoder_decoder", read_false, 0, every},
};

/* Keys that change nothing that is computed here: how the model was trained, saved or is asked to
 * generate. Dropout is for a training from the beginning. */
static const char *const ignored[] = {
    "model_type",
    "architectures",
    "torch_dtype",
    "dtype",
    "transformers_version",
    "use_cache",
    "initializer_range",
    "attention_dropout",
    "hidden_dropout",
    "resid_pdrop",
    "embd_pdrop",
    "attn_pdrop",
    "pretraining_tp",
    "_name_or_path",
    "name_or_path",
    "cache_implementation",
    "gradient_checkpointing",
    "pad_token_id",
    "sep_token_id",
    "cls_token_id",
    "unk_token_id",
    "decoder_start_token_id",
    "auto_map",
    "reorder_and_upcast_attn",
    "is_decoder",
    "summary_type",
    "summary_use_proj",
    "summary_activation",
    "summary_proj_to_labels",
    "summary_first_dropout",
    "task_specific_params",
    "id2label",
    "label2id",
    "problem_type",
    "output_attentions",
    "output_hidden_states",
    "return_dict",
    "return_dict_in_generate",
    "output_scores",
    "torchscript",
    "use_bfloat16",
    "tf_legacy_loss",
    "pruned_heads",
    "prefix",
    "finetuning_task",
    "tokenizer_class",
    "max_length",
    "min_length",
    "do_sample",
    "early_stopping",
    "num_beams",
    "num_beam_groups",
    "diversity_penalty",
    "temperature",
    "top_k",
    "top_p",
    "typical_p",
    "repetition_penalty",
    "length_penalty",
    "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size",
    "bad_words_ids",
    "num_return_sequences",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "remove_invalid_values",
    "exponential_decay_length_penalty",
    "suppress_tokens",
    "begin_suppress_tokens",
    "chunk_size_feed_forward",
    "cross_attention_hidden_size",
    "tie_encoder_decoder",
    "_attn_implementation_autoset",
    "attn_implementation",
    "_attn_implementation",
    "unsloth_fixed",
    "unsloth_version",
    "is_llama_config",
    "transformers.js_config",
    "n_vocab",
    "gradient_checkpointing_kwargs",
};

/* "*": all, "!NAME": all but one, else names with blanks around each. */
static bool has_key(const ac_family *family, const char *families) {
  char name[32];
  if (families[0] == '*') return true;
  if (families[0] == '!') return strcmp(families + 1, family->name) != 0;
  snprintf(name, sizeof name, " %s ", family->name);
  return strstr(families, name) != NULL;
}

static ac_status read_key(reader *r, const json_t *value) {
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (!strcmp(r->key, keys[i].key) && has_key(r->config->family, keys[i].families))
      return keys[i].read(r, value, keys[i].member);
  for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
    if (!strcmp(r->key, ignored[i])) return AC_OK;
  return ac_fail(AC_ERROR_UNSUPPORTED, "%s: this library does not know the key %s of a %s model",
                 r->source, ac_quote(r->key).text, r->config->family->name);
}

ac_status ac_config_read_json(ac_model_config *config, const json_t *json, const char *source) {
  const char *type = json_string_value(json_object_get(json, "model_type")), *key;
  json_t *value;
  if (!json_is_object(json) || !type)
    return ac_fail(AC_ERROR_FORMAT, "%s: this is not a model's configuration: it has no model_type",
                   source);
  const ac_family *family = ac_family_named(type);
  if (!family)
    return ac_fail(AC_ERROR_UNSUPPORTED, "%s: this library does not have the model_type %s", source,
                   ac_quote(type).text);
  ac_config_begin(config, family, source);
  reader r = {.config = config, .source = source};
  json_object_foreach((json_t *)json, key, value) {
    r.key = key;
    AC_TRY(read_key(&r, value));
  }
  return ac_config_finish(config);
}

ac_status ac_config_read_ends(ac_model_config *config, const json_t *json, const char *source) {
  reader r = {.config = config, .source = source, .key = "eos_token_id"};
  const json_t *value = json_object_get(json, "eos_token_id");
  return value ? read_ends(&r, value, 0) : AC_OK;
}
