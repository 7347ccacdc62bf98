#include "export/export.h"

#include <stdlib.h>
#include <string.h>

void ac_values_free(ac_values *values) {
  for (size_t i = 0; i < values->owned_count; i++) free(values->owned[i]);
  free(values->owned);
  free(values->list);
  *values = (ac_values){.count = 0};
}

void *ac_values_room(ac_values *values, size_t size) {
  if (values->failed) return NULL;
  if (values->owned_count == values->owned_capacity) {
    const size_t capacity = values->owned_capacity ? 2 * values->owned_capacity : 64;
    void **owned = realloc(values->owned, capacity * sizeof *owned);
    if (!owned) {
      values->failed = true;
      return NULL;
    }
    values->owned = owned;
    values->owned_capacity = capacity;
  }
  void *room = malloc(size + 1);
  if (room) values->owned[values->owned_count++] = room;
  else values->failed = true;
  return room;
}

const char *ac_values_text(ac_values *values, const char *text) {
  const size_t bytes = strlen(text) + 1;
  char *copy = ac_values_room(values, bytes);
  if (copy) memcpy(copy, text, bytes);
  return copy;
}

static ac_gguf_value *place_of(ac_values *values, const char *key) {
  for (int i = 0; i < values->count; i++)
    if (!strcmp(values->list[i].key, key)) return &values->list[i];
  if (values->count == values->capacity) {
    const int capacity = values->capacity ? 2 * values->capacity : 64;
    ac_gguf_value *list = realloc(values->list, (size_t)capacity * sizeof *list);
    if (!list) {
      values->failed = true;
      return NULL;
    }
    values->list = list;
    values->capacity = capacity;
  }
  return &values->list[values->count++];
}

void ac_values_add(ac_values *values, const char *key, ac_gguf_type type, bool array, int64_t count,
                   const void *data) {
  static const unsigned char sizes[] = {1, 1, 2, 2, 4, 4, 4, sizeof(bool), sizeof(char *),
                                        0, 8, 8, 8};
  const size_t bytes = (size_t)count * sizes[type];
  const char *name = ac_values_text(values, key);
  void *copy = ac_values_room(values, bytes);
  ac_gguf_value *place = copy ? place_of(values, key) : NULL;
  if (!place) return;
  if (bytes) memcpy(copy, data, bytes);
  *place = (ac_gguf_value){name, type, array, count, copy};
}

void ac_values_add_text(ac_values *values, const char *key, const char *text) {
  const char *copy = ac_values_text(values, text);
  ac_values_add(values, key, AC_GGUF_TEXT, false, 1, &copy);
}

void ac_values_add_u32(ac_values *values, const char *key, int64_t value) {
  const uint32_t number = (uint32_t)value;
  ac_values_add(values, key, AC_GGUF_U32, false, 1, &number);
}

void ac_values_add_f32(ac_values *values, const char *key, double value) {
  const float number = (float)value;
  ac_values_add(values, key, AC_GGUF_F32, false, 1, &number);
}

void ac_values_add_bool(ac_values *values, const char *key, bool value) {
  ac_values_add(values, key, AC_GGUF_BOOL, false, 1, &value);
}
