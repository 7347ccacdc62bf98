/* IDX files, plain and gzip, whole and damaged, and folders of them. */
#include "support/files.h"

#include <accrue/dataset.h>
#include <zlib.h>

#ifndef AC_TEST_DATA
#define AC_TEST_DATA ""
#endif

/* ---- making files ---------------------------------------------------------------------------- */

enum { IMAGES_HEADER = 16, LABELS_HEADER = 8, HEIGHT = 3, WIDTH = 2, PIXELS = HEIGHT * WIDTH };

static void put_word(unsigned char *data, uint32_t word) {
  for (int i = 0; i < 4; i++) data[i] = (unsigned char)(word >> (24 - 8 * i));
}

/* Pixel p of image i is 40 i + p, its label i mod 10. */
static size_t make_images(unsigned char *data, int count) {
  put_word(data, 0x803);
  put_word(data + 4, (uint32_t)count);
  put_word(data + 8, HEIGHT);
  put_word(data + 12, WIDTH);
  for (int i = 0; i < count * PIXELS; i++)
    data[IMAGES_HEADER + i] = (unsigned char)(i / PIXELS * 40 + i % PIXELS);
  return (size_t)(IMAGES_HEADER + count * PIXELS);
}

static size_t make_labels(unsigned char *data, int count) {
  put_word(data, 0x801);
  put_word(data + 4, (uint32_t)count);
  for (int i = 0; i < count; i++) data[LABELS_HEADER + i] = (unsigned char)(i % 10);
  return (size_t)(LABELS_HEADER + count);
}

typedef void (*write_function)(const char *path, const void *data, size_t bytes);

static void write_pair(const char *images, const char *labels, int count, write_function write) {
  static unsigned char data[1 << 16];
  write(in_folder(images).text, data, make_images(data, count));
  write(in_folder(labels).text, data, make_labels(data, count));
}

static ac_status open_pair(ac_dataset **dataset) {
  return ac_dataset_from_idx(dataset, in_folder("images").text, in_folder("labels").text, 0, -1);
}

/* ---- good files ------------------------------------------------------------------------------ */

static void assert_sample(ac_dataset *dataset, int64_t index, int image) {
  float pixels[PIXELS];
  int32_t label;
  assert_ok(ac_dataset_read(dataset, &(ac_sample_key){.index = index, .epoch = 3, .seed = 9},
                            (void *const[]){pixels, &label}));
  assert_int_equal(label, image % 10);
  for (int p = 0; p < PIXELS; p++)
    assert_true(pixels[p] == (float)(unsigned char)(40 * image + p) / 255.0f);
}

static void images_come_with_their_labels(void **state) {
  (void)state;
  for (int gzip = 0; gzip < 2; gzip++) {
    write_pair("images", "labels", 12, gzip ? write_gzip : write_file);
    ac_dataset *dataset, *part;
    assert_ok(open_pair(&dataset));
    assert_int_equal(ac_dataset_count(dataset), 12);
    assert_int_equal(ac_dataset_classes(dataset), 10);
    assert_string_equal(ac_dataset_field(dataset, 0)->name, "images");
    assert_int_equal(ac_dataset_field(dataset, 0)->dtype, AC_F32);
    assert_int_equal(ac_dataset_field(dataset, 0)->elements, PIXELS);
    assert_string_equal(ac_dataset_field(dataset, 1)->name, "labels");
    assert_int_equal(ac_dataset_field(dataset, 1)->dtype, AC_I32);
    assert_int_equal(ac_dataset_field(dataset, 1)->elements, 1);
    for (int i = 0; i < 12; i++) assert_sample(dataset, i, i);
    assert_ok(ac_dataset_check_labels(dataset, 10));
    assert_refused(ac_dataset_check_labels(dataset, 9), AC_ERROR_FORMAT, "label 9 of sample 9");
    ac_dataset_free(dataset);

    assert_ok(ac_dataset_from_idx(&part, in_folder("images").text, in_folder("labels").text, 3, 5));
    assert_int_equal(ac_dataset_count(part), 2);
    assert_sample(part, 0, 3);
    assert_sample(part, 1, 4);
    ac_dataset_free(part);
  }
}

