/* The metadata of a GGUF file as a configuration, and its tensors under Hugging Face's names. Keys
 * are those of llama.cpp: ARCHITECTURE.block_count and so on. What llama.cpp does not write down,
 * since it knows it by the architecture, is here as well: attention's factor of Gemma, and its
 * pattern of layers. */
#include "model/model.h"

#include "core/error.h"
#include "core/quote.h"
#include "io/opened.h"
#include "io/safetensors.h"

#include "core/platform/numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- metadata -------------------------------------------------------------------------------- */

typedef enum value_kind {
  COUNT,
  REAL,
  IGNORED,
  ROTATED,
  SCALING,
  NONE_ONLY,
  TRUE_ONLY,
  HEAD_SIZE_TOO
} value_kind;

#define MEMBER(name) offsetof(ac_model_config, name)
/* After "ARCHITECTURE.". */
static const struct {
  const char *key;
  value_kind kind;
  size_t member;
} keys[] = {
    {"block_count", COUNT, MEMBER(layers)},
    {"context_length", COUNT, MEMBER(positions)},
    {"embedding_length", COUNT, MEMBER(width)},
    {"feed_forward_length", COUNT, MEMBER(hidden)},
    {"attention.head_count", COUNT, MEMBER(heads)},
    {"attention.head_count_kv", COUNT, MEMBER(key_heads)},
    {"attention.key_length", COUNT, MEMBER(head_size)},
    {"attention.value_length", HEAD_SIZE_TOO, 0},
    {"attention.layer_norm_rms_epsilon", REAL, MEMBER(epsilon)},
    {"attention.layer_norm_epsilon", REAL, MEMBER(epsilon)},
    {"attention.sliding_window", COUNT, MEMBER(window)},
    {"attn_logit_softcapping", REAL, MEMBER(score_cap)},
    {"final_logit_softcapping", REAL, MEMBER(logit_cap)},
    {"rope.freq_base", REAL, MEMBER(rope.base)},
    {"rope.freq_base_swa", REAL, MEMBER(local_rope.base)},
    {"rope.dimension_count", ROTATED, 0},
    {"rope.scaling.type", SCALING, 0},
    {"rope.scaling.factor", REAL, MEMBER(rope.factor)},
    {"rope.scaling.original_context_length", IGNORED, 0},
    {"rope.scaling.finetuned", IGNORED, 0},
    {"vocab_size", IGNORED, 0},
    {"tensor_data_layout", IGNORED, 0},
    {"attention.causal", TRUE_ONLY, 0},
    {"expert_count", NONE_ONLY, 0},
    {"expert_used_count", NONE_ONLY, 0},
};

typedef struct reader {
  ac_model_config *config;
  ac_model_file *file;
  const char *source, *key;
  int64_t value_size, rotated;
  bool scaling_named;
} reader;

static ac_status wrong(const reader *r, const char *text) {
  return ac_fail(AC_ERROR_FORMAT, "%s: metadata %s is %s", r->source, ac_quote(r->key).text,
                 ac_quote(text).text);
}

static ac_status take_count(const reader *r, const char *text, int64_t *count) {
  char *end;
  const long long n = strtoll(text, &end, 10);
  if (end == text || *end || n < 0 || n > INT32_MAX) return wrong(r, text);
  *count = n;
  return AC_OK;
}

static ac_status take_scaling(reader *r, const char *text) {
  r->scaling_named = true;
  if (!strcmp(text, "none")) r->config->rope.scaling = AC_ROPE_UNSCALED;
  else if (!strcmp(text, "linear")) r->config->rope.scaling = AC_ROPE_LINEAR;
  else
    return ac_fail(AC_ERROR_UNSUPPORTED, "%s: this library does not know the %s %s", r->source,
                   ac_quote(r->key).text, ac_quote(text).text);
  return AC_OK;
}

static ac_status take_value(reader *r, value_kind kind, size_t member, const char *text) {
  char *to = (char *)r->config + member;
  int64_t count = 0;
  double x;
  char *end;
  switch (kind) {
  case COUNT:
    AC_TRY(take_count(r, text, &count));
    memcpy(to, &count, sizeof count);
    return AC_OK;
  case REAL:
    x = strtod(text, &end);
    if (end == text || *end || !isfinite(x)) return wrong(r, text);
    memcpy(to, &x, sizeof x);
    return AC_OK;
  case ROTATED:
    return take_count(r, text, &r->rotated);
  case HEAD_SIZE_TOO:
    return take_count(r, text, &r->value_size);
  case SCALING:
    return take_scaling(r, text);
  case NONE_ONLY:
    AC_TRY(take_count(r, text, &count));
    if (!count) return AC_OK;
    return ac_fail(AC_ERROR_UNSUPPORTED, "%s: this library has no models with experts, as %s asks",
                   r->source, ac_quote(r->key).text);
  case TRUE_ONLY:
    if (!strcmp(text, "true")) return AC_OK;
    return ac_fail(AC_ERROR_UNSUPPORTED, "%s: this library does not have the %s %s", r->source,
                   ac_quote(r->key).text, ac_quote(text).text);
  default:
    return AC_OK;
  }
}

