/* PyTorch's files: tests/vectors/tensors.pth and tensors_old.pth, both forms of torch.save
 * (tests/vectors/image_models.py), and hostile ones, which are refused by name. */
#include "support/files.h"

#include <accrue/model_file.h>

#include <stdlib.h>

static float *values_of(ac_model_file *file, const char *name, int64_t count) {
  float *data = malloc((size_t)(count + 1) * sizeof *data);
  const int index = ac_model_file_find(file, name);
  assert_non_null(data);
  if (index < 0) fail_msg("there is no tensor %s", name);
  assert_ok(ac_model_file_read(file, index, 0, count, data));
  return data;
}

static void check_row(ac_model_file *file, const char *name, int64_t count, float first,
                      float step) {
  float *data = values_of(file, name, count);
  for (int64_t i = 0; i < count; i++)
    if (data[i] != first + step * (float)i)
      fail_msg("element %d of %s is %g", (int)i, name, (double)data[i]);
  free(data);
}

/* What the script makes: plain [4, 6] counts from 0, and others are parts of it. */
static void check_tensors(const char *path) {
  ac_model_file *file;
  assert_ok(ac_model_file_open(&file, path));
  check_row(file, "plain", 24, 0, 1);
  check_row(file, "half", 6, 0, 1);
  check_row(file, "bf16", 6, 6, 1);
  check_row(file, "double", 6, 12, 1);
  check_row(file, "scalar", 1, 2.5f, 0);
  const ac_model_tensor *turned =
      ac_model_file_tensor(file, ac_model_file_find(file, "transposed"));
  assert_int_equal(turned->rank, 2);
  assert_int_equal(turned->shape[0], 6);
  assert_int_equal(turned->shape[1], 4);
  float *data = values_of(file, "transposed", 24);
  for (int i = 0; i < 24; i++) assert_true(data[i] == (float)(i % 4 * 6 + i / 4));
  free(data);
  data = values_of(file, "part", 6);
  for (int i = 0; i < 6; i++) assert_true(data[i] == (float)((1 + i / 3) * 6 + 2 + i % 3));
  free(data);
  /* Any range of a tensor that is stored by strides. */
  float three[3];
  const int part = ac_model_file_find(file, "part");
  assert_ok(ac_model_file_read(file, part, 2, 3, three));
  assert_true(three[0] == 10 && three[1] == 14 && three[2] == 15);
  assert_refused(ac_model_file_read(file, part, 4, 3, three), AC_ERROR_ARGUMENT,
                 "has 6 elements; [4, 4 + 3) are not among them");
  /* A counter is left out, and an empty tensor is there. */
  assert_int_equal(ac_model_file_find(file, "counter"), -1);
  assert_true(ac_model_file_find(file, "integer") >= 0);
  assert_true(ac_model_file_find(file, "empty") >= 0);
  assert_int_equal(ac_model_file_tensor_count(file), 9);
  ac_model_file_close(file);
}

static void archives_are_read(void **state) {
  (void)state;
  check_tensors(ACCRUE_TEST_VECTORS "/tensors.pth");
}

static void older_files_are_read(void **state) {
  (void)state;
  check_tensors(ACCRUE_TEST_VECTORS "/tensors_old.pth");
}

/* ---- hostile files --------------------------------------------------------------------------- */

/* An old file with this pickle as its description. */
static void write_pickle(const char *pickle, size_t bytes, char path[512]) {
  static const char begin[] = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e"
                              "\x80\x02M\xe9\x03."
                              "\x80\x02}X\x0d\0\0\0little_endian\x88s.";
  unsigned char file[2048];
  const test_path to = in_folder("hostile.pth");
  assert_true(bytes + sizeof begin < sizeof file);
  memcpy(file, begin, sizeof begin - 1);
  memcpy(file + sizeof begin - 1, pickle, bytes);
  write_file(to.text, file, sizeof begin - 1 + bytes);
  strcpy(path, to.text);
}

#define REFUSED(pickle, status, text)                                              \
  do {                                                                             \
    char refused_path[512];                                                        \
    ac_model_file *refused_file;                                                   \
    write_pickle(pickle, sizeof pickle - 1, refused_path);                         \
    assert_refused(ac_model_file_open(&refused_file, refused_path), status, text); \
    assert_null(refused_file);                                                     \
  } while (0)

#define STORAGE                                      \
  "(X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" \
  "0X\3\0\0\0cpuK\2tQ"
#define TENSOR(offset, sizes, strides)                                           \
  "ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE "K" offset sizes strides "\x89" \
  "}tR"
