/* Pictures in files: decoded, turned and resized as by Pillow (tests/vectors/pictures.py), found in
 * folders and lists, and refused by name where they are damaged. */
#include "support/files.h"

#include "image/change.h"
#include "image/decode.h"
#include "image/resample.h"

#include <accrue/model_file.h>
#include <accrue/pictures.h>

#define VECTORS ACCRUE_TEST_VECTORS

static ac_model_file *expected;

static int open_expected(void **state) {
  if (make_test_folder(state) != 0) return 1;
  return ac_model_file_open(&expected, VECTORS "/pictures.safetensors") != AC_OK;
}

static int close_expected(void **state) {
  ac_model_file_close(expected);
  return remove_test_folder(state);
}

/* A frozen result; free it. */
typedef struct result {
  int64_t height, width, count;
  float *values;
} result;

static result find(const char *name) {
  const int index = ac_model_file_find(expected, name);
  if (index < 0) fail_msg("there is no result %s", name);
  const ac_model_tensor *tensor = ac_model_file_tensor(expected, index);
  result r = {.height = tensor->shape[0], .width = tensor->shape[1], .count = 1};
  for (int d = 0; d < tensor->rank; d++) r.count *= tensor->shape[d];
  r.values = malloc((size_t)r.count * sizeof *r.values);
  assert_non_null(r.values);
  assert_ok(ac_model_file_read(expected, index, 0, r.count, r.values));
  return r;
}

/* A file of the vectors; free it. */
static unsigned char *read_vector(const char *name, size_t *bytes) {
  char path[600];
  snprintf(path, sizeof path, VECTORS "/pictures/%s", name);
  return read_file(path, bytes);
}

/* ---- decoding -------------------------------------------------------------------------------- */

/* PNG and WebP are lossless or exactly defined. Decoders of JPEG may round the inverse transform
 * and the colours in another way; Pillow brings one of its own. */
static int tolerance(const char *name) {
  return strstr(name, ".jpg") ? 1 : 0;
}

static void compare(const char *name, const result *r, const uint8_t *pixels) {
  for (int64_t i = 0; i < r->count; i++)
    if (abs((int)r->values[i] - pixels[i]) > tolerance(name))
      fail_msg("%s: value %lld is %d, Pillow has %g", name, (long long)i, pixels[i],
               (double)r->values[i]);
}

static void check_decoded(const char *name, const char *as, int channels) {
  char full[80];
  snprintf(full, sizeof full, "%s/%s", name, as);
  const result r = find(full);
  size_t bytes;
  unsigned char *data = read_vector(name, &bytes);
  const ac_picture_file file = {.path = name, .data = data, .bytes = bytes};
  ac_picture_info info;
  assert_ok(ac_picture_inspect(&file, &info));
  const bool swapped = info.orientation > 4;
  assert_int_equal(swapped ? info.height : info.width, r.width);
  assert_int_equal(swapped ? info.width : info.height, r.height);
  const size_t room = (size_t)(3 * info.width * info.height);
  uint8_t *pixels = malloc(room), *turned = malloc(room);
  assert_ok(ac_picture_decode(&file, &info, 1, channels, pixels));
  ac_picture_orient(pixels, info.width, info.height, channels, info.orientation, turned);
  compare(full, &r, turned);
  free(pixels);
  free(turned);
  free(data);
  free(r.values);
}

static const char *const names[] = {
    "colour.png",      "grey.png",       "bits.png",      "palette.png",    "palette4.png",
    "transparent.png", "alpha.png",      "turned.png",    "grey_alpha.png", "resize.png",
    "pixel.png",       "interlaced.png", "deep.png",      "colour.jpg",     "colour420.jpg",
    "progressive.jpg", "grey.jpg",       "inks.jpg",      "turned1.jpg",    "turned2.jpg",
    "turned3.jpg",     "turned4.jpg",    "turned5.jpg",   "turned6.jpg",    "turned7.jpg",
    "turned8.jpg",     "colour.webp",    "lossless.webp", "alpha.webp",     "turned.webp"};
enum { NAMES = sizeof names / sizeof *names };

