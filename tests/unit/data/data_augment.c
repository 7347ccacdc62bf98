/* Augmentation: what each change does to pixels, the bounds and the statistics of what is drawn,
 * and that it depends on the key alone. */
#include "support/files.h"

#include "data/loader.h"

#include <accrue/pictures.h>
#include <math.h>

enum { C = 3, H = 12, W = 10, PIXELS = C * H * W, SAMPLES = 20 };

static float pictures[SAMPLES][PIXELS];
static int32_t numbers[SAMPLES];

/* All pixels differ, and none is 0. */
static ac_dataset *make_whole(void) {
  for (int i = 0; i < SAMPLES; i++) {
    numbers[i] = i;
    for (int p = 0; p < PIXELS; p++) pictures[i][p] = (float)(1 + i * PIXELS + p) / 16384;
  }
  ac_dataset *whole;
  const ac_field fields[] = {{"labels", AC_I32, 1}, {"images", AC_F32, PIXELS}};
  assert_ok(
      ac_dataset_from_memory(&whole, SAMPLES, 2, fields, (const void *[]){numbers, pictures}));
  return whole;
}

static ac_dataset *augment(ac_dataset *whole, ac_augmentation how) {
  if (!how.channels) how.channels = C, how.height = H, how.width = W;
  ac_dataset *dataset;
  assert_ok(ac_dataset_augmented(&dataset, whole, &how));
  return dataset;
}

static void read_image(ac_dataset *dataset, int64_t index, int64_t epoch, uint64_t seed,
                       float *image) {
  int32_t number;
  assert_ok(ac_dataset_read(dataset, &(ac_sample_key){.index = index, .epoch = epoch, .seed = seed},
                            (void *const[]){&number, image}));
  assert_int_equal(number, index); /* other fields stay */
}

static void nothing_on_changes_nothing(void **state) {
  (void)state;
  ac_dataset *whole = make_whole(), *same = augment(whole, (ac_augmentation){0});
  float image[PIXELS];
  int64_t shape[3];
  for (int i = 0; i < SAMPLES; i++) {
    read_image(same, i, 3, 1, image);
    assert_memory_equal(image, pictures[i], sizeof image);
  }
  assert_true(ac_dataset_image_shape(same, shape));
  assert_true(shape[0] == C && shape[1] == H && shape[2] == W);
  assert_false(ac_dataset_image_shape(whole, shape));
  ac_dataset_free(same);
  ac_dataset_free(whole);
}

/* Half of the images are mirrored: 1000 of 2000, give or take 4.5 standard deviations of 22. The
 * same key mirrors twice, which is as if nothing had happened. */
static void flipping_mirrors_half(void **state) {
  (void)state;
  ac_dataset *whole = make_whole(), *once = augment(whole, (ac_augmentation){.flip = true});
  ac_dataset *twice = augment(once, (ac_augmentation){.flip = true});
  float image[PIXELS];
  int flipped = 0;
  for (int epoch = 0; epoch < 100; epoch++)
    for (int i = 0; i < SAMPLES; i++) {
      read_image(once, i, epoch, 1, image);
      bool mirrored = image[0] != pictures[i][0];
      flipped += mirrored;
      for (int row = 0; row < C * H; row++)
        for (int x = 0; x < W; x++)
          assert_true(image[row * W + x] == pictures[i][row * W + (mirrored ? W - 1 - x : x)]);
      read_image(twice, i, epoch, 1, image);
      assert_memory_equal(image, pictures[i], sizeof image);
    }
  assert_true(flipped > 900 && flipped < 1100);
  ac_dataset_free(twice);
  ac_dataset_free(once);
  ac_dataset_free(whole);
}

/* A shifted image is a crop out of the padded one; all shifts come up equally often. */
static void shifts_are_crops(void **state) {
  (void)state;
  enum { SHIFT = 2, SIDE = 2 * SHIFT + 1, EPOCHS = 250 };
  ac_dataset *whole = make_whole();
  ac_dataset *shifted = augment(whole, (ac_augmentation){.shift = SHIFT, .fill = -7});
  int seen[SIDE][SIDE] = {{0}};
  float image[PIXELS];
  for (int epoch = 0; epoch < EPOCHS; epoch++)
    for (int i = 0; i < SAMPLES; i++) {
      read_image(shifted, i, epoch, 4, image);
      /* Where the pixel in the middle has come to says how far. */
      int from = H / 2 * W + W / 2, to = 0;
      while (to < H * W && image[to] != pictures[i][from]) to++;
      int dx = to % W - from % W, dy = to / W - from / W;
      assert_true(dx >= -SHIFT && dx <= SHIFT && dy >= -SHIFT && dy <= SHIFT);
      seen[dy + SHIFT][dx + SHIFT]++;
      for (int p = 0; p < PIXELS; p++) {
        int x = p % W - dx, y = p / W % H - dy, plane = p / (W * H);
        bool inside = x >= 0 && x < W && y >= 0 && y < H;
        assert_true(image[p] == (inside ? pictures[i][(plane * H + y) * W + x] : -7));
      }
    }
  /* 200 each on average, with a standard deviation of 14. */
  for (int k = 0; k < SIDE * SIDE; k++)
    assert_true(seen[k / SIDE][k % SIDE] > 130 && seen[k / SIDE][k % SIDE] < 270);
  ac_dataset_free(shifted);
  ac_dataset_free(whole);
}

