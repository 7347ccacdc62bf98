/* State files: a run may stop anywhere, be saved, and continue in another trainer. It has the bits
 * of a run that never stopped: weights, moments, every step, every evaluation, all counters. Cases
 * are drawn; on the CPU and on every OpenCL device. */
#include "support/states.h"

#include <math.h>

/* ---- a case ---------------------------------------------------------------------------------- */

typedef struct setting {
  const char *device;
  shape_of_model model;
  ac_plan_desc plan;
  ac_trainer_desc trainer;
  ac_fit_desc fit;
  bool validates;
  char text[256];
} setting;

static int draw(uint64_t *random, int count) {
  return (int)(next_random(random) % (uint32_t)count);
}

static ac_plan_desc draw_plan(uint64_t *random, const shape_of_model *m, int number) {
  static const int64_t micro_batches[] = {BATCH, 3, 1};
  ac_plan_desc plan = {.batch = BATCH,
                       .micro_batch = micro_batches[draw(random, 3)],
                       .precision = (ac_precision)(number % 3),
                       .recompute = draw(random, 2) ? AC_RECOMPUTE_ALL : AC_RECOMPUTE_NONE,
                       .read_ahead = draw(random, 2) * 2};
  plan.optimizer.kind = (ac_optimizer_kind)draw(random, AC_OPTIMIZER_COUNT);
  if (plan.optimizer.kind == AC_OPTIMIZER_CALLBACK) plan.optimizer.callback_states = 1;
  plan.optimizer.sgd_no_momentum = draw(random, 2);
  if (m->norm && plan.micro_batch < BATCH) plan.batch_norm = AC_BATCH_NORM_MICRO;
  plan.whole_windows = plan.micro_batch == BATCH && draw(random, 2);
  if (draw(random, 3) == 0 || (m->two && !plan.read_ahead && plan.micro_batch < BATCH))
    plan.loss_means = AC_LOSS_MEANS_PER_SAMPLE;
  return plan;
}

/* SGD with momentum as a caller's own optimizer. */
static const char *step_own(void *user, const ac_parameter_step *s) {
  (void)user;
  for (int64_t i = 0; i < s->count; i++) {
    s->state[0][i] = 0.9f * s->state[0][i] + s->gradient[i];
    s->weights[i] -= (float)s->rate * s->state[0][i];
  }
  return NULL;
}

/* In f16 the scale begins so high, and grows so often, that windows overflow again and again. */
static ac_trainer_desc draw_trainer(uint64_t *random, const ac_plan_desc *plan) {
  ac_trainer_desc desc = {
      .seed = 7 + next_random(random),
      .optimizer = {.weight_decay = 0.01,
                    .clip = draw(random, 2) ? 0.5 : 0,
                    .nesterov = draw(random, 2),
                    .step = plan->optimizer.kind == AC_OPTIMIZER_CALLBACK ? step_own : NULL},
      .schedule = {.kind = AC_SCHEDULE_COSINE, .lr = 0.02, .warmup = 2, .total = 6},
      .noise_every = draw(random, 4) - 1,
      .layers_every = draw(random, 3)};
  desc.noise_layers = desc.noise_every && draw(random, 2);
  if (plan->precision == AC_PRECISION_F16)
    desc.loss_scaling = (ac_loss_scaling_desc){
        .kind = AC_LOSS_SCALING_DYNAMIC, .scale = 1 << 20, .interval = 2, .growth = 8};
  if (plan->precision == AC_PRECISION_BF16 && draw(random, 2))
    desc.loss_scaling =
        (ac_loss_scaling_desc){.kind = AC_LOSS_SCALING_DYNAMIC, .scale = 1024, .interval = 2};
  return desc;
}

/* By all that a schedule of batches counts. */
static const ac_batch_stage stages[] = {{2, AC_BATCH_FROM_STEP, 0},
                                        {3, AC_BATCH_FROM_SAMPLE, 4},
                                        {BATCH, AC_BATCH_FROM_STEP, 3},
                                        {1, AC_BATCH_FROM_EPOCH, 1}};

