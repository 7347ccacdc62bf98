/* The metadata of a GGUF file with their types, arrays included (the format: gguf.c). The elements
 * of a value are one allocation; the texts of an array are one after the other, after the pointers
 * to them. */
#include <accrue/gguf.h>

#include "io/gguf_reader.h"

#include "core/platform/files.h"
#include "core/quote.h"

struct ac_gguf_metadata {
  ac_gguf_value *values;
  int count;
  json_t *places; /* {KEY: index in values, or -1 if it was left out} */
};

static ac_status refuse_memory(const reader *r) {
  return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its metadata", r->file->path);
}

static bool is_big_endian(void) {
  static const uint16_t one = 1;
  return !*(const unsigned char *)&one;
}

/* Elements of `bytes` bytes each, from the file's order of bytes to the machine's. */
static void swap(void *data, uint64_t count, int bytes) {
  unsigned char *at = data;
  if (!is_big_endian()) return;
  for (uint64_t i = 0; i < count; i++, at += bytes)
    for (int k = 0; k < bytes / 2; k++) {
      const unsigned char low = at[k];
      at[k] = at[bytes - 1 - k];
      at[bytes - 1 - k] = low;
    }
}

/* A bool may be any byte in the file. */
static ac_status take_elements(reader *r, ac_gguf_value *value, uint64_t count) {
  const int bytes = value_bytes[value->type];
  if (count > (uint64_t)r->left / (uint64_t)bytes) return truncated(r);
  unsigned char *data = malloc((size_t)count * (size_t)bytes + 1);
  if (!data) return refuse_memory(r);
  value->data = data;
  AC_TRY(take(r, data, count * (uint64_t)bytes));
  swap(data, count, bytes);
  for (uint64_t i = 0; value->type == AC_GGUF_BOOL && i < count; i++) data[i] = data[i] != 0;
  return AC_OK;
}

/* How many bytes `count` texts take with a 0 after each; the reader is then where it was. */
static ac_status measure_texts(reader *r, uint64_t count, uint64_t *total) {
  const reader begin = *r;
  const int64_t at = ac_tell(r->file->stream);
  *total = 0;
  for (uint64_t i = 0, bytes; i < count; i++) {
    AC_TRY(take_number(r, 8, &bytes));
    if (bytes > (uint64_t)r->left) return truncated(r);
    if (ac_seek(r->file->stream, (int64_t)bytes, SEEK_CUR) != 0)
      return ac_fail(AC_ERROR_IO, "cannot read %s: %s", r->file->path, strerror(errno));
    r->left -= (int64_t)bytes;
    *total += bytes + 1;
  }
  *r = begin;
  if (at < 0 || ac_seek(r->file->stream, at, SEEK_SET) != 0)
    return ac_fail(AC_ERROR_IO, "cannot read %s: %s", r->file->path, strerror(errno));
  return AC_OK;
}

/* *whole: no text has a 0 in it. */
static ac_status take_texts(reader *r, ac_gguf_value *value, uint64_t count, bool *whole) {
  uint64_t total = 0, bytes;
  if (count > (uint64_t)r->left / 8) return truncated(r);
  AC_TRY(measure_texts(r, count, &total));
  const char **texts = malloc((size_t)count * sizeof *texts + (size_t)total + 1);
  if (!texts) return refuse_memory(r);
  value->data = texts;
  char *to = (char *)(texts + count);
  for (uint64_t i = 0; i < count; i++) {
    AC_TRY(take_number(r, 8, &bytes));
    if (bytes + 1 > total) /* the file has changed since it was measured */
      return truncated(r);
    AC_TRY(take(r, to, bytes));
    if (memchr(to, 0, (size_t)bytes)) *whole = false;
    to[bytes] = 0;
    texts[i] = to;
    to += bytes + 1;
    total -= bytes + 1;
  }
  return AC_OK;
}

static ac_status take_value(reader *r, ac_gguf_value *value, bool *whole) {
  uint64_t type, count = 1;
  AC_TRY(take_number(r, 4, &type));
  value->array = type == ARRAY;
  if (value->array) {
    AC_TRY(take_number(r, 4, &type));
    AC_TRY(take_number(r, 8, &count));
  }
  if (type >= TYPES || type == ARRAY)
    return ac_fail(AC_ERROR_FORMAT, "%s: metadata %s is %s of an unknown type, %" PRIu64,
                   r->file->path, ac_quote(value->key).text, value->array ? "an array" : "a value",
                   type);
  value->type = (ac_gguf_type)type;
  if (type == TEXT) AC_TRY(take_texts(r, value, count, whole));
  else AC_TRY(take_elements(r, value, count));
  value->count = (int64_t)count;
  return AC_OK;
}

