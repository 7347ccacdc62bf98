/* A model as a folder. Of a folder's own files only config.json changes, in one word; of a GGUF
 * file all are made. config.json comes last: a folder without it is not taken for a model. */
#include "export/export.h"

#include "core/error.h"
#include "core/half.h"
#include "core/platform/atomic_file.h"
#include "core/platform/files.h"
#include "core/platform/folders.h"
#include "core/quote.h"
#include "io/opened.h"
#include "io/safetensors.h"
#include "text/gguf_tokenizer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILE = 1 << 28 };

/* ---- files ----------------------------------------------------------------------------------- */

ac_status ac_export_path(char **path, const char *folder, const char *name) {
  const size_t length = strlen(folder), room = length + strlen(name) + 2;
  *path = malloc(room);
  if (!*path) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for a path", folder);
  snprintf(*path, room, "%s%s%s", folder, length && folder[length - 1] == '/' ? "" : "/", name);
  return AC_OK;
}

/* *text is NULL if there is no such file; free() frees it. */
static ac_status read_file(const char *path, char **text, size_t *bytes) {
  FILE *stream;
  *text = NULL;
  *bytes = 0;
  if (!ac_is_there(path)) return AC_OK;
  AC_TRY(ac_file_open(&stream, path, false));
  const uint64_t size = ac_file_bytes(stream);
  char *made = size <= MOST_FILE ? malloc((size_t)size + 1) : NULL;
  const bool whole = made && fread(made, 1, (size_t)size, stream) == size;
  fclose(stream);
  if (whole) {
    made[size] = 0;
    *text = made;
    *bytes = (size_t)size;
    return AC_OK;
  }
  free(made);
  if (size > MOST_FILE) return ac_fail(AC_ERROR_FORMAT, "%s has more than 256 MiB", path);
  return made ? ac_fail(AC_ERROR_IO, "cannot read %s", path)
              : ac_fail(AC_ERROR_MEMORY, "%s: no memory for it", path);
}

ac_status ac_export_read_json(json_t **json, const char *folder, const char *name) {
  char *path, *text;
  size_t bytes;
  json_error_t error;
  *json = NULL;
  AC_TRY(ac_export_path(&path, folder, name));
  ac_status status = read_file(path, &text, &bytes);
  if (status == AC_OK && text) {
    /* model_max_length may be 10^30. */
    const bool settings = !strcmp(name, "tokenizer_config.json");
    *json = json_loadb(
        text, bytes,
        JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | (settings ? JSON_DECODE_INT_AS_REAL : 0), &error);
    if (!*json)
      status =
          ac_fail(AC_ERROR_FORMAT, "%s: line %d: %s", path, error.line, ac_quote(error.text).text);
  }
  free(text);
  free(path);
  return status;
}

static ac_status write_file(const char *folder, const char *name, const char *text, size_t bytes) {
  ac_atomic_file file;
  char *path;
  AC_TRY(ac_export_path(&path, folder, name));
  ac_status status = ac_atomic_open(&file, path);
  if (status == AC_OK) {
    status = ac_atomic_write(&file, text, bytes);
    if (status == AC_OK) status = ac_atomic_commit(&file);
    else ac_atomic_abandon(&file);
  }
  free(path);
  return status;
}

/* With a new line at its end; free() frees it. */
static ac_status text_of(char **text, const json_t *json, const char *name) {
  const size_t flags = JSON_INDENT(2) | JSON_REAL_PRECISION(12),
               bytes = json_dumpb(json, NULL, 0, flags);
  *text = bytes ? malloc(bytes + 2) : NULL;
  if (!*text) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for it", name);
  json_dumpb(json, *text, bytes, flags);
  memcpy(*text + bytes, "\n", 2);
  return AC_OK;
}

static ac_status write_json(const char *folder, const char *name, const json_t *json) {
  char *text;
  AC_TRY(text_of(&text, json, name));
  const ac_status status = write_file(folder, name, text, strlen(text));
  free(text);
  return status;
}

/* ---- weights --------------------------------------------------------------------------------- */

typedef struct writing {
  ac_model *model;
  const ac_export_desc *desc;
  ac_export_tensor *from;
  ac_model_tensor *to;
  int count;
  float *piece;
  int64_t room; /* floats of it */
} writing;

