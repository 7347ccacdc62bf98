/* Masks of pictures: which file belongs to which picture, what is refused, and that masks and boxes
 * go through the geometry of their pictures. */
#include "support/picture_results.h"

#include <accrue/masks.h>

#include "data/loader.h"

#include <math.h>

static void make_folder(const char *name) {
  assert_int_equal(mkdir(in_folder(name).text, 0777), 0);
}

static void copy_vector(const char *name, const char *to) {
  size_t bytes;
  unsigned char *data = read_vector(name, &bytes);
  write_file(in_folder(to).text, data, bytes);
  free(data);
}

/* The classes a, b, c, d in the quarters of a mask. */
static void write_quarters(const char *name, int width, int height, const uint8_t classes[4]) {
  uint8_t *mask = malloc((size_t)(width * height));
  assert_non_null(mask);
  for (int i = 0; i < width * height; i++)
    mask[i] = classes[2 * (i / width >= height / 2) + (i % width >= width / 2)];
  assert_ok(ac_mask_write_png(in_folder(name).text, width, height, mask));
  free(mask);
}

static const uint8_t quarters[4] = {0, 2, 1, AC_MASK_IGNORED};

static ac_status open_masked(ac_pictures **list, ac_pictures **validation, const char *pictures,
                             const char *masks, ac_pictures_desc desc) {
  const test_path of_pictures = in_folder(pictures), of_masks = in_folder(masks);
  desc.masks = of_masks.text;
  return ac_pictures_open(list, validation, of_pictures.text, &desc);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void masks_have_the_paths_of_pictures(void **state) {
  (void)state;
  make_folder("p");
  make_folder("p/deeper");
  make_folder("m");
  make_folder("m/deeper");
  copy_vector("colour.jpg", "p/a.JPG");
  copy_vector("turned6.jpg", "p/deeper/a.b.jpg");
  write_quarters("m/a.png", 43, 29, quarters);
  write_quarters("m/deeper/a.b.png", 29, 43, quarters); /* as it is seen */
  ac_pictures *list, *validation;
  int64_t width, height;
  assert_ok(open_masked(&list, &validation, "p", "m/", (ac_pictures_desc){0}));
  assert_null(validation);
  assert_int_equal(ac_pictures_count(list), 2);
  assert_int_equal(ac_pictures_classes(list), 3);
  assert_string_equal(ac_pictures_class_name(list, 2), "2");
  assert_int_equal(ac_pictures_label(list, 0), -1);
  assert_string_equal(ac_pictures_mask(list, 1), in_folder("m/deeper/a.b.png").text);
  assert_null(ac_pictures_mask(list, 2));
  assert_ok(ac_pictures_size(list, 1, &width, &height));
  assert_int_equal(width, 29);
  assert_int_equal(height, 43);
  assert_refused(ac_pictures_size(list, 2, &width, &height), AC_ERROR_ARGUMENT,
                 "there is no picture 2");
  ac_pictures_free(list);
}

/* A mask of 4 bits with a palette, and one of 1 bit in grey: ids are not scaled. */
static void ids_are_as_stored(void **state) {
  (void)state;
  make_folder("few");
  make_folder("few/p");
  make_folder("few/m");
  copy_vector("colour.png", "few/p/4.png");
  copy_vector("grey.png", "few/p/1.png");
  copy_vector("palette4.png", "few/m/4.png");
  copy_vector("bits.png", "few/m/1.png");
  ac_pictures *list;
  assert_ok(open_masked(&list, NULL, "few/p", "few/m", (ac_pictures_desc){0}));
  assert_int_equal(ac_pictures_classes(list), 11);
  ac_dataset *data;
  static float image[3 * 31 * 37];
  static int32_t mask[31 * 37];
  const ac_picture_samples samples = {
      .height = 31, .width = 37, .fit = AC_PICTURE_FIT_STRETCH, .threads = 1};
  assert_ok(ac_dataset_from_pictures(&data, list, &samples));
  assert_int_equal(ac_dataset_classes(data), 11);
  assert_ok(ac_dataset_read(data, &(ac_sample_key){0}, (void *const[]){image, mask}));
  int most = 0;
  for (int i = 0; i < 31 * 37; i++) most = mask[i] > most ? mask[i] : most;
  assert_int_equal(most, 1);
  ac_dataset_free(data);
  ac_pictures_free(list);
}

static void train_and_val_are_apart(void **state) {
  (void)state;
  static const char *const folders[] = {"s",  "s/train", "s/val",   "s/other",
                                        "sm", "sm/val",  "sm/train"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) make_folder(folders[i]);
  copy_vector("colour.png", "s/train/1.png");
  copy_vector("colour.png", "s/val/1.png");
  copy_vector("colour.png", "s/other/1.png");
  write_quarters("sm/train/1.png", 43, 29, quarters);
  write_quarters("sm/val/1.png", 43, 29, (const uint8_t[]){0, 4, 4, 0});
  ac_pictures *list, *validation;
  assert_ok(open_masked(&list, &validation, "s", "sm", (ac_pictures_desc){0}));
  assert_int_equal(ac_pictures_count(list), 1);
  assert_int_equal(ac_pictures_count(validation), 1);
  assert_int_equal(ac_pictures_classes(list), 5); /* those of both */
  ac_pictures_free(list);
  ac_pictures_free(validation);
}

static int told;
static char last_told[600];

static void tell(void *user, const char *path, const char *sentence) {
  (void)user, (void)path;
  told++;
  snprintf(last_told, sizeof last_told, "%s", sentence);
}

/* Each fault is named, and leaves one picture out. */
static void bad_masks_are_named(void **state) {
  (void)state;
  static const char *const classes[] = {"ground", "cat", "dog"};
  const ac_pictures_desc skip = {
      .bad = AC_BAD_PICTURES_SKIP, .report = tell, .classes = classes, .class_count = 3};
  static const struct {
    const char *vector, *sentence;
  } faults[] = {{NULL, "has no mask: there is no "},
                {"colour.png", "has pixels of three colours; those of a mask are places"},
                {"deep.png", "has pixels of three colours"},
                {"grey.png", "is a mask of 37 x 31 pixels, and its picture "},
                {"colour.jpg", "is not a PNG picture, as masks are"},
                {"palette4.png", "has pixels of class 10; the classes are 0 to 2, and 255"}};
  make_folder("b");
  make_folder("bm");
  copy_vector("colour.png", "b/good.png");
  copy_vector("colour.png", "b/other.png");
  write_quarters("bm/good.png", 43, 29, quarters);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    ac_pictures *list;
    if (faults[i].vector) copy_vector(faults[i].vector, "bm/other.png");
    told = 0;
    assert_ok(open_masked(&list, NULL, "b", "bm", skip));
    assert_int_equal(ac_pictures_count(list), 1);
    assert_int_equal(ac_pictures_left_out(list), 1);
    assert_int_equal(told, 1);
    if (!strstr(last_told, faults[i].sentence)) fail_msg("%s", last_told);
    assert_string_equal(ac_pictures_class_name(list, 1), "cat");
    ac_pictures_free(list);
    assert_refused(open_masked(&list, NULL, "b", "bm",
                               (ac_pictures_desc){.classes = classes, .class_count = 3}),
                   AC_ERROR_FORMAT, faults[i].sentence);
  }
  size_t bytes;
  unsigned char *data = read_file(in_folder("bm/good.png").text, &bytes);
  write_file(in_folder("bm/other.png").text, data, bytes - 30);
  free(data);
  ac_pictures *list;
  assert_refused(open_masked(&list, NULL, "b", "bm", (ac_pictures_desc){0}), AC_ERROR_FORMAT,
                 "/bm/other.png is a truncated PNG picture");
}