#define ONE_TENSOR(tensor)                            \
  "\x80\x02}X\1\0\0\0w" tensor "s.\x80\x02]X\1\0\0\0" \
  "0a."
#define DATA         \
  "\2\0\0\0\0\0\0\0" \
  "\0\0\x80\x3f\0\0\0\x40"

static void pickles_run_nothing(void **state) {
  (void)state;
  REFUSED("\x80\x02"
          "cposix\nsystem\n(X\4\0\0\0trueTR.",
          AC_ERROR_UNSUPPORTED, "names \"posix.system\", which tensors do not need");
  REFUSED("\x80\x04\x8c\x08"
          "builtins\x8c\x04"
          "eval\x93.",
          AC_ERROR_UNSUPPORTED, "names \"builtins.eval\"");
  REFUSED("\x80\x02(X\1\0\0\0aiposix\nsystem\n.", AC_ERROR_UNSUPPORTED, "the opcode 0x69");
  REFUSED("\x80\x02"
          "ccollections\nOrderedDict\n)\x81.",
          AC_ERROR_UNSUPPORTED, "the opcode 0x81");
  REFUSED("\x80\x02"
          "ctorch\nFloatStorage\n)R.",
          AC_ERROR_UNSUPPORTED, "calls torch.FloatStorage in a way that is not known");
  REFUSED("\x80\x09.", AC_ERROR_UNSUPPORTED, "has protocol 9, not 2 to 5");
}

/* A checkpoint {"best": tensor, "model": "a name", "net": {"module._orig_mod.w": tensor}}. */
static void weights_are_found_beside_others(void **state) {
  (void)state;
  static const char file[] = "\x80\x02}(X\4\0\0\0best" TENSOR(
      "\1", "K\1\x85", "K\1\x85") "X\5\0\0\0modelX\6\0\0\0a nameX\3"
                                  "\0\0\0net}X\x12\0\0\0module._orig_mod.w" TENSOR(
                                      "\0", "K\2\x85", "K\1\x85") "su.\x80\x02]X\1\0\0\0"
                                                                  "0a." DATA;
  char path[512];
  float values[2];
  ac_model_file *opened;
  write_pickle(file, sizeof file - 1, path);
  assert_ok(ac_model_file_open(&opened, path));
  assert_int_equal(ac_model_file_tensor_count(opened), 1);
  assert_int_equal(ac_model_file_find(opened, "w"), 0);
  assert_ok(ac_model_file_read(opened, 0, 0, 2, values));
  assert_true(values[0] == 1 && values[1] == 2);
  ac_model_file_close(opened);
}

static void damaged_pickles_are_refused(void **state) {
  (void)state;
  REFUSED("\x80\x02}", AC_ERROR_FORMAT, "it ends too early");
  REFUSED("\x80\x02.", AC_ERROR_FORMAT, "it takes a value that is not there");
  REFUSED("\x80\x02t.", AC_ERROR_FORMAT, "it lacks a mark");
  REFUSED("\x80\x02h\x07.", AC_ERROR_FORMAT, "it takes a value that is not there");
  REFUSED("\x80\x02Nr\xff\xff\xff\x7f.", AC_ERROR_FORMAT, "it remembers a value out of turn");
  REFUSED("\x80\x02X\xff\xff\xff\xff.", AC_ERROR_FORMAT, "it ends too early");
  REFUSED("\x80\x02NK\1s.", AC_ERROR_FORMAT, "it takes a value that is not there");
  REFUSED("\x80\x02NK\1K\1s.", AC_ERROR_FORMAT, "it adds values to what cannot have them");
  REFUSED("\x80\x02K\1Q.", AC_ERROR_FORMAT, "it refers to what is not a storage");
  REFUSED("\x80\x02}.\x80\x02].", AC_ERROR_FORMAT, "holds no tensors by name");
  /* A dict that holds itself is not followed for ever. */
  REFUSED("\x80\x02}q\0X\5\0\0\0modelh\0s.\x80\x02].", AC_ERROR_FORMAT, "holds no tensors by name");
}

