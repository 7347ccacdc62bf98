/* Datasets made of a callback and of the caller's memory. Reading a sample allocates nothing. */
#include "data/dataset.h"

#include "core/error.h"
#include "core/platform/process.h"

#include <stdlib.h>
#include <string.h>

/* ---- any dataset ----------------------------------------------------------------------------- */

static ac_status check_fields(int field_count, const ac_field *fields) {
  if (field_count < 1 || field_count > AC_MAX_FIELDS)
    return ac_fail(AC_ERROR_ARGUMENT, "dataset: %d fields; there must be 1 to %d", field_count,
                   AC_MAX_FIELDS);
  for (int f = 0; f < field_count; f++) {
    if (!fields[f].name || !*fields[f].name)
      return ac_fail(AC_ERROR_ARGUMENT, "dataset: field %d has no name", f);
    size_t bytes = ac_dtype_bytes(fields[f].dtype);
    if (!bytes)
      return ac_fail(AC_ERROR_ARGUMENT, "dataset: field %s has unknown dtype %d", fields[f].name,
                     (int)fields[f].dtype);
    if (fields[f].elements < 1 || (uint64_t)fields[f].elements > PTRDIFF_MAX / bytes)
      return ac_fail(AC_ERROR_ARGUMENT,
                     "dataset: field %s has %lld elements per sample; it must have at least 1 and "
                     "fit in memory",
                     fields[f].name, (long long)fields[f].elements);
    for (int g = 0; g < f; g++)
      if (!strcmp(fields[f].name, fields[g].name))
        return ac_fail(AC_ERROR_ARGUMENT, "dataset: two fields are named %s", fields[f].name);
  }
  return AC_OK;
}

static ac_status create(ac_dataset **dataset, const ac_callback_dataset_desc *desc, int64_t classes,
                        bool explains) {
  *dataset = NULL;
  if (desc->count < 1)
    return ac_fail(AC_ERROR_ARGUMENT, "dataset: %lld samples; there must be at least one",
                   (long long)desc->count);
  if (!desc->read) return ac_fail(AC_ERROR_ARGUMENT, "dataset: no function to read samples");
  AC_TRY(check_fields(desc->field_count, desc->fields));

  size_t text = 0;
  for (int f = 0; f < desc->field_count; f++) text += strlen(desc->fields[f].name) + 1;
  ac_dataset *made = calloc(1, sizeof *made + text);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "dataset: no memory for its description");
  made->count = desc->count;
  made->classes = classes;
  made->field_count = desc->field_count;
  made->read = desc->read;
  made->close = desc->close;
  made->user = desc->user;
  made->explains = explains;
  char *name = made->names;
  for (int f = 0; f < desc->field_count; f++) {
    size_t length = strlen(desc->fields[f].name) + 1;
    made->fields[f] = desc->fields[f];
    made->fields[f].name = memcpy(name, desc->fields[f].name, length);
    name += length;
  }
  *dataset = made;
  return AC_OK;
}

ac_status ac_dataset_create(ac_dataset **dataset, const ac_callback_dataset_desc *desc,
                            int64_t classes) {
  return create(dataset, desc, classes, true);
}

ac_status ac_dataset_create_over(ac_dataset **dataset, const ac_dataset *whole, int64_t count,
                                 ac_read_sample read, void (*close)(void *user), void *user) {
  ac_callback_dataset_desc desc = {.count = count,
                                   .field_count = whole->field_count,
                                   .read = read,
                                   .close = close,
                                   .user = user};
  memcpy(desc.fields, whole->fields, sizeof desc.fields);
  AC_TRY(ac_dataset_create(dataset, &desc, whole->classes));
  memcpy((*dataset)->image_shape, whole->image_shape, sizeof whole->image_shape);
  return AC_OK;
}

ac_status ac_dataset_from_callback(ac_dataset **dataset, const ac_callback_dataset_desc *desc) {
  AC_CREATES(dataset);
  const ac_callback_dataset_desc described = AC_DESCRIBED(ac_callback_dataset_desc, desc);
  ac_dataset *made;
  AC_TRY(create(&made, &described, 0, false));
  if (!described.concurrent && !(made->lock = ac_monitor_create())) {
    free(made);
    return ac_fail(AC_ERROR_MEMORY, "dataset: no memory for a lock");
  }
  *dataset = made;
  return AC_OK;
}

