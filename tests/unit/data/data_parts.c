/* Folds and shards: which samples they hold. Slices are among the tests of datasets. */
#include "support/files.h"

#include <accrue/dataset.h>

enum { MOST = 200, CLASSES = 5 };

/* Sample i of `count` holds i and, sorted as files often are, the class i * CLASSES / count. */
static ac_dataset *make_whole(int count) {
  static int32_t data[2][MOST];
  for (int i = 0; i < count; i++) data[0][i] = i, data[1][i] = i * CLASSES / count;
  ac_dataset *whole;
  const ac_field fields[] = {{"number", AC_I32, 1}, {"labels", AC_I32, 1}};
  assert_ok(ac_dataset_from_memory(&whole, count, 2, fields, (const void *[]){data[0], data[1]}));
  return whole;
}

/* Adds one to seen[i] for each sample i of the part; returns how many there are. */
static int64_t mark(ac_dataset *part, int *seen, int *of_class) {
  for (int64_t i = 0; i < ac_dataset_count(part); i++) {
    int32_t number, label;
    assert_ok(
        ac_dataset_read(part, &(ac_sample_key){.index = i}, (void *const[]){&number, &label}));
    seen[number]++;
    if (of_class) of_class[label]++;
  }
  return ac_dataset_count(part);
}

static void assert_all_are(const int *seen, int count, int times) {
  for (int i = 0; i < count; i++) assert_int_equal(seen[i], times);
}

/* Each sample validates once and trains in all other folds. */
static void folds_partition(void **state) {
  (void)state;
  static const int cases[][2] = {{200, 5}, {103, 4}, {7, 7}, {9, 2}};
  for (int c = 0; c < 4; c++) {
    int count = cases[c][0], folds = cases[c][1], held[MOST] = {0}, trained[MOST] = {0};
    ac_dataset *whole = make_whole(count), *train, *validation;
    for (int fold = 1; fold <= folds; fold++) {
      int both[MOST] = {0};
      assert_ok(ac_dataset_fold(&train, &validation, whole, fold, folds));
      int64_t size = mark(validation, held, NULL);
      assert_true(size == count / folds || size == count / folds + 1);
      assert_int_equal(mark(train, trained, NULL), count - size);
      mark(train, both, NULL);
      mark(validation, both, NULL);
      assert_all_are(both, count, 1);
      ac_dataset_free(train);
      ac_dataset_free(validation);
    }
    assert_all_are(held, count, 1);
    assert_all_are(trained, count, folds - 1);
    ac_dataset_free(whole);
  }
}

/* A fold of a sorted file holds all classes: 40 of 200 samples are 8 of each of 5 on average, with
 * a standard deviation of 2.3. The partition is the same in every run. */
static void folds_mix_the_classes(void **state) {
  (void)state;
  ac_dataset *whole = make_whole(200), *train, *validation, *again[2];
  for (int fold = 1; fold <= 5; fold++) {
    int seen[MOST] = {0}, repeated[MOST] = {0}, of_class[CLASSES] = {0};
    assert_ok(ac_dataset_fold(&train, &validation, whole, fold, 5));
    assert_ok(ac_dataset_fold(&again[0], &again[1], whole, fold, 5));
    mark(validation, seen, of_class);
    mark(again[1], repeated, NULL);
    assert_memory_equal(seen, repeated, sizeof seen);
    for (int c = 0; c < CLASSES; c++) assert_true(of_class[c] >= 1 && of_class[c] <= 16);
    ac_dataset_free(again[0]), ac_dataset_free(again[1]);
    ac_dataset_free(train), ac_dataset_free(validation);
  }
  ac_dataset_free(whole);
}

static void folds_that_are_not_there_are_refused(void **state) {
  (void)state;
  ac_dataset *whole = make_whole(6), *train, *validation;
  static const struct {
    int64_t fold, folds;
    const char *mention;
  } cases[] = {
      {1, 1, "1 folds; at least two"},
      {1, 0, "0 folds"},
      {0, 3, "no fold 0; 3 folds are 1 to 3"},
      {4, 3, "no fold 4"},
      {-1, 3, "no fold -1"},
      {1, 7, "6 samples leave some of 7 folds empty"},
      {INT64_MAX, INT64_MAX, "folds empty"},
  };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    assert_refused(ac_dataset_fold(&train, &validation, whole, cases[c].fold, cases[c].folds),
                   AC_ERROR_ARGUMENT, cases[c].mention);
    assert_null(train);
    assert_null(validation);
  }
  ac_dataset_free(whole);
}

static void shards_partition(void **state) {
  (void)state;
  static const int cases[][2] = {{200, 3}, {7, 7}, {11, 4}, {5, 1}};
  for (int c = 0; c < 4; c++) {
    int count = cases[c][0], ranks = cases[c][1], seen[MOST] = {0};
    ac_dataset *whole = make_whole(count), *shard;
    for (int rank = 0; rank < ranks; rank++) {
      assert_ok(ac_dataset_shard(&shard, whole, rank, ranks));
      int64_t size = mark(shard, seen, NULL);
      assert_true(size == count / ranks || size == count / ranks + 1);
      assert_string_equal(ac_dataset_field(shard, 1)->name, "labels");
      ac_dataset_free(shard);
    }
    assert_all_are(seen, count, 1);
    ac_dataset_free(whole);
  }
  ac_dataset *whole = make_whole(3), *shard;
  assert_refused(ac_dataset_shard(&shard, whole, 2, 2), AC_ERROR_ARGUMENT, "no rank 2 among 2");
  assert_refused(ac_dataset_shard(&shard, whole, -1, 2), AC_ERROR_ARGUMENT, "no rank -1");
  assert_refused(ac_dataset_shard(&shard, whole, 0, 0), AC_ERROR_ARGUMENT, "no rank 0 among 0");
  assert_refused(ac_dataset_shard(&shard, whole, 3, 4), AC_ERROR_ARGUMENT,
                 "3 samples leave nothing for rank 3 of 4");
  assert_null(shard);
  ac_dataset_free(whole);
}

/* A shard of a fold of a slice is still made of the right samples. */
static void parts_stack(void **state) {
  (void)state;
  ac_dataset *whole = make_whole(100), *slice, *train, *validation, *shard;
  int seen[MOST] = {0};
  assert_ok(ac_dataset_slice(&slice, whole, 20, 80));
  assert_ok(ac_dataset_fold(&train, &validation, slice, 2, 3));
  mark(validation, seen, NULL);
  for (int rank = 0; rank < 4; rank++) {
    assert_ok(ac_dataset_shard(&shard, train, rank, 4));
    assert_int_equal(mark(shard, seen, NULL), 10);
    ac_dataset_free(shard);
  }
  for (int i = 0; i < 100; i++) assert_int_equal(seen[i], i >= 20 && i < 80);
  ac_dataset_free(train), ac_dataset_free(validation);
  ac_dataset_free(slice), ac_dataset_free(whole);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(folds_partition),
      cmocka_unit_test(folds_mix_the_classes),
      cmocka_unit_test(folds_that_are_not_there_are_refused),
      cmocka_unit_test(shards_partition),
      cmocka_unit_test(parts_stack),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
