/* Models in several files. model.safetensors.index.json says which file has which tensor:
 *
 *   {"metadata": {...}, "weight_map": {NAME: FILE, ...}}
 *
 * Files lie next to the index: a name that leads elsewhere is refused. Each file is opened, and its
 * tensors become tensors of the whole. A tensor that the index has and its file lacks, or that two
 * files have, is refused. A file may have more tensors than the index lists of it: these are left
 * out. */
#include "io/opened.h"

#include "core/error.h"
#include "core/quote.h"
#include "io/safetensors.h"

#include "core/platform/files.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PATH = 4096, MOST_INDEX = 64 << 20 };

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), bytes = strlen(end);
  return length >= bytes && !strcmp(text + length - bytes, end);
}

/* "FOLDER/NAME". */
static ac_status join(char path[MOST_PATH], const char *folder, size_t length, const char *name) {
  const int bytes = snprintf(path, MOST_PATH, "%.*s%s", (int)length, folder, name);
  if (length > MOST_PATH || bytes < 0 || bytes >= MOST_PATH)
    return ac_fail(AC_ERROR_ARGUMENT, "a path has more than %d bytes", MOST_PATH - 1);
  return AC_OK;
}

static ac_status read_json(json_t **json, const char *path) {
  FILE *stream;
  json_error_t error;
  AC_TRY(ac_file_open(&stream, path, false));
  if (ac_file_bytes(stream) > MOST_INDEX) {
    fclose(stream);
    return ac_fail(AC_ERROR_FORMAT, "%s: an index of more than %d bytes", path, MOST_INDEX);
  }
  *json = json_loadf(stream, JSON_REJECT_DUPLICATES, &error);
  fclose(stream);
  if (*json) return AC_OK;
  return ac_fail(AC_ERROR_FORMAT, "%s: line %d: %s", path, error.line, ac_quote(error.text).text);
}

/* ---- shards ---------------------------------------------------------------------------------- */

static ac_status check_name(const ac_model_file *file, const char *name) {
  if (!ends_with(name, ".safetensors") || strpbrk(name, "/\\:") || name[0] == '.')
    return ac_fail(AC_ERROR_FORMAT,
                   "%s: %s is not the name of a safetensors file in the same folder", file->path,
                   ac_quote(name).text);
  return AC_OK;
}

/* `opened` has the index of each file that is open, by its name. */
static ac_status open_shard(ac_model_file *file, json_t *opened, size_t folder, const char *name) {
  char path[MOST_PATH];
  if (json_object_get(opened, name)) return AC_OK;
  AC_TRY(check_name(file, name));
  AC_TRY(join(path, file->path, folder, name));
  ac_model_file **grown =
      realloc(file->shards, ((size_t)file->shard_count + 1) * sizeof *file->shards);
  if (!grown) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its files", file->path);
  file->shards = grown;
  AC_TRY(ac_shard_open(&file->shards[file->shard_count], path));
  if (json_object_set_new(opened, name, json_integer(file->shard_count++)) != 0)
    return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its files", file->path);
  return AC_OK;
}

static ac_status add_tensor(ac_model_file *file, const json_t *opened, const char *name,
                            const char *shard_name) {
  ac_model_file *shard = file->shards[json_integer_value(json_object_get(opened, shard_name))];
  const int index = ac_model_file_find(shard, name);
  if (index < 0 && ac_model_file_dtype(shard, name))
    return AC_OK; /* of a dtype that is not listed */
  if (index < 0)
    return ac_fail(AC_ERROR_FORMAT, "%s: %s has no tensor %s", file->path,
                   ac_quote(shard_name).text, ac_quote(name).text);
  ac_tensor_entry *entry = &file->entries[file->count++];
  *entry = shard->entries[index];
  entry->shard = shard;
  entry->shard_index = index;
  return AC_OK;
}

/* Which of two files the index means could be an error of the program that wrote it. */
static ac_status check_twice(const ac_model_file *file, const json_t *opened, const json_t *map) {
  for (int i = 0; i < file->shard_count; i++)
    for (int t = 0; t < ac_model_file_tensor_count(file->shards[i]); t++) {
      const char *name = ac_model_file_tensor(file->shards[i], t)->name;
      const char *shard = json_string_value(json_object_get(map, name));
      if (shard && json_integer_value(json_object_get(opened, shard)) != i)
        return ac_fail(AC_ERROR_FORMAT, "%s: two of its files have a tensor %s", file->path,
                       ac_quote(name).text);
    }
  return AC_OK;
}

static ac_status open_map(ac_model_file *file, json_t *opened, const json_t *map) {
  const char *slash = strrchr(file->path, '/'), *name;
  const size_t folder = slash ? (size_t)(slash - file->path) + 1 : 0;
  json_t *value;
  json_object_foreach((json_t *)map, name, value) {
    if (!json_is_string(value))
      return ac_fail(AC_ERROR_FORMAT, "%s: the file of tensor %s is not a name", file->path,
                     ac_quote(name).text);
    AC_TRY(open_shard(file, opened, folder, json_string_value(value)));
    AC_TRY(add_tensor(file, opened, name, json_string_value(value)));
  }
  return check_twice(file, opened, map);
}

/* No index, whatever else was the matter with it. */
static ac_status refuse(const ac_model_file *file, const char *format, ac_status status) {
  if (status != AC_ERROR_FORMAT || !format || ends_with(file->path, ".index.json")) return status;
  return ac_fail(status, "%s is %s, not a safetensors, GGUF or PyTorch file", file->path, format);
}

ac_status ac_shards_open(ac_model_file *file, const char *format) {
  json_t *json;
  ac_status status = read_json(&json, file->path);
  if (status != AC_OK) return refuse(file, format, status);
  const json_t *map = json_object_get(json, "weight_map");
  json_t *opened = json_object();
  if (!json_is_object(map) || !json_object_size(map))
    status =
        refuse(file, format,
               ac_fail(AC_ERROR_FORMAT, "%s: it has no weight_map, so it is not an index of shards",
                       file->path));
  file->root = json_object();
  file->entries = calloc(json_object_size(map) + 1, sizeof *file->entries);
  if (status == AC_OK && (!opened || !file->root || !file->entries))
    status = ac_fail(AC_ERROR_MEMORY, "%s: no memory for its tensors", file->path);
  if (status == AC_OK) status = open_map(file, opened, map);
  json_decref(opened);
  json_decref(json);
  return status;
}

ac_status ac_model_file_in_folder(ac_model_file *file) {
  static const char *const names[] = {"model.safetensors.index.json", "model.safetensors"};
  const char *folder = file->path;
  const size_t length = strlen(folder), room = length + strlen(names[0]) + 2;
  char *path = malloc(room);
  if (!path) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for a description", folder);
  bool found = false;
  for (int i = 0; i < 2 && !found; i++) {
    snprintf(path, room, "%s%s%s", folder, length && folder[length - 1] == '/' ? "" : "/",
             names[i]);
    found = ac_is_there(path);
  }
  if (!found) {
    free(path);
    return ac_fail(AC_ERROR_IO, "%s is a folder without %s or %s", folder, names[1], names[0]);
  }
  free(file->path);
  file->path = path;
  return AC_OK;
}