static ac_status take_pair(reader *r, const char *rest, const char *text) {
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (!strcmp(rest, keys[i].key)) return take_value(r, keys[i].kind, keys[i].member, text);
  return ac_fail(AC_ERROR_UNSUPPORTED, "%s: this library does not know the metadata %s", r->source,
                 ac_quote(r->key).text);
}

/* Of a number for each layer, none may be left out. */
static ac_status refuse_arrays(const reader *r, const char *architecture) {
  const size_t length = strlen(architecture);
  const char *key;
  json_t *value;
  json_object_foreach(r->file->arrays, key, value) {
    if (!strncmp(key, architecture, length) && key[length] == '.')
      return ac_fail(AC_ERROR_UNSUPPORTED, "%s: this library does not know metadata %s as an array",
                     r->source, ac_quote(key).text);
  }
  return AC_OK;
}

static ac_status take_each_pair(reader *r, const char *architecture) {
  const json_t *metadata = json_object_get(r->file->root, AC_SAFETENSORS_METADATA);
  const size_t length = strlen(architecture);
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)metadata, key, value) {
    r->key = key;
    if (!strncmp(key, architecture, length) && key[length] == '.')
      AC_TRY(take_pair(r, key + length + 1, json_string_value(value)));
  }
  return AC_OK;
}

