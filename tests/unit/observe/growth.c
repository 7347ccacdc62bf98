/* Batches that grow by the gradient noise scale. Such a run is equal, bit by bit, to the run with
 * its schedule from the beginning, however often it was stopped and resumed. Batches grow when the
 * scale says so and not further. Settings without sense are refused. */
#include "support/states.h"

#include "support/noisy_points.h"

enum { FROM = 2, MOST = 9, MOST_WINDOWS = 200 };

/* ---- runs ------------------------------------------------------------------------------------ */

typedef struct diary {
  facts updates[MOST_WINDOWS];
  int64_t samples[MOST_WINDOWS], grown[MOST_WINDOWS];
  int count;
} diary;

static bool on_event(void *user, const ac_fit_event *event) {
  diary *d = user;
  if (event->kind != AC_FIT_STEP) return true;
  assert_true(d->count < MOST_WINDOWS);
  facts *f = &d->updates[d->count];
  *f = (facts){.count = 0};
  add_update(f, &event->update);
  d->grown[d->count] = event->grown;
  d->samples[d->count++] = event->samples;
  return true;
}

typedef struct kind {
  const char *name;
  ac_plan_desc plan;
  int64_t steps, epochs;
  ac_last_window last;
} kind;

/* What the scale says of this model varies; its factor is so small that batches grow as soon as it
 * is known. */
static const ac_batch_growth eager = {.from = FROM, .windows = 3, .factor = 1e-9};

static const kind kinds[] = {
    {"steps", {.micro_batch = 1}, 20, 0, AC_LAST_UPDATE},
    {"epochs", {.micro_batch = 1}, 0, 7, AC_LAST_UPDATE},
    {"read ahead", {.micro_batch = 1, .read_ahead = 2}, 20, 0, AC_LAST_UPDATE},
    {"epochs read ahead", {.micro_batch = 1, .read_ahead = 3}, 0, 7, AC_LAST_UPDATE},
    {"carried over", {.micro_batch = 1, .read_ahead = 2}, 20, 0, AC_LAST_CARRY},
    {"dropped", {.micro_batch = 1, .read_ahead = 2}, 0, 8, AC_LAST_DROP},
    {"dropped, not read ahead", {.micro_batch = 1}, 0, 8, AC_LAST_DROP},
    {"f16", {.micro_batch = 1, .precision = AC_PRECISION_F16}, 24, 0, AC_LAST_CARRY}};

/* In f16 the scale begins so high that windows overflow, and run again. */
static run start_kind(const char *device, const kind *k) {
  const ac_loss_scaling_desc high = {
      .kind = AC_LOSS_SCALING_DYNAMIC, .scale = 1 << 20, .interval = 2, .growth = 8};
  const ac_trainer_desc desc = {
      .loss_scaling =
          k->plan.precision == AC_PRECISION_F16 ? high : (ac_loss_scaling_desc){.kind = 0},
      .seed = 11,
      .noise_every = 1,
      .schedule = {.lr = 0.02, .warmup = 2, .scaling = AC_RATE_SCALING_SQRT, .base_batch = 4}};
  ac_plan_desc plan = k->plan;
  plan.batch = MOST;
  plan.recompute = AC_RECOMPUTE_NONE;
  return start_model(device, &(shape_of_model){0}, &plan, &desc);
}

static ac_fit_desc fit_of(const kind *k, ac_dataset *data, diary *d) {
  return (ac_fit_desc){.train = data,
                       .steps = k->steps,
                       .epochs = k->epochs,
                       .seed = 3,
                       .last_window = k->last,
                       .replay = true,
                       .callback = on_event,
                       .user = d};
}

typedef struct table {
  ac_batch_stage rows[AC_MAX_BATCH_STAGES];
  int count;
} table;

static snapshot run_whole(const char *device, const kind *k, const table *given, table *grown,
                          diary *d) {
  ac_dataset *data = dataset_of(COUNT);
  run r = start_kind(device, k);
  ac_fit_desc fit = fit_of(k, data, d);
  if (given) fit.batches = given->rows, fit.batch_count = given->count;
  else fit.growth = eager;
  assert_ok(ac_fit(r.trainer, &fit, NULL));
  assert_ok(ac_trainer_get_growth(r.trainer, grown->rows, &grown->count));
  const snapshot s = look_at(&r);
  end_run(&r);
  ac_dataset_free(data);
  return s;
}

