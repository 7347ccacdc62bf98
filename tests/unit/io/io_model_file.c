/* Model files are written and read back: their exact bytes, and what happens if writing fails. */
#define _XOPEN_SOURCE 700 /* mknod */

#include "support/files.h"

#include <accrue/model_file.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

/* ---- sources --------------------------------------------------------------------------------- */

/* Element e of tensor i is value(i, e), in the tensor's dtype. */
typedef struct source {
  const ac_model_tensor *tensors;
  int64_t most; /* elements asked for at once */
  int fail_at;  /* tensor, or -1 */
} source;

static uint32_t value(int index, int64_t element) {
  return (uint32_t)(index + 1) * 0x01000193u ^ (uint32_t)element * 0x9E3779B1u;
}

static ac_status produce(void *user, int index, int64_t first, int64_t count, void *data) {
  source *from = user;
  if (index == from->fail_at) return AC_ERROR_DEVICE;
  if (count > from->most) from->most = count;
  for (int64_t i = 0; i < count; i++) {
    uint32_t bits = value(index, first + i);
    float number = (float)(int32_t)bits;
    uint16_t half = (uint16_t)(bits & 0xbbff); /* a finite f16 */
    unsigned char byte = (unsigned char)bits;
    switch (from->tensors[index].dtype) {
    case AC_F32:
      memcpy((char *)data + 4 * i, &number, 4);
      break;
    case AC_I32:
      memcpy((char *)data + 4 * i, &bits, 4);
      break;
    case AC_U8:
      memcpy((char *)data + i, &byte, 1);
      break;
    default:
      memcpy((char *)data + 2 * i, &half, 2);
      break;
    }
  }
  return AC_OK;
}

static ac_status write_model(const char *path, const ac_model_tensor *tensors, int count) {
  source from = {.tensors = tensors, .fail_at = -1};
  return ac_model_file_write(path, tensors, count, NULL, 0, produce, &from);
}

/* ---- round trips ----------------------------------------------------------------------------- */

/* Checksums belong to states; in other files their keys are the caller's, whatever the values. */
static void keys_of_checksums_are_ordinary(void **state) {
  (void)state;
  static const ac_metadata metadata[] = {{"accrue.xxh3", "x"}, {"accrue.header_xxh3", ""}};
  static const ac_model_tensor tensor = {"w", AC_F32, 1, {3}};
  const test_path path = in_folder("keys");
  for (int tensors = 0; tensors < 2; tensors++) {
    source from = {.tensors = &tensor, .fail_at = -1};
    ac_model_file *file;
    assert_ok(ac_model_file_write(path.text, &tensor, tensors, metadata, 2, produce, &from));
    assert_ok(ac_model_file_open(&file, path.text));
    assert_int_equal(ac_model_file_tensor_count(file), tensors);
    for (int i = 0; i < 2; i++)
      assert_string_equal(ac_model_file_metadata(file, metadata[i].key), metadata[i].value);
    ac_model_file_close(file);
  }
}

