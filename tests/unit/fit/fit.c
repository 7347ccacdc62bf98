/* The fit loop: windows at the ends of epochs, evaluation, stopping, failures. A dataset that
 * records what was read shows the order; a linear model's update shows what a window was divided
 * by. */
#include "support/check.h"
#include "support/models.h"
#include "fit/fit.h"

#include <math.h>
#include <stdlib.h>

enum { MAX_READS = 400 };

typedef struct source {
  int64_t count, reads;
  int64_t index[MAX_READS], epoch[MAX_READS];
  int64_t bad; /* sample that holds a NaN; -1: none */
} source;

static ac_status read_sample(void *user, const ac_sample_key *key, void *const *fields) {
  source *s = user;
  if (s->reads < MAX_READS) {
    s->index[s->reads] = key->index;
    s->epoch[s->reads] = key->epoch;
  }
  s->reads++;
  float *x = fields[0], *t = fields[1];
  x[0] = 1;
  t[0] = key->index == s->bad ? NAN : (float)(key->index + 1);
  *(int32_t *)fields[2] = 7;                               /* feeds no input */
  for (int i = 0; i < 5; i++) ((float *)fields[3])[i] = 9; /* feeds one that nothing reads */
  return AC_OK;
}

typedef struct setting {
  int epochs; /* events of these */
  double epoch_loss[4];
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
  ac_dataset *dataset;
  source source;
  int64_t samples[MAX_READS]; /* per window, by the callback */
  double loss[MAX_READS], step_seconds;
  int windows, evaluations, trained, stop_after;
  bool stop_at_evaluation, stop_when_trained;
} setting;

/* y = w x with w from 0: one SGD step with rate 1/2 sets w to the mean of the window's targets. */
static void start(setting *s, int64_t count, ac_plan_desc plan) {
  memset(s, 0, sizeof *s);
  s->source.count = count;
  s->source.bad = -1;
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_graph_scope(g, "model");
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 1));
  ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, 1));
  ac_input(g, "idle", AC_F32, SHAPE(AC_BATCH, 5));
  ac_tensor *y = ac_linear(x, ac_parameter(g, "w", SHAPE(1, 1), ZEROS), NULL, AC_OUT_IN);
  ac_graph_set_loss(g, ac_mean_squared_error(y, t, NULL));
  plan.optimizer.kind = AC_SGD;
  plan.optimizer.sgd_no_momentum = true;
  assert_ok(ac_device_open(&s->device, &(ac_device_desc){.name = "cpu", .threads = 1}));
  assert_ok(ac_plan_create(&s->plan, g, s->device, &plan));
  assert_ok(ac_trainer_create(&s->trainer, s->plan, &(ac_trainer_desc){.schedule = {.lr = 0.5}}));
  ac_graph_free(g);
  assert_ok(ac_dataset_from_callback(
      &s->dataset,
      &(ac_callback_dataset_desc){
          .count = count,
          .field_count = 4,
          .fields = {{"x", AC_F32, 1}, {"t", AC_F32, 1}, {"extra", AC_I32, 1}, {"idle", AC_F32, 5}},
          .read = read_sample,
          .user = &s->source}));
}

static void stop(setting *s) {
  ac_dataset_free(s->dataset);
  ac_trainer_free(s->trainer);
  ac_plan_free(s->plan);
  ac_device_close(s->device);
}

static bool on_event(void *user, const ac_fit_event *event) {
  setting *s = user;
  if (event->kind == AC_FIT_EVALUATION) {
    s->evaluations++;
    return !s->stop_at_evaluation;
  }
  if (event->kind == AC_FIT_TRAINED) {
    s->trained++;
    assert_int_equal(event->step, s->windows);
    return !s->stop_when_trained;
  }
  if (event->kind == AC_FIT_EPOCH) {
    assert_int_equal(event->epoch, s->epochs);
    assert_int_equal(event->step, s->windows);
    assert_int_equal(event->samples, 10);
    assert_true(event->evaluation.weight == 10);
    s->epoch_loss[s->epochs++] = event->evaluation.loss;
    return true;
  }
  s->samples[s->windows] = event->samples;
  s->loss[s->windows++] = event->update.loss;
  assert_int_equal(event->step, s->windows);
  return s->windows != s->stop_after;
}