static void bytes_span_zero_to_one(void **state) {
  (void)state;
  unsigned char images[IMAGES_HEADER + PIXELS], labels[LABELS_HEADER + 1];
  make_images(images, 1);
  make_labels(labels, 1);
  images[IMAGES_HEADER + 1] = 255;
  labels[LABELS_HEADER] = 255;
  write_file(in_folder("images").text, images, sizeof images);
  write_file(in_folder("labels").text, labels, sizeof labels);
  ac_dataset *dataset;
  float pixels[PIXELS];
  int32_t label;
  assert_ok(open_pair(&dataset));
  assert_ok(ac_dataset_read(dataset, &(ac_sample_key){0}, (void *const[]){pixels, &label}));
  assert_true(pixels[0] == 0.0f && pixels[1] == 1.0f && label == 255);
  assert_int_equal(ac_dataset_classes(dataset), 256);
  ac_dataset_free(dataset);
}

/* More than the reader takes at once. */
static void a_large_file_is_read_whole(void **state) {
  (void)state;
  enum { COUNT = 700000 };
  size_t bytes = IMAGES_HEADER + (size_t)COUNT * PIXELS;
  unsigned char *data = malloc(bytes);
  assert_non_null(data);
  for (int gzip = 0; gzip < 2; gzip++) {
    write_function write = gzip ? write_gzip : write_file;
    write(in_folder("images").text, data, make_images(data, COUNT));
    write(in_folder("labels").text, data, make_labels(data, COUNT));
    ac_dataset *dataset;
    assert_ok(open_pair(&dataset));
    assert_int_equal(ac_dataset_count(dataset), COUNT);
    for (int i = 0; i < COUNT; i += 9973) assert_sample(dataset, i, i);
    assert_sample(dataset, COUNT - 1, COUNT - 1);
    ac_dataset_free(dataset);
  }
  free(data);
}

/* ---- damaged files --------------------------------------------------------------------------- */

/* Replaces the images by `bytes` bytes of a valid file of two with one word overwritten. */
static void spoil_images(int word, uint32_t value, size_t bytes) {
  unsigned char data[64] = {0};
  make_images(data, 2);
  if (word >= 0) put_word(data + 4 * word, value);
  write_file(in_folder("images").text, data, bytes);
}

static void damage_is_named(void **state) {
  (void)state;
  enum { WHOLE = IMAGES_HEADER + 2 * PIXELS };
  static const struct {
    int word;
    uint32_t value;
    size_t bytes;
    const char *mention;
  } cases[] = {
      {0, 0x801, WHOLE, "it begins with 0x00000801, not 0x00000803"},
      {0, 0x903, WHOLE, "it begins with 0x00000903"},
      {0, 0x03080000, WHOLE, "not an IDX file of images"},
      {-1, 0, 0, "is empty"},
      {-1, 0, 3, "ends after 3 bytes, within its header"},
      {-1, 0, 15, "ends after 15 bytes, within its header"},
      {-1, 0, IMAGES_HEADER, "announces 12 bytes, 0 are there"},
      {-1, 0, WHOLE - 1, "announces 12 bytes, 11 are there"},
      {-1, 0, WHOLE + 1, "more than the 12 bytes"},
      {1, 0, WHOLE, "announces no images"},
      {1, 1, WHOLE, "more than the 6 bytes"},
      {1, 3, WHOLE, "announces 18 bytes, 12 are there"},
      {1, 0xffffffff, WHOLE, "announces 25769803770 bytes, 12 are there"},
      {2, 0, WHOLE, "announces images of size zero"},
      {2, 0xffffffff, WHOLE, "announces 17179869180 bytes"},
      {3, 0, WHOLE, "announces images of size zero"},
  };
  write_pair("images", "labels", 2, write_file);
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    spoil_images(cases[c].word, cases[c].value, cases[c].bytes);
    ac_dataset *dataset;
    assert_refused(open_pair(&dataset), AC_ERROR_FORMAT, cases[c].mention);
    assert_non_null(strstr(ac_last_error(), "/images"));
    assert_null(dataset);
  }
  unsigned char data[64] = {0};
  make_images(data, 2);
  for (int word = 1; word < 4; word++) put_word(data + 4 * word, 0xffffffff);
  write_file(in_folder("images").text, data, WHOLE);
  ac_dataset *dataset;
  assert_refused(open_pair(&dataset), AC_ERROR_FORMAT, "overflow");
}

