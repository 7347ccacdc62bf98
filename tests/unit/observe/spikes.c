/* The alarm for spikes: its formula, and runs in which windows have targets that are far off. Each
 * policy does what it says, on every device; a run that was cut anywhere goes on with the same
 * bits.
 *
 *   y = b + V tanh(W x + a)     x: [B, WIDTH], targets: [B, 1], a line in x and noise
 *
 * Samples come in order, so that a window is known by its number. */
#include "support/files.h"

#include "support/runs.h"

#include "window/trainer.h"

#include <math.h>
#include <sys/stat.h>

enum {
  WIDTH = 6,
  HIDDEN = 8,
  BATCH = 8,
  EPOCH = 40,
  EPOCHS = 6,
  WINDOWS = EPOCH * EPOCHS,
  COUNT = EPOCH * BATCH,
  MOST = 400
};

/* ---- data ------------------------------------------------------------------------------------ */

/* The windows [first, end) have targets that are `off` too large. */
typedef struct plant {
  int64_t first, end;
  float off;
} plant;

static float random_number(uint32_t *state) {
  *state = *state * 1664525u + 1013904223u;
  return (float)(*state >> 16) / 32768 - 1;
}

static ac_status read_sample(void *user, const ac_sample_key *key, void *const *fields) {
  const plant *p = user;
  const int64_t window = key->epoch * EPOCH + key->index / BATCH;
  float *x = fields[0], *y = fields[1];
  uint32_t state = (uint32_t)(key->index * 977 + 5);
  y[0] = 0;
  for (int i = 0; i < WIDTH; i++) {
    x[i] = random_number(&state);
    y[0] += x[i] * (float)(i - 2) / 4;
  }
  y[0] += 0.5f * random_number(&state);
  if (window >= p->first && window < p->end) y[0] += p->off;
  return AC_OK;
}

static ac_dataset *dataset_with(const plant *p) {
  ac_dataset *dataset;
  const ac_callback_dataset_desc desc = {.count = COUNT,
                                         .field_count = 2,
                                         .fields = {{"x", AC_F32, WIDTH}, {"y", AC_F32, 1}},
                                         .read = read_sample,
                                         .user = (void *)p};
  assert_ok(ac_dataset_from_callback(&dataset, &desc));
  return dataset;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static const plant nothing, poison = {60, 61, 300};

typedef struct setting {
  const char *device;
  plant plant;
  ac_plan_desc plan;
  ac_trainer_desc trainer;
  ac_fit_desc fit;
} setting;

/* What can be seen of a window, without gaps. */
typedef struct window {
  int64_t step, back_to, alarm, skipped, went_back, begins_anew, replayed, samples;
  double loss, norm, lr, scale, loss_limit;
} window;

/* A run that ends at event `cut` (0: at none), or with `late` some events later, as if it was
 * killed then. */
typedef struct story {
  const setting *setting;
  run r;
  window windows[MOST];
  int count, cut, late, lived, saved; /* saved: windows until the cut */
  ac_fit_result result;
  ac_status status;
  float weights[256];
  ac_batch_stage rows[AC_MAX_BATCH_STAGES]; /* that batches have grown by */
  int row_count;
} story;

static ac_device *shared;

static void begin(story *s, const setting *setting, uint64_t seed) {
  ac_graph *g;
  *s = (story){.setting = setting, .r = {.device = shared}};
  ac_plan_desc plan = setting->plan;
  ac_trainer_desc desc = setting->trainer;
  plan.batch = BATCH;
  desc.seed = seed;
  desc.schedule = (ac_schedule){.kind = AC_SCHEDULE_COSINE, .lr = 0.02, .total = WINDOWS};
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, WIDTH)),
            *y = ac_input(g, "y", AC_F32, SHAPE(AC_BATCH, 1));
  ac_tensor *w = ac_parameter(g, "w", SHAPE(HIDDEN, WIDTH),
                              &(ac_parameter_desc){.init = {AC_INIT_NORMAL, .deviation = 0.4f}}),
            *v = ac_parameter(g, "v", SHAPE(1, HIDDEN),
                              &(ac_parameter_desc){.init = {AC_INIT_NORMAL, .deviation = 0.4f}});
  x = ac_tanh(ac_linear(x, w, ac_parameter(g, "a", SHAPE(HIDDEN), NULL), AC_OUT_IN));
  x = ac_linear(x, v, ac_parameter(g, "b", SHAPE(1), NULL), AC_OUT_IN);
  ac_graph_set_loss(g, ac_mean_squared_error(x, y, NULL));
  assert_ok(ac_plan_create(&s->r.plan, g, s->r.device, &plan));
  ac_graph_free(g);
  assert_ok(ac_trainer_create(&s->r.trainer, s->r.plan, &desc));
}