static ac_status take_pairs(reader *r, const char *architecture) {
  const ac_plain_numbers numbers = ac_plain_numbers_begin();
  const ac_status status = take_each_pair(r, architecture);
  ac_plain_numbers_end(&numbers);
  return status;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static ac_status take_token(reader *r, const char *key, int32_t *token) {
  const char *text = ac_model_file_metadata(r->file, key);
  int64_t id = -1;
  r->key = key;
  if (text) AC_TRY(take_count(r, text, &id));
  *token = (int32_t)id;
  return AC_OK;
}

static ac_status take_tokens(reader *r) {
  static const char *const keys_of_ends[] = {
      "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"};
  ac_model_config *c = r->config;
  AC_TRY(take_token(r, "tokenizer.ggml.bos_token_id", &c->begin));
  for (size_t i = 0; i < sizeof keys_of_ends / sizeof *keys_of_ends; i++) {
    int32_t end;
    AC_TRY(take_token(r, keys_of_ends[i], &end));
    bool known = end < 0;
    for (int k = 0; k < c->end_count; k++) known |= c->ends[k] == end;
    if (!known) c->ends[c->end_count++] = end;
  }
  return AC_OK;
}

/* ---- what follows ---------------------------------------------------------------------------- */

static const ac_model_tensor *find(const ac_model_file *file, const char *name) {
  return ac_model_file_tensor(file, ac_model_file_find(file, name));
}

static bool is_there(const ac_model_file *file, const char *name) {
  return find(file, name) != NULL;
}

/* Llama 3's scaling is in the file as a divisor for each frequency. Those of the models that there
 * are have low and high factors of 1 and 4, and 8192 positions. */
static ac_status take_frequencies(reader *r) {
  ac_model_config *c = r->config;
  const int index = ac_model_file_find(r->file, "rope_freqs.weight");
  const int64_t count = c->head_size / 2;
  if (index < 0) return AC_OK;
  const ac_model_tensor *t = ac_model_file_tensor(r->file, index);
  if (t->rank != 1 || t->shape[0] != count || count < 1)
    return ac_fail(AC_ERROR_FORMAT, "%s: rope_freqs.weight is not of shape [%" PRId64 "]",
                   r->source, count);
  float *divisors = malloc((size_t)count * sizeof *divisors);
  if (!divisors) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for frequencies", r->source);
  ac_status status = ac_model_file_read(r->file, index, 0, count, divisors);
  double factor = 1;
  for (int64_t i = 0; status == AC_OK && i < count; i++)
    if (divisors[i] > factor) factor = divisors[i];
  for (int64_t i = 0; status == AC_OK && i < count; i++) {
    const double turns =
        8192 * pow(c->rope.base, -2.0 * (double)i / (double)c->head_size) / 6.283185307179586;
    const double smooth = (turns - 1) / 3;
    const double share = turns < 1 ? 1 : turns > 4 ? 0 : 1 - smooth;
    const double expected = 1 / (share / factor + (1 - share));
    if (!(fabs(divisors[i] - expected) <= 1e-4 * expected))
      status =
          ac_fail(AC_ERROR_UNSUPPORTED,
                  "%s: rope_freqs.weight is not Llama 3's scaling of rotary positions", r->source);
  }
  free(divisors);
  if (status != AC_OK || factor == 1) return status;
  c->rope.scaling = AC_ROPE_LLAMA3;
  c->rope.factor = factor;
  c->rope.low_freq_factor = 1;
  c->rope.high_freq_factor = 4;
  c->rope.original_positions = 8192;
  return AC_OK;
}

static ac_status follow(reader *r) {
  ac_model_config *c = r->config;
  const ac_model_tensor *embedding = find(r->file, "token_embd.weight");
  if (!embedding || embedding->rank != 2)
    return ac_fail(AC_ERROR_FORMAT, "%s: it has no token_embd.weight of two dimensions", r->source);
  c->vocabulary = embedding->shape[0];
  c->tied = !is_there(r->file, "output.weight");
  c->qkv_bias = is_there(r->file, "blk.0.attn_q.bias") || is_there(r->file, "blk.0.attn_qkv.bias");
  c->o_bias = is_there(r->file, "blk.0.attn_output.bias");
  c->mlp_bias = is_there(r->file, "blk.0.ffn_up.bias");
  if (!c->head_size && c->heads > 0) c->head_size = c->width / c->heads;
  if (r->value_size && r->value_size != c->head_size)
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "%s: values have heads of another size than keys, which this library does not "
                   "have",
                   r->source);
  if (c->window && c->family->whole_qk_norm) /* OLMo-3 has OLMo-2's name */
    return ac_fail(AC_ERROR_UNSUPPORTED, "%s: this library has no %s with a sliding window",
                   r->source, c->family->gguf);
  if (r->rotated && c->head_size) c->rotated = (double)r->rotated / (double)c->head_size;
  if (!r->scaling_named && c->rope.factor > 1) c->rope.scaling = AC_ROPE_LINEAR; /* as llama.cpp */
  if (c->rope.scaling == AC_ROPE_UNSCALED) c->rope.factor = 0;
  /* llama.cpp does so for the largest Gemma 2 and 3. */
  if (c->family->norm == AC_MODEL_NORM_RMS_PLUS_ONE && c->heads > 0 &&
      ((c->layers == 46 && c->width == 4608) || (c->layers == 62 && c->width == 5376)))
    c->scale_of = (double)(c->width / c->heads);
  return take_frequencies(r);
}

ac_status ac_config_read_gguf(ac_model_config *config, ac_model_file *file, const char *source) {
  const char *architecture = ac_model_file_metadata(file, "general.architecture");
  const char *type = ac_model_file_metadata(file, "general.type"),
             *shards = ac_model_file_metadata(file, "split.count");
  if (!architecture) return ac_fail(AC_ERROR_FORMAT, "%s: it has no general.architecture", source);
  const ac_family *family = ac_family_of_gguf(architecture);
  if (!family)
    return ac_fail(AC_ERROR_UNSUPPORTED, "%s: this library does not have the architecture %s",
                   source, ac_quote(architecture).text);
  if (type && strcmp(type, "model"))
    return ac_fail(AC_ERROR_UNSUPPORTED, "%s: it is a file of the type %s, not a model", source,
                   ac_quote(type).text);
  if (shards && strtoll(shards, NULL, 10) > 1)
    return ac_fail(AC_ERROR_UNSUPPORTED, "%s: it is one of %s files of a model; join them first",
                   source, ac_quote(shards).text);
  ac_config_begin(config, family, source);
  config->head_size = 0;
  config->scale_of = 0;
  reader r = {.config = config, .file = file, .source = source};
  AC_TRY(refuse_arrays(&r, architecture));
  AC_TRY(take_pairs(&r, architecture));
  AC_TRY(take_tokens(&r));
  AC_TRY(follow(&r));
  return ac_config_finish(config);
}

/* ---- names of tensors ------------------------------------------------------------------------ */