static double weight(setting *s) {
  float w;
  assert_ok(ac_trainer_get_parameter(s->trainer, 0, 0, 1, &w));
  return (double)w;
}

static ac_fit_result fit(setting *s, ac_fit_desc desc) {
  ac_fit_result result;
  desc.train = s->dataset;
  desc.callback = on_event;
  desc.user = s;
  assert_ok(ac_fit(s->trainer, &desc, &result));
  return result;
}

static void last_windows_divide_by_their_true_count(void **state) {
  (void)state;
  setting s;
  start(&s, 10, (ac_plan_desc){.batch = 4, .micro_batch = 3});
  ac_fit_result r = fit(&s, (ac_fit_desc){.epochs = 1, .no_shuffle = true});
  assert_int_equal(r.steps, 3);
  assert_int_equal(r.samples, 10);
  assert_int_equal(s.samples[0], 4);
  assert_int_equal(s.samples[2], 2);
  assert_true(fabs(weight(&s) - 9.5) < 1e-5); /* samples 8 and 9 have targets 9 and 10 */
  stop(&s);
}

static void carried_windows_go_on_in_the_next_epoch(void **state) {
  (void)state;
  setting s;
  start(&s, 10, (ac_plan_desc){.batch = 4});
  ac_fit_result r =
      fit(&s, (ac_fit_desc){.steps = 3, .no_shuffle = true, .last_window = AC_LAST_CARRY});
  assert_int_equal(r.samples, 12);
  assert_true(fabs(weight(&s) - (9 + 10 + 1 + 2) / 4.0) < 1e-5);
  stop(&s);
  start(&s, 10, (ac_plan_desc){.batch = 4});
  r = fit(&s, (ac_fit_desc){.epochs = 1, .no_shuffle = true, .last_window = AC_LAST_CARRY});
  assert_int_equal(r.samples, 10); /* nothing to carry into */
  stop(&s);
}

static void dropped_windows_change_nothing(void **state) {
  (void)state;
  setting s;
  start(&s, 10, (ac_plan_desc){.batch = 4});
  ac_fit_result r =
      fit(&s, (ac_fit_desc){.epochs = 1, .no_shuffle = true, .last_window = AC_LAST_DROP});
  assert_int_equal(r.steps, 2);
  assert_true(fabs(weight(&s) - (5 + 6 + 7 + 8) / 4.0) < 1e-5);
  stop(&s);
  start(&s, 3, (ac_plan_desc){.batch = 4});
  ac_fit_desc desc = {.train = s.dataset, .steps = 1, .last_window = AC_LAST_DROP};
  assert_refused(ac_fit(s.trainer, &desc, NULL), AC_ERROR_ARGUMENT, "never fill a batch of 4");
  stop(&s);
}

/* The means of an epoch are those of its windows by their samples. */
static void an_epoch_says_what_its_windows_have_come_to(void **state) {
  (void)state;
  setting s;
  start(&s, 10, (ac_plan_desc){.batch = 4, .micro_batch = 2});
  fit(&s, (ac_fit_desc){.epochs = 2, .no_shuffle = true, .epochs_end = true});
  assert_int_equal(s.epochs, 2);
  assert_int_equal(s.windows, 6);
  for (int e = 0; e < 2; e++) {
    double sum = 0;
    for (int i = 3 * e; i < 3 * e + 3; i++) sum += s.loss[i] * (double)s.samples[i];
    assert_true(fabs(s.epoch_loss[e] - sum / 10) <= 1e-9 * fabs(sum));
  }
  stop(&s);
}