static void copy_file(const char *from, const char *to) {
  size_t bytes;
  unsigned char *data = read_file(from, &bytes);
  write_file(to, data, bytes);
  free(data);
}

static bool on_event(void *user, const ac_fit_event *event) {
  story *s = user;
  if (event->kind == AC_FIT_STEP) {
    const ac_update *u = &event->update;
    assert_true(s->count < MOST);
    s->windows[s->count++] = (window){event->step,
                                      event->went_back ? event->back_to : -1,
                                      u->spike.alarm,
                                      u->skipped,
                                      event->went_back,
                                      u->spike.begins_anew,
                                      event->replayed,
                                      event->samples,
                                      u->loss,
                                      u->grad_norm,
                                      u->lr,
                                      u->loss_scale,
                                      u->spike.loss_limit};
  }
  s->lived++;
  if (s->lived == s->cut) {
    s->saved = s->count;
    assert_ok(ac_trainer_save_state(s->r.trainer, in_folder("state").text, NULL, 0));
    if (s->setting->trainer.spikes.policy == AC_SPIKE_BACK)
      copy_file(in_folder("good").text, in_folder("good.copy").text);
  }
  return !s->cut || s->lived < s->cut + s->late;
}

static void live(story *s, bool resume) {
  ac_dataset *train = dataset_with(&s->setting->plant), *validation = dataset_with(&nothing);
  const test_path good = in_folder("good");
  ac_fit_desc desc = s->setting->fit;
  desc.train = train;
  desc.validation = validation;
  if (!desc.steps) desc.epochs = EPOCHS;
  desc.no_shuffle = true;
  desc.good_state = good.text;
  if (!desc.good_every) desc.good_every = 10;
  desc.callback = on_event;
  desc.user = s;
  desc.resume = resume;
  s->status = ac_fit(s->r.trainer, &desc, &s->result);
  ac_dataset_free(train);
  ac_dataset_free(validation);
}

static void end(story *s) {
  float *all;
  size_t total;
  all = all_parameters(&s->r, &total);
  assert_true(total <= sizeof s->weights / sizeof *s->weights);
  memcpy(s->weights, all, total * sizeof *all);
  free(all);
  assert_ok(ac_trainer_get_growth(s->r.trainer, s->rows, &s->row_count));
  stop_on(&s->r);
}

static story whole_run(const setting *setting) {
  story s;
  begin(&s, setting, 3);
  live(&s, false);
  end(&s);
  return s;
}

/* Saved at event `cut`, and continued by another trainer. */
static story cut_run(const setting *setting, int cut, int late) {
  story s, t;
  begin(&s, setting, 3);
  s.cut = cut;
  s.late = late;
  live(&s, false);
  assert_ok(s.status);
  stop_on(&s.r);
  begin(&t, setting, 99);
  memcpy(t.windows, s.windows, sizeof s.windows);
  t.count = s.saved;
  assert_ok(ac_trainer_load_state(t.r.trainer, in_folder("state").text));
  if (setting->trainer.spikes.policy == AC_SPIKE_BACK)
    copy_file(in_folder("good.copy").text, in_folder("good").text);
  live(&t, true);
  end(&t);
  return t;
}

static void assert_same_story(const story *s, const story *whole, const char *device, int cut) {
  assert_int_equal(s->status, whole->status);
  if (s->count != whole->count || memcmp(s->windows, whole->windows, sizeof s->windows))
    fail_msg("%s, cut at %d: other windows", device, cut);
  if (memcmp(s->weights, whole->weights, sizeof s->weights))
    fail_msg("%s, cut at %d: other weights", device, cut);
  assert_true(
      s->result.spikes == whole->result.spikes && s->result.went_back == whole->result.went_back &&
      s->result.updates == whole->result.updates && s->result.skipped == whole->result.skipped);
}

