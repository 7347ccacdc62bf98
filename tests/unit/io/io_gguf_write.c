/* GGUF files that are written: floats are rounded to the bits of the package gguf
 * (tests/vectors/rounded.safetensors), and what is written is what the readers find. */
#include "support/files.h"

#include <accrue/gguf.h>
#include <accrue/model_file.h>

#include "core/half.h"
#include "io/blocks.h"
#include "io/safetensors.h"

#include <dirent.h>
#include <math.h>
#include <stdlib.h>

#define ROUNDED ACCRUE_TEST_VECTORS "/rounded.safetensors"

static int64_t elements_of(const ac_model_tensor *tensor) {
  int64_t count = 1;
  for (int d = 0; d < tensor->rank; d++) count *= tensor->shape[d];
  return count;
}

/* ---- rounding -------------------------------------------------------------------------------- */

static ac_status give_floats(void *user, int index, int64_t first, int64_t count, void *data) {
  (void)index;
  memcpy(data, (const float *)user + first, (size_t)count * sizeof(float));
  return AC_OK;
}

/* The last `bytes` bytes of a file with one tensor are its data, without padding at the end. */
static void check_bytes(const char *path, const unsigned char *expected, size_t bytes,
                        const char *what) {
  size_t size;
  unsigned char *found = read_file(path, &size);
  const size_t padded = (bytes + 31) / 32 * 32;
  assert_true(size >= padded);
  for (size_t i = 0; i < bytes; i++)
    if (found[size - padded + i] != expected[i]) fail_msg("%s: byte %zu differs", what, i);
  free(found);
}

static void floats_are_rounded_to_the_bits_of_the_reference(void **state) {
  (void)state;
  static const struct {
    const char *name;
    ac_ggml_type type;
  } types[] = {{"Q4_0", AC_GGML_Q4_0},
               {"Q4_1", AC_GGML_Q4_1},
               {"Q8_0", AC_GGML_Q8_0},
               {"F16", AC_GGML_F16},
               {"BF16", AC_GGML_BF16}};
  ac_model_file *file;
  assert_ok(ac_model_file_open(&file, ROUNDED));
  const int floats = ac_model_file_find(file, "floats");
  const ac_model_tensor *from = ac_model_file_tensor(file, floats);
  const int64_t count = elements_of(from);
  float *values = malloc((size_t)count * sizeof *values);
  assert_ok(ac_model_file_read(file, floats, 0, count, values));
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    const int index = ac_model_file_find(file, types[i].name);
    const int64_t bytes = elements_of(ac_model_file_tensor(file, index));
    unsigned char *expected = malloc((size_t)bytes);
    assert_ok(ac_model_file_read_stored(file, index, 0, bytes, expected));
    const ac_gguf_tensor tensor = {
        .name = "t", .type = types[i].type, .rank = 2, .shape = {from->shape[0], from->shape[1]}};
    test_path path = in_folder("rounded.gguf");
    assert_ok(ac_gguf_write(path.text, &tensor, 1, NULL, 0, give_floats, values));
    check_bytes(path.text, expected, (size_t)bytes, types[i].name);
    free(expected);
  }
  free(values);
  ac_model_file_close(file);
}

/* What is decoded and rounded again stays the same. */
static void rounding_twice_changes_nothing(void **state) {
  (void)state;
  static const uint32_t types[] = {AC_GGML_Q4_0, AC_GGML_Q4_1, AC_GGML_Q8_0};
  uint64_t random = 3;
  for (int round = 0; round < 2000; round++) {
    const ac_block_format *format = ac_block_format_of(types[round % 3]);
    float from[32], once[32], twice[32];
    unsigned char block[40];
    for (int i = 0; i < 32; i++)
      from[i] = ldexpf((float)(int32_t)next_random(&random), -31 - round % 24);
    format->encode(from, block);
    format->decode(block, once);
    format->encode(once, block);
    format->decode(block, twice);
    for (int i = 0; i < 32; i++) {
      const float step = fabsf(once[i]) / 256 + 1e-7f;
      if (fabsf(twice[i] - once[i]) > step)
        fail_msg("%s: %g becomes %g", format->name, (double)once[i], (double)twice[i]);
    }
  }
}