static void what_makes_no_sense_is_refused(void **state) {
  (void)state;
  static const char *const names[] = {"a"};
  ac_pictures *list;
  assert_refused(open_masked(&list, NULL, "p", "nowhere", (ac_pictures_desc){0}), AC_ERROR_ARGUMENT,
                 "/nowhere is not a folder of masks");
  assert_refused(open_masked(&list, NULL, "p/a.JPG", "m", (ac_pictures_desc){0}), AC_ERROR_ARGUMENT,
                 "/p/a.JPG is not a folder");
  assert_refused(open_masked(&list, NULL, "p", "m", (ac_pictures_desc){.unlabelled = true}),
                 AC_ERROR_ARGUMENT, "with masks they are not unlabelled");
  assert_refused(
      open_masked(&list, NULL, "p", "m", (ac_pictures_desc){.classes = names, .class_count = 256}),
      AC_ERROR_ARGUMENT, "at most 255 classes, not 256");
  make_folder("none");
  copy_vector("colour.png", "none/1.png");
  make_folder("none_m");
  write_quarters("none_m/1.png", 43, 29, (const uint8_t[]){255, 255, 255, 255});
  assert_refused(open_masked(&list, NULL, "none", "none_m", (ac_pictures_desc){0}), AC_ERROR_FORMAT,
                 "no pixel of a mask has a class");
  assert_ok(open_masked(&list, NULL, "p", "m", (ac_pictures_desc){0}));
  ac_dataset *data;
  assert_refused(ac_dataset_from_pictures(&data, list, &(ac_picture_samples){.balanced = true}),
                 AC_ERROR_ARGUMENT, "cannot be balanced");
  ac_pictures_free(list);
}