static ac_fit_desc draw_fit(uint64_t *random, const ac_plan_desc *plan) {
  ac_fit_desc fit = {.eval_every = draw(random, 4),
                     .eval_samples = draw(random, 2) * 5,
                     .no_final_evaluation = draw(random, 4) == 0,
                     .no_shuffle = draw(random, 4) == 0,
                     .seed = next_random(random),
                     .loader_threads = 1 + draw(random, 3),
                     .last_window = (ac_last_window)draw(random, 3),
                     .replay = draw(random, 2)};
  if (plan->whole_windows && fit.last_window == AC_LAST_CARRY) fit.last_window = AC_LAST_UPDATE;
  if (draw(random, 2)) fit.epochs = 2;
  else fit.steps = 5 + draw(random, 4);
  if (draw(random, 3) == 0) fit.batches = stages, fit.batch_count = 1 + draw(random, 4);
  return fit;
}

/* A rate that falls with nearly every validation. */
static const ac_schedule impatient = {.kind = AC_SCHEDULE_PLATEAU,
                                      .lr = 0.02,
                                      .warmup = 1,
                                      .gamma = 0.5,
                                      .patience = -1,
                                      .threshold = 0.3};

static setting draw_setting(uint64_t *random, const char *device, int number) {
  setting s = {.device = device, .model = {.norm = draw(random, 2), .two = draw(random, 2)}};
  s.plan = draw_plan(random, &s.model, number);
  s.trainer = draw_trainer(random, &s.plan);
  s.fit = draw_fit(random, &s.plan);
  s.validates = draw(random, 4) > 0;
  if (s.validates && s.fit.eval_every && number % 2) s.trainer.schedule = impatient;
  snprintf(s.text, sizeof s.text,
           "case %d, %s %s, micro-batch %d%s, read ahead %d, optimizer %d%s, last window %d%s%s%s, "
           "%d batches",
           number, device, ac_precision_name(s.plan.precision), (int)s.plan.micro_batch,
           s.plan.whole_windows ? " (whole windows)" : "", s.plan.read_ahead, s.plan.optimizer.kind,
           s.plan.optimizer.sgd_no_momentum ? " plain" : "", s.fit.last_window,
           s.fit.replay ? ", replays" : "", s.model.norm ? ", norm" : "",
           s.model.two ? ", two losses" : "", s.fit.batch_count);
  return s;
}

/* ---- a run of it ----------------------------------------------------------------------------- */

enum { MOST_EVENTS = 64 };

/* Where a life ends: after its event of this number, or as a poll of `stop`. */
typedef struct cut {
  int event, poll; /* counted from 1; 0: not at one */
  bool goes_on;    /* what is saved at an event is as if from a life that was killed later */
  bool keeps;      /* ac_fit_desc.keep_window */
} cut;

/* All lives of a run. */
typedef struct story {
  const setting *setting;
  facts events[MOST_EVENTS];
  ac_fit_event_kind kinds[MOST_EVENTS];
  int count;
  ac_fit_result result;
  snapshot end;
  /* The life that is being lived. */
  run r;
  cut cut;
  int lived, polls; /* events and polls of it */
  test_path saved;
} story;

/* How often what is worth testing came to pass. */
static struct {
  int cuts, replayed, skipped, in_window, staged, measured, evaluation_due, reduced;
} seen;