static void what_does_not_fit_is_refused(void **state) {
  (void)state;
  static const struct {
    ac_ggml_type type;
    float value;
    const char *mention;
  } cases[] = {
      {AC_GGML_F32, INFINITY, "element 70 of tensor \"t\" is not finite"},
      {AC_GGML_F16, 65520, "element 70 of tensor \"t\" is too large for 16 bits"},
      {AC_GGML_BF16, NAN, "element 70 of tensor \"t\" is not finite"},
      {AC_GGML_Q8_0, 1e7f, "one of elements 64 to 95 of tensor \"t\" is not finite, or too large"},
      {AC_GGML_Q4_0, -INFINITY, "elements 64 to 95"},
      {AC_GGML_Q4_0, 6e5f, "too large for Q4_0"},
      {AC_GGML_Q4_1, 3e38f, "too large for Q4_1"},
      {AC_GGML_Q4_1, NAN, "too large for Q4_1"},
  };
  test_path path = in_folder("large.gguf");
  write_file(path.text, "old", 3);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    float values[128] = {0};
    values[70] = cases[i].value;
    values[71] = -cases[i].value;
    const ac_gguf_tensor tensor = {.name = "t", .type = cases[i].type, .rank = 2, .shape = {2, 64}};
    assert_refused(ac_gguf_write(path.text, &tensor, 1, NULL, 0, give_floats, values),
                   AC_ERROR_NOT_FINITE, cases[i].mention);
    size_t size;
    free(read_file(path.text, &size));
    assert_int_equal(size, 3);
  }
}

/* ---- there and back -------------------------------------------------------------------------- */

static const uint8_t u8 = 200;
static const int8_t i8 = -100;
static const uint16_t u16 = 60000;
static const int16_t i16 = -30000;
static const uint32_t u32 = 4000000000u, alignment = 64;
static const int32_t i32 = -2000000000, kinds[] = {1, -3, 6};
static const uint64_t u64 = UINT64_C(1) << 63;
static const int64_t i64 = INT64_MIN;
static const float f32 = 1e-5f, scores[] = {0, -1.5f};
static const double f64 = 0.1;
static const bool yes = true, bools[] = {true, false, true};
static const char *const llama = "llama", *const tokens[] = {"<s>", "",
                                                             "Gr\xc3\xb6\xc3\x9f"
                                                             "e",
                                                             "\xff"};

static const ac_gguf_value all_values[] = {
    {"general.architecture", AC_GGUF_TEXT, false, 1, &llama},
    {"general.alignment", AC_GGUF_U32, false, 1, &alignment},
    {"u8", AC_GGUF_U8, false, 1, &u8},
    {"i8", AC_GGUF_I8, false, 1, &i8},
    {"u16", AC_GGUF_U16, false, 1, &u16},
    {"i16", AC_GGUF_I16, false, 1, &i16},
    {"u32", AC_GGUF_U32, false, 1, &u32},
    {"i32", AC_GGUF_I32, false, 1, &i32},
    {"u64", AC_GGUF_U64, false, 1, &u64},
    {"i64", AC_GGUF_I64, false, 1, &i64},
    {"f32", AC_GGUF_F32, false, 1, &f32},
    {"f64", AC_GGUF_F64, false, 1, &f64},
    {"yes", AC_GGUF_BOOL, false, 1, &yes},
    {"tokens", AC_GGUF_TEXT, true, 4, tokens},
    {"scores", AC_GGUF_F32, true, 2, scores},
    {"kinds", AC_GGUF_I32, true, 3, kinds},
    {"bools", AC_GGUF_BOOL, true, 3, bools},
    {"none", AC_GGUF_TEXT, true, 0, NULL},
};
enum { VALUES = sizeof all_values / sizeof *all_values };

static void compare_values(const ac_gguf_value *a, const ac_gguf_value *b) {
  static const size_t bytes[] = {1, 1, 2, 2, 4, 4, 4, sizeof(bool), 0, 0, 8, 8, 8};
  assert_string_equal(a->key, b->key);
  assert_int_equal(a->type, b->type);
  assert_int_equal(a->array, b->array);
  assert_int_equal(a->count, b->count);
  const char *const *x = a->data, *const *y = b->data;
  if (a->type == AC_GGUF_TEXT)
    for (int64_t i = 0; i < a->count; i++) assert_string_equal(x[i], y[i]);
  else assert_memory_equal(a->data, b->data, (size_t)a->count * bytes[a->type]);
}

