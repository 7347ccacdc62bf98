/* Schedules of the effective batch. Such a run is equal, update by update and bit by bit, to
 * separate runs with a plan for each batch, which continue from one another's states. Rates follow
 * the batch. Schedules without sense are refused. */
#include "support/states.h"

#include <math.h>

enum { MOST = 8, MOST_WINDOWS = 32 };

/* ---- runs ------------------------------------------------------------------------------------ */

typedef struct diary {
  facts updates[MOST_WINDOWS];
  int64_t samples[MOST_WINDOWS];
  int count;
} diary;

static bool on_event(void *user, const ac_fit_event *event) {
  diary *d = user;
  if (event->kind != AC_FIT_STEP) return true;
  assert_true(d->count < MOST_WINDOWS);
  facts *f = &d->updates[d->count];
  *f = (facts){.count = 0};
  add_update(f, &event->update);
  d->samples[d->count++] = event->samples;
  return true;
}

/* What is folded cannot be clipped. In f16 the scale begins so high that windows overflow; which
 * ones depends on their batch. */
static ac_trainer_desc scaled(const ac_plan_desc *plan) {
  const ac_loss_scaling_desc high = {
      .kind = AC_LOSS_SCALING_DYNAMIC, .scale = 1 << 20, .interval = 2, .growth = 8};
  return (ac_trainer_desc){
      .loss_scaling =
          plan->precision == AC_PRECISION_F16 ? high : (ac_loss_scaling_desc){.kind = 0},
      .seed = 11,
      .noise_every = 1,
      .optimizer = {.clip = plan->gradients == AC_GRADIENTS_FOLDED ? 0 : 0.5},
      .schedule = {.lr = 0.02, .warmup = 2, .scaling = AC_RATE_SCALING_SQRT, .base_batch = 4}};
}

static const ac_batch_stage mixed[] = {{2, AC_BATCH_FROM_STEP, 0},
                                       {3, AC_BATCH_FROM_STEP, 3},
                                       {5, AC_BATCH_FROM_EPOCH, 1},
                                       {MOST, AC_BATCH_FROM_SAMPLE, 19}};
enum { STAGES = 4, STEPS = 10 };

static ac_fit_desc fit_of(ac_dataset *data, diary *d, ac_last_window last) {
  return (ac_fit_desc){.train = data,
                       .steps = STEPS,
                       .seed = 3,
                       .last_window = last,
                       .resume = true,
                       .callback = on_event,
                       .user = d};
}

static snapshot run_by_schedule(const char *device, const shape_of_model *model,
                                const ac_plan_desc *plan, ac_last_window last, diary *d) {
  ac_dataset *data = dataset_of(COUNT);
  const ac_trainer_desc desc = scaled(plan);
  run r = start_model(device, model, plan, &desc);
  ac_fit_desc fit = fit_of(data, d, last);
  fit.batches = mixed;
  fit.batch_count = STAGES;
  assert_ok(ac_fit(r.trainer, &fit, NULL));
  const snapshot s = look_at(&r);
  end_run(&r);
  ac_dataset_free(data);
  return s;
}

/* One window after the other, each by a trainer of its own with a plan for that window's batch. */
static snapshot run_apart(const char *device, const shape_of_model *model, ac_plan_desc plan,
                          ac_last_window last, const int64_t *batches, diary *d) {
  ac_dataset *data = dataset_of(COUNT);
  const test_path state = in_folder("apart");
  const int64_t micro_batch = plan.micro_batch;
  snapshot s;
  for (int i = 0; i < STEPS; i++) {
    plan.batch = batches[i];
    plan.micro_batch = micro_batch < batches[i] ? micro_batch : batches[i];
    const ac_trainer_desc desc = scaled(&plan);
    run r = start_model(device, model, &plan, &desc);
    if (i) assert_ok(ac_trainer_load_state(r.trainer, state.text));
    ac_fit_desc fit = fit_of(data, d, last);
    fit.steps = i + 1;
    assert_ok(ac_fit(r.trainer, &fit, NULL));
    assert_ok(ac_trainer_save_state(r.trainer, state.text, NULL, 0));
    s = look_at(&r);
    end_run(&r);
  }
  ac_dataset_free(data);
  return s;
}

/* What the schedule says of each window. */
static void list_batches(ac_last_window last, int64_t batches[STEPS]) {
  static const ac_epoch_end ends[] = {AC_EPOCH_END_SHORT, AC_EPOCH_END_CARRY, AC_EPOCH_END_DROP};
  const ac_windows windows = {
      .count = COUNT, .epoch_end = ends[last], .stages = mixed, .stage_count = STAGES};
  ac_place at = {0};
  for (int i = 0; i < STEPS; i++) {
    const ac_window window = ac_windows_lay(&windows, at);
    batches[i] = ac_windows_batch(&windows, window.begin);
    at = window.next;
  }
  assert_true(batches[0] == 2 && batches[3] == 3 && batches[STEPS - 1] == MOST);
}

