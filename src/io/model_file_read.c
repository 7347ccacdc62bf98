/* Reads model files, and hostile ones safely: safetensors here, the headers of GGUF files in
 * gguf.c, those of PyTorch's in pytorch.c. Opening one parses the header and checks all of it:
 * every tensor's dtype and shape against its bytes, then, with the tensors sorted by offset, that
 * each begins where the one before it ends and that the last ends where the file does. So overlaps,
 * holes, truncation and trailing bytes are found by one comparison each, and no later read can
 * leave the file. Cost: O(header + n log n).
 *
 * Names and metadata stay where the JSON parser has put them. */
#include <accrue/model_file.h>

#include "core/error.h"
#include "core/format.h"
#include "core/half.h"
#include "core/little_endian.h"
#include "core/platform/files.h"
#include "core/platform/memory.h"
#include "io/checksum.h"
#include "io/opened.h"
#include "io/pytorch.h"
#include "io/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name;
  int bits;
  bool listed; /* others are checked for their layout only */
  ac_dtype dtype;
  ac_element_storage storage;
} dtypes[] = {
    {"F32", 32, true, AC_F32, AC_STORED_F32},
    {"F64", 64, true, AC_F32, AC_STORED_F64},
    {"F16", 16, true, AC_F16, AC_STORED_F16},
    {"BF16", 16, true, AC_BF16, AC_STORED_BF16},
    {"I32", 32, true, AC_I32, AC_STORED_OTHER},
    {"U8", 8, true, AC_U8, AC_STORED_OTHER},
    {"BOOL", 8, false, 0, AC_STORED_OTHER},
    {"I8", 8, false, 0, AC_STORED_OTHER},
    {"I16", 16, false, 0, AC_STORED_OTHER},
    {"U16", 16, false, 0, AC_STORED_OTHER},
    {"U32", 32, false, 0, AC_STORED_OTHER},
    {"I64", 64, false, 0, AC_STORED_OTHER},
    {"U64", 64, false, 0, AC_STORED_OTHER},
    {"C64", 64, false, 0, AC_STORED_OTHER},
    {"F8_E4M3", 8, false, 0, AC_STORED_OTHER},
    {"F8_E5M2", 8, false, 0, AC_STORED_OTHER},
    {"F8_E8M0", 8, false, 0, AC_STORED_OTHER},
    {"F4", 4, false, 0, AC_STORED_OTHER},
    {"F6_E2M3", 6, false, 0, AC_STORED_OTHER},
    {"F6_E3M2", 6, false, 0, AC_STORED_OTHER},
    {"F8_E4M3FNUZ", 8, false, 0, AC_STORED_OTHER},
    {"F8_E5M2FNUZ", 8, false, 0, AC_STORED_OTHER},
    /* Any other, which is taken for as long as its offsets say. */
    {NULL, 0, false, 0, AC_STORED_OTHER},
};
enum { UNKNOWN_DTYPE = sizeof dtypes / sizeof dtypes[0] - 1 };

/* The next bytes of the file, all of them. */
static ac_status read_exactly(ac_model_file *file, void *data, size_t bytes) {
  if (fread(data, 1, bytes, file->stream) == bytes) return AC_OK;
  return ac_fail(AC_ERROR_IO, "cannot read %s: %s", file->path,
                 ferror(file->stream) ? strerror(errno) : "it has become shorter");
}

/* ---- one tensor's description ---------------------------------------------------------------- */

static ac_status check_dtype(const char *path, const char *name, const json_t *info, int *dtype) {
  const char *text = json_string_value(json_object_get(info, "dtype"));
  if (!text)
    return ac_fail(AC_ERROR_FORMAT, "%s: tensor %s has no dtype, or one that is not a string", path,
                   name);
  for (*dtype = 0; *dtype < UNKNOWN_DTYPE; ++*dtype)
    if (!strcmp(text, dtypes[*dtype].name)) break;
  return AC_OK;
}

