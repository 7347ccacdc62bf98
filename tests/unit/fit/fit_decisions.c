/* ac_fit's events before updates: their order, what they see and change, with windows that run
 * again, without kept gradients, and refusals. */
#include "support/runs.h"

#include "window/trainer.h"

enum { STEPS = 4, BATCH = 8, MOST = 24 * 17 };

typedef struct watcher {
  ac_trainer *trainer;
  int decisions, steps, asked; /* events of each kind; calls of the trainer's own `decide` */
  bool kept;                   /* gradients are there to be read */
  int64_t skip, stop;          /* the steps to skip and to stop at; 0: none */
  double factor;               /* of all decisions; 0: left */
  double factors[2 * STEPS], norms[2 * STEPS];
} watcher;

static double norm_of(ac_trainer *trainer, int index) {
  float g[MOST];
  double squares = 0;
  assert_ok(ac_trainer_get_mean_gradient(trainer, index, 0, MOST, g));
  for (int e = 0; e < MOST; e++) squares += (double)g[e] * (double)g[e];
  return sqrt(squares);
}

static void look(watcher *w, const ac_fit_event *event) {
  ac_progress progress;
  const int index = ac_trainer_find_parameter(w->trainer, "wte.w");
  const double norm = ac_trainer_gradient_norm(w->trainer, index);
  assert_int_equal(event->samples, BATCH);
  assert_ok(ac_trainer_get_progress(w->trainer, &progress));
  assert_int_equal(progress.updates, event->step - 1);
  assert_true(event->decision->weight > 0 && !event->decision->skip);
  assert_refused(ac_trainer_save_state(w->trainer, "none", NULL, 0), AC_ERROR_STATE,
                 "is being decided");
  if (w->kept) assert_true(fabs(norm_of(w->trainer, index) - norm) <= 1e-5 * norm);
  else
    assert_refused(ac_trainer_get_mean_gradient(w->trainer, index, 0, 1, &(float){0}),
                   AC_ERROR_STATE, "keeps no gradients");
}

static bool on_event(void *user, const ac_fit_event *event) {
  watcher *w = user;
  if (event->kind == AC_FIT_STEP) {
    assert_null(event->decision);
    assert_int_equal(++w->steps, w->decisions);
    assert_true(event->update.grad_norm == w->norms[w->steps - 1]);
    assert_true(event->seconds < 60);
  }
  if (event->kind != AC_FIT_DECISION) return true;
  assert_int_equal(w->decisions, w->steps);
  if (event->decision->finite && !w->skip) look(w, event);
  w->factors[w->decisions] = event->decision->factor;
  w->norms[w->decisions++] = event->decision->grad_norm;
  if (w->factor != 0) event->decision->factor = w->factor;
  event->decision->skip = event->step == w->skip;
  return event->step != w->stop;
}

/* The trainer's own comes first. */
static void decide(void *user, ac_trainer *trainer, ac_decision *decision) {
  watcher *w = user;
  (void)trainer;
  assert_int_equal(w->asked++, w->decisions);
  decision->factor *= 0.5;
}

typedef struct trained {
  ac_fit_result result;
  float *parameters;
  size_t count;
} trained;

static ac_dataset *dataset_of(const corpus *c) {
  static const ac_field fields[] = {
      {"tokens", AC_I32, CONTEXT}, {"targets", AC_I32, CONTEXT}, {"weights", AC_F32, CONTEXT}};
  const void *arrays[] = {c->tokens, c->targets, c->weights};
  ac_dataset *dataset;
  assert_ok(ac_dataset_from_memory(&dataset, SAMPLES, 3, fields, arrays));
  return dataset;
}