static void what_is_written_is_read(void **state) {
  (void)state;
  static const ac_model_tensor tensors[] = {{"h.0.attn.c_attn.weight", AC_F32, 2, {700, 900}},
                                            {"scalar", AC_F32, 0, {0}},
                                            {"empty", AC_F32, 2, {3, 0}},
                                            {"ids", AC_I32, 1, {5}},
                                            {"bytes", AC_U8, 1, {7}},
                                            {"größe \"x\"\n", AC_F32, 4, {1, 2, 3, 4}}};
  enum { COUNT = sizeof tensors / sizeof tensors[0] };
  static const ac_metadata metadata[] = {
      {"format", "pt"}, {"config", "{\"n_layer\": 4}"}, {"", "ü"}};
  test_path path = in_folder("model.safetensors");
  source from = {.tensors = tensors, .fail_at = -1};
  assert_ok(ac_model_file_write(path.text, tensors, COUNT, metadata, 3, produce, &from));
  assert_in_range(from.most * 4, 1, 1 << 20); /* the writer holds no more than 1 MiB */

  ac_model_file *file;
  assert_ok(ac_model_file_open(&file, path.text));
  assert_int_equal(ac_model_file_tensor_count(file), COUNT);
  assert_string_equal(ac_model_file_metadata(file, "format"), "pt");
  assert_string_equal(ac_model_file_metadata(file, "config"), "{\"n_layer\": 4}");
  assert_string_equal(ac_model_file_metadata(file, ""), "ü");
  assert_null(ac_model_file_metadata(file, "other"));
  assert_int_equal(ac_model_file_find(file, "__metadata__"), -1);
  float *data = malloc(700 * 900 * sizeof *data);
  for (int t = 0; t < COUNT; t++) {
    int index = ac_model_file_find(file, tensors[t].name);
    const ac_model_tensor *tensor = ac_model_file_tensor(file, index);
    assert_non_null(tensor);
    assert_string_equal(tensor->name, tensors[t].name);
    assert_int_equal(tensor->dtype, tensors[t].dtype);
    assert_int_equal(tensor->rank, tensors[t].rank);
    int64_t elements = 1;
    for (int d = 0; d < tensor->rank; d++) {
      assert_int_equal(tensor->shape[d], tensors[t].shape[d]);
      elements *= tensor->shape[d];
    }
    if (tensor->dtype != AC_F32) continue;
    assert_ok(ac_model_file_read(file, index, 0, elements, data));
    for (int64_t e = 0; e < elements; e++) assert_true(data[e] == (float)(int32_t)value(t, e));
    for (int64_t e = 0; e + 7 <= elements; e += 99991) {
      assert_ok(ac_model_file_read(file, index, e, 7, data));
      for (int64_t i = 0; i < 7; i++) assert_true(data[i] == (float)(int32_t)value(t, e + i));
    }
  }
  free(data);
  assert_int_equal(ac_model_file_find(file, "nothing"), -1);
  assert_null(ac_model_file_tensor(file, COUNT));
  assert_null(ac_model_file_tensor(file, -1));
  ac_model_file_close(file);
  ac_model_file_close(NULL);
}

static void reads_outside_a_tensor_are_refused(void **state) {
  (void)state;
  static const ac_model_tensor tensors[] = {{"w", AC_F32, 1, {10}}, {"ids", AC_I32, 1, {5}}};
  test_path path = in_folder("model");
  assert_ok(write_model(path.text, tensors, 2));
  ac_model_file *file;
  float data[16];
  assert_ok(ac_model_file_open(&file, path.text));
  assert_ok(ac_model_file_read(file, 0, 10, 0, data));
  static const int64_t ranges[][2] = {{0, 11}, {10, 1}, {11, 0}, {-1, 2}, {3, -1}, {1, INT64_MAX}};
  for (int r = 0; r < 6; r++)
    assert_refused(ac_model_file_read(file, 0, ranges[r][0], ranges[r][1], data), AC_ERROR_ARGUMENT,
                   "tensor \"w\" has 10 elements");
  assert_refused(ac_model_file_read(file, 1, 0, 5, data), AC_ERROR_ARGUMENT,
                 "holds i32, not floats");
  assert_refused(ac_model_file_read(file, 2, 0, 1, data), AC_ERROR_ARGUMENT, "no tensor 2 among 2");
  assert_refused(ac_model_file_read(file, -1, 0, 1, data), AC_ERROR_ARGUMENT, "no tensor -1");
  ac_model_file_close(file);
}

static void a_truncated_file_is_refused(void **state) {
  (void)state;
  static const ac_model_tensor tensors[] = {{"w", AC_F32, 1, {10}}, {"ids", AC_I32, 1, {5}}};
  test_path path = in_folder("cut");
  assert_ok(write_model(path.text, tensors, 2));
  size_t bytes;
  free(read_file(path.text, &bytes));
  while (bytes--) {
    ac_model_file *file;
    assert_int_equal(truncate(path.text, (off_t)bytes), 0);
    assert_refused(ac_model_file_open(&file, path.text), AC_ERROR_FORMAT, path.text);
    assert_null(file);
  }
}

/* A file that another program shortens while it is open. */
static void a_file_that_shrinks_is_noticed(void **state) {
  (void)state;
  static const ac_model_tensor tensors[] = {{"w", AC_F32, 1, {100000}}};
  test_path path = in_folder("shrinks");
  assert_ok(write_model(path.text, tensors, 1));
  ac_model_file *file;
  float *data = malloc(100000 * sizeof *data);
  assert_ok(ac_model_file_open(&file, path.text));
  assert_int_equal(truncate(path.text, 1000), 0);
  assert_refused(ac_model_file_read(file, 0, 0, 100000, data), AC_ERROR_IO, "has become shorter");
  ac_model_file_close(file);
  free(data);
}