static bool on_event(void *user, const ac_fit_event *event) {
  story *s = user;
  assert_true(s->count < MOST_EVENTS);
  facts *f = &s->events[s->count];
  *f = (facts){.count = 0};
  const double all[] = {event->kind, (double)event->step, (double)event->epoch, event->replayed,
                        (double)event->samples};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) add_fact(f, all[i]);
  if (event->kind == AC_FIT_STEP) add_update(f, &event->update);
  if (event->kind == AC_FIT_EVALUATION) add_evaluation(f, &event->evaluation);
  s->kinds[s->count++] = event->kind;
  if (++s->lived != s->cut.event) return true;
  assert_ok(ac_trainer_save_state(s->r.trainer, s->saved.text, NULL, 0));
  seen.replayed += event->kind == AC_FIT_STEP && event->replayed;
  seen.skipped += event->kind == AC_FIT_STEP && event->update.skipped && !event->replayed;
  seen.evaluation_due += s->r.trainer->run.fit.evaluation_due == 1;
  seen.reduced += AC_WATCHED(&s->r.trainer->run, plateau)->reductions > 0;
  return s->cut.goes_on;
}

static bool on_poll(void *user) {
  story *s = user;
  return ++s->polls == s->cut.poll;
}

/* Goes on from where the story is until it ends or the cut comes. Returns whether it was cut. */
static bool live(story *s, cut c, bool resumes) {
  ac_dataset *train = dataset_of(COUNT), *validation = dataset_of(COUNT - 2);
  ac_fit_desc desc = s->setting->fit;
  s->cut = c;
  s->lived = s->polls = 0;
  desc.train = train;
  desc.validation = s->setting->validates ? validation : NULL;
  desc.callback = on_event;
  desc.stop = on_poll;
  desc.user = s;
  desc.resume = resumes;
  desc.keep_window = c.keeps;
  assert_ok(ac_fit(s->r.trainer, &desc, &s->result));
  ac_dataset_free(train);
  ac_dataset_free(validation);
  s->end = look_at(&s->r);
  if (c.event) return s->lived >= c.event;
  return c.poll && s->polls >= c.poll;
}

static void begin(story *s, uint64_t seed) {
  ac_trainer_desc desc = s->setting->trainer;
  if (seed) desc.seed = seed;
  s->r = start_model(s->setting->device, &s->setting->model, &s->setting->plan, &desc);
}

/* The state of a story that was cut, in a trainer that has begun otherwise. */
static void move(story *s) {
  if (s->cut.poll) {
    assert_true(s->result.stopped);
    assert_ok(ac_trainer_save_state(s->r.trainer, s->saved.text, NULL, 0));
    seen.in_window += s->end.progress.window_samples > 0;
    seen.measured += AC_WATCHED(&s->r.trainer->run, noise)->first_samples > 0;
    seen.staged += s->end.progress.window_samples > 0 && s->setting->fit.batch_count > 0;
  }
  end_run(&s->r);
  ac_device *shared = shared_device;
  if (seen.cuts++ % 8 == 0) shared_device = NULL; /* also another device */
  begin(s, 99);
  shared_device = shared;
  assert_ok(ac_trainer_load_state(s->r.trainer, s->saved.text));
}

/* Events after the one at which a life was saved are those of one that is forgotten. So is what
 * says that no window follows, as the next life says it again. */
static void forget(story *s) {
  if (s->cut.goes_on && s->lived > s->cut.event) s->count -= s->lived - s->cut.event;
  for (int i = 0; i < s->count; i++)
    if (s->kinds[i] == AC_FIT_TRAINED) s->count = i;
}

static void assert_same_result(const char *where, const ac_fit_result *a, const ac_fit_result *b) {
  if (a->steps != b->steps || a->epochs != b->epochs || a->samples != b->samples ||
      a->updates != b->updates || a->skipped != b->skipped || a->stopped != b->stopped ||
      a->evaluated != b->evaluated)
    fail_msg("%s: another result: %d steps and %d", where, (int)a->steps, (int)b->steps);
  facts f = {.count = 0}, g = {.count = 0};
  add_evaluation(&f, &a->final);
  add_evaluation(&g, &b->final);
  if (a->evaluated && !same_facts(&f, &g)) fail_msg("%s: another last evaluation", where);
}

