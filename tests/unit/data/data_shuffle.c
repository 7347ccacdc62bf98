/* The order of samples: a bijection that differs between epochs and seeds and depends on nothing
 * else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <accrue/dataset.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void every_sample_comes_once(void **state) {
  (void)state;
  static const int64_t counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 31, 32, 33, 1000, 1024, 65537};
  for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
    int64_t count = counts[c];
    unsigned char *seen = malloc((size_t)count);
    assert_non_null(seen);
    for (int64_t epoch = 0; epoch < 3; epoch++) {
      memset(seen, 0, (size_t)count);
      for (int64_t i = 0; i < count; i++) {
        int64_t index = ac_shuffle(12345, epoch, i, count);
        assert_in_range(index, 0, count - 1);
        assert_int_equal(seen[index]++, 0);
      }
    }
    free(seen);
  }
}

static void positions_outside_are_refused(void **state) {
  (void)state;
  assert_int_equal(ac_shuffle(1, 0, -1, 10), -1);
  assert_int_equal(ac_shuffle(1, 0, 10, 10), -1);
  assert_int_equal(ac_shuffle(1, 0, 0, 0), -1);
  assert_int_equal(ac_shuffle(1, 0, 0, -5), -1);
}

static void huge_counts_work(void **state) {
  (void)state;
  static const int64_t counts[] = {INT64_C(1) << 40, (INT64_C(1) << 62) - 12345, INT64_C(1) << 62,
                                   INT64_MAX};
  for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
    int64_t previous = -1;
    double mean = 0;
    for (int64_t i = 0; i < 1000; i++) {
      int64_t index = ac_shuffle(7, 1, i * (counts[c] / 1000), counts[c]);
      assert_true(index >= 0 && index < counts[c]);
      assert_true(index != previous);
      previous = index;
      mean += (double)index / (double)counts[c] / 1000;
    }
    /* The mean of 1000 uniform numbers has a standard deviation of 0.0091; five of them. */
    assert_true(fabs(mean - 0.5) < 0.046);
  }
}

/* Two independent permutations agree at one position on average, with variance 1. */
static void epochs_and_seeds_are_independent(void **state) {
  (void)state;
  enum { COUNT = 1000, PAIRS = 200 };
  int same_epochs = 0, same_seeds = 0, identity = 0, follow = 0;
  for (int64_t p = 0; p < PAIRS; p++)
    for (int64_t i = 0; i < COUNT; i++) {
      int64_t index = ac_shuffle(42, p, i, COUNT);
      same_epochs += index == ac_shuffle(42, p + 1, i, COUNT);
      same_seeds += index == ac_shuffle((uint64_t)p + 43, p, i, COUNT);
      identity += index == i;
      follow += ac_shuffle(42, p, (i + 1) % COUNT, COUNT) == (index + 1) % COUNT;
    }
  /* Sums of PAIRS such numbers: mean 200, standard deviation 14; five of them. */
  assert_in_range(same_epochs, 130, 270);
  assert_in_range(same_seeds, 130, 270);
  assert_in_range(identity, 130, 270);
  assert_in_range(follow, 130, 270);
}

static void small_counts_are_uniform(void **state) {
  (void)state;
  enum { SEEDS = 20000 };
  for (int count = 2; count <= 9; count++) {
    int hits[9][9] = {{0}};
    for (uint64_t seed = 0; seed < SEEDS; seed++)
      for (int i = 0; i < count; i++) hits[i][ac_shuffle(seed, 3, i, count)]++;
    double p = 1.0 / count, deviation = sqrt(SEEDS * p * (1 - p));
    for (int i = 0; i < count; i++)
      for (int j = 0; j < count; j++) assert_true(fabs(hits[i][j] - SEEDS * p) < 5 * deviation);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_sample_comes_once),
      cmocka_unit_test(positions_outside_are_refused),
      cmocka_unit_test(huge_counts_work),
      cmocka_unit_test(epochs_and_seeds_are_independent),
      cmocka_unit_test(small_counts_are_uniform),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