/* `w` NULL: nobody asks for decisions. */
static trained train(const char *device, ac_plan_desc plan, ac_trainer_desc desc, watcher *w) {
  const corpus c = make_corpus();
  ac_dataset *dataset = dataset_of(&c);
  trained t;
  plan.batch = BATCH;
  desc.seed = 3;
  desc.user = w;
  run r = start(device, &model, plan, desc);
  if (w) w->trainer = r.trainer;
  ac_fit_desc fit = {.train = dataset,
                     .steps = STEPS,
                     .last_window = AC_LAST_DROP,
                     .replay = true,
                     .decisions = w != NULL,
                     .callback = w ? on_event : NULL,
                     .user = w};
  assert_ok(ac_fit(r.trainer, &fit, &t.result));
  if (w) { /* the next one does not ask, nor does an update */
    const int decisions = w->decisions;
    assert_ok(feed(&r, &c, 0, BATCH));
    assert_null(r.trainer->busy.fit_decide);
    ac_trainer_discard(r.trainer);
    assert_int_equal(w->decisions, decisions);
  }
  t.parameters = all_parameters(&r, &t.count);
  stop(&r);
  ac_dataset_free(dataset);
  return t;
}

static void assert_same(trained a, trained b) {
  assert_int_equal(a.count, b.count);
  assert_memory_equal(a.parameters, b.parameters, a.count * sizeof *a.parameters);
  assert_int_equal(a.result.updates, b.result.updates);
  free(a.parameters);
  free(b.parameters);
}

static void looking_changes_nothing(const char *device) {
  static const ac_plan_desc plans[] = {{.micro_batch = 4},
                                       {.whole_windows = true, .gradients = AC_GRADIENTS_BUFFER},
                                       {.gradients = AC_GRADIENTS_FUSED},
                                       {.precision = AC_PRECISION_BF16, .micro_batch = 3},
                                       {.micro_batch = 4, .read_ahead = 1}};
  for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) {
    watcher w = {.kept = plans[k].gradients != AC_GRADIENTS_FUSED};
    const ac_trainer_desc desc = {.schedule = {.lr = 1e-2}, .optimizer = {.clip = 0.1}};
    assert_same(train(device, plans[k], desc, NULL), train(device, plans[k], desc, &w));
    assert_true(w.decisions == STEPS && w.steps == STEPS && w.factors[0] < 1);
  }
}
ON_EVERY_DEVICE(looking_changes_nothing)

static void decisions_are_taken(void **state) {
  (void)state;
  const ac_trainer_desc desc = {.schedule = {.lr = 1e-2}, .optimizer = {.clip = 0.1}},
                        own = {
                            .schedule = {.lr = 1e-2}, .optimizer = {.clip = 0.1}, .decide = decide};
  const ac_plan_desc plan = {.micro_batch = 4, .optimizer = {.kind = AC_SGD}};
  watcher half = {.kept = true, .factor = 0.5}, both = {.kept = true}, skip = {.skip = 2};
  free(train("cpu", plan, desc, &half).parameters);
  free(train("cpu", plan, own, &both).parameters);
  assert_int_equal(both.asked, STEPS);
  assert_true(both.factors[0] == 0.5 * half.factors[0] && both.norms[0] == half.norms[0]);
  assert_true(both.norms[1] != half.norms[1]);
  const trained t = train("cpu", plan, desc, &skip);
  assert_int_equal(t.result.updates, STEPS - 1);
  free(t.parameters);
}

/* The update of the window comes before the end. */
static void a_stop_comes_behind_the_update(void **state) {
  (void)state;
  watcher w = {.kept = true, .stop = 2};
  const trained t =
      train("cpu", (ac_plan_desc){.micro_batch = 4}, (ac_trainer_desc){.optimizer = {0}}, &w);
  assert_true(t.result.stopped && t.result.updates == 2 && w.steps == 2 && w.decisions == 2);
  free(t.parameters);
}

/* Each time it runs. */
static void windows_that_run_again_are_decided_again(void **state) {
  (void)state;
  watcher w = {.kept = true};
  const ac_trainer_desc desc = {.loss_scaling = {.scale = 0x1p+22}};
  const trained t =
      train("cpu", (ac_plan_desc){.micro_batch = 4, .precision = AC_PRECISION_F16}, desc, &w);
  assert_true(t.result.skipped > 0 && t.result.updates == STEPS);
  assert_int_equal(w.decisions, STEPS + t.result.skipped);
  assert_true(isinf(w.norms[0]));
  free(t.parameters);
}