/* ---- geometry -------------------------------------------------------------------------------- */

enum { WIDTH = 61, HEIGHT = 47, SIZE = 40, KEYS = 60 };
static const float box[4] = {14, 9, 39, 33}; /* what is of class 1, in a picture of class 0 */

static float image[3 * SIZE * SIZE];
static int32_t mask[SIZE * SIZE];

/* A grey picture with a light rectangle, and its mask. */
static ac_pictures *open_rectangle(void) {
  static bool made;
  ac_pictures *list;
  if (!made) {
    uint8_t pixels[WIDTH * HEIGHT], classes[WIDTH * HEIGHT];
    make_folder("r");
    make_folder("rm");
    for (int i = 0; i < WIDTH * HEIGHT; i++) {
      const int x = i % WIDTH, y = i / WIDTH;
      classes[i] = x >= (int)box[0] && x < (int)box[2] && y >= (int)box[1] && y < (int)box[3];
      pixels[i] = classes[i] ? 200 : 60;
    }
    assert_ok(ac_picture_write_png(in_folder("r/1.png").text, WIDTH, HEIGHT, 1, pixels));
    assert_ok(ac_mask_write_png(in_folder("rm/1.png").text, WIDTH, HEIGHT, classes));
    made = true;
  }
  assert_ok(open_masked(&list, NULL, "r", "rm", (ac_pictures_desc){0}));
  return list;
}

static void read_key(ac_dataset *data, int key) {
  const ac_sample_key k = {.epoch = key, .seed = 5};
  assert_ok(ac_dataset_read(data, &k, (void *const[]){image, mask}));
}

/* Within a class, far from its border, the picture is one colour. */
static void check_mask(int key) {
  float least[2] = {2, 2}, most[2] = {-1, -1};
  for (int y = 2; y < SIZE - 2; y++)
    for (int x = 2; x < SIZE - 2; x++) {
      const int32_t class = mask[y * SIZE + x];
      bool inside = class < 2;
      for (int i = 0; i < 25; i++)
        inside = inside && mask[(y + i / 5 - 2) * SIZE + x + i % 5 - 2] == class;
      if (!inside) continue;
      const float value = image[y * SIZE + x];
      if (value < least[class]) least[class] = value;
      if (value > most[class]) most[class] = value;
    }
  for (int c = 0; c < 2; c++)
    if (most[c] - least[c] > 0.05f)
      fail_msg("epoch %d: class %d is from %g to %g", key, c, (double)least[c], (double)most[c]);
}