/* Each epoch reads every sample once, in an order of its own which the split does not change. */
static void shuffling_does_not_depend_on_the_split(void **state) {
  (void)state;
  setting s[2];
  for (int i = 0; i < 2; i++) {
    start(&s[i], 30, (ac_plan_desc){.batch = 8, .micro_batch = i ? 3 : 8});
    fit(&s[i], (ac_fit_desc){.epochs = 2, .seed = 4});
    assert_int_equal(s[i].source.reads, 60);
  }
  assert_memory_equal(s[0].source.index, s[1].source.index, 60 * sizeof(int64_t));
  assert_memory_not_equal(s[0].source.index, s[0].source.index + 30, 30 * sizeof(int64_t));
  bool seen[30] = {false};
  for (int i = 0; i < 30; i++) {
    assert_int_equal(s[0].source.epoch[i], 0);
    assert_false(seen[s[0].source.index[i]]);
    seen[s[0].source.index[i]] = true;
  }
  stop(&s[0]);
  stop(&s[1]);
}

/* What the loader of a fit allocates is what the plan counts, and a sample of what nothing reads
 * for each of its threads and the caller. */
static void batches_read_ahead_are_in_the_plan(void **state) {
  (void)state;
  setting s;
  start(&s, 30, (ac_plan_desc){.batch = 20, .micro_batch = 5, .read_ahead = 3});
  const ac_fit_desc desc = {.train = s.dataset, .epochs = 1, .loader_threads = 2};
  ac_gathering gather;
  assert_ok(ac_gather_open(&gather, &s.trainer->instance, s.dataset));
  ac_loader_desc loader = ac_fit_loader(s.trainer, &desc, &gather);
  uint64_t bytes, planned = ac_plan_get_info(s.plan)->read_ahead_bytes;
  assert_ok(ac_loader_bytes(s.dataset, &loader, &bytes));
  assert_int_equal(planned, (1 + 3) * 2 * 128); /* 20 x 4 bytes take 128 */
  assert_int_equal(bytes, planned + (2 + 1) * 64);
  ac_fit_result r = fit(&s, desc);
  assert_int_equal(r.samples, 30);
  stop(&s);
}

static int planned_ahead(const ac_graph *graph, ac_device *device, ac_plan_desc desc) {
  ac_plan *plan;
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  const ac_plan_info *info = ac_plan_get_info(plan);
  assert_true(info->bytes.total + info->read_ahead_bytes <= desc.memory);
  int batches = info->read_ahead;
  ac_plan_free(plan);
  return batches;
}

/* What is read ahead unless it does not fit is reduced, batch by batch, before a budget is refused;
 * what is asked for is kept, and the refusal says what it costs. */
static void reading_ahead_gives_way_to_a_budget(void **state) {
  (void)state;
  enum { BATCH = 4096, BATCH_BYTES = 2 * 4 * BATCH };
  setting s;
  start(&s, 30, (ac_plan_desc){.batch = 2});
  const ac_graph *g = s.plan->problem.source;
  ac_plan_desc none = {.batch = BATCH, .micro_batch = 1, .optimizer = {.kind = AC_SGD}},
               some = none, asked;
  uint64_t least = least_budget(g, s.device, none);
  some.read_ahead = 3;
  asked = some;
  some.read_ahead_if_room = true;
  assert_int_equal(least_budget(g, s.device, some), least);
  assert_int_equal(least_budget(g, s.device, asked), least + 4 * BATCH_BYTES);
  const struct { int batches, ahead; } rooms[] = {{0, 0}, {1, 0}, {2, 1}, {3, 2}, {4, 3}, {5, 3}};
  for (int i = 0; i < 6; i++) {
    some.memory = least + (uint64_t)rooms[i].batches * BATCH_BYTES;
    assert_int_equal(planned_ahead(g, s.device, some), rooms[i].ahead);
  }
  /* What makes the plan faster has the room first. */
  ac_plan *plan;
  some.micro_batch = none.micro_batch = 0;
  none.memory = some.memory = least + 2 * BATCH_BYTES;
  assert_ok(ac_plan_create(&plan, g, s.device, &none));
  int64_t micro_batch = ac_plan_get_info(plan)->micro_batch;
  ac_plan_free(plan);
  assert_ok(ac_plan_create(&plan, g, s.device, &some));
  assert_int_equal(ac_plan_get_info(plan)->micro_batch, micro_batch);
  assert_int_equal(ac_plan_get_info(plan)->read_ahead, 0);
  ac_plan_free(plan);
  asked.memory = least + 3 * BATCH_BYTES;
  assert_refused(ac_plan_create(&plan, g, s.device, &asked), AC_ERROR_BUDGET, "needs at least");
  assert_int_equal(test_offer(g, s.device, asked, AC_RELIEF_NO_READ_AHEAD).bytes, least);
  asked.memory += BATCH_BYTES;
  assert_int_equal(planned_ahead(g, s.device, asked), 3);
  stop(&s);
}