typedef struct nester {
  ac_trainer *trainer;
  ac_dataset *dataset;
  int decisions, steps;
} nester;

static bool nest(void *user, const ac_fit_event *event) {
  nester *n = user;
  const ac_fit_desc again = {.train = n->dataset, .steps = 9, .resume = true};
  ac_rate_point points[10];
  ac_rate_test test;
  if (event->kind == AC_FIT_DECISION) {
    n->decisions++;
    assert_refused(ac_fit(n->trainer, &again, NULL), AC_ERROR_STATE, "is being decided");
  } else if (event->kind == AC_FIT_STEP && ++n->steps == 1) {
    assert_ok(ac_trainer_test_rates(
        n->trainer, &(ac_rate_test_desc){.train = n->dataset, .updates = 10}, points, &test));
  }
  return true;
}

/* Neither of them takes its decisions from the other. */
static void fits_within_a_fit(void **state) {
  (void)state;
  const corpus c = make_corpus();
  nester n = {.dataset = dataset_of(&c)};
  run r = start("cpu", &model, (ac_plan_desc){.batch = BATCH, .micro_batch = 4},
                (ac_trainer_desc){.seed = 3});
  n.trainer = r.trainer;
  const ac_fit_desc fit = {
      .train = n.dataset, .steps = STEPS, .decisions = true, .callback = nest, .user = &n};
  assert_ok(ac_fit(r.trainer, &fit, NULL));
  assert_int_equal(n.steps, STEPS);
  assert_int_equal(n.decisions, STEPS);
  stop(&r);
  ac_dataset_free(n.dataset);
}

static bool skip_always(void *user, const ac_fit_event *event) {
  ++*(int *)user;
  if (event->kind == AC_FIT_DECISION) event->decision->skip = true;
  return true;
}

static void folded_gradients_cannot_be_skipped(void **state) {
  (void)state;
  const corpus c = make_corpus();
  ac_dataset *dataset = dataset_of(&c);
  int events = 0;
  run r = start(
      "cpu", &model,
      (ac_plan_desc){
          .batch = BATCH, .micro_batch = 4, .gradients = AC_GRADIENTS_FOLDED, .read_ahead = 1},
      (ac_trainer_desc){.seed = 3});
  const ac_fit_desc fit = {
      .train = dataset, .steps = 1, .decisions = true, .callback = skip_always, .user = &events};
  assert_refused(ac_fit(r.trainer, &fit, NULL), AC_ERROR_STATE, "can neither skip nor scale");
  assert_int_equal(events, 1);
  stop(&r);
  ac_dataset_free(dataset);
}

static void refusals(void **state) {
  (void)state;
  const corpus c = make_corpus();
  ac_dataset *dataset = dataset_of(&c);
  run r =
      start("cpu", &model, (ac_plan_desc){.batch = BATCH, .gradients = AC_GRADIENTS_FUSED_LOCAL},
            (ac_trainer_desc){.seed = 3});
  const ac_fit_desc fit = {.train = dataset, .steps = 1, .decisions = true};
  assert_refused(ac_fit(r.trainer, &fit, NULL), AC_ERROR_ARGUMENT,
                 "fit: decisions are not available with AC_GRADIENTS_FUSED_LOCAL");
  stop(&r);
  ac_dataset_free(dataset);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(looking_changes_nothing_everywhere),
                                     cmocka_unit_test(decisions_are_taken),
                                     cmocka_unit_test(a_stop_comes_behind_the_update),
                                     cmocka_unit_test(windows_that_run_again_are_decided_again),
                                     cmocka_unit_test(fits_within_a_fit),
                                     cmocka_unit_test(folded_gradients_cannot_be_skipped),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