/* Fills rank and shape, as far as a tensor can have them; *bits is the tensor's size. */
static ac_status check_shape(const char *path, const char *name, const json_t *info,
                             ac_model_tensor *tensor, int64_t *bits) {
  const json_t *shape = json_object_get(info, "shape");
  if (!json_is_array(shape))
    return ac_fail(AC_ERROR_FORMAT, "%s: tensor %s has no shape, or one that is not an array", path,
                   name);
  const size_t rank = json_array_size(shape);
  tensor->rank = rank > AC_SAFETENSORS_MAX_RANK ? AC_SAFETENSORS_MAX_RANK + 1 : (int)rank;
  for (size_t d = 0; d < rank; d++) {
    const json_t *dimension = json_array_get(shape, d);
    int64_t size = json_integer_value(dimension);
    if (!json_is_integer(dimension) || size < 0)
      return ac_fail(AC_ERROR_FORMAT,
                     "%s: dimension %zu of tensor %s is not a non-negative integer", path, d, name);
    if (size > 0 && *bits > INT64_MAX / size)
      return ac_fail(AC_ERROR_FORMAT, "%s: the shape of tensor %s overflows", path, name);
    *bits *= size;
    if (d < AC_SAFETENSORS_MAX_RANK) tensor->shape[d] = size;
  }
  return AC_OK;
}

static ac_status check_offsets(const char *path, const char *name, const json_t *info,
                               int64_t data_bytes, ac_tensor_entry *entry) {
  const json_t *offsets = json_object_get(info, "data_offsets");
  const json_t *begin = json_array_get(offsets, 0), *end = json_array_get(offsets, 1);
  if (json_array_size(offsets) != 2 || !json_is_integer(begin) || !json_is_integer(end))
    return ac_fail(AC_ERROR_FORMAT, "%s: the data_offsets of tensor %s are not two integers", path,
                   name);
  entry->begin = json_integer_value(begin);
  entry->end = json_integer_value(end);
  if (entry->begin < 0 || entry->begin > entry->end)
    return ac_fail(AC_ERROR_FORMAT, "%s: tensor %s lies at [%lld, %lld), which is not a range",
                   path, name, (long long)entry->begin, (long long)entry->end);
  if (entry->end > data_bytes)
    return ac_fail(AC_ERROR_FORMAT,
                   "%s: tensor %s ends at byte %lld of the data, but the file has only %lld; it is "
                   "truncated or damaged",
                   path, name, (long long)entry->end, (long long)data_bytes);
  return AC_OK;
}

static ac_status check_entry(const char *path, const char *key, const json_t *info,
                             int64_t data_bytes, ac_tensor_entry *entry) {
  ac_quoted name = ac_quote(key);
  if (!json_is_object(info))
    return ac_fail(AC_ERROR_FORMAT, "%s: tensor %s is not described by an object", path, name.text);
  int dtype = UNKNOWN_DTYPE;
  AC_TRY(check_dtype(path, name.text, info, &dtype));
  const bool known = dtype != UNKNOWN_DTYPE;
  int64_t bits = known ? dtypes[dtype].bits : 1;
  AC_TRY(check_shape(path, name.text, info, &entry->tensor, &bits));
  AC_TRY(check_offsets(path, name.text, info, data_bytes, entry));
  if (known && (bits % 8 || bits / 8 != entry->end - entry->begin))
    return ac_fail(AC_ERROR_FORMAT,
                   "%s: tensor %s has %lld bytes, but its dtype %s and shape need %lld", path,
                   name.text, (long long)(entry->end - entry->begin), dtypes[dtype].name,
                   (long long)(bits / 8 + (bits % 8 != 0)));
  entry->tensor.name = key;
  entry->tensor.dtype = dtypes[dtype].dtype;
  entry->storage = dtypes[dtype].storage;
  entry->listed = dtypes[dtype].listed && entry->tensor.rank <= AC_SAFETENSORS_MAX_RANK;
  return AC_OK;
}

/* ---- the whole header ------------------------------------------------------------------------ */

/* Compares positions; an empty tensor comes before another that begins at the same place. */
static int compare_entries(const void *a, const void *b) {
  const ac_tensor_entry *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return (x->end > y->end) - (x->end < y->end);
}

