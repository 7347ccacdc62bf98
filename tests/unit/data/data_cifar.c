/* CIFAR's binary files, plain and gzip, whole and damaged, and folders of them. */
#include "support/files.h"

#include <accrue/dataset.h>
#include <zlib.h>

enum { PIXELS = 3 * 32 * 32, MAX_RECORDS = 40 };

/* Record i has the fine label i mod classes (coarse: i mod 20), and pixel p is (7 i + p) mod 256.
 */
static size_t make_records(unsigned char *data, int first, int count, int classes) {
  unsigned char *at = data;
  for (int i = first; i < first + count; i++) {
    if (classes == 100) *at++ = (unsigned char)(i % 20);
    *at++ = (unsigned char)(i % classes);
    for (int p = 0; p < PIXELS; p++) *at++ = (unsigned char)(7 * i + p);
  }
  return (size_t)(at - data);
}

static unsigned char records[MAX_RECORDS * (PIXELS + 2)];

static void write_records(const char *name, int first, int count, int classes) {
  size_t bytes = make_records(records, first, count, classes);
  bool gzip = strstr(name, ".gz") != NULL;
  (gzip ? write_gzip : write_file)(in_folder(name).text, records, bytes);
}

/* Sample `index` is record `record` with this label. */
static void assert_sample(ac_dataset *dataset, int64_t index, int record, int expected) {
  float pixels[PIXELS];
  int32_t label;
  assert_ok(ac_dataset_read(dataset, &(ac_sample_key){.index = index, .epoch = 2, .seed = 5},
                            (void *const[]){pixels, &label}));
  assert_int_equal(label, expected);
  for (int p = 0; p < PIXELS; p++)
    assert_true(pixels[p] == (float)(unsigned char)(7 * record + p) / 255.0f);
}

static void images_come_with_their_labels(void **state) {
  (void)state;
  static const char *const names[] = {"ten.bin", "ten.bin.gz"};
  for (int gzip = 0; gzip < 2; gzip++) {
    write_records(names[gzip], 0, 13, 10);
    ac_dataset *dataset;
    int64_t shape[3];
    assert_ok(ac_dataset_from_cifar10(&dataset, in_folder(names[gzip]).text, 2, -1));
    assert_int_equal(ac_dataset_count(dataset), 11);
    assert_int_equal(ac_dataset_classes(dataset), 10);
    assert_string_equal(ac_dataset_field(dataset, 0)->name, "images");
    assert_int_equal(ac_dataset_field(dataset, 0)->dtype, AC_F32);
    assert_int_equal(ac_dataset_field(dataset, 0)->elements, PIXELS);
    assert_string_equal(ac_dataset_field(dataset, 1)->name, "labels");
    assert_int_equal(ac_dataset_field(dataset, 1)->dtype, AC_I32);
    assert_true(ac_dataset_image_shape(dataset, shape));
    assert_true(shape[0] == 3 && shape[1] == 32 && shape[2] == 32);
    for (int i = 0; i < 11; i++) assert_sample(dataset, i, i + 2, (i + 2) % 10);
    ac_dataset_free(dataset);
  }
}

static void the_hundred_have_two_labels(void **state) {
  (void)state;
  write_records("hundred.bin", 0, 33, 100);
  for (int coarse = 0; coarse < 2; coarse++) {
    ac_dataset *dataset;
    assert_ok(ac_dataset_from_cifar100(&dataset, in_folder("hundred.bin").text, coarse, 0, 31));
    assert_int_equal(ac_dataset_count(dataset), 31);
    assert_int_equal(ac_dataset_classes(dataset), coarse ? 20 : 100);
    for (int i = 0; i < 31; i += 10) assert_sample(dataset, i, i, coarse ? i % 20 : i);
    ac_dataset_free(dataset);
  }
}