/* The source of one tensor of each type: its blocks are pieces of a sequence. */
enum { ROWS = 700, COLUMNS = 256 };
static float sequence_at(int index, int64_t i) {
  return (float)((i * 7919 + index * 131) % 1024 - 512) / 64;
}

static ac_status give_sequence(void *user, int index, int64_t first, int64_t count, void *data) {
  const ac_gguf_tensor *tensors = user;
  for (int64_t i = 0; !tensors[index].stored && i < count; i++)
    ((float *)data)[i] = sequence_at(index, first + i);
  if (tensors[index].stored) memset(data, 1, (size_t)(count / 256 * 144));
  return AC_OK;
}

static const ac_gguf_tensor all_tensors[] = {
    {"f32", AC_GGML_F32, false, 2, {ROWS, COLUMNS}},
    {"f16", AC_GGML_F16, false, 1, {5}},
    {"bf16", AC_GGML_BF16, false, 3, {2, 3, 5}},
    {"q8_0", AC_GGML_Q8_0, false, 2, {ROWS, COLUMNS}},
    {"q4_0", AC_GGML_Q4_0, false, 2, {ROWS, COLUMNS}},
    {"q4_1", AC_GGML_Q4_1, false, 4, {1, 1, 1, 32}},
    {"q4_k", AC_GGML_Q4_K, true, 2, {3, 512}},
};
enum { TENSORS = sizeof all_tensors / sizeof *all_tensors };

static void check_tensor(ac_model_file *file, int index) {
  const ac_gguf_tensor *want = &all_tensors[index];
  const int found = ac_model_file_find(file, want->name);
  const ac_model_tensor *got = ac_model_file_tensor(file, found);
  const ac_block_format *format = ac_block_format_of((uint32_t)want->type);
  assert_non_null(got);
  assert_int_equal(got->rank, want->rank);
  assert_memory_equal(got->shape, want->shape, (size_t)want->rank * sizeof *want->shape);
  const int64_t count = elements_of(got);
  float *values = malloc((size_t)count * sizeof *values);
  assert_ok(ac_model_file_read(file, found, 0, count, values));
  for (int64_t i = 0; !want->stored && i < count; i++) {
    float from[32], decoded[32], expected = sequence_at(index, i); /* exact in 16 bits */
    unsigned char block[40];
    if (want->type == AC_GGML_BF16) expected = ac_bf16_to_float(ac_bf16_from_float(expected));
    if (format) {
      for (int k = 0; k < 32; k++) from[k] = sequence_at(index, i / 32 * 32 + k);
      format->encode(from, block);
      format->decode(block, decoded);
      expected = decoded[i % 32];
    }
    if (values[i] != expected) fail_msg("%s: element %lld", want->name, (long long)i);
  }
  free(values);
}

static void what_is_written_is_read(void **state) {
  (void)state;
  test_path path = in_folder("all.gguf");
  assert_ok(ac_gguf_write(path.text, all_tensors, TENSORS, all_values, VALUES, give_sequence,
                          (void *)all_tensors));
  ac_gguf_metadata *metadata;
  assert_ok(ac_gguf_metadata_open(&metadata, path.text));
  assert_int_equal(ac_gguf_metadata_count(metadata), VALUES);
  for (int i = 0; i < VALUES; i++) {
    compare_values(ac_gguf_metadata_at(metadata, i), &all_values[i]);
    assert_ptr_equal(ac_gguf_metadata_find(metadata, all_values[i].key),
                     ac_gguf_metadata_at(metadata, i));
  }
  assert_null(ac_gguf_metadata_at(metadata, VALUES));
  assert_null(ac_gguf_metadata_at(metadata, -1));
  assert_null(ac_gguf_metadata_find(metadata, "nothing"));
  ac_gguf_metadata_close(metadata);

  ac_model_file *file;
  assert_ok(ac_model_file_open(&file, path.text));
  assert_int_equal(ac_model_file_tensor_count(file), TENSORS);
  for (int i = 0; i < TENSORS; i++) check_tensor(file, i);
  ac_model_file_close(file);
}

