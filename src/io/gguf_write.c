/* Writes GGUF files (the format: gguf.c). The header is written piece by piece as well as the data,
 * which are pulled from the source as floats, at most 256 KiB at a time, and rounded to what is
 * stored. So writing takes neither a second copy of the model nor one of its vocabulary, and the
 * file takes its place only when it is whole and on disk. */
#include <accrue/gguf.h>

#include "core/error.h"
#include "core/half.h"
#include "core/platform/atomic_file.h"
#include "core/quote.h"
#include "core/utf8.h"
#include "io/blocks.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  PIECE = 64 << 10, /* elements: whole blocks of any format */
  MOST_TENSOR_NAME = 63,
  MOST_KEY = 65535,
  MOST_DIMENSIONS = 4,
  VERSION = 3,
  ALIGNMENT = 32
};

typedef struct writer {
  ac_atomic_file file;
  int64_t at; /* bytes so far */
} writer;

/* ---- what is written ------------------------------------------------------------------------- */

/* Of one element of a metadata value in memory, which is that in the file but for texts. */
static size_t element_bytes(ac_gguf_type type) {
  static const unsigned char bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return (unsigned)type < sizeof bytes ? bytes[type] : 0;
}

static ac_status check_value(const char *path, const ac_gguf_value *value, int index,
                             json_t *keys) {
  if (!value->key) return ac_fail(AC_ERROR_ARGUMENT, "%s: metadata %d has no key", path, index);
  const ac_quoted key = ac_quote(value->key);
  const size_t length = strlen(value->key);
  if (!length || length > MOST_KEY)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: the key of metadata %d has %zu bytes, not 1 to %d", path,
                   index, length, MOST_KEY);
  if (!element_bytes(value->type) && value->type != AC_GGUF_TEXT)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: metadata %s has unknown type %d", path, key.text,
                   (int)value->type);
  if (value->count < 0 || (!value->array && value->count != 1))
    return ac_fail(AC_ERROR_ARGUMENT, "%s: metadata %s has %" PRId64 " elements", path, key.text,
                   value->count);
  if (value->count && !value->data)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: metadata %s has no data", path, key.text);
  const char *const *texts = value->data;
  for (int64_t i = 0; value->type == AC_GGUF_TEXT && i < value->count; i++)
    if (!texts[i])
      return ac_fail(AC_ERROR_ARGUMENT, "%s: text %" PRId64 " of metadata %s is NULL", path, i,
                     key.text);
  if (json_object_get(keys, value->key))
    return ac_fail(AC_ERROR_ARGUMENT, "%s: metadata %s comes twice", path, key.text);
  if (!ac_is_utf8(value->key))
    return ac_fail(AC_ERROR_ARGUMENT, "%s: the key of metadata %d, %s, is not UTF-8", path, index,
                   key.text);
  if (json_object_set_new(keys, value->key, json_true()) != 0)
    return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its header", path);
  return AC_OK;
}

/* *elements of a row are a block of *bytes; 1 element where it is not in blocks. */
static bool type_size(ac_ggml_type type, int *elements, int *bytes) {
  const ac_block_format *blocks = ac_block_format_of((uint32_t)type);
  *elements = blocks ? blocks->elements : 1;
  *bytes = blocks ? blocks->bytes : type == AC_GGML_F32 ? 4 : 2;
  return blocks || type == AC_GGML_F32 || type == AC_GGML_F16 || type == AC_GGML_BF16;
}

static ac_status check_type(const char *path, const ac_gguf_tensor *tensor, const char *name) {
  int elements, bytes;
  if (!type_size(tensor->type, &elements, &bytes))
    return ac_fail(AC_ERROR_ARGUMENT, "%s: tensor %s has unknown type %d", path, name,
                   (int)tensor->type);
  const ac_block_format *blocks = ac_block_format_of((uint32_t)tensor->type);
  if (blocks && !blocks->encode && !tensor->stored)
    return ac_fail(AC_ERROR_UNSUPPORTED, "%s: tensor %s: floats cannot be rounded to %s here", path,
                   name, blocks->name);
  const int64_t row = tensor->shape[tensor->rank - 1];
  if (row % elements)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "%s: rows of tensor %s have %" PRId64 " elements, not whole blocks of %d (%s)",
                   path, name, row, elements, blocks ? blocks->name : "");
  return AC_OK;
}

