/* The header of a GGUF file, version 2 or 3, little-endian:
 *
 *   "GGUF", u32 version, u64 tensors, u64 pairs
 *   pairs     key, u32 type, value; an array is u32 type, u64 count, values
 *   tensors   name, u32 dimensions, u64 sizes from the innermost one, u32 type, u64 offset
 *   padding   to a multiple of general.alignment (32)
 *   data      offsets count from here
 *
 * A text is u64 bytes and the bytes. Each length is checked against what is left of the file, so
 * that a hostile one costs no memory. Text values become metadata, and so do numbers, in digits;
 * arrays are passed over. */
#include "io/gguf_reader.h"

#include "io/safetensors.h"

#include "core/platform/numbers.h"

enum {
  MOST_DIMENSIONS = 4,
  MOST_TENSORS = 1 << 20,
  MOST_TEXT = 16 << 20, /* bytes of a text that is kept */
  LEAST_ENTRY = 24
};

/* ---- pairs ----------------------------------------------------------------------------------- */

static void write_number(char *text, size_t size, uint32_t type, uint64_t bits) {
  const uint32_t low = (uint32_t)bits;
  float single;
  double wide;
  memcpy(&single, &low, sizeof single);
  memcpy(&wide, &bits, sizeof wide);
  switch (type) {
  case I8:
    snprintf(text, size, "%d", (int8_t)bits);
    break;
  case I16:
    snprintf(text, size, "%d", (int16_t)bits);
    break;
  case I32:
    snprintf(text, size, "%" PRId32, (int32_t)bits);
    break;
  case I64:
    snprintf(text, size, "%" PRId64, (int64_t)bits);
    break;
  case F32:
    snprintf(text, size, "%.9g", (double)single);
    break;
  case F64:
    snprintf(text, size, "%.17g", wide);
    break;
  case BOOL:
    snprintf(text, size, "%s", bits ? "true" : "false");
    break;
  default:
    snprintf(text, size, "%" PRIu64, bits);
    break;
  }
}

static ac_status pass_array(reader *r, const char *key) {
  uint64_t type, count;
  json_object_set_new(r->file->arrays, key, json_true());
  AC_TRY(take_number(r, 4, &type));
  AC_TRY(take_number(r, 8, &count));
  if (type >= TYPES || type == ARRAY)
    return ac_fail(AC_ERROR_FORMAT, "%s: metadata %s is an array of an unknown type", r->file->path,
                   ac_quote(key).text);
  if (type != TEXT) {
    if (count > (uint64_t)r->left / value_bytes[type]) return truncated(r);
    return pass(r, count * value_bytes[type]);
  }
  for (uint64_t i = 0, bytes; i < count; i++) {
    AC_TRY(take_number(r, 8, &bytes));
    if (bytes > (uint64_t)r->left) return truncated(r);
    AC_TRY(pass(r, bytes));
  }
  return AC_OK;
}

/* Texts that are not UTF-8, hold a 0, or are longer than any that is asked for are left out. */
static ac_status keep_text(reader *r, const char *key, json_t *metadata) {
  uint64_t bytes;
  char *text = NULL;
  AC_TRY(take_number(r, 8, &bytes));
  if (bytes > (uint64_t)r->left) return truncated(r);
  if (bytes > MOST_TEXT) return pass(r, bytes);
  AC_TRY(take_bytes(r, &text, bytes));
  if (!memchr(text, 0, (size_t)bytes))
    json_object_set_new(metadata, key, json_stringn(text, (size_t)bytes));
  free(text);
  return AC_OK;
}

static ac_status take_value(reader *r, const char *key, uint32_t type, json_t *metadata) {
  char number[32];
  uint64_t bits;
  if (type == ARRAY) return pass_array(r, key);
  if (type == TEXT) return keep_text(r, key, metadata);
  if (type >= TYPES)
    return ac_fail(AC_ERROR_FORMAT, "%s: metadata %s is of an unknown type, %" PRIu32,
                   r->file->path, ac_quote(key).text, type);
  AC_TRY(take_number(r, value_bytes[type], &bits));
  const ac_plain_numbers plain = ac_plain_numbers_begin();
  write_number(number, sizeof number, type, bits);
  ac_plain_numbers_end(&plain);
  json_object_set_new(metadata, key, json_string(number));
  return AC_OK;
}