/* Values that are read can be written again: the same bytes. */
static void metadata_are_carried(void **state) {
  (void)state;
  ac_gguf_metadata *metadata;
  test_path first = in_folder("first.gguf"), second = in_folder("second.gguf");
  assert_ok(ac_gguf_write(first.text, NULL, 0, all_values, VALUES, NULL, NULL));
  assert_ok(ac_gguf_metadata_open(&metadata, first.text));
  assert_ok(ac_gguf_write(second.text, NULL, 0, ac_gguf_metadata_at(metadata, 0),
                          ac_gguf_metadata_count(metadata), NULL, NULL));
  ac_gguf_metadata_close(metadata);
  size_t size, size_again;
  unsigned char *a = read_file(first.text, &size), *b = read_file(second.text, &size_again);
  assert_int_equal(size, size_again);
  assert_memory_equal(a, b, size);
  free(a);
  free(b);
}

/* A file of the package's: its arrays as well. */
static void arrays_of_the_reference_are_read(void **state) {
  (void)state;
  ac_gguf_metadata *metadata;
  assert_ok(ac_gguf_metadata_open(&metadata, ACCRUE_TEST_VECTORS "/blocks.gguf"));
  const ac_gguf_value *names = ac_gguf_metadata_find(metadata, "tokenizer.ggml.tokens");
  assert_non_null(names);
  assert_int_equal(names->type, AC_GGUF_TEXT);
  assert_int_equal(names->count, 3);
  assert_string_equal(((const char *const *)names->data)[2], "<s>");
  const ac_gguf_value *numbers = ac_gguf_metadata_find(metadata, "tokenizer.ggml.scores");
  assert_int_equal(numbers->type, AC_GGUF_F32);
  assert_true(((const float *)numbers->data)[1] == 1.5f);
  ac_gguf_metadata_close(metadata);
}

/* ---- refused --------------------------------------------------------------------------------- */

static void refuse_value(ac_gguf_value value, const char *mention) {
  test_path path = in_folder("refused.gguf");
  assert_refused(ac_gguf_write(path.text, NULL, 0, &value, 1, NULL, NULL), AC_ERROR_ARGUMENT,
                 mention);
  assert_int_not_equal(access(path.text, F_OK), 0);
}

static void bad_values_are_named(void **state) {
  (void)state;
  const char *const none = NULL;
  const uint32_t odd = 48;
  refuse_value((ac_gguf_value){NULL, AC_GGUF_U8, false, 1, &u8}, "metadata 0 has no key");
  refuse_value((ac_gguf_value){"", AC_GGUF_U8, false, 1, &u8}, "has 0 bytes");
  refuse_value((ac_gguf_value){"\xff", AC_GGUF_U8, false, 1, &u8}, "is not UTF-8");
  refuse_value((ac_gguf_value){"a", 9, false, 1, &u8}, "\"a\" has unknown type 9");
  refuse_value((ac_gguf_value){"a", 13, false, 1, &u8}, "unknown type 13");
  refuse_value((ac_gguf_value){"a", AC_GGUF_U8, false, 2, &u8}, "has 2 elements");
  refuse_value((ac_gguf_value){"a", AC_GGUF_U8, true, -1, &u8}, "has -1 elements");
  refuse_value((ac_gguf_value){"a", AC_GGUF_U8, true, 1, NULL}, "has no data");
  refuse_value((ac_gguf_value){"a", AC_GGUF_TEXT, true, 1, &none}, "text 0 of metadata \"a\"");
  refuse_value((ac_gguf_value){"general.alignment", AC_GGUF_U32, false, 1, &odd}, "is 48");
  refuse_value((ac_gguf_value){"general.alignment", AC_GGUF_U8, false, 1, &u8}, "not one u32");
  const ac_gguf_value twice[] = {all_values[2], all_values[2]};
  test_path path = in_folder("refused.gguf");
  assert_refused(ac_gguf_write(path.text, NULL, 0, twice, 2, NULL, NULL), AC_ERROR_ARGUMENT,
                 "metadata \"u8\" comes twice");
}

static void refuse_tensor(ac_gguf_tensor tensor, ac_status status, const char *mention) {
  test_path path = in_folder("refused.gguf");
  const ac_gguf_tensor both[] = {{"first", AC_GGML_F32, false, 1, {4}}, tensor};
  assert_refused(ac_gguf_write(path.text, both, 2, NULL, 0, give_sequence, (void *)both), status,
                 mention);
  assert_int_not_equal(access(path.text, F_OK), 0);
}