#define ON_DEVICES(check)                        \
  static void check##_shared(const char *name) { \
    shared = open_device(name);                  \
    check(name);                                 \
    ac_device_close(shared);                     \
  }                                              \
  ON_EVERY_DEVICE(check##_shared)

/* ---- the formula ----------------------------------------------------------------------------- */

/* What is remembered of windows with these losses, and with norms that are twice as large. */
static ac_spikes remembered(const double *losses, int count) {
  ac_spikes s = {.desc = {.policy = AC_SPIKE_TELL, .deviations = 4}, .rate = 1};
  const ac_spike none = {.alarm = false};
  for (int i = 0; i < count; i++) ac_spikes_take(&s, &none, BATCH, losses[i], 2 * losses[i], false);
  return s;
}

static void assert_limit(double limit, double expected) {
  assert_true(fabs(limit - expected) < 1e-12 * expected);
}

static void a_limit_is_that_of_the_formula(void **state) {
  (void)state;
  double x[100];
  for (int i = 0; i < 100; i++) x[i] = 1 + (double)(i * 37 % 100);
  ac_spikes s = remembered(x, 15);
  assert_true(isnan(ac_spikes_judge(&s, BATCH, BATCH, 1e9, 1e9).loss_limit));
  /* 1, 38, 75, 12, 49, 86, 23, 60, 97, 34, 71, 8, 45, 82, 19, 56: the median is 47, deviations from
   * it are 2, 2, 9, 9, 13, 13, 24, 24, 28, ... */
  s = remembered(x, 16);
  ac_spike spike = ac_spikes_judge(&s, BATCH, BATCH, 0, 0);
  assert_limit(spike.loss_limit, 47 + 4 * 1.4826 * 26);
  assert_limit(spike.norm_limit, 94 + 4 * 1.4826 * 52);
  /* A fourth of the samples: deviations are twice as large, and norms. */
  spike = ac_spikes_judge(&s, BATCH, BATCH / 4, 0, 0);
  assert_limit(spike.loss_limit, 47 + 8 * 1.4826 * 26);
  assert_limit(spike.norm_limit, 2 * (94 + 4 * 1.4826 * 52));
  assert_true(isnan(ac_spikes_judge(&s, BATCH - 1, BATCH - 1, 1e9, 1e9).loss_limit));
  /* The last 64 of a hundred: of 37, ..., 100, as a line. */
  for (int i = 0; i < 100; i++) x[i] = i + 1;
  s = remembered(x, 100);
  assert_limit(ac_spikes_judge(&s, BATCH, BATCH, 0, 0).loss_limit, 68.5 + 4 * 1.4826 * 16);
  for (int i = 0; i < 100; i++) x[i] = 3;
  s = remembered(x, 100); /* the least deviation */
  assert_limit(ac_spikes_judge(&s, BATCH, BATCH, 0, 0).loss_limit, 3 + 4 * 0.03);
  assert_true(ac_spikes_judge(&s, BATCH, BATCH, 3.13, 0).alarm);
  assert_true(ac_spikes_judge(&s, BATCH, BATCH, 0, 6.25).alarm);
  assert_false(ac_spikes_judge(&s, BATCH, BATCH, 3.11, 6.23).alarm);
  assert_false(ac_spikes_judge(&s, BATCH, BATCH, -1e9, (double)NAN).alarm);
  for (int i = 0; i < 100; i++) x[i] = 0;
  s = remembered(x, 100); /* which says nothing of what is usual */
  assert_false(ac_spikes_judge(&s, BATCH, BATCH, 1, 1).alarm);
}

/* Nor one that was skipped for another reason. */
static void an_alarm_is_not_remembered(void **state) {
  (void)state;
  const ac_spike none = {.alarm = false}, alarm = {.alarm = true},
                 last = {.alarm = true, .begins_anew = true};
  double x[20];
  for (int i = 0; i < 20; i++) x[i] = i;
  ac_spikes s = remembered(x, 20);
  assert_true(s.count == 20 && s.calm == 20);
  ac_spikes_take(&s, &none, BATCH, 1, 1, true);
  assert_true(s.count == 20 && s.calm == 20 && s.alarms == 0);
  ac_spikes_take(&s, &alarm, BATCH, 1, 1, false);
  assert_true(s.count == 20 && s.calm == 0 && s.alarms == 1 && s.run == 1);
  ac_spikes_take(&s, &alarm, BATCH, 1, 1, true);
  assert_true(s.count == 20 && s.run == 2);
  ac_spikes_take(&s, &none, BATCH, 1, 1, false);
  assert_true(s.count == 21 && s.calm == 1 && s.run == 0 && s.alarms == 2);
  ac_spikes_take(&s, &last, BATCH, 1, 1, false);
  assert_true(s.count == 0 && s.run == 0 && s.alarms == 3);
}

/* One is due every ten steps, after eight windows without an alarm; going back counts as an alarm.
 */
static void good_states_are_rare(void **state) {
  (void)state;
  const ac_spike none = {.alarm = false};
  ac_spikes s = {.desc = {.back_rate = 0.5}, .rate = 1}, before;
  assert_true(ac_spikes_good_is_due(&s, 5, 10));
  ac_spikes_good_is_here(&s, 5);
  for (int i = 0; i < 8; i++) ac_spikes_take(&s, &none, BATCH, 1, 1, false);
  assert_false(ac_spikes_good_is_due(&s, 12, 10)); /* early: as many as lie before, at least 8 */
  assert_true(ac_spikes_good_is_due(&s, 13, 10));
  ac_spikes_good_is_here(&s, 9);
  assert_false(ac_spikes_good_is_due(&s, 17, 10));
  assert_true(ac_spikes_good_is_due(&s, 18, 10));
  ac_spikes_good_is_here(&s, 11);
  assert_false(ac_spikes_good_is_due(&s, 20, 10));
  assert_true(ac_spikes_good_is_due(&s, 21, 10));
  ac_spikes_good_is_here(&s, 5);
  before = s;
  ac_watcher_spikes.went_back(&s, &before, NULL, 16);
  assert_true(s.good_step == 5 && s.back_step == 16 && s.calm == 0 && s.rate == 0.5);
  for (int i = 0; i < 8; i++) {
    assert_false(ac_spikes_good_is_due(&s, 26, 10));
    ac_spikes_take(&s, &none, BATCH, 1, 1, false);
  }
  assert_false(ac_spikes_good_is_due(&s, 25, 10));
  assert_true(s.again == 1 && ac_spikes_good_is_due(&s, 26, 10));
  ac_spikes_good_is_here(&s, 26);
  assert_true(s.again == 0 && s.went_back == 1);
}

static void settings_are_checked(const char *device) {
  (void)device;
  static const struct {
    ac_spike_desc desc;
    const char *said;
  } bad[] = {{{.policy = (ac_spike_policy)4}, "unknown policy"},
             {{.deviations = -1}, "they are -1"},
             {{.deviations = (double)NAN}, "deviations"},
             {{.deviations = (double)INFINITY}, "they are inf"},
             {{.back_rate = 1.5}, "3 and 1.5"},
             {{.back_rate = -0.5}, "3 and -0.5"},
             {{.most_back = -1}, "are -1 and"}};
  const setting s = {.trainer = {.spikes = {.policy = AC_SPIKE_BACK}}};
  story t;
  begin(&t, &s, 1);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    ac_trainer *none;
    assert_refused(ac_trainer_create(&none, t.r.plan, &(ac_trainer_desc){.spikes = bad[i].desc}),
                   AC_ERROR_ARGUMENT, bad[i].said);
  }
  ac_dataset *data = dataset_with(&nothing);
  ac_fit_desc fit = {.train = data, .steps = 1};
  assert_refused(ac_fit(t.r.trainer, &fit, NULL), AC_ERROR_ARGUMENT, "give a file");
  fit.good_state = in_folder("good").text;
  fit.good_every = -1;
  assert_refused(ac_fit(t.r.trainer, &fit, NULL), AC_ERROR_ARGUMENT, "give a file");
  ac_dataset_free(data);
  stop_on(&t.r);
}

