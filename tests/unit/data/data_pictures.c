/* Pictures found in folders and lists, and the samples that are made of them, which are those of
 * torchvision. */
#include "support/picture_results.h"

#include <accrue/pictures.h>
#include <zlib.h>

/* ---- lists ----------------------------------------------------------------------------------- */

static void make_folder(const char *name) {
  assert_int_equal(mkdir(in_folder(name).text, 0777), 0);
}

static void copy_vector(const char *name, const char *to) {
  size_t bytes;
  unsigned char *data = read_vector(name, &bytes);
  write_file(in_folder(to).text, data, bytes);
  free(data);
}

static void write_text(const char *name, const char *text) {
  write_file(in_folder(name).text, text, strlen(text));
}

static void assert_ends(const char *path, const char *end) {
  assert_non_null(path);
  assert_true(strlen(path) > strlen(end));
  assert_string_equal(path + strlen(path) - strlen(end), end);
}

static void folders_are_classes(void **state) {
  (void)state;
  make_folder("plain");
  make_folder("plain/cat.b");
  make_folder("plain/cat");
  make_folder("plain/cat/more");
  make_folder("plain/.hidden");
  copy_vector("colour.png", "plain/cat.b/a.png");
  copy_vector("colour.jpg", "plain/cat/z.JPG");
  copy_vector("colour.webp", "plain/cat/more/a.webp");
  copy_vector("colour.png", "plain/.hidden/a.png");
  copy_vector("colour.png", "plain/cat/._z.png");
  write_file(in_folder("plain/cat/notes.txt").text, "x", 1);
  ac_pictures *list, *validation;
  char path[600];
  snprintf(path, sizeof path, "%s//", in_folder("plain").text);
  assert_ok(ac_pictures_open(&list, &validation, path, NULL));
  assert_null(validation);
  assert_int_equal(ac_pictures_count(list), 3);
  assert_int_equal(ac_pictures_classes(list), 2);
  assert_string_equal(ac_pictures_class_name(list, 0), "cat");
  assert_string_equal(ac_pictures_class_name(list, 1), "cat.b");
  assert_null(ac_pictures_class_name(list, 2));
  assert_ends(ac_pictures_path(list, 0), "/cat/z.JPG"); /* a folder before those in it */
  assert_ends(ac_pictures_path(list, 1), "/cat/more/a.webp");
  assert_ends(ac_pictures_path(list, 2), "/cat.b/a.png");
  assert_null(ac_pictures_path(list, 3));
  for (int i = 0; i < 3; i++) assert_int_equal(ac_pictures_label(list, i), i / 2);
  assert_int_equal(ac_pictures_label(list, 3), -1);
  ac_pictures_free(list);

  write_file(in_folder("plain/cat/old.gif").text, "GIF89a123456", 12);
  assert_refused(ac_pictures_open(&list, NULL, path, NULL), AC_ERROR_FORMAT,
                 "/cat/old.gif is a GIF picture, not a picture that is JPEG, PNG or WebP");
  assert_int_equal(remove(in_folder("plain/cat/old.gif").text), 0);
  copy_vector("colour.png", "plain/stray.png");
  assert_refused(ac_pictures_open(&list, NULL, path, NULL), AC_ERROR_FORMAT,
                 "/stray.png is not in the folder of a class");
  assert_int_equal(remove(in_folder("plain/stray.png").text), 0);
  make_folder("plain/dog");
  assert_refused(ac_pictures_open(&list, NULL, path, NULL), AC_ERROR_FORMAT,
                 "the folder of class dog has no pictures");
}

/* A link may lead to the folder of a class. One that leads back ends where it is met again. */
static void links_to_folders_are_followed_once(void **state) {
  (void)state;
  make_folder("apart");
  make_folder("linked");
  make_folder("linked/a");
  copy_vector("colour.png", "apart/1.png");
  copy_vector("colour.png", "linked/a/1.png");
  char path[600];
  snprintf(path, sizeof path, "%s", in_folder("linked").text);
  assert_int_equal(symlink(in_folder("apart").text, in_folder("linked/b").text), 0);
  ac_pictures *list;
  assert_ok(ac_pictures_open(&list, NULL, path, NULL));
  assert_int_equal(ac_pictures_classes(list), 2);
  assert_int_equal(ac_pictures_count(list), 2);
  assert_ends(ac_pictures_path(list, 1), "/linked/b/1.png");
  ac_pictures_free(list);
  assert_int_equal(symlink(path, in_folder("linked/a/back").text), 0);
  assert_ok(ac_pictures_open(&list, NULL, path, NULL));
  assert_int_equal(ac_pictures_count(list), 3);
  assert_ends(ac_pictures_path(list, 1), "/linked/a/back/a/1.png");
  ac_pictures_free(list);
}