enum { SIDE = 33, MIDDLE = SIDE / 2 };

/* Channels x and y, in which bilinear interpolation is exact: the result at (x, y) is where it was
 * taken from, (u, v). */
static float coordinates[2][SIDE * SIDE];

typedef struct motion {
  double angle, scale, mirror, dx, dy;
} motion;

/* Finds the motion by its effect about the centre, and checks that all pixels around agree. */
static motion measure(float (*image)[SIDE * SIDE]) {
  enum { CENTRE = MIDDLE * SIDE + MIDDLE, STEP = 5 };
  const float *u = image[0] + CENTRE, *v = image[1] + CENTRE;
  double ux = (double)(u[STEP] - u[-STEP]) / (2 * STEP);
  double vx = (double)(v[STEP] - v[-STEP]) / (2 * STEP);
  double vy = (double)(v[STEP * SIDE] - v[-STEP * SIDE]) / (2 * STEP);
  motion m = {.scale = 1 / hypot(vx, vy), .mirror = ux < 0 ? -1 : 1, .angle = atan2(-vx, vy)};
  double cosine = cos(m.angle), sine = sin(m.angle);
  double u0 = m.mirror * ((double)u[0] - MIDDLE), v0 = (double)v[0] - MIDDLE;
  m.dx = -m.scale * (cosine * u0 - sine * v0);
  m.dy = -m.scale * (sine * u0 + cosine * v0);
  for (int y = -STEP; y <= STEP; y++)
    for (int x = -STEP; x <= STEP; x++) {
      double from_x = (cosine * (x - m.dx) + sine * (y - m.dy)) / m.scale;
      double from_y = (cosine * (y - m.dy) - sine * (x - m.dx)) / m.scale;
      assert_true(fabs(MIDDLE + m.mirror * from_x - (double)u[y * SIDE + x]) < 1e-4);
      assert_true(fabs(MIDDLE + from_y - (double)v[y * SIDE + x]) < 1e-4);
    }
  return m;
}

static void turns_and_scales_are_those_of_the_formula(void **state) {
  (void)state;
  enum { DRAWS = 4000 };
  static float image[2][SIDE * SIDE];
  for (int p = 0; p < SIDE * SIDE; p++)
    coordinates[0][p] = (float)(p % SIDE), coordinates[1][p] = (float)(p / SIDE);
  ac_dataset *whole, *turned;
  assert_ok(ac_dataset_from_memory(&whole, 1, 1, &(ac_field){"images", AC_F32, 2 * SIDE * SIDE},
                                   (const void *[]){coordinates}));
  const ac_augmentation how = {.channels = 2,
                               .height = SIDE,
                               .width = SIDE,
                               .rotation = 30,
                               .scaling = 0.2,
                               .shift = 2,
                               .flip = true};
  assert_ok(ac_dataset_augmented(&turned, whole, &how));
  assert_true(ac_dataset_picture_bytes(turned) >= SIDE * SIDE * sizeof(float));
  double angles = 0, scales = 0, most_angle = 0, most_scale = 0;
  int mirrored = 0;
  for (int draw = 0; draw < DRAWS; draw++) {
    assert_ok(ac_dataset_read(turned, &(ac_sample_key){.epoch = draw, .seed = 9},
                              (void *const[]){image}));
    motion m = measure(image);
    double degrees = m.angle * 180 / 3.14159265358979, larger = m.scale - 1;
    assert_true(fabs(m.dx - round(m.dx)) < 1e-3 && fabs(m.dy - round(m.dy)) < 1e-3);
    assert_true(fabs(m.dx) < 2.1 && fabs(m.dy) < 2.1);
    assert_true(fabs(degrees) < 30.001 && fabs(larger) < 0.20001);
    angles += degrees / DRAWS, scales += larger / DRAWS, mirrored += m.mirror < 0;
    if (fabs(degrees) > most_angle) most_angle = fabs(degrees);
    if (fabs(larger) > most_scale) most_scale = fabs(larger);
  }
  /* Uniform: the means are 0 within 5 standard deviations of 17.3 / sqrt(4000) degrees and 0.115 /
   * sqrt(4000), and the extremes are nearly reached. */
  assert_true(fabs(angles) < 1.4 && fabs(scales) < 0.0092);
  assert_true(most_angle > 29.9 && most_scale > 0.199);
  assert_true(mirrored > DRAWS * 0.45 && mirrored < DRAWS * 0.55);
  ac_dataset_free(turned);
  ac_dataset_free(whole);
}

