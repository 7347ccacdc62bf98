#include "program/gpt_config.h"

#include "common/json_file.h"
#include "common/json_text.h"
#include "common/message.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- reading --------------------------------------------------------------------------------- */

static const ac_model_tensor *find(const ac_model_file *file, const char *name) {
  char full[64];
  snprintf(full, sizeof full, GPT_PREFIX "%s", name);
  int index = ac_model_file_find(file, full);
  if (index < 0) index = ac_model_file_find(file, name);
  return index < 0 ? NULL : ac_model_file_tensor(file, index);
}

/* A tensor's layer, from its name; -1: it belongs to no layer. */
static int64_t layer_of(const char *name) {
  static const option row = {.least = 0, .most = INT32_MAX};
  char digits[16];
  int64_t layer;
  if (!strncmp(name, GPT_PREFIX, strlen(GPT_PREFIX))) name += strlen(GPT_PREFIX);
  if (strncmp(name, "h.", 2)) return -1;
  const size_t length = strcspn(name + 2, ".");
  if (!name[2 + length] || length >= sizeof digits) return -1;
  memcpy(digits, name + 2, length);
  digits[length] = 0;
  return options_read_integer(&row, digits, &layer) ? layer : -1;
}

/* The highest layer decides. If a tensor of it or of an earlier layer is missing, loading the model
 * says so; it does not become a smaller model. */
static int64_t count_layers(const ac_model_file *file) {
  int64_t layers = 0;
  for (int i = 0; i < ac_model_file_tensor_count(file); i++) {
    const int64_t layer = layer_of(ac_model_file_tensor(file, i)->name);
    if (layer >= layers) layers = layer + 1;
  }
  return layers;
}

/* The sizes of a model: their names in files, and the limits of their flags. */
typedef struct size_row {
  const char *flag, *key, *json_key;
  int64_t *value; /* the size in the tensors, or the place for it */
  option range;
} size_row;
enum { SIZES = 5, HEADS = 4 };

static void list_sizes(gpt_config *config, size_row rows[SIZES]) {
  const size_row list[SIZES] = {
      {"layers", "accrue.layers", "n_layer", &config->layers, {.most = GPT_MOST_LAYERS}},
      {"width", "accrue.width", "n_embd", &config->width, {.most = GPT_MOST_WIDTH}},
      {"context", "accrue.context", "n_positions", &config->context, {.most = GPT_MOST_CONTEXT}},
      {"vocab", "accrue.vocab", "vocab_size", &config->vocab, {.most = GPT_MOST_VOCAB}},
      [HEADS] = {"heads", "accrue.heads", "n_head", &config->heads, {.most = GPT_MOST_HEADS}}};
  memcpy(rows, list, sizeof list);
  for (int i = 0; i < SIZES; i++) rows[i].range.least = 1;
}

/* Sizes that follow from the tensors. */
static int read_shapes(gpt_config *config, const ac_model_file *file, const char *path) {
  size_row rows[SIZES];
  const ac_model_tensor *wte = find(file, "wte.weight"), *wpe = find(file, "wpe.weight");
  if (!wte || !wpe || wte->rank != 2 || wpe->rank != 2 || wte->shape[1] != wpe->shape[1])
    return fail("%s is not a GPT-2 model: it lacks wte.weight and wpe.weight of equal width", path);
  config->vocab = wte->shape[0];
  config->context = wpe->shape[0];
  config->width = wte->shape[1];
  config->layers = count_layers(file);
  if (config->vocab < 1 || config->width < 1 || config->context < 1)
    return fail("%s is not a GPT-2 model: its vocabulary, width or context is empty", path);
  if (!config->layers) return fail("%s is not a GPT-2 model: it has no h.0.ln_1.weight", path);
  list_sizes(config, rows);
  for (int i = 0; i < HEADS; i++)
    if (!options_in_range(&rows[i].range, (double)*rows[i].value))
      return fail("%s has a %s of %" PRId64 ", which is more than %g", path, rows[i].flag,
                  *rows[i].value, rows[i].range.most);
  return STATUS_CONTINUE;
}

/* Checks `text`, a size as `where` has it: a number in its range, equal to that of the tensors. */
static int take_size(const size_row *row, const char *text, const char *where) {
  int64_t number;
  if (!options_read_integer(&row->range, text, &number))
    return fail("%s is damaged: its %s is %.40s, not a whole number from 1 to %.0f", where,
                row->flag, text, row->range.most);
  if (row->value && *row->value && *row->value != number)
    return fail("%s says that %s is %" PRId64 ", but the tensors are those of %" PRId64, where,
                row->flag, number, *row->value);
  *row->value = number;
  return STATUS_CONTINUE;
}