/* ---- policies -------------------------------------------------------------------------------- */

static int alarms_of(const story *s) {
  int alarms = 0;
  for (int i = 0; i < s->count; i++) alarms += s->windows[i].alarm;
  return alarms;
}

/* The plans that a policy goes with. */
static const ac_plan_desc plans[] = {
    {.micro_batch = 3},
    {.micro_batch = BATCH, .gradients = AC_GRADIENTS_FUSED, .whole_windows = true},
    {.micro_batch = 3, .precision = AC_PRECISION_F16},
    {.micro_batch = BATCH, .gradients = AC_GRADIENTS_FUSED_LOCAL, .whole_windows = true},
    {.micro_batch = 3, .gradients = AC_GRADIENTS_FOLDED, .read_ahead = 1}};
enum { PLANS = sizeof plans / sizeof *plans, SKIPPING = 3 };

/* One poisoned window of 120 costs all that is not kept from it. */
static void a_spike_is_met(const char *device) {
  for (int i = 0; i < PLANS; i++) {
    setting s = {
        .device = device, .plan = plans[i], .trainer = {.spikes = {.policy = AC_SPIKE_TELL}}};
    const story clean = whole_run(&s);
    assert_ok(clean.status);
    assert_int_equal(alarms_of(&clean), 0);
    s.plant = poison;
    s.trainer.loss_scaling = (ac_loss_scaling_desc){.kind = AC_LOSS_SCALING_STATIC, .scale = 1};
    const story told = whole_run(&s);
    const window *spike = &told.windows[poison.first];
    assert_true(spike->alarm && !spike->skipped && spike->step == poison.first + 1);
    assert_true(told.result.spikes >= 1 && told.result.updates == WINDOWS);
    assert_true(told.result.final.loss > 1.05 * clean.result.final.loss);

    s.trainer.spikes.policy = AC_SPIKE_BACK;
    const story back = whole_run(&s);
    spike = &back.windows[poison.first];
    print_message("%s, plan %d: clean %.5f, told %.5f, back %.5f\n", device, i,
                  clean.result.final.loss, told.result.final.loss, back.result.final.loss);
    assert_ok(back.status);
    assert_true(spike->alarm && spike->went_back && spike->skipped == (i < SKIPPING));
    assert_int_equal(spike->back_to, 56); /* 0, 8, 16, and every 10 from then on */
    assert_true(back.result.went_back == 1 && back.result.steps == WINDOWS);
    assert_true(back.windows[poison.first + 1].lr == 0.5 * back.windows[56].lr);
    assert_true(fabs(back.result.final.loss / clean.result.final.loss - 1) < 0.02);

    s.trainer.spikes.policy = AC_SPIKE_SKIP;
    if (i >= SKIPPING) continue;
    const story skipped = whole_run(&s);
    spike = &skipped.windows[poison.first];
    assert_true(spike->alarm && spike->skipped && alarms_of(&skipped) == 1);
    assert_true(skipped.result.updates == WINDOWS - 1 && skipped.result.skipped == 0);
    assert_true(fabs(skipped.result.final.loss / clean.result.final.loss - 1) < 0.02);
  }
}
ON_DEVICES(a_spike_is_met)