static void a_callback_stops_after_the_update(void **state) {
  (void)state;
  setting s;
  start(&s, 10, (ac_plan_desc){.batch = 2});
  s.stop_after = 3;
  ac_fit_result r = fit(&s, (ac_fit_desc){.steps = 100, .no_shuffle = true});
  assert_true(r.stopped);
  assert_int_equal(r.steps, 3);
  assert_true(fabs(weight(&s) - 5.5) < 1e-5);
  stop(&s);
}

/* Whether it says so after an update or at an evaluation, nothing more is evaluated. */
static void a_callback_that_stops_hears_no_more(void **state) {
  (void)state;
  setting s;
  start(&s, 10, (ac_plan_desc){.batch = 2});
  s.stop_at_evaluation = true;
  ac_fit_desc desc = {.steps = 100,
                      .no_shuffle = true,
                      .validation = s.dataset,
                      .eval_every = 2,
                      .eval_samples = 3};
  ac_fit_result r = fit(&s, desc);
  assert_true(r.stopped);
  assert_int_equal(r.steps, 2);
  assert_int_equal(s.evaluations, 1);
  assert_true(r.evaluated && r.final.weight == 3);
  s.windows = 0;
  s.stop_after = 1;
  r = fit(&s, desc);
  assert_true(r.stopped && !r.evaluated);
  assert_int_equal(s.evaluations, 1);
  stop(&s);
}

/* It comes once, between the last update and the evaluation of everything. */
static void the_end_of_training_is_told_before_the_last_evaluation(void **state) {
  (void)state;
  setting s;
  start(&s, 10, (ac_plan_desc){.batch = 2});
  ac_fit_desc desc = {.steps = 4, .validation = s.dataset, .eval_every = 2, .eval_samples = 3};
  ac_fit_result r = fit(&s, desc);
  assert_true(s.trained == 1 && s.evaluations == 2 && r.evaluated && r.final.weight == 10);
  s.windows = s.evaluations = 0;
  s.stop_when_trained = true;
  r = fit(&s, desc);
  assert_true(s.trained == 2 && s.evaluations == 1 && r.stopped && !r.evaluated);
  s.windows = 0;
  desc.no_final_evaluation = true;
  r = fit(&s, desc);
  assert_true(s.trained == 2 && !r.stopped);
  stop(&s);
}

/* It ends like the whole, but for what is to come, and leaves no trace in what follows. */
static void a_pause_changes_nothing(void **state) {
  (void)state;
  setting whole, parts;
  const ac_plan_desc plan = {.batch = 4, .micro_batch = 3};
  start(&whole, 10, plan);
  start(&parts, 10, plan);
  ac_fit_desc desc = {
      .steps = 7, .seed = 3, .validation = whole.dataset, .eval_every = 2, .eval_samples = 3};
  const ac_fit_result w = fit(&whole, desc);
  assert_true(!w.paused && w.steps == 7);

  desc.validation = parts.dataset;
  desc.pause_step = 4;
  ac_fit_result r = fit(&parts, desc);
  assert_true(r.paused && !r.stopped && r.evaluated && r.steps == 4);
  assert_true(r.final.weight == 10 && parts.trained == 1);
  assert_int_equal(parts.evaluations, 2); /* after two steps, and of all */
  desc.resume = true;
  r = fit(&parts, desc); /* already there, which is evaluated once more */
  assert_true(r.paused && r.steps == 4 && r.evaluated && parts.windows == 4);
  desc.pause_step = 0;
  desc.pause_samples = 12; /* four windows of epochs of 10 have 4, 8, 10 and 14 */
  r = fit(&parts, desc);
  assert_true(r.paused && r.steps == 4 && r.samples == 14);
  desc.pause_samples = 15;
  r = fit(&parts, desc);
  assert_true(r.paused && r.steps == 5 && r.samples == 18);
  desc.pause_samples = 0;
  desc.pause_seconds = 1e-9;
  r = fit(&parts, desc);
  assert_true(r.paused && r.steps == 6);
  desc.pause_seconds = 3600;
  desc.pause_step = 7; /* the end is not a pause */
  r = fit(&parts, desc);
  assert_true(!r.paused && r.steps == 7 && r.evaluated);
  assert_true(r.final.loss == w.final.loss && weight(&parts) == weight(&whole));
  for (int i = 0; i < 7; i++) assert_true(parts.loss[i] == whole.loss[i]);

  desc.pause_step = -1;
  desc.train = parts.dataset;
  assert_int_equal(ac_fit(parts.trainer, &desc, NULL), AC_ERROR_ARGUMENT);
  desc.pause_step = 0;
  desc.pause_samples = -1;
  assert_int_equal(ac_fit(parts.trainer, &desc, NULL), AC_ERROR_ARGUMENT);
  desc.pause_samples = 0;
  desc.pause_seconds = NAN;
  assert_int_equal(ac_fit(parts.trainer, &desc, NULL), AC_ERROR_ARGUMENT);
  stop(&whole);
  stop(&parts);
}