/* ---- config.json ----------------------------------------------------------------------------- */

static bool is_text(const json_t *value, const char *a, const char *b) {
  const char *text = json_string_value(value);
  return text && (!strcmp(text, a) || !strcmp(text, b));
}

/* Variants of the architecture that would load and then compute something else. A key that is
 * missing, or null, has the value that GPT-2 has. */
static const char *variant(const json_t *json) {
  static const char *const keys[] = {"activation_function", "layer_norm_epsilon",
                                     "scale_attn_weights", "scale_attn_by_inverse_layer_idx",
                                     "tie_word_embeddings"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const json_t *value = json_object_get(json, keys[i]);
    const bool usual[] = {is_text(value, "gelu_new", "gelu_pytorch_tanh"),
                          json_is_number(value) && json_number_value(value) == 1e-5,
                          json_is_true(value), json_is_false(value), json_is_true(value)};
    if (value && !json_is_null(value) && !usual[i]) return keys[i];
  }
  return NULL;
}

static int take_sizes(gpt_config *config, const json_t *json, const char *where) {
  size_row rows[SIZES];
  int status = STATUS_CONTINUE;
  list_sizes(config, rows);
  for (int i = 0; i < SIZES && status == STATUS_CONTINUE; i++) {
    const json_t *value = json_object_get(json, rows[i].json_key);
    if (!value || json_is_null(value)) continue;
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    status = text ? take_size(&rows[i], text, where) : fail("out of memory");
    free(text);
  }
  return status;
}

static bool sibling_of(const char *path, char name[4096]) {
  const char *slash = strrchr(path, '/');
  const int length =
      snprintf(name, 4096, "%.*sconfig.json", slash ? (int)(slash - path + 1) : 0, path);
  return length > 0 && length < 4096;
}

static int read_sibling(gpt_config *config, const char *path) {
  char name[4096];
  json_error_t error;
  if (!sibling_of(path, name)) return STATUS_CONTINUE;
  if (access(name, F_OK) != 0 && errno == ENOENT) return STATUS_CONTINUE;
  json_t *json = json_file_load(name, 0, &error);
  if (!json && json_error_code(&error) == json_error_cannot_open_file)
    return fail("%s", error.text);
  const char *different = variant(json);
  int status = STATUS_CONTINUE;
  if (!json_is_object(json))
    status = fail("%s is damaged: %s", name, json ? "it is not a JSON object" : error.text);
  else if (different)
    status = fail("the config.json next to %s sets %s, which is not GPT-2's", path, different);
  else status = take_sizes(config, json, name);
  json_decref(json);
  return status;
}

/* ---- the head -------------------------------------------------------------------------------- */

/* *same: whether two tensors of equal shape hold the same numbers. */
static ac_status compare(ac_model_file *file, int a, int b, int64_t elements, bool *same) {
  enum { PIECE = 4096 };
  float left[PIECE], right[PIECE];
  for (int64_t first = 0; first < elements && *same; first += PIECE) {
    const int64_t count = elements - first < PIECE ? elements - first : PIECE;
    ac_status status = ac_model_file_read(file, a, first, count, left);
    if (status == AC_OK) status = ac_model_file_read(file, b, first, count, right);
    if (status != AC_OK) return status;
    *same = !memcmp(left, right, (size_t)count * sizeof *left);
  }
  return AC_OK;
}

/* A file may hold the head once more, under a name of its own; it has to be the embedding, as the
 * head of GPT-2 is. */
static int check_head(const char *path) {
  ac_model_file *file;
  if (ac_model_file_open(&file, path) != AC_OK) return fail_library();
  const ac_model_tensor *wte = find(file, "wte.weight"), *head = find(file, "lm_head.weight");
  ac_status status = AC_OK;
  bool same = true;
  if (head && wte) {
    same = head->rank == 2 && head->shape[0] == wte->shape[0] && head->shape[1] == wte->shape[1];
    status =
        same ? compare(file, ac_model_file_find(file, head->name),
                       ac_model_file_find(file, wte->name), wte->shape[0] * wte->shape[1], &same)
             : AC_OK;
  }
  ac_model_file_close(file);
  if (status != AC_OK) return fail_library();
  return same ? STATUS_CONTINUE
              : fail("%s has an lm_head.weight that is not wte.weight; GPT-2's are the same", path);
}

/* ---- both ------------------------------------------------------------------------------------ */