/* Far out there is nothing but fill, and between image and fill the two are mixed. */
static void the_border_fades(void **state) {
  (void)state;
  static float bright[SIDE * SIDE], image[SIDE * SIDE];
  for (int p = 0; p < SIDE * SIDE; p++) bright[p] = 1;
  ac_dataset *whole, *turned;
  assert_ok(ac_dataset_from_memory(&whole, 1, 1, &(ac_field){"images", AC_F32, SIDE * SIDE},
                                   (const void *[]){bright}));
  assert_ok(ac_dataset_augmented(&turned, whole,
                                 &(ac_augmentation){.channels = 1,
                                                    .height = SIDE,
                                                    .width = SIDE,
                                                    .rotation = 180,
                                                    .scaling = 0.9,
                                                    .fill = 3}));
  int inside = 0, outside = 0, mixed = 0;
  for (int draw = 0; draw < 100; draw++) {
    assert_ok(ac_dataset_read(turned, &(ac_sample_key){.epoch = draw}, (void *const[]){image}));
    for (int p = 0; p < SIDE * SIDE; p++) {
      assert_true(image[p] > 0.99999f && image[p] < 3.00001f);
      if (image[p] < 1.00001f) inside++;
      else if (image[p] == 3) outside++;
      else mixed++;
    }
  }
  assert_true(inside > 10000 && outside > 10000 && mixed > 1000);
  ac_dataset_free(turned);
  ac_dataset_free(whole);
}

/* One rectangle in all channels, as often and at most as large as told. */
static void erasing_clears_a_rectangle(void **state) {
  (void)state;
  enum { EPOCHS = 200 };
  ac_dataset *whole = make_whole();
  ac_dataset *erased =
      augment(whole, (ac_augmentation){.erase_probability = 0.25, .erase_area = 0.3, .fill = -1});
  float image[PIXELS];
  int times = 0, largest = 0, hit[H * W] = {0};
  for (int epoch = 0; epoch < EPOCHS; epoch++)
    for (int i = 0; i < SAMPLES; i++) {
      read_image(erased, i, epoch, 2, image);
      int left = W, right = -1, top = H, bottom = -1, count = 0;
      for (int p = 0; p < PIXELS; p++) {
        if (image[p] != -1) {
          assert_true(image[p] == pictures[i][p]);
          continue;
        }
        int x = p % W, y = p / W % H;
        left = x < left ? x : left, right = x > right ? x : right;
        top = y < top ? y : top, bottom = y > bottom ? y : bottom;
        hit[y * W + x]++, count++;
      }
      if (!count) continue;
      times++;
      assert_int_equal(count, C * (right - left + 1) * (bottom - top + 1));
      if (count / C > largest) largest = count / C;
    }
  /* 1000 of 4000, with a standard deviation of 27. Rounding to whole sides may add half a pixel to
   * both: (6 + 0.5)^2 instead of 36 pixels. */
  assert_true(times > 870 && times < 1130);
  assert_true(largest > 25 && largest <= 43);
  for (int p = 0; p < H * W; p++) assert_true(hit[p] > 0);
  ac_dataset_free(erased);
  ac_dataset_free(whole);
}

static void channels_are_normalised(void **state) {
  (void)state;
  float mean[] = {0.5f, 0.25f, 0}, deviation[] = {0.5f, 2, 0.125f}, image[PIXELS];
  ac_dataset *whole = make_whole();
  ac_dataset *both = augment(whole, (ac_augmentation){.mean = mean, .deviation = deviation});
  ac_dataset *centred = augment(whole, (ac_augmentation){.mean = mean});
  const float kept[] = {0.5f, 0.25f, 0}, divisor[] = {0.5f, 2, 0.125f};
  memset(mean, 0, sizeof mean), memset(deviation, 0, sizeof deviation); /* they are copied */
  for (int p = 0; p < PIXELS; p++) {
    int c = p / (H * W);
    if (p == 0) read_image(both, 7, 0, 0, image);
    assert_true(fabsf(image[p] - (pictures[7][p] - kept[c]) / divisor[c]) < 1e-6f);
  }
  read_image(centred, 7, 0, 0, image);
  for (int p = 0; p < PIXELS; p++)
    assert_true(fabsf(image[p] - (pictures[7][p] - kept[p / (H * W)])) < 1e-6f);
  ac_dataset_free(centred);
  ac_dataset_free(both);
  ac_dataset_free(whole);
}