static void what_cannot_be_skipped_is_refused(const char *device) {
  (void)device;
  for (int i = SKIPPING; i < PLANS; i++) {
    const setting s = {.plan = plans[i]};
    story t;
    begin(&t, &s, 1);
    ac_trainer *none;
    const ac_trainer_desc desc = {.spikes = {.policy = AC_SPIKE_SKIP}};
    assert_refused(ac_trainer_create(&none, t.r.plan, &desc), AC_ERROR_ARGUMENT,
                   "cannot be skipped");
    stop_on(&t.r);
  }
}

/* Going back leaves out the windows since the good state, and moments and counts are those of it.
 */
static void going_back_is_to_the_good_state(const char *device) {
  const setting s = {.device = device,
                     .plant = {68, 69, 300},
                     .plan = plans[0],
                     .trainer = {.spikes = {.policy = AC_SPIKE_BACK, .back_rate = 1}},
                     .fit = {.steps = 69}};
  const story t = whole_run(&s);
  setting short_run = s;
  short_run.plant = nothing;
  short_run.fit.steps = 66;
  const story until = whole_run(&short_run);
  assert_int_equal(t.windows[68].back_to, 66);
  assert_int_equal(t.result.updates, 66);
  assert_int_equal(t.result.steps, 69);
  assert_memory_equal(t.weights, until.weights, sizeof t.weights);
}

/* ---- what goes on ---------------------------------------------------------------------------- */

/* Targets are off from a window on, for good. */
static void a_level_that_stays_is_learned(const char *device) {
  setting s = {.device = device,
               .plant = {60, 1000, 8},
               .plan = plans[0],
               .trainer = {.spikes = {.policy = AC_SPIKE_SKIP}}};
  const story t = whole_run(&s);
  assert_ok(t.status);
  assert_int_equal(t.result.spikes, 8);
  for (int i = 60; i < 68; i++) {
    assert_true(t.windows[i].alarm && t.windows[i].skipped);
    assert_int_equal(t.windows[i].begins_anew, i == 67);
  }
  assert_true(isnan(t.windows[68].loss_limit) && !isnan(t.windows[68 + 16].loss_limit));
  assert_true(t.windows[119].loss < 0.5 * t.windows[68].loss);

  s.trainer.spikes.policy = AC_SPIKE_BACK;
  const story back = whole_run(&s);
  assert_int_equal(back.status, AC_ERROR_NOT_FINITE);
  assert_int_equal(back.count, 64); /* the last one is also reported */
  assert_true(back.windows[63].alarm && !back.windows[63].went_back);
  assert_true(back.windows[62].lr == 0.25 * back.windows[56].lr);
  assert_non_null(strstr(ac_last_error(), "has gone back to the state of step 56 3 times"));
}

