/* The binary version of CIFAR-10 and CIFAR-100 (Krizhevsky, "Learning multiple layers of features
 * from tiny images", 2009): records without a header, each one or two bytes of labels and then 32 x
 * 32 pixels of red, of green and of blue, row by row. Records stay in memory as they are. */
#include "core/error.h"
#include "core/format.h"
#include "core/platform/files.h"
#include "data/byte_file.h"
#include "data/image_set.h"

#include <stdlib.h>

enum { CHANNELS = 3, SIDE = 32, PIXELS = CHANNELS * SIDE * SIDE, TRAIN_FILES = 5 };

typedef struct layout {
  const char *name;
  int label_bytes;
  int label; /* which of them counts */
  int classes;
  const char *train[TRAIN_FILES]; /* usual names, read one after another; NULL: no more */
  const char *test;
} layout;

static const layout cifar10 = {.name = "CIFAR-10",
                               .label_bytes = 1,
                               .classes = 10,
                               .train = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                         "data_batch_4.bin", "data_batch_5.bin"},
                               .test = "test_batch.bin"};

static const layout cifar100[] = {[false] = {.name = "CIFAR-100",
                                             .label_bytes = 2,
                                             .label = 1,
                                             .classes = 100,
                                             .train = {"train.bin"},
                                             .test = "test.bin"},
                                  [true] = {.name = "CIFAR-100",
                                            .label_bytes = 2,
                                            .label = 0,
                                            .classes = 20,
                                            .train = {"train.bin"},
                                            .test = "test.bin"}};

/* ---- files ----------------------------------------------------------------------------------- */

static bool holds_records(const layout *form, const ac_bytes *bytes, size_t first) {
  const size_t record = (size_t)form->label_bytes + PIXELS;
  if ((bytes->count - first) % record) return false;
  for (size_t i = first; i < bytes->count; i += record)
    if (bytes->data[i + (size_t)form->label] >= (unsigned)form->classes) return false;
  return true;
}

/* Says by name what another format's file is. Records are asked about first: their pixels can begin
 * as anything does. */
static ac_status check_records(const layout *form, const char *path, const ac_bytes *bytes,
                               size_t first) {
  size_t record = (size_t)form->label_bytes + PIXELS, length = bytes->count - first;
  if (!length) return ac_fail(AC_ERROR_FORMAT, "%s is empty", path);
  const char *name;
  const ac_format format = ac_format_of(bytes->data + first, length, length, &name);
  const bool other = name && format != AC_FORMAT_CIFAR10 && format != AC_FORMAT_CIFAR100;
  if (other && !holds_records(form, bytes, first))
    return ac_fail(AC_ERROR_FORMAT, "%s is %s, not a file of %s's records", path, name, form->name);
  if (length % record)
    return ac_fail(AC_ERROR_FORMAT,
                   "%s: %zu bytes are not a whole number of %s's records of %zu bytes", path,
                   length, form->name, record);
  for (size_t i = 0; i < length / record; i++) {
    unsigned label = bytes->data[first + i * record + (size_t)form->label];
    if (label >= (unsigned)form->classes)
      return ac_fail(AC_ERROR_FORMAT, "%s: label %u of image %zu is not in [0, %d)", path, label, i,
                     form->classes);
  }
  return AC_OK;
}

static ac_status append_file(const char *path, ac_bytes *bytes) {
  ac_byte_file *file;
  AC_TRY(ac_byte_file_open(&file, path, AC_UNZIP));
  const ac_status status = ac_byte_file_append(file, bytes, PTRDIFF_MAX);
  ac_byte_file_close(file);
  return status;
}

static ac_status append_records(const layout *form, const char *path, ac_bytes *bytes) {
  const size_t first = bytes->count;
  AC_TRY(append_file(path, bytes));
  return check_records(form, path, bytes, first);
}

/* Appends those of `names` that the folder has. These must be the first ones: none may be missing
 * between them. */
static ac_status append_folder(const layout *form, const char *folder, const char *const *names,
                               int count, ac_bytes *bytes) {
  const char *missing = NULL;
  for (int i = 0; i < count && names[i]; i++) {
    ac_file_path path;
    bool found = false;
    AC_TRY(ac_find_file(path, folder, names[i], &found));
    if (!found && !missing) missing = names[i];
    if (!found) continue;
    if (missing) return ac_fail(AC_ERROR_IO, "%s lacks %s, but has %s", folder, missing, names[i]);
    AC_TRY(append_records(form, path, bytes));
  }
  return AC_OK;
}