static void damaged_labels_are_named(void **state) {
  (void)state;
  unsigned char data[64];
  size_t bytes = make_labels(data, 2);
  ac_dataset *dataset;
  write_pair("images", "labels", 2, write_file);
  write_file(in_folder("labels").text, data, bytes - 1);
  assert_refused(open_pair(&dataset), AC_ERROR_FORMAT, "labels: truncated");
  write_file(in_folder("labels").text, data, bytes + 1);
  assert_refused(open_pair(&dataset), AC_ERROR_FORMAT, "labels: has more");
  put_word(data, 0x803);
  write_file(in_folder("labels").text, data, bytes);
  assert_refused(open_pair(&dataset), AC_ERROR_FORMAT, "not an IDX file of labels");
  write_file(in_folder("labels").text, data, make_labels(data, 3));
  assert_refused(open_pair(&dataset), AC_ERROR_FORMAT, "has 2 images, but");
  assert_non_null(strstr(ac_last_error(), "has 3 labels"));
}

static void files_that_cannot_be_read_are_named(void **state) {
  (void)state;
  test_path images = in_folder("images"), labels = in_folder("labels");
  write_pair("images", "labels", 4, write_file);
  ac_dataset *dataset;
  assert_refused(ac_dataset_from_idx(&dataset, in_folder("no").text, labels.text, 0, -1),
                 AC_ERROR_IO, "/no: No such file");
  assert_refused(ac_dataset_from_idx(&dataset, images.text, in_folder("no").text, 0, -1),
                 AC_ERROR_IO, "/no: No such file");
  assert_refused(ac_dataset_from_idx(&dataset, test_folder, labels.text, 0, -1), AC_ERROR_IO,
                 test_folder);
  assert_refused(ac_dataset_from_idx(&dataset, images.text, labels.text, 0, 5), AC_ERROR_ARGUMENT,
                 "[0, 5) is not a part of 4 images");
  assert_refused(ac_dataset_from_idx(&dataset, images.text, labels.text, 4, -1), AC_ERROR_ARGUMENT,
                 "[4, 4)");
  assert_refused(ac_dataset_from_idx(&dataset, images.text, labels.text, -1, -1), AC_ERROR_ARGUMENT,
                 "[-1, 4)");
  assert_null(dataset);
}

static void damaged_gzip_is_named(void **state) {
  (void)state;
  ac_dataset *dataset;
  size_t bytes;
  write_pair("images", "labels", 12, write_gzip);
  unsigned char *data = read_file(in_folder("images").text, &bytes);

  data[bytes - 6] ^= 1; /* the checksum */
  write_file(in_folder("images").text, data, bytes);
  assert_refused(open_pair(&dataset), AC_ERROR_FORMAT, "images: its gzip data is corrupt");
  data[bytes - 6] ^= 1;
  for (size_t keep = 11; keep < bytes; keep++) {
    write_file(in_folder("images").text, data, keep);
    assert_refused(open_pair(&dataset), AC_ERROR_FORMAT, "images: its gzip data is truncated");
  }
  free(data);
}

/* Files of the given kind with one to four bytes changed, or cut short: nothing may crash or leak,
 * whatever comes out. */
static void fuzz(write_function write, uint64_t seed) {
  test_path paths[2] = {in_folder("images"), in_folder("labels")};
  unsigned char *whole[2];
  size_t bytes[2];
  write_pair("images", "labels", 12, write);
  for (int f = 0; f < 2; f++) whole[f] = read_file(paths[f].text, &bytes[f]);
  int opened = 0;
  for (int round = 0; round < 3000; round++) {
    int f = round % 4 == 0; /* the images three times of four */
    unsigned char *data = malloc(bytes[f]);
    memcpy(data, whole[f], bytes[f]);
    size_t kept = bytes[f];
    for (uint32_t changes = 1 + next_random(&seed) % 4; changes; changes--)
      data[next_random(&seed) % bytes[f]] = (unsigned char)next_random(&seed);
    if (next_random(&seed) % 4 == 0) kept = next_random(&seed) % bytes[f];
    write_file(paths[f].text, data, kept);
    free(data);
    ac_dataset *dataset;
    if (open_pair(&dataset) == AC_OK) {
      int64_t elements = ac_dataset_field(dataset, 0)->elements;
      float *pixels = malloc((size_t)elements * sizeof *pixels);
      int32_t label;
      for (int64_t i = 0; i < ac_dataset_count(dataset); i++)
        assert_ok(ac_dataset_read(dataset, &(ac_sample_key){.index = i},
                                  (void *const[]){pixels, &label}));
      free(pixels);
      opened++;
    }
    ac_dataset_free(dataset);
    write_file(paths[f].text, whole[f], bytes[f]);
  }
  for (int f = 0; f < 2; f++) free(whole[f]);
  if (write == write_file) assert_true(opened > 100); /* changed pixels are fine */
}

