#define _XOPEN_SOURCE 700 /* realpath */

#include "program/language_model.h"

#include "common/json_file.h"
#include "common/message.h"

#include <accrue/model_file.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* ---- what is at a path ----------------------------------------------------------------------- */

static bool is_folder(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool has_file(const char *folder, const char *name) {
  char path[MODEL_PATH_BYTES];
  struct stat info;
  const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  return length < (int)sizeof path && stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), tail = strlen(end);
  return length >= tail && !strcmp(text + length - tail, end);
}

static bool is_gguf(const char *path) {
  char magic[4] = "";
  FILE *file = fopen(path, "rb");
  const bool is = file && fread(magic, 1, 4, file) == 4 && !memcmp(magic, "GGUF", 4);
  if (file) fclose(file);
  return is;
}

/* Whether a run of another kind of model has written the folder's weights. */
static bool is_of_another_kind(const char *folder) {
  char path[MODEL_PATH_BYTES];
  ac_model_file *file;
  if (!has_file(folder, "model.safetensors")) return false;
  snprintf(path, sizeof path, "%s/model.safetensors", folder);
  if (ac_model_file_open(&file, path) != AC_OK) return false;
  const char *kind = ac_model_file_metadata(file, "accrue.model");
  const bool other = kind && strcmp(kind, "llm") != 0;
  ac_model_file_close(file);
  return other;
}

/* A GPT-2 without a tokenizer is a model of bytes or of a file of tokens: the kind `gpt`. */
static bool is_gpt(const char *folder) {
  if (has_file(folder, "tokenizer.json") || has_file(folder, "tokenizer.model")) return false;
  char path[MODEL_PATH_BYTES + 32];
  json_error_t error;
  snprintf(path, sizeof path, "%s/config.json", folder);
  json_t *config = json_file_load(path, 0, &error);
  const char *type = json_string_value(json_object_get(config, "model_type"));
  const bool is = !config || (type && !strcmp(type, "gpt2")); /* the kind says what is damaged */
  json_decref(config);
  return is;
}

bool language_model_is(const char *path) {
  struct stat info;
  if (is_folder(path))
    return has_file(path, "adapter_config.json") ||
           (has_file(path, "config.json") && !is_of_another_kind(path) && !is_gpt(path));
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return false;
  return ends_with(path, ".json") || is_gguf(path);
}

/* ---- an adapter and its base ----------------------------------------------------------------- */

static bool is_there(const char *path) {
  struct stat info;
  return stat(path, &info) == 0;
}

static int find_base(const char *folder, language_model_path *found) {
  char path[MODEL_PATH_BYTES + 32];
  json_error_t error;
  snprintf(path, sizeof path, "%s/adapter_config.json", folder);
  json_t *config = json_file_load(path, 0, &error);
  const char *name = json_string_value(json_object_get(config, "base_model_name_or_path"));
  int status = STATUS_CONTINUE;
  if (!config) status = fail("%s: %s", path, error.text);
  else if (!name || !*name)
    status = fail("%s does not name its base: base_model_name_or_path is missing", path);
  else {
    int length = snprintf(found->base, sizeof found->base, "%s", name);
    if (*name != '/' && !is_there(found->base))
      length = snprintf(found->base, sizeof found->base, "%s/%s", folder, name);
    if (length >= (int)sizeof found->base || !is_there(found->base))
      status = fail("%s is an adapter of %s, and there is nothing at that path; set "
                    "base_model_name_or_path in %s",
                    folder, name, path);
  }
  json_decref(config);
  return status;
}

/* What an adapter says of its base holds wherever it is read. */
static int make_absolute(const char *path, language_model_path *found) {
  char *absolute = realpath(path, NULL);
  const bool good = absolute && strlen(absolute) < sizeof found->base;
  if (good) strcpy(found->base, absolute);
  free(absolute);
  return good ? STATUS_CONTINUE : fail("cannot find %s: %s", path, strerror(errno));
}

