/* Finds the pictures below a folder, or those that a CSV file names, and their classes. */
#include "core/error.h"
#include "core/platform/files.h"
#include "core/platform/folders.h"
#include "data/picture_list.h"

#include <accrue/masks.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum part { TRAIN, VALIDATE, PARTS } part;

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

/* ---- order ----------------------------------------------------------------------------------- */

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
  char *copy = w->failed ? NULL : ac_picture_copy_text(path, strlen(path));
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
static ac_status find_classes(ac_picture_opening *o, const walk *w, const char *folder) {
  for (size_t i = 0; i < w->folders.count; i++) {
    const char *name = below(w->folders.path[i], folder);
    if (name && !strchr(name, '/')) AC_TRY(ac_picture_add_class(o, name, strlen(name)));
  }
  ac_picture_sort_classes(o->store);
  if (o->store->classes) return AC_OK;
  o->problem = AC_PICTURES_NONE;
  return ac_fail(AC_ERROR_FORMAT,
                 "%s has no folders; pictures have to be in a folder for each class", folder);
}

/* Takes the paths below `folder` from `paths`, with their classes, in their order. */
static ac_status take_paths(ac_picture_opening *o, ac_paths *paths, const char *folder) {
  const int64_t first = o->store->count;
  for (size_t i = 0; i < paths->count; i++) {
    const char *name = paths->path[i] ? below(paths->path[i], folder) : NULL;
    if (!name) continue;
    int32_t label = -1;
    if (!o->desc.unlabelled && !o->desc.masks) {
      const char *slash = strchr(name, '/');
      if (!slash)
        return ac_fail(AC_ERROR_FORMAT, "%s is not in the folder of a class", paths->path[i]);
      label = ac_picture_find_class(o->store, name, (size_t)(slash - name));
      if (label < 0)
        return ac_fail(AC_ERROR_FORMAT, "%s: there is no class %.*s among those that train",
                       paths->path[i], (int)(slash - name), name);
    }
    char *path = paths->path[i];
    paths->path[i] = NULL;
    AC_TRY(ac_picture_add_entry(o, path, label));
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

static ac_status join(const ac_picture_opening *o, const char *name, ac_file_path path) {
  if (snprintf(path, sizeof(ac_file_path), "%s/%s", o->path, name) < (int)sizeof(ac_file_path))
    return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT, "the folder's path is longer than a path may be");
}

/* Splits what is below the folder, if it is made so, into what trains and what validates. */
static ac_status divide_folder(ac_picture_opening *o, const walk *w, ac_paths *paths) {
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

static ac_status open_folder(ac_picture_opening *o) {
  walk w = {0};
  ac_paths paths = {0};
  ac_status status = ac_paths_list(&paths, o->path, &(ac_path_choice){takes, &w, .links = true});
  if (status == AC_OK && w.failed) status = ac_picture_no_memory();
  if (status == AC_OK) status = divide_folder(o, &w, &paths);
  if (o->desc.unlabelled) o->boundary = o->store->count;
  ac_paths_free(&paths);
  ac_paths_free(&w.folders);
  return status;
}

/* ---- classes that are given ------------------------------------------------------------------ */

/* The number of a class among those that are given. */
static ac_status given_class(ac_picture_opening *o, int64_t class, int32_t *number) {
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
static ac_status number_as_given(ac_picture_opening *o, int32_t *number) {
  ac_picture_store *s = o->store;
  for (int64_t c = 0; c < s->classes; c++) AC_TRY(given_class(o, c, &number[c]));
  for (int64_t i = 0; i < s->count; i++)
    if (s->entries[i].label >= 0) s->entries[i].label = number[s->entries[i].label];
  for (int64_t l = 0; l < s->label_count; l++) s->labels[l] = number[s->labels[l]];
  for (int64_t c = 0; c < s->classes; c++) free(s->names[c]);
  s->classes = 0;
  for (int64_t c = 0; c < o->desc.class_count; c++)
    AC_TRY(ac_picture_add_class(o, o->desc.classes[c], strlen(o->desc.classes[c])));
  return AC_OK;
}

static ac_status take_given_classes(ac_picture_opening *o) {
  if (!o->desc.classes || o->desc.unlabelled || o->desc.masks) return AC_OK;
  int32_t *number = malloc((size_t)(o->store->classes + 1) * sizeof *number);
  if (!number) return ac_picture_no_memory();
  const ac_status status = number_as_given(o, number);
  free(number);
  return status;
}

/* ---- masks ----------------------------------------------------------------------------------- */

/* The mask of each picture: its path below the folder, with another ending. */
static ac_status name_masks(ac_picture_opening *o) {
  ac_picture_store *s = o->store;
  size_t folder = strlen(o->desc.masks);
  while (folder > 1 && o->desc.masks[folder - 1] == '/') folder--;
  s->masked = true;
  for (int64_t i = 0; i < s->count; i++) {
    const char *name = s->entries[i].path + strlen(o->path) + 1, *dot = strrchr(name, '.');
    const size_t stem = (size_t)(dot - name);
    char *path = malloc(folder + stem + sizeof "/.png");
    if (!path) return ac_picture_no_memory();
    memcpy(path, o->desc.masks, folder);
    path[folder] = '/';
    memcpy(path + folder + 1, name, stem);
    memcpy(path + folder + 1 + stem, ".png", sizeof ".png");
    s->entries[i].mask = path;
  }
  for (int64_t c = 0; o->desc.classes && c < o->desc.class_count; c++)
    AC_TRY(ac_picture_add_class(o, o->desc.classes[c], strlen(o->desc.classes[c])));
  return AC_OK;
}

/* As many classes as the masks have, unless they were given. */
static ac_status count_mask_classes(ac_picture_opening *o) {
  ac_picture_store *s = o->store;
  int32_t largest = -1;
  for (int64_t i = 0; i < s->count; i++)
    if (!s->entries[i].bad && s->entries[i].largest > largest) largest = s->entries[i].largest;
  for (int32_t c = 0; c <= largest && !o->desc.classes; c++) {
    char name[16];
    snprintf(name, sizeof name, "%d", (int)c);
    AC_TRY(ac_picture_add_class(o, name, strlen(name)));
  }
  bool read = false;
  for (int64_t i = 0; i < s->count; i++) read = read || !s->entries[i].bad;
  if (s->classes || !read) return AC_OK; /* no picture that can be read is another fault */
  return ac_fail(AC_ERROR_FORMAT, "%s: no pixel of a mask has a class other than %d", o->desc.masks,
                 (int)AC_MASK_IGNORED);
}

static ac_status check_masks(const ac_picture_opening *o) {
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
static ac_status make_list(ac_picture_opening *o, part which, ac_pictures **list) {
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
static ac_status check_classes(const ac_picture_opening *o, const ac_pictures *list) {
  const ac_picture_store *s = o->store;
  if (is_csv(o->path) || o->desc.classes || s->masked || !s->classes) return AC_OK;
  int64_t next = 0;
  for (int64_t i = 0; i < list->count && next < s->classes; i++)
    if (s->entries[list->index[i]].label == next) next++;
  if (next == s->classes) return AC_OK;
  return ac_fail(AC_ERROR_FORMAT, "%s: the folder of class %s has no pictures%s", o->path,
                 s->names[next], list->left_out ? " that can be read" : "");
}

static ac_status open_path(ac_picture_opening *o, ac_pictures *lists[PARTS], bool validates) {
  if (o->desc.several_labels && !is_csv(o->path))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "%s: pictures with several labels are listed in a file that ends in .csv",
                   o->path);
  AC_TRY(check_masks(o));
  o->store->several = o->desc.several_labels;
  if (is_csv(o->path)) AC_TRY(ac_picture_open_csv(o));
  else if (ac_is_folder(o->path)) AC_TRY(open_folder(o));
  else if (o->desc.unlabelled) {
    AC_TRY(ac_picture_add_entry(o, ac_picture_copy_text(o->path, strlen(o->path)), -1));
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
  ac_picture_opening o = {.desc = AC_DESCRIBED(ac_pictures_desc, desc)};
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
  if (!o.store) return ac_picture_no_memory();
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
