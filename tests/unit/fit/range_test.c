/* Range tests: rates, losses and what is suggested, on a model with known losses; why they end; and
 * that the trainer is afterwards what it was, to the bit, whatever has happened. */
#include "support/states.h"

#include <math.h>

/* ---- a known loss ---------------------------------------------------------------------------- */

enum { ONES = 8, UPDATES = 100 };

static ac_status read_one(void *user, const ac_sample_key *key, void *const *fields) {
  const double *bad = user;
  *(float *)fields[0] = 1;
  *(float *)fields[1] = (float)key->index == (float)*bad ? NAN : 1;
  return AC_OK;
}

/* y = w from 0, and the mean squared error of y and 1, by plain SGD: with e = 1 - w an update takes
 * e to e (1 - 2 rate), so that the loss falls up to a rate of 1 and rises above. */
typedef struct known {
  run r;
  ac_dataset *ones;
  double bad; /* the sample that is not a number */
} known;

static void start_known(known *k, double bad) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 1));
  ac_tensor *y = ac_linear(x, ac_parameter(g, "w", SHAPE(1, 1), ZEROS), NULL, AC_OUT_IN);
  ac_graph_set_loss(g,
                    ac_mean_squared_error(y, ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, 1)), NULL));
  k->bad = bad;
  k->r = start_graph(
      "cpu", g,
      &(ac_plan_desc){.batch = ONES, .optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}}, NULL);
  ac_graph_free(g);
  assert_ok(ac_dataset_from_callback(
      &k->ones, &(ac_callback_dataset_desc){.count = ONES,
                                            .field_count = 2,
                                            .fields = {{"x", AC_F32, 1}, {"t", AC_F32, 1}},
                                            .read = read_one,
                                            .user = &k->bad}));
}

static void end_known(known *k) {
  ac_dataset_free(k->ones);
  end_run(&k->r);
}

static void the_curve_is_that_of_the_loss(void **state) {
  (void)state;
  known k;
  ac_rate_point points[UPDATES];
  ac_rate_test test;
  start_known(&k, -1);
  assert_ok(
      ac_trainer_test_rates(k.r.trainer, &(ac_rate_test_desc){.train = k.ones}, points, &test));
  assert_true(test.diverged && !test.stopped && test.count > 70 && test.count < UPDATES);
  double e = 1;
  for (int64_t i = 0; i < test.count; i++) {
    const double rate = 1e-7 * pow(1e8, (double)i / (UPDATES - 1));
    assert_true(fabs(points[i].rate - rate) <= 1e-12 * rate);
    /* Beyond that e is what rounding has left of 1 - w, which grows again. */
    if (rate < 0.3 && !(fabs(points[i].loss - e * e) <= 1e-4 * fmax(e * e, 1e-2)))
      fail_msg("point %d: a loss of %.9g, not %.9g", (int)i, points[i].loss, e * e);
    e *= 1 - 2 * rate;
    const int64_t begin = i > 5 ? i - 5 : 0, end = i + 6 < test.count ? i + 6 : test.count;
    double sum = 0;
    for (int64_t j = begin; j < end; j++) sum += points[j].loss;
    assert_true(fabs(points[i].smoothed - sum / (double)(end - begin)) <= 1e-9);
  }
  /* Of exp(-2 s), s the sum of rates, the slope by their logarithm is steepest where 2 s is 1. */
  const double steepest = points[test.steepest].rate, lowest = points[test.lowest].rate;
  assert_true(steepest > 0.03 && steepest < 0.3);
  assert_true(lowest > 0.3 && lowest < 3 && test.steepest < test.lowest);
  float w;
  assert_ok(ac_trainer_get_parameter(k.r.trainer, 0, 0, 1, &w));
  assert_true(w == 0);
  end_known(&k);
}

static void nothing_is_suggested_where_nothing_falls(void **state) {
  (void)state;
  known k;
  ac_rate_point points[20];
  ac_rate_test test;
  start_known(&k, -1);
  const ac_rate_test_desc low = {.train = k.ones, .least = 1e-15, .most = 1e-14, .updates = 20};
  assert_ok(ac_trainer_test_rates(k.r.trainer, &low, points, &test));
  assert_true(test.count == 20 && test.steepest == -1 && test.lowest >= 0 && !test.diverged);
  end_known(&k);
}

/* A larger factor lets it go on for longer. */
static void divergence_is_as_asked(void **state) {
  (void)state;
  known k;
  ac_rate_point points[UPDATES];
  ac_rate_test tests[2];
  start_known(&k, -1);
  for (int i = 0; i < 2; i++)
    assert_ok(ac_trainer_test_rates(
        k.r.trainer, &(ac_rate_test_desc){.train = k.ones, .divergence = i ? 1e9 : 1.5}, points,
        &tests[i]));
  assert_true(tests[0].diverged && tests[0].count < tests[1].count);
  end_known(&k);
}

static bool stop_at_once(void *user) {
  (void)user;
  return true;
}

static bool five_events(void *user, const ac_fit_event *event) {
  (void)event;
  return ++*(int *)user < 5;
}

static void whoever_stops_it_stops_it(void **state) {
  (void)state;
  known k;
  int events = 0;
  ac_rate_point points[UPDATES];
  ac_rate_test test;
  start_known(&k, -1);
  ac_rate_test_desc desc = {.train = k.ones, .callback = five_events, .user = &events};
  assert_ok(ac_trainer_test_rates(k.r.trainer, &desc, points, &test));
  assert_true(test.stopped && test.count == 5);
  desc = (ac_rate_test_desc){.train = k.ones, .stop = stop_at_once};
  assert_ok(ac_trainer_test_rates(k.r.trainer, &desc, points, &test));
  assert_true(test.stopped && test.count == 0 && test.lowest == -1 && test.steepest == -1);
  end_known(&k);
}