ac_status ac_sort_entries(ac_model_file *file, int count) {
  const ac_tensor_entry *entries = file->entries;
  if (count) qsort(file->entries, (size_t)count, sizeof *entries, compare_entries);
  for (int i = 1; i < count; i++)
    if (entries[i].begin < entries[i - 1].end)
      return ac_fail(AC_ERROR_FORMAT, "%s: tensors %s and %s overlap", file->path,
                     ac_quote(entries[i - 1].tensor.name).text,
                     ac_quote(entries[i].tensor.name).text);
  return AC_OK;
}

void ac_list_entries(ac_model_file *file, int count) {
  for (int i = 0; i < count; i++)
    if (file->entries[i].listed) file->entries[file->count++] = file->entries[i];
    else if (!file->unlisted) file->unlisted = file->entries[i].tensor.name;
}

static int compare_names(const void *a, const void *b) {
  const ac_entry_name *x = a, *y = b;
  return strcmp(x->name, y->name);
}

ac_status ac_sort_names(ac_model_file *file) {
  const size_t count = (size_t)file->count;
  ac_entry_name *names = realloc(file->by_name, (count + 1) * sizeof *names);
  if (!names) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its tensors", file->path);
  file->by_name = names;
  for (int i = 0; i < file->count; i++) names[i] = (ac_entry_name){file->entries[i].tensor.name, i};
  if (count) qsort(names, count, sizeof *names, compare_names);
  for (size_t i = 1; i < count; i++)
    if (!compare_names(&names[i - 1], &names[i]))
      return ac_fail(AC_ERROR_FORMAT, "%s: two of its tensors are %s", file->path,
                     ac_quote(names[i].name).text);
  return AC_OK;
}

/* `entries` are sorted, and do not overlap. */
static ac_status check_holes(const char *path, const ac_tensor_entry *entries, int count,
                             int64_t data_bytes) {
  int64_t expected = 0;
  for (int i = 0; i < count; i++) {
    if (entries[i].begin > expected)
      return ac_fail(AC_ERROR_FORMAT, "%s: no tensor holds the %lld bytes before tensor %s", path,
                     (long long)(entries[i].begin - expected),
                     ac_quote(entries[i].tensor.name).text);
    expected = entries[i].end;
  }
  if (expected != data_bytes)
    return ac_fail(AC_ERROR_FORMAT, "%s: no tensor holds the last %lld bytes", path,
                   (long long)(data_bytes - expected));
  return AC_OK;
}

static ac_status check_metadata(const char *path, const json_t *metadata) {
  if (!metadata || json_is_null(metadata)) return AC_OK;
  if (!json_is_object(metadata))
    return ac_fail(AC_ERROR_FORMAT, "%s: its %s is not an object", path, AC_SAFETENSORS_METADATA);
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)metadata, key, value) {
    if (!json_is_string(value))
      return ac_fail(AC_ERROR_FORMAT, "%s: metadata %s is not text", path, ac_quote(key).text);
  }
  return AC_OK;
}

static ac_status check_header(ac_model_file *file, int64_t data_bytes) {
  if (!json_is_object(file->root))
    return ac_fail(AC_ERROR_FORMAT, "%s: its header is not a JSON object", file->path);
  AC_TRY(check_metadata(file->path, json_object_get(file->root, AC_SAFETENSORS_METADATA)));

  file->entries = calloc(json_object_size(file->root) + 1, sizeof *file->entries);
  if (!file->entries) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its tensors", file->path);
  const char *key;
  json_t *info;
  int count = 0;
  json_object_foreach(file->root, key, info) {
    if (!strcmp(key, AC_SAFETENSORS_METADATA)) continue;
    AC_TRY(check_entry(file->path, key, info, data_bytes, &file->entries[count]));
    count++;
  }
  AC_TRY(ac_sort_entries(file, count));
  AC_TRY(check_holes(file->path, file->entries, count, data_bytes));
  ac_list_entries(file, count);
  return AC_OK;
}

/* The parser takes no zeros in names. Writing U+FFFD for them keeps a name one that no parameter
 * has. Backslashes are in texts only, or the JSON is not valid. */