static int polls;
static bool fourteenth_poll(void *user) {
  (void)user;
  return ++polls == 14;
}

/* Stops when the dataset has been read so often. */
static bool enough_reads(void *user) {
  const setting *s = user;
  return s->source.reads >= s->stop_after;
}

/* In the middle of a window, whether it is read ahead or not: the window counts for nothing. */
static void a_stop_discards_the_window_in_hand(void **state) {
  (void)state;
  for (int ahead = 0; ahead < 2; ahead++) {
    setting s;
    start(&s, 12, (ac_plan_desc){.batch = 4, .micro_batch = 1, .read_ahead = ahead});
    polls = 0;
    ac_fit_result r = fit(
        &s, (ac_fit_desc){
                .epochs = 3, .no_shuffle = true, .validation = s.dataset, .stop = fourteenth_poll});
    assert_true(r.stopped && !r.evaluated);
    assert_int_equal(polls, 14); /* windows of four micro-batches each: the fourth's second */
    assert_int_equal(r.steps, 3);
    assert_int_equal(r.epochs, 1);
    assert_int_equal(r.samples, 12);
    assert_int_equal(s.evaluations, 0);
    assert_true(fabs(weight(&s) - 10.5) < 1e-5);
    assert_int_equal(s.trainer->run.samples, 0);
    stop(&s);
  }
}

/* An evaluation is left at the next micro-batch, be it one in between or the last. */
static void a_stop_ends_an_evaluation(void **state) {
  (void)state;
  for (int last = 0; last < 2; last++) {
    setting s;
    start(&s, 10, (ac_plan_desc){.batch = 2, .micro_batch = 2});
    s.stop_after = 2 + 4;
    ac_fit_result r = fit(&s, (ac_fit_desc){.steps = last ? 1 : 100,
                                            .no_shuffle = true,
                                            .validation = s.dataset,
                                            .eval_every = 1,
                                            .stop = enough_reads});
    assert_true(r.stopped && !r.evaluated);
    assert_int_equal(r.steps, 1);
    assert_int_equal(s.source.reads, 6);
    assert_int_equal(s.evaluations, 0);
    assert_true(fabs(weight(&s) - 1.5) < 1e-5);
    stop(&s);
  }
}

/* After an epoch's last window comes the last evaluation, and not a regular one as well. */
static void the_end_is_evaluated_once(void **state) {
  (void)state;
  setting s;
  start(&s, 10, (ac_plan_desc){.batch = 5});
  ac_fit_result r = fit(&s, (ac_fit_desc){.epochs = 2, .validation = s.dataset, .eval_every = 2});
  assert_int_equal(r.steps, 4);
  assert_int_equal(s.evaluations, 2);
  stop(&s);
}