static ac_status two_floats(void *user, int index, int64_t first, int64_t count, void *data) {
  (void)user, (void)index;
  static const float floats[] = {1.0f, -2.5f};
  memcpy(data, floats + first, (size_t)count * sizeof(float));
  return AC_OK;
}

/* The format is fixed elsewhere; other programs read these bytes. */
static void a_small_file_has_these_bytes(void **state) {
  (void)state;
  static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                               "\"b\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]}}";
  static const unsigned char floats[] = {0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0};
  unsigned char expected[256] = {0};
  size_t length = sizeof header - 1, padded = (length + 7) / 8 * 8;
  expected[0] = (unsigned char)padded;
  memset(expected + 8, ' ', padded);
  memcpy(expected + 8, header, length);
  memcpy(expected + 8 + padded, floats, sizeof floats);

  test_path path = in_folder("small");
  assert_ok(ac_model_file_write(path.text, &(ac_model_tensor){"b", AC_F32, 2, {2, 1}}, 1,
                                &(ac_metadata){"format", "pt"}, 1, two_floats, NULL));
  size_t bytes;
  unsigned char *data = read_file(path.text, &bytes);
  assert_int_equal(bytes, 8 + padded + sizeof floats);
  assert_memory_equal(data, expected, bytes);
  free(data);

  assert_ok(ac_model_file_write(path.text, NULL, 0, NULL, 0, NULL, NULL));
  data = read_file(path.text, &bytes);
  assert_int_equal(bytes, 16);
  assert_memory_equal(data, "\x08\0\0\0\0\0\0\0{}      ", 16);
  free(data);
  ac_model_file *file;
  assert_ok(ac_model_file_open(&file, path.text));
  assert_int_equal(ac_model_file_tensor_count(file), 0);
  assert_null(ac_model_file_metadata(file, "format"));
  ac_model_file_close(file);
}

/* ---- conversions ----------------------------------------------------------------------------- */

static ac_status all_16_bits(void *user, int index, int64_t first, int64_t count, void *data) {
  (void)user, (void)index;
  for (int64_t i = 0; i < count; i++) {
    uint16_t bits = (uint16_t)(first + i);
    memcpy((char *)data + 2 * i, &bits, 2);
  }
  return AC_OK;
}

/* A 16-bit float by its definition: a sign, an exponent with a bias, and a fraction. */
static double decode(unsigned bits, int fraction_bits, int bias) {
  int exponent = (int)(bits & 0x7fff) >> fraction_bits, most = 0x7fff >> fraction_bits;
  double fraction = (double)(bits & ((1u << fraction_bits) - 1)) / (double)(1 << fraction_bits);
  double magnitude = exponent == most ? (fraction > 0 ? (double)NAN : (double)INFINITY)
                     : exponent       ? ldexp(1 + fraction, exponent - bias)
                                      : ldexp(fraction, 1 - bias);
  return bits & 0x8000 ? -magnitude : magnitude;
}

static void every_16_bit_float_is_read_exactly(void **state) {
  (void)state;
  static const ac_model_tensor tensors[] = {{"f16", AC_F16, 1, {65536}},
                                            {"bf16", AC_BF16, 1, {65536}}};
  test_path path = in_folder("halves");
  assert_ok(ac_model_file_write(path.text, tensors, 2, NULL, 0, all_16_bits, NULL));
  ac_model_file *file;
  assert_ok(ac_model_file_open(&file, path.text));
  float *data = malloc(65536 * sizeof *data);
  for (int t = 0; t < 2; t++) {
    assert_int_equal(ac_model_file_tensor(file, t)->dtype, tensors[t].dtype);
    assert_ok(ac_model_file_read(file, t, 0, 65536, data));
    for (unsigned bits = 0; bits < 65536; bits++) {
      double expected = t ? decode(bits, 7, 127) : decode(bits, 10, 15);
      if (isnan(expected)) assert_true(isnan(data[bits]));
      else assert_true((double)data[bits] == expected && !signbit(data[bits]) == !(bits >> 15));
    }
  }
  free(data);
  ac_model_file_close(file);
}

/* ---- writing that fails ---------------------------------------------------------------------- */

static int count_files(const char *folder) {
  DIR *directory = opendir(folder);
  int count = 0;
  assert_non_null(directory);
  while (readdir(directory)) count++;
  closedir(directory);
  return count - 2;
}

