/* Samples that are mixed with others, weights of classes, and classes that come equally often. */
#include "support/files.h"

#include <accrue/pictures.h>
#include <math.h>

enum { COUNT = 40, CLASSES = 4, CHANNELS = 2, HEIGHT = 6, WIDTH = 10 };
enum { PIXELS = CHANNELS * HEIGHT * WIDTH };

/* Pixel p of sample i is i / 100, plus a trace of the epoch, and its class is i mod 4. */
static float images[COUNT][PIXELS];

static void write_idx_pair(const char *pixels, const char *labels) {
  unsigned char data[16 + COUNT * HEIGHT * WIDTH] =
      {0, 0, 8, 3, [7] = COUNT, [11] = HEIGHT, [15] = WIDTH},
                                           names[8 + COUNT] = {0, 0, 8, 1, [7] = COUNT};
  for (int i = 0; i < COUNT; i++) {
    memset(data + 16 + i * HEIGHT * WIDTH, i * 6, HEIGHT * WIDTH);
    names[8 + i] = (unsigned char)(i % CLASSES);
  }
  write_file(pixels, data, sizeof data);
  write_file(labels, names, sizeof names);
}

static ac_dataset *open_images(void) {
  ac_dataset *dataset;
  const test_path labels = in_folder("labels");
  write_idx_pair(in_folder("pixels").text, labels.text);
  assert_ok(ac_dataset_from_idx(&dataset, in_folder("pixels").text, labels.text, 0, -1));
  return dataset;
}

typedef struct sample {
  float pixels[HEIGHT * WIDTH], targets[CLASSES];
  int32_t label;
} sample;

static sample read_sample(ac_dataset *dataset, int64_t index, int64_t epoch) {
  sample s;
  const ac_sample_key key = {.index = index, .epoch = epoch, .seed = 11};
  assert_ok(ac_dataset_read(dataset, &key, (void *const[]){s.pixels, &s.label, s.targets}));
  return s;
}

/* The share of the sample itself, as its pixels have it, and which its partner is. */
static double own_share(const sample *s, int64_t index, int *partner) {
  int64_t own = 0;
  *partner = -1;
  for (int p = 0; p < HEIGHT * WIDTH; p++) {
    const int value = (int)lroundf(s->pixels[p] * 255);
    if (value == index * 6) own++;
    else *partner = value / 6;
  }
  return (double)own / (HEIGHT * WIDTH);
}

static void cutmix_replaces_a_rectangle(void **state) {
  (void)state;
  ac_dataset *whole = open_images(), *mixed;
  assert_ok(ac_dataset_mixed(&mixed, whole, &(ac_mixing){.cutmix = 1}));
  assert_int_equal(ac_dataset_field_count(mixed), 3);
  assert_string_equal(ac_dataset_field(mixed, 2)->name, "targets");
  assert_int_equal(ac_dataset_field(mixed, 2)->elements, CLASSES);
  int partners = 0;
  double sum = 0;
  for (int64_t epoch = 0; epoch < 10; epoch++)
    for (int64_t i = 0; i < COUNT; i++) {
      const sample s = read_sample(mixed, i, epoch);
      int partner;
      const double own = own_share(&s, i, &partner);
      assert_int_equal(s.label, i % CLASSES);
      sum += own;
      if (partner < 0) continue;
      partners++;
      float expected[CLASSES] = {0};
      expected[i % CLASSES] += (float)own;
      expected[partner % CLASSES] += (float)(1 - own);
      for (int c = 0; c < CLASSES; c++)
        assert_true(fabsf(s.targets[c] - expected[c]) < 1e-6f); /* rounding of two floats */
    }
  /* The share is uniform, but rectangles that reach beyond the edge replace less. */
  assert_true(partners > 250 && sum / 400 > 0.5 && sum / 400 < 0.8);
  ac_dataset_free(mixed);
  ac_dataset_free(whole);
}