static void pictures_are_those_of_pillow(void **state) {
  (void)state;
  for (int i = 0; i < NAMES; i++) check_decoded(names[i], "rgb", 3);
}

static void grey_is_that_of_pillow(void **state) {
  (void)state;
  static const char *const some[] = {"colour.png", "grey.png", "palette.png", "turned3.jpg"};
  for (int i = 0; i < 4; i++) check_decoded(some[i], "grey", 1);
}

/* Decoded at a half, a pixel is about the mean of four; so says a slowly changing picture. */
static void jpegs_are_decoded_smaller(void **state) {
  (void)state;
  size_t bytes;
  unsigned char *data = read_vector("colour.jpg", &bytes);
  const ac_picture_file file = {.path = "colour.jpg", .data = data, .bytes = bytes};
  ac_picture_info info;
  assert_ok(ac_picture_inspect(&file, &info));
  assert_int_equal(ac_picture_reduction(&info, 44, 1), 1);
  assert_int_equal(ac_picture_reduction(&info, 22, 15), 2);
  assert_int_equal(ac_picture_reduction(&info, 22, 16), 1);
  assert_int_equal(ac_picture_reduction(&info, 6, 4), 8);
  uint8_t whole[3 * 29 * 43], small[3 * 15 * 22];
  assert_ok(ac_picture_decode(&file, &info, 1, 3, whole));
  assert_ok(ac_picture_decode(&file, &info, 2, 3, small));
  int64_t sum[2] = {0, 0};
  for (int y = 0; y < 14; y++)
    for (int x = 0; x < 3 * 21; x++) {
      sum[0] += small[y * 66 + x];
      for (int p = 0; p < 4; p++)
        sum[1] += whole[(2 * y + p / 2) * 129 + (2 * (x / 3) + p % 2) * 3 + x % 3];
    }
  assert_true(llabs(4 * sum[0] - sum[1]) < sum[1] / 50);
  free(data);
}

/* Every prefix of every file is refused or, if only what follows the pixels is missing, read. Where
 * it is refused the sentence names the file. */
static void truncated_files_are_named(void **state) {
  (void)state;
  for (int i = 0; i < NAMES; i++) {
    size_t bytes;
    unsigned char *data = read_vector(names[i], &bytes);
    int64_t refused = 0;
    uint8_t *pixels = malloc(3 * 61 * 83);
    for (size_t length = 0; length < bytes; length++) {
      unsigned char *part = malloc(length ? length : 1); /* so that sanitizers see its end */
      memcpy(part, data, length);
      const ac_picture_file file = {.path = names[i], .data = part, .bytes = length};
      ac_picture_info info;
      ac_status status = ac_picture_inspect(&file, &info);
      if (status == AC_OK) status = ac_picture_decode(&file, &info, 1, 3, pixels);
      if (status != AC_OK) {
        assert_int_equal(status, AC_ERROR_FORMAT);
        assert_non_null(strstr(ac_last_error(), names[i]));
        refused++;
      }
      free(part);
    }
    assert_true((size_t)refused + 24 >= bytes); /* at most the end: two markers or a chunk */
    free(pixels);
    free(data);
  }
}

static void assert_bad(const char *name, const void *data, size_t bytes, const char *mention) {
  const ac_picture_file file = {.path = name, .data = data, .bytes = bytes};
  ac_picture_info info;
  assert_refused(ac_picture_inspect(&file, &info), AC_ERROR_FORMAT, mention);
}

static void hostile_files_are_named(void **state) {
  (void)state;
  size_t bytes;
  assert_bad("a.jpg", "", 0, "a.jpg is empty");
  assert_bad("a.jpg", "GIF89a12345678", 14, "a.jpg is a GIF picture, not a picture that is JPEG");
  assert_bad("b.png", "hello hello", 11, "b.png is text, not a picture");
  unsigned char *data = read_vector("colour.png", &bytes);
  data[16] = data[20] = 0x7f; /* width and height beyond what memory holds, with a wrong checksum */
  assert_bad("c.png", data, bytes, "c.png is a damaged PNG picture");
  free(data);
  data = read_vector("colour.jpg", &bytes);
  for (size_t at = 0; at + 9 < bytes; at++)
    if (data[at] == 0xff && data[at + 1] == 0xc0) memset(data + at + 5, 0xfa, 4);
  assert_bad("d.jpg", data, bytes, "d.jpg: 64250 x 64250 pixels are too many");
  free(data);
}