static void tensors_stay_within_their_storage(void **state) {
  (void)state;
  char path[512];
  ac_model_file *file;
  static const char good[] = ONE_TENSOR(TENSOR("\0", "K\2\x85", "K\1\x85")) DATA;
  write_pickle(good, sizeof good - 1, path);
  assert_ok(ac_model_file_open(&file, path));
  float two[2];
  assert_ok(ac_model_file_read(file, 0, 0, 2, two));
  assert_true(two[0] == 1 && two[1] == 2);
  ac_model_file_close(file);
  for (size_t bytes = 0; bytes < sizeof good - 1; bytes++) {
    write_pickle(good, bytes, path);
    if (ac_model_file_open(&file, path) == AC_OK) fail_msg("%d bytes are enough", (int)bytes);
    assert_null(file);
  }
  REFUSED(ONE_TENSOR(TENSOR("\1", "K\2\x85", "K\1\x85")) DATA, AC_ERROR_FORMAT,
          "goes beyond the end of its storage");
  REFUSED(ONE_TENSOR(TENSOR("\0", "K\2\x85", "K\2\x85")) DATA, AC_ERROR_FORMAT,
          "goes beyond the end of its storage");
  REFUSED(ONE_TENSOR(TENSOR("\0", "K\2K\2\x86", "K\1\x85")) DATA, AC_ERROR_FORMAT,
          "a tensor lacks a stride");
  REFUSED(ONE_TENSOR(TENSOR("\0", "J\xff\xff\xff\xff\x85", "K\1\x85")) DATA, AC_ERROR_FORMAT,
          "not made of numbers");
  REFUSED(ONE_TENSOR(TENSOR("\0", "\x8a\x08\0\0\0\0\0\0\0\x0f\x85", "K\0\x85")) DATA,
          AC_ERROR_FORMAT, "overflows");
  REFUSED(ONE_TENSOR(TENSOR("\0", "J\0\0\0\x7f\x85", "K\0\x85")) DATA, AC_ERROR_UNSUPPORTED,
          "repeats its elements");
  REFUSED(ONE_TENSOR(TENSOR("\0", "K\2\x85", "K\1\x85")), AC_ERROR_FORMAT,
          "it ends before its last storage");
}

/* Every byte of an archive may be wrong, and every length. */
static void damaged_archives_are_refused(void **state) {
  (void)state;
  const test_path path = in_folder("damaged.pth");
  size_t bytes;
  unsigned char *good = read_file(ACCRUE_TEST_VECTORS "/tensors.pth", &bytes);
  unsigned char *bad = malloc(bytes);
  uint64_t random = 1;
  ac_model_file *file;
  assert_non_null(bad);
  for (size_t length = 0; length < bytes; length += 1 + bytes / 400) {
    write_file(path.text, good, length);
    if (ac_model_file_open(&file, path.text) == AC_OK) fail_msg("%d bytes are enough", (int)length);
    assert_null(file);
  }
  for (int round = 0; round < 2000; round++) {
    memcpy(bad, good, bytes);
    for (int k = 0; k < 3; k++)
      bad[next_random(&random) % bytes] = (unsigned char)next_random(&random);
    write_file(path.text, bad, bytes);
    if (ac_model_file_open(&file, path.text) != AC_OK) continue;
    for (int i = 0; i < ac_model_file_tensor_count(file); i++) {
      const ac_model_tensor *tensor = ac_model_file_tensor(file, i);
      float one[1];
      if (tensor->rank && tensor->shape[0] && tensor->dtype != AC_I32 && tensor->dtype != AC_U8)
        (void)ac_model_file_read(file, i, 0, 1, one);
    }
    ac_model_file_close(file);
  }
  free(bad);
  free(good);
}

static void other_archives_are_refused(void **state) {
  (void)state;
  /* An empty archive with a directory of nothing, and one with an entry that is not PyTorch's. */
  static const char zip[] = "PK\3\4\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0ax"
                            "PK\1\2\x14\0\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0\1\0\0\0\1\0\0\0\0\0"
                            "\0\0\0\0\0\0\0\0\0\0\0\0a"
                            "PK\5\6\0\0\0\0\1\0\1\0\x2f\0\0\0\x20\0\0\0\0";
  const test_path path = in_folder("other.zip");
  ac_model_file *file;
  write_file(path.text, zip, sizeof zip);
  assert_refused(ac_model_file_open(&file, path.text), AC_ERROR_FORMAT,
                 "is a zip archive, but not one of torch.save");
  write_file(path.text, zip, 32);
  assert_refused(ac_model_file_open(&file, path.text), AC_ERROR_FORMAT, "it has no directory");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(archives_are_read),
      cmocka_unit_test(older_files_are_read),
      cmocka_unit_test(pickles_run_nothing),
      cmocka_unit_test(weights_are_found_beside_others),
      cmocka_unit_test(damaged_pickles_are_refused),
      cmocka_unit_test(tensors_stay_within_their_storage),
      cmocka_unit_test(damaged_archives_are_refused),
      cmocka_unit_test(other_archives_are_refused),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