/* Each life has a trainer of its own, and a few micro-batches. */
static bool stop_soon(void *user) {
  int *left = user;
  return --*left < 0;
}

static snapshot run_in_lives(const char *device, const kind *k, table *grown) {
  ac_dataset *data = dataset_of(COUNT);
  const test_path state = in_folder("lives");
  bool more = true;
  snapshot s;
  for (int life = 0; more; life++) {
    int left = 1 + life * 5 % 23;
    ac_fit_result result;
    run r = start_kind(device, k);
    if (life) assert_ok(ac_trainer_load_state(r.trainer, state.text));
    ac_fit_desc fit = fit_of(k, data, NULL);
    fit.growth = eager;
    fit.resume = fit.keep_window = true;
    fit.callback = NULL;
    fit.stop = stop_soon;
    fit.user = &left;
    assert_ok(ac_fit(r.trainer, &fit, &result));
    assert_ok(ac_trainer_save_state(r.trainer, state.text, NULL, 0));
    assert_ok(ac_trainer_get_growth(r.trainer, grown->rows, &grown->count));
    more = result.stopped;
    s = look_at(&r);
    end_run(&r);
  }
  ac_dataset_free(data);
  return s;
}

static void assert_same_table(const char *where, const table *a, const table *b) {
  if (a->count != b->count || memcmp(a->rows, b->rows, (size_t)a->count * sizeof *a->rows))
    fail_msg("%s: another schedule", where);
}

static void compare(const char *device, const kind *k) {
  table grown, none, again;
  char where[96];
  diary by_itself = {.count = 0}, by_hand = {.count = 0};
  snprintf(where, sizeof where, "%s on %s", k->name, device);
  const snapshot a = run_whole(device, k, NULL, &grown, &by_itself);
  assert_int_equal(grown.count, 4); /* 2, 4, 8, 9 */
  assert_int_equal(grown.rows[3].batch, MOST);
  const snapshot b = run_whole(device, k, &grown, &none, &by_hand);
  assert_int_equal(none.count, 0);
  assert_int_equal(by_itself.count, by_hand.count);
  int growths = 0;
  for (int i = 0; i < by_itself.count; i++) {
    if (!same_facts(&by_itself.updates[i], &by_hand.updates[i]))
      fail_msg("%s: update %d is another", where, i);
    assert_int_equal(by_itself.samples[i], by_hand.samples[i]);
    assert_int_equal(by_hand.grown[i], 0);
    if (by_itself.grown[i]) assert_int_equal(by_itself.grown[i], grown.rows[++growths].batch);
  }
  assert_int_equal(growths, 3);
  assert_same(where, &a, &b);
  const snapshot c = run_in_lives(device, k, &again);
  assert_same_table(where, &grown, &again);
  assert_same(where, &a, &c);
}

static void what_grows_is_a_schedule(const char *device) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) compare(device, &kinds[i]);
}
ON_SHARED_DEVICES(what_grows_is_a_schedule)

/* Of 11 samples four windows of 2 leave 3, too few for a window of 4: there the epoch ends. */
static void growth_may_end_an_epoch(void **state) {
  (void)state;
  for (int ahead = 0; ahead < 2; ahead++) {
    const kind k = {"", {.micro_batch = 1, .read_ahead = ahead}, 0, 1, AC_LAST_DROP};
    ac_dataset *data = dataset_of(COUNT);
    diary d = {.count = 0};
    ac_fit_result result;
    run r = start_kind("cpu", &k);
    ac_fit_desc fit = fit_of(&k, data, &d);
    fit.seed = 6; /* by which the scale is known then */
    fit.growth = (ac_batch_growth){.from = FROM, .windows = 4, .factor = 1e-9};
    assert_ok(ac_fit(r.trainer, &fit, &result));
    assert_true(d.count == 4 && d.grown[3] == 4);
    assert_true(result.steps == 4 && result.epochs == 1 && !result.paused);
    end_run(&r);
    ac_dataset_free(data);
  }
}

/* ---- how far --------------------------------------------------------------------------------- */

/* On a quadratic with a noise scale of 4.3 samples, so that batches of 8 are worth 0.4 of theirs,
 * and batches of 16 are not. */