static ac_status take_pair(reader *r, json_t *metadata) {
  char *key;
  size_t length = 0;
  uint64_t type;
  AC_TRY(take_name(r, &key, &length));
  ac_status status = take_number(r, 4, &type);
  if (status == AC_OK && json_object_get(metadata, key))
    status =
        ac_fail(AC_ERROR_FORMAT, "%s: it has metadata %s twice", r->file->path, ac_quote(key).text);
  if (status == AC_OK) status = take_value(r, key, (uint32_t)type, metadata);
  free(key);
  return status;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static const struct {
  uint32_t type;
  const char *name;
  int bytes;
  ac_dtype dtype;
  ac_element_storage storage;
  bool listed;
} plain[] = {
    {0, "F32", 4, AC_F32, AC_STORED_F32, true},     {1, "F16", 2, AC_F16, AC_STORED_F16, true},
    {30, "BF16", 2, AC_BF16, AC_STORED_BF16, true}, {28, "F64", 8, AC_F32, AC_STORED_F64, true},
    {26, "I32", 4, AC_I32, AC_STORED_OTHER, true},  {24, "I8", 1, AC_F32, AC_STORED_OTHER, false},
    {25, "I16", 2, AC_F32, AC_STORED_OTHER, false}, {27, "I64", 8, AC_F32, AC_STORED_OTHER, false},
};

/* How elements of a type are stored; *elements of them take *bytes. */
static ac_status set_type(const reader *r, ac_tensor_entry *entry, uint32_t type, int64_t *elements,
                          int64_t *bytes, const char **name) {
  entry->blocks = ac_block_format_of(type);
  if (entry->blocks) {
    entry->storage = AC_STORED_BLOCKS;
    entry->tensor.dtype = AC_F32;
    entry->listed = true;
    *elements = entry->blocks->elements;
    *bytes = entry->blocks->bytes;
    *name = entry->blocks->name;
    return AC_OK;
  }
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
    if (plain[i].type != type) continue;
    entry->storage = plain[i].storage;
    entry->tensor.dtype = plain[i].dtype;
    entry->listed = plain[i].listed;
    *elements = 1;
    *bytes = plain[i].bytes;
    *name = plain[i].name;
    return AC_OK;
  }
  return ac_fail(AC_ERROR_UNSUPPORTED,
                 "%s: tensor %s is stored as ggml's type %" PRIu32
                 ", which this library cannot read",
                 r->file->path, ac_quote(entry->tensor.name).text, type);
}

/* Sizes come from the innermost one; *count is their product. Even without those that are 0 it does
 * not overflow, so that sizes may be multiplied in any order. */
static ac_status take_shape(reader *r, ac_model_tensor *tensor, int64_t *count) {
  uint64_t rank, size;
  int64_t most = 1;
  AC_TRY(take_number(r, 4, &rank));
  if (rank > MOST_DIMENSIONS)
    return ac_fail(AC_ERROR_FORMAT, "%s: tensor %s has %" PRIu64 " dimensions, more than %d",
                   r->file->path, ac_quote(tensor->name).text, rank, MOST_DIMENSIONS);
  tensor->rank = (int)rank;
  *count = 1;
  for (int d = tensor->rank - 1; d >= 0; d--) {
    AC_TRY(take_number(r, 8, &size));
    if (size > INT64_MAX / 16 || (size && most > INT64_MAX / 16 / (int64_t)size))
      return ac_fail(AC_ERROR_FORMAT, "%s: the shape of tensor %s overflows", r->file->path,
                     ac_quote(tensor->name).text);
    tensor->shape[d] = (int64_t)size;
    *count *= (int64_t)size;
    if (size) most *= (int64_t)size;
  }
  return AC_OK;
}

static ac_status take_entry(reader *r, ac_tensor_entry *entry, const char **dtype) {
  int64_t count = 0, elements = 1, bytes = 0;
  uint64_t type, offset;
  AC_TRY(take_shape(r, &entry->tensor, &count));
  AC_TRY(take_number(r, 4, &type));
  AC_TRY(take_number(r, 8, &offset));
  AC_TRY(set_type(r, entry, (uint32_t)type, &elements, &bytes, dtype));
  const int64_t row = entry->tensor.rank ? entry->tensor.shape[entry->tensor.rank - 1] : 1;
  if (row % elements)
    return ac_fail(AC_ERROR_FORMAT,
                   "%s: rows of tensor %s have %" PRId64 " elements, not whole blocks of "
                   "%" PRId64 " (%s)",
                   r->file->path, ac_quote(entry->tensor.name).text, row, elements, *dtype);
  if (offset > INT64_MAX / 2)
    return ac_fail(AC_ERROR_FORMAT, "%s: tensor %s lies beyond the end of the file", r->file->path,
                   ac_quote(entry->tensor.name).text);
  entry->begin = (int64_t)offset;
  entry->end = entry->begin + count / elements * bytes;
  return AC_OK;
}