/* ---- what is tried --------------------------------------------------------------------------- */

typedef struct kind {
  const char *name;
  shape_of_model model;
  ac_plan_desc plan;
  bool cuts; /* windows may be carried over */
} kind;

static const kind kinds[] = {
    {"micro-batches of 2", {0}, {.micro_batch = 2, .recompute = AC_RECOMPUTE_NONE}, true},
    {"micro-batches of 3, recomputed",
     {0},
     {.micro_batch = 3, .recompute = AC_RECOMPUTE_ALL, .optimizer = {.kind = AC_SGD}},
     true},
    {"read ahead", {0}, {.micro_batch = 2, .read_ahead = 2, .recompute = AC_RECOMPUTE_NONE}, true},
    {"f16",
     {0},
     {.micro_batch = 3, .precision = AC_PRECISION_F16, .recompute = AC_RECOMPUTE_NONE},
     true},
    {"two losses",
     {.two = true},
     {.micro_batch = 2, .read_ahead = 1, .recompute = AC_RECOMPUTE_NONE},
     true},
    {"whole batches", {.norm = true}, {.micro_batch = MOST, .recompute = AC_RECOMPUTE_NONE}, true},
    {"whole windows",
     {0},
     {.micro_batch = MOST, .whole_windows = true, .recompute = AC_RECOMPUTE_NONE},
     false},
    {"fused",
     {0},
     {.micro_batch = MOST,
      .whole_windows = true,
      .gradients = AC_GRADIENTS_FUSED,
      .recompute = AC_RECOMPUTE_NONE},
     false},
    {"folded",
     {0},
     {.micro_batch = 2,
      .read_ahead = 1,
      .gradients = AC_GRADIENTS_FOLDED,
      .optimizer = {.kind = AC_SGD},
      .recompute = AC_RECOMPUTE_NONE},
     true}};

static void compare(const char *device, const kind *k, ac_last_window last) {
  int64_t batches[STEPS];
  char where[128];
  diary whole = {.count = 0}, apart = {.count = 0};
  ac_plan_desc plan = k->plan;
  plan.batch = MOST;
  list_batches(last, batches);
  const snapshot a = run_by_schedule(device, &k->model, &plan, last, &whole);
  const snapshot b = run_apart(device, &k->model, plan, last, batches, &apart);
  snprintf(where, sizeof where, "%s on %s, last window %d", k->name, device, (int)last);
  assert_int_equal(whole.count, apart.count);
  for (int i = 0; i < whole.count; i++) {
    if (!same_facts(&whole.updates[i], &apart.updates[i]))
      fail_msg("%s: update %d is another", where, i);
    assert_int_equal(whole.samples[i], apart.samples[i]);
  }
  assert_same(where, &a, &b);
}

static void a_schedule_is_its_runs(const char *device) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    for (int last = AC_LAST_UPDATE; last <= AC_LAST_DROP; last++)
      if (kinds[i].cuts || last != AC_LAST_CARRY) compare(device, &kinds[i], (ac_last_window)last);
}
ON_SHARED_DEVICES(a_schedule_is_its_runs)

/* ---- rates ----------------------------------------------------------------------------------- */

static void rates_follow_the_batch(void **state) {
  (void)state;
  int64_t batches[STEPS];
  diary d = {.count = 0};
  ac_plan_desc plan = {.batch = MOST, .micro_batch = 2, .recompute = AC_RECOMPUTE_NONE};
  list_batches(AC_LAST_UPDATE, batches);
  run_by_schedule("cpu", &(shape_of_model){0}, &plan, AC_LAST_UPDATE, &d);
  for (int i = 0; i < d.count; i++) {
    const double warm = i < 2 ? (i + 1) / 3.0 : 1, expected = 0.02 * warm * sqrt(batches[i] / 4.0);
    assert_true(fabs(d.updates[i].of[3] - expected) < 1e-12);
  }
}

/* Also if a run is resumed with another schedule, and the rest of the epoch has no window of its
 * first batch. */
static void rates_follow_other_rows(void **state) {
  (void)state;
  static const ac_batch_stage before[] = {{5, AC_BATCH_FROM_STEP, 0}},
                              after[] = {{MOST, AC_BATCH_FROM_STEP, 0},
                                         {2, AC_BATCH_FROM_EPOCH, 1}};
  ac_dataset *data = dataset_of(COUNT);
  diary d = {.count = 0};
  run r = start_model(
      "cpu", &(shape_of_model){0}, &(ac_plan_desc){.batch = MOST},
      &(ac_trainer_desc){
          .schedule = {.lr = 0.02, .scaling = AC_RATE_SCALING_LINEAR, .base_batch = 4}});
  ac_fit_desc fit = fit_of(data, &d, AC_LAST_DROP);
  fit.steps = 1;
  fit.batches = before;
  fit.batch_count = 1;
  assert_ok(ac_fit(r.trainer, &fit, NULL));
  fit.steps = 2;
  fit.batches = after;
  fit.batch_count = 2;
  assert_ok(ac_fit(r.trainer, &fit, NULL));
  assert_int_equal(d.samples[1], 2);
  assert_true(fabs(d.updates[1].of[3] - 0.01) < 1e-15);
  end_run(&r);
  ac_dataset_free(data);
}