/* A model's classes keep their numbers, whichever of them the data has. */
static void classes_can_be_given(void **state) {
  (void)state;
  static const char *const names[] = {"pear", "apple", "quince"};
  const ac_pictures_desc desc = {.classes = names, .class_count = 3};
  make_folder("fruit");
  make_folder("fruit/apple");
  make_folder("fruit/quince");
  copy_vector("colour.png", "fruit/apple/1.png");
  copy_vector("colour.png", "fruit/quince/1.png");
  char path[600];
  snprintf(path, sizeof path, "%s", in_folder("fruit").text);
  ac_pictures *list;
  assert_ok(ac_pictures_open(&list, NULL, path, &desc));
  assert_int_equal(ac_pictures_classes(list), 3);
  for (int c = 0; c < 3; c++) assert_string_equal(ac_pictures_class_name(list, c), names[c]);
  assert_int_equal(ac_pictures_label(list, 0), 1);
  assert_int_equal(ac_pictures_label(list, 1), 2);
  ac_pictures_free(list);
  make_folder("fruit/plum");
  copy_vector("colour.png", "fruit/plum/1.png");
  assert_refused(ac_pictures_open(&list, NULL, path, &desc), AC_ERROR_FORMAT,
                 "class plum is none of the 3 that are expected, pear to quince");

  write_text("fruit.csv", "fruit/apple/1.png,pear\nfruit/apple/1.png,quince\n");
  snprintf(path, sizeof path, "%s", in_folder("fruit.csv").text);
  assert_ok(ac_pictures_open(&list, NULL, path, &desc));
  assert_int_equal(ac_pictures_label(list, 0), 0);
  assert_int_equal(ac_pictures_label(list, 1), 2);
  ac_pictures_free(list);
  write_text("fruit.csv", "fruit/apple/1.png,1\n");
  assert_ok(ac_pictures_open(&list, NULL, path, &desc));
  assert_int_equal(ac_pictures_label(list, 0), 1);
  assert_string_equal(ac_pictures_class_name(list, 1), "apple");
  ac_pictures_free(list);
  write_text("fruit.csv", "fruit/apple/1.png,3\n");
  assert_refused(ac_pictures_open(&list, NULL, path, &desc), AC_ERROR_FORMAT,
                 "class 3 is none of the 3");
  assert_refused(ac_pictures_open(&list, NULL, path, &(ac_pictures_desc){.classes = names}),
                 AC_ERROR_ARGUMENT, "0 names of classes");
}

static void train_and_val_are_apart(void **state) {
  (void)state;
  static const char *const folders[] = {"both",         "both/train",   "both/val",
                                        "both/train/a", "both/train/b", "both/val/b"};
  for (int i = 0; i < 6; i++) make_folder(folders[i]);
  copy_vector("colour.png", "both/train/a/1.png");
  copy_vector("grey.png", "both/train/b/1.png");
  copy_vector("palette.png", "both/val/b/1.png");
  ac_pictures *list, *validation;
  const test_path path = in_folder("both");
  assert_ok(ac_pictures_open(&list, &validation, path.text, NULL));
  assert_int_equal(ac_pictures_count(list), 2);
  assert_int_equal(ac_pictures_count(validation), 1);
  assert_int_equal(ac_pictures_classes(validation), 2);
  assert_int_equal(ac_pictures_label(validation, 0), 1);
  ac_pictures_free(list);
  ac_pictures_free(validation);
  assert_ok(ac_pictures_open(&list, NULL, path.text, NULL));
  assert_int_equal(ac_pictures_count(list), 2);
  ac_pictures_free(list);
  make_folder("both/val/c");
  copy_vector("palette.png", "both/val/c/1.png");
  assert_refused(ac_pictures_open(&list, &validation, path.text, NULL), AC_ERROR_FORMAT,
                 "there is no class c among those that train");
}