static void batches_grow_as_far_as_the_scale_says(void **state) {
  (void)state;
  const double exact = noisy_points_scale();
  assert_true(exact > 0.5 * 8 && exact < 0.3 * 16);
  ac_dataset *data = noisy_points();
  ac_graph *graph = noisy_points_graph();
  const ac_plan_desc plan = {.batch = 64, .micro_batch = 1, .optimizer = {.kind = AC_SGD}};
  run r = start_graph("cpu", graph, &plan, &noisy_points_still);
  const ac_batch_growth growth = {.from = 2, .factor = 0.4};
  table grown;
  assert_ok(ac_fit(r.trainer, &(ac_fit_desc){.train = data, .steps = 600, .growth = growth}, NULL));
  assert_ok(ac_trainer_get_growth(r.trainer, grown.rows, &grown.count));
  assert_int_equal(grown.count, 3);
  assert_int_equal(grown.rows[1].batch, 4);
  assert_int_equal(grown.rows[2].batch, 8);
  assert_true(grown.rows[1].from >= 20); /* windows that are measured before, by default */
  assert_true(grown.rows[2].from >= grown.rows[1].from + 20);
  end_run(&r);
  ac_graph_free(graph);
  ac_dataset_free(data);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void refuse(const ac_plan_desc *plan, int64_t noise_every, const ac_fit_desc *fit,
                   const char *sentence) {
  ac_dataset *data = dataset_of(COUNT);
  ac_fit_desc desc = *fit;
  desc.train = data;
  desc.steps = 3;
  run r = start_model("cpu", &(shape_of_model){0}, plan,
                      &(ac_trainer_desc){.noise_every = noise_every});
  assert_refused(ac_fit(r.trainer, &desc, NULL), AC_ERROR_ARGUMENT, sentence);
  end_run(&r);
  ac_dataset_free(data);
}

static void what_makes_no_sense_is_refused(void **state) {
  (void)state;
  static const ac_batch_stage row = {2, AC_BATCH_FROM_STEP, 0};
  const ac_fit_desc grows = {.growth = {.from = 2}};
  const ac_plan_desc plain = {.batch = 8, .micro_batch = 1},
                     fused = {.batch = 8, .gradients = AC_GRADIENTS_FUSED},
                     local = {.batch = 8, .gradients = AC_GRADIENTS_FUSED_LOCAL},
                     folded = {.batch = 8,
                               .micro_batch = 1,
                               .optimizer = {.kind = AC_SGD},
                               .read_ahead = 1,
                               .gradients = AC_GRADIENTS_FOLDED},
                     whole = {.batch = 8, .micro_batch = 8, .whole_windows = true},
                     coarse = {.batch = 8, .micro_batch = 2};
  refuse(&plain, 0, &grows, "not asked to measure (noise_every)");
  refuse(&fused, 1, &grows, "keeps no gradients to measure it");
  refuse(&local, 1, &grows, "keeps no gradients to measure it");
  refuse(&folded, 1, &grows, "keeps no gradients to measure it");
  refuse(&whole, 1, &grows, "the first batch of 2 must be larger than the micro-batch of 8");
  refuse(&coarse, 1, &grows, "the first batch of 2 must be larger than the micro-batch of 2");
  refuse(&plain, 1, &(ac_fit_desc){.growth = {.from = 2}, .batches = &row, .batch_count = 1},
         "a schedule or grow by the gradient noise scale, not both");
  refuse(&plain, 1, &(ac_fit_desc){.growth = {.from = 9}},
         "begin with 9, but the plan is for 1 to 8");
  refuse(&plain, 1, &(ac_fit_desc){.growth = {.from = -1}}, "begin with -1");
  refuse(&plain, 1, &(ac_fit_desc){.growth = {.from = 2, .windows = -1}}, "must not be negative");
  refuse(&plain, 1, &(ac_fit_desc){.growth = {.from = 2, .factor = -1}}, "must not be negative");
  refuse(&plain, 1, &(ac_fit_desc){.growth = {.from = 2, .factor = (double)NAN}},
         "must not be negative");
}

/* A run that has grown goes on only with a plan for that; without growth its rows are left. */
static void what_has_grown_needs_its_room(void **state) {
  (void)state;
  const kind *k = &kinds[0];
  const test_path path = in_folder("grown");
  ac_dataset *data = dataset_of(COUNT);
  table grown;
  diary d = {.count = 0};
  run r = start_kind("cpu", k);
  ac_fit_desc fit = fit_of(k, data, &d);
  fit.growth = eager;
  fit.resume = true;
  assert_ok(ac_fit(r.trainer, &fit, NULL));
  assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
  end_run(&r);
  r = start_model("cpu", &(shape_of_model){0}, &(ac_plan_desc){.batch = 8, .micro_batch = 1},
                  &(ac_trainer_desc){.noise_every = 1});
  assert_ok(ac_trainer_load_state(r.trainer, path.text));
  fit.steps += 1;
  assert_refused(ac_fit(r.trainer, &fit, NULL), AC_ERROR_ARGUMENT,
                 "batches have grown to 9, but the plan is for 8");
  fit.growth.from = 0;
  d.count = 0;
  assert_ok(ac_fit(r.trainer, &fit, NULL));
  assert_ok(ac_trainer_get_growth(r.trainer, grown.rows, &grown.count));
  assert_int_equal(grown.count, 0);
  assert_true(d.count == 1 && d.samples[0] <= 8);
  end_run(&r);
  ac_dataset_free(data);
}

static const ac_state_field *field(void) {
  return &ac_watcher_growth.record.fields[0];
}

static const char *text_of(const ac_growth *growth) {
  static char text[8192];
  assert_true(ac_state_field_room(field(), growth) <= sizeof text);
  ac_state_field_put(field(), growth, text);
  return text;
}

/* As a run reads it that has measured so many windows. */
static bool is_read(ac_growth *growth, const char *text, int64_t measured) {
  ac_run run;
  assert_ok(ac_run_create(&run));
  AC_WATCHED(&run, noise)->count = measured;
  const bool good =
      ac_state_field_get(field(), growth, text) && !ac_watcher_growth.record.check(growth, &run);
  ac_run_drop(&run);
  return good;
}

static void texts_are_read_strictly(void **state) {
  (void)state;
  static const char *const bad[] = {"",
                                    "2@0",
                                    "2@0,4@3",
                                    "2@0,4@3 -1",
                                    "2@0,4@3 6",
                                    "2@0,4@3 5 ",
                                    "2@1,4@3 5",
                                    "2@0,4@0 5",
                                    "2@0,2@3 5",
                                    "2@0,4@3,4@4 5",
                                    "2@0,,4@3 5",
                                    "2@0;4@3 5",
                                    "+2@0 5",
                                    "02@0 5",
                                    "2 5",
                                    "0@0 5",
                                    "2@0,4@3ep 5",
                                    "2@0,4@99999999999999999999 5"};
  ac_growth growth;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    if (is_read(&growth, bad[i], 5)) fail_msg("\"%s\" is taken", bad[i]);
  assert_true(is_read(&growth, "2@0,4@3,9@40 5", 5));
  assert_true(growth.count == 3 && growth.stages[2].batch == 9 && growth.stages[2].from == 40);
  assert_string_equal(text_of(&growth), "2@0,4@3,9@40 5");
  /* The longest there can be. */
  for (growth.count = 0; growth.count < AC_MAX_BATCH_STAGES; growth.count++)
    growth.stages[growth.count] =
        (ac_batch_stage){.batch = INT64_MAX / 2 - 40 + growth.count,
                         .from = growth.count ? INT64_MAX / 2 - 40 + growth.count : 0};
  growth.measured = INT64_MAX / 2;
  assert_true(is_read(&growth, text_of(&growth), INT64_MAX / 2));
  assert_int_equal(growth.count, AC_MAX_BATCH_STAGES);
}

static void windows_are_counted_as_if_none_grew(void **state) {
  (void)state;
  ac_dataset *data = dataset_of(COUNT);
  int64_t windows;
  ac_fit_desc fit = {.train = data, .epochs = 3, .growth = {.from = 2}};
  assert_ok(ac_fit_windows(&fit, 8, &windows));
  assert_int_equal(windows, 18);
  fit.last_window = AC_LAST_DROP;
  assert_refused(ac_fit_windows(&fit, 12, &windows), AC_ERROR_ARGUMENT, "never fill a batch of 12");
  ac_dataset_free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_grows_is_a_schedule_everywhere),
      cmocka_unit_test(growth_may_end_an_epoch),
      cmocka_unit_test(batches_grow_as_far_as_the_scale_says),
      cmocka_unit_test(what_makes_no_sense_is_refused),
      cmocka_unit_test(what_has_grown_needs_its_room),
      cmocka_unit_test(texts_are_read_strictly),
      cmocka_unit_test(windows_are_counted_as_if_none_grew),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