/* In the two-call form the caller says so. */
static void a_batch_can_be_set(void **state) {
  (void)state;
  const ac_plan_desc plan = {.batch = MOST, .micro_batch = 2};
  const ac_trainer_desc desc = {
      .schedule = {.lr = 0.02, .scaling = AC_RATE_SCALING_LINEAR, .base_batch = 4}};
  run r = start_model("cpu", &(shape_of_model){0}, &plan, &desc);
  assert_true(fabs(ac_trainer_rate(r.trainer) - 0.04) < 1e-15);
  assert_ok(ac_trainer_set_batch(r.trainer, 3));
  assert_true(fabs(ac_trainer_rate(r.trainer) - 0.015) < 1e-15);
  assert_int_equal(ac_trainer_batch(r.trainer), 3);
  assert_refused(ac_trainer_set_batch(r.trainer, 0), AC_ERROR_ARGUMENT, "the batch is 0");
  assert_refused(ac_trainer_set_batch(r.trainer, MOST + 1), AC_ERROR_ARGUMENT, "the batch is 9");
  assert_ok(feed_samples(&r, 0, 3));
  assert_refused(ac_trainer_set_batch(r.trainer, 2), AC_ERROR_STATE, "a window is in progress");
  /* A state takes it along. */
  const test_path path = in_folder("batch");
  assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
  run s = start_model("cpu", &(shape_of_model){0}, &plan, &desc);
  assert_ok(ac_trainer_load_state(s.trainer, path.text));
  assert_true(fabs(ac_trainer_rate(s.trainer) - 0.015) < 1e-15);
  end_run(&r);
  end_run(&s);
  /* One of a batch that was its plan's leaves it the plan's. */
  r = start_model("cpu", &(shape_of_model){0}, &(ac_plan_desc){.batch = 4, .micro_batch = 2},
                  &desc);
  assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
  s = start_model("cpu", &(shape_of_model){0}, &plan, &desc);
  assert_ok(ac_trainer_load_state(s.trainer, path.text));
  assert_true(fabs(ac_trainer_rate(s.trainer) - 0.04) < 1e-15);
  end_run(&r);
  end_run(&s);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static bool stop_at_once(void *user) {
  int *polls = user;
  return ++*polls == 2;
}

static void what_makes_no_sense_is_refused(void **state) {
  (void)state;
  ac_dataset *data = dataset_of(COUNT);
  const ac_plan_desc plan = {.batch = MOST - 1, .micro_batch = 1};
  run r = start_model("cpu", &(shape_of_model){0}, &plan, NULL);
  int polls = 0;
  ac_fit_desc fit = {.train = data, .steps = 9, .batches = mixed, .batch_count = STAGES};
  assert_refused(ac_fit(r.trainer, &fit, NULL), AC_ERROR_ARGUMENT, "one of 8 samples");
  fit.batch_count = 1;
  fit.keep_window = true;
  fit.stop = stop_at_once;
  fit.user = &polls;
  assert_ok(ac_fit(r.trainer, &fit, NULL)); /* leaves a window in progress */
  fit.batch_count = 0;
  fit.resume = true;
  assert_refused(ac_fit(r.trainer, &fit, NULL), AC_ERROR_ARGUMENT, "has a batch of 2");
  end_run(&r);
  ac_dataset_free(data);
}

static void windows_are_counted(void **state) {
  (void)state;
  ac_dataset *data = dataset_of(COUNT);
  ac_fit_desc fit = {.train = data, .epochs = 3, .batches = mixed, .batch_count = STAGES};
  int64_t windows;
  assert_ok(ac_fit_windows(&fit, MOST, &windows));
  run r = start_model("cpu", &(shape_of_model){0}, &(ac_plan_desc){.batch = MOST}, NULL);
  ac_fit_result result;
  assert_ok(ac_fit(r.trainer, &fit, &result));
  assert_int_equal(windows, result.steps);
  fit.batch_count = 0;
  assert_ok(ac_fit_windows(&fit, 4, &windows));
  assert_int_equal(windows, 9);
  assert_refused(ac_fit_windows(&fit, 0, &windows), AC_ERROR_ARGUMENT, "cannot be counted");
  fit.last_window = AC_LAST_DROP;
  assert_refused(ac_fit_windows(&fit, 12, &windows), AC_ERROR_ARGUMENT, "never fill a batch of 12");
  end_run(&r);
  ac_dataset_free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_schedule_is_its_runs_everywhere), cmocka_unit_test(rates_follow_the_batch),
      cmocka_unit_test(rates_follow_other_rows),           cmocka_unit_test(a_batch_can_be_set),
      cmocka_unit_test(what_makes_no_sense_is_refused),    cmocka_unit_test(windows_are_counted),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