/* The disk is played by a limit on file sizes: writing beyond it fails in the same calls. */
static void a_full_disk_leaves_the_old_model(void **state) {
  (void)state;
  static const ac_model_tensor small[] = {{"old", AC_F32, 1, {1000}}};
  static const ac_model_tensor large[] = {{"new", AC_F32, 1, {1000000}}};
  static const ac_model_tensor just_more[] = {{"new", AC_F32, 1, {15000}}};
  assert_int_equal(mkdir(in_folder("disk").text, 0777), 0);
  test_path path = in_folder("disk/model");
  assert_ok(write_model(path.text, small, 1));
  size_t bytes, after;
  unsigned char *old = read_file(path.text, &bytes);

  struct rlimit limit;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  for (int late = 0; late < 2; late++) {
    /* The smaller one fits into the stream's buffers longer than onto the disk. */
    rlim_t allowed = late ? 60000 : 100000;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){allowed, limit.rlim_max}), 0);
    ac_status status = write_model(path.text, late ? just_more : large, 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_refused(status, AC_ERROR_IO, path.text);
    assert_non_null(strstr(ac_last_error(), strerror(EFBIG)));
    unsigned char *now = read_file(path.text, &after);
    assert_int_equal(after, bytes);
    assert_memory_equal(now, old, bytes);
    free(now);
    assert_int_equal(count_files(in_folder("disk").text), 1);
  }
  signal(SIGXFSZ, handler);
  free(old);
}

static void a_failing_source_leaves_the_old_model(void **state) {
  (void)state;
  static const ac_model_tensor tensors[] = {{"a", AC_F32, 1, {10}}, {"b", AC_F32, 1, {10}}};
  assert_int_equal(mkdir(in_folder("source").text, 0777), 0);
  test_path path = in_folder("source/model");
  assert_ok(write_model(path.text, tensors, 1));
  source from = {.tensors = tensors, .fail_at = 1};
  assert_refused(ac_model_file_write(path.text, tensors, 2, NULL, 0, produce, &from),
                 AC_ERROR_DEVICE, "the source of tensor \"b\" failed: device failure");
  assert_int_equal(count_files(in_folder("source").text), 1);
  ac_model_file *file;
  assert_ok(ac_model_file_open(&file, path.text));
  assert_int_equal(ac_model_file_tensor_count(file), 1);
  ac_model_file_close(file);
}

static void what_makes_no_file_is_refused(void **state) {
  (void)state;
  static const struct {
    ac_model_tensor tensors[2];
    const char *mention;
  } cases[] = {
      {{{"a", AC_F32, 1, {1}}, {"a", AC_F32, 1, {2}}}, "two tensors are named \"a\""},
      {{{"a", AC_F32, 1, {1}}, {NULL, AC_F32, 1, {1}}}, "tensor 1 has no name"},
      {{{"a", AC_F32, 1, {1}}, {"__metadata__", AC_F32, 1, {1}}}, "no tensor can be named"},
      {{{"a", AC_F32, 1, {1}}, {"\xff", AC_F32, 1, {1}}}, "is not UTF-8"},
      {{{"a", AC_F32, 1, {1}}, {"b", (ac_dtype)9, 1, {1}}}, "unknown dtype 9"},
      {{{"a", AC_F32, 1, {1}}, {"b", AC_F32, 9, {1}}}, "rank 9"},
      {{{"a", AC_F32, 1, {1}}, {"b", AC_F32, 2, {1, -1}}}, "negative or overflows"},
      {{{"a", AC_F32, 1, {1}}, {"b", AC_F32, 2, {INT64_C(1) << 40, INT64_C(1) << 40}}},
       "\"b\" is negative or overflows"},
      {{{"a", AC_U8, 1, {INT64_MAX}}, {"b", AC_U8, 1, {1}}}, "up to \"b\" overflow"},
  };
  assert_int_equal(mkdir(in_folder("refused").text, 0777), 0);
  test_path path = in_folder("refused/model");
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
    assert_refused(write_model(path.text, cases[c].tensors, 2), AC_ERROR_ARGUMENT,
                   cases[c].mention);
  static const ac_metadata twice[] = {{"k", "1"}, {"k", "2"}}, bad[] = {{"k", "\xc3"}},
                           none[] = {{"k", NULL}};
  assert_refused(ac_model_file_write(path.text, NULL, 0, twice, 2, produce, NULL),
                 AC_ERROR_ARGUMENT, "metadata \"k\" comes twice");
  assert_refused(ac_model_file_write(path.text, NULL, 0, bad, 1, produce, NULL), AC_ERROR_ARGUMENT,
                 "metadata \"k\" is not UTF-8");
  assert_refused(ac_model_file_write(path.text, NULL, 0, none, 1, produce, NULL), AC_ERROR_ARGUMENT,
                 "metadata 0 has no key or no value");
  assert_refused(ac_model_file_write(path.text, cases[0].tensors, 1, NULL, 0, NULL, NULL),
                 AC_ERROR_ARGUMENT, "source is NULL");
  assert_int_equal(count_files(in_folder("refused").text), 0);
  assert_refused(write_model(in_folder("no/such/folder/model").text, cases[0].tensors, 1),
                 AC_ERROR_IO, "no/such/folder/model");
}