static void mixup_averages(void **state) {
  (void)state;
  ac_dataset *whole = open_images(), *mixed, *half;
  assert_ok(ac_dataset_mixed(&mixed, whole, &(ac_mixing){.mixup = 1}));
  assert_true(ac_dataset_picture_bytes(mixed) >= HEIGHT * WIDTH * sizeof(float)); /* a partner */
  int low = 0, high = 0;
  for (int64_t i = 0; i < COUNT; i++) {
    const sample s = read_sample(mixed, i, 0), again = read_sample(mixed, i, 0);
    assert_memory_equal(&s, &again, sizeof s);
    float sum = 0;
    for (int c = 0; c < CLASSES; c++) sum += s.targets[c];
    assert_true(fabsf(sum - 1) < 1e-6f);
    const double own = (double)s.targets[i % CLASSES];
    if (own < 0.25) low++;
    if (own > 0.75) high++;
    if (own > 0.999 || own < 0.001) continue;
    /* own a + (1 - own) b, and b is a whole number of sixths. */
    const double other = ((double)s.pixels[0] * 255 - own * 6 * (double)i) / (1 - own) / 6;
    assert_true(fabs(other - round(other)) < 0.02 && (int)round(other) % CLASSES != i % CLASSES);
  }
  assert_true(low > 2 && high > 2);
  /* Half of the samples stay as they are, but for smoothing. */
  assert_ok(ac_dataset_mixed(&half, whole,
                             &(ac_mixing){.mixup = 0.2, .probability = 0.5, .smoothing = 0.1}));
  int same = 0;
  for (int64_t i = 0; i < COUNT; i++) {
    const sample s = read_sample(half, i, 0);
    int partner;
    if (own_share(&s, i, &partner) < 1) continue;
    same++;
    assert_true(fabsf(s.targets[i % CLASSES] - 0.925f) < 1e-6f ||
                s.targets[i % CLASSES] > 0.9f); /* a partner of the same class */
  }
  assert_true(same > 8 && same < 36);
  ac_dataset_free(half);
  ac_dataset_free(mixed);
  ac_dataset_free(whole);
}

/* The mean and the deviation of Beta(a, a) are 1/2 and 1 / (2 sqrt(2 a + 1)). */
static void shares_are_beta(void **state) {
  (void)state;
  static const double alphas[] = {0.2, 1, 4};
  ac_dataset *whole = open_images(), *mixed;
  for (int a = 0; a < 3; a++) {
    assert_ok(ac_dataset_mixed(&mixed, whole, &(ac_mixing){.mixup = alphas[a]}));
    double sum = 0, squares = 0;
    int count = 0;
    for (int64_t epoch = 0; epoch < 100; epoch++)
      for (int64_t i = 0; i < COUNT; i++) {
        const sample s = read_sample(mixed, i, epoch);
        bool same = true; /* a partner of the same class hides the share */
        for (int c = 0; c < CLASSES; c++) same = same && (c == i % CLASSES || s.targets[c] == 0);
        if (same) continue;
        const double own = (double)s.targets[i % CLASSES] - 0.5;
        sum += own;
        squares += own * own;
        count++;
      }
    const double variance = squares / count, expected = 1 / (4 * (2 * alphas[a] + 1));
    /* Four deviations of the mean; the variance to 8 %. */
    assert_true(fabs(sum / count) < 4 * sqrt(expected / count));
    assert_true(fabs(variance / expected - 1) < 0.08);
    ac_dataset_free(mixed);
  }
  ac_dataset_free(whole);
}

/* Bytes and floats of the same pictures are mixed with the same partners and shares. */
static void bytes_are_mixed_like_floats(void **state) {
  (void)state;
  enum { SIDE = 8, PICTURES = 12, VALUES = 3 * SIDE * SIDE };
  static const ac_mixing ways[] = {{.cutmix = 1}, {.mixup = 0.5}, {.mixup = 0.5, .cutmix = 1}};
  char text[1024] = "";
  for (int i = 0; i < PICTURES; i++) {
    uint8_t pixels[VALUES];
    char name[32];
    for (int p = 0; p < VALUES; p++) pixels[p] = (uint8_t)(i * 53 + p * 7);
    snprintf(name, sizeof name, "m%d.png", i);
    snprintf(text + strlen(text), sizeof text - strlen(text), "%s,%d\n", name, i % CLASSES);
    assert_ok(ac_picture_write_png(in_folder(name).text, SIDE, SIDE, 3, pixels));
  }
  write_file(in_folder("mixed.csv").text, text, strlen(text));
  ac_pictures *list;
  ac_picture_samples samples = {.height = SIDE, .crop_share = 1};
  ac_dataset *floats, *bytes;
  assert_ok(ac_pictures_open(&list, NULL, in_folder("mixed.csv").text, NULL));
  assert_ok(ac_dataset_from_pictures(&floats, list, &samples));
  samples.dtype = AC_U8;
  assert_ok(ac_dataset_from_pictures(&bytes, list, &samples));
  for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
    ac_dataset *a, *b;
    assert_ok(ac_dataset_mixed(&a, floats, &ways[w]));
    assert_ok(ac_dataset_mixed(&b, bytes, &ways[w]));
    int changed = 0;
    for (int64_t i = 0; i < PICTURES; i++) {
      float image[VALUES], of_floats[CLASSES], of_bytes[CLASSES];
      uint8_t levels[VALUES];
      int32_t label;
      const ac_sample_key key = {.index = i, .epoch = 1, .seed = 4};
      assert_ok(ac_dataset_read(a, &key, (void *const[]){image, &label, of_floats}));
      assert_ok(ac_dataset_read(b, &key, (void *const[]){levels, &label, of_bytes}));
      assert_memory_equal(of_floats, of_bytes, sizeof of_floats);
      for (int p = 0; p < VALUES; p++) {
        /* Copied pixels are equal, averages rounded to the nearest level. */
        const double difference = fabs((double)levels[p] - 255 * (double)image[p]);
        assert_true(difference < (ways[w].mixup > 0 ? 0.5001 : 1e-4));
        changed += levels[p] != (uint8_t)(i * 53 + p * 7);
      }
    }
    assert_true(changed > VALUES);
    ac_dataset_free(a);
    ac_dataset_free(b);
  }
  ac_dataset_free(floats);
  ac_dataset_free(bytes);
  ac_pictures_free(list);
}

