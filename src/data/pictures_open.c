/* Finds the pictures below a folder, or those that a CSV file names, and their classes. */
#include "core/error.h"
#include "core/platform/files.h"
#include "core/platform/folders.h"
#include "data/byte_file.h"
#include "data/pictures.h"

#include <accrue/masks.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum part { TRAIN, VALIDATE, PARTS } part;

/* While a store is made. */
typedef struct opening {
  ac_file_path path; /* without slashes at its end */
  ac_pictures_desc desc;
  ac_picture_store *store;
  int64_t boundary; /* entries from there on validate */
  int64_t name_room, label_room;
  bool numbered; /* classes are numbers of a CSV file */
  ac_pictures_problem problem;
} opening;

/* ---- names ----------------------------------------------------------------------------------- */

static bool ends_with(const char *name, const char *const *endings) {
  const char *dot = strrchr(name, '.');
  if (!dot) return false;
  for (; *endings; endings++) {
    const char *a = dot + 1, *b = *endings;
    for (; *b && (*a == *b || *a == *b - 'a' + 'A'); a++) b++;
    if (!*a && !*b) return true;
  }
  return false;
}

bool ac_picture_is_named(const char *path) {
  static const char *const endings[] = {"jpg",  "jpeg", "jpe",  "jfif", "png", "webp",
                                        "gif",  "bmp",  "tif",  "tiff", "ppm", "pgm",
                                        "heic", "heif", "avif", "jp2",  NULL};
  if (!path) return false;
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  return *name != '.' && ends_with(name, endings);
}

static bool is_csv(const char *path) {
  static const char *const endings[] = {"csv", NULL};
  return ends_with(path, endings);
}

/* ---- the store ------------------------------------------------------------------------------- */

static ac_status no_memory(void) {
  return ac_fail(AC_ERROR_MEMORY, "pictures: no memory for a list");
}

static char *copy_text(const char *text, size_t length) {
  char *copy = malloc(length + 1);
  if (!copy) return NULL;
  memcpy(copy, text, length);
  copy[length] = '\0';
  return copy;
}

/* Room for one element more of `size` bytes; doubles. */
static ac_status make_room(void **array, int64_t count, int64_t *room, size_t size) {
  if (count < *room) return AC_OK;
  const int64_t more = *room ? 2 * *room : 64;
  void *grown = realloc(*array, (size_t)more * size);
  if (!grown) return no_memory();
  *array = grown;
  *room = more;
  return AC_OK;
}

/* Takes over `path`, also if it fails. */
static ac_status add_entry(opening *o, char *path, int32_t label) {
  ac_picture_store *s = o->store;
  if (!path) return no_memory();
  void *entries = s->entries;
  const ac_status status = make_room(&entries, s->count, &s->room, sizeof *s->entries);
  s->entries = entries;
  if (status != AC_OK) {
    free(path);
    return status;
  }
  s->entries[s->count++] = (ac_picture_entry){.path = path, .label = label};
  return AC_OK;
}

static ac_status add_class(opening *o, const char *name, size_t length) {
  ac_picture_store *s = o->store;
  void *names = s->names;
  const ac_status status = make_room(&names, s->classes, &o->name_room, sizeof *s->names);
  s->names = names;
  AC_TRY(status);
  if (s->classes == INT32_MAX) return ac_fail(AC_ERROR_FORMAT, "%s: too many classes", o->path);
  char *copy = copy_text(name, length);
  if (!copy) return no_memory();
  s->names[s->classes++] = copy;
  return AC_OK;
}