/* Nodes, pipes, sockets and folders stay what they are, links stay links. */
static void only_files_are_replaced(void **state) {
  (void)state;
  const ac_model_tensor tensor = {"w", AC_F32, 1, {2}};
  const test_path special = in_folder("special");
  assert_int_equal(mkfifo(special.text, 0666), 0);
  assert_refused(write_model(special.text, &tensor, 1), AC_ERROR_IO, "it is a pipe");
  unlink(special.text);
  assert_int_equal(mkdir(special.text, 0777), 0);
  assert_refused(write_model(special.text, &tensor, 1), AC_ERROR_IO, "it is a folder");
  rmdir(special.text);
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  const int server = socket(AF_UNIX, SOCK_STREAM, 0);
  if (strlen(special.text) < sizeof name.sun_path) {
    strcpy(name.sun_path, special.text);
    assert_int_equal(bind(server, (struct sockaddr *)&name, sizeof name), 0);
    assert_refused(write_model(special.text, &tensor, 1), AC_ERROR_IO, "it is a socket");
    unlink(special.text);
  }
  close(server);
  if (mknod(special.text, S_IFCHR | 0666, makedev(1, 3)) == 0) { /* for which root is needed */
    struct stat info;
    assert_refused(write_model(special.text, &tensor, 1), AC_ERROR_IO, "it is a device");
    assert_true(stat(special.text, &info) == 0 && S_ISCHR(info.st_mode));
    unlink(special.text);
  }
  /* What a link leads to counts. */
  assert_int_equal(mkfifo(in_folder("pipe").text, 0666), 0);
  assert_int_equal(symlink("pipe", special.text), 0);
  assert_refused(write_model(special.text, &tensor, 1), AC_ERROR_IO, "it is a pipe");
  unlink(special.text);
  assert_int_equal(symlink("special", special.text), 0);
  assert_refused(write_model(special.text, &tensor, 1), AC_ERROR_IO, "symbolic links");
  unlink(special.text);
}

static void links_are_followed(void **state) {
  (void)state;
  const ac_model_tensor tensor = {"w", AC_F32, 1, {2}};
  const test_path whole = in_folder("volume/target"), link = in_folder("a-link");
  struct stat info;
  assert_int_equal(mkdir(in_folder("volume").text, 0777), 0);
  const char *const targets[] = {"volume/target", "volume/link", whole.text};
  assert_int_equal(symlink("target", in_folder("volume/link").text), 0);
  for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
    unlink(whole.text); /* at first it leads nowhere */
    assert_int_equal(symlink(targets[i], link.text), 0);
    for (int times = 0; times < 2; times++) {
      assert_ok(write_model(link.text, &tensor, 1));
      assert_true(lstat(link.text, &info) == 0 && S_ISLNK(info.st_mode));
      assert_true(lstat(whole.text, &info) == 0 && S_ISREG(info.st_mode));
      ac_model_file *file;
      assert_ok(ac_model_file_open(&file, link.text));
      ac_model_file_close(file);
    }
    unlink(link.text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_written_is_read),
      cmocka_unit_test(keys_of_checksums_are_ordinary),
      cmocka_unit_test(reads_outside_a_tensor_are_refused),
      cmocka_unit_test(a_truncated_file_is_refused),
      cmocka_unit_test(a_file_that_shrinks_is_noticed),
      cmocka_unit_test(a_small_file_has_these_bytes),
      cmocka_unit_test(every_16_bit_float_is_read_exactly),
      cmocka_unit_test(a_full_disk_leaves_the_old_model),
      cmocka_unit_test(a_failing_source_leaves_the_old_model),
      cmocka_unit_test(what_makes_no_file_is_refused),
      cmocka_unit_test(only_files_are_replaced),
      cmocka_unit_test(links_are_followed),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
