/* What the files next to a tokenizer say about chats. */
#include <accrue/chat.h>
#include <accrue/gguf.h>

#include "core/error.h"
#include "core/platform/files.h"
#include "core/quote.h"
#include "data/byte_file.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 26 }; /* bytes of such a file */

static ac_status copy(char **to, const char *text) {
  free(*to);
  *to = malloc(strlen(text) + 1);
  if (!*to) return ac_fail(AC_ERROR_MEMORY, "chat: no memory for a template");
  strcpy(*to, text);
  return AC_OK;
}

/* A file of the folder as a text with a 0 after it. *text stays NULL if it is not there. */
static ac_status read_whole(char **text, size_t *count, const char *folder, const char *name,
                            ac_file_path path) {
  ac_byte_file *file;
  ac_bytes bytes = {0};
  const int length = snprintf(path, sizeof(ac_file_path), "%s/%s", folder, name);
  *text = NULL;
  if (length < 0 || (size_t)length >= sizeof(ac_file_path))
    return ac_fail(AC_ERROR_ARGUMENT, "a path has more than %zu bytes", sizeof(ac_file_path) - 1);
  if (!ac_is_there(path)) return AC_OK;
  AC_TRY(ac_byte_file_open(&file, path, AC_AS_IT_IS));
  ac_status status = ac_byte_file_append(file, &bytes, MOST);
  ac_byte_file_close(file);
  if (status == AC_OK && bytes.count == MOST)
    status = ac_fail(AC_ERROR_FORMAT, "%s has 64 MiB or more", path);
  uint8_t *whole = status == AC_OK ? realloc(bytes.data, bytes.count + 1) : NULL;
  if (!whole) {
    free(bytes.data);
    return status == AC_OK ? ac_fail(AC_ERROR_MEMORY, "%s: no memory to read it", path) : status;
  }
  whole[bytes.count] = 0;
  *text = (char *)whole;
  *count = bytes.count;
  return AC_OK;
}

/* ---- tokenizer_config.json ------------------------------------------------------------------- */

/* A token is its text, or an object with it. One that is missing is "". */
static ac_status take_token(char **to, const json_t *json, const char *key) {
  const json_t *token = json_object_get(json, key);
  if (json_is_object(token)) token = json_object_get(token, "content");
  if (token && !json_is_null(token) && !json_is_string(token))
    return ac_fail(AC_ERROR_FORMAT, "\"%s\" is not a text", key);
  return copy(to, json_is_string(token) ? json_string_value(token) : "");
}

/* A text, or a list of {"name": ..., "template": ...}. */
static ac_status take_template(char **to, const json_t *json) {
  const json_t *value = json_object_get(json, "chat_template"), *one;
  size_t i;
  if (!value || json_is_null(value)) return AC_OK;
  if (json_is_string(value)) return copy(to, json_string_value(value));
  json_array_foreach(value, i, one) {
    const char *name = json_string_value(json_object_get(one, "name"));
    const char *text = json_string_value(json_object_get(one, "template"));
    if (name && text && !strcmp(name, "default")) return copy(to, text);
  }
  return ac_fail(AC_ERROR_FORMAT,
                 "\"chat_template\" is neither a text nor a list that has one named default");
}

static ac_status take_config(ac_chat_source *source, const char *text, size_t bytes) {
  json_error_t error;
  json_t *json = json_loadb(text, bytes, JSON_DECODE_INT_AS_REAL, &error);
  if (!json) return ac_fail(AC_ERROR_FORMAT, "line %d: %s", error.line, ac_quote(error.text).text);
  ac_status status = take_template(&source->chat_template, json);
  if (status == AC_OK) status = take_token(&source->begin, json, "bos_token");
  if (status == AC_OK) status = take_token(&source->end, json, "eos_token");
  json_decref(json);
  return status;
}

/* ---- GGUF ------------------------------------------------------------------------------------ */