static ac_dtype dtype_of(const writing *w, const ac_export_tensor *t) {
  if (w->desc->storage == AC_EXPORT_F32) return AC_F32;
  if (w->desc->storage == AC_EXPORT_F16) return AC_F16;
  if (w->desc->storage == AC_EXPORT_BF16) return AC_BF16;
  if (t->index < 0) return AC_F32;
  switch (w->model->weights->entries[t->index].storage) {
  case AC_STORED_BF16:
    return AC_BF16;
  case AC_STORED_F16:
  case AC_STORED_BLOCKS:
    return AC_F16;
  default:
    return AC_F32;
  }
}

/* Those of a GGUF file are of all kinds; a folder has one, that of its matrices. */
static ac_dtype dtype_of_all(const writing *w) {
  ac_dtype found = AC_F32;
  int64_t most = -1;
  for (int d = AC_F32; d <= AC_BF16; d++) {
    int64_t elements = 0;
    for (int i = 0; i < w->count; i++)
      if (dtype_of(w, &w->from[i]) == (ac_dtype)d) elements += ac_export_elements(&w->from[i]);
    if (elements > most) most = elements, found = (ac_dtype)d;
  }
  return found;
}

static ac_status refuse_element(const writing *w, int index, int64_t element, float value) {
  return ac_fail(AC_ERROR_NOT_FINITE, "element %" PRId64 " of %s is %s", element,
                 ac_quote(w->from[index].name).text,
                 isfinite(value) ? "too large for 16 bits" : "not finite");
}

static ac_status round_piece(const writing *w, int index, int64_t first, int64_t count,
                             void *data) {
  const ac_dtype dtype = w->to[index].dtype;
  for (int64_t i = 0; i < count; i++) {
    const float value = w->piece[i];
    const uint16_t half = dtype == AC_F16 ? ac_f16_from_float(value) : ac_bf16_from_float(value);
    const uint16_t exponent = dtype == AC_F16 ? 0x7c00 : 0x7f80;
    const bool fits = dtype == AC_F32 ? isfinite(value) : (half & exponent) != exponent;
    if (!fits) return refuse_element(w, index, first + i, value);
    if (dtype == AC_F32) ((float *)data)[i] = value;
    else ((uint16_t *)data)[i] = half;
  }
  return AC_OK;
}

static ac_status give(void *user, int index, int64_t first, int64_t count, void *data) {
  writing *w = user;
  for (int64_t done = 0; done < count;) {
    const int64_t part = count - done < w->room ? count - done : w->room;
    char *to = (char *)data + (size_t)done * ac_dtype_bytes(w->to[index].dtype);
    AC_TRY(ac_export_read(w->model, w->desc, &w->from[index], first + done, part, w->piece));
    AC_TRY(round_piece(w, index, first + done, part, to));
    done += part;
  }
  return AC_OK;
}

static ac_status write_weights(writing *w, const char *folder, ac_dtype *dtype) {
  static const ac_metadata format = {"format", "pt"};
  char *path;
  AC_TRY(ac_export_tensors(&w->from, &w->count, w->model, w->desc));
  w->room = 1 << 17;
  w->piece = malloc((size_t)w->room * sizeof *w->piece);
  w->to = calloc((size_t)w->count + 1, sizeof *w->to);
  if (!w->piece || !w->to) return ac_fail(AC_ERROR_MEMORY, "%s: no memory to write it", folder);
  *dtype = dtype_of_all(w);
  for (int i = 0; i < w->count; i++) {
    const ac_export_tensor *t = &w->from[i];
    w->to[i] = (ac_model_tensor){
        .name = t->name, .rank = t->rank, .dtype = w->model->folder ? dtype_of(w, t) : *dtype};
    memcpy(w->to[i].shape, t->shape, sizeof t->shape);
  }
  AC_TRY(ac_export_path(&path, folder, "model.safetensors"));
  const ac_status status = ac_model_file_write(path, w->to, w->count, &format, 1, give, w);
  free(path);
  return status;
}

/* ---- the other files of a folder ------------------------------------------------------------- */