/* A PNG file may say after its pixels how it is turned. */
static void orientation_may_follow_pixels(void **state) {
  (void)state;
  static const uint8_t chunk[] = {0, 0, 0, 26, 'e', 'X',  'I', 'f', 'M', 'M', 0, '*', 0,
                                  0, 0, 8, 0,  1,   0x01, 18,  0,   3,   0,   0, 0,   1,
                                  0, 6, 0, 0,  0,   0,    0,   0,   0,   0,   0, 0};
  enum { END = 12 };
  size_t bytes;
  unsigned char *data = read_vector("colour.png", &bytes);
  uint8_t *turned = malloc(bytes + sizeof chunk);
  assert_non_null(turned);
  memcpy(turned, data, bytes - END);
  memcpy(turned + bytes - END, chunk, sizeof chunk);
  memcpy(turned + bytes - END + sizeof chunk, data + bytes - END, END);
  ac_picture_file file = {.path = "a.png", .data = turned, .bytes = bytes + sizeof chunk};
  ac_picture_info info;
  assert_ok(ac_picture_inspect(&file, &info));
  assert_int_equal(info.orientation, 6);
  file.bytes = bytes; /* the chunk is cut */
  assert_ok(ac_picture_inspect(&file, &info));
  assert_int_equal(info.orientation, 1);
  free(turned);
  free(data);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

static void check_resized(const char *filter, int64_t height, int64_t width) {
  char name[80];
  snprintf(name, sizeof name, "resize/%s/%lldx%lld", filter, (long long)height, (long long)width);
  const result whole = find("resize.png/rgb"), r = find(name);
  uint8_t *from = malloc((size_t)whole.count), *to = malloc((size_t)r.count);
  for (int64_t i = 0; i < whole.count; i++) from[i] = (uint8_t)whole.values[i];
  ac_resampling how = {.filter =
                           strcmp(filter, "bicubic") ? AC_PICTURE_BILINEAR : AC_PICTURE_BICUBIC,
                       .channels = 3,
                       .from_width = whole.width,
                       .from_height = whole.height,
                       .box_width = whole.width,
                       .box_height = whole.height,
                       .width = width,
                       .height = height,
                       .result_width = width,
                       .result_height = height};
  void *room = malloc((size_t)ac_resample_room(&how));
  ac_resample(&how, from, room, to);
  compare(name, &r, to);
  free(room);
  /* A part of the result has the same pixels. */
  how.left = width / 3, how.top = height / 4;
  how.result_width = width - how.left, how.result_height = height - how.top;
  room = malloc((size_t)ac_resample_room(&how));
  ac_resample(&how, from, room, to);
  for (int64_t y = 0; y < how.result_height; y++)
    for (int64_t x = 0; x < 3 * how.result_width; x++)
      assert_int_equal(to[y * 3 * how.result_width + x],
                       (int)r.values[(y + how.top) * 3 * width + 3 * how.left + x]);
  free(room);
  free(from);
  free(to);
  free(whole.values);
  free(r.values);
}

static void sizes_are_those_of_pillow(void **state) {
  (void)state;
  static const int64_t sizes[][2] = {{61, 83}, {30, 41}, {7, 9},   {61, 20}, {13, 83},
                                     {90, 50}, {1, 1},   {20, 60}, {20, 63}, {9, 100}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    check_resized("bilinear", sizes[i][0], sizes[i][1]);
    check_resized("bicubic", sizes[i][0], sizes[i][1]);
  }
}

/* A rectangle of a picture becomes what the cut-out picture would. */
static void a_box_is_a_picture_of_its_own(void **state) {
  (void)state;
  const result whole = find("resize.png/rgb");
  uint8_t from[61 * 83 * 3], cut[20 * 31 * 3], to[2][15 * 17 * 3];
  for (int64_t i = 0; i < whole.count; i++) from[i] = (uint8_t)whole.values[i];
  for (int y = 0; y < 20; y++) memcpy(cut + y * 93, from + ((y + 7) * 83 + 11) * 3, 93);
  ac_resampling how = {.filter = AC_PICTURE_BICUBIC,
                       .channels = 3,
                       .from_width = 83,
                       .from_height = 61,
                       .box_left = 11,
                       .box_top = 7,
                       .box_width = 31,
                       .box_height = 20,
                       .width = 17,
                       .height = 15,
                       .result_width = 17,
                       .result_height = 15};
  void *room = malloc((size_t)ac_resample_room(&how));
  ac_resample(&how, from, room, to[0]);
  how.from_width = 31, how.from_height = 20, how.box_left = how.box_top = 0;
  ac_resample(&how, cut, room, to[1]);
  assert_memory_equal(to[0], to[1], sizeof to[0]);
  free(room);
  free(whole.values);
}

/* ---- changes --------------------------------------------------------------------------------- */

/* All operations at all magnitudes that are frozen. */
/* The memory of a dataset is stated by whole pictures, and random crops are parts of them. */
static void a_box_needs_no_more_room(void **state) {
  (void)state;
  for (int64_t width = 50; width <= 400; width += 50)
    for (int64_t height = 50; height <= 2000; height += 50) {
      ac_resampling r = {.channels = 3,
                         .from_width = 400,
                         .from_height = 2000,
                         .width = 100,
                         .height = 100,
                         .result_width = 100,
                         .result_height = 100,
                         .box_width = 400,
                         .box_height = 2000};
      const uint64_t whole = ac_resample_room(&r);
      r.box_width = width;
      r.box_height = height;
      assert_true(ac_resample_room(&r) <= whole);
    }
}

static void operations_are_those_of_pillow(void **state) {
  (void)state;
  const result whole = find("colour.png/rgb");
  int met[16] = {0};
  for (int i = 0; i < ac_model_file_tensor_count(expected); i++) {
    const char *name = ac_model_file_tensor(expected, i)->name;
    int number;
    double magnitude;
    if (sscanf(name, "operation/%d/%lf", &number, &magnitude) != 2) continue;
    uint8_t data[3 * 29 * 43], room[3 * 29 * 43];
    for (int64_t v = 0; v < whole.count; v++) data[v] = (uint8_t)whole.values[v];
    const ac_pixels pixels = {data, 43, 29, 3};
    if (number == AC_OPERATIONS) ac_picture_hue(&pixels, magnitude);
    else ac_picture_operate((ac_picture_operation)number, magnitude, &pixels, room);
    const result r = find(name);
    compare(name, &r, data);
    free(r.values);
    met[number]++;
  }
  for (int number = 1; number <= AC_OPERATIONS; number++) assert_true(met[number] > 0);
  free(whole.values);
}

/* Drawn rectangles lie in the picture, and their shapes are those that are allowed. */
static void crops_are_in_their_ranges(void **state) {
  (void)state;
  ac_picture_changes changes = {.random_crop = true, .crop_area = {0.2, 0.7}};
  assert_ok(ac_picture_changes_complete(&changes));
  double least = 1, most = 0;
  for (int64_t i = 0; i < 2000; i++) {
    const ac_sample_key key = {.index = i, .epoch = 3, .seed = 9};
    const ac_picture_box box = ac_picture_draw_crop(&changes, &key, 200, 150);
    assert_true(box.left >= 0 && box.top >= 0 && box.left + box.width <= 200 &&
                box.top + box.height <= 150);
    const double area = (double)(box.width * box.height) / (200 * 150),
                 aspect = (double)box.width / (double)box.height;
    assert_true(area > 0.19 && area < 0.71 && aspect > 0.73 && aspect < 1.36);
    if (area < least) least = area;
    if (area > most) most = area;
  }
  assert_true(least < 0.22 && most > 0.65);
  const ac_picture_box flat = ac_picture_draw_crop(&changes, &(ac_sample_key){0}, 1000, 10);
  assert_true(flat.width == 13 && flat.height == 10 && flat.left == 493);
}

/* The same key gives the same sample, another seed, epoch or index another one; and a change that
 * is switched on leaves the rectangle of the others as it was. */
static void changes_depend_on_the_key_alone(void **state) {
  (void)state;
  const ac_picture_changes changes = {.random_crop = true,
                                      .flip = true,
                                      .rand_augment = 2,
                                      .brightness = 0.4,
                                      .contrast = 0.4,
                                      .saturation = 0.4,
                                      .hue = 0.1};
  const ac_picture_samples samples = {.height = 16, .dtype = AC_U8, .changes = &changes};
  ac_pictures *list;
  ac_dataset *dataset[2];
  const ac_pictures_desc desc = {.unlabelled = true};
  assert_ok(ac_pictures_open(&list, NULL, VECTORS "/pictures", &desc));
  for (int d = 0; d < 2; d++) assert_ok(ac_dataset_from_pictures(&dataset[d], list, &samples));
  ac_pictures_free(list);
  const ac_sample_key keys[] = {{3, 0, 7}, {3, 1, 7}, {3, 0, 8}, {4, 0, 7}};
  uint8_t read[2][4][3 * 16 * 16];
  for (int k = 0; k < 4; k++) {
    assert_ok(ac_dataset_read(dataset[0], &keys[k], (void *const[]){read[0][k]}));
    assert_ok(ac_dataset_read(dataset[1], &keys[3 - k], (void *const[]){read[1][3 - k]}));
  }
  assert_memory_equal(read[0], read[1], sizeof read[0]);
  for (int k = 1; k < 4; k++) assert_memory_not_equal(read[0][0], read[0][k], sizeof read[0][0]);
  for (int d = 0; d < 2; d++) ac_dataset_free(dataset[d]);
}

static void changes_out_of_range_are_refused(void **state) {
  (void)state;
  static const struct {
    ac_picture_changes changes;
    const char *mention;
  } bad[] = {{{.crop_area = {0.5, 0.4}}, "a crop's area from 0.5 to 0.4"},
             {{.crop_area = {0.5, 1.1}}, "a crop's area from 0.5 to 1.1"},
             {{.crop_aspect = {-1, 1}}, "a crop's width / height from -1 to 1"},
             {{.rand_augment = 17}, "17 operations of RandAugment"},
             {{.magnitude = 31}, "a magnitude of 31"},
             {{.rand_augment = 1, .trivial_augment = true}, "exclude each other"},
             {{.contrast = -1}, "a change of brightness, contrast or saturation by -1"},
             {{.hue = 0.6}, "a change of hue by 0.6"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    ac_picture_changes changes = bad[i].changes;
    assert_refused(ac_picture_changes_complete(&changes), AC_ERROR_ARGUMENT, bad[i].mention);
  }
}

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
    const result r = find(full);
    uint8_t bytes[3 * 56 * 56], pixels[3 * 56 * 56];
    const ac_picture_samples samples = {.height = size,
                                        .dtype = AC_U8,
                                        .filter =
                                            i % 4 < 2 ? AC_PICTURE_BILINEAR : AC_PICTURE_BICUBIC};
    read_sample(name, &samples, bytes);
    for (int p = 0; p < size * size; p++)
      for (int c = 0; c < 3; c++) pixels[3 * p + c] = bytes[c * size * size + p];
    compare(full, &r, pixels);
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
      cmocka_unit_test(pictures_are_those_of_pillow),
      cmocka_unit_test(grey_is_that_of_pillow),
      cmocka_unit_test(jpegs_are_decoded_smaller),
      cmocka_unit_test(truncated_files_are_named),
      cmocka_unit_test(hostile_files_are_named),
      cmocka_unit_test(orientation_may_follow_pixels),
      cmocka_unit_test(sizes_are_those_of_pillow),
      cmocka_unit_test(a_box_is_a_picture_of_its_own),
      cmocka_unit_test(a_box_needs_no_more_room),
      cmocka_unit_test(operations_are_those_of_pillow),
      cmocka_unit_test(crops_are_in_their_ranges),
      cmocka_unit_test(changes_depend_on_the_key_alone),
      cmocka_unit_test(changes_out_of_range_are_refused),
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
      cmocka_unit_test(numbers_out_of_range_are_refused),
  };
  return cmocka_run_group_tests(tests, open_expected, close_expected);
}
