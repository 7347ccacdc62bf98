/* Files of torch.save, in both of its forms:
 *
 *   a zip archive    NAME/data.pkl, a pickle that describes the tensors, and NAME/data/KEY, the
 *                    bytes of each storage (PyTorch 1.6 and later)
 *   a row of         a magic number, a version, {"little_endian": True, ...}, the description, and
 *   pickles          the keys of the storages; then for each key the number of its elements, in 8
 *                    bytes, and their bytes
 *
 * The pickles are read by pickle.c, which runs nothing. The tensors are those of the dict that is
 * described or, in a checkpoint of training, of the dict in it that has the weights. They are read
 * in place, like those of safetensors. Several may share a storage. */
#include "io/pytorch.h"

#include "core/error.h"
#include "core/quote.h"
#include "core/platform/files.h"
#include "io/pickle.h"
#include "io/safetensors.h"
#include "io/zip.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char old_magic[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e";
enum { OLD_MAGIC_BYTES = sizeof old_magic - 1, OLD_VERSION = 1001, MOST_DEPTH = 4 };

bool ac_is_pytorch(const unsigned char *start, size_t count) {
  return (count >= 4 && !memcmp(start, "PK\3\4", 4)) ||
         (count >= OLD_MAGIC_BYTES && !memcmp(start, old_magic, OLD_MAGIC_BYTES));
}

static ac_status refuse(const ac_model_file *file, const char *what) {
  return ac_fail(AC_ERROR_FORMAT, "%s: not a file of torch.save, or a damaged one: %s", file->path,
                 what);
}

/* ---- storages -------------------------------------------------------------------------------- */

static const struct {
  const char *type, *name; /* the name is that of safetensors */
  int bytes;
  bool listed;
  ac_dtype dtype;
  ac_element_storage storage;
} types[] = {
    {"torch.FloatStorage", "F32", 4, true, AC_F32, AC_STORED_F32},
    {"torch.DoubleStorage", "F64", 8, true, AC_F32, AC_STORED_F64},
    {"torch.HalfStorage", "F16", 2, true, AC_F16, AC_STORED_F16},
    {"torch.BFloat16Storage", "BF16", 2, true, AC_BF16, AC_STORED_BF16},
    {"torch.IntStorage", "I32", 4, true, AC_I32, AC_STORED_OTHER},
    {"torch.ByteStorage", "U8", 1, true, AC_U8, AC_STORED_OTHER},
    {"torch.LongStorage", "I64", 8, false, AC_F32, AC_STORED_OTHER},
    {"torch.ShortStorage", "I16", 2, false, AC_F32, AC_STORED_OTHER},
    {"torch.CharStorage", "I8", 1, false, AC_F32, AC_STORED_OTHER},
    {"torch.BoolStorage", "BOOL", 1, false, AC_F32, AC_STORED_OTHER},
};

/* All that storages can be is in the table. */
static size_t type_of(const ac_pickle_storage *storage) {
  size_t i = 0;
  while (strcmp(types[i].type, storage->type) != 0) i++;
  return i;
}

static ac_status check_elements(const ac_model_file *file, const ac_pickle_storage *storage,
                                int64_t bytes) {
  if (storage->elements <= bytes / types[type_of(storage)].bytes) return AC_OK;
  return ac_fail(AC_ERROR_FORMAT,
                 "%s: storage %s has %" PRId64 " bytes, too few for %" PRId64
                 " elements; the file is truncated or damaged",
                 file->path, ac_quote(storage->key).text, bytes, storage->elements);
}

