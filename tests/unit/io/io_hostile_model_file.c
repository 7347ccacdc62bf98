/* Hostile safetensors files: each is refused with one sentence, and none crashes or leaks. */
#include "support/files.h"

#include <accrue/model_file.h>

/* Writes length, header and `data_bytes` bytes of data. */
static void write_header(const char *path, uint64_t length, const void *header, size_t header_bytes,
                         size_t data_bytes) {
  unsigned char *file = calloc(1, 8 + header_bytes + data_bytes);
  assert_non_null(file);
  for (int i = 0; i < 8; i++) file[i] = (unsigned char)(length >> 8 * i);
  memcpy(file + 8, header, header_bytes);
  write_file(path, file, 8 + header_bytes + data_bytes);
  free(file);
}

static ac_status open_header(ac_model_file **file, const char *header, size_t data_bytes) {
  test_path path = in_folder("model");
  write_header(path.text, strlen(header), header, strlen(header), data_bytes);
  return ac_model_file_open(file, path.text);
}

#define TENSOR(name, dtype, shape, begin, end)                                                   \
  "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end \
  "]}"

static void malformed_headers_are_named(void **state) {
  (void)state;
  static const struct {
    const char *header;
    size_t data_bytes;
    const char *mention;
  } cases[] = {
      {"", 0, "not valid JSON"},
      {"{", 0, "not valid JSON"},
      {"[]", 0, "not a JSON object"},
      {"7", 0, "not valid JSON"},
      {"{} x", 0, "not valid JSON"},
      {"{\"\xff\":1}", 0, "not valid JSON"},
      {"{\"a\\u0000b\":1}", 0,
       "tensor \"a\xef\xbf\xbd"
       "b\" is not described"},
      {"{\"a\":1}", 0, "tensor \"a\" is not described by an object"},
      {"{\"a\":null}", 0, "tensor \"a\" is not described"},
      {"{" TENSOR("a", "F32", "[1]", 0, 4) "," TENSOR("a", "F32", "[1]", 0, 4) "}", 4, "duplicate"},
      {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, "duplicate"},
      /* dtypes */
      {"{\"a\":{}}", 0, "tensor \"a\" has no dtype"},
      {"{\"a\":{\"dtype\":32}}", 0, "no dtype, or one that is not a string"},
      {"{" TENSOR("a\\u001b[2J\\n", "\\r", "-1", 0, 4) "}", 4, "tensor \"a?[2J?\""},
      /* shapes */
      {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "tensor \"a\" has no shape"},
      {"{" TENSOR("a", "F32", "1", 0, 4) "}", 4, "one that is not an array"},
      {"{" TENSOR("a", "F32", "{}", 0, 4) "}", 4, "one that is not an array"},
      {"{" TENSOR("a", "F32", "[1.0]", 0, 4) "}", 4, "dimension 0 of tensor \"a\""},
      {"{" TENSOR("a", "F32", "[1,\"1\"]", 0, 4) "}", 4, "dimension 1 of tensor \"a\""},
      {"{" TENSOR("a", "F32", "[-1,-1]", 0, 4) "}", 4, "dimension 0 of tensor \"a\""},
      {"{" TENSOR("a", "F32", "[4294967296,4294967296]", 0, 0) "}", 0, "\"a\" overflows"},
      {"{" TENSOR("a", "F32", "[2305843009213693953]", 0, 4) "}", 4, "\"a\" overflows"},
      {"{" TENSOR("a", "F32", "[99999999999999999999]", 0, 4) "}", 4, "not valid JSON"},
      {"{" TENSOR("a", "F32", "[2]", 0, 4) "}", 4,
       "has 4 bytes, but its dtype F32 and shape need 8"},
      {"{" TENSOR("a", "F16", "[1]", 0, 4) "}", 4, "need 2"},
      {"{" TENSOR("a", "F32", "[0]", 0, 4) "}", 4, "need 0"},
      {"{" TENSOR("a", "F4", "[3]", 0, 2) "}", 2, "need 2"},
      /* offsets */
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets of tensor \"a\""},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "not two integers"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", 4, "not two integers"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":\"04\"}}", 4, "not two integers"},
      {"{" TENSOR("a", "F32", "[1]", 0, 4.0) "}", 4, "not two integers"},
      {"{" TENSOR("a", "F32", "[1]", 4, 0) "}", 4, "[4, 0), which is not a range"},
      {"{" TENSOR("a", "F32", "[1]", -4, 0) "}", 4, "[-4, 0), which is not a range"},
      {"{" TENSOR("a", "F32", "[1]", 0, 4) "}", 3, "ends at byte 4 of the data, but the file has"},
      {"{" TENSOR("a", "U8", "[9223372036854775807]", 0, 9223372036854775807) "}", 4, "overflows"},
      {"{" TENSOR("a", "F32", "[1]", 9223372036854775803, 9223372036854775807) "}", 4,
       "ends at byte 9223372036854775807"},
      /* layout */
      {"{" TENSOR("a", "F32", "[2]", 0, 8) "," TENSOR("b", "F32", "[1]", 4, 8) "}", 8,
       "tensors \"a\" and \"b\" overlap"},
      {"{" TENSOR("a", "F32", "[1]", 0, 4) "," TENSOR("b", "F32", "[1]", 0, 4) "}", 4, "overlap"},
      {"{" TENSOR("b", "F32", "[1]", 8, 12) "," TENSOR("a", "F32", "[1]", 0, 4) "}", 12,
       "no tensor holds the 4 bytes before tensor \"b\""},
      {"{" TENSOR("a", "F32", "[1]", 4, 8) "}", 8, "no tensor holds the 4 bytes before"},
      {"{" TENSOR("a", "F32", "[1]", 0, 4) "}", 9, "no tensor holds the last 5 bytes"},
      {"{" TENSOR("a", "F32", "[0]", 4, 4) "}", 4, "no tensor holds the 4 bytes before"},
      {"{}", 1, "no tensor holds the last 1 bytes"},
      /* tensors that are skipped are checked too */
      {"{" TENSOR("a", "I64", "[1]", 0, 4) "}", 4, "dtype I64 and shape need 8"},
      {"{" TENSOR("a", "BOOL", "[4]", 0, 4) "," TENSOR("b", "F32", "[1]", 2, 6) "}", 6, "overlap"},
      /* metadata */
      {"{\"__metadata__\":[]}", 0, "__metadata__ is not an object"},
      {"{\"__metadata__\":{\"k\":1}}", 0, "metadata \"k\" is not text"},
  };
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    ac_model_file *file;
    assert_refused(open_header(&file, cases[c].header, cases[c].data_bytes), AC_ERROR_FORMAT,
                   cases[c].mention);
    assert_non_null(strstr(ac_last_error(), in_folder("model").text));
    assert_null(file);
  }
}