static void bad_tensors_are_named(void **state) {
  (void)state;
  const ac_status bad = AC_ERROR_ARGUMENT;
  const int64_t huge = INT64_C(1) << 40;
  char name[70];
  memset(name, 'n', sizeof name);
  name[64] = 0;
  refuse_tensor((ac_gguf_tensor){name, 0, false, 1, {4}}, bad, "has 64 bytes, not 1 to 63");
  refuse_tensor((ac_gguf_tensor){NULL, 0, false, 1, {4}}, bad, "tensor 1 has no name");
  refuse_tensor((ac_gguf_tensor){"", 0, false, 1, {4}}, bad, "has 0 bytes");
  refuse_tensor((ac_gguf_tensor){"\xff", 0, false, 1, {4}}, bad, "is not UTF-8");
  refuse_tensor((ac_gguf_tensor){"first", 0, false, 1, {4}}, bad, "two tensors are named");
  refuse_tensor((ac_gguf_tensor){"t", 0, false, 0, {4}}, bad, "has rank 0");
  refuse_tensor((ac_gguf_tensor){"t", 0, false, 5, {4}}, bad, "has rank 5");
  refuse_tensor((ac_gguf_tensor){"t", 0, false, 2, {4, 0}}, bad, "a dimension below 1");
  refuse_tensor((ac_gguf_tensor){"t", 0, false, 2, {4, -4}}, bad, "a dimension below 1");
  refuse_tensor((ac_gguf_tensor){"t", 0, false, 2, {huge, huge}}, bad, "overflows");
  refuse_tensor((ac_gguf_tensor){"t", 4, false, 1, {4}}, bad, "\"t\" has unknown type 4");
  refuse_tensor((ac_gguf_tensor){"t", -1, false, 1, {4}}, bad, "unknown type -1");
  refuse_tensor((ac_gguf_tensor){"t", AC_GGML_Q8_0, false, 2, {2, 16}}, bad,
                "have 16 elements, not whole blocks of 32 (Q8_0)");
  refuse_tensor((ac_gguf_tensor){"t", AC_GGML_Q4_K, true, 1, {128}}, bad, "blocks of 256");
  refuse_tensor((ac_gguf_tensor){"t", AC_GGML_Q6_K, false, 1, {256}}, AC_ERROR_UNSUPPORTED,
                "cannot be rounded to Q6_K");
  test_path path = in_folder("refused.gguf");
  assert_refused(ac_gguf_write(path.text, all_tensors, 1, NULL, 0, NULL, NULL), bad,
                 "source is NULL");
  assert_refused(ac_gguf_write(path.text, all_tensors, -1, NULL, 0, give_sequence, NULL), bad,
                 "negative");
  assert_refused(ac_gguf_write(test_folder, NULL, 0, NULL, 0, NULL, NULL), AC_ERROR_IO, "a folder");
}

static ac_status fail_at_the_second(void *user, int index, int64_t first, int64_t count,
                                    void *data) {
  memset(data, 0, (size_t)count * sizeof(float));
  return index == 1 && first > 0 ? *(const ac_status *)user : AC_OK;
}

static void a_source_that_fails_leaves_the_old_file(void **state) {
  (void)state;
  const ac_gguf_tensor both[] = {{"first", AC_GGML_F32, false, 1, {4}},
                                 {"second", AC_GGML_Q8_0, false, 2, {ROWS, COLUMNS}}};
  ac_status returned = AC_ERROR_STATE;
  test_path path = in_folder("kept.gguf");
  write_file(path.text, "old", 3);
  assert_refused(ac_gguf_write(path.text, both, 2, NULL, 0, fail_at_the_second, &returned),
                 AC_ERROR_STATE, "the source of tensor \"second\" failed");
  returned = (ac_status)99;
  assert_refused(ac_gguf_write(path.text, both, 2, NULL, 0, fail_at_the_second, &returned),
                 AC_ERROR_IO, "returned 99, which is not a status");
  size_t size;
  unsigned char *found = read_file(path.text, &size);
  assert_int_equal(size, 3);
  free(found);
  DIR *folder = opendir(test_folder);
  for (struct dirent *entry; (entry = readdir(folder));)
    assert_null(strstr(entry->d_name, "kept.gguf."));
  closedir(folder);
}