/* The box is where the mask is. */
static void check_box(const ac_dataset *data, int key) {
  const ac_sample_key k = {.epoch = key, .seed = 5};
  float mapped[4], found[4] = {SIZE, SIZE, 0, 0};
  for (int i = 0; i < SIZE * SIZE; i++) {
    if (mask[i] != 1) continue;
    found[0] = fminf(found[0], (float)(i % SIZE));
    found[1] = fminf(found[1], (float)(i / SIZE));
    found[2] = fmaxf(found[2], (float)(i % SIZE + 1));
    found[3] = fmaxf(found[3], (float)(i / SIZE + 1));
  }
  assert_ok(ac_dataset_map_boxes(data, &k, 1, box, mapped));
  if (found[2] == 0) {
    assert_true(mapped[2] - mapped[0] < 2 || mapped[3] - mapped[1] < 2);
    return;
  }
  /* A corner that is thinner than a pixel may be lost, at each of the steps. */
  for (int i = 0; i < 4; i++)
    if (fabsf(mapped[i] - found[i]) > 2)
      fail_msg("epoch %d: side %d is at %g, and that of the mask at %g", key, i, (double)mapped[i],
               (double)found[i]);
}

static void check_samples(ac_picture_samples samples, const ac_picture_changes *changes,
                          const ac_augmentation *augmentation) {
  ac_pictures *list = open_rectangle();
  ac_dataset *data, *augmented = NULL;
  samples.height = SIZE;
  samples.changes = changes;
  samples.threads = 1;
  assert_ok(ac_dataset_from_pictures(&data, list, &samples));
  if (augmentation) assert_ok(ac_dataset_augmented(&augmented, data, augmentation));
  for (int key = 0; key < KEYS; key++) {
    read_key(augmented ? augmented : data, key);
    check_mask(key);
    check_box(augmented ? augmented : data, key);
  }
  ac_dataset_free(augmented);
  ac_dataset_free(data);
  ac_pictures_free(list);
}

static void masks_and_boxes_move_with_pictures(void **state) {
  (void)state;
  const ac_picture_changes crop = {.random_crop = true, .crop_area = {0.3, 1}, .flip = true},
                           operations = {.rand_augment = 3, .flip = true, .magnitude = 15},
                           trivial = {.trivial_augment = true, .random_crop = true};
  const ac_augmentation shift = {.shift = 9, .flip = true},
                        turn = {.shift = 4, .flip = true, .rotation = 170, .scaling = 0.3};
  for (int fit = 0; fit < 3; fit++)
    check_samples((ac_picture_samples){.fit = (ac_picture_fit)fit}, NULL, NULL);
  check_samples((ac_picture_samples){0}, &crop, NULL);
  check_samples((ac_picture_samples){.fit = AC_PICTURE_FIT_PAD}, &operations, NULL);
  check_samples((ac_picture_samples){0}, &trivial, NULL);
  check_samples((ac_picture_samples){.fit = AC_PICTURE_FIT_PAD}, NULL, &shift);
  check_samples((ac_picture_samples){.fit = AC_PICTURE_FIT_STRETCH}, &crop, &turn);
}