static void assert_same_story(const char *where, const story *s, const story *whole) {
  for (int i = 0; i < s->count && i < whole->count; i++)
    if (!same_facts(&s->events[i], &whole->events[i])) {
      for (int k = 0; k < s->events[i].count; k++)
        print_message("%.17g %.17g\n", s->events[i].of[k], whole->events[i].of[k]);
      fail_msg("%s: event %d of %d is another", where, i, whole->count);
    }
  if (s->count != whole->count) fail_msg("%s: %d events, not %d", where, s->count, whole->count);
  assert_same(where, &s->end, &whole->end);
  assert_same_result(where, &s->result, &whole->result);
}

static cut draw_cut(uint64_t *random, const story *whole) {
  cut c = {.keeps = draw(random, 4) > 0};
  if (draw(random, 2)) c.poll = 1 + draw(random, whole->polls);
  else c.event = 1 + draw(random, whole->count);
  c.goes_on = c.event && draw(random, 2);
  return c;
}

/* One life after another; the last is not cut. */
static void tell(const setting *s, const story *whole, uint64_t *random) {
  story t = {.setting = s, .saved = in_folder("state")};
  char where[400];
  int used = snprintf(where, sizeof where, "%s; cut", s->text);
  begin(&t, 0);
  for (int life = 0, lives = 1 + draw(random, 3); life < lives; life++) {
    const cut c = draw_cut(random, whole);
    used += snprintf(where + used, sizeof where - (size_t)used, " at %s %d%s%s",
                     c.event ? "event" : "poll", c.event + c.poll, c.goes_on ? " (killed)" : "",
                     c.keeps ? " (kept)" : "");
    const bool was_cut = live(&t, c, life > 0);
    if (life == 0) assert_true(was_cut);
    if (life == 0 && c.goes_on) assert_same_story(where, &t, whole);
    forget(&t);
    if (was_cut && (c.goes_on || draw(random, 4))) move(&t);
  }
  live(&t, (cut){0}, true);
  end_run(&t.r);
  assert_same_story(where, &t, whole);
}

static void try_cases(const char *device, int cases, int cuts) {
  uint64_t random = 11;
  for (int i = 0; i < cases; i++) {
    const setting s = draw_setting(&random, device, i);
    story whole = {.setting = &s, .saved = in_folder("whole")};
    begin(&whole, 0);
    assert_false(live(&whole, (cut){0}, false));
    end_run(&whole.r);
    for (int k = 0; k < cuts; k++) tell(&s, &whole, &random);
  }
}

static void a_run_that_was_cut_is_the_run(const char *device) {
  const bool cpu = !strcmp(device, "cpu");
  try_cases(device, cpu ? 110 : 12, cpu ? 5 : 3);
  if (!cpu) return;
  print_message("%d cuts: %d in windows, %d of these by a schedule, %d with noise measured, %d "
                "before one that runs again, "
                "%d after one that was "
                "skipped, %d before an evaluation, %d at a reduced rate\n",
                seen.cuts, seen.in_window, seen.staged, seen.measured, seen.replayed, seen.skipped,
                seen.evaluation_due, seen.reduced);
  assert_true(seen.in_window > 30 && seen.staged > 2 && seen.measured > 5 && seen.replayed > 10 &&
              seen.skipped > 10 && seen.evaluation_due > 10 && seen.reduced > 10);
}
ON_SHARED_DEVICES(a_run_that_was_cut_is_the_run)

/* ---- runs that become longer ----------------------------------------------------------------- */

/* The final evaluation is of all samples. If regular ones are also of all samples, it replaces the
 * one that was due after the last step. */
static void take_final_evaluation(story *s) {
  const int64_t limit = s->setting->fit.eval_samples, every = s->setting->fit.eval_every;
  const int last = s->count - 1, steps = (int)s->setting->fit.steps;
  const bool final = s->kinds[last] == AC_FIT_EVALUATION && s->kinds[last - 1] == AC_FIT_TRAINED;
  const bool same = final && every && steps % every == 0 && (limit == 0 || limit >= COUNT - 2);
  forget(s);
  if (!same) return;
  s->events[s->count] = s->events[last];
  s->kinds[s->count++] = AC_FIT_EVALUATION;
}