static void free_value(ac_gguf_value *value) {
  free((void *)value->key);
  free((void *)value->data);
}

static ac_status take_pair(reader *r, ac_gguf_metadata *metadata) {
  ac_gguf_value value = {0};
  char *key;
  size_t length = 0;
  bool whole = true;
  AC_TRY(take_name(r, &key, &length));
  value.key = key;
  ac_status status = take_value(r, &value, &whole);
  if (strlen(key) != length) whole = false;
  if (status == AC_OK && json_object_get(metadata->places, key))
    status =
        ac_fail(AC_ERROR_FORMAT, "%s: it has metadata %s twice", r->file->path, ac_quote(key).text);
  if (status == AC_OK &&
      json_object_set_new_nocheck(metadata->places, key,
                                  json_integer(whole ? metadata->count : -1)) != 0)
    status = refuse_memory(r);
  if (status == AC_OK && whole) metadata->values[metadata->count++] = value;
  else free_value(&value);
  return status;
}

static ac_status take_all(reader *r, ac_gguf_metadata *metadata) {
  unsigned char magic[4];
  uint64_t version, tensors, pairs;
  if (r->left < 4)
    return ac_fail(AC_ERROR_FORMAT, "%s is not a GGUF file: it has only %" PRId64 " bytes",
                   r->file->path, r->left);
  AC_TRY(take(r, magic, sizeof magic));
  if (memcmp(magic, "GGUF", 4) != 0)
    return ac_fail(AC_ERROR_FORMAT, "%s is not a GGUF file", r->file->path);
  AC_TRY(take_number(r, 4, &version));
  if (version != 2 && version != 3)
    return ac_fail(AC_ERROR_UNSUPPORTED, "%s is a GGUF file of version %" PRIu64 ", not 2 or 3",
                   r->file->path, version);
  AC_TRY(take_number(r, 8, &tensors));
  AC_TRY(take_number(r, 8, &pairs));
  AC_TRY(check_pairs(r, pairs));
  metadata->values = calloc((size_t)pairs + 1, sizeof *metadata->values);
  metadata->places = json_object();
  if (!metadata->values || !metadata->places) return refuse_memory(r);
  for (uint64_t i = 0; i < pairs; i++) AC_TRY(take_pair(r, metadata));
  return AC_OK;
}

ac_status ac_gguf_metadata_open(ac_gguf_metadata **metadata, const char *path) {
  AC_CREATES(metadata);
  AC_REQUIRE(path);
  ac_model_file file = {.path = (char *)path};
  AC_TRY(ac_file_open(&file.stream, path, false));
  ac_gguf_metadata *made = calloc(1, sizeof *made);
  reader r = {&file, (int64_t)ac_file_bytes(file.stream)};
  ac_status status = made ? take_all(&r, made) : refuse_memory(&r);
  fclose(file.stream);
  if (status == AC_OK) *metadata = made;
  else ac_gguf_metadata_close(made);
  return status;
}

void ac_gguf_metadata_close(ac_gguf_metadata *metadata) {
  if (!metadata) return;
  for (int i = 0; i < metadata->count; i++) free_value(&metadata->values[i]);
  json_decref(metadata->places);
  free(metadata->values);
  free(metadata);
}

int ac_gguf_metadata_count(const ac_gguf_metadata *metadata) {
  return metadata ? metadata->count : 0;
}

const ac_gguf_value *ac_gguf_metadata_at(const ac_gguf_metadata *metadata, int index) {
  return index >= 0 && index < ac_gguf_metadata_count(metadata) ? &metadata->values[index] : NULL;
}

const ac_gguf_value *ac_gguf_metadata_find(const ac_gguf_metadata *metadata, const char *key) {
  const json_t *place = metadata && key ? json_object_get(metadata->places, key) : NULL;
  return place ? ac_gguf_metadata_at(metadata, (int)json_integer_value(place)) : NULL;
}