/* 61 x 47 in 40 x 40 is 40 x 31, with 4 rows above it and 5 below. */
static void padding_is_black_and_ignored(void **state) {
  (void)state;
  ac_pictures *list = open_rectangle();
  ac_dataset *data;
  float whole[4] = {0, 0, WIDTH, HEIGHT};
  const ac_picture_samples samples = {.height = SIZE, .fit = AC_PICTURE_FIT_PAD, .threads = 1};
  assert_ok(ac_dataset_from_pictures(&data, list, &samples));
  assert_int_equal(ac_dataset_field(data, 1)->elements, SIZE * SIZE);
  assert_int_equal(ac_dataset_field(data, 1)->dtype, AC_I32);
  read_key(data, 0);
  for (int i = 0; i < SIZE * SIZE; i++) {
    const bool margin = i / SIZE < 4 || i / SIZE >= 35;
    assert_int_equal(mask[i] == AC_MASK_IGNORED, margin);
    assert_int_equal(image[i] == 0, margin);
  }
  assert_ok(ac_dataset_map_boxes(data, &(ac_sample_key){0}, 1, whole, whole));
  const float expected[4] = {0, 4, 40, 35};
  for (int i = 0; i < 4; i++) assert_true(fabsf(whole[i] - expected[i]) < 1e-4f);
  ac_dataset_free(data);
  ac_pictures_free(list);
}

/* Parts of datasets number samples in their own way; other datasets have no geometry. */
static void boxes_go_through_parts(void **state) {
  (void)state;
  ac_pictures *list;
  ac_dataset *data, *part, *other;
  const float whole[4] = {0, 0, 29, 43}, bad[4] = {3, 0, 2, 1};
  float mapped[4], of_part[4];
  const ac_picture_samples samples = {.height = SIZE, .fit = AC_PICTURE_FIT_PAD, .threads = 1};
  assert_ok(open_masked(&list, NULL, "p", "m", (ac_pictures_desc){0}));
  assert_ok(ac_dataset_from_pictures(&data, list, &samples));
  assert_ok(ac_dataset_slice(&part, data, 1, 2));
  assert_ok(ac_dataset_map_boxes(data, &(ac_sample_key){.index = 1}, 1, whole, mapped));
  assert_ok(ac_dataset_map_boxes(part, &(ac_sample_key){.index = 0}, 1, whole, of_part));
  assert_memory_equal(mapped, of_part, sizeof mapped);
  assert_true(fabsf(mapped[0] - 6) < 1e-4f && fabsf(mapped[3] - SIZE) < 1e-4f); /* upright */
  assert_refused(ac_dataset_map_boxes(data, &(ac_sample_key){.index = 2}, 1, whole, mapped),
                 AC_ERROR_ARGUMENT, "there is no sample 2");
  assert_refused(ac_dataset_map_boxes(data, &(ac_sample_key){0}, 1, bad, mapped), AC_ERROR_ARGUMENT,
                 "box 0 from (3, 0) to (2, 1) is not a rectangle");
  const ac_field field = {"x", AC_F32, 1};
  assert_ok(ac_dataset_from_memory(&other, 1, 1, &field, (const void *[]){mapped}));
  assert_refused(ac_dataset_map_boxes(other, &(ac_sample_key){0}, 1, whole, mapped),
                 AC_ERROR_UNSUPPORTED, "this dataset is of another kind");
  ac_dataset_free(other);
  ac_dataset_free(part);
  ac_dataset_free(data);
  ac_pictures_free(list);
}