/* A run of few steps, saved at its event of this number, that goes on to as many as the whole. */
static void lengthen(setting s, int event, bool moves, const story *whole) {
  char where[400];
  setting few = s;
  few.fit.steps = 6;
  story t = {.setting = &few, .saved = in_folder("state")};
  begin(&t, 0);
  live(&t, (cut){.event = event, .goes_on = moves}, false);
  snprintf(where, sizeof where, "evaluations of %d samples every %d%s, after event %d%s",
           (int)s.fit.eval_samples, (int)s.fit.eval_every,
           s.fit.no_final_evaluation ? ", none at the end" : "", event,
           moves ? "" : " (not moved)");
  if (moves) t.count = t.lived = event;
  take_final_evaluation(&t);
  if (moves) move(&t);
  t.setting = &s;
  live(&t, (cut){0}, true);
  end_run(&t.r);
  assert_same_story(where, &t, whole);
}

/* From the last step of the short run on, whatever it was. */
static void try_lengths(const setting *s) {
  setting few = *s;
  few.fit.steps = 6;
  story whole = {.setting = s, .saved = in_folder("whole")}, probe = {.setting = &few};
  begin(&whole, 0);
  live(&whole, (cut){0}, false);
  end_run(&whole.r);
  begin(&probe, 0);
  live(&probe, (cut){0}, false);
  end_run(&probe.r);
  int event = probe.count;
  lengthen(*s, event, false, &whole);
  for (bool stepped = false; !stepped; event--) {
    lengthen(*s, event, true, &whole);
    stepped = probe.kinds[event - 1] == AC_FIT_STEP;
  }
}

static ac_schedule lengthened(int eval_every) {
  return eval_every ? impatient : (ac_schedule){.lr = 0.02};
}

static void a_run_that_becomes_longer_is_the_longer_run(void **state) {
  (void)state;
  for (int every = 0; every < 7; every++)
    for (int samples = 0; samples < 10; samples += 3)
      for (int none = 0; none < 2; none++)
        try_lengths(&(setting){.device = "cpu",
                               .plan = {.batch = BATCH},
                               .trainer = {.seed = 3, .schedule = lengthened(every)},
                               .fit = {.steps = 12,
                                       .eval_every = every,
                                       .eval_samples = samples,
                                       .no_final_evaluation = none},
                               .validates = true});
}

/* ---- windows by hand ------------------------------------------------------------------------- */

static const ac_trainer_desc trained = {
    .seed = 3, .schedule = {.lr = 0.02}, .loss_scaling = {.kind = AC_LOSS_SCALING_STATIC}};

/* Two windows, the second saved after some of its samples and continued in another trainer;
 * returns what is seen in the end. */
static snapshot by_hand(const char *device, const shape_of_model *m, const ac_plan_desc *plan,
                        int done, ac_update *update) {
  static const double weights[2][2] = {{BATCH, 7}, {BATCH, 8}}; /* tokens that count */
  const test_path path = in_folder("by_hand");
  const bool given = plan->loss_means == AC_LOSS_MEANS_GIVEN;
  run r = start_model(device, m, plan, &trained);
  for (int u = 0; u < 2; u++) {
    const int saved = u ? done : BATCH;
    if (given) assert_ok(ac_trainer_begin_window(r.trainer, BATCH, weights[u], 2));
    if (saved) assert_ok(feed_samples(&r, u * BATCH, saved));
    if (saved < BATCH) {
      assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
      const snapshot before = look_at(&r);
      end_run(&r);
      r = start_model(
          device, m, plan,
          &(ac_trainer_desc){.schedule = trained.schedule, .loss_scaling = trained.loss_scaling});
      assert_ok(ac_trainer_load_state(r.trainer, path.text));
      const snapshot after = look_at(&r);
      assert_same("a window in progress", &before, &after);
      assert_int_equal(after.progress.window_samples, done);
      assert_ok(feed_samples(&r, u * BATCH + saved, BATCH - saved));
    }
    assert_ok(ac_trainer_update(r.trainer, update));
  }
  const snapshot end = look_at(&r);
  end_run(&r);
  return end;
}

