#include "data/picture_list.h"

#include "core/error.h"

#include <stdlib.h>
#include <string.h>

ac_status ac_picture_no_memory(void) {
  return ac_fail(AC_ERROR_MEMORY, "pictures: no memory for a list");
}

char *ac_picture_copy_text(const char *text, size_t length) {
  char *copy = malloc(length + 1);
  if (!copy) return NULL;
  memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}

ac_status ac_picture_make_room(void **array, int64_t count, int64_t *room, size_t size) {
  if (count < *room) return AC_OK;
  const int64_t more = *room ? 2 * *room : 64;
  void *grown = realloc(*array, (size_t)more * size);
  if (!grown) return ac_picture_no_memory();
  *array = grown;
  *room = more;
  return AC_OK;
}

ac_status ac_picture_add_entry(ac_picture_opening *o, char *path, int32_t label) {
  ac_picture_store *s = o->store;
  if (!path) return ac_picture_no_memory();
  void *entries = s->entries;
  const ac_status status = ac_picture_make_room(&entries, s->count, &s->room, sizeof *s->entries);
  s->entries = entries;
  if (status != AC_OK) {
    free(path);
    return status;
  }
  s->entries[s->count++] = (ac_picture_entry){.path = path, .label = label};
  return AC_OK;
}

ac_status ac_picture_add_class(ac_picture_opening *o, const char *name, size_t length) {
  ac_picture_store *s = o->store;
  void *names = s->names;
  const ac_status status =
      ac_picture_make_room(&names, s->classes, &o->name_room, sizeof *s->names);
  s->names = names;
  AC_TRY(status);
  if (s->classes == INT32_MAX) return ac_fail(AC_ERROR_FORMAT, "%s: too many classes", o->path);
  char *copy = ac_picture_copy_text(name, length);
  if (!copy) return ac_picture_no_memory();
  s->names[s->classes++] = copy;
  return AC_OK;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

void ac_picture_sort_classes(ac_picture_store *s) {
  if (!s->classes) return;
  qsort(s->names, (size_t)s->classes, sizeof *s->names, compare_names);
  int64_t kept = 1;
  for (int64_t c = 1; c < s->classes; c++)
    if (!strcmp(s->names[kept - 1], s->names[c])) free(s->names[c]);
    else s->names[kept++] = s->names[c];
  s->classes = kept;
}

int32_t ac_picture_find_class(const ac_picture_store *s, const char *name, size_t length) {
  int64_t low = 0, high = s->classes;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    int order = strncmp(name, s->names[middle], length);
    if (!order && s->names[middle][length]) order = -1;
    if (!order) return (int32_t)middle;
    if (order < 0) high = middle;
    else low = middle + 1;
  }
  return -1;
}