static void senseless_tests_are_refused(void **state) {
  (void)state;
  known k;
  ac_rate_point points[UPDATES];
  ac_rate_test test;
  start_known(&k, -1);
  const struct {
    ac_rate_test_desc desc;
    const char *text;
  } bad[] = {
      {{.train = NULL}, "nothing to train on"},
      {{.train = k.ones, .least = 1, .most = 1}, "they go from 1 to 1"},
      {{.train = k.ones, .least = -1}, "from 0 to 10"},
      {{.train = k.ones, .least = (double)NAN}, "from nan"},
      {{.train = k.ones, .most = (double)INFINITY}, "to inf"},
      {{.train = k.ones, .updates = 9}, "updates must be at least 10; they are 9"},
      {{.train = k.ones, .updates = -1}, "they are -1"},
      {{.train = k.ones, .divergence = 1}, "it is 1"},
      {{.train = k.ones, .divergence = (double)NAN}, "it is nan"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    assert_refused(ac_trainer_test_rates(k.r.trainer, &bad[i].desc, points, &test),
                   AC_ERROR_ARGUMENT, bad[i].text);
  const float one[ONES] = {0};
  assert_ok(ac_trainer_accumulate(k.r.trainer, 2, (ac_feed[]){{"x", one}, {"t", one}}, 2));
  assert_refused(
      ac_trainer_test_rates(k.r.trainer, &(ac_rate_test_desc){.train = k.ones}, points, &test),
      AC_ERROR_STATE, "a window is in progress");
  end_known(&k);
  start_known(&k, 3);
  assert_refused(
      ac_trainer_test_rates(k.r.trainer, &(ac_rate_test_desc){.train = k.ones}, points, &test),
      AC_ERROR_NOT_FINITE, "is not finite");
  end_known(&k);
}

/* ---- what the trainer was -------------------------------------------------------------------- */

static bool count_events(void *user, const ac_fit_event *event) {
  facts *f = user;
  if (event->kind == AC_FIT_STEP && f->count + 20 < FACTS) add_update(f, &event->update);
  if (event->kind == AC_FIT_EVALUATION && f->count < FACTS) add_fact(f, event->evaluation.loss);
  return true;
}

/* Three windows, a test or none, three more. */
static snapshot live_through(const char *device, ac_precision precision, bool tested, facts *seen) {
  const shape_of_model m = {.norm = true, .two = true};
  const ac_plan_desc plan = {.batch = BATCH,
                             .micro_batch = 2,
                             .batch_norm = AC_BATCH_NORM_MICRO,
                             .precision = precision,
                             .loss_means = AC_LOSS_MEANS_PER_SAMPLE};
  const ac_trainer_desc desc = {
      .seed = 3,
      .schedule = {.kind = AC_SCHEDULE_PLATEAU, .lr = 0.02, .warmup = 4, .patience = -1},
      .layers_every = 1,
      .spikes = {.policy = AC_SPIKE_TELL},
      .loss_scaling = {.interval = 2, .scale = 1 << 20}};
  run r = start_model(device, &m, &plan, &desc);
  ac_dataset *data = dataset_of(COUNT);
  ac_fit_desc fit = {.train = data,
                     .validation = data,
                     .eval_every = 1,
                     .steps = 3,
                     .seed = 5,
                     .fingerprint = "these",
                     .callback = count_events,
                     .user = seen};
  assert_ok(ac_fit(r.trainer, &fit, NULL));
  ac_spikes *spikes = AC_WATCHED(&r.trainer->run, spikes);
  spikes->rate = 0.5; /* as if training had gone back */
  spikes->has_good = 1;
  if (tested) {
    ac_rate_point points[30];
    ac_rate_test test;
    const snapshot before = look_at(&r);
    const ac_spikes kept = *spikes;
    const ac_layers *layers = AC_WATCHED(&r.trainer->run, layers);
    const int64_t measured = layers->measured;
    const ac_rate_test_desc find = {.train = data, .updates = 30, .most = 1e4, .seed = 8};
    assert_ok(ac_trainer_test_rates(r.trainer, &find, points, &test));
    assert_true(test.count > 10 && fabs(points[0].rate - 1e-7) <= 1e-20);
    const snapshot after = look_at(&r);
    assert_same("after a range test", &before, &after);
    assert_memory_equal(spikes, &kept, sizeof kept);
    assert_true(layers->measured == measured && layers->every == 1);
    assert_int_equal(spikes->desc.policy, AC_SPIKE_TELL);
  }
  fit.steps = 6;
  fit.resume = true;
  fit.fingerprint = NULL;
  assert_ok(ac_fit(r.trainer, &fit, NULL));
  assert_string_equal(r.trainer->run.fingerprint, "these");
  const snapshot end = look_at(&r);
  ac_dataset_free(data);
  end_run(&r);
  return end;
}

static void a_test_leaves_no_trace(const char *device) {
  for (int p = 0; p < 3; p++) {
    facts seen[2] = {{.count = 0}, {.count = 0}};
    const snapshot without = live_through(device, (ac_precision)p, false, &seen[0]);
    const snapshot with = live_through(device, (ac_precision)p, true, &seen[1]);
    assert_same(device, &without, &with);
    assert_true(same_facts(&seen[0], &seen[1]));
  }
}
ON_SHARED_DEVICES(a_test_leaves_no_trace)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_curve_is_that_of_the_loss),
      cmocka_unit_test(nothing_is_suggested_where_nothing_falls),
      cmocka_unit_test(divergence_is_as_asked),
      cmocka_unit_test(whoever_stops_it_stops_it),
      cmocka_unit_test(senseless_tests_are_refused),
      cmocka_unit_test(a_test_leaves_no_trace_everywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