/* ---- hostile metadata ------------------------------------------------------------------------ */

static unsigned char written[4096];
static size_t length;

static void put(uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) written[length++] = (unsigned char)(value >> 8 * i);
}

static void put_text(const char *text) {
  put(strlen(text), 8);
  memcpy(written + length, text, strlen(text));
  length += strlen(text);
}

static void begin(uint32_t version, uint64_t pairs) {
  length = 0;
  put(0x46554747, 4), put(version, 4), put(0, 8), put(pairs, 8);
}

static void refuse_metadata(ac_status status, const char *mention) {
  ac_gguf_metadata *metadata;
  test_path path = in_folder("hostile.gguf");
  write_file(path.text, written, length);
  assert_refused(ac_gguf_metadata_open(&metadata, path.text), status, mention);
  assert_null(metadata);
}

static void malformed_metadata_are_named(void **state) {
  (void)state;
  const ac_status bad = AC_ERROR_FORMAT;
  length = 0, refuse_metadata(bad, "has only 0 bytes");
  write_file(in_folder("other").text, "{}", 2);
  begin(3, 0), written[0] = 'J', refuse_metadata(bad, "is not a GGUF file");
  begin(1, 0), refuse_metadata(AC_ERROR_UNSUPPORTED, "version 1");
  begin(3, UINT64_MAX), refuse_metadata(bad, "beyond the end");
  begin(3, 1), put(UINT64_MAX, 8), put(0, 8), refuse_metadata(bad, "beyond the end");
  begin(3, 1), put_text("key"), put(13, 4), put(0, 8),
      refuse_metadata(bad, "a value of an unknown");
  begin(3, 1), put_text("key"), put(9, 4), put(9, 4), put(1, 8), put(0, 8);
  refuse_metadata(bad, "\"key\" is an array of an unknown type, 9");
  begin(3, 1), put_text("key"), put(9, 4), put(10, 4), put(UINT64_MAX / 8, 8);
  refuse_metadata(bad, "beyond the end");
  begin(3, 1), put_text("key"), put(9, 4), put(8, 4), put(UINT64_MAX / 8, 8), put(0, 8);
  refuse_metadata(bad, "beyond the end");
  begin(3, 1), put_text("key"), put(9, 4), put(8, 4), put(2, 8), put(0, 8), put(UINT64_MAX, 8);
  refuse_metadata(bad, "beyond the end");
  begin(3, 2);
  for (int i = 0; i < 2; i++) put_text("key"), put(0, 4), put(1, 1);
  refuse_metadata(bad, "metadata \"key\" twice");
}

static void texts_with_zeros_are_left_out(void **state) {
  (void)state;
  ac_gguf_metadata *metadata;
  test_path path = in_folder("zeros.gguf");
  begin(3, 3);
  put_text("zero"), put(8, 4), put(3, 8), put('a', 3);
  put_text("zeros"), put(9, 4), put(8, 4), put(2, 8), put_text("b"), put(1, 8), put(0, 1);
  put_text("fine"), put(8, 4), put_text("c");
  write_file(path.text, written, length);
  assert_ok(ac_gguf_metadata_open(&metadata, path.text));
  assert_int_equal(ac_gguf_metadata_count(metadata), 1);
  assert_null(ac_gguf_metadata_find(metadata, "zero"));
  assert_null(ac_gguf_metadata_find(metadata, "zeros"));
  const ac_gguf_value *fine = ac_gguf_metadata_find(metadata, "fine");
  assert_string_equal(*(const char *const *)fine->data, "c");
  ac_gguf_metadata_close(metadata);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(floats_are_rounded_to_the_bits_of_the_reference),
      cmocka_unit_test(rounding_twice_changes_nothing),
      cmocka_unit_test(what_does_not_fit_is_refused),
      cmocka_unit_test(what_is_written_is_read),
      cmocka_unit_test(metadata_are_carried),
      cmocka_unit_test(arrays_of_the_reference_are_read),
      cmocka_unit_test(bad_values_are_named),
      cmocka_unit_test(bad_tensors_are_named),
      cmocka_unit_test(a_source_that_fails_leaves_the_old_file),
      cmocka_unit_test(malformed_metadata_are_named),
      cmocka_unit_test(texts_with_zeros_are_left_out),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