static void windows_by_hand_go_on(const char *device) {
  for (int i = 0; i < 4; i++) {
    const shape_of_model m = {.norm = i % 2, .two = i > 1};
    const ac_plan_desc plan = {.batch = BATCH,
                               .micro_batch = 2,
                               .batch_norm = AC_BATCH_NORM_MICRO,
                               .precision = AC_PRECISION_F16,
                               .loss_means = i > 1 ? AC_LOSS_MEANS_GIVEN : AC_LOSS_MEANS_COUNTED};
    ac_update updates[2];
    const snapshot whole = by_hand(device, &m, &plan, BATCH, &updates[0]);
    for (int done = 0; done < BATCH; done += 2) {
      const snapshot cut = by_hand(device, &m, &plan, done, &updates[1]);
      facts a = {.count = 0}, b = {.count = 0};
      add_update(&a, &updates[0]);
      add_update(&b, &updates[1]);
      assert_true(same_facts(&a, &b));
      assert_same("windows by hand", &whole, &cut);
    }
  }
}
ON_SHARED_DEVICES(windows_by_hand_go_on)

/* ---- files ----------------------------------------------------------------------------------- */

static const shape_of_model both = {.norm = true, .two = true};
static const ac_plan_desc split = {.batch = BATCH,
                                   .micro_batch = 1,
                                   .batch_norm = AC_BATCH_NORM_MICRO,
                                   .loss_means = AC_LOSS_MEANS_PER_SAMPLE};

static void assert_same_files(const char *a, const char *b) {
  size_t bytes[2];
  unsigned char *data[] = {read_file(a, &bytes[0]), read_file(b, &bytes[1])};
  assert_int_equal(bytes[0], bytes[1]);
  assert_memory_equal(data[0], data[1], bytes[0]);
  free(data[0]);
  free(data[1]);
}

/* What is saved again, by the same trainer or by one that has loaded it, is the same file: before
 * the first update, after it, and within a window. */
static void what_is_loaded_is_saved_again(const char *device) {
  const test_path first = in_folder("first"), second = in_folder("second");
  for (int done = 0; done < 3; done++) {
    run r = start_model(device, &both, &split, &trained);
    if (done) {
      assert_ok(feed_samples(&r, 0, BATCH));
      assert_ok(ac_trainer_update(r.trainer, NULL));
    }
    if (done == 2) assert_ok(feed_samples(&r, 5, 3));
    assert_ok(ac_trainer_save_state(r.trainer, first.text, NULL, 0));
    assert_ok(ac_trainer_save_state(r.trainer, second.text, NULL, 0));
    assert_same_files(first.text, second.text);
    end_run(&r);
    r = start_model(device, &both, &split,
                    &(ac_trainer_desc){.loss_scaling = trained.loss_scaling});
    assert_ok(feed_samples(&r, 0, 1)); /* a window that is discarded */
    assert_ok(ac_trainer_load_state(r.trainer, first.text));
    assert_ok(ac_trainer_save_state(r.trainer, second.text, NULL, 0));
    assert_same_files(first.text, second.text);
    end_run(&r);
  }
}
ON_SHARED_DEVICES(what_is_loaded_is_saved_again)