/* begins[i]: where storage i is in the file. */
static ac_status find_in_zip(const ac_model_file *file, const ac_zip *zip, const char *folder,
                             size_t length, int64_t file_bytes, const ac_pickle *pickle,
                             int64_t *begins) {
  char name[1024];
  for (size_t i = 0; i < pickle->storage_count; i++) {
    const ac_pickle_storage *storage = &pickle->storages[i];
    const int bytes =
        snprintf(name, sizeof name, "%.*s/data/%s", (int)length, folder, storage->key);
    const ac_zip_entry *entry =
        bytes >= 0 && bytes < (int)sizeof name ? ac_zip_find(zip, name) : NULL;
    if (!entry)
      return ac_fail(AC_ERROR_FORMAT, "%s: the archive lacks its storage %s", file->path,
                     ac_quote(storage->key).text);
    AC_TRY(ac_zip_begin_of(file, file_bytes, entry, &begins[i]));
    AC_TRY(check_elements(file, storage, entry->bytes));
  }
  return AC_OK;
}

/* The storages follow each other in the order of the list of keys. */
static ac_status find_in_row(const ac_model_file *file, const ac_pickle_value *keys, int64_t place,
                             int64_t file_bytes, const ac_pickle *pickle, int64_t *begins) {
  if (keys->kind != AC_PICKLE_LIST) return refuse(file, "it has no list of its storages");
  for (size_t i = 0; i < pickle->storage_count; i++) begins[i] = -1;
  for (size_t i = 0; i < keys->items->count; i++) {
    const ac_pickle_value *key = &keys->items->at[i];
    const json_t *known =
        key->kind == AC_PICKLE_TEXT ? json_object_get(pickle->by_key, key->text) : NULL;
    if (!known) return refuse(file, "it has a storage that no tensor refers to");
    const size_t index = (size_t)json_integer_value(known);
    const ac_pickle_storage *storage = &pickle->storages[index];
    if (file_bytes - place < 8) return refuse(file, "it ends before its last storage");
    place += 8; /* the number of elements, which is known */
    AC_TRY(check_elements(file, storage, file_bytes - place));
    begins[index] = place;
    place += storage->elements * types[type_of(storage)].bytes;
  }
  for (size_t i = 0; i < pickle->storage_count; i++)
    if (begins[i] < 0) return refuse(file, "a tensor refers to a storage that it lacks");
  return AC_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* Sizes and strides. *count: of elements; *span: from the first one to the last one; both are 1 or
 * more, or both 0. Even without sizes that are 0 the count does not overflow. */
static ac_status read_shape(const ac_model_file *file, const char *name,
                            const ac_pickle_items *sizes, const ac_pickle_items *strides,
                            ac_tensor_entry *entry, int64_t *span) {
  int64_t count = 1, most = 1;
  if (sizes->count != strides->count) return refuse(file, "a tensor lacks a stride");
  const bool deep = sizes->count > AC_SAFETENSORS_MAX_RANK;
  entry->tensor.rank = deep ? AC_SAFETENSORS_MAX_RANK + 1 : (int)sizes->count;
  *span = 1;
  for (size_t d = sizes->count; d-- > 0;) {
    const int64_t size = sizes->at[d].integer, stride = strides->at[d].integer;
    if (sizes->at[d].kind != AC_PICKLE_INTEGER || strides->at[d].kind != AC_PICKLE_INTEGER ||
        size < 0 || stride < 0)
      return refuse(file, "the shape of a tensor is not made of numbers");
    if (size > INT64_MAX / 16 || (size && most > INT64_MAX / 16 / size))
      return ac_fail(AC_ERROR_FORMAT, "%s: the shape of tensor %s overflows", file->path,
                     ac_quote(name).text);
    if (size > 1 && stride != count) entry->arranged.strided = true;
    if (size > 1 && (stride > (INT64_MAX / 16 - *span) / (size - 1)))
      return ac_fail(AC_ERROR_FORMAT, "%s: the strides of tensor %s overflow", file->path,
                     ac_quote(name).text);
    if (size > 1) *span += (size - 1) * stride;
    count *= size;
    if (size) most *= size;
    if (deep) continue;
    entry->tensor.shape[d] = size;
    entry->arranged.strides[d] = stride;
  }
  if (!count) *span = 0;
  if (!count || deep) entry->arranged.strided = false;
  return AC_OK;
}

/* A stride of 0 repeats elements; no file needs that often enough to make it an attack. */
static ac_status check_repeated(const ac_model_file *file, const char *name,
                                const ac_tensor_entry *entry, int64_t span) {
  enum { MOST_TIMES = 1 << 10 };
  int64_t count = 1;
  for (int d = 0; d < entry->tensor.rank; d++) count *= entry->tensor.shape[d];
  if (!entry->arranged.strided || count / MOST_TIMES <= span) return AC_OK;
  return ac_fail(AC_ERROR_UNSUPPORTED,
                 "%s: tensor %s repeats its elements; save it with .contiguous()", file->path,
                 ac_quote(name).text);
}

static ac_status read_tensor(const ac_model_file *file, const char *name,
                             const ac_pickle_items *tensor, const ac_pickle *pickle,
                             const int64_t *begins, ac_tensor_entry *entry) {
  const int64_t index = tensor->at[0].integer, offset = tensor->at[1].integer;
  const ac_pickle_storage *storage = &pickle->storages[index];
  const size_t type = type_of(storage);
  int64_t span = 0;
  AC_TRY(read_shape(file, name, tensor->at[2].items, tensor->at[3].items, entry, &span));
  if (offset < 0 || offset > storage->elements || span > storage->elements - offset)
    return ac_fail(AC_ERROR_FORMAT, "%s: tensor %s goes beyond the end of its storage", file->path,
                   ac_quote(name).text);
  entry->tensor.dtype = types[type].dtype;
  entry->storage = types[type].storage;
  entry->listed = types[type].listed && entry->tensor.rank <= AC_SAFETENSORS_MAX_RANK;
  entry->begin = begins[index] + offset * types[type].bytes;
  entry->end = entry->begin + span * types[type].bytes;
  return entry->listed ? check_repeated(file, name, entry, span) : AC_OK;
}

/* From now on the name is that in `root`. */
static ac_status name_entry(ac_model_file *file, const char *name, const char *dtype,
                            ac_tensor_entry *entry) {
  if (json_object_get(file->root, name))
    return ac_fail(AC_ERROR_FORMAT, "%s: it has two tensors %s", file->path, ac_quote(name).text);
  if (!strcmp(name, AC_SAFETENSORS_METADATA) ||
      json_object_set_new(file->root, name, json_pack("{s:s}", "dtype", dtype)) != 0)
    return ac_fail(AC_ERROR_FORMAT, "%s: %s cannot be the name of a tensor", file->path,
                   ac_quote(name).text);
  entry->tensor.name = json_object_iter_key(json_object_iter_at(file->root, name));
  return AC_OK;
}

/* ---- the dict that has them ------------------------------------------------------------------ */

static bool is_tensor_of(const ac_pickle_items *items, size_t i) {
  return items->at[i].kind == AC_PICKLE_TEXT && items->at[i + 1].kind == AC_PICKLE_TENSOR;
}

static size_t count_tensors(const ac_pickle_value *dict) {
  size_t count = 0;
  for (size_t i = 0; i + 1 < dict->items->count; i += 2) count += is_tensor_of(dict->items, i);
  return count;
}

/* What training scripts write next to their own counters, which may be tensors as well. */
static const ac_pickle_value *find_weights(const ac_pickle_value *root, int depth) {
  static const char *const keys[] = {"state_dict", "model_state_dict", "model", "net"};
  if (root->kind != AC_PICKLE_DICT) return NULL;
  for (size_t k = 0; k < sizeof keys / sizeof *keys && depth < MOST_DEPTH; k++) {
    const ac_pickle_value *inner = ac_pickle_get(root, keys[k]),
                          *found = inner ? find_weights(inner, depth + 1) : NULL;
    if (found) return found;
  }
  return count_tensors(root) ? root : NULL;
}

/* Whether the names of all tensors go on like this after their first `from` bytes. */
static bool all_go_on(const ac_pickle_items *items, size_t from, const char *prefix) {
  for (size_t i = 0; i + 1 < items->count; i += 2)
    if (is_tensor_of(items, i) && strncmp(items->at[i].text + from, prefix, strlen(prefix)) != 0)
      return false;
  return true;
}

/* The length of what DistributedDataParallel and torch.compile put before all names. */
static size_t wrapped(const ac_pickle_items *items) {
  static const char *const prefixes[] = {"module.", "_orig_mod."};
  size_t length = 0;
  for (int k = 0; k < 2; k++)
    if (all_go_on(items, length, prefixes[k])) {
      length += strlen(prefixes[k]);
      k = -1;
    }
  return length;
}

static int compare_begins(const void *a, const void *b) {
  const ac_tensor_entry *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return (x->end > y->end) - (x->end < y->end);
}

static ac_status read_tensors(ac_model_file *file, const ac_pickle *pickle, const int64_t *begins) {
  const ac_pickle_value *dict = find_weights(&pickle->root, 0);
  if (!dict)
    return ac_fail(AC_ERROR_FORMAT,
                   "%s holds no tensors by name; write it by torch.save(model.state_dict(), FILE)",
                   file->path);
  const ac_pickle_items *items = dict->items;
  const size_t count = count_tensors(dict), prefix = wrapped(items);
  json_t *metadata = json_object();
  file->root = json_object();
  file->entries = calloc(count + 1, sizeof *file->entries);
  /* This takes the metadata also where it fails. */
  const int failed = json_object_set_new(file->root, AC_SAFETENSORS_METADATA, metadata);
  if (failed || !file->entries)
    return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its tensors", file->path);
  ac_tensor_entry *entry = file->entries;
  for (size_t i = 0; i + 1 < items->count; i += 2) {
    if (!is_tensor_of(items, i)) continue;
    const char *name = items->at[i].text + prefix;
    const ac_pickle_items *tensor = items->at[i + 1].items;
    const size_t type = type_of(&pickle->storages[tensor->at[0].integer]);
    AC_TRY(read_tensor(file, name, tensor, pickle, begins, entry));
    AC_TRY(name_entry(file, name, types[type].name, entry));
    entry++;
  }
  qsort(file->entries, count, sizeof *file->entries, compare_begins);
  ac_list_entries(file, (int)count);
  return AC_OK;
}

static ac_status make_room(const ac_model_file *file, const ac_pickle *pickle, int64_t **begins) {
  *begins = malloc((pickle->storage_count + 1) * sizeof **begins);
  return *begins ? AC_OK : ac_fail(AC_ERROR_MEMORY, "%s: no memory for its tensors", file->path);
}

/* ---- a zip archive --------------------------------------------------------------------------- */

static const ac_zip_entry *find_description(const ac_zip *zip, size_t *folder) {
  static const char name[] = "/data.pkl";
  for (int64_t i = 0; i < zip->count; i++) {
    const char *slash = strchr(zip->entries[i].name, '/');
    if (!slash || strcmp(slash, name) != 0) continue;
    *folder = (size_t)(slash - zip->entries[i].name);
    return &zip->entries[i];
  }
  return NULL;
}

/* Archives say in which order bytes are since PyTorch 2.1. */
static ac_status check_order(const ac_model_file *file, const ac_zip *zip, const char *folder,
                             size_t length, int64_t file_bytes) {
  char name[1024], order[7] = "";
  const int bytes = snprintf(name, sizeof name, "%.*s/byteorder", (int)length, folder);
  const ac_zip_entry *entry =
      bytes >= 0 && bytes < (int)sizeof name ? ac_zip_find(zip, name) : NULL;
  int64_t begin;
  if (!entry) return AC_OK;
  AC_TRY(ac_zip_begin_of(file, file_bytes, entry, &begin));
  if (entry->bytes == 6 && ac_seek(file->stream, begin, SEEK_SET) == 0 &&
      fread(order, 1, 6, file->stream) == 6 && !strcmp(order, "little"))
    return AC_OK;
  return ac_fail(AC_ERROR_UNSUPPORTED, "%s: its numbers are not little-endian", file->path);
}

static ac_status read_archive(ac_model_file *file, const ac_zip *zip, int64_t file_bytes) {
  size_t folder = 0;
  int64_t begin, *begins = NULL;
  const ac_zip_entry *entry = find_description(zip, &folder);
  if (!entry)
    return ac_fail(AC_ERROR_FORMAT, "%s is a zip archive, but not one of torch.save", file->path);
  AC_TRY(check_order(file, zip, entry->name, folder, file_bytes));
  AC_TRY(ac_zip_begin_of(file, file_bytes, entry, &begin));
  if (ac_seek(file->stream, begin, SEEK_SET) != 0)
    return ac_fail(AC_ERROR_IO, "cannot read %s: %s", file->path, strerror(errno));
  ac_pickle pickle;
  ac_status status = ac_pickle_read(&pickle, file, entry->bytes);
  if (status == AC_OK) status = make_room(file, &pickle, &begins);
  if (status == AC_OK)
    status = find_in_zip(file, zip, entry->name, folder, file_bytes, &pickle, begins);
  if (status == AC_OK) status = read_tensors(file, &pickle, begins);
  free(begins);
  ac_pickle_release(&pickle);
  return status;
}

static ac_status read_zip(ac_model_file *file, int64_t file_bytes) {
  ac_zip zip = {0};
  ac_status status = ac_zip_read(&zip, file, file_bytes);
  if (status == AC_OK) status = read_archive(file, &zip, file_bytes);
  ac_zip_release(&zip);
  return status;
}

/* ---- a row of pickles ------------------------------------------------------------------------ */

/* The version, and what the machine was like that wrote the file. */
static ac_status read_preface(ac_model_file *file, int64_t *left) {
  for (int i = 0; i < 2; i++) {
    ac_pickle pickle;
    ac_status status = ac_pickle_read(&pickle, file, *left);
    if (status == AC_OK && !i &&
        (pickle.root.kind != AC_PICKLE_INTEGER || pickle.root.integer != OLD_VERSION))
      status = refuse(file, "its version is not 1001");
    const ac_pickle_value *little =
        status == AC_OK && i ? ac_pickle_get(&pickle.root, "little_endian") : NULL;
    if (status == AC_OK && i && (!little || little->kind != AC_PICKLE_BOOLEAN || !little->integer))
      status = ac_fail(AC_ERROR_UNSUPPORTED, "%s: its numbers are not little-endian", file->path);
    *left = pickle.left;
    ac_pickle_release(&pickle);
    AC_TRY(status);
  }
  return AC_OK;
}

static ac_status read_row(ac_model_file *file, int64_t file_bytes) {
  int64_t left = file_bytes - OLD_MAGIC_BYTES, *begins = NULL;
  if (ac_seek(file->stream, OLD_MAGIC_BYTES, SEEK_SET) != 0)
    return ac_fail(AC_ERROR_IO, "cannot read %s: %s", file->path, strerror(errno));
  AC_TRY(read_preface(file, &left));
  ac_pickle pickle, keys = {0};
  ac_status status = ac_pickle_read(&pickle, file, left);
  if (status == AC_OK) status = ac_pickle_read(&keys, file, pickle.left);
  if (status == AC_OK) status = make_room(file, &pickle, &begins);
  if (status == AC_OK)
    status = find_in_row(file, &keys.root, file_bytes - keys.left, file_bytes, &pickle, begins);
  if (status == AC_OK) status = read_tensors(file, &pickle, begins);
  free(begins);
  ac_pickle_release(&keys);
  ac_pickle_release(&pickle);
  return status;
}

ac_status ac_pytorch_read_header(ac_model_file *file, int64_t file_bytes) {
  unsigned char start[2] = {0};
  if (ac_seek(file->stream, 0, SEEK_SET) != 0 || fread(start, 1, 2, file->stream) != 2)
    return ac_fail(AC_ERROR_IO, "cannot read %s: %s", file->path, strerror(errno));
  return start[0] == 'P' ? read_zip(file, file_bytes) : read_row(file, file_bytes);
}