static int take_metadata(gpt_config *config, const ac_model_file *file, const char *path) {
  size_row rows[SIZES];
  int status = STATUS_CONTINUE;
  list_sizes(config, rows);
  for (int i = 0; i < SIZES && status == STATUS_CONTINUE; i++) {
    const char *text = ac_model_file_metadata(file, rows[i].key);
    if (text) status = take_size(&rows[i], text, path);
  }
  return status;
}

int gpt_config_read(gpt_config *config, const ac_model_file *file, const char *path) {
  *config = (gpt_config){0};
  const char *model = ac_model_file_metadata(file, "accrue.model");
  if (model && strcmp(model, "gpt"))
    return fail("%s holds a model of kind %s, not gpt", path, model);
  int status = read_shapes(config, file, path);
  if (status == STATUS_CONTINUE) status = take_metadata(config, file, path);
  if (status == STATUS_CONTINUE && !config->heads) status = read_sibling(config, path);
  if (status == STATUS_CONTINUE && find(file, "lm_head.weight")) status = check_head(path);
  if (status != STATUS_CONTINUE) return status;
  if (config->heads > 0 && config->width % config->heads)
    return fail("%s: %" PRId64 " heads do not divide the width %" PRId64, path, config->heads,
                config->width);
  return STATUS_CONTINUE;
}

static int64_t end_of(const ac_model_file *file, const char *key, const json_t *json,
                      const char *name) {
  const char *text = ac_model_file_metadata(file, key);
  if (text && *text && !text[strspn(text, "0123456789")] && strlen(text) < 10) return atoll(text);
  const json_t *token = json_object_get(json, name);
  if (json_is_array(token)) token = json_array_get(token, 0); /* some have several */
  const json_int_t number = json_is_integer(token) ? json_integer_value(token) : -1;
  return number >= 0 && number < INT32_MAX ? number : -1;
}

gpt_ends gpt_config_read_ends(const ac_model_file *file, const char *path) {
  char name[4096];
  json_error_t error;
  json_t *json = sibling_of(path, name) ? json_file_load(name, 0, &error) : NULL;
  const gpt_ends ends = {end_of(file, "accrue.bos", json, "bos_token_id"),
                         end_of(file, "accrue.eos", json, "eos_token_id")};
  json_decref(json);
  return ends;
}

/* ---- writing --------------------------------------------------------------------------------- */

void gpt_config_describe(const gpt_config *config, const gpt_ends *ends, model_metadata *metadata) {
  model_metadata_add(metadata, "accrue.model", "gpt");
  model_metadata_add(metadata, "accrue.layers", "%" PRId64, config->layers);
  model_metadata_add(metadata, "accrue.heads", "%" PRId64, config->heads);
  model_metadata_add(metadata, "accrue.width", "%" PRId64, config->width);
  model_metadata_add(metadata, "accrue.context", "%" PRId64, config->context);
  model_metadata_add(metadata, "accrue.vocab", "%" PRId64, config->vocab);
  model_metadata_add(metadata, "accrue.dropout", "%g", config->dropout);
  if (ends->bos >= 0) model_metadata_add(metadata, "accrue.bos", "%" PRId64, ends->bos);
  if (ends->eos >= 0) model_metadata_add(metadata, "accrue.eos", "%" PRId64, ends->eos);
}

static json_t *end_or_null(int64_t token) {
  return token < 0 ? json_null() : json_integer((json_int_t)token);
}

char *gpt_config_json(const gpt_config *config, const gpt_ends *ends) {
  json_int_t V = config->vocab, T = config->context, C = config->width;
  double p = config->dropout;
  json_t *json = json_pack(
      "{s:[s], s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:f, s:f, s:f, s:f, s:f, s:b, s:o, s:o, "
      "s:s}",
      "architectures", "GPT2LMHeadModel", "model_type", "gpt2", "vocab_size", V, "n_positions", T,
      "n_ctx", T, "n_embd", C, "n_layer", (json_int_t)config->layers, "n_head",
      (json_int_t)config->heads, "activation_function", "gelu_new", "embd_pdrop", p, "attn_pdrop",
      p, "resid_pdrop", p, "layer_norm_epsilon", 1e-5, "initializer_range", 0.02,
      "tie_word_embeddings", 1, "bos_token_id", end_or_null(ends->bos), "eos_token_id",
      end_or_null(ends->eos), "torch_dtype", "float32");
  char *text = json ? json_text_short(json, JSON_INDENT(2)) : NULL;
  json_decref(json);
  return text;
}