/* A parameter of more than a piece, which takes 1 MiB. */
static void large_tensors_come_in_pieces(void **state) {
  (void)state;
  enum { LARGE = 70001 };
  const test_path first = in_folder("first"), second = in_folder("second");
  const shape_of_model m = {.hidden = LARGE};
  const ac_plan_desc plan = {.batch = 1};
  for (int loaded = 0; loaded < 2; loaded++) {
    run r = start_model("cpu", &m, &plan, &(ac_trainer_desc){.seed = loaded ? 5 : 9});
    if (loaded) {
      assert_ok(ac_trainer_load_state(r.trainer, first.text));
    } else {
      assert_ok(feed_samples(&r, 0, 1));
      assert_ok(ac_trainer_update(r.trainer, NULL));
    }
    assert_ok(ac_trainer_save_state(r.trainer, loaded ? second.text : first.text, NULL, 0));
    end_run(&r);
  }
  assert_same_files(first.text, second.text);
}

static void the_callers_metadata_are_kept(void **state) {
  (void)state;
  const test_path path = in_folder("state");
  const ac_metadata metadata[] = {{"note", "a \"quoted\" text"},
                                  {"accrue.model", "\\\"accrue.header_xxh3\":\""}};
  run r = start_model("cpu", &both, &split, &trained);
  assert_ok(ac_trainer_save_state(r.trainer, path.text, metadata, 2));
  assert_ok(ac_trainer_load_state(r.trainer, path.text));
  ac_model_file *file;
  assert_ok(ac_model_file_open(&file, path.text));
  for (int i = 0; i < 2; i++)
    assert_string_equal(ac_model_file_metadata(file, metadata[i].key), metadata[i].value);
  ac_model_file_close(file);
  static const char *const own[] = {"accrue.state.updates", "accrue.xxh3", "accrue.header_xxh3"};
  for (int i = 0; i < 3; i++)
    assert_refused(ac_trainer_save_state(r.trainer, path.text, &(ac_metadata){own[i], "0"}, 1),
                   AC_ERROR_ARGUMENT, "comes twice");
  assert_ok(ac_trainer_load_state(r.trainer, path.text)); /* what was there is there */
  end_run(&r);
}

/* Two norms that share their running statistics pool each its own. */
static ac_graph *siamese(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, TOKENS, WIDTH));
  ac_tensor *mean = statistics(g, "mean", 0), *variance = statistics(g, "variance", 1);
  ac_tensor *h = ac_batch_norm(x, NULL, NULL, mean, variance, NULL);
  h = ac_linear(h, matrix(g, "w", WIDTH, WIDTH), NULL, AC_OUT_IN);
  h = ac_batch_norm(h, NULL, NULL, mean, variance, NULL);
  ac_graph_set_loss(g, ac_mean_squared_error(h, x, NULL));
  return g;
}

static void norms_may_share_statistics(void **state) {
  (void)state;
  const test_path path = in_folder("state");
  ac_graph *graph = siamese();
  snapshot ends[2];
  for (int cut = 0; cut < 2; cut++) {
    run r = start_graph("cpu", graph, &split, &trained);
    assert_ok(feed_samples(&r, 0, 2));
    if (cut) {
      assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
      end_run(&r);
      r = start_graph("cpu", graph, &split, &trained);
      assert_ok(ac_trainer_load_state(r.trainer, path.text));
    }
    assert_ok(feed_samples(&r, 2, 2));
    assert_ok(ac_trainer_update(r.trainer, NULL));
    ends[cut] = look_at(&r);
    end_run(&r);
  }
  assert_same("shared statistics", &ends[0], &ends[1]);
  ac_graph_free(graph);
}

/* ---- other plans ----------------------------------------------------------------------------- */

static void assert_near(const snapshot *a, const snapshot *b) {
  assert_true(a->weight_count == b->weight_count && a->moment_count == b->moment_count);
  for (int i = 0; i < a->weight_count; i++) /* roundings of f32 in sums of tens of terms */
    assert_true(fabsf(a->weights[i] - b->weights[i]) < 1e-5f);
  for (int i = 0; i < a->moment_count; i++)
    assert_true(fabsf(a->moments[i] - b->moments[i]) < 1e-5f);
}

/* A window that is begun in one split and ended in another, perhaps on another device, comes to the
 * same but for rounding: dropout depends on samples, and sums are sums. */