/* Windows that overflow, run again or not, are not spikes, and do not make a spike forgotten. */
static void an_overflow_is_no_spike(const char *device) {
  for (int replay = 0; replay < 2; replay++) {
    const setting s = {
        .device = device,
        .plant = {60, 67, 10},
        .plan = plans[2],
        .trainer = {.spikes = {.policy = AC_SPIKE_SKIP},
                    .loss_scaling = {.scale = 1 << 20, .interval = 13, .growth = 64}},
        .fit = {.replay = replay, .steps = 100}};
    const story t = whole_run(&s);
    int spikes = 0, overflows = 0;
    for (int i = 0; i < t.count; i++) {
      spikes += t.windows[i].alarm;
      overflows += t.windows[i].skipped && !t.windows[i].alarm;
      if (t.windows[i].alarm) assert_true(t.windows[i].step > 60 && t.windows[i].step <= 67);
    }
    print_message("%s: %d alarms, %d overflows\n", device, spikes, overflows);
    assert_true(replay ? spikes == 7 : spikes > 0);
    assert_true(overflows > 4 && t.result.skipped == overflows && t.result.spikes == spikes);
  }
}
ON_DEVICES(an_overflow_is_no_spike)

static void a_run_that_was_cut_is_the_run(const char *device) {
  static const ac_spike_policy policies[] = {AC_SPIKE_TELL, AC_SPIKE_SKIP, AC_SPIKE_BACK};
  static const int cuts[] = {1, 40, 61, 64, 66, 69, 75};
  for (int i = 0; i < PLANS; i++)
    for (int k = 0; k < 3; k++) {
      if (i >= SKIPPING && policies[k] == AC_SPIKE_SKIP) continue;
      const setting s = {.device = device,
                         .plant = {60, 63, 300},
                         .plan = plans[i],
                         .trainer = {.spikes = {.policy = policies[k]},
                                     .loss_scaling = {.scale = 1 << 24, .interval = 7}},
                         .fit = {.good_every = 7, .replay = true, .eval_every = 20, .steps = 90}};
      setting used = s;
      if (i == PLANS - 1) used.trainer.loss_scaling = (ac_loss_scaling_desc){.scale = 0};
      const story whole = whole_run(&used);
      for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
        const story t = cut_run(&used, cuts[c], c % 2 ? 12 : 0);
        assert_same_story(&t, &whole, device, cuts[c]);
      }
    }
}
ON_DEVICES(a_run_that_was_cut_is_the_run)

/* A state can be resumed only with the good state of its time. */
static void a_good_state_must_be_there(const char *device) {
  const setting s = {
      .device = device, .plan = plans[0], .trainer = {.spikes = {.policy = AC_SPIKE_BACK}}};
  story t;
  begin(&t, &s, 3);
  t.cut = 25;
  t.late = 20;
  live(&t, false);
  assert_ok(ac_trainer_load_state(t.r.trainer, in_folder("state").text));
  live(&t, true);
  assert_int_equal(t.status, AC_ERROR_ARGUMENT);
  assert_non_null(strstr(ac_last_error(), "is not the good state of step 16"));
  assert_int_equal(remove(in_folder("good").text), 0);
  live(&t, true);
  assert_int_equal(t.status, AC_ERROR_IO);
  assert_non_null(
      strstr(ac_last_error(),
             "without the good state of step 16 the run continues only with another policy"));
  copy_file(in_folder("good.copy").text, in_folder("good").text);
  t.cut = 0;
  live(&t, true);
  assert_ok(t.status);
  stop_on(&t.r);
}