static void impossible_lengths_are_named(void **state) {
  (void)state;
  test_path path = in_folder("model");
  ac_model_file *file;
  static const struct {
    uint64_t length;
    const char *mention;
  } cases[] = {
      {3, "would have 3 bytes, but only 2 follow"},
      {100000000, "would have 100000000 bytes, but only 2 follow"},
      {100000001, "would have 100000001 bytes, more than 100000000"},
      {UINT64_C(1) << 63, "would have 9223372036854775808 bytes, more"},
      {UINT64_MAX - 7, "would have 18446744073709551608 bytes, more"},
      {UINT64_MAX, "would have 18446744073709551615 bytes, more"},
  };
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    write_header(path.text, cases[c].length, "{}", 2, 0);
    assert_refused(ac_model_file_open(&file, path.text), AC_ERROR_FORMAT, cases[c].mention);
  }
  for (size_t bytes = 0; bytes < 8; bytes++) {
    write_file(path.text, "\2\0\0\0\0\0\0", bytes);
    assert_refused(ac_model_file_open(&file, path.text), AC_ERROR_FORMAT, "it has only");
  }
  assert_refused(ac_model_file_open(&file, in_folder("none").text), AC_ERROR_IO,
                 "none: No such file");
  assert_int_not_equal(ac_model_file_open(&file, test_folder), AC_OK);
  assert_null(file);
}