static ac_status check_tensor(const char *path, const ac_gguf_tensor *tensor, int index,
                              json_t *names) {
  if (!tensor->name) return ac_fail(AC_ERROR_ARGUMENT, "%s: tensor %d has no name", path, index);
  const ac_quoted name = ac_quote(tensor->name);
  const size_t length = strlen(tensor->name);
  if (!length || length > MOST_TENSOR_NAME)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "%s: the name of tensor %d, %s, has %zu bytes, not 1 to %d, which llama.cpp has "
                   "room for",
                   path, index, name.text, length, MOST_TENSOR_NAME);
  if (tensor->rank < 1 || tensor->rank > MOST_DIMENSIONS)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: tensor %s has rank %d; it must be 1 to %d", path,
                   name.text, tensor->rank, MOST_DIMENSIONS);
  int64_t count = 8; /* bytes of an element are fewer */
  for (int d = 0; d < tensor->rank; d++) {
    if (tensor->shape[d] < 1 || count > INT64_MAX / 4 / tensor->shape[d])
      return ac_fail(AC_ERROR_ARGUMENT,
                     "%s: the shape of tensor %s has a dimension below 1, or "
                     "overflows",
                     path, name.text);
    count *= tensor->shape[d];
  }
  AC_TRY(check_type(path, tensor, name.text));
  if (json_object_get(names, tensor->name))
    return ac_fail(AC_ERROR_ARGUMENT, "%s: two tensors are named %s", path, name.text);
  if (!ac_is_utf8(tensor->name))
    return ac_fail(AC_ERROR_ARGUMENT, "%s: the name of tensor %d, %s, is not UTF-8", path, index,
                   name.text);
  if (json_object_set_new(names, tensor->name, json_true()) != 0)
    return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its header", path);
  return AC_OK;
}

static int64_t count_of(const ac_gguf_tensor *tensor) {
  int64_t count = 1;
  for (int d = 0; d < tensor->rank; d++) count *= tensor->shape[d];
  return count;
}

static int64_t bytes_of(const ac_gguf_tensor *tensor) {
  int elements = 1, bytes = 0;
  type_size(tensor->type, &elements, &bytes);
  return count_of(tensor) / elements * bytes;
}

static int64_t aligned(int64_t at, int64_t alignment) {
  return (at + alignment - 1) / alignment * alignment;
}

static ac_status find_alignment(const char *path, const ac_gguf_value *values, int count,
                                int64_t *alignment) {
  *alignment = ALIGNMENT;
  for (int i = 0; i < count; i++) {
    if (strcmp(values[i].key, "general.alignment") != 0) continue;
    if (values[i].type != AC_GGUF_U32 || values[i].array)
      return ac_fail(AC_ERROR_ARGUMENT, "%s: general.alignment is not one u32", path);
    *alignment = *(const uint32_t *)values[i].data;
  }
  if (*alignment >= 8 && *alignment <= 1 << 20 && !(*alignment & (*alignment - 1))) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "%s: general.alignment is %" PRId64 ", not a power of two from 8 to 1048576", path,
                 *alignment);
}

static ac_status check_all(const char *path, const ac_gguf_tensor *tensors, int tensor_count,
                           const ac_gguf_value *values, int value_count) {
  json_t *keys = json_object(), *names = json_object();
  ac_status status =
      keys && names ? AC_OK : ac_fail(AC_ERROR_MEMORY, "%s: no memory for its header", path);
  for (int i = 0; i < value_count && status == AC_OK; i++)
    status = check_value(path, &values[i], i, keys);
  for (int i = 0; i < tensor_count && status == AC_OK; i++)
    status = check_tensor(path, &tensors[i], i, names);
  json_decref(keys);
  json_decref(names);
  int64_t total = 0;
  for (int i = 0; i < tensor_count && status == AC_OK; i++) {
    if (bytes_of(&tensors[i]) > INT64_MAX / 4 - total)
      return ac_fail(AC_ERROR_ARGUMENT, "%s: the tensors up to %s overflow a file", path,
                     ac_quote(tensors[i].name).text);
    total += bytes_of(&tensors[i]) + (1 << 20);
  }
  return status;
}

/* ---- the header ------------------------------------------------------------------------------ */

static ac_status put(writer *w, const void *data, size_t bytes) {
  w->at += (int64_t)bytes;
  return ac_atomic_write(&w->file, data, bytes);
}

static ac_status put_number(writer *w, uint64_t value, int bytes) {
  unsigned char data[8];
  for (int i = 0; i < bytes; i++) data[i] = (unsigned char)(value >> 8 * i);
  return put(w, data, (size_t)bytes);
}

static ac_status put_text(writer *w, const char *text) {
  const size_t length = strlen(text);
  AC_TRY(put_number(w, length, 8));
  return put(w, text, length);
}

static ac_status put_padding(writer *w, int64_t alignment) {
  static const unsigned char zeros[64];
  for (int64_t left = aligned(w->at, alignment) - w->at; left > 0;) {
    const int64_t part = left < (int64_t)sizeof zeros ? left : (int64_t)sizeof zeros;
    AC_TRY(put(w, zeros, (size_t)part));
    left -= part;
  }
  return AC_OK;
}

