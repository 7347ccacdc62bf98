/* Opening a model: which files it has, and what they say about texts. */
#include "model/model.h"

#include "core/error.h"
#include "core/quote.h"
#include "graph/graph.h"
#include "io/opened.h"

#include "core/platform/files.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_JSON = 16 << 20, MOST_TEMPLATE = 1 << 20 };

static char *copy_text(const char *text, size_t bytes) {
  char *copy = malloc(bytes + 1);
  if (!copy) return NULL;
  memcpy(copy, text, bytes);
  copy[bytes] = 0;
  return copy;
}

/* FOLDER/NAME; free() frees it. */
static char *path_in(const char *folder, const char *name) {
  const size_t length = strlen(folder), room = length + strlen(name) + 2;
  char *path = malloc(room);
  if (path)
    snprintf(path, room, "%s%s%s", folder, length && folder[length - 1] == '/' ? "" : "/", name);
  return path;
}

/* ---- files of a folder ----------------------------------------------------------------------- */

static ac_status open_small(FILE **stream, const char *path, uint64_t most) {
  AC_TRY(ac_file_open(stream, path, false));
  if (ac_file_bytes(*stream) <= most) return AC_OK;
  fclose(*stream);
  return ac_fail(AC_ERROR_FORMAT, "%s has more than %llu bytes", path, (unsigned long long)most);
}

static ac_status read_json(json_t **json, const char *path) {
  FILE *stream;
  json_error_t error;
  /* There, model_max_length may be 10^30. */
  const bool settings = strstr(path, "tokenizer_config.json");
  AC_TRY(open_small(&stream, path, MOST_JSON));
  *json =
      json_loadf(stream, JSON_REJECT_DUPLICATES | (settings ? JSON_DECODE_INT_AS_REAL : 0), &error);
  fclose(stream);
  if (*json) return AC_OK;
  return ac_fail(AC_ERROR_FORMAT, "%s: line %d: %s", path, error.line, ac_quote(error.text).text);
}

/* *json is NULL if there is no such file. */
static ac_status read_optional(json_t **json, const char *folder, const char *name) {
  char *path = path_in(folder, name);
  ac_status status = AC_OK;
  *json = NULL;
  if (!path) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for a path", folder);
  if (ac_is_there(path)) status = read_json(json, path);
  free(path);
  return status;
}

/* ---- templates of chats ---------------------------------------------------------------------- */

static ac_status set_template(ac_model *model, const char *text, size_t bytes) {
  model->chat_template = copy_text(text, bytes);
  if (model->chat_template) return AC_OK;
  return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its template", model->path);
}

static ac_status read_template_file(ac_model *model, const char *path) {
  FILE *stream;
  AC_TRY(open_small(&stream, path, MOST_TEMPLATE));
  char *text = malloc(MOST_TEMPLATE);
  const size_t bytes = text ? fread(text, 1, MOST_TEMPLATE, stream) : 0;
  const bool failed = ferror(stream);
  fclose(stream);
  ac_status status = AC_OK;
  if (!text) status = ac_fail(AC_ERROR_MEMORY, "%s: no memory for it", path);
  else if (failed) status = ac_fail(AC_ERROR_IO, "cannot read %s", path);
  else status = set_template(model, text, bytes);
  free(text);
  return status;
}

/* A text, or a list of {"name", "template"}: the one that is named default. */
static ac_status take_template(ac_model *model, const json_t *value) {
  const json_t *entry;
  size_t i;
  json_array_foreach((json_t *)value, i, entry) {
    const char *name = json_string_value(json_object_get(entry, "name"));
    if (name && !strcmp(name, "default"))
      return take_template(model, json_object_get(entry, "template"));
  }
  if (!json_is_string(value)) return AC_OK;
  return set_template(model, json_string_value(value), json_string_length(value));
}

static ac_status read_template(ac_model *model) {
  static const char *const files[] = {"chat_template.json", "tokenizer_config.json"};
  json_t *json;
  char *path = path_in(model->folder, "chat_template.jinja");
  if (!path) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for a path", model->path);
  ac_status status = ac_is_there(path) ? read_template_file(model, path) : AC_OK;
  free(path);
  for (int i = 0; i < 2 && status == AC_OK && !model->chat_template; i++) {
    status = read_optional(&json, model->folder, files[i]);
    if (status == AC_OK) status = take_template(model, json_object_get(json, "chat_template"));
    json_decref(json);
  }
  return status;
}

/* ---- a folder -------------------------------------------------------------------------------- */

/* The tokens that end what is generated, which are more than those of a text. */
static ac_status read_generation(ac_model *model) {
  static const char name[] = "generation_config.json";
  json_t *json;
  AC_TRY(read_optional(&json, model->folder, name));
  if (!json) return AC_OK;
  char *path = path_in(model->folder, name);
  const ac_status status =
      path ? ac_config_read_ends(&model->config, json, path)
           : ac_fail(AC_ERROR_MEMORY, "%s: no memory for a path", model->folder);
  free(path);
  json_decref(json);
  return status;
}

static ac_status read_config(ac_model *model) {
  json_t *json;
  AC_TRY(read_json(&json, model->source));
  ac_status status = ac_config_read_json(&model->config, json, model->source);
  json_decref(json);
  return status;
}

static ac_status open_weights(ac_model *model) {
  static const char *const files[] = {"model.safetensors.index.json", "model.safetensors"};
  bool there = false;
  for (int i = 0; i < 2 && !there; i++) {
    char *path = path_in(model->folder, files[i]);
    if (!path) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for a path", model->path);
    there = ac_is_there(path);
    free(path);
  }
  return there ? ac_model_file_open(&model->weights, model->folder) : AC_OK;
}

