/* Lists of pictures in a CSV file: a path a line, and after it the classes. */
#include "core/error.h"
#include "data/picture_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A field of a line; `text` is its own memory. */
typedef struct csv {
  const char *at, *end;
  const char *path; /* of the file */
  int64_t line;     /* from 1 */
  int64_t ended;    /* ends of lines within its quotes */
  char *text;       /* as large as the file */
  size_t length;
} csv;

static ac_status csv_fails(const csv *c, const char *sentence) {
  return ac_fail(AC_ERROR_FORMAT, "%s, line %lld: %s", c->path, (long long)c->line, sentence);
}

/* The next field of a line, without quotes and blanks around it. *last: none follows on it. */
static ac_status next_field(csv *c, bool *last) {
  c->length = 0;
  while (c->at < c->end && *c->at == ' ') c->at++;
  if (c->at < c->end && *c->at == '"') {
    for (c->at++; c->at < c->end && (*c->at != '"' || (c->at + 1 < c->end && c->at[1] == '"'));) {
      if (*c->at == '"') c->at++; /* of two, one is meant */
      c->ended += *c->at == '\n';
      c->text[c->length++] = *c->at++;
    }
    if (c->at == c->end) return csv_fails(c, "a quote is not closed");
    c->at++;
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\r')) c->at++;
    if (c->at < c->end && *c->at != ',' && *c->at != '\n')
      return csv_fails(c, "something follows a closing quote");
  } else {
    while (c->at < c->end && *c->at != ',' && *c->at != '\n') c->text[c->length++] = *c->at++;
    while (c->length && strchr(" \r", c->text[c->length - 1])) c->length--;
  }
  c->text[c->length] = '\0';
  if (strlen(c->text) != c->length) return csv_fails(c, "it has a zero byte");
  *last = c->at == c->end || *c->at == '\n';
  if (c->at < c->end) c->at++;
  return AC_OK;
}

/* The entry of a path in the file, which may be relative to its folder. */
static ac_status add_path(ac_picture_opening *o, const csv *c) {
  const char *slash = strrchr(o->path, '/');
  const size_t folder = *c->text != '/' && slash ? (size_t)(slash + 1 - o->path) : 0;
  char *path = malloc(folder + c->length + 1);
  if (path) {
    memcpy(path, o->path, folder);
    memcpy(path + folder, c->text, c->length + 1);
  }
  AC_TRY(ac_picture_add_entry(o, path, -1));
  o->store->entries[o->store->count - 1].first = o->store->label_count;
  return AC_OK;
}

/* Names of classes come in the order of the file and are sorted later; until then a label is the
 * place in that order. */
static ac_status add_label(ac_picture_opening *o, const csv *c) {
  ac_picture_store *s = o->store;
  ac_picture_entry *entry = &s->entries[s->count - 1];
  void *labels = s->labels;
  const ac_status status =
      ac_picture_make_room(&labels, s->label_count, &o->label_room, sizeof *s->labels);
  s->labels = labels;
  AC_TRY(status);
  s->labels[s->label_count++] = (int32_t)s->classes;
  entry->labels++;
  return ac_picture_add_class(o, c->text, c->length);
}

static ac_status read_line(ac_picture_opening *o, csv *c) {
  bool last;
  const bool first = c->line == 1;
  AC_TRY(next_field(c, &last));
  if (last && !c->length) return AC_OK; /* an empty line */
  const bool heading = first && !ac_picture_is_named(c->text);
  if (!heading) AC_TRY(add_path(o, c));
  int64_t labels = 0;
  for (; !last; labels++) {
    AC_TRY(next_field(c, &last));
    if (heading || (!c->length && o->desc.several_labels)) continue;
    if (!c->length) return csv_fails(c, "the class has no name");
    if (!o->desc.unlabelled) AC_TRY(add_label(o, c));
  }
  if (labels == 1 || heading || o->desc.several_labels || o->desc.unlabelled) return AC_OK;
  return csv_fails(c, labels ? "a picture has one class here, not several"
                             : "there is no class after the path");
}

/* A whole number below 2^31 - 1; -1: it is none. */
static int64_t number_of(const char *text) {
  int64_t value = 0;
  for (const char *at = text; *at; at++) {
    if (*at < '0' || *at > '9' || at - text > 9) return -1;
    value = 10 * value + (*at - '0');
  }
  return *text && value < INT32_MAX ? value : -1;
}

