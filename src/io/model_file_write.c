/* Writes safetensors files. Data are pulled from the source in pieces of at most 256 KiB, so
 * writing a model takes no second copy of it, and the file takes its place only when it is whole
 * and on disk. */
#include <accrue/model_file.h>

#include "core/platform/atomic_file.h"
#include "core/error.h"
#include "io/checksum.h"
#include "io/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 256 << 10 };

static const char *const dtype_names[AC_DTYPE_COUNT] = {
    [AC_F32] = "F32", [AC_F16] = "F16", [AC_BF16] = "BF16", [AC_I32] = "I32", [AC_U8] = "U8"};

/* ---- the header ------------------------------------------------------------------------------ */

static ac_status check_tensor(const char *path, const ac_model_tensor *tensor, int index,
                              int64_t *bytes) {
  if (!tensor->name) return ac_fail(AC_ERROR_ARGUMENT, "%s: tensor %d has no name", path, index);
  ac_quoted name = ac_quote(tensor->name);
  if (!strcmp(tensor->name, AC_SAFETENSORS_METADATA))
    return ac_fail(AC_ERROR_ARGUMENT, "%s: no tensor can be named %s", path, name.text);
  if ((unsigned)tensor->dtype >= AC_DTYPE_COUNT)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: tensor %s has unknown dtype %d", path, name.text,
                   (int)tensor->dtype);
  if (tensor->rank < 0 || tensor->rank > AC_SAFETENSORS_MAX_RANK)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: tensor %s has rank %d; it must be 0 to %d", path,
                   name.text, tensor->rank, AC_SAFETENSORS_MAX_RANK);
  *bytes = (int64_t)ac_dtype_bytes(tensor->dtype);
  for (int d = 0; d < tensor->rank; d++) {
    if (tensor->shape[d] < 0 || (tensor->shape[d] > 0 && *bytes > INT64_MAX / tensor->shape[d]))
      return ac_fail(AC_ERROR_ARGUMENT, "%s: the shape of tensor %s is negative or overflows", path,
                     name.text);
    *bytes *= tensor->shape[d];
  }
  return AC_OK;
}

static ac_status refuse_memory(const char *path) {
  return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its header", path);
}

static ac_status add_tensor(json_t *root, const char *path, const ac_model_tensor *tensor,
                            int index, int64_t *offset) {
  int64_t bytes = 0;
  AC_TRY(check_tensor(path, tensor, index, &bytes));
  ac_quoted name = ac_quote(tensor->name);
  if (bytes > INT64_MAX - *offset)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: the tensors up to %s overflow a file", path, name.text);
  if (json_object_get(root, tensor->name))
    return ac_fail(AC_ERROR_ARGUMENT, "%s: two tensors are named %s", path, name.text);
  json_t *shape = json_array();
  bool whole = shape;
  for (int d = 0; d < tensor->rank; d++)
    whole &= json_array_append_new(shape, json_integer(tensor->shape[d])) == 0;
  json_t *entry =
      json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype_names[tensor->dtype], "shape", shape,
                "data_offsets", (json_int_t)*offset, (json_int_t)(*offset + bytes));
  if (!entry || !whole) {
    json_decref(entry);
    return refuse_memory(path);
  }
  errno = 0;
  if (json_object_set_new(root, tensor->name, entry) != 0)
    return errno == ENOMEM
               ? refuse_memory(path)
               : ac_fail(AC_ERROR_ARGUMENT, "%s: the name of tensor %d, %s, is not UTF-8", path,
                         index, name.text);
  *offset += bytes;
  return AC_OK;
}

static ac_status add_metadata(json_t *root, const char *path, const ac_metadata *metadata,
                              int count) {
  if (!count) return AC_OK;
  json_t *object = json_object();
  if (!object || json_object_set_new(root, AC_SAFETENSORS_METADATA, object) != 0)
    return refuse_memory(path);
  for (int i = 0; i < count; i++) {
    if (!metadata[i].key || !metadata[i].value)
      return ac_fail(AC_ERROR_ARGUMENT, "%s: metadata %d has no key or no value", path, i);
    ac_quoted key = ac_quote(metadata[i].key);
    if (json_object_get(object, metadata[i].key))
      return ac_fail(AC_ERROR_ARGUMENT, "%s: metadata %s comes twice", path, key.text);
    errno = 0;
    if (json_object_set_new(object, metadata[i].key, json_string(metadata[i].value)) != 0)
      return errno == ENOMEM
                 ? refuse_memory(path)
                 : ac_fail(AC_ERROR_ARGUMENT, "%s: metadata %s is not UTF-8", path, key.text);
  }
  return AC_OK;
}

/* The JSON text, padded with spaces to 8 bytes so that readers may map the data. Not by json_dumps,
 * which does not notice it where a name had no memory. */