/* Another policy on the way: the good state of before is not looked for. */
static void a_good_state_may_be_given_up(const char *device) {
  const setting s = {.device = device,
                     .plant = poison,
                     .plan = plans[0],
                     .trainer = {.spikes = {.policy = AC_SPIKE_BACK}}};
  setting told = s;
  told.trainer.spikes.policy = AC_SPIKE_TELL;
  told.fit.steps = 80;
  const test_path state = in_folder("between");
  story t;
  begin(&t, &s, 3);
  t.cut = 70;
  live(&t, false);
  assert_ok(t.status);
  assert_int_equal(t.result.went_back, 1);
  stop_on(&t.r);
  begin(&t, &told, 3);
  assert_ok(ac_trainer_load_state(t.r.trainer, in_folder("state").text));
  live(&t, true);
  assert_ok(t.status);
  assert_true(t.windows[0].lr < 0.02 * 0.5 && t.result.steps == 80);
  assert_ok(ac_trainer_save_state(t.r.trainer, state.text, NULL, 0));
  stop_on(&t.r);
  assert_int_equal(remove(in_folder("good").text), 0);
  begin(&t, &s, 3);
  assert_ok(ac_trainer_load_state(t.r.trainer, state.text));
  live(&t, true);
  assert_ok(t.status);
  assert_true(t.result.went_back == 1 && t.result.steps == WINDOWS);
  stop_on(&t.r);
}

/* For some time there is no folder for good states. */
typedef struct absence {
  test_path folder, away;
  int failed;
  int64_t back_to;
} absence;

static bool take_away(void *user, const ac_fit_event *event) {
  absence *a = user;
  if (event->kind != AC_FIT_STEP) return true;
  if (event->good_state_failed) {
    a->failed++;
    assert_non_null(strstr(ac_last_error(), a->folder.text));
    assert_true(event->step == 26 || event->step == 36);
  }
  if (event->went_back) a->back_to = event->back_to;
  if (event->step == 20) assert_int_equal(rename(a->folder.text, a->away.text), 0);
  if (event->step == 40) assert_int_equal(rename(a->away.text, a->folder.text), 0);
  return true;
}

/* As a full disk would be: the state of before serves, and later ones are saved again. */
static void a_good_state_may_fail(const char *device) {
  const setting s = {.device = device,
                     .plant = {62, 63, 300},
                     .plan = plans[0],
                     .trainer = {.spikes = {.policy = AC_SPIKE_BACK}}};
  absence a = {.folder = in_folder("absent"), .away = in_folder("away")};
  const test_path good = in_folder("absent/good");
  story t;
  begin(&t, &s, 3);
  ac_dataset *train = dataset_with(&s.plant);
  const ac_fit_desc fit = {.train = train,
                           .steps = 80,
                           .no_shuffle = true,
                           .good_state = good.text,
                           .good_every = 10,
                           .callback = take_away,
                           .user = &a};
  assert_refused(ac_fit(t.r.trainer, &fit, NULL), AC_ERROR_IO, "absent"); /* the first is needed */
  assert_int_equal(mkdir(a.folder.text, 0700), 0);
  assert_ok(ac_fit(t.r.trainer, &fit, &t.result));
  assert_true(a.failed == 2 && t.result.went_back == 1 && t.result.steps == 80);
  assert_int_equal(a.back_to, 56);
  assert_int_equal(remove(good.text), 0);
  assert_int_equal(remove(a.folder.text), 0);
  ac_dataset_free(train);
  stop_on(&t.r);
}

/* A trainer's second fit counts its own alarms, as a state of it does. */
static void a_fit_counts_its_own_alarms(const char *device) {
  const setting s = {.device = device,
                     .plant = poison,
                     .plan = plans[0],
                     .trainer = {.spikes = {.policy = AC_SPIKE_SKIP}}};
  story t;
  begin(&t, &s, 3);
  live(&t, false);
  assert_true(t.result.spikes > 0);
  t.count = 0;
  live(&t, false);
  const int64_t spikes = t.result.spikes;
  live(&t, true);
  assert_ok(t.status);
  assert_int_equal(t.result.spikes, spikes);
  stop_on(&t.r);
}

/* ---- with batches that grow ------------------------------------------------------------------ */

/* Batches of 2 and 4 become 8, and then a run goes back to a state of when they were 4. They stay
 * what they are, so that the run is that by its schedule, and is so however it is cut. */