static ac_status take_tensor(reader *r, ac_tensor_entry *entry) {
  char *name;
  size_t length = 0;
  const char *dtype = "";
  AC_TRY(take_name(r, &name, &length));
  entry->tensor.name = name;
  ac_status status = take_entry(r, entry, &dtype);
  if (status == AC_OK && json_object_get(r->file->root, name))
    status =
        ac_fail(AC_ERROR_FORMAT, "%s: it has two tensors %s", r->file->path, ac_quote(name).text);
  if (status == AC_OK &&
      (strlen(name) != length ||
       json_object_set_new(r->file->root, name, json_pack("{s:s}", "dtype", dtype)) != 0))
    status = ac_fail(AC_ERROR_FORMAT, "%s: the name of tensor %s is not UTF-8", r->file->path,
                     ac_quote(name).text);
  /* From now on the name is that in `root`. */
  if (status == AC_OK)
    entry->tensor.name = json_object_iter_key(json_object_iter_at(r->file->root, name));
  free(name);
  return status;
}

/* ---- the whole header ------------------------------------------------------------------------ */

static ac_status take_counts(reader *r, uint64_t *tensors, uint64_t *pairs) {
  uint64_t magic, version;
  AC_TRY(take_number(r, 4, &magic));
  AC_TRY(take_number(r, 4, &version));
  if (version != 2 && version != 3)
    return ac_fail(AC_ERROR_UNSUPPORTED, "%s is a GGUF file of version %" PRIu64 ", not 2 or 3",
                   r->file->path, version);
  AC_TRY(take_number(r, 8, tensors));
  AC_TRY(take_number(r, 8, pairs));
  if (*tensors > (uint64_t)r->left / LEAST_ENTRY) return truncated(r);
  AC_TRY(check_pairs(r, *pairs));
  if (*tensors > MOST_TENSORS)
    return ac_fail(AC_ERROR_UNSUPPORTED, "%s: it has %" PRIu64 " tensors, more than %d",
                   r->file->path, *tensors, MOST_TENSORS);
  return AC_OK;
}

static ac_status find_data(reader *r, int64_t file_bytes, const json_t *metadata) {
  const char *text = json_string_value(json_object_get(metadata, "general.alignment"));
  const long long alignment = text ? strtoll(text, NULL, 10) : 32;
  if (alignment < 1 || alignment > 1 << 20 || (alignment & (alignment - 1)))
    return ac_fail(AC_ERROR_FORMAT, "%s: general.alignment is %s", r->file->path,
                   ac_quote(text).text);
  const int64_t header = file_bytes - r->left;
  r->file->data_begin = (header + alignment - 1) / alignment * alignment;
  return AC_OK;
}

/* The data of each tensor are in the file; between them may be padding. */
static ac_status check_ends(const ac_model_file *file, int count, int64_t file_bytes) {
  for (int i = 0; i < count; i++)
    if (file->entries[i].end > file_bytes - file->data_begin)
      return ac_fail(AC_ERROR_FORMAT,
                     "%s: tensor %s ends beyond the end of the file; it is truncated or damaged",
                     file->path, ac_quote(file->entries[i].tensor.name).text);
  return AC_OK;
}

ac_status ac_gguf_read_header(ac_model_file *file, int64_t file_bytes) {
  reader r = {file, file_bytes};
  uint64_t tensors = 0, pairs = 0;
  AC_TRY(take_counts(&r, &tensors, &pairs));
  json_t *metadata = json_object();
  file->root = json_object();
  file->arrays = json_object();
  file->entries = calloc((size_t)tensors + 1, sizeof *file->entries);
  /* This takes the metadata also where it fails. */
  const int failed = json_object_set_new(file->root, AC_SAFETENSORS_METADATA, metadata);
  if (failed || !file->arrays || !file->entries)
    return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its tensors", file->path);
  for (uint64_t i = 0; i < pairs; i++) AC_TRY(take_pair(&r, metadata));
  for (uint64_t i = 0; i < tensors; i++) AC_TRY(take_tensor(&r, &file->entries[i]));
  AC_TRY(find_data(&r, file_bytes, metadata));
  AC_TRY(check_ends(file, (int)tensors, file_bytes));
  AC_TRY(ac_sort_entries(file, (int)tensors));
  ac_list_entries(file, (int)tensors);
  return AC_OK;
}