static char *dump_padded(const json_t *root) {
  size_t length = json_dumpb(root, NULL, 0, JSON_COMPACT), padded = (length + 7) / 8 * 8;
  char *text = length ? malloc(padded + 1) : NULL;
  if (!text) return NULL;
  if (json_dumpb(root, text, length, JSON_COMPACT) != length) {
    free(text);
    return NULL;
  }
  memset(text + length, ' ', padded - length);
  text[padded] = 0;
  return text;
}

/* The text of the header; free it. */
static ac_status make_header(char **header, const char *path, const ac_model_tensor *tensors,
                             int tensor_count, const ac_metadata *metadata, int metadata_count) {
  *header = NULL;
  json_t *root = json_object();
  if (!root) return refuse_memory(path);
  ac_status status = add_metadata(root, path, metadata, metadata_count);
  int64_t offset = 0;
  for (int i = 0; i < tensor_count && status == AC_OK; i++)
    status = add_tensor(root, path, &tensors[i], i, &offset);
  if (status == AC_OK && !(*header = dump_padded(root))) status = refuse_memory(path);
  json_decref(root);
  if (status == AC_OK && strlen(*header) > AC_SAFETENSORS_MAX_HEADER) {
    free(*header);
    *header = NULL;
    return ac_fail(AC_ERROR_ARGUMENT, "%s: names and metadata take more than %d bytes", path,
                   AC_SAFETENSORS_MAX_HEADER);
  }
  return status;
}

/* ---- the data -------------------------------------------------------------------------------- */

static void length_prefix(unsigned char prefix[8], const char *header) {
  for (int i = 0; i < 8; i++) prefix[i] = (unsigned char)((uint64_t)strlen(header) >> 8 * i);
}

static ac_status put_header(ac_atomic_file *file, const char *header) {
  unsigned char prefix[8];
  length_prefix(prefix, header);
  AC_TRY(ac_atomic_write(file, prefix, sizeof prefix));
  return ac_atomic_write(file, header, strlen(header));
}

/* A source that is the library's own leaves a sentence about its failure; a caller's cannot. */
static ac_status pull(const ac_atomic_file *file, const ac_model_tensor *tensor, int index,
                      int64_t first, int64_t count, void *piece, ac_model_source source,
                      void *user) {
  char before[1024];
  snprintf(before, sizeof before, "%s", ac_last_error());
  ac_status status = source(user, index, first, count, piece);
  if (status == AC_OK) return AC_OK;
  ac_quoted name = ac_quote(tensor->name);
  if (!ac_is_status(status))
    return ac_fail(AC_ERROR_IO, "%s: the source of tensor %s returned %d, which is not a status",
                   file->path, name.text, (int)status);
  if (!strcmp(before, ac_last_error()))
    return ac_fail(status, "%s: the source of tensor %s failed: %s", file->path, name.text,
                   ac_status_text(status));
  return ac_fail_prefix(status, "%s: the source of tensor %s failed", file->path, name.text);
}

/* Values with an exponent of all ones are infinite or NaN. The first loops do not stop early, so
 * that they are compiled to vectors; the place of the value is found after that. */
int64_t ac_first_not_finite(ac_dtype dtype, const void *data, int64_t count) {
  const uint32_t *words = data, of_words = 0x7f800000u;
  const uint16_t *halves = data, of_halves = dtype == AC_F16 ? 0x7c00u : 0x7f80u;
  uint32_t bad = 0;
  if (dtype != AC_F32 && dtype != AC_F16 && dtype != AC_BF16) return -1;
  for (int64_t i = 0; dtype == AC_F32 && i < count; i++) bad |= (words[i] & of_words) == of_words;
  for (int64_t i = 0; dtype != AC_F32 && i < count; i++)
    bad |= (halves[i] & of_halves) == of_halves;
  for (int64_t i = 0; bad; i++)
    if (dtype == AC_F32 ? (words[i] & of_words) == of_words : (halves[i] & of_halves) == of_halves)
      return i;
  return -1;
}

static ac_status check_finite(const ac_atomic_file *file, const ac_model_tensor *tensor,
                              int64_t first, int64_t count, const void *piece) {
  const int64_t bad = ac_first_not_finite(tensor->dtype, piece, count);
  if (bad < 0) return AC_OK;
  return ac_fail(AC_ERROR_NOT_FINITE,
                 "%s is not written: element %" PRId64 " of tensor %s is not finite", file->path,
                 first + bad, ac_quote(tensor->name).text);
}

static ac_status put_tensor(ac_atomic_file *file, const ac_model_tensor *tensor, int index,
                            bool finite, unsigned char *piece, ac_model_source source, void *user,
                            XXH3_state_t *checksum) {
  int64_t elements = 1;
  for (int d = 0; d < tensor->rank; d++) elements *= tensor->shape[d];
  size_t size = ac_dtype_bytes(tensor->dtype);
  int64_t most = PIECE_BYTES / (int64_t)size;
  for (int64_t first = 0; first < elements; first += most) {
    int64_t count = elements - first < most ? elements - first : most;
    AC_TRY(pull(file, tensor, index, first, count, piece, source, user));
    if (finite) AC_TRY(check_finite(file, tensor, first, count, piece));
    ac_swap_to_little_endian(piece, (size_t)count, size);
    XXH3_64bits_update(checksum, piece, (size_t)count * size);
    AC_TRY(ac_atomic_write(file, piece, (size_t)count * size));
  }
  return AC_OK;
}