/* What a sample shows comes back to its place; what it does not show is ignored. */
static void masks_are_taken_back(void **state) {
  (void)state;
  static uint8_t answer[SIZE * SIZE], restored[WIDTH * HEIGHT];
  for (int fit = 0; fit < 3; fit++) {
    ac_pictures *list = open_rectangle();
    ac_dataset *data;
    int ignored = 0, wrong = 0;
    const ac_picture_samples samples = {
        .height = SIZE, .fit = (ac_picture_fit)fit, .crop_share = 0.8, .threads = 1};
    assert_ok(ac_dataset_from_pictures(&data, list, &samples));
    read_key(data, 0);
    for (int i = 0; i < SIZE * SIZE; i++) answer[i] = (uint8_t)mask[i];
    assert_ok(ac_dataset_restore_mask(data, 0, answer, restored));
    for (int i = 0; i < WIDTH * HEIGHT; i++) {
      const int x = i % WIDTH, y = i / WIDTH;
      const bool inside =
          x >= (int)box[0] && x < (int)box[2] && y >= (int)box[1] && y < (int)box[3];
      ignored += restored[i] == AC_MASK_IGNORED;
      wrong += restored[i] != AC_MASK_IGNORED && restored[i] != inside;
    }
    assert_true(fit == AC_PICTURE_FIT_CROP ? ignored > WIDTH * HEIGHT / 4 : ignored == 0);
    assert_true(wrong < 100); /* of a border of 98 pixels */
    assert_refused(ac_dataset_restore_mask(data, 1, answer, restored), AC_ERROR_ARGUMENT,
                   "there is no sample 1");
    ac_dataset_free(data);
    const ac_picture_changes flip = {.flip = true};
    assert_ok(ac_dataset_from_pictures(&data, list, &(ac_picture_samples){.changes = &flip}));
    assert_refused(ac_dataset_restore_mask(data, 0, answer, restored), AC_ERROR_UNSUPPORTED,
                   "without random changes");
    ac_dataset_free(data);
    ac_pictures_free(list);
  }
}

/* The colours of Pascal VOC's masks: 128, 0, 0 is class 1, and 224, 224, 192 class 255. */
static void masks_are_written_with_a_palette(void **state) {
  (void)state;
  const uint8_t two[2] = {1, 255};
  size_t bytes;
  assert_ok(ac_mask_write_png(in_folder("two.png").text, 2, 1, two));
  unsigned char *data = read_file(in_folder("two.png").text, &bytes);
  const unsigned char *palette = data + 33; /* after the signature and the header */
  assert_memory_equal(palette + 4, "PLTE", 4);
  assert_memory_equal(palette + 8 + 3, ((const uint8_t[]){128, 0, 0}), 3);
  assert_memory_equal(palette + 8 + 3 * 255, ((const uint8_t[]){224, 224, 192}), 3);
  free(data);
}

/* A mask that has more classes than it had when it was listed is not read. */
static void masks_that_change_are_noticed(void **state) {
  (void)state;
  make_folder("c");
  make_folder("cm");
  copy_vector("colour.png", "c/1.png");
  write_quarters("cm/1.png", 43, 29, quarters);
  ac_pictures *list;
  ac_dataset *data;
  assert_ok(open_masked(&list, NULL, "c", "cm", (ac_pictures_desc){0}));
  assert_ok(ac_dataset_from_pictures(&data, list, &(ac_picture_samples){.height = SIZE}));
  read_key(data, 0);
  write_quarters("cm/1.png", 43, 29, (const uint8_t[]){0, 3, 0, 0});
  assert_refused(ac_dataset_read(data, &(ac_sample_key){0}, (void *const[]){image, mask}),
                 AC_ERROR_FORMAT, "/cm/1.png has changed since the pictures were listed");
  write_quarters("cm/1.png", 29, 43, quarters);
  assert_refused(ac_dataset_read(data, &(ac_sample_key){0}, (void *const[]){image, mask}),
                 AC_ERROR_FORMAT, "is a mask of 29 x 43 pixels");
  ac_dataset_free(data);
  ac_pictures_free(list);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(masks_have_the_paths_of_pictures),
      cmocka_unit_test(ids_are_as_stored),
      cmocka_unit_test(train_and_val_are_apart),
      cmocka_unit_test(bad_masks_are_named),
      cmocka_unit_test(what_makes_no_sense_is_refused),
      cmocka_unit_test(masks_and_boxes_move_with_pictures),
      cmocka_unit_test(padding_is_black_and_ignored),
      cmocka_unit_test(boxes_go_through_parts),
      cmocka_unit_test(masks_are_taken_back),
      cmocka_unit_test(masks_are_written_with_a_palette),
      cmocka_unit_test(masks_that_change_are_noticed),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