static void replace_zeros(char *text, size_t length) {
  for (size_t i = 0; i + 1 < length; i++) {
    if (text[i] != '\\') continue;
    i++;
    if (length - i >= 5 && !memcmp(text + i, "u0000", 5)) memcpy(text + i, "uFFFD", 5);
  }
}

/* What a header of so many bytes can become in memory; one that needs more is an attack. */
static ac_status check_memory(const ac_model_file *file, size_t length) {
  enum { MOST_TIMES = 24 };
  if (length <= ac_memory_left() / MOST_TIMES) return AC_OK;
  return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its header of %zu bytes", file->path, length);
}

static ac_status parse_json(ac_model_file *file, char *text, size_t length) {
  json_error_t error;
  replace_zeros(text, length);
  errno = 0;
  file->root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
  if (file->root) return AC_OK;
  if (errno == ENOMEM) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its header", file->path);
  return ac_fail(AC_ERROR_FORMAT, "%s: its header is not valid JSON: %s", file->path,
                 ac_quote(error.text).text);
}

/* Reads the header's length and text and parses it. */
static ac_status parse_header(ac_model_file *file, int64_t file_bytes) {
  unsigned char prefix[8];
  if (file_bytes < 8)
    return ac_fail(AC_ERROR_FORMAT, "%s: not a safetensors file: it has only %lld bytes",
                   file->path, (long long)file_bytes);
  AC_TRY(read_exactly(file, prefix, sizeof prefix));
  const uint64_t length = ac_little_endian(prefix, 8);
  if (length > AC_SAFETENSORS_MAX_HEADER)
    return ac_fail(AC_ERROR_FORMAT,
                   "%s: not a safetensors file: its header would have %llu bytes, more than %d",
                   file->path, (unsigned long long)length, AC_SAFETENSORS_MAX_HEADER);
  if ((int64_t)length > file_bytes - 8)
    return ac_fail(AC_ERROR_FORMAT,
                   "%s: truncated, or not a safetensors file: its header would have %llu bytes, "
                   "but only %lld follow",
                   file->path, (unsigned long long)length, (long long)(file_bytes - 8));
  file->data_begin = 8 + (int64_t)length;

  AC_TRY(check_memory(file, (size_t)length));
  char *text = malloc((size_t)length + 1);
  if (!text) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its header", file->path);
  ac_status status = read_exactly(file, text, (size_t)length);
  if (status == AC_OK) {
    text[length] = 0;
    file->checksum = ac_header_checksum(prefix, text, (size_t)length);
    status = parse_json(file, text, (size_t)length);
  }
  free(text);
  return status;
}

typedef enum file_form { FORM_SAFETENSORS, FORM_GGUF, FORM_INDEX, FORM_PYTORCH } file_form;

/* Another format's file is called by its name. One that has JSON where a header begins may be a
 * damaged file of this format. `name` gets the format of what may be an index. */
static ac_status check_format(ac_model_file *file, file_form *form, const char **name) {
  uint8_t start[4096];
  *name = NULL;
  *form = FORM_SAFETENSORS;
  const size_t count = fread(start, 1, sizeof start, file->stream);
  if (ferror(file->stream))
    return ac_fail(AC_ERROR_IO, "cannot read %s: %s", file->path, strerror(errno));
  if (count >= 4 && !memcmp(start, "GGUF", 4)) *form = FORM_GGUF;
  /* Text; a header has zeros among the bytes of its length. */
  else if (count && start[0] == '{' && !memchr(start, 0, count < 8 ? count : 8)) *form = FORM_INDEX;
  else if (ac_is_pytorch(start, count)) *form = FORM_PYTORCH;
  if (*form == FORM_GGUF || *form == FORM_PYTORCH) return AC_OK;
  if (*form == FORM_SAFETENSORS && (count < 9 || start[8] == '{')) return AC_OK;
  if (!ac_format_of(start, count, ac_file_bytes(file->stream), name) || *form == FORM_INDEX)
    return AC_OK;
  return ac_fail(AC_ERROR_FORMAT, "%s is %s, not a safetensors, GGUF or PyTorch file", file->path,
                 *name);
}

