/* Files of tokenizers, by what is in them: a tokenizer.json begins with a brace, a GGUF file with
 * its name, and anything else may be a tokenizer.model. */
#include "text/tokenizer.h"

#include "core/platform/files.h"
#include "core/quote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct file_bytes {
  char *data;
  size_t count, capacity;
} file_bytes;

enum { MOST_OF_PATH = 4096, MOST_OF_FILE = 256 << 20 };

/* ---- reading --------------------------------------------------------------------------------- */

static ac_status read_all(file_bytes *to, FILE *stream, const char *path) {
  for (size_t got = 1; got; to->count += got) {
    if (to->count > MOST_OF_FILE || ac_file_bytes(stream) > MOST_OF_FILE)
      return ac_fail(AC_ERROR_FORMAT, "%s has more than 256 MiB, which no tokenizer has", path);
    if (to->count == to->capacity) {
      const uint64_t known = ac_file_bytes(stream);
      const size_t more = to->capacity ? 2 * to->capacity : known < 4095 ? 4096 : (size_t)known + 1;
      char *grown = realloc(to->data, more);
      if (!grown) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its %zu bytes", path, more);
      to->data = grown;
      to->capacity = more;
    }
    got = fread(to->data + to->count, 1, to->capacity - to->count, stream);
  }
  return ferror(stream) ? ac_fail(AC_ERROR_IO, "cannot read %s: %s", path, strerror(errno)) : AC_OK;
}

static ac_status read_path(file_bytes *to, const char *path) {
  FILE *stream;
  AC_TRY(ac_file_open(&stream, path, false));
  const ac_status status = read_all(to, stream, path);
  fclose(stream);
  return status;
}

static ac_status parse(json_t **json, const file_bytes *file, const char *path, size_t flags) {
  json_error_t error;
  *json =
      json_loadb(file->data, file->count, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | flags, &error);
  if (*json) return AC_OK;
  return ac_fail(AC_ERROR_FORMAT, "%s: line %d: %s", path, error.line, ac_quote(error.text).text);
}

/* ---- the files next to a tokenizer.model ----------------------------------------------------- */

/* An object of a file next to `path`; NULL if there is no such file. */
static ac_status read_neighbour(json_t **json, const char *path, const char *name) {
  char next[MOST_OF_PATH + 64];
  const char *slash = strrchr(path, '/');
  const int folder = slash ? (int)(slash + 1 - path) : 0;
  const bool settings = !strcmp(name, "tokenizer_config.json"); /* model_max_length may be 10^30 */
  snprintf(next, sizeof next, "%.*s%s", folder, path, name);
  *json = NULL;
  if (!ac_is_there(next)) return AC_OK;
  file_bytes file = {0};
  ac_status status = read_path(&file, next);
  if (status == AC_OK) status = parse(json, &file, next, settings ? JSON_DECODE_INT_AS_REAL : 0);
  if (status == AC_OK && !json_is_object(*json))
    status = ac_fail(AC_ERROR_FORMAT, "%s: this is not an object", next);
  free(file.data);
  return status;
}

static ac_status read_model(ac_tokenizer *t, const file_bytes *file, const char *path) {
  static const char *const names[] = {"tokenizer_config.json", "special_tokens_map.json",
                                      "added_tokens.json"};
  json_t *next[3] = {0};
  ac_status status = AC_OK;
  for (int i = 0; i < 3 && status == AC_OK; i++) status = read_neighbour(&next[i], path, names[i]);
  if (status == AC_OK) {
    status = ac_tokenizer_read_sentencepiece(t, file->data, file->count, next[0], next[1], next[2]);
    if (status != AC_OK) ac_fail_prefix(status, "%s", path);
  }
  for (int i = 0; i < 3; i++) json_decref(next[i]);
  return status;
}

/* ---- any file -------------------------------------------------------------------------------- */

static ac_status read_json(ac_tokenizer *t, const file_bytes *file, const char *path) {
  json_t *json;
  AC_TRY(parse(&json, file, path, 0));
  const ac_status status = json_is_object(json)
                               ? ac_tokenizer_read_json(t, json)
                               : ac_fail(AC_ERROR_FORMAT, "this is not a tokenizer");
  json_decref(json);
  return status == AC_OK ? AC_OK : ac_fail_prefix(status, "%s", path);
}

/* Lines of base64, a space and a number. */
static bool is_tiktoken(const file_bytes *file) {
  size_t i = 0;
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
  while (i < file->count && file->data[i] && strchr(digits, file->data[i])) i++;
  return i && i + 1 < file->count && file->data[i] == ' ' && file->data[i + 1] >= '0' &&
         file->data[i + 1] <= '9';
}

static ac_status read_any(ac_tokenizer *t, const file_bytes *file, const char *path) {
  size_t spaces = 0;
  while (spaces < file->count && strchr(" \t\r\n", file->data[spaces]) && file->data[spaces])
    spaces++;
  if (spaces == file->count || strchr("{[", file->data[spaces])) return read_json(t, file, path);
  if (is_tiktoken(file))
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "%s is a table of tiktoken; use the tokenizer.json of the same model", path);
  return read_model(t, file, path);
}

static ac_status read_file(ac_tokenizer *t, const char *path) {
  FILE *stream;
  char magic[4] = {0};
  AC_TRY(ac_file_open(&stream, path, false));
  const bool gguf = fread(magic, 1, 4, stream) == 4 && !memcmp(magic, "GGUF", 4);
  fclose(stream);
  if (gguf) return ac_tokenizer_read_gguf(t, path);
  file_bytes file = {0};
  ac_status status = read_path(&file, path);
  if (status == AC_OK) status = read_any(t, &file, path);
  free(file.data);
  return status;
}

/* Of a folder the tokenizer.json, unless it has only a tokenizer.model. */
static ac_status find_file(char *file, const char *path) {
  char model[MOST_OF_PATH];
  if (strlen(path) + 32 > MOST_OF_PATH)
    return ac_fail(AC_ERROR_ARGUMENT, "a path has more than %d bytes", MOST_OF_PATH - 32);
  const bool folder = ac_is_folder(path);
  snprintf(file, MOST_OF_PATH, "%s%s", path, folder ? "/tokenizer.json" : "");
  snprintf(model, sizeof model, "%s/tokenizer.model", path);
  if (folder && !ac_is_there(file) && ac_is_there(model)) strcpy(file, model);
  return AC_OK;
}

ac_status ac_tokenizer_open(ac_tokenizer **tokenizer, const char *path) {
  AC_CREATES(tokenizer);
  AC_REQUIRE(path);
  char file[MOST_OF_PATH];
  AC_TRY(find_file(file, path));
  ac_tokenizer *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for a description");
  const ac_status status = read_file(made, file);
  if (status != AC_OK) {
    ac_tokenizer_free(made);
    return status;
  }
  *tokenizer = made;
  return AC_OK;
}