/* Takes over the bytes, also if it fails. Leaves *set NULL if there are none. */
static ac_status make_set(ac_image_set **set, const layout *form, const char *path,
                          ac_bytes *bytes) {
  if (!bytes->count) return AC_OK;
  ac_bytes_shrink(bytes);
  ac_status status = ac_image_set_create(set, path);
  if (status != AC_OK) {
    free(bytes->data);
    return status;
  }
  size_t record = (size_t)form->label_bytes + PIXELS;
  ac_image_set *made = *set;
  made->memory[0] = bytes->data;
  made->count = (int64_t)(bytes->count / record);
  made->classes = form->classes;
  made->shape[0] = CHANNELS, made->shape[1] = made->shape[2] = SIDE;
  made->pixels = bytes->data + form->label_bytes;
  made->labels = bytes->data + form->label;
  made->pixel_stride = made->label_stride = record;
  return AC_OK;
}

static ac_status load_folder(ac_image_set **set, const layout *form, const char *folder,
                             const char *const *names, int count) {
  ac_bytes bytes = {0};
  ac_status status = append_folder(form, folder, names, count, &bytes);
  if (status == AC_OK) return make_set(set, form, folder, &bytes);
  free(bytes.data);
  return status;
}

/* Loads a file in the first of these forms that fits. `path` is read once, because it may be a
 * pipe. */
static ac_status load_file(ac_image_set **set, const layout *const *forms, int count,
                           const char *path) {
  ac_bytes bytes = {0};
  int form = 0;
  ac_status status = append_file(path, &bytes);
  while (status == AC_OK && form + 1 < count && !holds_records(forms[form], &bytes, 0)) form++;
  if (status == AC_OK && form && !holds_records(forms[form], &bytes, 0)) form = 0;
  if (status == AC_OK) status = check_records(forms[form], path, &bytes, 0);
  if (status == AC_OK) return make_set(set, forms[form], path, &bytes);
  free(bytes.data);
  return status;
}

/* ---- datasets -------------------------------------------------------------------------------- */

static ac_status from_path(ac_dataset **dataset, const layout *form, const char *path,
                           int64_t begin, int64_t end) {
  ac_image_set *set = NULL;
  if (ac_is_folder(path)) AC_TRY(load_folder(&set, form, path, form->train, TRAIN_FILES));
  else AC_TRY(load_file(&set, &form, 1, path));
  if (!set)
    return ac_fail(AC_ERROR_IO, "%s does not hold %s's training file %s (plain or .gz)", path,
                   form->name, form->train[0]);
  ac_status status = ac_image_set_cut(dataset, set, path, begin, end);
  ac_image_set_release(set);
  return status;
}

static ac_status from_folder(ac_dataset **train, ac_dataset **validation, const layout *form,
                             const char *folder) {
  ac_image_set *training = NULL, *validating = NULL;
  ac_status status = load_folder(&training, form, folder, form->train, TRAIN_FILES);
  if (status == AC_OK) status = load_folder(&validating, form, folder, &form->test, 1);
  if (status == AC_OK && !training && !validating)
    status = ac_fail(AC_ERROR_IO, "%s holds neither %s nor %s of %s (plain or .gz)", folder,
                     form->train[0], form->test, form->name);
  if (status == AC_OK) status = ac_image_set_split(train, validation, folder, training, validating);
  ac_image_set_release(training);
  ac_image_set_release(validating);
  return status;
}

ac_status ac_dataset_from_cifar10(ac_dataset **dataset, const char *path, int64_t begin,
                                  int64_t end) {
  AC_CREATES(dataset);
  AC_REQUIRE(path);
  return from_path(dataset, &cifar10, path, begin, end);
}

ac_status ac_dataset_from_cifar(ac_dataset **dataset, const char *path, int64_t begin,
                                int64_t end) {
  static const layout *const forms[] = {&cifar10, &cifar100[false]};
  AC_CREATES(dataset);
  AC_REQUIRE(path);
  ac_image_set *set = NULL;
  AC_TRY(load_file(&set, forms, 2, path));
  ac_status status = ac_image_set_cut(dataset, set, path, begin, end);
  ac_image_set_release(set);
  return status;
}

ac_status ac_dataset_from_cifar100(ac_dataset **dataset, const char *path, bool coarse,
                                   int64_t begin, int64_t end) {
  AC_CREATES(dataset);
  AC_REQUIRE(path);
  return from_path(dataset, &cifar100[coarse], path, begin, end);
}

ac_status ac_dataset_cifar10_folder(ac_dataset **train, ac_dataset **validation,
                                    const char *folder) {
  AC_CREATES(train);
  if (validation) *validation = NULL;
  AC_REQUIRE(folder);
  return from_folder(train, validation, &cifar10, folder);
}

ac_status ac_dataset_cifar100_folder(ac_dataset **train, ac_dataset **validation,
                                     const char *folder, bool coarse) {
  AC_CREATES(train);
  if (validation) *validation = NULL;
  AC_REQUIRE(folder);
  return from_folder(train, validation, &cifar100[coarse], folder);
}