static ac_status open_any(ac_model_file *file, const char *path, bool shard) {
  file->path = malloc(strlen(path) + 1);
  if (!file->path) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for a description", path);
  strcpy(file->path, path);
  if (!shard && ac_is_folder(path)) AC_TRY(ac_model_file_in_folder(file));
  path = file->path;
  AC_TRY(ac_file_open(&file->stream, path, false));
  file_form form;
  const char *format;
  AC_TRY(check_format(file, &form, &format));
  if (form == FORM_INDEX && shard)
    return ac_fail(AC_ERROR_FORMAT, "%s is JSON, not a safetensors file", path);
  if (form == FORM_INDEX) return ac_shards_open(file, format);
  if (ac_seek(file->stream, 0, SEEK_END) != 0)
    return ac_fail(AC_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
  int64_t file_bytes = ac_tell(file->stream);
  if (file_bytes < 0 || ac_seek(file->stream, 0, SEEK_SET) != 0)
    return ac_fail(AC_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
  if (form == FORM_GGUF) return ac_gguf_read_header(file, file_bytes);
  if (form == FORM_PYTORCH) return ac_pytorch_read_header(file, file_bytes);
  AC_TRY(parse_header(file, file_bytes));
  return check_header(file, file_bytes - file->data_begin);
}

static ac_status open_file(ac_model_file **file, const char *path, bool shard) {
  ac_model_file *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for a description", path);
  ac_status status = open_any(made, path, shard);
  if (status == AC_OK) status = ac_sort_names(made);
  if (status == AC_OK) *file = made;
  else ac_model_file_close(made);
  return status;
}

ac_status ac_model_file_open(ac_model_file **file, const char *path) {
  AC_CREATES(file);
  AC_REQUIRE(path);
  return open_file(file, path, false);
}

ac_status ac_shard_open(ac_model_file **file, const char *path) {
  return open_file(file, path, true);
}

void ac_model_file_close(ac_model_file *file) {
  if (!file) return;
  for (int i = 0; i < file->shard_count; i++) ac_model_file_close(file->shards[i]);
  free(file->shards);
  if (file->stream) fclose(file->stream);
  json_decref(file->root);
  json_decref(file->arrays);
  free(file->by_name);
  free(file->spread);
  free(file->entries);
  free(file->path);
  free(file);
}

/* ---- what is in it --------------------------------------------------------------------------- */

int ac_model_file_tensor_count(const ac_model_file *file) {
  return file ? file->count : 0;
}

const ac_model_tensor *ac_model_file_tensor(const ac_model_file *file, int index) {
  return index >= 0 && index < ac_model_file_tensor_count(file) ? &file->entries[index].tensor
                                                                : NULL;
}

int ac_model_file_find(const ac_model_file *file, const char *name) {
  const ac_entry_name wanted = {.name = name}, *found = NULL;
  if (name && ac_model_file_tensor_count(file))
    found = bsearch(&wanted, file->by_name, (size_t)file->count, sizeof wanted, compare_names);
  return found ? found->index : -1;
}

const char *ac_model_file_dtype(const ac_model_file *file, const char *name) {
  for (int i = 0; i < file->shard_count; i++) {
    const bool listed = ac_model_file_find(file->shards[i], name) >= 0;
    const char *dtype = listed ? NULL : ac_model_file_dtype(file->shards[i], name);
    if (dtype) return dtype;
  }
  return json_string_value(json_object_get(json_object_get(file->root, name), "dtype"));
}

const char *ac_model_file_path(const ac_model_file *file) {
  return file->path;
}

const char *ac_model_file_metadata(const ac_model_file *file, const char *key) {
  if (!file || !key) return NULL;
  return json_string_value(
      json_object_get(json_object_get(file->root, AC_SAFETENSORS_METADATA), key));
}

static float convert(const unsigned char *data, ac_element_storage storage) {
  uint32_t bits = 0;
  float value;
  double wide;
  uint64_t wide_bits;
  switch (storage) {
  case AC_STORED_F16:
    return ac_f16_to_float((uint16_t)ac_little_endian(data, 2));
  case AC_STORED_F64:
    wide_bits = ac_little_endian(data, 8);
    memcpy(&wide, &wide_bits, 8);
    return (float)wide;
  case AC_STORED_BF16:
    bits = (uint32_t)ac_little_endian(data, 2) << 16;
    break;
  default:
    bits = (uint32_t)ac_little_endian(data, 4);
    break;
  }
  memcpy(&value, &bits, 4);
  return value;
}

static ac_status check_range(const ac_model_file *file, const ac_tensor_entry *entry,
                             int64_t elements, int64_t first, int64_t count) {
  if (first >= 0 && count >= 0 && first <= elements && count <= elements - first) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "%s: tensor %s has %lld elements; [%lld, %lld + %lld) are not "
                 "among them",
                 file->path, ac_quote(entry->tensor.name).text, (long long)elements,
                 (long long)first, (long long)first, (long long)count);
}

static ac_status seek(ac_model_file *file, const ac_tensor_entry *entry, int64_t bytes) {
  if (ac_seek(file->stream, file->data_begin + entry->begin + bytes, SEEK_SET) == 0) return AC_OK;
  return ac_fail(AC_ERROR_IO, "cannot read %s: %s", file->path, strerror(errno));
}

/* Checks a range of a tensor's elements of `size` bytes and finds its first. */
static ac_status seek_elements(ac_model_file *file, const ac_tensor_entry *entry, size_t size,
                               int64_t first, int64_t count) {
  AC_TRY(check_range(file, entry, (entry->end - entry->begin) / (int64_t)size, first, count));
  return seek(file, entry, first * (int64_t)size);
}

/* The blocks that the range touches, one by one. */
static ac_status read_blocks(ac_model_file *file, const ac_tensor_entry *entry, int64_t first,
                             int64_t count, float *data) {
  const ac_block_format *blocks = entry->blocks;
  const int64_t size = blocks->elements, bytes = blocks->bytes;
  unsigned char stored[AC_MOST_OF_BLOCK];
  float decoded[AC_MOST_OF_BLOCK];
  AC_TRY(check_range(file, entry, (entry->end - entry->begin) / bytes * size, first, count));
  AC_TRY(seek(file, entry, first / size * bytes));
  for (int64_t done = 0, skipped = first % size; done < count; skipped = 0) {
    const int64_t piece = count - done < size - skipped ? count - done : size - skipped;
    AC_TRY(read_exactly(file, stored, (size_t)bytes));
    blocks->decode(stored, decoded);
    memcpy(data + done, decoded + skipped, (size_t)piece * sizeof *data);
    done += piece;
  }
  return AC_OK;
}

static ac_status read_floats(ac_model_file *file, const ac_tensor_entry *entry, int64_t first,
                             int64_t count, float *data) {
  static const size_t sizes[] = {
      [AC_STORED_F32] = 4, [AC_STORED_F64] = 8, [AC_STORED_F16] = 2, [AC_STORED_BF16] = 2};
  const size_t size = sizes[entry->storage];
  AC_TRY(seek_elements(file, entry, size, first, count));

  unsigned char buffer[1 << 15];
  int64_t most = (int64_t)(sizeof buffer / size);
  for (int64_t done = 0; done < count;) {
    int64_t piece = count - done < most ? count - done : most;
    AC_TRY(read_exactly(file, buffer, (size_t)piece * size));
    for (int64_t i = 0; i < piece; i++)
      data[done + i] = convert(buffer + (size_t)i * size, entry->storage);
    done += piece;
  }
  return AC_OK;
}

ac_status ac_model_file_read(ac_model_file *file, int index, int64_t first, int64_t count,
                             float *data) {
  AC_REQUIRE(file);
  if (count > 0) AC_REQUIRE(data);
  if (index < 0 || index >= file->count)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: there is no tensor %d among %d", file->path, index,
                   file->count);
  const ac_tensor_entry *entry = &file->entries[index];
  if (entry->shard) return ac_model_file_read(entry->shard, entry->shard_index, first, count, data);
  if (entry->storage == AC_STORED_OTHER)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: tensor %s holds %s, not floats", file->path,
                   ac_quote(entry->tensor.name).text, ac_dtype_name(entry->tensor.dtype));
  return ac_is_arranged(entry) ? ac_read_arranged(file, entry, first, count, data)
                               : ac_read_plain(file, entry, first, count, data);
}