static void evaluation_comes_as_often_as_asked(void **state) {
  (void)state;
  setting s;
  start(&s, 10, (ac_plan_desc){.batch = 2, .micro_batch = 1});
  ac_fit_result r = fit(
      &s, (ac_fit_desc){.steps = 5, .no_shuffle = true, .validation = s.dataset, .eval_every = 2});
  assert_int_equal(s.evaluations, 3);
  assert_true(r.evaluated);
  /* w = 9.5 after the last window: the mean of (1..10 - 9.5)^2. */
  double expected = 0;
  for (int i = 1; i <= 10; i++) expected += (i - 9.5) * (i - 9.5) / 10;
  assert_true(fabs(r.final.loss - expected) < 1e-4);
  assert_true(r.final.weight == 10);
  stop(&s);
}

/* Evaluating in the middle of a window leaves the window as it is. */
static void evaluation_leaves_a_window_alone(void **state) {
  (void)state;
  setting s;
  start(&s, 10, (ac_plan_desc){.batch = 4, .micro_batch = 2});
  float x[] = {1, 1, 1, 1}, t[] = {2, 4, 6, 8};
  ac_feed first[] = {{"x", x}, {"t", t}}, second[] = {{"x", x + 2}, {"t", t + 2}};
  ac_evaluation evaluation;
  ac_update update;
  assert_ok(ac_trainer_accumulate(s.trainer, 2, first, 2));
  assert_ok(ac_trainer_evaluate(s.trainer, s.dataset, 3, &evaluation));
  assert_true(fabs(evaluation.loss - (1 + 4 + 9) / 3.0) < 1e-5);
  assert_ok(ac_trainer_accumulate(s.trainer, 2, second, 2));
  assert_ok(ac_trainer_update(s.trainer, &update));
  assert_true(fabs(update.loss - (4 + 16 + 36 + 64) / 4.0) < 1e-5);
  assert_true(fabs(weight(&s) - 5) < 1e-5);
  stop(&s);
}

static void a_loss_that_is_not_finite_is_explained(void **state) {
  (void)state;
  setting s;
  start(&s, 10, (ac_plan_desc){.batch = 4, .micro_batch = 1});
  s.source.bad = 6;
  ac_fit_desc desc = {.train = s.dataset, .epochs = 1, .no_shuffle = true};
  ac_fit_result r;
  assert_refused(ac_fit(s.trainer, &desc, &r), AC_ERROR_NOT_FINITE,
                 "step 2: the loss is not finite; it first appears in input t");
  assert_int_equal(r.steps, 2);
  assert_true(fabs(weight(&s) - 2.5) < 1e-5); /* of the last good update */
  /* The trainer is usable afterwards. */
  s.source.bad = -1;
  assert_ok(ac_fit(s.trainer, &desc, &r));
  stop(&s);
}

static void an_overflow_names_its_op(void **state) {
  (void)state;
  setting s;
  start(&s, 10, (ac_plan_desc){.batch = 4});
  float huge = 3e38f;
  assert_ok(ac_trainer_set_parameter(s.trainer, 0, 0, 1, &huge));
  ac_fit_desc desc = {.train = s.dataset, .steps = 1};
  assert_refused(
      ac_fit(s.trainer, &desc, NULL), AC_ERROR_NOT_FINITE,
      "step 1: the loss is not finite; it first appears in op mean_squared_error (model)");
  stop(&s);
}

static void datasets_must_match_the_inputs(void **state) {
  (void)state;
  setting s;
  start(&s, 10, (ac_plan_desc){.batch = 4});
  ac_dataset *wrong;
  float data[8] = {0};
  const void *blocks[] = {data, data};
  assert_ok(ac_dataset_from_memory(&wrong, 4, 1, (ac_field[]){{"x", AC_F32, 1}}, blocks));
  ac_fit_desc desc = {.train = wrong, .steps = 1};
  assert_refused(ac_fit(s.trainer, &desc, NULL), AC_ERROR_ARGUMENT, "no field for input \"t\"");
  ac_dataset_free(wrong);
  assert_ok(ac_dataset_from_memory(&wrong, 4, 2, (ac_field[]){{"x", AC_F32, 2}, {"t", AC_F32, 1}},
                                   blocks));
  desc.train = wrong;
  assert_refused(ac_fit(s.trainer, &desc, NULL), AC_ERROR_ARGUMENT,
                 "input \"x\" takes 1 f32 a sample, but the dataset's field has 2 f32");
  ac_dataset_free(wrong);
  desc.train = NULL;
  assert_refused(ac_fit(s.trainer, &desc, NULL), AC_ERROR_ARGUMENT, "nothing to train on");
  desc.train = s.dataset;
  desc.epochs = 1;
  assert_refused(ac_fit(s.trainer, &desc, NULL), AC_ERROR_ARGUMENT,
                 "1 steps and 1 epochs; give one of the two");
  stop(&s);
}