static const char *gguf_text(const ac_gguf_metadata *metadata, const char *key) {
  const ac_gguf_value *value = ac_gguf_metadata_find(metadata, key);
  if (!value || value->array || value->type != AC_GGUF_TEXT) return NULL;
  return *(const char *const *)value->data;
}

/* The token with the id that has this key. One that is missing is "". */
static ac_status gguf_token(char **to, const ac_gguf_metadata *metadata, const char *key) {
  const ac_gguf_value *id = ac_gguf_metadata_find(metadata, key);
  const ac_gguf_value *tokens = ac_gguf_metadata_find(metadata, "tokenizer.ggml.tokens");
  if (!id || id->array || id->type != AC_GGUF_U32 || !tokens || tokens->type != AC_GGUF_TEXT)
    return copy(to, "");
  const uint32_t index = *(const uint32_t *)id->data;
  if (index >= tokens->count)
    return ac_fail(AC_ERROR_FORMAT, "%s is %u, but there are %lld tokens", key, (unsigned)index,
                   (long long)tokens->count);
  return copy(to, ((const char *const *)tokens->data)[index]);
}

static ac_status take_gguf(ac_chat_source *source, const ac_gguf_metadata *metadata) {
  const char *text = gguf_text(metadata, "tokenizer.chat_template");
  if (text) AC_TRY(copy(&source->chat_template, text));
  AC_TRY(gguf_token(&source->begin, metadata, "tokenizer.ggml.bos_token_id"));
  return gguf_token(&source->end, metadata, "tokenizer.ggml.eos_token_id");
}

static ac_status read_gguf(ac_chat_source *source, const char *path) {
  ac_gguf_metadata *metadata;
  AC_TRY(ac_gguf_metadata_open(&metadata, path));
  const ac_status status = take_gguf(source, metadata);
  ac_gguf_metadata_close(metadata);
  return status == AC_OK ? AC_OK : ac_fail_prefix(status, "%s", path);
}

static bool is_gguf(const char *path) {
  const size_t bytes = strlen(path);
  return bytes > 5 && !strcmp(path + bytes - 5, ".gguf") && !ac_is_folder(path);
}

/* ---- folders --------------------------------------------------------------------------------- */

static ac_status read_folder(ac_chat_source *source, const char *folder) {
  ac_file_path path;
  char *text;
  size_t bytes;
  AC_TRY(read_whole(&text, &bytes, folder, "tokenizer_config.json", path));
  const ac_status status = text ? take_config(source, text, bytes) : AC_OK;
  free(text);
  if (status != AC_OK) return ac_fail_prefix(status, "%s", path);
  AC_TRY(read_whole(&text, &bytes, folder, "chat_template.jinja", path));
  if (!text) return AC_OK;
  free(source->chat_template);
  source->chat_template = text;
  return strlen(text) == bytes ? AC_OK : ac_fail(AC_ERROR_FORMAT, "%s is not text", path);
}

ac_status ac_chat_source_read(ac_chat_source *source, const char *path) {
  AC_REQUIRE(source);
  *source = (ac_chat_source){0};
  AC_REQUIRE(path);
  ac_file_path folder = ".";
  const char *slash = strrchr(path, '/');
  const size_t length = ac_is_folder(path) ? strlen(path) : slash ? (size_t)(slash - path) : 0;
  if (length >= sizeof folder)
    return ac_fail(AC_ERROR_ARGUMENT, "a path has more than %zu bytes", sizeof folder - 1);
  if (length) {
    memcpy(folder, path, length);
    folder[length] = 0;
  } else if (slash == path) {
    strcpy(folder, "/");
  }
  const ac_status status = is_gguf(path) ? read_gguf(source, path) : read_folder(source, folder);
  if (status != AC_OK) ac_chat_source_free(source);
  return status;
}

void ac_chat_source_free(ac_chat_source *source) {
  if (!source) return;
  free(source->chat_template);
  free(source->begin);
  free(source->end);
  *source = (ac_chat_source){0};
}
