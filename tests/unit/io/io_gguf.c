/* GGUF files: tests/vectors/blocks.gguf, written and decoded by the package gguf, and hostile ones.
 */
#include "support/files.h"

#include <accrue/model_file.h>

#include <stdlib.h>

#define BLOCKS ACCRUE_TEST_VECTORS "/blocks.gguf"

static int64_t elements_of(const ac_model_tensor *tensor) {
  int64_t count = 1;
  for (int d = 0; d < tensor->rank; d++) count *= tensor->shape[d];
  return count;
}

static float *read_range(ac_model_file *file, const char *name, int64_t first, int64_t count) {
  float *data = malloc((size_t)(count + 1) * sizeof *data);
  assert_non_null(data);
  assert_ok(ac_model_file_read(file, ac_model_file_find(file, name), first, count, data));
  return data;
}

/* Each tensor decodes to the reference's floats, bit for bit, as a whole and from any place on. */
static void blocks_decode_to_the_bits_of_the_reference(void **state) {
  (void)state;
  ac_model_file *file, *expected;
  assert_ok(ac_model_file_open(&file, BLOCKS));
  assert_ok(ac_model_file_open(&expected, ACCRUE_TEST_VECTORS "/blocks.safetensors"));
  assert_int_equal(ac_model_file_tensor_count(expected), 13);
  assert_int_equal(ac_model_file_tensor_count(file), 14);
  for (int i = 0; i < ac_model_file_tensor_count(expected); i++) {
    const ac_model_tensor *want = ac_model_file_tensor(expected, i);
    const ac_model_tensor *got = ac_model_file_tensor(file, ac_model_file_find(file, want->name));
    const int64_t count = elements_of(want);
    assert_non_null(got);
    assert_int_equal(got->rank, want->rank);
    assert_memory_equal(got->shape, want->shape, (size_t)want->rank * sizeof *want->shape);
    float *all = read_range(expected, want->name, 0, count);
    const int64_t firsts[] = {0, 1, 14, count / 2 + 1, count - 1, count};
    for (size_t f = 0; f < sizeof firsts / sizeof *firsts; f++) {
      const int64_t left = count - firsts[f], lengths[] = {left, left < 3 ? left : 3};
      for (int l = 0; l < 2; l++) {
        float *some = read_range(file, want->name, firsts[f], lengths[l]);
        assert_memory_equal(some, all + firsts[f], (size_t)lengths[l] * sizeof *some);
        free(some);
      }
    }
    free(all);
  }
  ac_model_file_close(expected);
  ac_model_file_close(file);
}

static void metadata_are_texts(void **state) {
  (void)state;
  ac_model_file *file;
  assert_ok(ac_model_file_open(&file, BLOCKS));
  assert_string_equal(ac_model_file_metadata(file, "general.architecture"), "llama");
  assert_string_equal(ac_model_file_metadata(file, "llama.block_count"), "2");
  assert_string_equal(ac_model_file_metadata(file, "llama.attention.layer_norm_rms_epsilon"),
                      "9.99999975e-06");
  assert_string_equal(ac_model_file_metadata(file, "tokenizer.ggml.add_bos_token"), "true");
  assert_string_equal(ac_model_file_metadata(file, "general.description"), "Gr\xc3\xb6\xc3\x9f"
                                                                           "e");
  assert_null(ac_model_file_metadata(file, "tokenizer.ggml.tokens"));
  assert_null(ac_model_file_metadata(file, "tokenizer.ggml.scores"));
  float number;
  const int integers = ac_model_file_find(file, "I32");
  assert_int_equal(ac_model_file_tensor(file, integers)->dtype, AC_I32);
  assert_refused(ac_model_file_read(file, integers, 0, 1, &number), AC_ERROR_ARGUMENT,
                 "holds i32, not floats");
  assert_refused(ac_model_file_read(file, ac_model_file_find(file, "Q4_K"), 1536, 1, &number),
                 AC_ERROR_ARGUMENT, "has 1536 elements");
  ac_model_file_close(file);
}

/* ---- hostile files --------------------------------------------------------------------------- */

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

static void begin(uint32_t version, uint64_t tensors, uint64_t pairs) {
  length = 0;
  put(0x46554747, 4);
  put(version, 4);
  put(tensors, 8);
  put(pairs, 8);
}

static void put_tensor(const char *name, uint32_t rank, uint64_t size, uint32_t type,
                       uint64_t offset) {
  put_text(name);
  put(rank, 4);
  for (uint32_t d = 0; d < rank && d < 8; d++) put(d ? 1 : size, 8);
  put(type, 4);
  put(offset, 8);
}