ac_status ac_read_plain(ac_model_file *file, const ac_tensor_entry *entry, int64_t first,
                        int64_t count, float *data) {
  return entry->storage == AC_STORED_BLOCKS ? read_blocks(file, entry, first, count, data)
                                            : read_floats(file, entry, first, count, data);
}

bool ac_entry_is_in_blocks(const ac_tensor_entry *entry) {
  if (entry->shard) return ac_entry_is_in_blocks(&entry->shard->entries[entry->shard_index]);
  return entry->storage == AC_STORED_BLOCKS;
}

/* Rows of heads may be read as they are; what else is arranged may not. */
ac_blocks ac_model_file_blocks(const ac_model_file *file, int index) {
  if (index < 0 || index >= ac_model_file_tensor_count(file)) return AC_BLOCKS_NONE;
  const ac_tensor_entry *entry = &file->entries[index];
  if (entry->shard) return ac_model_file_blocks(entry->shard, entry->shard_index);
  if (entry->arranged.transposed || entry->arranged.less_one) return AC_BLOCKS_NONE;
  for (int blocks = AC_BLOCKS_Q8_0; entry->blocks && blocks <= AC_BLOCKS_NF4; blocks++)
    if (ac_blocks_format((ac_blocks)blocks) == entry->blocks) return (ac_blocks)blocks;
  return AC_BLOCKS_NONE;
}