/* What validates has targets of its labels alone, and as many as the model has classes. */
static void targets_can_be_labels_alone(void **state) {
  (void)state;
  ac_dataset *whole = open_images(), *mixed;
  assert_ok(ac_dataset_mixed(&mixed, whole, &(ac_mixing){.classes = CLASSES + 2}));
  assert_int_equal(ac_dataset_field(mixed, 2)->elements, CLASSES + 2);
  assert_int_equal(ac_dataset_picture_bytes(mixed), 0);
  for (int64_t i = 0; i < COUNT; i++) {
    float pixels[HEIGHT * WIDTH], targets[CLASSES + 2];
    int32_t label;
    assert_ok(ac_dataset_read(mixed, &(ac_sample_key){.index = i},
                              (void *const[]){pixels, &label, targets}));
    for (int p = 0; p < HEIGHT * WIDTH; p++) assert_int_equal(lroundf(pixels[p] * 255), i * 6);
    for (int c = 0; c < CLASSES + 2; c++) assert_true(targets[c] == (c == i % CLASSES ? 1 : 0));
  }
  ac_dataset_free(mixed);
  assert_ok(ac_dataset_mixed(&mixed, whole, &(ac_mixing){.classes = 2}));
  float pixels[HEIGHT * WIDTH], targets[2];
  int32_t label;
  assert_refused(ac_dataset_read(mixed, &(ac_sample_key){.index = 2},
                                 (void *const[]){pixels, &label, targets}),
                 AC_ERROR_FORMAT, "label 2 of sample 2 is not in [0, 2)");
  ac_dataset_free(mixed);
  ac_dataset_free(whole);
}