/* Data after the header. */
static void end(size_t data) {
  length = (length + 31) / 32 * 32;
  memset(written + length, 0, data);
  length += data;
}

static void refused(ac_status status, const char *mention) {
  ac_model_file *file;
  test_path path = in_folder("hostile.gguf");
  write_file(path.text, written, length);
  assert_refused(ac_model_file_open(&file, path.text), status, mention);
  assert_null(file);
}

static void malformed_files_are_named(void **state) {
  (void)state;
  begin(1, 0, 0), refused(AC_ERROR_UNSUPPORTED, "version 1");
  begin(3, UINT64_MAX, 0), refused(AC_ERROR_FORMAT, "beyond the end of the file");
  begin(3, 0, 1u << 30), refused(AC_ERROR_FORMAT, "beyond the end of the file");
  begin(3, 1, 0), end(64), length = 40, refused(AC_ERROR_FORMAT, "beyond the end of the file");

  begin(3, 0, 1), put_text("key"), put(99, 4), end(64);
  refused(AC_ERROR_FORMAT, "metadata \"key\" is of an unknown type, 99");
  begin(3, 0, 1), put_text("key"), put(9, 4), put(9, 4), put(1, 8), end(64);
  refused(AC_ERROR_FORMAT, "an array of an unknown type");
  begin(3, 0, 1), put_text("key"), put(9, 4), put(8, 4), put(UINT64_MAX, 8), end(64);
  refused(AC_ERROR_FORMAT, "beyond the end of the file");
  begin(3, 0, 1), put_text("key"), put(9, 4), put(10, 4), put(UINT64_MAX / 4, 8), end(64);
  refused(AC_ERROR_FORMAT, "beyond the end of the file");
  begin(3, 0, 2);
  for (int i = 0; i < 2; i++) put_text("key"), put(0, 4), put(1, 1);
  end(64), refused(AC_ERROR_FORMAT, "metadata \"key\" twice");
  begin(3, 0, 1), put_text("general.alignment"), put(4, 4), put(3, 4), end(64);
  refused(AC_ERROR_FORMAT, "general.alignment is \"3\"");

  begin(3, 1, 0), put_tensor("a", 9, 1, 0, 0), end(64);
  refused(AC_ERROR_FORMAT, "tensor \"a\" has 9 dimensions");
  begin(3, 1, 0), put_tensor("a", 1, UINT64_MAX, 0, 0), end(64);
  refused(AC_ERROR_FORMAT, "the shape of tensor \"a\" overflows");
  begin(3, 1, 0), put_text("a"), put(3, 4), put(0, 8), put(UINT64_C(1) << 40, 8);
  put(UINT64_C(1) << 40, 8), put(0, 4), put(0, 8), end(64);
  refused(AC_ERROR_FORMAT, "the shape of tensor \"a\" overflows");
  begin(3, 1, 0), put_tensor("a", 1, 4, 16, 0), end(64);
  refused(AC_ERROR_UNSUPPORTED, "tensor \"a\" is stored as ggml's type 16");
  begin(3, 1, 0), put_tensor("a", 1, 33, 8, 0), end(128);
  refused(AC_ERROR_FORMAT, "not whole blocks of 32 (Q8_0)");
  begin(3, 1, 0), put_tensor("a", 1, 32, 0, 0), end(64);
  refused(AC_ERROR_FORMAT, "tensor \"a\" ends beyond the end of the file");
  begin(3, 1, 0), put_tensor("a", 1, 4, 0, UINT64_MAX), end(64);
  refused(AC_ERROR_FORMAT, "tensor \"a\" lies beyond the end");
  begin(3, 2, 0), put_tensor("a", 1, 8, 0, 0), put_tensor("b", 1, 8, 0, 16), end(64);
  refused(AC_ERROR_FORMAT, "tensors \"a\" and \"b\" overlap");
  begin(3, 2, 0), put_tensor("a", 1, 8, 0, 0), put_tensor("a", 1, 8, 0, 32), end(64);
  refused(AC_ERROR_FORMAT, "two tensors \"a\"");
  begin(3, 1, 0), put_tensor("\xff", 1, 8, 0, 0), end(64);
  refused(AC_ERROR_FORMAT, "is not UTF-8");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_decode_to_the_bits_of_the_reference),
      cmocka_unit_test(metadata_are_texts),
      cmocka_unit_test(malformed_files_are_named),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