static void other_splits_and_devices_go_on(const char *device) {
  const test_path path = in_folder("state");
  const shape_of_model m = {.two = true};
  snapshot ends[2];
  for (int moved = 0; moved < 2; moved++) {
    ac_plan_desc plan = split;
    run r = start_model("cpu", &m, &plan, &trained);
    assert_ok(feed_samples(&r, 0, BATCH));
    assert_ok(ac_trainer_update(r.trainer, NULL));
    assert_ok(feed_samples(&r, 4, 2));
    if (moved) {
      assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
      end_run(&r);
      plan.micro_batch = 3;
      r = start_model(device, &m, &plan, &trained);
      assert_ok(ac_trainer_load_state(r.trainer, path.text));
    }
    assert_ok(feed_samples(&r, 6, 2));
    assert_ok(ac_trainer_update(r.trainer, NULL));
    ends[moved] = look_at(&r);
    end_run(&r);
  }
  assert_near(&ends[0], &ends[1]);
}
ON_SHARED_DEVICES(other_splits_and_devices_go_on)

/* Between windows it does not matter where a plan keeps gradients. */
static void whole_windows_go_on_from_others(void **state) {
  (void)state;
  const test_path path = in_folder("state");
  snapshot ends[3];
  for (int i = 0; i < 3; i++) {
    ac_plan_desc plan = {.batch = BATCH, .whole_windows = i == 1};
    run r = start_model("cpu", &both, &plan, &trained);
    for (int u = 0; u < 2; u++) {
      if (u && i) {
        assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
        end_run(&r);
        plan.whole_windows = i == 2;
        r = start_model("cpu", &both, &plan, &trained);
        assert_ok(ac_trainer_load_state(r.trainer, path.text));
      }
      assert_ok(feed_samples(&r, u * BATCH, BATCH));
      assert_ok(ac_trainer_update(r.trainer, NULL));
    }
    ends[i] = look_at(&r);
    end_run(&r);
    assert_same("whole windows", &ends[0], &ends[i]);
  }
}

/* A loss scale is of no use where there is another kind of scaling; all else is. */
static void other_precisions_go_on_between_windows(void **state) {
  (void)state;
  const test_path path = in_folder("state");
  ac_plan_desc plan = split;
  run r = start_model("cpu", &both, &plan, &(ac_trainer_desc){.loss_scaling = {.scale = 512}});
  assert_ok(feed_samples(&r, 0, BATCH));
  assert_ok(ac_trainer_update(r.trainer, NULL));
  assert_ok(ac_trainer_save_state(r.trainer, path.text, NULL, 0));
  const snapshot before = look_at(&r);
  end_run(&r);
  plan.precision = AC_PRECISION_F16;
  r = start_model("cpu", &both, &plan, &(ac_trainer_desc){.loss_scaling = {.scale = 256}});
  assert_ok(ac_trainer_load_state(r.trainer, path.text));
  const snapshot after = look_at(&r);
  assert_same("another precision", &before, &after);
  ac_update update;
  assert_ok(feed_samples(&r, 0, BATCH));
  assert_ok(ac_trainer_update(r.trainer, &update));
  assert_true(update.loss_scale == 256 && update.update == 2 && !update.skipped);
  end_run(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_run_that_was_cut_is_the_run_everywhere),
      cmocka_unit_test(a_run_that_becomes_longer_is_the_longer_run),
      cmocka_unit_test(windows_by_hand_go_on_everywhere),
      cmocka_unit_test(what_is_loaded_is_saved_again_everywhere),
      cmocka_unit_test(large_tensors_come_in_pieces),
      cmocka_unit_test(the_callers_metadata_are_kept),
      cmocka_unit_test(norms_may_share_statistics),
      cmocka_unit_test(other_splits_and_devices_go_on_everywhere),
      cmocka_unit_test(whole_windows_go_on_from_others),
      cmocka_unit_test(other_precisions_go_on_between_windows),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