static void changed_bytes_do_no_harm(void **state) {
  (void)state;
  fuzz(write_file, 1);
  fuzz(write_gzip, 2);
}

/* ---- folders --------------------------------------------------------------------------------- */

static void a_folder_with_both_pairs(void **state) {
  (void)state;
  assert_int_equal(mkdir(in_folder("both").text, 0777), 0);
  write_pair("both/train-images-idx3-ubyte", "both/train-labels-idx1-ubyte", 5, write_file);
  write_pair("both/t10k-images-idx3-ubyte.gz", "both/t10k-labels-idx1-ubyte.gz", 8, write_gzip);
  ac_dataset *train, *validation;
  for (int order = 0; order < 2; order++) {
    assert_ok(ac_dataset_mnist_folder(&train, &validation, in_folder("both").text));
    assert_int_equal(ac_dataset_count(train), 5);
    assert_int_equal(ac_dataset_count(validation), 8);
    assert_int_equal(ac_dataset_classes(train), 8);
    assert_int_equal(ac_dataset_classes(validation), 8);
    ac_dataset_free(order ? train : validation);
    assert_sample(order ? validation : train, 4, 4);
    ac_dataset_free(order ? validation : train);
  }
  /* Where a file is there both ways, the plain one is read. */
  write_pair("both/t10k-images-idx3-ubyte", "both/t10k-labels-idx1-ubyte", 3, write_file);
  assert_ok(ac_dataset_mnist_folder(&train, &validation, in_folder("both").text));
  assert_int_equal(ac_dataset_count(validation), 3);
  ac_dataset_free(train);
  ac_dataset_free(validation);
  /* Nothing validates, but the labels that would are still counted. */
  write_pair("both/t10k-images-idx3-ubyte", "both/t10k-labels-idx1-ubyte", 8, write_file);
  assert_ok(ac_dataset_mnist_folder(&train, NULL, in_folder("both").text));
  assert_int_equal(ac_dataset_count(train), 5);
  assert_int_equal(ac_dataset_classes(train), 8);
  ac_dataset_free(train);
}

static void a_folder_with_dots_for_dashes(void **state) {
  (void)state;
  assert_int_equal(mkdir(in_folder("dots").text, 0777), 0);
  write_pair("dots/train-images.idx3-ubyte", "dots/train-labels-idx1-ubyte", 5, write_file);
  write_pair("dots/t10k-images.idx3-ubyte.gz", "dots/t10k-labels.idx1-ubyte", 8, write_gzip);
  ac_dataset *train, *validation;
  assert_ok(ac_dataset_mnist_folder(&train, &validation, in_folder("dots").text));
  assert_int_equal(ac_dataset_count(train), 5);
  assert_int_equal(ac_dataset_count(validation), 8);
  assert_sample(validation, 7, 7);
  ac_dataset_free(train);
  ac_dataset_free(validation);
}

static void a_folder_with_one_pair_is_split(void **state) {
  (void)state;
  static const struct {
    const char *folder, *images, *labels;
    int count, held;
  } cases[] = {
      {"one-a", "one-a/train-images-idx3-ubyte", "one-a/train-labels-idx1-ubyte", 59, 5},
      {"one-b", "one-b/t10k-images-idx3-ubyte", "one-b/t10k-labels-idx1-ubyte", 60, 6},
      {"one-c", "one-c/t10k-images-idx3-ubyte", "one-c/t10k-labels-idx1-ubyte", 2, 1},
  };
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
    for (int order = 0; order < 2; order++) {
      mkdir(in_folder(cases[c].folder).text, 0777);
      write_pair(cases[c].images, cases[c].labels, cases[c].count, write_file);
      ac_dataset *train, *validation;
      assert_ok(ac_dataset_mnist_folder(&train, &validation, in_folder(cases[c].folder).text));
      int boundary = cases[c].count - cases[c].held;
      assert_int_equal(ac_dataset_count(train), boundary);
      assert_int_equal(ac_dataset_count(validation), cases[c].held);
      assert_int_equal(ac_dataset_classes(train), cases[c].count < 10 ? cases[c].count : 10);
      assert_sample(validation, 0, boundary);
      ac_dataset *whole;
      assert_ok(ac_dataset_mnist_folder(&whole, NULL, in_folder(cases[c].folder).text));
      assert_int_equal(ac_dataset_count(whole), cases[c].count);
      ac_dataset_free(whole);
      ac_dataset_free(order ? train : validation);
      if (order) assert_sample(validation, cases[c].held - 1, cases[c].count - 1);
      else assert_sample(train, boundary - 1, boundary - 1);
      ac_dataset_free(order ? validation : train);
    }
}