static void lists_name_paths_and_classes(void **state) {
  (void)state;
  make_folder("listed");
  copy_vector("colour.png", "listed/1.png");
  copy_vector("grey.png", "listed/2, two.png");
  const char *path = in_folder("listed.csv").text;
  char csv[512];
  snprintf(csv, sizeof csv, "%s", path);
  write_text("listed.csv", "\xef\xbb\xbfimage,label\r\nlisted/1.png, red \r\n\n"
                           "\"listed/2, two.png\",\"dark \"\"blue\"\"\"\nlisted/1.png,red");
  ac_pictures *list;
  assert_ok(ac_pictures_open(&list, NULL, csv, NULL));
  assert_int_equal(ac_pictures_count(list), 3);
  assert_int_equal(ac_pictures_classes(list), 2);
  assert_string_equal(ac_pictures_class_name(list, 0), "dark \"blue\"");
  assert_string_equal(ac_pictures_class_name(list, 1), "red");
  assert_ends(ac_pictures_path(list, 1), "/listed/2, two.png");
  assert_int_equal(ac_pictures_label(list, 0), 1);
  assert_int_equal(ac_pictures_label(list, 1), 0);
  ac_pictures_free(list);

  write_text("listed.csv", "listed/1.png,10\nlisted/1.png,2\n");
  assert_ok(ac_pictures_open(&list, NULL, csv, NULL));
  assert_int_equal(ac_pictures_classes(list), 11);
  assert_int_equal(ac_pictures_label(list, 0), 10);
  assert_int_equal(ac_pictures_label(list, 1), 2);
  ac_pictures_free(list);

  static const char *const bad[][2] = {
      {"listed/1.png\n", "line 1: there is no class after the path"},
      {"listed/1.png,a,b\n", "line 1: a picture has one class here, not several"},
      {"p,l\nlisted/1.png,\n", "line 2: the class has no name"},
      {"listed/1.png,\"a\n", "line 1: a quote is not closed"},
      {"\"listed/1.png\"x,a\n", "line 1: something follows a closing quote"},
      {"listed/no.png,a\n", "listed/no.png: No such file"},
      {"listed/1.png,\"a\nb\"\nlisted/1.png\n", "line 3: there is no class after the path"},
      {"listed/1.png,99999999\n", "class 99999999; numbers of classes are below"},
      {"", "holds no pictures"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    write_text("listed.csv", bad[i][0]);
    assert_refused(ac_pictures_open(&list, NULL, csv, NULL), AC_ERROR_FORMAT, bad[i][1]);
  }
}

static void pictures_can_have_several_classes(void **state) {
  (void)state;
  copy_vector("colour.png", "1.png");
  write_text("several.csv", "1.png,red,round\n1.png,\n1.png,blue,red\n");
  char csv[512];
  snprintf(csv, sizeof csv, "%s", in_folder("several.csv").text);
  const ac_pictures_desc desc = {.several_labels = true};
  ac_pictures *list;
  assert_ok(ac_pictures_open(&list, NULL, csv, &desc));
  assert_int_equal(ac_pictures_classes(list), 3);
  ac_dataset *dataset;
  const ac_picture_samples samples = {.height = 4};
  assert_ok(ac_dataset_from_pictures(&dataset, list, &samples));
  ac_pictures_free(list);
  assert_string_equal(ac_dataset_field(dataset, 1)->name, "targets");
  static const float rows[3][3] = {{0, 1, 1}, {0, 0, 0}, {1, 1, 0}};
  for (int i = 0; i < 3; i++) {
    float pixels[3 * 4 * 4], targets[3];
    assert_ok(
        ac_dataset_read(dataset, &(ac_sample_key){.index = i}, (void *const[]){pixels, targets}));
    for (int c = 0; c < 3; c++) assert_true(targets[c] == rows[i][c]);
  }
  ac_dataset_free(dataset);
}

static void note_path(void *user, const char *path, const char *sentence) {
  char *text = user;
  assert_non_null(strstr(sentence, path));
  snprintf(text + strlen(text), 200 - strlen(text), "%s;", strrchr(path, '/') + 1);
}

static void bad_pictures_are_named_or_left_out(void **state) {
  (void)state;
  make_folder("bad");
  make_folder("bad/a");
  copy_vector("colour.png", "bad/a/1.png");
  copy_vector("colour.png", "bad/a/3.png");
  size_t bytes;
  unsigned char *data = read_vector("colour.jpg", &bytes);
  write_file(in_folder("bad/a/2.jpg").text, data, bytes / 2 + 200); /* its header is whole */
  free(data);
  char path[512];
  snprintf(path, sizeof path, "%s", in_folder("bad").text);
  ac_pictures *list;
  ac_dataset *dataset;
  float pixels[3 * 8 * 8];
  int32_t label;
  const ac_picture_samples samples = {.height = 8};
  assert_ok(ac_pictures_open(&list, NULL, path, NULL));
  assert_int_equal(ac_pictures_count(list), 3);
  assert_ok(ac_dataset_from_pictures(&dataset, list, &samples));
  assert_ok(ac_dataset_read(dataset, &(ac_sample_key){0}, (void *const[]){pixels, &label}));
  assert_refused(
      ac_dataset_read(dataset, &(ac_sample_key){.index = 1}, (void *const[]){pixels, &label}),
      AC_ERROR_FORMAT, "bad/a/2.jpg is a truncated JPEG picture");
  ac_dataset_free(dataset);
  ac_pictures_free(list);

  char left_out[200] = "";
  const ac_pictures_desc skip = {
      .bad = AC_BAD_PICTURES_SKIP, .report = note_path, .user = left_out};
  write_text("bad/a/4.png", "");
  assert_refused(ac_pictures_open(&list, NULL, path, NULL), AC_ERROR_FORMAT, "a/4.png is empty");
  assert_ok(ac_pictures_open(&list, NULL, path, &skip));
  assert_string_equal(left_out, "2.jpg;4.png;");
  assert_int_equal(ac_pictures_count(list), 2);
  assert_int_equal(ac_pictures_left_out(list), 2);
  ac_pictures_free(list);
  make_folder("bad/b");
  write_text("bad/b/1.png", "no");
  assert_refused(ac_pictures_open(&list, NULL, path, &skip), AC_ERROR_FORMAT,
                 "the folder of class b has no pictures that can be read");
}

/* It is not read: memory for all of it may not be there. */
static void huge_files_are_bad(void **state) {
  (void)state;
  make_folder("huge");
  make_folder("huge/a");
  FILE *stream = fopen(in_folder("huge/a/1.png").text, "wb");
  assert_non_null(stream);
  assert_int_equal(fseek(stream, 1L << 30, SEEK_SET), 0);
  assert_int_equal(fputc(0, stream), 0);
  assert_int_equal(fclose(stream), 0);
  ac_pictures *list;
  assert_refused(ac_pictures_open(&list, NULL, in_folder("huge").text, NULL), AC_ERROR_FORMAT,
                 "huge/a/1.png has 1073741825 bytes; the file of a picture may have 1073741824");
}

/* Sizes of folds and of each class in them differ by at most one, and no picture is twice. */
static void folds_have_their_share_of_each_class(void **state) {
  (void)state;
  char text[8192] = "";
  copy_vector("pixel.png", "1.png");
  for (int i = 0; i < 101; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "1.png,%s\n",
             i < 60   ? "a"
             : i < 90 ? "b"
                      : "c");
  write_text("folds.csv", text);
  ac_pictures *list, *train, *validation;
  assert_ok(ac_pictures_open(&list, NULL, in_folder("folds.csv").text, NULL));
  for (int fold = 1; fold <= 5; fold++) {
    int64_t counts[2][3] = {{0}};
    assert_ok(ac_pictures_fold(&train, &validation, list, fold, 5));
    assert_in_range(ac_pictures_count(validation), 20, 21);
    assert_int_equal(ac_pictures_count(train) + ac_pictures_count(validation), 101);
    for (int64_t i = 0; i < ac_pictures_count(train); i++) counts[0][ac_pictures_label(train, i)]++;
    for (int64_t i = 0; i < ac_pictures_count(validation); i++)
      counts[1][ac_pictures_label(validation, i)]++;
    assert_int_equal(counts[1][0], 12);
    assert_int_equal(counts[1][1], 6);
    assert_in_range(counts[1][2], 2, 3);
    assert_int_equal(counts[0][0], 48);
    assert_int_equal(ac_pictures_classes(train), 3);
    ac_pictures_free(train);
    ac_pictures_free(validation);
  }
  assert_refused(ac_pictures_fold(&train, &validation, list, 6, 5), AC_ERROR_ARGUMENT,
                 "there is no fold 6");
  ac_pictures_free(list);
}

/* ---- samples --------------------------------------------------------------------------------- */

/* Reads the only sample of a file as bytes. */
static void read_sample(const char *name, const ac_picture_samples *samples, uint8_t *pixels) {
  char path[600];
  snprintf(path, sizeof path, VECTORS "/pictures/%s", name);
  const ac_pictures_desc desc = {.unlabelled = true};
  ac_pictures *list;
  ac_dataset *dataset;
  assert_ok(ac_pictures_open(&list, NULL, path, &desc));
  assert_int_equal(ac_pictures_classes(list), 0);
  assert_ok(ac_dataset_from_pictures(&dataset, list, samples));
  ac_pictures_free(list);
  assert_int_equal(ac_dataset_field_count(dataset), 1);
  assert_true(ac_dataset_picture_bytes(dataset) > 0);
  assert_ok(ac_dataset_read(dataset, &(ac_sample_key){0}, (void *const[]){pixels}));
  ac_dataset_free(dataset);
}

static void samples_are_those_of_torchvision(void **state) {
  (void)state;
  static const char *const some[] = {"colour.png", "turned5.jpg", "grey.png"};
  for (int i = 0; i < 12; i++) {
    const char *name = some[i / 4];
    const int size = i % 2 ? 56 : 14;
    char full[80];
    snprintf(full, sizeof full, "sample/%s/%d/%s", i % 4 < 2 ? "bilinear" : "bicubic", size, name);
    const result r = find_result(full);
    uint8_t bytes[3 * 56 * 56], pixels[3 * 56 * 56];
    const ac_picture_samples samples = {.height = size,
                                        .dtype = AC_U8,
                                        .filter =
                                            i % 4 < 2 ? AC_PICTURE_BILINEAR : AC_PICTURE_BICUBIC};
    read_sample(name, &samples, bytes);
    for (int p = 0; p < size * size; p++)
      for (int c = 0; c < 3; c++) pixels[3 * p + c] = bytes[c * size * size + p];
    compare_pixels(full, &r, pixels);
    ac_picture_samples floats = samples;
    floats.dtype = AC_F32;
    float values[3 * 56 * 56];
    read_sample(name, &floats, (uint8_t *)values);
    for (int p = 0; p < 3 * size * size; p++) assert_true(values[p] == (float)bytes[p] / 255.0f);
    free(r.values);
  }
}

/* A sample that is not square shows as much as fits; a stretched one shows all. */
static void samples_have_any_shape(void **state) {
  (void)state;
  uint8_t pixels[3 * 40 * 40], whole[3 * 10 * 40];
  ac_picture_samples samples = {.height = 10, .width = 40, .dtype = AC_U8, .crop_share = 1};
  read_sample("colour.png", &samples, pixels);
  samples.fit = AC_PICTURE_FIT_STRETCH;
  read_sample("colour.png", &samples, whole);
  assert_memory_not_equal(pixels, whole, sizeof whole);
  samples.channels = 1;
  read_sample("colour.png", &samples, whole);
}

/* ---- caches ---------------------------------------------------------------------------------- */

static ac_pictures *open_vectors(void) {
  ac_pictures *list;
  const ac_pictures_desc desc = {.unlabelled = true, .bad = AC_BAD_PICTURES_SKIP};
  assert_ok(ac_pictures_open(&list, NULL, VECTORS "/pictures", &desc));
  return list;
}

/* All samples of two lists, with all that changes them. */
static void compare_samples(const ac_pictures *a, const ac_pictures *b, int64_t channels) {
  enum { SIDE = 24 };
  const ac_picture_changes changes = {.random_crop = true, .flip = true, .rand_augment = 2};
  for (int changed = 0; changed < 2; changed++) {
    const ac_picture_samples samples = {
        .height = SIDE, .channels = channels, .dtype = AC_U8, .changes = changed ? &changes : NULL};
    ac_dataset *x, *y;
    assert_ok(ac_dataset_from_pictures(&x, a, &samples));
    assert_ok(ac_dataset_from_pictures(&y, b, &samples));
    assert_true(ac_dataset_picture_bytes(y) < ac_dataset_picture_bytes(x));
    for (int64_t i = 0; i < ac_pictures_count(a); i++) {
      uint8_t one[3 * SIDE * SIDE], other[3 * SIDE * SIDE];
      const ac_sample_key key = {.index = i, .epoch = 1, .seed = 9};
      assert_ok(ac_dataset_read(x, &key, (void *const[]){one}));
      assert_ok(ac_dataset_read(y, &key, (void *const[]){other}));
      assert_memory_equal(one, other, (size_t)channels * SIDE * SIDE);
    }
    ac_dataset_free(x);
    ac_dataset_free(y);
  }
}

static void caches_have_the_pixels_of_files(void **state) {
  (void)state;
  for (int64_t channels = 1; channels <= 3; channels += 2) {
    const test_path path = in_folder(channels == 1 ? "grey.cache" : "colour.cache");
    ac_pictures *plain = open_vectors(), *made = open_vectors(), *opened = open_vectors();
    assert_true(ac_pictures_count(plain) > 25); /* of all formats, orientations and depths */
    assert_ok(ac_pictures_use_cache(made, path.text, channels));
    FILE *file = fopen(path.text, "rb");
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    assert_int_equal((uint64_t)ftell(file), ac_pictures_cache_bytes(plain, channels));
    fclose(file);
    assert_ok(ac_pictures_use_cache(opened, path.text, channels));
    assert_refused(ac_pictures_use_cache(opened, path.text, channels), AC_ERROR_STATE,
                   "has a cache already");
    compare_samples(plain, made, channels);
    compare_samples(plain, opened, channels);
    ac_dataset *dataset;
    assert_refused(
        ac_dataset_from_pictures(&dataset, opened, &(ac_picture_samples){.channels = 4 - channels}),
        AC_ERROR_ARGUMENT, "the cache has pictures of");
    ac_pictures_free(plain);
    ac_pictures_free(made);
    ac_pictures_free(opened);
  }
  ac_pictures *list = open_vectors();
  assert_refused(ac_pictures_use_cache(list, in_folder("grey.cache").text, 3), AC_ERROR_FORMAT,
                 "has pictures in grey, and they are wanted in colours");
  assert_refused(ac_pictures_use_cache(list, in_folder("x").text, 2), AC_ERROR_ARGUMENT,
                 "1 or 3 channels, not 2");
  assert_int_equal(ac_pictures_cache_bytes(list, 2), 0);
  assert_int_equal(ac_pictures_cache_bytes(NULL, 3), 0);
  ac_pictures_free(list);
}

static void put_number(unsigned char *to, uint32_t value) {
  for (int i = 0; i < 4; i++) to[i] = (unsigned char)(value >> (24 - 8 * i));
}

static unsigned char *put_chunk(unsigned char *to, const char *name, const void *data,
                                size_t bytes) {
  put_number(to, (uint32_t)bytes);
  memcpy(to + 4, name, 4);
  memcpy(to + 8, data, bytes);
  put_number(to + 8 + bytes, (uint32_t)crc32(0, to + 4, (uInt)bytes + 4));
  return to + 12 + bytes;
}

/* A grey PNG file with pixels that are not compressed. */
static void write_stored_png(const char *path, int side, const uint8_t *pixels) {
  const size_t row = (size_t)side + 1, bytes = row * (size_t)side;
  unsigned char head[13] = {[8] = 8}, *rows = calloc(1, bytes);
  uLongf packed_bytes = compressBound((uLong)bytes);
  unsigned char *packed = malloc(packed_bytes), *file = malloc(packed_bytes + 100);
  put_number(head, (uint32_t)side);
  put_number(head + 4, (uint32_t)side);
  for (int y = 0; y < side; y++)
    memcpy(rows + (size_t)y * row + 1, pixels + (size_t)y * row - y, (size_t)side);
  assert_int_equal(compress2(packed, &packed_bytes, rows, (uLong)bytes, 0), Z_OK);
  memcpy(file, "\x89PNG\r\n\x1a\n", 8);
  unsigned char *at = put_chunk(file + 8, "IHDR", head, sizeof head);
  at = put_chunk(at, "IDAT", packed, packed_bytes);
  at = put_chunk(at, "IEND", head, 0);
  write_file(path, file, (size_t)(at - file));
  free(rows);
  free(packed);
  free(file);
}

/* Two files with the same name, size and first 64 KiB, which differ further on: "same/a/x.png" and
 * "same/b/x.png". Their bytes are not compressed, so only the end says which is which. */
static void caches_tell_apart_what_begins_alike(void **state) {
  (void)state;
  enum { SIDE = 300 };
  static uint8_t pixels[SIDE * SIDE];
  const char *const names[] = {"same/a/x.png", "same/b/x.png"};
  make_folder("same");
  make_folder("same/a");
  make_folder("same/b");
  for (int i = 0; i < 2; i++) {
    memset(pixels + 250 * SIDE, 100 + 50 * i, (size_t)(SIDE * 10));
    write_stored_png(in_folder(names[i]).text, SIDE, pixels);
  }
  ac_pictures *list;
  assert_ok(ac_pictures_open(&list, NULL, in_folder("same").text, NULL));
  assert_ok(ac_pictures_use_cache(list, in_folder("same.cache").text, 1));
  ac_dataset *dataset;
  assert_ok(ac_dataset_from_pictures(
      &dataset, list,
      &(ac_picture_samples){
          .height = SIDE, .channels = 1, .dtype = AC_U8, .fit = AC_PICTURE_FIT_STRETCH}));
  for (int i = 0; i < 2; i++) {
    int32_t label;
    assert_ok(
        ac_dataset_read(dataset, &(ac_sample_key){.index = i}, (void *const[]){pixels, &label}));
    assert_int_equal(pixels[255 * SIDE], 100 + 50 * label);
  }
  ac_dataset_free(dataset);
  ac_pictures_free(list);
}

/* Opens the three pictures of "cached" with the cache "three.cache". */
static ac_status use_three(ac_pictures **list) {
  assert_ok(ac_pictures_open(list, NULL, in_folder("cached").text,
                             &(ac_pictures_desc){.unlabelled = true}));
  const ac_status status = ac_pictures_use_cache(*list, in_folder("three.cache").text, 3);
  if (status != AC_OK) ac_pictures_free(*list);
  return status;
}

static void caches_that_do_not_fit_are_refused(void **state) {
  (void)state;
  ac_pictures *list;
  make_folder("cached");
  copy_vector("colour.png", "cached/a.png");
  copy_vector("palette.png", "cached/b.png");
  copy_vector("turned6.jpg", "cached/c.jpg");
  assert_ok(use_three(&list));
  ac_pictures_free(list);
  /* Fewer pictures are in it as well; others, and the same under another name, are not. */
  assert_int_equal(remove(in_folder("cached/b.png").text), 0);
  assert_ok(use_three(&list));
  ac_pictures_free(list);
  copy_vector("grey.png", "cached/b.png");
  assert_refused(use_three(&list), AC_ERROR_FORMAT, "b.png as it is now");
  assert_int_equal(remove(in_folder("cached/b.png").text), 0);
  copy_vector("colour.png", "cached/d.png");
  assert_refused(use_three(&list), AC_ERROR_FORMAT, "d.png as it is now");
  assert_int_equal(remove(in_folder("cached/d.png").text), 0);

  size_t bytes;
  const test_path path = in_folder("three.cache");
  unsigned char *data = read_file(path.text, &bytes);
  data[bytes - 5] ^= 1; /* a pixel of the last picture */
  write_file(path.text, data, bytes);
  assert_ok(use_three(&list));
  ac_dataset *dataset;
  uint8_t pixels[3 * 8 * 8];
  assert_ok(
      ac_dataset_from_pictures(&dataset, list, &(ac_picture_samples){.height = 8, .dtype = AC_U8}));
  assert_ok(ac_dataset_read(dataset, &(ac_sample_key){.index = 0}, (void *const[]){pixels}));
  assert_refused(ac_dataset_read(dataset, &(ac_sample_key){.index = 1}, (void *const[]){pixels}),
                 AC_ERROR_FORMAT, "three.cache, a cache of images, is damaged; remove it");
  ac_dataset_free(dataset);
  ac_pictures_free(list);

  write_file(path.text, data, bytes - 1);
  assert_refused(use_three(&list), AC_ERROR_FORMAT, "is damaged");
  write_file(path.text, data, 20);
  assert_refused(use_three(&list), AC_ERROR_FORMAT, "is not a cache of images");
  for (size_t at = 8; at < 32 + 3 * 32; at++) { /* heads and records, each byte */
    data[at] ^= 0x55;
    write_file(path.text, data, bytes);
    ac_dataset *read;
    if (use_three(&list) == AC_OK) { /* that of a picture which is not in the list, or of pixels */
      assert_ok(ac_dataset_from_pictures(&read, list,
                                         &(ac_picture_samples){.height = 8, .dtype = AC_U8}));
      for (int64_t i = 0; i < 2; i++)
        ac_dataset_read(read, &(ac_sample_key){.index = i}, (void *const[]){pixels});
      ac_dataset_free(read);
      ac_pictures_free(list);
    }
    data[at] ^= 0x55;
  }
  free(data);
  write_text("three.cache", "a text that somebody has written");
  assert_refused(use_three(&list), AC_ERROR_FORMAT, "is not a cache of images; name another file");
  /* What cannot be decoded leaves no file. */
  assert_int_equal(remove(path.text), 0);
  unsigned char *cut = read_file(in_folder("cached/a.png").text, &bytes);
  write_file(in_folder("cached/e.png").text, cut, bytes - bytes / 3);
  free(cut);
  assert_refused(use_three(&list), AC_ERROR_FORMAT, "e.png is a truncated PNG picture");
  FILE *file = fopen(path.text, "rb");
  assert_null(file);
}

/* Programs can tell why nothing was opened without reading the sentence. */
static void problems_are_told_apart(void **state) {
  (void)state;
  static const char *const names[] = {"red", "blue"};
  ac_pictures_problem problem = AC_PICTURES_NONE;
  ac_pictures_desc desc = {.problem = &problem};
  ac_pictures *list;
  make_folder("empty");
  make_folder("walls");
  make_folder("walls/green");
  copy_vector("colour.png", "walls/green/1.png");
  char path[600];
  snprintf(path, sizeof path, "%s", in_folder("empty").text);
  problem = AC_PICTURES_OTHER_CLASSES;
  assert_refused(ac_pictures_open(&list, NULL, path, &desc), AC_ERROR_FORMAT, "has no folders");
  assert_int_equal(problem, AC_PICTURES_NONE);
  desc.unlabelled = true;
  problem = AC_PICTURES_OTHER_CLASSES;
  assert_refused(ac_pictures_open(&list, NULL, path, &desc), AC_ERROR_FORMAT, "holds no pictures");
  assert_int_equal(problem, AC_PICTURES_NONE);
  desc.unlabelled = false;
  snprintf(path, sizeof path, "%s", in_folder("walls").text);
  assert_ok(ac_pictures_open(&list, NULL, path, &desc));
  assert_int_equal(problem, AC_PICTURES_OTHER_PROBLEM);
  ac_pictures_free(list);
  desc.classes = names;
  desc.class_count = 2;
  assert_refused(ac_pictures_open(&list, NULL, path, &desc), AC_ERROR_FORMAT, "none of the 2");
  assert_int_equal(problem, AC_PICTURES_OTHER_CLASSES);
  desc.class_count = 0;
  assert_refused(ac_pictures_open(&list, NULL, path, &desc), AC_ERROR_ARGUMENT, "0 names");
  assert_int_equal(problem, AC_PICTURES_OTHER_PROBLEM);

  static const char *const pictures[] = {"a.jpg", "b/a.JPEG",     "a.jfif", "a.jpe",
                                         "a.PNG", "x.csv/a.webp", "a.gif",  "a.TIFF"};
  static const char *const others[] = {"a.txt",    "jpg",    "a.jpg/b", ".a.jpg",
                                       "b/.a.png", "a.jpg2", ""};
  for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++)
    assert_true(ac_picture_is_named(pictures[i]));
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_false(ac_picture_is_named(others[i]));
}