void ac_dataset_free(ac_dataset *dataset) {
  if (!dataset) return;
  if (dataset->close) dataset->close(dataset->user);
  ac_monitor_free(dataset->lock);
  free(dataset);
}

int64_t ac_dataset_count(const ac_dataset *dataset) {
  return dataset ? dataset->count : 0;
}

int ac_dataset_field_count(const ac_dataset *dataset) {
  return dataset ? dataset->field_count : 0;
}

const ac_field *ac_dataset_field(const ac_dataset *dataset, int index) {
  return index >= 0 && index < ac_dataset_field_count(dataset) ? &dataset->fields[index] : NULL;
}

int ac_dataset_find_field(const ac_dataset *dataset, const char *name) {
  for (int f = 0; f < dataset->field_count; f++)
    if (!strcmp(dataset->fields[f].name, name)) return f;
  return -1;
}

int64_t ac_dataset_classes(const ac_dataset *dataset) {
  return dataset ? dataset->classes : 0;
}

bool ac_dataset_image_shape(const ac_dataset *dataset, int64_t shape[3]) {
  static const int64_t unknown[3];
  if (!shape) return false;
  memcpy(shape, dataset ? dataset->image_shape : unknown, sizeof unknown);
  return shape[0] > 0;
}

/* What the calling thread is reading, the innermost first: a `read` may read other datasets, or use
 * a trainer that does. */
typedef struct reading {
  const ac_dataset *dataset;
  const void *owner;
  const struct reading *outer;
} reading;
static _Thread_local const reading *innermost;

static bool is_being_read(const ac_dataset *dataset) {
  for (const reading *r = innermost; r; r = r->outer)
    if (r->dataset == dataset) return true;
  return false;
}

bool ac_dataset_is_read_for(const void *owner) {
  if (!owner) return false;
  for (const reading *r = innermost; r; r = r->outer)
    if (r->owner == owner) return true;
  return false;
}

/* To wait for this thread itself would be for ever, and so would be to wait for a thread that
 * stayed with the parent when the process was forked. */
static ac_status take_lock(ac_dataset *dataset, int process) {
  if (is_being_read(dataset))
    return ac_fail(AC_ERROR_STATE,
                   "dataset: its function to read samples reads the dataset itself; say that it is "
                   "`concurrent`, if it can be called again before it has returned");
  const int other = __atomic_load_n(&dataset->process, __ATOMIC_RELAXED);
  if (other && other != process)
    return ac_fail(AC_ERROR_STATE,
                   "dataset: this process was forked while a thread of its parent was reading a "
                   "sample; make another dataset here");
  ac_monitor_lock(dataset->lock);
  __atomic_store_n(&dataset->process, process, __ATOMIC_RELAXED);
  return AC_OK;
}

static void give_lock(ac_dataset *dataset) {
  __atomic_store_n(&dataset->process, 0, __ATOMIC_RELAXED);
  ac_monitor_unlock(dataset->lock);
}

static ac_status call_read(const void *owner, ac_dataset *dataset, const ac_sample_key *key,
                           void *const *fields) {
  const reading own = {.dataset = dataset, .owner = owner, .outer = innermost};
  if (dataset->lock) AC_TRY(take_lock(dataset, ac_process()));
  innermost = &own;
  const ac_status status = dataset->read(dataset->user, key, fields);
  innermost = own.outer;
  if (dataset->lock) give_lock(dataset);
  if (status == AC_OK || dataset->explains) return status;
  if (!ac_is_status(status))
    return ac_fail(AC_ERROR_IO, "dataset: reading sample %lld returned %d, which is not a status",
                   (long long)key->index, (int)status);
  return ac_fail(status, "dataset: reading sample %lld failed: %s", (long long)key->index,
                 ac_status_text(status));
}

ac_status ac_dataset_read_for(const void *owner, ac_dataset *dataset, const ac_sample_key *key,
                              void *const *fields) {
  for (int f = 0; f < dataset->field_count; f++)
    if (!fields[f]) return ac_fail(AC_ERROR_ARGUMENT, "ac_dataset_read: fields[%d] is NULL", f);
  if (key->index < 0 || key->index >= dataset->count)
    return ac_fail(AC_ERROR_ARGUMENT, "dataset: there is no sample %lld among %lld",
                   (long long)key->index, (long long)dataset->count);
  return call_read(owner, dataset, key, fields);
}