int language_model_find(const char *flag, const char *path, language_model_path *found) {
  *found = (language_model_path){.base = ""};
  if (strlen(path) >= sizeof found->base) return fail_usage("--%s is not a path", flag);
  if (!is_there(path)) return fail("cannot read %s: %s", path, strerror(errno));
  if (is_folder(path) && has_file(path, "adapter_config.json")) {
    strcpy(found->adapter, path);
    return find_base(path, found);
  }
  if (is_folder(path) && !has_file(path, "config.json"))
    return fail("%s holds no model: neither config.json nor adapter_config.json is in it", path);
  return make_absolute(path, found);
}

/* ---- fingerprints ---------------------------------------------------------------------------- */

/* Of a small file all counts; of a large one its beginning, which has all names and shapes, and
 * parts of the rest. */
enum { HEAD = 1 << 20, PART = 1 << 16, PARTS = 32 };

static bool add_part(FILE *file, int64_t at, size_t count, char *room, XXH3_state_t *state) {
  if (fseek(file, (long)at, SEEK_SET) != 0) return false;
  const size_t read = fread(room, 1, count, file);
  XXH3_64bits_update(state, room, read);
  return !ferror(file);
}

static int add_file(const char *path, const char *name, XXH3_state_t *state) {
  struct stat info;
  FILE *file = fopen(path, "rb");
  char *room = malloc(HEAD);
  bool good = file && room && fstat(fileno(file), &info) == 0;
  const int64_t size = good ? (int64_t)info.st_size : 0;
  XXH3_64bits_update(state, name, strlen(name) + 1);
  XXH3_64bits_update(state, &size, sizeof size);
  good = good && add_part(file, 0, HEAD, room, state);
  for (int i = 1; i <= PARTS && good && size > HEAD; i++)
    good = add_part(file, (int64_t)((double)(size - PART) / PARTS * i), PART, room, state);
  const int error = room ? errno : ENOMEM;
  if (file) fclose(file);
  free(room);
  return good ? STATUS_CONTINUE : fail("cannot read %s: %s", path, strerror(error));
}

static int is_part(const struct dirent *entry) {
  return !strcmp(entry->d_name, "config.json") ||
         (!strncmp(entry->d_name, "model", 5) && ends_with(entry->d_name, ".safetensors"));
}

static int add_folder(const char *folder, XXH3_state_t *state) {
  struct dirent **entries;
  char path[MODEL_PATH_BYTES + 256];
  const int count = scandir(folder, &entries, is_part, alphasort);
  int status = count < 0 ? fail("cannot read %s: %s", folder, strerror(errno)) : STATUS_CONTINUE;
  for (int i = 0; i < count; i++) {
    snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    if (status == STATUS_CONTINUE) status = add_file(path, entries[i]->d_name, state);
    free(entries[i]);
  }
  if (count >= 0) free(entries);
  return status;
}

int language_model_fingerprint(const char *base, char text[17]) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  const int status = is_folder(base) ? add_folder(base, &state) : add_file(base, "", &state);
  snprintf(text, 17, "%016" PRIx64, (uint64_t)XXH3_64bits_digest(&state));
  return status;
}

void language_model_compare_base(const char *adapter, const char *base) {
  char path[MODEL_PATH_BYTES + 32], text[17];
  ac_model_file *file;
  snprintf(path, sizeof path, "%s/adapter_model.safetensors", adapter);
  if (ac_model_file_open(&file, path) != AC_OK) return;
  const char *trained = ac_model_file_metadata(file, "accrue.base");
  if (trained && language_model_fingerprint(base, text) == STATUS_CONTINUE &&
      strcmp(trained, text) != 0)
    say("%s was trained on other weights than those of %s", adapter, base);
  ac_model_file_close(file);
}

const char *language_model_token(const ac_tokenizer *tokenizer, int32_t id, char *text,
                                 size_t size) {
  size_t bytes;
  const char *name = id < 0 ? NULL : ac_tokenizer_token(tokenizer, (uint32_t)id, &bytes);
  if (!name || bytes >= size) return NULL;
  memcpy(text, name, bytes);
  text[bytes] = 0;
  return text;
}