/* ---- checksums ------------------------------------------------------------------------------- */

static void put_digits(char *digits, uint64_t checksum) {
  char text[AC_CHECKSUM_DIGITS + 1];
  snprintf(text, sizeof text, "%016" PRIx64, checksum);
  memcpy(digits, text, AC_CHECKSUM_DIGITS);
}

/* The caller's metadata, and room for the checksums of so many tensors; free it and `room`. */
static ac_metadata *with_checksums(const ac_metadata *metadata, int count, int tensor_count,
                                   char **room) {
  const size_t digits = (size_t)tensor_count * AC_CHECKSUM_DIGITS;
  ac_metadata *all = malloc(((size_t)count + 2) * sizeof *all);
  *room = malloc(digits + 1);
  if (!all || !*room) {
    free(all);
    free(*room);
    return NULL;
  }
  memset(*room, '0', digits);
  (*room)[digits] = 0;
  if (count) memcpy(all, metadata, (size_t)count * sizeof *all);
  all[count] = (ac_metadata){AC_HEADER_CHECKSUM, "0000000000000000"};
  all[count + 1] = (ac_metadata){AC_TENSOR_CHECKSUMS, *room};
  return all;
}

/* Once the data are written: the header again, with its own checksum. */
static ac_status seal(ac_atomic_file *file, char *header) {
  unsigned char prefix[8];
  length_prefix(prefix, header);
  put_digits(ac_checksum_digits(header, AC_HEADER_CHECKSUM),
             ac_header_checksum(prefix, header, strlen(header)));
  return ac_atomic_write_again(file, sizeof prefix, header, strlen(header));
}

/* ---- the file -------------------------------------------------------------------------------- */

static ac_status put_all(ac_atomic_file *file, char *header, const ac_model_tensor *tensors,
                         int tensor_count, ac_model_source source, void *user,
                         const ac_write_rules *rules) {
  unsigned char *piece = malloc(PIECE_BYTES);
  if (!piece) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for a piece of it", file->path);
  XXH3_state_t checksum;
  char *digits = rules->checksums ? ac_checksum_digits(header, AC_TENSOR_CHECKSUMS) : NULL;
  ac_status status = put_header(file, header);
  for (int i = 0; i < tensor_count && status == AC_OK; i++) {
    XXH3_64bits_reset(&checksum);
    status = put_tensor(file, &tensors[i], i, rules->finite && rules->finite[i], piece, source,
                        user, &checksum);
    if (digits) put_digits(digits + (size_t)i * AC_CHECKSUM_DIGITS, XXH3_64bits_digest(&checksum));
  }
  free(piece);
  return status == AC_OK && rules->checksums ? seal(file, header) : status;
}

static ac_status write_file(const char *path, const ac_model_tensor *tensors, int tensor_count,
                            const ac_metadata *metadata, int metadata_count, ac_model_source source,
                            void *user, const ac_write_rules *rules) {
  char *header;
  AC_TRY(make_header(&header, path, tensors, tensor_count, metadata, metadata_count));
  ac_atomic_file file;
  ac_status status = ac_atomic_open(&file, path);
  if (status == AC_OK) {
    status = put_all(&file, header, tensors, tensor_count, source, user, rules);
    if (status == AC_OK) status = ac_atomic_commit(&file);
    else ac_atomic_abandon(&file);
  }
  free(header);
  return status;
}

ac_status ac_model_file_write(const char *path, const ac_model_tensor *tensors, int tensor_count,
                              const ac_metadata *metadata, int metadata_count,
                              ac_model_source source, void *user) {
  AC_REQUIRE(path);
  if (tensor_count > 0) AC_REQUIRE(tensors);
  if (metadata_count > 0) AC_REQUIRE(metadata);
  if (tensor_count < 0 || metadata_count < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: a negative number of tensors or metadata", path);
  if (tensor_count && !source)
    return ac_fail(AC_ERROR_ARGUMENT, "ac_model_file_write: source is NULL");
  return write_file(path, tensors, tensor_count, metadata, metadata_count, source, user,
                    &(ac_write_rules){.checksums = false});
}

ac_status ac_model_file_write_by(const ac_write_rules *rules, const char *path,
                                 const ac_model_tensor *tensors, int tensor_count,
                                 const ac_metadata *metadata, int metadata_count,
                                 ac_model_source source, void *user) {
  char *room;
  if (!rules->checksums)
    return write_file(path, tensors, tensor_count, metadata, metadata_count, source, user, rules);
  ac_metadata *all = with_checksums(metadata, metadata_count, tensor_count, &room);
  if (!all) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its checksums", path);
  ac_status status =
      write_file(path, tensors, tensor_count, all, metadata_count + 2, source, user, rules);
  free(all);
  free(room);
  return status;
}