static void folders_that_do_not_do_are_named(void **state) {
  (void)state;
  ac_dataset *train, *validation;
  assert_refused(ac_dataset_mnist_folder(&train, &validation, in_folder("nowhere").text),
                 AC_ERROR_IO, "nowhere holds neither train-images");
  assert_int_equal(mkdir(in_folder("odd").text, 0777), 0);
  test_path odd = in_folder("odd");
  assert_refused(ac_dataset_mnist_folder(&train, &validation, odd.text), AC_ERROR_IO, "neither");

  write_pair("odd/train-images-idx3-ubyte", "odd/train-labels-idx1-ubyte", 1, write_file);
  assert_refused(ac_dataset_mnist_folder(&train, &validation, odd.text), AC_ERROR_FORMAT,
                 "one image cannot both train and validate");
  assert_int_equal(unlink(in_folder("odd/train-labels-idx1-ubyte").text), 0);
  assert_refused(ac_dataset_mnist_folder(&train, &validation, odd.text), AC_ERROR_IO,
                 "train-labels-idx1-ubyte: No such file");

  write_pair("odd/train-images-idx3-ubyte", "odd/train-labels-idx1-ubyte", 4, write_file);
  unsigned char other[IMAGES_HEADER + 1];
  put_word(other, 0x803);
  for (int w = 1; w < 4; w++) put_word(other + 4 * w, 1);
  write_pair("odd/t10k-images-idx3-ubyte", "odd/t10k-labels-idx1-ubyte", 1, write_file);
  write_file(in_folder("odd/t10k-images-idx3-ubyte").text, other, sizeof other);
  assert_refused(ac_dataset_mnist_folder(&train, &validation, odd.text), AC_ERROR_FORMAT,
                 "training images have 3 x 2 pixels, validation images have 1 x 1");
  assert_null(train);
  assert_null(validation);
  assert_refused(
      ac_dataset_mnist_folder(&train, &validation, in_folder("odd/train-images-idx3-ubyte").text),
      AC_ERROR_IO, "Not a directory");
}

static void the_real_digits_are_read(void **state) {
  (void)state;
  if (access(AC_TEST_DATA "/t10k-images-idx3-ubyte.gz", R_OK) != 0) {
    print_message("%s is not there: skipped\n", AC_TEST_DATA "/t10k-images-idx3-ubyte.gz");
    skip();
  }
  ac_dataset *train, *validation;
  assert_ok(ac_dataset_mnist_folder(&train, &validation, AC_TEST_DATA));
  assert_int_equal(ac_dataset_classes(train), 10);
  assert_int_equal(ac_dataset_field(train, 0)->elements, 784);
  int64_t per_label[10] = {0}, total = 0;
  double sum = 0;
  for (int part = 0; part < 2; part++) {
    ac_dataset *dataset = part ? validation : train;
    for (int64_t i = 0; i < ac_dataset_count(dataset); i++) {
      float pixels[784];
      int32_t label;
      assert_ok(
          ac_dataset_read(dataset, &(ac_sample_key){.index = i}, (void *const[]){pixels, &label}));
      if (total++ == 0) assert_int_equal(label, 7);
      per_label[label]++;
      for (int p = 0; p < 784; p++) sum += (double)pixels[p];
    }
  }
  /* The published counts of the test digits and their mean brightness. */
  static const int64_t published[] = {980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009};
  assert_memory_equal(per_label, published, sizeof published);
  assert_true(sum / (784.0 * 10000) > 0.1324 && sum / (784.0 * 10000) < 0.1326);
  ac_dataset_free(train);
  ac_dataset_free(validation);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(images_come_with_their_labels),
      cmocka_unit_test(bytes_span_zero_to_one),
      cmocka_unit_test(a_large_file_is_read_whole),
      cmocka_unit_test(damage_is_named),
      cmocka_unit_test(damaged_labels_are_named),
      cmocka_unit_test(files_that_cannot_be_read_are_named),
      cmocka_unit_test(damaged_gzip_is_named),
      cmocka_unit_test(changed_bytes_do_no_harm),
      cmocka_unit_test(a_folder_with_both_pairs),
      cmocka_unit_test(a_folder_with_dots_for_dashes),
      cmocka_unit_test(a_folder_with_one_pair_is_split),
      cmocka_unit_test(folders_that_do_not_do_are_named),
      cmocka_unit_test(the_real_digits_are_read),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