static void numbers_out_of_range_are_refused(void **state) {
  (void)state;
  ac_pictures *list;
  ac_dataset *dataset;
  const ac_pictures_desc desc = {.unlabelled = true};
  assert_ok(ac_pictures_open(&list, NULL, VECTORS "/pictures/colour.png", &desc));
  static const struct {
    ac_picture_samples samples;
    const char *mention;
  } bad[] = {{{.height = -1}, "samples of -1 x -1 pixels"},
             {{.height = 20000}, "samples of 20000 x 20000 pixels"},
             {{.channels = 2}, "1 or 3 channels, not 2"},
             {{.dtype = AC_I32}, "f32 or u8, not i32"},
             {{.crop_share = 1.5}, "a crop share of 1.5"},
             {{.threads = 17}, "17 threads"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_refused(ac_dataset_from_pictures(&dataset, list, &bad[i].samples), AC_ERROR_ARGUMENT,
                   bad[i].mention);
  ac_pictures_free(list);
  assert_int_equal(ac_dataset_picture_bytes(NULL), 0);
  assert_refused(ac_pictures_open(&list, NULL, in_folder("nowhere").text, NULL), AC_ERROR_ARGUMENT,
                 "is neither a folder nor a .csv file");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(folders_are_classes),
      cmocka_unit_test(links_to_folders_are_followed_once),
      cmocka_unit_test(classes_can_be_given),
      cmocka_unit_test(train_and_val_are_apart),
      cmocka_unit_test(lists_name_paths_and_classes),
      cmocka_unit_test(pictures_can_have_several_classes),
      cmocka_unit_test(bad_pictures_are_named_or_left_out),
      cmocka_unit_test(huge_files_are_bad),
      cmocka_unit_test(folds_have_their_share_of_each_class),
      cmocka_unit_test(samples_are_those_of_torchvision),
      cmocka_unit_test(samples_have_any_shape),
      cmocka_unit_test(caches_have_the_pixels_of_files),
      cmocka_unit_test(caches_tell_apart_what_begins_alike),
      cmocka_unit_test(caches_that_do_not_fit_are_refused),
      cmocka_unit_test(problems_are_told_apart),
      cmocka_unit_test(numbers_out_of_range_are_refused),
  };
  return cmocka_run_group_tests(tests, open_expected, close_expected);
}