/* An element of `size` bytes in the machine's order. */
static uint64_t number_at(const void *data, int64_t index, size_t size) {
  uint8_t one = 0;
  uint16_t two = 0;
  uint32_t four = 0;
  uint64_t eight = 0;
  const char *from = (const char *)data + (size_t)index * size;
  switch (size) {
  case 1:
    memcpy(&one, from, 1);
    return one;
  case 2:
    memcpy(&two, from, 2);
    return two;
  case 4:
    memcpy(&four, from, 4);
    return four;
  default:
    memcpy(&eight, from, 8);
    return eight;
  }
}

static ac_status put_value(writer *w, const ac_gguf_value *value) {
  enum { ARRAY = 9 };
  AC_TRY(put_text(w, value->key));
  if (value->array) AC_TRY(put_number(w, ARRAY, 4));
  AC_TRY(put_number(w, (uint64_t)value->type, 4));
  if (value->array) AC_TRY(put_number(w, (uint64_t)value->count, 8));
  const char *const *texts = value->data;
  const size_t size = element_bytes(value->type);
  for (int64_t i = 0; i < value->count; i++)
    AC_TRY(value->type == AC_GGUF_TEXT ? put_text(w, texts[i])
                                       : put_number(w, number_at(value->data, i, size), (int)size));
  return AC_OK;
}

static ac_status put_entry(writer *w, const ac_gguf_tensor *tensor, int64_t offset) {
  AC_TRY(put_text(w, tensor->name));
  AC_TRY(put_number(w, (uint64_t)tensor->rank, 4));
  for (int d = tensor->rank - 1; d >= 0; d--) AC_TRY(put_number(w, (uint64_t)tensor->shape[d], 8));
  AC_TRY(put_number(w, (uint64_t)tensor->type, 4));
  return put_number(w, (uint64_t)offset, 8);
}

static ac_status put_header(writer *w, const ac_gguf_tensor *tensors, int tensor_count,
                            const ac_gguf_value *values, int value_count, int64_t alignment) {
  AC_TRY(put(w, "GGUF", 4));
  AC_TRY(put_number(w, VERSION, 4));
  AC_TRY(put_number(w, (uint64_t)tensor_count, 8));
  AC_TRY(put_number(w, (uint64_t)value_count, 8));
  for (int i = 0; i < value_count; i++) AC_TRY(put_value(w, &values[i]));
  int64_t offset = 0;
  for (int i = 0; i < tensor_count; i++) {
    AC_TRY(put_entry(w, &tensors[i], offset));
    offset = aligned(offset + bytes_of(&tensors[i]), alignment);
  }
  return put_padding(w, alignment);
}

/* ---- the data -------------------------------------------------------------------------------- */

typedef struct pieces {
  float *floats; /* [PIECE]; also room for any stored form of as many elements */
  unsigned char *stored;
} pieces;

/* A source that is the library's own leaves a sentence about its failure; a caller's cannot. */
static ac_status pull(const writer *w, const ac_gguf_tensor *tensor, int index, int64_t first,
                      int64_t count, void *to, ac_gguf_source source, void *user) {
  const ac_kept_error before = ac_error_keep();
  const ac_status status = source(user, index, first, count, to);
  if (status == AC_OK) return AC_OK;
  const ac_quoted name = ac_quote(tensor->name);
  if (!ac_is_status(status))
    return ac_fail(AC_ERROR_IO, "%s: the source of tensor %s returned %d, which is not a status",
                   w->file.path, name.text, (int)status);
  if (!strcmp(before.sentence, ac_last_error()))
    return ac_fail(status, "%s: the source of tensor %s failed: %s", w->file.path, name.text,
                   ac_status_text(status));
  return ac_fail_prefix(status, "%s: the source of tensor %s failed", w->file.path, name.text);
}

/* The first element that is not finite, or becomes so; -1: none. */
static int64_t round_plain(ac_ggml_type type, const float *from, int64_t count, unsigned char *to) {
  int64_t bad = -1;
  for (int64_t i = count - 1; i >= 0; i--) {
    const uint32_t bits = type == AC_GGML_F32   ? ac_float_bits(from[i])
                          : type == AC_GGML_F16 ? ac_f16_from_float(from[i])
                                                : ac_bf16_from_float(from[i]);
    const uint32_t exponent = type == AC_GGML_F32   ? 0x7f800000u
                              : type == AC_GGML_F16 ? 0x7c00u
                                                    : 0x7f80u;
    const int size = type == AC_GGML_F32 ? 4 : 2;
    if ((bits & exponent) == exponent) bad = i;
    for (int k = 0; k < size; k++) to[i * size + k] = (unsigned char)(bits >> 8 * k);
  }
  return bad;
}