ac_status ac_dataset_read(ac_dataset *dataset, const ac_sample_key *key, void *const *fields) {
  AC_REQUIRE(dataset, key, fields);
  return ac_dataset_read_for(NULL, dataset, key, fields);
}

static ac_status find_bad_label(ac_dataset *dataset, int field, int64_t classes,
                                void *const *data) {
  const int32_t *labels = data[field];
  for (int64_t i = 0; i < dataset->count; i++) {
    AC_TRY(ac_dataset_read(dataset, &(ac_sample_key){.index = i}, data));
    for (int64_t e = 0; e < dataset->fields[field].elements; e++)
      if (labels[e] < 0 || labels[e] >= classes)
        return ac_fail(AC_ERROR_FORMAT, "dataset: label %d of sample %lld is not in [0, %lld)",
                       (int)labels[e], (long long)i, (long long)classes);
  }
  return AC_OK;
}

ac_status ac_dataset_check_labels(ac_dataset *dataset, int64_t classes) {
  AC_REQUIRE(dataset);
  int field = ac_dataset_find_field(dataset, "labels");
  if (field < 0 || dataset->fields[field].dtype != AC_I32)
    return ac_fail(AC_ERROR_ARGUMENT, "dataset: there is no i32 field labels to check");

  void *data[AC_MAX_FIELDS] = {0};
  ac_status status = AC_OK;
  for (int f = 0; f < dataset->field_count && status == AC_OK; f++) {
    data[f] =
        malloc((size_t)dataset->fields[f].elements * ac_dtype_bytes(dataset->fields[f].dtype));
    if (!data[f]) status = ac_fail(AC_ERROR_MEMORY, "dataset: no memory for one sample");
  }
  if (status == AC_OK) status = find_bad_label(dataset, field, classes, data);
  for (int f = 0; f < dataset->field_count; f++) free(data[f]);
  return status;
}

/* ---- the caller's memory --------------------------------------------------------------------- */

typedef struct memory_fields {
  int count;
  size_t bytes[AC_MAX_FIELDS]; /* per sample */
  const unsigned char *data[AC_MAX_FIELDS];
} memory_fields;

static ac_status read_memory(void *user, const ac_sample_key *key, void *const *fields) {
  const memory_fields *memory = user;
  for (int f = 0; f < memory->count; f++)
    memcpy(fields[f], memory->data[f] + (size_t)key->index * memory->bytes[f], memory->bytes[f]);
  return AC_OK;
}

ac_status ac_dataset_from_memory(ac_dataset **dataset, int64_t count, int field_count,
                                 const ac_field *fields, const void *const *data) {
  AC_CREATES(dataset);
  AC_REQUIRE(fields, data);
  AC_TRY(check_fields(field_count, fields));
  ac_callback_dataset_desc desc = {
      .count = count, .field_count = field_count, .read = read_memory, .close = free};
  memory_fields memory = {.count = field_count};
  for (int f = 0; f < field_count; f++) {
    desc.fields[f] = fields[f];
    memory.bytes[f] = (size_t)fields[f].elements * ac_dtype_bytes(fields[f].dtype);
    memory.data[f] = data[f];
    if (!data[f])
      return ac_fail(AC_ERROR_ARGUMENT, "dataset: field %s has no data", fields[f].name);
    if (count > 0 && (uint64_t)count > PTRDIFF_MAX / memory.bytes[f])
      return ac_fail(AC_ERROR_ARGUMENT, "dataset: %lld samples of %zu bytes in field %s overflow",
                     (long long)count, memory.bytes[f], fields[f].name);
  }
  desc.user = malloc(sizeof memory);
  if (!desc.user) return ac_fail(AC_ERROR_MEMORY, "dataset: no memory for its description");
  memcpy(desc.user, &memory, sizeof memory);
  ac_status status = ac_dataset_create(dataset, &desc, 0);
  if (status != AC_OK) free(desc.user);
  return status;
}