static const char *const carried[] = {"generation_config.json",
                                      "tokenizer.json",
                                      "tokenizer_config.json",
                                      "tokenizer.model",
                                      "vocab.json",
                                      "merges.txt",
                                      "special_tokens_map.json",
                                      "added_tokens.json",
                                      "chat_template.jinja",
                                      "chat_template.json",
                                      "LICENSE",
                                      "LICENSE.txt",
                                      "NOTICE"};

static ac_status carry_files(const ac_model *model, const char *folder) {
  for (size_t i = 0; i < sizeof carried / sizeof *carried; i++) {
    char *path, *text;
    size_t bytes;
    AC_TRY(ac_export_path(&path, model->folder, carried[i]));
    ac_status status = read_file(path, &text, &bytes);
    if (status == AC_OK && text) status = write_file(folder, carried[i], text, bytes);
    free(text);
    free(path);
    AC_TRY(status);
  }
  return AC_OK;
}

static const char *name_of(ac_dtype dtype) {
  return dtype == AC_F32 ? "float32" : dtype == AC_F16 ? "float16" : "bfloat16";
}

/* The place of the text of a key in the outermost object, after its quote; NULL: it has none. */
static char *find_word(char *text, const char *key) {
  const size_t length = strlen(key);
  int depth = 0;
  for (char *at = text; *at; at++) {
    if (*at == '{' || *at == '[') depth++;
    if (*at == '}' || *at == ']') depth--;
    if (*at != '"') continue;
    char *begin = ++at;
    while (*at && *at != '"') at += *at == '\\' && at[1] ? 2 : 1;
    if (!*at) return NULL;
    if (depth != 1 || (size_t)(at - begin) != length || strncmp(begin, key, length) != 0) continue;
    char *after = at + 1 + strspn(at + 1, " \t\r\n");
    if (*after != ':') continue;
    after += 1 + strspn(after + 1, " \t\r\n");
    return *after == '"' ? after + 1 : NULL;
  }
  return NULL;
}

/* The same text with another word for the dtype. */
static ac_status change(char **changed, const char *text, const char *word) {
  static const char *const keys[] = {"dtype", "torch_dtype"};
  const size_t room = strlen(text) + 64;
  *changed = malloc(room);
  if (!*changed) return ac_fail(AC_ERROR_MEMORY, "config.json: no memory for it");
  strcpy(*changed, text);
  for (int i = 0; i < 2; i++) {
    char *at = find_word(*changed, keys[i]);
    const size_t old = at ? strcspn(at, "\"") : 0;
    if (!at || strlen(*changed) - old + strlen(word) >= room) continue;
    memmove(at + strlen(word), at + old, strlen(at + old) + 1);
    memcpy(at, word, strlen(word));
  }
  return AC_OK;
}

static ac_status carried_config(char **json, const ac_model *model, ac_dtype dtype) {
  char *text;
  size_t bytes;
  AC_TRY(read_file(model->source, &text, &bytes));
  if (!text) return ac_fail(AC_ERROR_IO, "%s is not there any more", model->source);
  const ac_status status = change(json, text, name_of(dtype));
  free(text);
  return status;
}

/* ---- of a GGUF file -------------------------------------------------------------------------- */

static const char *token_text(const ac_gguf_metadata *metadata, const char *key) {
  const ac_gguf_value *tokens = ac_gguf_metadata_find(metadata, "tokenizer.ggml.tokens");
  const int64_t id = ac_gguf_token_id(metadata, key);
  if (!tokens || id < 0 || id >= tokens->count) return NULL;
  return ((const char *const *)tokens->data)[id];
}

static ac_status write_settings(const ac_model *model, const ac_gguf_metadata *metadata,
                                const char *folder) {
  static const char *const keys[][2] = {{"bos_token", "tokenizer.ggml.bos_token_id"},
                                        {"eos_token", "tokenizer.ggml.eos_token_id"},
                                        {"unk_token", "tokenizer.ggml.unknown_token_id"},
                                        {"pad_token", "tokenizer.ggml.padding_token_id"}};
  json_t *json = json_pack("{s:s, s:b, s:I}", "tokenizer_class", "PreTrainedTokenizerFast",
                           "clean_up_tokenization_spaces", 0, "model_max_length",
                           (json_int_t)model->config.positions);
  bool whole = json != NULL;
  for (int i = 0; i < 4; i++) {
    const char *text = token_text(metadata, keys[i][1]);
    if (text) whole &= json_object_set_new(json, keys[i][0], json_string(text)) == 0;
  }
  if (model->chat_template)
    whole &= json_object_set_new(json, "chat_template", json_string(model->chat_template)) == 0;
  const ac_status status = whole ? write_json(folder, "tokenizer_config.json", json)
                                 : ac_fail(AC_ERROR_MEMORY, "%s: no memory for it", folder);
  json_decref(json);
  return status;
}