/* If the scale or the minimum of a block is not finite, an element is not, or is too large. */
static bool is_finite_half(const unsigned char *at) {
  return (at[1] & 0x7c) != 0x7c;
}

static int64_t round_blocks(ac_ggml_type type, const float *from, int64_t count,
                            unsigned char *to) {
  const ac_block_format *blocks = ac_block_format_of((uint32_t)type);
  for (int64_t i = 0; i < count; i += blocks->elements, to += blocks->bytes) {
    blocks->encode(from + i, to);
    if (!is_finite_half(to) || (type == AC_GGML_Q4_1 && !is_finite_half(to + 2))) return i;
  }
  return -1;
}

static ac_status refuse_float(const writer *w, const ac_gguf_tensor *tensor, int64_t element,
                              float value) {
  const ac_block_format *blocks = ac_block_format_of((uint32_t)tensor->type);
  if (blocks)
    return ac_fail(AC_ERROR_NOT_FINITE,
                   "%s is not written: one of elements %" PRId64 " to %" PRId64
                   " of tensor %s is not finite, or too large for %s",
                   w->file.path, element, element + blocks->elements - 1,
                   ac_quote(tensor->name).text, blocks->name);
  return ac_fail(AC_ERROR_NOT_FINITE, "%s is not written: element %" PRId64 " of tensor %s is %s",
                 w->file.path, element, ac_quote(tensor->name).text,
                 isfinite(value) ? "too large for 16 bits" : "not finite");
}

static ac_status put_piece(writer *w, const ac_gguf_tensor *tensor, int64_t first, int64_t count,
                           const pieces *p) {
  int elements = 1, bytes = 0;
  type_size(tensor->type, &elements, &bytes);
  const size_t stored = (size_t)(count / elements * bytes);
  if (tensor->stored) return put(w, p->floats, stored);
  const ac_block_format *blocks = ac_block_format_of((uint32_t)tensor->type);
  const int64_t bad = blocks ? round_blocks(tensor->type, p->floats, count, p->stored)
                             : round_plain(tensor->type, p->floats, count, p->stored);
  if (bad >= 0) return refuse_float(w, tensor, first + bad, p->floats[bad]);
  return put(w, p->stored, stored);
}

static ac_status put_data(writer *w, const ac_gguf_tensor *tensors, int tensor_count,
                          int64_t alignment, ac_gguf_source source, void *user, const pieces *p) {
  for (int i = 0; i < tensor_count; i++) {
    const int64_t elements = count_of(&tensors[i]);
    for (int64_t first = 0; first < elements; first += PIECE) {
      const int64_t count = elements - first < PIECE ? elements - first : PIECE;
      AC_TRY(pull(w, &tensors[i], i, first, count, p->floats, source, user));
      AC_TRY(put_piece(w, &tensors[i], first, count, p));
    }
    AC_TRY(put_padding(w, alignment)); /* the data begin at a multiple of it */
  }
  return AC_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

static ac_status write_file(const char *path, const ac_gguf_tensor *tensors, int tensor_count,
                            const ac_gguf_value *values, int value_count, int64_t alignment,
                            ac_gguf_source source, void *user, const pieces *p) {
  writer w = {.at = 0};
  AC_TRY(ac_atomic_open(&w.file, path));
  ac_status status = put_header(&w, tensors, tensor_count, values, value_count, alignment);
  if (status == AC_OK) status = put_data(&w, tensors, tensor_count, alignment, source, user, p);
  if (status == AC_OK) return ac_atomic_commit(&w.file);
  ac_atomic_abandon(&w.file);
  return status;
}

ac_status ac_gguf_write(const char *path, const ac_gguf_tensor *tensors, int tensor_count,
                        const ac_gguf_value *values, int value_count, ac_gguf_source source,
                        void *user) {
  AC_REQUIRE(path);
  if (tensor_count > 0) AC_REQUIRE(tensors);
  if (value_count > 0) AC_REQUIRE(values);
  if (tensor_count < 0 || value_count < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: a negative number of tensors or metadata", path);
  if (tensor_count && !source) return ac_fail(AC_ERROR_ARGUMENT, "ac_gguf_write: source is NULL");
  int64_t alignment = ALIGNMENT;
  AC_TRY(check_all(path, tensors, tensor_count, values, value_count));
  AC_TRY(find_alignment(path, values, value_count, &alignment));
  const pieces p = {malloc(PIECE * sizeof(float)), malloc(PIECE * sizeof(float))};
  ac_status status = p.floats && p.stored
                         ? write_file(path, tensors, tensor_count, values, value_count, alignment,
                                      source, user, &p)
                         : ac_fail(AC_ERROR_MEMORY, "%s: no memory for a piece of it", path);
  free(p.floats);
  free(p.stored);
  return status;
}