static void what_has_grown_stays(const char *device) {
  static const int cuts[] = {30, 62, 78, 99, 110};
  for (int ahead = 0; ahead < 3; ahead += 2) {
    const setting s = {.device = device,
                       .plant = {52, 53, 300},
                       .plan = {.micro_batch = 1, .read_ahead = ahead},
                       .trainer = {.spikes = {.policy = AC_SPIKE_BACK}, .noise_every = 1},
                       .fit = {.steps = 130,
                               .good_every = 60,
                               .growth = {.from = 2, .windows = 25, .factor = 1e-9}}};
    const story whole = whole_run(&s);
    int at = 0;
    assert_ok(whole.status);
    while (at < whole.count && !whole.windows[at].went_back) at++;
    print_message("%s, %d ahead: %d rows, the last at %d; back at %d to %d\n", device, ahead,
                  whole.row_count, (int)whole.rows[whole.row_count - 1].from, at,
                  at < whole.count ? (int)whole.windows[at].back_to : -1);
    assert_int_equal(whole.row_count, 3);
    assert_true(at > whole.rows[2].from && whole.windows[at].back_to > whole.rows[1].from &&
                whole.windows[at].back_to < whole.rows[2].from);
    assert_int_equal(whole.count, 130);
    for (int i = at; i < whole.count; i++) assert_int_equal(whole.windows[i].samples, BATCH);

    setting by_hand = s;
    by_hand.fit.growth.from = 0;
    by_hand.fit.batches = whole.rows;
    by_hand.fit.batch_count = whole.row_count;
    const story hand = whole_run(&by_hand);
    assert_same_story(&hand, &whole, device, 0);
    for (size_t c = 0; c < sizeof cuts / sizeof *cuts; c++) {
      const story t = cut_run(&s, cuts[c], c % 2 ? 9 : 0);
      assert_same_story(&t, &whole, device, cuts[c]);
      assert_memory_equal(t.rows, whole.rows, sizeof whole.rows);
    }
  }
}
ON_DEVICES(what_has_grown_stays)

/* A callback has the last word. */
static void decide(void *user, ac_trainer *trainer, ac_decision *decision) {
  (void)trainer;
  *(int *)user += decision->spike;
  if (decision->spike) assert_true(decision->skip), decision->skip = false;
}

static void a_callback_may_undo_a_skip(const char *device) {
  for (ac_spike_policy policy = AC_SPIKE_SKIP; policy <= AC_SPIKE_BACK; policy++) {
    int asked = 0;
    const setting s = {.device = device,
                       .plant = poison,
                       .plan = plans[0],
                       .trainer = {.spikes = {.policy = policy}, .decide = decide, .user = &asked}};
    const story t = whole_run(&s);
    assert_true(asked >= 1 && t.windows[60].alarm && !t.windows[60].skipped);
    assert_true(t.result.updates == WINDOWS && t.result.went_back == 0);
  }
}

#define ON_CPU(check)                      \
  static void check##_here(void **state) { \
    (void)state;                           \
    check##_shared("cpu");                 \
  }
#define CPU_ONLY(check)                          \
  static void check##_shared(const char *name) { \
    shared = open_device(name);                  \
    check(name);                                 \
    ac_device_close(shared);                     \
  }                                              \
  ON_CPU(check)

CPU_ONLY(settings_are_checked)
CPU_ONLY(what_cannot_be_skipped_is_refused)
CPU_ONLY(going_back_is_to_the_good_state)
CPU_ONLY(a_level_that_stays_is_learned)
CPU_ONLY(a_good_state_must_be_there)
CPU_ONLY(a_callback_may_undo_a_skip)
CPU_ONLY(a_good_state_may_be_given_up)
CPU_ONLY(a_fit_counts_its_own_alarms)
CPU_ONLY(a_good_state_may_fail)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_limit_is_that_of_the_formula),
      cmocka_unit_test(an_alarm_is_not_remembered),
      cmocka_unit_test(good_states_are_rare),
      cmocka_unit_test(settings_are_checked_here),
      cmocka_unit_test(a_spike_is_met_shared_everywhere),
      cmocka_unit_test(what_cannot_be_skipped_is_refused_here),
      cmocka_unit_test(going_back_is_to_the_good_state_here),
      cmocka_unit_test(a_level_that_stays_is_learned_here),
      cmocka_unit_test(an_overflow_is_no_spike_shared_everywhere),
      cmocka_unit_test(a_run_that_was_cut_is_the_run_shared_everywhere),
      cmocka_unit_test(a_good_state_must_be_there_here),
      cmocka_unit_test(a_callback_may_undo_a_skip_here),
      cmocka_unit_test(a_good_state_may_be_given_up_here),
      cmocka_unit_test(a_fit_counts_its_own_alarms_here),
      cmocka_unit_test(a_good_state_may_fail_here),
      cmocka_unit_test(what_has_grown_stays_shared_everywhere),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