static void damage_is_named(void **state) {
  (void)state;
  enum { RECORD = PIXELS + 1 };
  test_path path = in_folder("bad.bin");
  ac_dataset *dataset;
  size_t bytes = make_records(records, 0, 4, 10);
  static const size_t lengths[] = {1, RECORD - 1, RECORD + 1, 4 * RECORD - 1};
  for (int i = 0; i < 4; i++) {
    char mention[64];
    snprintf(mention, sizeof mention, "bad.bin: %zu bytes are not a whole number", lengths[i]);
    write_file(path.text, records, lengths[i]);
    assert_refused(ac_dataset_from_cifar10(&dataset, path.text, 0, -1), AC_ERROR_FORMAT, mention);
  }
  write_file(path.text, records, 0);
  assert_refused(ac_dataset_from_cifar10(&dataset, path.text, 0, -1), AC_ERROR_FORMAT,
                 "bad.bin is empty");
  write_file(path.text, records, bytes);
  assert_refused(ac_dataset_from_cifar100(&dataset, path.text, false, 0, -1), AC_ERROR_FORMAT,
                 "records of 3074 bytes");
  assert_refused(ac_dataset_from_cifar10(&dataset, path.text, 0, 5), AC_ERROR_ARGUMENT,
                 "[0, 5) is not a part of 4 images");
  records[2 * RECORD] = 10;
  write_file(path.text, records, bytes);
  assert_refused(ac_dataset_from_cifar10(&dataset, path.text, 0, -1), AC_ERROR_FORMAT,
                 "bad.bin: label 10 of image 2 is not in [0, 10)");
  make_records(records, 0, 2, 100);
  records[RECORD + 1] = 20; /* the coarse label of record 1 */
  records[1] = 100;         /* the fine label of record 0 */
  write_file(path.text, records, 2 * (RECORD + 1));
  assert_refused(ac_dataset_from_cifar100(&dataset, path.text, true, 0, -1), AC_ERROR_FORMAT,
                 "label 20 of image 1 is not in [0, 20)");
  assert_refused(ac_dataset_from_cifar100(&dataset, path.text, false, 0, -1), AC_ERROR_FORMAT,
                 "label 100 of image 0 is not in [0, 100)");
  assert_refused(ac_dataset_from_cifar10(&dataset, in_folder("no").text, 0, -1), AC_ERROR_IO,
                 "/no: No such file");
  assert_null(dataset);
}

static void damaged_gzip_is_named(void **state) {
  (void)state;
  test_path path = in_folder("damaged.bin.gz");
  ac_dataset *dataset;
  size_t bytes;
  write_records("damaged.bin.gz", 0, 2, 10);
  unsigned char *data = read_file(path.text, &bytes);
  data[bytes - 6] ^= 1; /* the checksum */
  write_file(path.text, data, bytes);
  assert_refused(ac_dataset_from_cifar10(&dataset, path.text, 0, -1), AC_ERROR_FORMAT,
                 "damaged.bin.gz: its gzip data is corrupt");
  data[bytes - 6] ^= 1;
  write_file(path.text, data, bytes / 2);
  assert_refused(ac_dataset_from_cifar10(&dataset, path.text, 0, -1), AC_ERROR_FORMAT,
                 "damaged.bin.gz: its gzip data is truncated");
  free(data);
}

/* ---- folders --------------------------------------------------------------------------------- */

/* Appends two members, `between` them and `after` them, of two records each. */
static void write_members(const char *name, const void *between, size_t some, const void *after,
                          size_t more) {
  unsigned char *member[2];
  size_t bytes[2];
  for (int i = 0; i < 2; i++) {
    write_records("member.gz", i, 2, 10);
    member[i] = read_file(in_folder("member.gz").text, &bytes[i]);
  }
  FILE *file = fopen(in_folder(name).text, "wb");
  assert_non_null(file);
  fwrite(member[0], 1, bytes[0], file);
  fwrite(between, 1, some, file);
  fwrite(member[1], 1, bytes[1], file);
  fwrite(after, 1, more, file);
  assert_int_equal(fclose(file), 0);
  free(member[0]);
  free(member[1]);
}

/* What Python's gzip module does with the same bytes: members are one after another, zeros between
 * and after them are padding, and anything else is an error (BadGzipFile). */
static void every_member_counts(void **state) {
  (void)state;
  static const unsigned char empty[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3,
                                        3,    0,    0, 0, 0, 0, 0, 0, 0, 0};
  static const struct {
    const void *between, *after;
    size_t some, more;
    const char *mention; /* NULL: four records */
  } cases[] = {
      {"", "", 0, 0, NULL},
      {empty, "", sizeof empty, 0, NULL},
      {"", "\0\0\0\0", 0, 4, NULL},
      {"\0\0\0\0", "", 4, 0, NULL},
      {"\x1e", "", 1, 0, "followed by bytes that are not gzip data"},
      {"", "text", 0, 4, "followed by bytes that are not gzip data"},
      {"", "\0\0text", 0, 6, "followed by bytes that are not gzip data"},
      {"\x1f\x8a", "", 2, 0, "corrupt"},
      {"", "\x1f\x8b", 0, 2, "truncated"},
      {"", "\x1f", 0, 1, "truncated"},
  };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    ac_dataset *dataset;
    write_members("members.gz", cases[c].between, cases[c].some, cases[c].after, cases[c].more);
    const ac_status status = ac_dataset_from_cifar10(&dataset, in_folder("members.gz").text, 0, -1);
    if (cases[c].mention) {
      assert_refused(status, AC_ERROR_FORMAT, cases[c].mention);
      continue;
    }
    assert_ok(status);
    assert_int_equal(ac_dataset_count(dataset), 4);
    ac_dataset_free(dataset);
  }
  /* One bit of the second member's first byte. */
  size_t bytes, first;
  write_records("member.gz", 0, 2, 10);
  free(read_file(in_folder("member.gz").text, &first));
  write_members("members.gz", "", 0, "", 0);
  unsigned char *data = read_file(in_folder("members.gz").text, &bytes);
  data[first] ^= 1;
  write_file(in_folder("members.gz").text, data, bytes);
  free(data);
  ac_dataset *dataset;
  assert_refused(ac_dataset_from_cifar10(&dataset, in_folder("members.gz").text, 0, -1),
                 AC_ERROR_FORMAT, "its gzip data is followed by bytes that are not gzip data");
}