static ac_status open_folder(ac_model *model) {
  const char *slash = strrchr(model->path, '/');
  if (ac_is_folder(model->path)) {
    model->folder = copy_text(model->path, strlen(model->path));
    model->source = path_in(model->path, "config.json");
  } else {
    model->folder =
        slash ? copy_text(model->path, (size_t)(slash - model->path) + 1) : copy_text(".", 1);
    model->source = copy_text(model->path, strlen(model->path));
  }
  if (!model->folder || !model->source)
    return ac_fail(AC_ERROR_MEMORY, "%s: no memory for a path", model->path);
  AC_TRY(read_config(model));
  AC_TRY(read_generation(model));
  AC_TRY(read_template(model));
  return open_weights(model);
}

/* ---- a GGUF file ----------------------------------------------------------------------------- */

static ac_status open_gguf(ac_model *model) {
  model->source = copy_text(model->path, strlen(model->path));
  if (!model->source) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for a path", model->path);
  AC_TRY(ac_model_file_open(&model->weights, model->path));
  AC_TRY(ac_config_read_gguf(&model->config, model->weights, model->source));
  AC_TRY(ac_gguf_rename(&model->config, model->weights, &model->names));
  const char *text = ac_model_file_metadata(model->weights, "tokenizer.chat_template");
  return text ? set_template(model, text, strlen(text)) : AC_OK;
}

static ac_status is_gguf(const char *path, bool *gguf) {
  FILE *stream;
  char start[4] = "";
  *gguf = false;
  if (ac_is_folder(path)) return AC_OK;
  AC_TRY(ac_file_open(&stream, path, false));
  *gguf = fread(start, 1, 4, stream) == 4 && !memcmp(start, "GGUF", 4);
  fclose(stream);
  return AC_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* A graph of one position has all parameters, which says what the file has to have. */
static ac_status make_graph(ac_model *model) {
  ac_tensor_info info;
  AC_TRY(ac_graph_create(&model->graph));
  ac_model_build(model, model->graph, &(ac_model_graph_desc){.context = 1, .logits = true});
  if (ac_graph_status(model->graph) != AC_OK)
    return ac_fail(ac_graph_status(model->graph), "%s: %s", model->source,
                   ac_graph_message(model->graph));
  for (int i = 0; i < ac_graph_parameter_count(model->graph); i++) {
    int64_t elements = 1;
    AC_TRY(ac_graph_parameter(model->graph, i, &info));
    for (int d = 0; d < info.rank; d++) elements *= info.shape[d];
    model->parameters += elements;
  }
  return AC_OK;
}

static ac_status open_model(ac_model *model, const char *path) {
  bool gguf = false;
  model->path = copy_text(path, strlen(path));
  if (!model->path) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for a description", path);
  AC_TRY(is_gguf(path, &gguf));
  AC_TRY(gguf ? open_gguf(model) : open_folder(model));
  AC_TRY(make_graph(model));
  return model->weights ? ac_model_check_weights(model) : AC_OK;
}

ac_status ac_model_open(ac_model **model, const char *path) {
  AC_CREATES(model);
  AC_REQUIRE(path);
  ac_model *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for a description", path);
  const ac_status status = open_model(made, path);
  if (status == AC_OK) *model = made;
  else ac_model_free(made);
  return status;
}

void ac_model_free(ac_model *model) {
  if (!model) return;
  ac_model_file_close(model->weights);
  ac_tokenizer_free(model->tokenizer);
  ac_graph_free(model->graph);
  free(model->path);
  free(model->folder);
  free(model->source);
  free(model->chat_template);
  free(model->names);
  free(model);
}

/* ---- what it is ------------------------------------------------------------------------------ */

void ac_model_get_info(const ac_model *model, ac_model_info *info) {
  if (!AC_GIVEN(info)) return;
  *info = (ac_model_info){.family = "", .path = "", .begin = -1};
  if (!AC_GIVEN(model)) return;
  const ac_model_config *c = &model->config;
  *info = (ac_model_info){.family = c->family->name,
                          .path = model->path,
                          .gguf = !model->folder,
                          .weights = model->weights != NULL,
                          .layers = c->layers,
                          .width = c->width,
                          .heads = c->heads,
                          .key_heads = c->key_heads,
                          .head_size = c->head_size,
                          .hidden = c->hidden,
                          .vocabulary = c->vocabulary,
                          .positions = c->positions,
                          .window = c->window,
                          .tied = c->tied,
                          .parameters = model->parameters,
                          .begin = c->begin,
                          .end_count = c->end_count};
  memcpy(info->ends, c->ends, sizeof info->ends);
}

ac_model_file *ac_model_weights(ac_model *model) {
  return AC_GIVEN(model) ? model->weights : NULL;
}

void ac_model_close_tokenizer(ac_model *model) {
  if (!model) return;
  ac_tokenizer_free(model->tokenizer);
  model->tokenizer = NULL;
}

ac_status ac_model_tokenizer(ac_model *model, ac_tokenizer **tokenizer) {
  AC_CREATES(tokenizer);
  AC_REQUIRE(model);
  if (!model->tokenizer)
    AC_TRY(ac_tokenizer_open(&model->tokenizer, model->folder ? model->folder : model->path));
  *tokenizer = model->tokenizer;
  return AC_OK;
}

const char *ac_model_chat_template(const ac_model *model) {
  return AC_GIVEN(model) ? model->chat_template : NULL;
}