static ac_status make_tokenizer(const ac_model *model, const char *folder) {
  ac_gguf_metadata *metadata;
  json_t *json = NULL;
  AC_TRY(ac_gguf_metadata_open(&metadata, model->path));
  ac_status status = AC_OK;
  if (ac_gguf_metadata_find(metadata, "tokenizer.ggml.tokens")) {
    status = ac_gguf_tokenizer_json(&json, metadata, model->path);
    if (status == AC_OK) status = write_json(folder, "tokenizer.json", json);
    if (status == AC_OK) status = write_settings(model, metadata, folder);
  }
  json_decref(json);
  ac_gguf_metadata_close(metadata);
  return status;
}

static ac_status make_files(const ac_model *model, const char *folder) {
  json_t *generation = NULL;
  ac_status status = make_tokenizer(model, folder);
  if (status == AC_OK) status = ac_export_generation_json(&generation, &model->config);
  if (status == AC_OK) status = write_json(folder, "generation_config.json", generation);
  json_decref(generation);
  return status;
}

static ac_status made_config(char **json, const ac_model *model, ac_dtype dtype) {
  json_t *config = NULL;
  ac_status status = ac_export_config_json(&config, &model->config, dtype);
  if (status == AC_OK) status = text_of(json, config, "config.json");
  json_decref(config);
  return status;
}

/* ---- a folder -------------------------------------------------------------------------------- */

ac_status ac_model_config_json(char **json, const ac_model *model, ac_dtype dtype) {
  AC_CREATES(json);
  AC_REQUIRE(model);
  if (dtype != AC_F32 && dtype != AC_F16 && dtype != AC_BF16)
    return ac_fail(AC_ERROR_ARGUMENT, "ac_model_config_json: weights are not of dtype %d",
                   (int)dtype);
  return model->folder ? carried_config(json, model, dtype) : made_config(json, model, dtype);
}

ac_status ac_model_export_files(const ac_model *model, const char *path) {
  AC_REQUIRE(model, path);
  return model->folder ? carry_files(model, path) : make_files(model, path);
}

static ac_status write_config(const ac_model *model, const char *folder, ac_dtype dtype) {
  char *json;
  AC_TRY(ac_model_config_json(&json, model, dtype));
  const ac_status status = write_file(folder, "config.json", json, strlen(json));
  free(json);
  return status;
}

/* An index of shards would be read in the place of what is written. */
static ac_status check_folder(const char *folder) {
  char *path;
  AC_TRY(ac_export_path(&path, folder, "model.safetensors.index.json"));
  const bool there = ac_is_there(path);
  free(path);
  if (!there) return AC_OK;
  return ac_fail(AC_ERROR_STATE,
                 "%s has a model.safetensors.index.json, so weights written there would not be "
                 "read; write to another folder",
                 folder);
}

ac_status ac_model_export_folder(ac_model *model, const char *path, const ac_export_desc *desc) {
  AC_REQUIRE(model, path);
  const ac_export_desc d = AC_DESCRIBED(ac_export_desc, desc);
  if ((unsigned)d.storage > AC_EXPORT_BF16)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "ac_model_export_folder: a folder is not written in storage %d", (int)d.storage);
  AC_TRY(ac_folder_make(path));
  AC_TRY(check_folder(path));
  writing w = {.model = model, .desc = &d};
  ac_dtype dtype = AC_F32;
  ac_status status = write_weights(&w, path, &dtype);
  free(w.from);
  free(w.to);
  free(w.piece);
  if (status != AC_OK) return status;
  AC_TRY(ac_model_export_files(model, path));
  return write_config(model, path, dtype);
}