/* Whole blocks, as far as a row goes where rows come in another order. */
static ac_status read_whole_blocks(ac_model_file *file, const ac_tensor_entry *entry, int64_t first,
                                   int64_t count, unsigned char *data) {
  const int64_t size = entry->blocks->elements, bytes = entry->blocks->bytes;
  const int64_t columns = entry->tensor.rank ? entry->tensor.shape[entry->tensor.rank - 1] : 1;
  while (count > 0) {
    const int64_t row = first / columns, column = first % columns, left = columns - column;
    const int64_t at = ac_arranged_row(entry, row) * columns + column,
                  piece = entry->arranged.head_rows && left < count ? left : count;
    AC_TRY(seek(file, entry, at / size * bytes));
    AC_TRY(read_exactly(file, data, (size_t)(piece / size * bytes)));
    first += piece;
    count -= piece;
    data += piece / size * bytes;
  }
  return AC_OK;
}

ac_status ac_model_file_read_blocks(ac_model_file *file, int index, int64_t first, int64_t count,
                                    void *data) {
  AC_REQUIRE(file);
  if (count > 0) AC_REQUIRE(data);
  if (!ac_model_file_blocks(file, index))
    return ac_fail(AC_ERROR_ARGUMENT, "%s: tensor %d is not in blocks that can be read as they are",
                   file->path, index);
  const ac_tensor_entry *entry = &file->entries[index];
  if (entry->shard)
    return ac_model_file_read_blocks(entry->shard, entry->shard_index, first, count, data);
  const int64_t size = entry->blocks->elements, bytes = entry->blocks->bytes;
  AC_TRY(check_range(file, entry, (entry->end - entry->begin) / bytes * size, first, count));
  if (first % size || count % size)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "%s: elements [%lld, %lld + %lld) of tensor %s are not whole blocks of %lld",
                   file->path, (long long)first, (long long)first, (long long)count,
                   ac_quote(entry->tensor.name).text, (long long)size);
  return read_whole_blocks(file, entry, first, count, data);
}