/* Arrays in arrays must not exhaust the stack, nor many tensors the patience. */
static void deep_and_wide_headers_are_survived(void **state) {
  (void)state;
  enum { DEPTH = 1000000, TENSORS = 20000 };
  test_path path = in_folder("model");
  ac_model_file *file;
  char *deep = malloc(DEPTH);
  memset(deep, '[', DEPTH);
  write_header(path.text, DEPTH, deep, DEPTH, 0);
  assert_refused(ac_model_file_open(&file, path.text), AC_ERROR_FORMAT, "not valid JSON");
  free(deep);

  char *wide = malloc((size_t)TENSORS * 100), *end = wide;
  for (int i = 0; i < TENSORS; i++) /* in reverse */
    end += sprintf(end, "%c\"%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                   i ? ',' : '{', i, TENSORS - 1 - i, TENSORS - i);
  *end++ = '}';
  write_header(path.text, (uint64_t)(end - wide), wide, (size_t)(end - wide), TENSORS);
  free(wide);
  assert_ok(ac_model_file_open(&file, path.text));
  assert_int_equal(ac_model_file_tensor_count(file), TENSORS);
  assert_string_equal(ac_model_file_tensor(file, 0)->name, "19999");
  ac_model_file_close(file);
}

/* Unusual but right: another order, unknown keys, spaces, empty tensors, dtypes that are skipped,
 * f64. */
/* As the safetensors package of Python takes them (0.8.0; dtypes that it does not know later
 * versions may): none of these is a reason to refuse the tensors that are needed. */
static void what_is_not_needed_is_passed_over(void **state) {
  (void)state;
  static const char *const headers[] = {
      "{\"__metadata__\":null," TENSOR("a", "F32", "[1]", 0, 4) "}",
      "{" TENSOR("x", "F8_E4M3FNUZ", "[4]", 0, 4) "," TENSOR("a", "F32", "[1]", 4, 8) "}",
      "{" TENSOR("x", "F8_E5M2FNUZ", "[2,2]", 0, 4) "," TENSOR("a", "F32", "[1]", 4, 8) "}",
      "{" TENSOR("x", "Q7_NEW", "[3,5]", 0, 4) "," TENSOR("a", "F32", "[1]", 4, 8) "}",
      "{" TENSOR("x", "F32", "[1,1,1,1,1,1,1,1,1]", 0, 4) "," TENSOR("a", "F32", "[1]", 4, 8) "}",
      "{" TENSOR("x\\u0000y", "F32", "[1]", 0, 4) "," TENSOR("a", "F32", "[1]", 4, 8) "}",
      "{\"__metadata__\":{\"k\\\\u0000\":\"\\u0000\"}," TENSOR("a", "F32", "[1]", 0, 4) "}",
  };
  for (size_t c = 0; c < sizeof headers / sizeof *headers; c++) {
    ac_model_file *file;
    float value = 1;
    assert_ok(open_header(&file, headers[c], strstr(headers[c], "\"x") ? 8 : 4));
    const int index = ac_model_file_find(file, "a");
    assert_true(index >= 0);
    assert_ok(ac_model_file_read(file, index, 0, 1, &value));
    assert_true(value == 0);
    assert_int_equal(ac_model_file_find(file, "x"), -1);
    assert_null(ac_model_file_metadata(file, "k"));
    ac_model_file_close(file);
  }
  ac_model_file *file;
  assert_refused(open_header(&file, "{" TENSOR("x", "Q7_NEW", "[3,5]", 0, 4) "}", 5),
                 AC_ERROR_FORMAT, "no tensor holds the last 1 bytes");
}

static void what_the_format_allows_is_read(void **state) {
  (void)state;
  static const char header[] =
      "{\"second\": {\"data_offsets\": [8, 16], \"shape\": [1, 1], \"extra\": {\"x\": []}, "
      "\"dtype\": \"F64\"}, " TENSOR("empty", "F32", "[0,7]", 8, 8) ", " TENSOR(
          "mask", "BOOL", "[2]", 16, 18) ", " TENSOR("packed", "F4", "[4]", 18,
                                                     20) ", " TENSOR("long", "I64", "[]", 0,
                                                                     8) "}   \n ";
  enum { LENGTH = sizeof header - 1 };
  unsigned char file_bytes[8 + LENGTH + 20] = {LENGTH & 255, LENGTH >> 8};
  memcpy(file_bytes + 8, header, LENGTH);
  /* 1 + 2^-52 in f64, which is 1 in f32. */
  memcpy(file_bytes + 8 + LENGTH + 8, "\x01\0\0\0\0\0\xf0\x3f", 8);
  test_path path = in_folder("model");
  write_file(path.text, file_bytes, sizeof file_bytes);
  ac_model_file *file;
  assert_ok(ac_model_file_open(&file, path.text));
  assert_int_equal(ac_model_file_tensor_count(file), 2);
  assert_string_equal(ac_model_file_tensor(file, 0)->name, "empty");
  assert_string_equal(ac_model_file_tensor(file, 1)->name, "second");
  assert_int_equal(ac_model_file_tensor(file, 1)->dtype, AC_F32);
  assert_int_equal(ac_model_file_find(file, "mask"), -1);
  assert_int_equal(ac_model_file_find(file, "long"), -1);
  float value = 0;
  assert_ok(ac_model_file_read(file, 1, 0, 1, &value));
  assert_true(value == 1.0f);
  assert_ok(ac_model_file_read(file, 0, 0, 0, &value));
  ac_model_file_close(file);
}

/* Reads everything that an opened file offers. */
static void read_all(ac_model_file *file) {
  for (int t = 0; t < ac_model_file_tensor_count(file); t++) {
    const ac_model_tensor *tensor = ac_model_file_tensor(file, t);
    int64_t elements = 1;
    for (int d = 0; d < tensor->rank; d++) elements *= tensor->shape[d];
    float *data = malloc((size_t)elements * sizeof *data + 1);
    ac_status status = ac_model_file_read(file, t, 0, elements, data);
    assert_int_equal(status,
                     tensor->dtype == AC_I32 || tensor->dtype == AC_U8 ? AC_ERROR_ARGUMENT : AC_OK);
    free(data);
  }
}

static void changed_bytes_do_no_harm(void **state) {
  (void)state;
  static const char header[] =
      "{\"__metadata__\":{\"format\":\"pt\"}," TENSOR("wte", "F32", "[3,2]", 0, 24) "," TENSOR(
          "half", "F16", "[2,2]", 24,
          32) "," TENSOR("ids", "I32", "[2]", 32, 40) "," TENSOR("bf", "BF16", "[4]", 40, 48) "}";
  enum { LENGTH = sizeof header - 1, BYTES = 8 + LENGTH + 48 };
  unsigned char whole[BYTES] = {LENGTH & 255, LENGTH >> 8}, *data;
  memcpy(whole + 8, header, LENGTH);
  for (int i = 0; i < 48; i++) whole[8 + LENGTH + i] = (unsigned char)(i * 37);
  static const char likely[] = "0123456789[]{},:\"- FIUB\\e.";
  test_path path = in_folder("model");
  uint64_t seed = 3;
  int opened = 0;
  for (int round = 0; round < 6000; round++) {
    data = malloc(BYTES);
    memcpy(data, whole, BYTES);
    for (uint32_t changes = 1 + next_random(&seed) % 3; changes; changes--) {
      uint32_t at = next_random(&seed) % BYTES, what = next_random(&seed);
      /* Mostly what keeps the header close to JSON, or else the parser stops at once. */
      data[at] = what % 4 ? (unsigned char)likely[what / 4 % (sizeof likely - 1)]
                          : (unsigned char)(what >> 8);
    }
    write_file(path.text, data, next_random(&seed) % 8 ? BYTES : next_random(&seed) % BYTES);
    free(data);
    ac_model_file *file;
    if (ac_model_file_open(&file, path.text) == AC_OK) {
      read_all(file);
      opened++;
    } else {
      assert_null(strchr(ac_last_error(), '\n'));
    }
    ac_model_file_close(file);
  }
  assert_true(opened > 100); /* changed weights and names are fine */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(malformed_headers_are_named),
      cmocka_unit_test(impossible_lengths_are_named),
      cmocka_unit_test(deep_and_wide_headers_are_survived),
      cmocka_unit_test(what_is_not_needed_is_passed_over),
      cmocka_unit_test(what_the_format_allows_is_read),
      cmocka_unit_test(changed_bytes_do_no_harm),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