static int64_t reductions(setting *s, const ac_fit_desc *desc) {
  const ac_schedule schedule = {
      .kind = AC_SCHEDULE_PLATEAU, .lr = 0.5, .gamma = 0.5, .patience = -1, .threshold = 0.999};
  ac_trainer_free(s->trainer);
  assert_ok(ac_trainer_create(&s->trainer, s->plan, &(ac_trainer_desc){.schedule = schedule}));
  if (!desc->eval_every || !desc->validation)
    assert_refused(ac_fit(s->trainer, desc, NULL), AC_ERROR_ARGUMENT, "depends on validation");
  else assert_ok(ac_fit(s->trainer, desc, NULL));
  return AC_WATCHED(&s->trainer->run, plateau)->reductions;
}

/* All but the first are bad. The final evaluation counts where it is the one that was due. */
static void a_plateau_goes_by_regular_validations(void **state) {
  (void)state;
  setting s;
  start(&s, 4, (ac_plan_desc){.batch = 2});
  for (int every = 1; every < 6; every++) {
    ac_fit_desc desc = {
        .train = s.dataset, .validation = s.dataset, .steps = 4, .eval_every = every};
    assert_int_equal(reductions(&s, &desc), every > 4 ? 0 : 4 / every - 1);
    desc.eval_samples = 1;
    assert_int_equal(reductions(&s, &desc), every > 2 ? 0 : 4 / every - 2);
  }
  assert_int_equal(reductions(&s, &(ac_fit_desc){.train = s.dataset, .steps = 4, .eval_every = 1}),
                   0);
  assert_int_equal(
      reductions(&s, &(ac_fit_desc){.train = s.dataset, .validation = s.dataset, .steps = 4}), 0);
  stop(&s);
}

/* With a sample a window the weight is 1, 2, 3, ..., and the loss is least at 5 and 6; that at 6 is
 * not better than that at 5. */
static void training_ends_for_want_of_patience(void **state) {
  (void)state;
  static const struct {
    int64_t patience, pause;
    double gain;
    int steps;
  } cases[] = {{2, 0, 0, 7}, {1, 0, 0, 6}, {2, 6, 0, 7}, {2, 0, 100, 3}, {9, 0, 0, 10}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    setting s;
    start(&s, 10, (ac_plan_desc){.batch = 1});
    ac_fit_desc desc = {.epochs = 1,
                        .no_shuffle = true,
                        .validation = s.dataset,
                        .eval_every = 1,
                        .patience = cases[i].patience,
                        .patience_gain = cases[i].gain,
                        .pause_step = cases[i].pause};
    ac_fit_result r = fit(&s, desc);
    if (cases[i].pause) {
      assert_int_equal(r.steps, cases[i].pause);
      assert_true(r.paused && !r.ended_early);
      desc.pause_step = 0;
      desc.resume = true;
      r = fit(&s, desc);
    }
    assert_int_equal(r.steps, cases[i].steps);
    assert_int_equal(r.ended_early, cases[i].steps < 10);
    assert_int_equal(s.evaluations, cases[i].steps);
    assert_true(r.evaluated && !r.paused);
    stop(&s);
  }
}

static source *ill;
static bool heal(void *user, const ac_fit_event *event) {
  if (event->kind == AC_FIT_EVALUATION) ill->bad = -1;
  return on_event(user, event);
}