static const char *const gguf_parts[AC_PARTS] = {
    [AC_PART_EMBEDDING] = "token_embd",
    [AC_PART_POSITIONS] = "position_embd",
    [AC_PART_NORM] = "output_norm",
    [AC_PART_HEAD] = "output",
    [AC_PART_ATTENTION_NORM] = "attn_norm",
    [AC_PART_Q] = "attn_q",
    [AC_PART_K] = "attn_k",
    [AC_PART_V] = "attn_v",
    [AC_PART_QKV] = "attn_qkv",
    [AC_PART_O] = "attn_output",
    [AC_PART_Q_NORM] = "attn_q_norm",
    [AC_PART_K_NORM] = "attn_k_norm",
    [AC_PART_AFTER_ATTENTION] = "post_attention_norm",
    [AC_PART_MLP_NORM] = "ffn_norm",
    [AC_PART_GATE] = "ffn_gate",
    [AC_PART_UP] = "ffn_up",
    [AC_PART_GATE_UP] = "ffn_up",
    [AC_PART_DOWN] = "ffn_down",
    [AC_PART_AFTER_MLP] = "post_ffw_norm",
};

static bool is_norm(ac_model_part part) {
  return part == AC_PART_NORM || part == AC_PART_ATTENTION_NORM || part == AC_PART_MLP_NORM ||
         part == AC_PART_AFTER_ATTENTION || part == AC_PART_AFTER_MLP || part == AC_PART_Q_NORM ||
         part == AC_PART_K_NORM;
}

static bool is_matrix(ac_model_part part) {
  return part >= AC_PART_FIRST_OF_BLOCK && !is_norm(part);
}

/* "blk.3.attn_q.weight" is part `part` of layer 3, and ".weight" is what is left. */
static bool parse_name(const ac_family *family, const char *name, ac_model_part *part,
                       int64_t *layer, const char **suffix) {
  const char *rest = name;
  char *end;
  *layer = -1;
  if (!strncmp(name, "blk.", 4)) {
    const long long n = strtoll(name + 4, &end, 10);
    if (end == name + 4 || *end != '.' || n < 0 || n >= AC_MODEL_MOST_LAYERS) return false;
    *layer = n;
    rest = end + 1;
  }
  for (int p = 0; p < AC_PARTS; p++) {
    const char *own = gguf_parts[p];
    const size_t length = own ? strlen(own) : 0;
    if (!family->parts[p] || (p >= AC_PART_FIRST_OF_BLOCK) != (*layer >= 0)) continue;
    if (strncmp(rest, own, length) || rest[length] != '.') continue;
    if (strcmp(rest + length, ".weight") && strcmp(rest + length, ".bias")) continue;
    *part = (ac_model_part)p;
    *suffix = rest + length;
    return true;
  }
  return false;
}

static void arrange(const ac_model_config *c, ac_tensor_entry *entry, ac_model_part part,
                    bool weight) {
  ac_model_tensor *t = &entry->tensor;
  if (c->family->permuted && (part == AC_PART_Q || part == AC_PART_K))
    entry->arranged.head_rows = c->head_size;
  if (c->family->norm == AC_MODEL_NORM_RMS_PLUS_ONE && is_norm(part) && weight)
    entry->arranged.less_one = true;
  if (c->family->in_out && is_matrix(part) && weight && t->rank == 2) {
    const int64_t rows = t->shape[1];
    entry->arranged.transposed = true;
    t->shape[1] = t->shape[0];
    t->shape[0] = rows;
  }
}

ac_status ac_gguf_rename(const ac_model_config *config, ac_model_file *file, char **names) {
  enum { ROOM = AC_PART_NAME + 16 };
  char *next = *names = malloc((size_t)file->count * ROOM + 1);
  if (!next) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for names", config->source);
  for (int i = 0; i < file->count; i++, next += ROOM) {
    ac_tensor_entry *entry = &file->entries[i];
    char name[AC_PART_NAME];
    const char *suffix;
    int64_t layer;
    ac_model_part part;
    if (!parse_name(config->family, entry->tensor.name, &part, &layer, &suffix)) continue;
    ac_part_name(config->family, part, layer, name);
    snprintf(next, ROOM, "%s%s", name, suffix);
    arrange(config, entry, part, !strcmp(suffix, ".weight"));
    entry->tensor.name = next;
  }
  return ac_sort_names(file);
}

const char *ac_gguf_part_name(ac_model_part part) {
  return gguf_parts[part];
}

bool ac_part_is_norm(ac_model_part part) {
  return is_norm(part);
}
