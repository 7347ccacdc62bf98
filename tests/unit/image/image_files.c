/* Pictures decoded, turned, resized and changed as by Pillow, and refused by name where they are
 * damaged. */
#include "support/picture_results.h"

#include "image/change.h"
#include "image/decode.h"
#include "image/resample.h"

#include <accrue/pictures.h>

/* ---- decoding -------------------------------------------------------------------------------- */

static void check_decoded(const char *name, const char *as, int channels) {
  char full[80];
  snprintf(full, sizeof full, "%s/%s", name, as);
  const result r = find_result(full);
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
  compare_pixels(full, &r, turned);
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

/* What is written in memory is read as it was, in exactly the room that is asked for. */
static void written_pictures_are_read_as_they_were(void **state) {
  (void)state;
  static const struct {
    int64_t width, height;
    int channels;
  } shapes[] = {{1, 1, 1}, {1, 1, 3}, {200, 3, 3}, {7, 90, 1}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const int64_t width = shapes[i].width, height = shapes[i].height;
    const int channels = shapes[i].channels;
    const size_t count = (size_t)(width * height * channels);
    const uint64_t most = ac_picture_png_bytes(width, height, channels);
    /* Decoding needs room for colours, even of a grey picture. */
    uint8_t *pixels = malloc(count), *read = malloc((size_t)(3 * width * height)),
            *png = malloc(most);
    uint64_t bytes;
    for (size_t p = 0; p < count; p++) pixels[p] = (uint8_t)(p * p * 2654435761u >> 16);
    assert_refused(ac_picture_encode_png(png, most - 1, &bytes, width, height, channels, pixels),
                   AC_ERROR_ARGUMENT, "bytes of room");
    assert_ok(ac_picture_encode_png(png, most, &bytes, width, height, channels, pixels));
    assert_true(bytes > 57 && bytes <= most);
    const ac_picture_file file = {.path = "own.png", .data = png, .bytes = (size_t)bytes};
    ac_picture_info info;
    assert_ok(ac_picture_inspect(&file, &info));
    assert_true(info.width == width && info.height == height);
    assert_ok(ac_picture_decode(&file, &info, 1, channels, read));
    assert_memory_equal(read, pixels, count);
    free(pixels);
    free(read);
    free(png);
  }
  uint8_t some[4];
  uint64_t bytes;
  assert_int_equal(ac_picture_png_bytes(0, 1, 3), 0);
  assert_int_equal(ac_picture_png_bytes(65536, 1, 1), 0);
  assert_int_equal(ac_picture_png_bytes(1, 1, 2), 0);
  assert_refused(ac_picture_encode_png(some, 4, &bytes, 1, 1, 2, some), AC_ERROR_ARGUMENT,
                 "no picture of 1 x 1 pixels and 2 channels");
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
  const result whole = find_result("resize.png/rgb"), r = find_result(name);
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
  compare_pixels(name, &r, to);
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
  const result whole = find_result("resize.png/rgb");
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

/* All operations at all magnitudes that are frozen. */
static void operations_are_those_of_pillow(void **state) {
  (void)state;
  const result whole = find_result("colour.png/rgb");
  int met[16] = {0};
  for (int i = 0; i < ac_model_file_tensor_count(expected_pictures); i++) {
    const char *name = ac_model_file_tensor(expected_pictures, i)->name;
    int number;
    double magnitude;
    if (sscanf(name, "operation/%d/%lf", &number, &magnitude) != 2) continue;
    uint8_t data[3 * 29 * 43], room[3 * 29 * 43];
    for (int64_t v = 0; v < whole.count; v++) data[v] = (uint8_t)whole.values[v];
    const ac_pixels pixels = {data, 43, 29, 3};
    if (number == AC_OPERATIONS) ac_picture_hue(&pixels, magnitude);
    else ac_picture_operate((ac_picture_operation)number, magnitude, &pixels, room);
    const result r = find_result(name);
    compare_pixels(name, &r, data);
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pictures_are_those_of_pillow),
      cmocka_unit_test(grey_is_that_of_pillow),
      cmocka_unit_test(written_pictures_are_read_as_they_were),
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
  };
  return cmocka_run_group_tests(tests, open_expected, close_expected);
}