static void a_folder_trains_and_validates(void **state) {
  (void)state;
  ac_dataset *train, *validation;
  test_path ten = in_folder("ten");
  assert_int_equal(mkdir(ten.text, 0777), 0);
  assert_refused(ac_dataset_cifar10_folder(&train, &validation, ten.text), AC_ERROR_IO,
                 "ten holds neither data_batch_1.bin nor test_batch.bin");
  assert_refused(ac_dataset_from_cifar10(&train, ten.text, 0, -1), AC_ERROR_IO,
                 "does not hold CIFAR-10's training file data_batch_1.bin");
  write_records("ten/data_batch_1.bin", 0, 7, 10);
  write_records("ten/data_batch_2.bin.gz", 7, 5, 10);
  write_records("ten/data_batch_4.bin", 12, 8, 10);
  assert_refused(ac_dataset_cifar10_folder(&train, &validation, ten.text), AC_ERROR_IO,
                 "ten lacks data_batch_3.bin, but has data_batch_4.bin");
  assert_refused(ac_dataset_from_cifar10(&train, ten.text, 0, -1), AC_ERROR_IO, "data_batch_3.bin");
  assert_int_equal(
      rename(in_folder("ten/data_batch_4.bin").text, in_folder("ten/data_batch_3.bin").text), 0);
  for (int with_test = 0; with_test < 2; with_test++) {
    if (with_test) write_records("ten/test_batch.bin", 20, 3, 10);
    int count = with_test ? 20 : 18; /* or the last tenth validates */
    assert_ok(ac_dataset_cifar10_folder(&train, &validation, ten.text));
    assert_int_equal(ac_dataset_count(train), count);
    assert_int_equal(ac_dataset_count(validation), with_test ? 3 : 2);
    for (int i = 0; i < count; i++) assert_sample(train, i, i, i % 10);
    ac_dataset_free(train);
    assert_sample(validation, 0, count, count % 10);
    ac_dataset_free(validation);
  }
  assert_ok(ac_dataset_from_cifar10(&train, ten.text, 0, -1));
  assert_int_equal(ac_dataset_count(train), 20);
  ac_dataset_free(train);

  write_file(in_folder("ten/data_batch_2.bin").text, "x", 1); /* preferred to the gzip file */
  assert_refused(ac_dataset_cifar10_folder(&train, &validation, ten.text), AC_ERROR_FORMAT,
                 "data_batch_2.bin is text, not a file of CIFAR-10's records");
  assert_null(train);
  assert_null(validation);
}

static void a_folder_of_the_hundred(void **state) {
  (void)state;
  ac_dataset *train, *validation;
  test_path hundred = in_folder("hundred");
  assert_int_equal(mkdir(hundred.text, 0777), 0);
  write_records("hundred/train.bin.gz", 0, 30, 100);
  write_records("hundred/test.bin", 30, 10, 100);
  for (int coarse = 0; coarse < 2; coarse++) {
    assert_ok(ac_dataset_cifar100_folder(&train, &validation, hundred.text, coarse));
    assert_int_equal(ac_dataset_count(train), 30);
    assert_int_equal(ac_dataset_classes(validation), coarse ? 20 : 100);
    assert_sample(train, 29, 29, coarse ? 9 : 29);
    assert_sample(validation, 9, 39, coarse ? 19 : 39);
    ac_dataset_free(train);
    ac_dataset_free(validation);
  }
  write_records("hundred/test.bin", 0, 1, 100);
  assert_int_equal(unlink(in_folder("hundred/train.bin.gz").text), 0);
  assert_refused(ac_dataset_cifar100_folder(&train, &validation, hundred.text, false),
                 AC_ERROR_FORMAT, "one image cannot both train and validate");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(images_come_with_their_labels),
      cmocka_unit_test(the_hundred_have_two_labels),
      cmocka_unit_test(damage_is_named),
      cmocka_unit_test(damaged_gzip_is_named),
      cmocka_unit_test(every_member_counts),
      cmocka_unit_test(a_folder_trains_and_validates),
      cmocka_unit_test(a_folder_of_the_hundred),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