/* If the first loss is not a number, later losses are not compared with it. */
static void any_loss_is_better_than_none(void **state) {
  (void)state;
  setting s, validation;
  ac_fit_result r;
  start(&s, 10, (ac_plan_desc){.batch = 1});
  start(&validation, 10, (ac_plan_desc){.batch = 1});
  ill = &validation.source;
  ill->bad = 3;
  const ac_fit_desc desc = {.train = s.dataset,
                            .epochs = 1,
                            .no_shuffle = true,
                            .validation = validation.dataset,
                            .eval_every = 1,
                            .patience = 2,
                            .callback = heal,
                            .user = &s};
  assert_ok(ac_fit(s.trainer, &desc, &r));
  assert_true(r.ended_early && r.steps == 7);
  stop(&validation);
  stop(&s);
}

static void patience_needs_validations(void **state) {
  (void)state;
  setting s;
  start(&s, 10, (ac_plan_desc){.batch = 1});
  ac_fit_desc desc = {.train = s.dataset, .validation = s.dataset, .epochs = 1, .patience = 1};
  assert_refused(ac_fit(s.trainer, &desc, NULL), AC_ERROR_ARGUMENT, "patience needs validations");
  desc.eval_every = 1;
  desc.patience = -1;
  assert_refused(ac_fit(s.trainer, &desc, NULL), AC_ERROR_ARGUMENT, "must not be negative");
  desc.patience = 1;
  desc.patience_gain = (double)NAN;
  assert_refused(ac_fit(s.trainer, &desc, NULL), AC_ERROR_ARGUMENT, "must not be negative");
  stop(&s);
}

static void schedules_have_their_shape(void **state) {
  (void)state;
  ac_schedule c = {
      .kind = AC_SCHEDULE_COSINE, .lr = 1e-3, .min_lr = 1e-4, .warmup = 100, .total = 2000};
  assert_true(fabs(ac_schedule_rate(&c, 0) - 1e-3 / 101) < 1e-12);
  assert_true(fabs(ac_schedule_rate(&c, 99) - 1e-3 * 100 / 101) < 1e-12);
  assert_true(ac_schedule_rate(&c, 100) == 1e-3);
  assert_true(fabs(ac_schedule_rate(&c, 1050) - 5.5e-4) < 1e-9);
  assert_true(ac_schedule_rate(&c, 2000) == 1e-4);
  assert_true(ac_schedule_rate(&c, 5000) == 1e-4);
  c.warmup = c.total; /* nothing is left for the cosine */
  assert_true(ac_schedule_rate(&c, 2000) == 1e-4);
  ac_schedule k = {.lr = 2, .warmup = 1};
  assert_true(ac_schedule_rate(&k, 0) == 1);
  assert_true(ac_schedule_rate(&k, 1) == 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_epoch_says_what_its_windows_have_come_to),
      cmocka_unit_test(last_windows_divide_by_their_true_count),
      cmocka_unit_test(carried_windows_go_on_in_the_next_epoch),
      cmocka_unit_test(dropped_windows_change_nothing),
      cmocka_unit_test(shuffling_does_not_depend_on_the_split),
      cmocka_unit_test(batches_read_ahead_are_in_the_plan),
      cmocka_unit_test(reading_ahead_gives_way_to_a_budget),
      cmocka_unit_test(a_callback_stops_after_the_update),
      cmocka_unit_test(a_callback_that_stops_hears_no_more),
      cmocka_unit_test(the_end_of_training_is_told_before_the_last_evaluation),
      cmocka_unit_test(a_pause_changes_nothing),
      cmocka_unit_test(a_stop_discards_the_window_in_hand),
      cmocka_unit_test(a_stop_ends_an_evaluation),
      cmocka_unit_test(the_end_is_evaluated_once),
      cmocka_unit_test(evaluation_comes_as_often_as_asked),
      cmocka_unit_test(evaluation_leaves_a_window_alone),
      cmocka_unit_test(a_loss_that_is_not_finite_is_explained),
      cmocka_unit_test(an_overflow_names_its_op),
      cmocka_unit_test(datasets_must_match_the_inputs),
      cmocka_unit_test(a_plateau_goes_by_regular_validations),
      cmocka_unit_test(training_ends_for_want_of_patience),
      cmocka_unit_test(any_loss_is_better_than_none),
      cmocka_unit_test(patience_needs_validations),
      cmocka_unit_test(schedules_have_their_shape),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