ac_status ac_read_bytes(ac_model_file *file, const ac_tensor_entry *entry, int64_t first,
                        int64_t bytes, void *data) {
  if (entry->shard)
    return ac_read_bytes(entry->shard, &entry->shard->entries[entry->shard_index], first, bytes,
                         data);
  if (first < 0 || bytes < 0 || bytes > entry->end - entry->begin - first)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: bytes beyond tensor %s", file->path,
                   ac_quote(entry->tensor.name).text);
  AC_TRY(seek(file, entry, first));
  return read_exactly(file, data, (size_t)bytes);
}

/* ---- as it is stored ------------------------------------------------------------------------- */

ac_status ac_model_file_read_stored(ac_model_file *file, int index, int64_t first, int64_t count,
                                    void *data) {
  const ac_tensor_entry *entry = &file->entries[index];
  if (entry->shard)
    return ac_model_file_read_stored(entry->shard, entry->shard_index, first, count, data);
  const size_t size = ac_dtype_bytes(entry->tensor.dtype);
  AC_TRY(seek_elements(file, entry, size, first, count));
  AC_TRY(read_exactly(file, data, (size_t)count * size));
  ac_swap_to_little_endian(data, (size_t)count, size);
  return AC_OK;
}

static ac_status checksum_data(ac_model_file *file, const ac_tensor_entry *entry,
                               uint64_t *checksum) {
  unsigned char buffer[1 << 15];
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  if (ac_seek(file->stream, file->data_begin + entry->begin, SEEK_SET) != 0)
    return ac_fail(AC_ERROR_IO, "cannot read %s: %s", file->path, strerror(errno));
  for (int64_t left = entry->end - entry->begin; left > 0;) {
    const size_t piece = left < (int64_t)sizeof buffer ? (size_t)left : sizeof buffer;
    AC_TRY(read_exactly(file, buffer, piece));
    XXH3_64bits_update(&state, buffer, piece);
    left -= (int64_t)piece;
  }
  *checksum = XXH3_64bits_digest(&state);
  return AC_OK;
}

/* Whether 16 digits, and nothing else, are this number. */
static bool is_checksum(const char *digits, uint64_t checksum) {
  char text[AC_CHECKSUM_DIGITS + 1];
  snprintf(text, sizeof text, "%016" PRIx64, checksum);
  return !strncmp(digits, text, AC_CHECKSUM_DIGITS);
}

/* Whether all tensors can be read as they are stored. */
static ac_status check_stored(const ac_model_file *file) {
  const char *other = file->unlisted;
  for (int i = 0; i < file->count && !other; i++)
    if (file->entries[i].storage == AC_STORED_F64 || file->entries[i].storage == AC_STORED_BLOCKS)
      other = file->entries[i].tensor.name;
  if (!other) return AC_OK;
  return ac_fail(AC_ERROR_FORMAT, "%s holds tensor %s in a dtype that no state has", file->path,
                 ac_quote(other).text);
}

ac_status ac_model_file_verify(ac_model_file *file) {
  const char *header = ac_model_file_metadata(file, AC_HEADER_CHECKSUM);
  const char *digits = ac_model_file_metadata(file, AC_TENSOR_CHECKSUMS);
  if (!header || !digits)
    return ac_fail(AC_ERROR_FORMAT, "%s has no checksums of all that it holds", file->path);
  if (strlen(header) != AC_CHECKSUM_DIGITS || !is_checksum(header, file->checksum))
    return ac_fail(AC_ERROR_FORMAT, "%s is damaged: its header does not match its checksum",
                   file->path);
  AC_TRY(check_stored(file));
  if (strlen(digits) != (size_t)file->count * AC_CHECKSUM_DIGITS)
    return ac_fail(AC_ERROR_FORMAT, "%s has no checksums of all that it holds", file->path);
  for (int i = 0; i < file->count; i++) {
    uint64_t checksum = 0;
    AC_TRY(checksum_data(file, &file->entries[i], &checksum));
    if (!is_checksum(digits + (size_t)i * AC_CHECKSUM_DIGITS, checksum))
      return ac_fail(AC_ERROR_FORMAT, "%s is damaged: tensor %s does not match its checksum",
                     file->path, ac_quote(file->entries[i].tensor.name).text);
  }
  return AC_OK;
}