/* ---- what it depends on ---------------------------------------------------------------------- */

static const ac_augmentation everything = {.shift = 2,
                                           .flip = true,
                                           .rotation = 10,
                                           .scaling = 0.1,
                                           .erase_probability = 0.5,
                                           .erase_area = 0.2};

/* Neither the order of reading nor what was read before; but seed, epoch and sample all do. */
static void the_key_decides(void **state) {
  (void)state;
  ac_dataset *whole = make_whole(), *one = augment(whole, everything);
  ac_dataset *other = augment(whole, everything);
  static float forwards[SAMPLES][PIXELS];
  float image[PIXELS];
  for (int i = 0; i < SAMPLES; i++) read_image(one, i, 5, 6, forwards[i]);
  for (int i = SAMPLES - 1; i >= 0; i -= 3) {
    read_image(other, i, 5, 6, image);
    assert_memory_equal(image, forwards[i], sizeof image);
    read_image(other, i, 6, 6, image);
    assert_memory_not_equal(image, forwards[i], sizeof image);
    read_image(other, i, 5, 7, image);
    assert_memory_not_equal(image, forwards[i], sizeof image);
  }
  ac_dataset_free(other);
  /* Two samples of the same pixels change differently. */
  memcpy(pictures[1], pictures[0], sizeof pictures[0]);
  read_image(one, 0, 5, 6, forwards[0]);
  read_image(one, 1, 5, 6, forwards[1]);
  assert_memory_not_equal(forwards[0], forwards[1], sizeof forwards[0]);
  ac_dataset_free(one);
  ac_dataset_free(whole);
}

/* More threads than there are buffers to work in, with one augmentation on another. */
static void threads_change_nothing(void **state) {
  (void)state;
  enum { BATCH = 64, BATCHES = 12 };
  ac_dataset *whole = make_whole(), *inner = augment(whole, everything);
  ac_dataset *dataset = augment(inner, (ac_augmentation){.shift = 1, .flip = true});
  static float expected[BATCHES][BATCH][PIXELS];
  for (int threads = 0; threads <= 20; threads += 5) {
    ac_loader *loader;
    ac_batch batch;
    assert_ok(ac_loader_create(&loader, dataset,
                               &(ac_loader_desc){.batch = BATCH,
                                                 .threads = threads,
                                                 .depth = 3,
                                                 .seed = 11,
                                                 .epoch_end = AC_EPOCH_END_CARRY}));
    for (int b = 0; b < BATCHES; b++) {
      assert_ok(ac_loader_next(loader, &batch));
      assert_int_equal(batch.window.count, BATCH);
      if (threads == 0) memcpy(expected[b], batch.fields[1], sizeof expected[b]);
      else assert_memory_equal(expected[b], batch.fields[1], sizeof expected[b]);
    }
    ac_loader_free(loader);
  }
  ac_dataset_free(dataset);
  ac_dataset_free(inner);
  ac_dataset_free(whole);
}

/* Bytes are changed as floats are, and rounded to the nearest level: floats in [0, 1] of the same
 * image differ by half a level at most, and not at all if pixels are only moved. */