static int compare_names(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Sorts them and leaves one of equal ones. */
static void sort_classes(ac_picture_store *s) {
  if (!s->classes) return;
  qsort(s->names, (size_t)s->classes, sizeof *s->names, compare_names);
  int64_t kept = 1;
  for (int64_t c = 1; c < s->classes; c++)
    if (!strcmp(s->names[kept - 1], s->names[c])) free(s->names[c]);
    else s->names[kept++] = s->names[c];
  s->classes = kept;
}

/* -1: there is none of that name. */
static int32_t find_class(const ac_picture_store *s, const char *name, size_t length) {
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

static size_t folder_bytes(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? (size_t)(slash - path) : 0;
}

/* By class, then by folder, then by name. */
static int compare_entries(const void *a, const void *b) {
  const ac_picture_entry *x = a, *y = b;
  if (x->label != y->label) return x->label < y->label ? -1 : 1;
  const size_t m = folder_bytes(x->path), n = folder_bytes(y->path);
  const int order = memcmp(x->path, y->path, m < n ? m : n);
  if (order) return order;
  return m != n ? (m < n ? -1 : 1) : strcmp(x->path + m, y->path + n);
}

/* ---- folders --------------------------------------------------------------------------------- */

/* All below a folder. Hidden folders are left out; folders are noted, as those of classes may be
 * empty. */
typedef struct walk {
  size_t prefix; /* bytes of the folder's path, with its slash */
  ac_paths folders;
  bool failed;
} walk;

static bool takes(void *user, const char *path, bool is_folder) {
  walk *w = user;
  const char *slash = strrchr(path, '/');
  if (slash && slash[1] == '.') return false;
  if (!is_folder) return ac_picture_is_named(path);
  if (!(w->folders.count & (w->folders.count - 1))) { /* as many again, at powers of two */
    const size_t room = w->folders.count ? 2 * w->folders.count : 1;
    char **grown = realloc(w->folders.path, room * sizeof *grown);
    if (!grown) w->failed = true;
    else w->folders.path = grown;
  }
  char *copy = w->failed ? NULL : copy_text(path, strlen(path));
  if (copy) w->folders.path[w->folders.count++] = copy;
  else w->failed = true;
  return true;
}

/* The part of a path below `folder`, or NULL. */
static const char *below(const char *path, const char *folder) {
  const size_t length = strlen(folder);
  return !strncmp(path, folder, length) && path[length] == '/' ? path + length + 1 : NULL;
}

/* Whether there are folders in that one. */
static bool has_folders(const walk *w, const char *folder) {
  for (size_t i = 0; i < w->folders.count; i++)
    if (below(w->folders.path[i], folder)) return true;
  return false;
}

/* The classes of one folder. */
static ac_status find_classes(opening *o, const walk *w, const char *folder) {
  for (size_t i = 0; i < w->folders.count; i++) {
    const char *name = below(w->folders.path[i], folder);
    if (name && !strchr(name, '/')) AC_TRY(add_class(o, name, strlen(name)));
  }
  sort_classes(o->store);
  if (o->store->classes) return AC_OK;
  o->problem = AC_PICTURES_NONE;
  return ac_fail(AC_ERROR_FORMAT,
                 "%s has no folders; pictures have to be in a folder for each class", folder);
}

/* Takes the paths below `folder` from `paths`, with their classes, in their order. */
static ac_status take_paths(opening *o, ac_paths *paths, const char *folder) {
  const int64_t first = o->store->count;
  for (size_t i = 0; i < paths->count; i++) {
    const char *name = paths->path[i] ? below(paths->path[i], folder) : NULL;
    if (!name) continue;
    int32_t label = -1;
    if (!o->desc.unlabelled && !o->desc.masks) {
      const char *slash = strchr(name, '/');
      if (!slash)
        return ac_fail(AC_ERROR_FORMAT, "%s is not in the folder of a class", paths->path[i]);
      label = find_class(o->store, name, (size_t)(slash - name));
      if (label < 0)
        return ac_fail(AC_ERROR_FORMAT, "%s: there is no class %.*s among those that train",
                       paths->path[i], (int)(slash - name), name);
    }
    char *path = paths->path[i];
    paths->path[i] = NULL;
    AC_TRY(add_entry(o, path, label));
  }
  if (o->store->count > first)
    qsort(o->store->entries + first, (size_t)(o->store->count - first), sizeof *o->store->entries,
          compare_entries);
  return AC_OK;
}

/* Whether any of the paths is below the folder. */
static bool holds_any(const ac_paths *paths, const char *folder) {
  for (size_t i = 0; i < paths->count; i++)
    if (paths->path[i] && below(paths->path[i], folder)) return true;
  return false;
}

static ac_status join(const opening *o, const char *name, ac_file_path path) {
  if (snprintf(path, sizeof(ac_file_path), "%s/%s", o->path, name) < (int)sizeof(ac_file_path))
    return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT, "the folder's path is longer than a path may be");
}

/* Splits what is below the folder, if it is made so, into what trains and what validates. */
static ac_status divide_folder(opening *o, const walk *w, ac_paths *paths) {
  static const char *const names[] = {"val", "valid", "validation", "test"};
  const bool masked = o->desc.masks;
  ac_file_path folder;
  if (o->desc.unlabelled) return take_paths(o, paths, o->path);
  AC_TRY(join(o, "train", folder));
  const bool divided = masked ? holds_any(paths, folder) : has_folders(w, folder);
  const char *training = divided ? folder : o->path;
  if (!masked) AC_TRY(find_classes(o, w, training));
  AC_TRY(take_paths(o, paths, training));
  o->boundary = o->store->count;
  for (size_t i = 0; divided && i < sizeof names / sizeof *names; i++) {
    AC_TRY(join(o, names[i], folder));
    if (masked ? holds_any(paths, folder) : has_folders(w, folder))
      return take_paths(o, paths, folder);
  }
  return AC_OK;
}

static ac_status open_folder(opening *o) {
  walk w = {0};
  ac_paths paths = {0};
  ac_status status = ac_paths_list(&paths, o->path, &(ac_path_choice){takes, &w, .links = true});
  if (status == AC_OK && w.failed) status = no_memory();
  if (status == AC_OK) status = divide_folder(o, &w, &paths);
  if (o->desc.unlabelled) o->boundary = o->store->count;
  ac_paths_free(&paths);
  ac_paths_free(&w.folders);
  return status;
}

/* ---- CSV ------------------------------------------------------------------------------------- */

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
static ac_status add_path(opening *o, const csv *c) {
  const char *slash = strrchr(o->path, '/');
  const size_t folder = *c->text != '/' && slash ? (size_t)(slash + 1 - o->path) : 0;
  char *path = malloc(folder + c->length + 1);
  if (path) {
    memcpy(path, o->path, folder);
    memcpy(path + folder, c->text, c->length + 1);
  }
  AC_TRY(add_entry(o, path, -1));
  o->store->entries[o->store->count - 1].first = o->store->label_count;
  return AC_OK;
}

/* Names of classes come in the order of the file and are sorted later; until then a label is the
 * place in that order. */
static ac_status add_label(opening *o, const csv *c) {
  ac_picture_store *s = o->store;
  ac_picture_entry *entry = &s->entries[s->count - 1];
  void *labels = s->labels;
  const ac_status status = make_room(&labels, s->label_count, &o->label_room, sizeof *s->labels);
  s->labels = labels;
  AC_TRY(status);
  s->labels[s->label_count++] = (int32_t)s->classes;
  entry->labels++;
  return add_class(o, c->text, c->length);
}

static ac_status read_line(opening *o, csv *c) {
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
static ac_status number_classes(opening *o, bool *numbers, int64_t *most) {
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

static ac_status replace_by_numbers(opening *o, int64_t most) {
  ac_picture_store *s = o->store;
  for (int64_t l = 0; l < s->label_count; l++)
    s->labels[l] = (int32_t)number_of(s->names[s->labels[l]]);
  for (int64_t c = 0; c < s->classes; c++) free(s->names[c]);
  s->classes = 0;
  for (int64_t c = 0; c <= most; c++) {
    char name[24];
    snprintf(name, sizeof name, "%lld", (long long)c);
    AC_TRY(add_class(o, name, strlen(name)));
  }
  return AC_OK;
}

/* Sorts the names, and makes labels of places in the file. */
static ac_status name_classes(opening *o) {
  ac_picture_store *s = o->store;
  char **met = malloc((size_t)(s->classes ? s->classes : 1) * sizeof *met);
  if (!met) return no_memory();
  int64_t copied = 0;
  for (; copied < s->classes; copied++) {
    met[copied] = copy_text(s->names[copied], strlen(s->names[copied]));
    if (!met[copied]) break;
  }
  const bool whole = copied == s->classes;
  if (whole) sort_classes(s);
  for (int64_t l = 0; whole && l < s->label_count; l++) {
    const char *name = met[s->labels[l]];
    s->labels[l] = find_class(s, name, strlen(name));
  }
  for (int64_t i = 0; i < copied; i++) free(met[i]);
  free(met);
  return whole ? AC_OK : no_memory();
}

static ac_status finish_labels(opening *o) {
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

static ac_status read_csv(opening *o, const ac_bytes *bytes) {
  csv c = {.path = o->path, .text = malloc(bytes->count + 1)};
  if (!c.text) return no_memory();
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

static ac_status open_csv(opening *o) {
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

/* ---- classes that are given ------------------------------------------------------------------ */

/* The number of a class among those that are given. */
static ac_status given_class(opening *o, int64_t class, int32_t *number) {
  const ac_pictures_desc *d = &o->desc;
  const char *name = o->store->names[class];
  int64_t found = o->numbered ? class : 0;
  while (!o->numbered && found < d->class_count && strcmp(d->classes[found], name) != 0) found++;
  *number = (int32_t)found;
  if (found < d->class_count) return AC_OK;
  o->problem = AC_PICTURES_OTHER_CLASSES;
  return ac_fail(AC_ERROR_FORMAT, "%s: class %s is none of the %lld that are expected, %s to %s",
                 o->path, name, (long long)d->class_count, d->classes[0],
                 d->classes[d->class_count - 1]);
}

/* Names and numbers of classes become those that are given. */
static ac_status number_as_given(opening *o, int32_t *number) {
  ac_picture_store *s = o->store;
  for (int64_t c = 0; c < s->classes; c++) AC_TRY(given_class(o, c, &number[c]));
  for (int64_t i = 0; i < s->count; i++)
    if (s->entries[i].label >= 0) s->entries[i].label = number[s->entries[i].label];
  for (int64_t l = 0; l < s->label_count; l++) s->labels[l] = number[s->labels[l]];
  for (int64_t c = 0; c < s->classes; c++) free(s->names[c]);
  s->classes = 0;
  for (int64_t c = 0; c < o->desc.class_count; c++)
    AC_TRY(add_class(o, o->desc.classes[c], strlen(o->desc.classes[c])));
  return AC_OK;
}

static ac_status take_given_classes(opening *o) {
  if (!o->desc.classes || o->desc.unlabelled || o->desc.masks) return AC_OK;
  int32_t *number = malloc((size_t)(o->store->classes + 1) * sizeof *number);
  if (!number) return no_memory();
  const ac_status status = number_as_given(o, number);
  free(number);
  return status;
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* The mask of each picture: its path below the folder, with another ending. */
static ac_status name_masks(opening *o) {
  ac_picture_store *s = o->store;
  size_t folder = strlen(o->desc.masks);
  while (folder > 1 && o->desc.masks[folder - 1] == '/') folder--;
  s->masked = true;
  for (int64_t i = 0; i < s->count; i++) {
    const char *name = s->entries[i].path + strlen(o->path) + 1, *dot = strrchr(name, '.');
    const size_t stem = (size_t)(dot - name);
    char *path = malloc(folder + stem + sizeof "/.png");
    if (!path) return no_memory();
    memcpy(path, o->desc.masks, folder);
    path[folder] = '/';
    memcpy(path + folder + 1, name, stem);
    memcpy(path + folder + 1 + stem, ".png", sizeof ".png");
    s->entries[i].mask = path;
  }
  for (int64_t c = 0; o->desc.classes && c < o->desc.class_count; c++)
    AC_TRY(add_class(o, o->desc.classes[c], strlen(o->desc.classes[c])));
  return AC_OK;
}

/* As many classes as the masks have, unless they were given. */
static ac_status count_mask_classes(opening *o) {
  ac_picture_store *s = o->store;
  int32_t largest = -1;
  for (int64_t i = 0; i < s->count; i++)
    if (!s->entries[i].bad && s->entries[i].largest > largest) largest = s->entries[i].largest;
  for (int32_t c = 0; c <= largest && !o->desc.classes; c++) {
    char name[16];
    snprintf(name, sizeof name, "%d", (int)c);
    AC_TRY(add_class(o, name, strlen(name)));
  }
  bool read = false;
  for (int64_t i = 0; i < s->count; i++) read = read || !s->entries[i].bad;
  if (s->classes || !read) return AC_OK; /* no picture that can be read is another fault */
  return ac_fail(AC_ERROR_FORMAT, "%s: no pixel of a mask has a class other than %d", o->desc.masks,
                 (int)AC_MASK_IGNORED);
}

static ac_status check_masks(const opening *o) {
  if (!o->desc.masks) return AC_OK;
  if (o->desc.unlabelled || o->desc.several_labels)
    return ac_fail(AC_ERROR_ARGUMENT, "pictures: with masks they are not unlabelled and have not "
                                      "several labels");
  if (o->desc.classes && o->desc.class_count > AC_MASK_IGNORED)
    return ac_fail(AC_ERROR_ARGUMENT, "pictures: masks have at most %d classes, not %lld",
                   (int)AC_MASK_IGNORED, (long long)o->desc.class_count);
  if (!ac_is_folder(o->path))
    return ac_fail(AC_ERROR_ARGUMENT, "%s is not a folder, as pictures with masks have to be in",
                   o->path);
  if (!ac_is_folder(o->desc.masks))
    return ac_fail(AC_ERROR_ARGUMENT, "%s is not a folder of masks", o->desc.masks);
  return AC_OK;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Of a part, or of none if it has no files. */
static ac_status make_list(opening *o, part which, ac_pictures **list) {
  ac_picture_store *s = o->store;
  const int64_t first = which == TRAIN ? 0 : o->boundary,
                end = which == TRAIN ? o->boundary : s->count;
  if (first == end && which == VALIDATE) return AC_OK;
  AC_TRY(ac_pictures_create(list, s, end - first));
  for (int64_t i = first; i < end; i++) {
    const ac_picture_entry *entry = &s->entries[i];
    if (!entry->bad) {
      (*list)->index[(*list)->count++] = i;
      continue;
    }
    if (o->desc.bad == AC_BAD_PICTURES_FAIL) return ac_fail(AC_ERROR_FORMAT, "%s", entry->bad);
    (*list)->left_out++;
    if (o->desc.report) o->desc.report(o->desc.user, entry->path, entry->bad);
  }
  if ((*list)->count) return AC_OK;
  if (!(*list)->left_out) o->problem = AC_PICTURES_NONE;
  return ac_fail(AC_ERROR_FORMAT,
                 (*list)->left_out ? "%s: no picture can be read" : "%s holds no pictures",
                 o->path);
}

/* A class without pictures is a mistake, unless numbers name it. */
static ac_status check_classes(const opening *o, const ac_pictures *list) {
  const ac_picture_store *s = o->store;
  if (is_csv(o->path) || o->desc.classes || s->masked || !s->classes) return AC_OK;
  int64_t next = 0;
  for (int64_t i = 0; i < list->count && next < s->classes; i++)
    if (s->entries[list->index[i]].label == next) next++;
  if (next == s->classes) return AC_OK;
  return ac_fail(AC_ERROR_FORMAT, "%s: the folder of class %s has no pictures%s", o->path,
                 s->names[next], list->left_out ? " that can be read" : "");
}

static ac_status open_path(opening *o, ac_pictures *lists[PARTS], bool validates) {
  if (o->desc.several_labels && !is_csv(o->path))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "%s: pictures with several labels are listed in a file that ends in .csv",
                   o->path);
  AC_TRY(check_masks(o));
  o->store->several = o->desc.several_labels;
  if (is_csv(o->path)) AC_TRY(open_csv(o));
  else if (ac_is_folder(o->path)) AC_TRY(open_folder(o));
  else if (o->desc.unlabelled) {
    AC_TRY(add_entry(o, copy_text(o->path, strlen(o->path)), -1));
    o->boundary = 1;
  } else {
    o->problem = AC_PICTURES_NONE;
    return ac_fail(AC_ERROR_ARGUMENT, "%s is neither a folder nor a .csv file", o->path);
  }
  if (!validates) { /* these are not looked at */
    for (int64_t i = o->boundary; i < o->store->count; i++) free(o->store->entries[i].path);
    o->store->count = o->boundary;
  }
  AC_TRY(take_given_classes(o));
  if (o->desc.masks) AC_TRY(name_masks(o));
  AC_TRY(ac_picture_store_inspect(o->store, o->desc.bad == AC_BAD_PICTURES_SKIP));
  if (o->desc.masks) AC_TRY(count_mask_classes(o));
  AC_TRY(make_list(o, TRAIN, &lists[TRAIN]));
  AC_TRY(check_classes(o, lists[TRAIN]));
  return make_list(o, VALIDATE, &lists[VALIDATE]);
}

ac_status ac_pictures_open(ac_pictures **pictures, ac_pictures **validation, const char *path,
                           const ac_pictures_desc *desc) {
  AC_CREATES(pictures);
  if (validation) *validation = NULL;
  AC_REQUIRE(path);
  opening o = {.desc = AC_DESCRIBED(ac_pictures_desc, desc)};
  if (o.desc.problem) *o.desc.problem = AC_PICTURES_OTHER_PROBLEM;
  size_t length = strlen(path);
  if (length >= sizeof o.path)
    return ac_fail(AC_ERROR_ARGUMENT, "the path is longer than a path may be");
  while (length > 1 && path[length - 1] == '/') length--;
  memcpy(o.path, path, length);
  if ((unsigned)o.desc.bad > AC_BAD_PICTURES_SKIP)
    return ac_fail(AC_ERROR_ARGUMENT, "pictures: unknown way with bad pictures, %d",
                   (int)o.desc.bad);
  if (o.desc.unlabelled && o.desc.several_labels)
    return ac_fail(AC_ERROR_ARGUMENT, "pictures: unlabelled ones have no labels, also not several");
  if (o.desc.classes && (o.desc.class_count < 1 || o.desc.class_count > INT32_MAX))
    return ac_fail(AC_ERROR_ARGUMENT, "pictures: %lld names of classes",
                   (long long)o.desc.class_count);
  o.store = calloc(1, sizeof *o.store);
  if (!o.store) return no_memory();
  atomic_init(&o.store->users, 1);
  ac_pictures *lists[PARTS] = {NULL, NULL};
  const ac_status status = open_path(&o, lists, validation != NULL);
  ac_picture_store_release(o.store);
  if (o.desc.problem) *o.desc.problem = o.problem;
  if (status == AC_OK) {
    *pictures = lists[TRAIN];
    if (validation) *validation = lists[VALIDATE];
    return AC_OK;
  }
  ac_pictures_free(lists[TRAIN]);
  ac_pictures_free(lists[VALIDATE]);
  return status;
}