/* If all classes are numbers, these count, and classes in between have no pictures. */
static ac_status number_classes(ac_picture_opening *o, bool *numbers, int64_t *most) {
  ac_picture_store *s = o->store;
  enum { MOST_CLASSES = 1 << 20 };
  *most = 0;
  *numbers = s->classes > 0;
  for (int64_t c = 0; c < s->classes && *numbers; c++) {
    const int64_t value = number_of(s->names[c]);
    *numbers = value >= 0;
    if (value > *most) *most = value;
  }
  if (*numbers && *most >= MOST_CLASSES)
    return ac_fail(AC_ERROR_FORMAT, "%s: class %lld; numbers of classes are below %d", o->path,
                   (long long)*most, (int)MOST_CLASSES);
  return AC_OK;
}

static ac_status replace_by_numbers(ac_picture_opening *o, int64_t most) {
  ac_picture_store *s = o->store;
  for (int64_t l = 0; l < s->label_count; l++)
    s->labels[l] = (int32_t)number_of(s->names[s->labels[l]]);
  for (int64_t c = 0; c < s->classes; c++) free(s->names[c]);
  s->classes = 0;
  for (int64_t c = 0; c <= most; c++) {
    char name[24];
    snprintf(name, sizeof name, "%lld", (long long)c);
    AC_TRY(ac_picture_add_class(o, name, strlen(name)));
  }
  return AC_OK;
}

/* Sorts the names, and makes labels of places in the file. */
static ac_status name_classes(ac_picture_opening *o) {
  ac_picture_store *s = o->store;
  char **met = malloc((size_t)(s->classes ? s->classes : 1) * sizeof *met);
  if (!met) return ac_picture_no_memory();
  int64_t copied = 0;
  for (; copied < s->classes; copied++) {
    met[copied] = ac_picture_copy_text(s->names[copied], strlen(s->names[copied]));
    if (!met[copied]) break;
  }
  const bool whole = copied == s->classes;
  if (whole) ac_picture_sort_classes(s);
  for (int64_t l = 0; whole && l < s->label_count; l++) {
    const char *name = met[s->labels[l]];
    s->labels[l] = ac_picture_find_class(s, name, strlen(name));
  }
  for (int64_t i = 0; i < copied; i++) free(met[i]);
  free(met);
  return whole ? AC_OK : ac_picture_no_memory();
}

static ac_status finish_labels(ac_picture_opening *o) {
  ac_picture_store *s = o->store;
  bool numbers;
  int64_t most;
  AC_TRY(number_classes(o, &numbers, &most));
  o->numbered = numbers;
  AC_TRY(numbers ? replace_by_numbers(o, most) : name_classes(o));
  for (int64_t i = 0; i < s->count; i++)
    if (s->entries[i].labels == 1) s->entries[i].label = s->labels[s->entries[i].first];
  return AC_OK;
}

static ac_status read_csv(ac_picture_opening *o, const ac_bytes *bytes) {
  csv c = {.path = o->path, .text = malloc(bytes->count + 1)};
  if (!c.text) return ac_picture_no_memory();
  c.at = (const char *)bytes->data;
  c.end = c.at + bytes->count;
  if (bytes->count >= 3 && !memcmp(c.at, "\xef\xbb\xbf", 3)) c.at += 3; /* UTF-8's mark */
  ac_status status = AC_OK;
  for (c.line = 1; c.at < c.end && status == AC_OK; c.line += 1 + c.ended) {
    c.ended = 0;
    status = read_line(o, &c);
  }
  free(c.text);
  return status;
}

ac_status ac_picture_open_csv(ac_picture_opening *o) {
  enum { MOST_BYTES = 1 << 30 };
  ac_bytes bytes = {0};
  ac_byte_file *file;
  AC_TRY(ac_byte_file_open(&file, o->path, AC_AS_IT_IS));
  ac_status status = ac_byte_file_append(file, &bytes, MOST_BYTES);
  ac_byte_file_close(file);
  if (status == AC_OK && bytes.count == MOST_BYTES)
    status = ac_fail(AC_ERROR_FORMAT, "%s is too large for a list of pictures", o->path);
  if (status == AC_OK) status = read_csv(o, &bytes);
  free(bytes.data);
  if (status == AC_OK) status = finish_labels(o);
  o->boundary = o->store->count;
  return status;
}
