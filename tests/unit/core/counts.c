/* Counts at the limits of their type, for every public function that takes one: they are refused,
 * or harmless, and never used in arithmetic before they are checked (sanitizers would see it). */
#include "support/victims.h"

#include <unistd.h>

static const int64_t counts[] = {INT64_MIN,         -1,       INT64_MAX / 4, INT64_MAX / 2,
                                 INT64_MAX / 2 + 1, INT64_MAX};
enum { COUNTS = sizeof counts / sizeof *counts };

static void refused(ac_status status, const char *what, int64_t count) {
  if (status != AC_ERROR_ARGUMENT)
    fail_msg("%s of %lld: %s", what, (long long)count, ac_status_name(status));
}

/* With and without a window in progress, of each kind of weights. */
static void of_samples(void **state) {
  (void)state;
  ac_plan_desc policies[] = {split, split, split};
  policies[1].loss_means = AC_LOSS_MEANS_GIVEN;
  policies[2].micro_batch = BATCH;
  for (int p = 0; p < 3; p++)
    for (int done = 0; done < 2; done++) {
      run r = start_model("cpu", &both, &policies[p], &trained);
      if (p == 1) assert_ok(ac_trainer_begin_window(r.trainer, 4, (double[]){4, 4}, 2));
      if (done) assert_ok(feed_samples(&r, 0, 1));
      const snapshot before = look_at(&r);
      const sample s = make_sample(0, 0);
      const ac_feed feeds[] = {{"x", s.x}, {"kinds", s.kinds}};
      char text[64];
      for (int i = 0; i < COUNTS; i++) {
        refused(ac_trainer_accumulate(r.trainer, counts[i], feeds, 2), "accumulate", counts[i]);
        refused(ac_trainer_locate_nonfinite(r.trainer, counts[i], feeds, 2, text, sizeof text),
                "locate", counts[i]);
        if (!done) refused(ac_trainer_set_batch(r.trainer, counts[i]), "set_batch", counts[i]);
      }
      const snapshot after = look_at(&r);
      assert_same("counts", &before, &after);
      end_run(&r);
    }
}

static void of_elements(void **state) {
  (void)state;
  float x[4] = {0};
  run r = begin_run(&both, &split, &trained, 0, 2);
  for (int i = 0; i < COUNTS; i++)
    for (int k = 0; k <= COUNTS; k++) {
      const int64_t first = counts[i], count = k < COUNTS ? counts[k] : 1;
      refused(ac_trainer_get_parameter(r.trainer, 0, first, count, x), "get", first);
      refused(ac_trainer_set_parameter(r.trainer, 0, first, count, x), "set", first);
      refused(ac_trainer_get_gradient(r.trainer, 0, first, count, x), "get_gradient", first);
      refused(ac_trainer_set_gradient(r.trainer, 0, first, count, x), "set_gradient", first);
      refused(ac_trainer_get_state(r.trainer, 0, 0, first, count, x), "get_state", first);
      refused(ac_trainer_set_state(r.trainer, 0, 0, first, count, x), "set_state", first);
      refused(ac_trainer_get_parameter(r.trainer, 0, 0, counts[i], x), "get all", counts[i]);
    }
  end_run(&r);
}

/* A model file's. */
static void of_files(void **state) {
  (void)state;
  float x[4];
  const test_path path = in_folder("model");
  run r = begin_run(&both, &split, &trained, 0, 0);
  ac_model_file *file;
  assert_ok(ac_trainer_save(r.trainer, path.text, NULL, 0));
  assert_ok(ac_model_file_open(&file, path.text));
  for (int i = 0; i < COUNTS; i++) {
    refused(ac_model_file_read(file, 0, counts[i], 1, x), "read", counts[i]);
    refused(ac_model_file_read(file, 0, 0, counts[i], x), "read", counts[i]);
  }
  ac_model_file_close(file);
  end_run(&r);
}

/* Samples, windows and epochs of data that have as many as can be said. */
static void of_datasets(void **state) {
  (void)state;
  ac_dataset *all = dataset_of(INT64_MAX), *part, *rest;
  int64_t windows;
  for (int i = 0; i < COUNTS; i++) {
    const int64_t n = counts[i];
    if (n < 0) {
      refused(ac_dataset_slice(&part, all, n, 4), "slice", n);
      refused(ac_dataset_fold(&rest, &part, all, 1, n), "fold", n);
      refused(ac_dataset_shard(&part, all, 0, n), "shard", n);
    } else {
      assert_ok(ac_dataset_slice(&part, all, n - 1, n));
      ac_dataset_free(part);
      assert_ok(ac_dataset_fold(&rest, &part, all, n, n));
      assert_int_equal(ac_dataset_count(part), n < INT64_MAX ? INT64_MAX / n : 1);
      ac_dataset_free(part);
      ac_dataset_free(rest);
      assert_ok(ac_dataset_shard(&part, all, n - 1, n));
      ac_dataset_free(part);
    }
    const ac_fit_desc epochs = {.train = all, .epochs = n}, steps = {.train = all, .steps = n};
    if (n != 1) refused(ac_fit_windows(&epochs, 4, &windows), "epochs", n);
    ac_fit_windows(&steps, 4, &windows);
    const int64_t place = ac_shuffle(1, n, n, INT64_MAX);
    assert_true(n < 0 || n == INT64_MAX ? place == -1 : place >= 0);
  }
  ac_dataset_free(all);
}

static void of_updates(void **state) {
  (void)state;
  for (ac_schedule_kind kind = AC_SCHEDULE_CONSTANT; kind < AC_SCHEDULE_COUNT; kind++)
    for (int i = 0; i < COUNTS; i++)
      for (int k = 0; k < COUNTS; k++) {
        const ac_schedule s = {.kind = kind,
                               .warmup = counts[k] > 0 ? counts[k] / 2 : 3,
                               .total = INT64_MAX,
                               .period = INT64_MAX / 4,
                               .period_factor = INT64_MAX,
                               .fall = INT64_MAX / 4,
                               .gamma = 0.5,
                               .milestones = {1, INT64_MAX},
                               .milestone_count = 2};
        const double rate = ac_schedule_rate(&s, counts[i]);
        assert_true(rate >= 0 && rate <= 1e-3);
        assert_true(ac_schedule_momentum(&s, counts[i]) <= 1);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(of_samples), cmocka_unit_test(of_elements),
                                     cmocka_unit_test(of_files), cmocka_unit_test(of_datasets),
                                     cmocka_unit_test(of_updates)};
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