static void bytes_change_like_floats(void **state) {
  (void)state;
  static uint8_t bytes[SAMPLES][PIXELS];
  static const ac_augmentation hows[] = {
      {.shift = 3, .flip = true, .erase_probability = 0.5, .erase_area = 0.3, .fill = 0.2},
      {.erase_probability = 0.5, .erase_area = 0.3},
      {.shift = 2, .rotation = 20, .scaling = 0.2, .fill = 2},
      {0}};
  for (int i = 0; i < SAMPLES; i++)
    for (int p = 0; p < PIXELS; p++) {
      bytes[i][p] = (uint8_t)(i * 37 + p * 11);
      pictures[i][p] = (float)bytes[i][p] / 255.0f;
      numbers[i] = i;
    }
  ac_dataset *whole, *floats;
  const ac_field fields[] = {{"labels", AC_I32, 1}, {"images", AC_U8, PIXELS}},
                 of_floats[] = {{"labels", AC_I32, 1}, {"images", AC_F32, PIXELS}};
  assert_ok(ac_dataset_from_memory(&whole, SAMPLES, 2, fields, (const void *[]){numbers, bytes}));
  assert_ok(
      ac_dataset_from_memory(&floats, SAMPLES, 2, of_floats, (const void *[]){numbers, pictures}));
  for (size_t h = 0; h < sizeof hows / sizeof *hows; h++) {
    ac_dataset *a = augment(whole, hows[h]), *b = augment(floats, hows[h]);
    const bool moved = !hows[h].rotation && !hows[h].scaling;
    for (int i = 0; i < SAMPLES; i++) {
      uint8_t levels[PIXELS];
      float image[PIXELS];
      int32_t number;
      const ac_sample_key key = {.index = i, .epoch = 2, .seed = 3};
      assert_ok(ac_dataset_read(a, &key, (void *const[]){&number, levels}));
      read_image(b, i, 2, 3, image);
      for (int p = 0; p < PIXELS; p++) {
        const double value = (double)fminf(fmaxf(image[p], 0), 1) * 255;
        assert_true(fabs((double)levels[p] - value) < (moved ? 1e-4 : 0.5001));
      }
    }
    ac_dataset_free(a);
    ac_dataset_free(b);
  }
  const float mean[C] = {0};
  ac_dataset *none;
  assert_refused(
      ac_dataset_augmented(
          &none, whole, &(ac_augmentation){.channels = C, .height = H, .width = W, .mean = mean}),
      AC_ERROR_ARGUMENT, "mean and deviation are for images in f32");
  ac_dataset_free(floats);
  ac_dataset_free(whole);
}

static void what_makes_no_sense_is_refused(void **state) {
  (void)state;
  ac_dataset *whole = make_whole(), *dataset;
  static const float nan_mean[] = {0, NAN, 0}, zero[] = {1, 1, 0};
  static const struct {
    ac_augmentation how;
    const char *mention;
  } cases[] = {
      {{.channels = 3, .height = 12, .width = 11}, "360 values are not of shape [3, 12, 11]"},
      {{.channels = 3}, "not of shape [3, 0, 0]"},
      {{.channels = -3, .height = -12, .width = 10}, "not of shape"},
      {{.channels = 3, .height = INT64_MAX / 2, .width = 10}, "not of shape"},
      {{0}, "does not know its images' channels"},
      {{.channels = C, .height = H, .width = W, .shift = 13}, "in [0, 12]"},
      {{.channels = C, .height = H, .width = W, .shift = -1}, "shift of -1"},
      {{.channels = C, .height = H, .width = W, .rotation = 181}, "181 degrees"},
      {{.channels = C, .height = H, .width = W, .rotation = NAN}, "degrees"},
      {{.channels = C, .height = H, .width = W, .scaling = 1}, "scaling of 1"},
      {{.channels = C, .height = H, .width = W, .erase_probability = 1.5}, "probability"},
      {{.channels = C, .height = H, .width = W, .erase_probability = 0.5}, "share of 0"},
      {{.channels = C, .height = H, .width = W, .erase_area = 2}, "share of 2"},
      {{.channels = C, .height = H, .width = W, .fill = INFINITY}, "fill"},
      {{.channels = C, .height = H, .width = W, .mean = nan_mean}, "channel 1"},
      {{.channels = C, .height = H, .width = W, .deviation = zero}, "channel 2"}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    assert_refused(ac_dataset_augmented(&dataset, whole, &cases[c].how), AC_ERROR_ARGUMENT,
                   cases[c].mention);
    assert_null(dataset);
  }
  ac_dataset_free(whole);
  assert_ok(ac_dataset_from_memory(&whole, SAMPLES, 1, &(ac_field){"images", AC_I32, 1},
                                   (const void *[]){numbers}));
  assert_refused(ac_dataset_augmented(&dataset, whole, &everything), AC_ERROR_ARGUMENT,
                 "no f32 or u8 field images");
  ac_dataset_free(whole);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_on_changes_nothing),
      cmocka_unit_test(flipping_mirrors_half),
      cmocka_unit_test(shifts_are_crops),
      cmocka_unit_test(turns_and_scales_are_those_of_the_formula),
      cmocka_unit_test(the_border_fades),
      cmocka_unit_test(erasing_clears_a_rectangle),
      cmocka_unit_test(channels_are_normalised),
      cmocka_unit_test(the_key_decides),
      cmocka_unit_test(threads_change_nothing),
      cmocka_unit_test(bytes_change_like_floats),
      cmocka_unit_test(what_makes_no_sense_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