static void mixing_refuses_what_makes_no_sense(void **state) {
  (void)state;
  ac_dataset *whole = open_images(), *mixed, *bare;
  static const struct {
    ac_mixing mixing;
    const char *mention;
  } bad[] = {{{.mixup = -1}, "alpha -1"},
             {{.cutmix = 2000}, "alpha 2000"},
             {{.cutmix = 1e-310}, "alpha 1e-310 is neither 0 nor in [1e-6, 1000]"},
             {{.probability = 2}, "a probability of 2"},
             {{.smoothing = 1}, "a smoothing of 1"},
             {{.classes = -1}, "number of classes"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_refused(ac_dataset_mixed(&mixed, whole, &bad[i].mixing), AC_ERROR_ARGUMENT,
                   bad[i].mention);
  const ac_field field = {"images", AC_F32, PIXELS};
  assert_ok(ac_dataset_from_memory(&bare, COUNT, 1, &field, (const void *const[]){images}));
  assert_refused(ac_dataset_mixed(&mixed, bare, NULL), AC_ERROR_ARGUMENT, "of a known shape");
  ac_dataset_free(bare);
  ac_dataset_free(whole);
}

/* ---- classes --------------------------------------------------------------------------------- */

static void weights_belong_to_labels(void **state) {
  (void)state;
  static const float weights[CLASSES] = {0.5f, 1, 2, 0};
  ac_dataset *whole = open_images(), *weighted, *again;
  assert_ok(ac_dataset_weighted(&weighted, whole, CLASSES, weights));
  assert_string_equal(ac_dataset_field(weighted, 2)->name, "weights");
  for (int64_t i = 0; i < COUNT; i++) {
    const sample s = read_sample(weighted, i, 0);
    assert_true(s.targets[0] == weights[i % CLASSES]);
  }
  assert_refused(ac_dataset_weighted(&again, weighted, CLASSES, weights), AC_ERROR_ARGUMENT,
                 "no room for a field weights");
  ac_dataset_free(weighted);
  assert_ok(ac_dataset_weighted(&weighted, whole, 2, weights));
  sample s;
  assert_refused(ac_dataset_read(weighted, &(ac_sample_key){.index = 3},
                                 (void *const[]){s.pixels, &s.label, s.targets}),
                 AC_ERROR_FORMAT, "label 3 of sample 3 is not in [0, 2)");
  ac_dataset_free(weighted);
  assert_refused(ac_dataset_weighted(&weighted, whole, 1, (const float[]){-1}), AC_ERROR_ARGUMENT,
                 "weight -1 of class 0");
  ac_dataset_free(whole);
}

/* 30 pictures of class a, 6 of b, 3 of c. */
static ac_pictures *open_unequal(void) {
  char text[4096] = "";
  for (int i = 0; i < 39; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), "%d.png,%s\n", i,
             i < 30   ? "a"
             : i < 36 ? "b"
                      : "c");
  for (int i = 0; i < 39; i++) {
    char name[16];
    const uint8_t pixel = (uint8_t)(6 * i);
    snprintf(name, sizeof name, "%d.png", i);
    assert_ok(ac_picture_write_png(in_folder(name).text, 1, 1, 1, &pixel));
  }
  write_file(in_folder("unequal.csv").text, text, strlen(text));
  ac_pictures *list;
  assert_ok(ac_pictures_open(&list, NULL, in_folder("unequal.csv").text, NULL));
  return list;
}

static void weights_make_up_for_sizes(void **state) {
  (void)state;
  ac_pictures *list = open_unequal();
  float weights[3];
  assert_ok(ac_pictures_class_weights(list, weights));
  assert_true(fabsf(weights[0] - 39 / 90.0f) < 1e-6f && fabsf(weights[1] - 39 / 18.0f) < 1e-6f &&
              fabsf(weights[2] - 39 / 9.0f) < 1e-6f);
  ac_pictures_free(list);
}

static void classes_come_equally_often(void **state) {
  (void)state;
  enum { EPOCHS = 20 };
  ac_pictures *list = open_unequal();
  ac_dataset *dataset;
  const ac_picture_samples samples = {.height = 1, .channels = 1, .balanced = true, .dtype = AC_U8};
  assert_ok(ac_dataset_from_pictures(&dataset, list, &samples));
  assert_int_equal(ac_dataset_count(dataset), 39);
  int met[39] = {0};
  for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
    int classes[3] = {0};
    for (int64_t i = 0; i < 39; i++) {
      uint8_t pixel;
      int32_t label;
      const ac_sample_key key = {.index = i, .epoch = epoch, .seed = 5};
      assert_ok(ac_dataset_read(dataset, &key, (void *const[]){&pixel, &label}));
      const int picture = pixel / 6;
      assert_int_equal(label, ac_pictures_label(list, picture));
      classes[label]++;
      met[picture]++;
    }
    for (int c = 0; c < 3; c++) assert_int_equal(classes[c], 13);
  }
  /* 13 x 20 samples of 30, 6 and 3 pictures. */
  for (int i = 0; i < 39; i++) {
    const int own = i < 30 ? 30 : i < 36 ? 6 : 3;
    assert_in_range(met[i], 13 * EPOCHS / own, 13 * EPOCHS / own + 1);
  }
  ac_dataset_free(dataset);
  ac_pictures_free(list);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cutmix_replaces_a_rectangle),
      cmocka_unit_test(mixup_averages),
      cmocka_unit_test(shares_are_beta),
      cmocka_unit_test(bytes_are_mixed_like_floats),
      cmocka_unit_test(targets_can_be_labels_alone),
      cmocka_unit_test(mixing_refuses_what_makes_no_sense),
      cmocka_unit_test(weights_belong_to_labels),
      cmocka_unit_test(weights_make_up_for_sizes),
      cmocka_unit_test(classes_come_equally_often),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
