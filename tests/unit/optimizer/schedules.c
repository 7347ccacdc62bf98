/* Learning-rate schedules: PyTorch's rates and momenta on committed vectors, what PyTorch lacks by
 * its formula, what comes of rates and momenta in a trainer, and what is refused. */
#include "support/files.h"

#include "support/runs.h"

#include "ops/vector.h"
#include "window/trainer.h"

#include <math.h>
#include <stddef.h>

/* ---- PyTorch --------------------------------------------------------------------------------- */

/* Fields of ac_schedule, by the names that the vectors have them under. */
typedef enum field_kind { CHOICE, COUNT, REAL, SWITCH } field_kind;
static const struct {
  const char *name;
  field_kind kind;
  size_t offset;
} fields[] = {
#define FIELD(name, kind) \
  { #name, kind, offsetof(ac_schedule, name) }
    FIELD(kind, CHOICE),
    FIELD(lr, REAL),
    FIELD(min_lr, REAL),
    FIELD(warmup, COUNT),
    FIELD(total, COUNT),
    FIELD(period, COUNT),
    FIELD(period_factor, COUNT),
    FIELD(fall, COUNT),
    FIELD(gamma, REAL),
    FIELD(anneal, CHOICE),
    FIELD(rise, REAL),
    FIELD(start_divisor, REAL),
    FIELD(end_divisor, REAL),
    FIELD(three_phases, SWITCH),
    FIELD(cycle, CHOICE),
    FIELD(min_momentum, REAL),
    FIELD(max_momentum, REAL),
    FIELD(patience, COUNT),
    FIELD(cooldown, COUNT),
    FIELD(threshold, REAL),
    FIELD(threshold_absolute, SWITCH),
#undef FIELD
};

static ac_schedule schedule_of(const op_vector *v) {
  ac_schedule s = {0};
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const double value = op_vector_attribute(v, fields[i].name, 0);
    void *member = (char *)&s + fields[i].offset;
    if (fields[i].kind == CHOICE) *(int *)member = (int)value;
    else if (fields[i].kind == COUNT) *(int64_t *)member = (int64_t)value;
    else if (fields[i].kind == REAL) *(double *)member = value;
    else *(bool *)member = value != 0;
  }
  char name[24];
  for (int i = 0; i < 3; i++) {
    snprintf(name, sizeof name, "milestone%d", i);
    const double at = op_vector_attribute(v, name, 0);
    if (at > 0) s.milestones[s.milestone_count++] = (int64_t)at;
  }
  return s;
}

/* What PyTorch computes from the rate before it has lost up to a unit in the last place of lr at
 * each of about a hundred updates. */
static void assert_near(const op_vector *v, const char *what, int64_t at, double is, double should,
                        double top) {
  if (!(fabs(is - should) <= 1e-9 * fabs(should) + 1e-14 * top))
    fail_msg("%s: %s %d is %.17g, not %.17g", v->name, what, (int)at, is, should);
}

static void check_rates(const op_vector *v, const ac_schedule *s) {
  const op_vector_tensor *rate = op_vector_find(v, "rate");
  const op_vector_tensor *momentum = op_vector_find(v, "momentum");
  for (int64_t u = 0; u < rate->count; u++) {
    assert_near(v, "rate", u, ac_schedule_rate(s, u), rate->data[u], s->lr);
    if (momentum) assert_near(v, "momentum", u, ac_schedule_momentum(s, u), momentum->data[u], 1);
    else assert_true(ac_schedule_momentum(s, u) == -1);
  }
}

static void check_plateau(const op_vector *v, const ac_schedule *s) {
  const op_vector_tensor *loss = op_vector_find(v, "loss"), *rate = op_vector_find(v, "rate");
  ac_plateau p = ac_plateau_begin(s);
  for (int64_t i = 0; i < loss->count; i++) {
    ac_plateau_observe(&p, loss->data[i]);
    assert_near(v, "rate after validation", i, ac_schedule_reduced_rate(s, p.reductions, 5),
                rate->data[i], s->lr);
  }
}

static void rates_are_those_of_pytorch(void **state) {
  (void)state;
  int count, seen[AC_SCHEDULE_COUNT] = {0};
  op_vector *vectors = op_vectors_read("schedules", &count);
  assert_non_null(vectors);
  for (int i = 0; i < count; i++) {
    const ac_schedule s = schedule_of(&vectors[i]);
    seen[s.kind]++;
    if (s.kind == AC_SCHEDULE_PLATEAU) check_plateau(&vectors[i], &s);
    else check_rates(&vectors[i], &s);
  }
  for (int k = 0; k < AC_SCHEDULE_COUNT; k++)
    assert_true(seen[k] > 0 || k == AC_SCHEDULE_STABLE_DECAY || k == AC_SCHEDULE_INVERSE_SQRT);
  op_vectors_free(vectors, count);
}

/* Defaults are PyTorch's. */
static void zeros_are_defaults(void **state) {
  (void)state;
  const ac_schedule one = {.kind = AC_SCHEDULE_ONE_CYCLE, .lr = 1, .total = 60};
  const ac_schedule all = {.kind = AC_SCHEDULE_ONE_CYCLE,
                           .lr = 1,
                           .total = 60,
                           .rise = 0.3,
                           .start_divisor = 25,
                           .end_divisor = 1e4,
                           .anneal = AC_ANNEAL_COSINE,
                           .min_momentum = 0.85,
                           .max_momentum = 0.95};
  const ac_schedule cycle = {.kind = AC_SCHEDULE_CYCLIC, .lr = 1, .period = 7};
  ac_schedule cycles = cycle, kept = cycle, range = cycle, ranges = cycle;
  range.cycle = ranges.cycle = AC_CYCLE_EXP_RANGE;
  ranges.gamma = 1;
  cycles.fall = 7;
  cycles.min_momentum = 0.8;
  cycles.max_momentum = 0.9;
  kept.keep_momentum = true;
  for (int u = 0; u < 70; u++) {
    assert_true(ac_schedule_rate(&one, u) == ac_schedule_rate(&all, u));
    assert_true(ac_schedule_momentum(&one, u) == ac_schedule_momentum(&all, u));
    assert_true(ac_schedule_rate(&cycle, u) == ac_schedule_rate(&cycles, u));
    assert_true(ac_schedule_momentum(&cycle, u) == ac_schedule_momentum(&cycles, u));
    assert_true(ac_schedule_momentum(&kept, u) == -1);
    assert_true(ac_schedule_rate(&range, u) == ac_schedule_rate(&ranges, u));
  }
  kept = (ac_schedule){.kind = AC_SCHEDULE_PLATEAU, .lr = 0.5};
  assert_true(ac_schedule_rate(&kept, 9) == 0.5); /* knows no reductions */
}

/* ---- formulas -------------------------------------------------------------------------------- */

/* What the first version computed, and which old runs resume with: the same bits. */
static double old_cosine(const ac_schedule *s, int64_t update) {
  const double pi = 3.14159265358979323846;
  if (update < s->warmup) return s->lr * (double)(update + 1) / (double)(s->warmup + 1);
  if (update >= s->total) return s->min_lr;
  const double done = (double)(update - s->warmup) / (double)(s->total - s->warmup);
  return s->min_lr + 0.5 * (1 + cos(pi * done)) * (s->lr - s->min_lr);
}

static void a_cosine_keeps_its_bits(void **state) {
  (void)state;
  static const ac_schedule cases[] = {
      {.lr = 3e-4, .min_lr = 3e-5, .warmup = 100, .total = 2000},
      {.lr = 0.1, .min_lr = 0, .warmup = 0, .total = 777},
      {.lr = 1e-3, .min_lr = 1e-4, .warmup = 9, .total = 9},
  };
  for (int i = 0; i < 3; i++) {
    ac_schedule s = cases[i];
    s.kind = AC_SCHEDULE_COSINE;
    for (int64_t u = 0; u < 2100; u++) assert_true(ac_schedule_rate(&s, u) == old_cosine(&s, u));
  }
}

static void stable_decay_is_its_formula(void **state) {
  (void)state;
  for (int way = AC_ANNEAL_DEFAULT; way <= AC_ANNEAL_SQRT; way++) {
    const ac_schedule s = {.kind = AC_SCHEDULE_STABLE_DECAY,
                           .lr = 0.02,
                           .min_lr = 0.001,
                           .warmup = 9,
                           .total = 200,
                           .decay = 60,
                           .anneal = (ac_anneal)way};
    for (int64_t u = 0; u < 250; u++) {
      const double x = fmin(fmax((double)(u - 140) / 60, 0), 1);
      const double left = way == AC_ANNEAL_COSINE ? (1 + cos(acos(-1) * x)) / 2
                          : way == AC_ANNEAL_SQRT ? 1 - sqrt(x)
                                                  : 1 - x;
      double should = 0.001 + (0.02 - 0.001) * left;
      if (u < 9) should = 0.02 * (double)(u + 1) / 10;
      assert_true(fabs(ac_schedule_rate(&s, u) - should) <= 1e-14);
    }
  }
  ac_schedule tenth = {.kind = AC_SCHEDULE_STABLE_DECAY, .lr = 1, .total = 100};
  assert_true(ac_schedule_rate(&tenth, 90) == 1 && ac_schedule_rate(&tenth, 91) < 1);
}

/* "Attention is all you need": d^-0.5 min(step^-0.5, step warmup_steps^-1.5), step from 1. */
static void inverse_sqrt_is_its_formula(void **state) {
  (void)state;
  const double steps = 40, d = 512, peak = 1 / sqrt(d * steps);
  ac_schedule s = {.kind = AC_SCHEDULE_INVERSE_SQRT, .lr = peak, .warmup = 39};
  for (int64_t u = 0; u < 2000; u++) {
    const double step = (double)u + 1;
    const double should = fmin(1 / sqrt(step), step * pow(steps, -1.5)) / sqrt(d);
    assert_true(fabs(ac_schedule_rate(&s, u) - should) <= 1e-12 * should);
  }
  s.min_lr = peak / 2;
  assert_true(ac_schedule_rate(&s, 1999) == peak / 2);
}

/* PyTorch refuses to go on, or turns back. */
static void an_end_is_an_end(void **state) {
  (void)state;
  static const ac_schedule cases[] = {
      {.kind = AC_SCHEDULE_ONE_CYCLE, .lr = 1, .total = 50},
      {.kind = AC_SCHEDULE_ONE_CYCLE, .lr = 1, .total = 50, .warmup = 8, .three_phases = true},
      {.kind = AC_SCHEDULE_ONE_CYCLE, .lr = 1, .total = 1},
      {.kind = AC_SCHEDULE_ONE_CYCLE, .lr = 1, .total = 50, .rise = -1},
      {.kind = AC_SCHEDULE_LINEAR, .lr = 1, .min_lr = 0.25, .total = 50},
      {.kind = AC_SCHEDULE_COSINE, .lr = 1, .min_lr = 0.25, .total = 50},
      {.kind = AC_SCHEDULE_STABLE_DECAY, .lr = 1, .min_lr = 0.25, .total = 50},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const bool cycle = cases[i].kind == AC_SCHEDULE_ONE_CYCLE;
    const double end = cycle ? 1 / 25.0 / 1e4 : 0.25;
    for (int64_t u = cases[i].total + !cycle - 1; u < 90; u++)
      assert_true(fabs(ac_schedule_rate(&cases[i], u) - end) <= 1e-12);
    if (cycle) assert_true(fabs(ac_schedule_momentum(&cases[i], 80) - 0.95) <= 1e-12);
  }
}

/* Up to the first rate of what follows, and its momentum. Milestones count from the run's begin. */
static void a_warmup_leads_to_the_first_rate(void **state) {
  (void)state;
  ac_schedule s = {.kind = AC_SCHEDULE_ONE_CYCLE, .lr = 1, .total = 50, .warmup = 4};
  assert_true(fabs(ac_schedule_rate(&s, 1) - 2.0 / 5 / 25) <= 1e-15);
  assert_true(fabs(ac_schedule_rate(&s, 4) - 1.0 / 25) <= 1e-15);
  assert_true(ac_schedule_momentum(&s, 1) == 0.95);
  s = (ac_schedule){.kind = AC_SCHEDULE_CYCLIC, .lr = 1, .min_lr = 0.5, .period = 4, .warmup = 4};
  assert_true(ac_schedule_rate(&s, 0) == 0.1 && ac_schedule_rate(&s, 8) == 1);
  s = (ac_schedule){
      .kind = AC_SCHEDULE_MULTISTEP, .lr = 1, .warmup = 4, .milestones = {6}, .milestone_count = 1};
  assert_true(ac_schedule_rate(&s, 5) == 1 && ac_schedule_rate(&s, 6) == 0.1);
  s = (ac_schedule){.kind = AC_SCHEDULE_PLATEAU, .lr = 1, .warmup = 4};
  assert_true(fabs(ac_schedule_reduced_rate(&s, 1, 0) - 0.1 / 5) <= 1e-15);
}

/* A loss that is lower by just the threshold is not better; a rate that would hardly change stays.
 */
static void a_plateau_has_limits(void **state) {
  (void)state;
  ac_schedule s = {.kind = AC_SCHEDULE_PLATEAU,
                   .lr = 1,
                   .gamma = 0.5,
                   .patience = -1,
                   .threshold = 0.5,
                   .threshold_absolute = true};
  static const struct {
    double loss;
    int64_t reductions;
  } cases[] = {{0.5, 1}, {0.49, 0}};
  for (int i = 0; i < 2; i++) {
    ac_plateau p = ac_plateau_begin(&s);
    ac_plateau_observe(&p, 1);
    ac_plateau_observe(&p, cases[i].loss);
    assert_int_equal(p.reductions, cases[i].reductions);
  }
  static const double rates[] = {1.5e-8, 2.5e-8};
  for (int i = 0; i < 2; i++) {
    ac_plateau p = ac_plateau_begin(&s);
    s.lr = rates[i];
    ac_plateau_observe(&p, 1);
    ac_plateau_observe(&p, 1);
    assert_int_equal(p.reductions, i);
  }
}

/* Where PyTorch divides by zero: the way up has no length. */
static void a_cycle_may_begin_at_its_top(void **state) {
  (void)state;
  const ac_schedule s = {.kind = AC_SCHEDULE_ONE_CYCLE, .lr = 1, .total = 8, .rise = 0.125};
  assert_true(ac_schedule_rate(&s, 0) == 1 && ac_schedule_rate(&s, 1) < 1);
}

/* Lengths that grow beyond all integers. */
static void far_updates_have_a_rate(void **state) {
  (void)state;
  const ac_schedule s = {
      .kind = AC_SCHEDULE_COSINE_RESTARTS, .lr = 1, .period = 3, .period_factor = 1000};
  const double rate = ac_schedule_rate(&s, INT64_MAX / 2);
  assert_true(rate >= 0 && rate <= 1);
}

/* With nothing that overflows, which a sanitizer would say; below 0 lies update 0. */
static void any_update_has_a_rate(void **state) {
  (void)state;
  static const int64_t far[] = {INT64_MIN, -1, 0, INT64_MAX - 1, INT64_MAX};
  for (int kind = 0; kind < AC_SCHEDULE_COUNT; kind++)
    for (int long_ones = 0; long_ones < 4; long_ones++) {
      const int64_t most = INT64_MAX, length = long_ones & 1 ? most / 2 : 3;
      ac_schedule s = {.kind = (ac_schedule_kind)kind,
                       .lr = 1,
                       .gamma = 0.5,
                       .warmup = long_ones & 2 ? most / 2 : 0,
                       .total = long_ones ? most : 30,
                       .period = length,
                       .fall = length,
                       .milestones = {length},
                       .milestone_count = 1,
                       .decay = length};
      const double first = ac_schedule_rate(&s, 0);
      for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        const double rate = ac_schedule_rate(&s, far[i]);
        if (!(rate >= 0 && rate <= 1)) fail_msg("kind %d: %g", kind, rate);
        if (far[i] < 0) assert_true(rate == first);
        (void)ac_schedule_momentum(&s, far[i]);
      }
      s.warmup = most;
      (void)ac_schedule_rate(&s, most);
    }
}

/* ---- in a trainer ---------------------------------------------------------------------------- */

/* Two outputs of three numbers, four samples an update, mean squared error. */
static run start_layer(const op_vector *v) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 3));
  ac_tensor *y = ac_linear(x, ac_parameter(g, "w", SHAPE(2, 3), ZEROS), NULL, AC_OUT_IN);
  ac_graph_set_loss(g,
                    ac_mean_squared_error(y, ac_input(g, "y", AC_F32, SHAPE(AC_BATCH, 2)), NULL));
  const bool adamw = op_vector_attribute(v, "adamw", 0) != 0;
  const ac_plan_desc plan = {
      .batch = 4, .micro_batch = 2, .optimizer = {.kind = adamw ? AC_ADAMW : AC_SGD}};
  const ac_trainer_desc desc = {.schedule = schedule_of(v), .optimizer = {.weight_decay = 0.1}};
  return run_of(open_device("cpu"), g, &plan, &desc);
}

static void to_floats(const op_vector *v, const char *name, float *to) {
  const op_vector_tensor *from = op_vector_find(v, name);
  for (int64_t i = 0; i < from->count; i++) to[i] = (float)from->data[i];
}

/* Updates are a few hundredths, of gradients that floats hold to about 1e-7, and AdamW divides what
 * is left of them near a minimum by itself: 4e-6 after thirty. */
static void updates_are_those_of_pytorch(void **state) {
  (void)state;
  int count;
  op_vector *vectors = op_vectors_read("scheduled_updates", &count);
  assert_true(vectors && count == 3);
  for (int i = 0; i < count; i++) {
    const op_vector *v = &vectors[i];
    const ac_schedule s = schedule_of(v);
    const op_vector_tensor *p = op_vector_find(v, "p");
    float x[12], y[8], w[6];
    to_floats(v, "x", x);
    to_floats(v, "y", y);
    to_floats(v, "p0", w);
    run r = start_layer(v);
    assert_ok(ac_trainer_set_parameter(r.trainer, 0, 0, 6, w));
    for (int64_t u = 0; u < p->dim[0]; u++) {
      ac_update update;
      assert_ok(ac_trainer_accumulate(r.trainer, 4, (ac_feed[]){{"x", x}, {"y", y}}, 2));
      assert_true(ac_trainer_rate(r.trainer) == ac_schedule_rate(&s, u));
      assert_ok(ac_trainer_update(r.trainer, &update));
      assert_true(update.lr == ac_schedule_rate(&s, u));
      assert_true(update.momentum == ac_schedule_momentum(&s, u));
      assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, 6, w));
      for (int e = 0; e < 6; e++)
        if (!(fabs((double)w[e] - p->data[6 * u + e]) <= 4e-6))
          fail_msg("%s, update %d: %.9g, not %.9g", v->name, (int)u, (double)w[e],
                   p->data[6 * u + e]);
    }
    stop(&r);
  }
  op_vectors_free(vectors, count);
}

static run start_scheduled(const ac_schedule *s, ac_optimizer_kind optimizer) {
  return start("cpu", &model, (ac_plan_desc){.batch = 8, .optimizer = {.kind = optimizer}},
               (ac_trainer_desc){.schedule = *s});
}

static void rates_follow_the_batch(void **state) {
  (void)state;
  static const struct {
    ac_rate_scaling scaling;
    double factor;
  } cases[] = {{AC_RATE_SCALING_NONE, 1}, {AC_RATE_SCALING_LINEAR, 4}, {AC_RATE_SCALING_SQRT, 2}};
  for (int i = 0; i < 3; i++) {
    const ac_schedule s = {.kind = AC_SCHEDULE_LINEAR,
                           .lr = 0.5,
                           .min_lr = 0.25,
                           .total = 1,
                           .scaling = cases[i].scaling,
                           .base_batch = 2};
    const corpus c = make_corpus();
    run r = start_scheduled(&s, AC_SGD);
    ac_update update;
    for (int u = 0; u < 2; u++) {
      assert_ok(feed(&r, &c, 0, u ? 5 : 8)); /* the plan's batch counts, not the window's */
      assert_ok(ac_trainer_update(r.trainer, &update));
      assert_true(update.lr == cases[i].factor * (u ? 0.25 : 0.5));
    }
    stop(&r);
  }
}

static const char *leave(void *user, const ac_parameter_step *step) {
  (void)user, (void)step;
  return NULL;
}

static double momentum_told(ac_plan_desc plan, const ac_trainer_desc *desc) {
  const corpus c = make_corpus();
  plan.batch = 8;
  run r = start("cpu", &model, plan, *desc);
  ac_update update;
  assert_ok(feed(&r, &c, 0, 8));
  assert_ok(ac_trainer_update(r.trainer, &update));
  stop(&r);
  return update.momentum;
}

/* Of optimizers with a schedule that leaves it alone, or without momentum; and one that is moved to
 * zero. */
static void an_update_tells_its_momentum(void **state) {
  (void)state;
  static const double should[AC_OPTIMIZER_COUNT] = {
      [AC_ADAMW] = 0.8,   [AC_SGD] = 0.7,  [AC_LION] = 0.8,
      [AC_ADAFACTOR] = 0, [AC_MUON] = 0.7, [AC_ADAM_MINI] = 0.8};
  ac_trainer_desc desc = {.optimizer = {.beta1 = 0.8, .momentum = 0.7}};
  for (int k = 0; k < AC_OPTIMIZER_COUNT; k++) {
    desc.optimizer.step = k == AC_OPTIMIZER_CALLBACK ? leave : NULL;
    assert_true(momentum_told((ac_plan_desc){.optimizer = {.kind = (ac_optimizer_kind)k}}, &desc) ==
                should[k]);
  }
  desc.optimizer.step = NULL;
  const ac_plan_desc plain = {.optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}};
  assert_true(momentum_told(plain, &desc) == 0);
  desc.schedule =
      (ac_schedule){.kind = AC_SCHEDULE_ONE_CYCLE, .total = 8, .rise = 0.125, .min_momentum = -1};
  assert_true(momentum_told((ac_plan_desc){0}, &desc) == 0);
}

static void validations_reduce_the_rate(void **state) {
  (void)state;
  const ac_schedule s = {.kind = AC_SCHEDULE_PLATEAU, .lr = 0.5, .gamma = 0.5, .patience = 1};
  run r = start_scheduled(&s, AC_ADAMW);
  static const double rates[] = {0.5, 0.5, 0.25, 0.25, 0.125};
  for (int i = 0; i < 5; i++) {
    assert_ok(ac_trainer_observe_validation(r.trainer, 1));
    assert_true(ac_trainer_rate(r.trainer) == rates[i]);
  }
  stop(&r);
  r = start_scheduled(&(ac_schedule){0}, AC_ADAMW);
  assert_refused(ac_trainer_observe_validation(r.trainer, 1), AC_ERROR_STATE,
                 "does not use validations");
  stop(&r);
}

/* ---- rates of the caller's own --------------------------------------------------------------- */

enum { OWN_UPDATES = 4 };

typedef struct own_rates {
  int asked;
  double first; /* of update 0; 0: that of the schedule */
} own_rates;

/* As of AC_SCHEDULE_STEP with these settings. */
static const ac_schedule stepped = {
    .kind = AC_SCHEDULE_STEP, .lr = 0.5, .period = 2, .gamma = 0.25};
static double own_rate(void *user, int64_t update, double scheduled) {
  own_rates *own = user;
  own->asked++;
  assert_true(scheduled == 0.5);
  if (update == 0 && own->first != 0) return own->first;
  return ac_schedule_rate(&stepped, update);
}

/* From `begin` on, from the state in `path` unless that is 0; saves one before update `save`. */
static float *train_stepped(ac_plan_desc plan, own_rates *own, int begin, int save,
                            const char *path, size_t *count) {
  const corpus c = make_corpus();
  ac_trainer_desc desc = {.seed = 3, .schedule = stepped, .user = own};
  if (own) desc.schedule = (ac_schedule){.lr = 0.5};
  if (own) desc.rate = own_rate;
  plan.batch = 8;
  plan.optimizer.kind = AC_SGD;
  run r = start("cpu", &model, plan, desc);
  if (begin) assert_ok(ac_trainer_load_state(r.trainer, path));
  for (int u = begin; u < OWN_UPDATES; u++) {
    ac_update update;
    if (u == save) assert_ok(ac_trainer_save_state(r.trainer, path, NULL, 0));
    assert_true(ac_trainer_rate(r.trainer) == ac_schedule_rate(&stepped, u));
    assert_ok(feed(&r, &c, u, 8));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_true(!update.skipped && update.lr == ac_schedule_rate(&stepped, u));
  }
  float *all = all_parameters(&r, count);
  stop(&r);
  return all;
}

static void a_caller_says_the_rate(void **state) {
  (void)state;
  static const ac_plan_desc plans[] = {{.micro_batch = 4},
                                       {.gradients = AC_GRADIENTS_FUSED},
                                       {.gradients = AC_GRADIENTS_FUSED_LOCAL},
                                       {.gradients = AC_GRADIENTS_FOLDED}};
  const test_path path = in_folder("rates.safetensors");
  for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) {
    own_rates own = {0};
    size_t count;
    float *want = train_stepped(plans[k], NULL, 0, 0, path.text, &count),
          *got = train_stepped(plans[k], &own, 0, 3, path.text, &count),
          *resumed = train_stepped(plans[k], &own, 3, -1, path.text, &count);
    assert_memory_equal(want, got, count * sizeof *want);
    assert_memory_equal(want, resumed, count * sizeof *want);
    free(want), free(got), free(resumed);
  }
}

/* What is none changes nothing, and the window is still there. */
static void senseless_rates_are_refused(void **state) {
  (void)state;
  static const double rates[] = {-1, (double)NAN, (double)INFINITY};
  const corpus c = make_corpus();
  for (int k = 0; k < 6; k++) {
    own_rates own = {.first = rates[k % 3]};
    const ac_plan_desc plan = {.batch = 8,
                               .gradients = k < 3 ? AC_GRADIENTS_BUFFER : AC_GRADIENTS_FUSED_LOCAL};
    run r = start("cpu", &model, plan,
                  (ac_trainer_desc){.schedule = {.lr = 0.5}, .rate = own_rate, .user = &own});
    size_t count;
    float *before = all_parameters(&r, &count);
    assert_ok(feed(&r, &c, 0, 8));
    assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_ARGUMENT, "nothing was changed");
    float *after = all_parameters(&r, &count);
    assert_memory_equal(before, after, count * sizeof *before);
    own.first = 0;
    assert_ok(ac_trainer_update(r.trainer, NULL));
    free(before), free(after);
    stop(&r);
  }
}

/* Its rates are its own. */
static void a_range_test_asks_nobody(void **state) {
  (void)state;
  static float x[32], y[32];
  static const ac_field named[] = {{"x", AC_F32, 4}, {"y", AC_F32, 4}};
  const void *data[] = {x, y};
  own_rates own = {0};
  ac_dataset *dataset;
  ac_graph *g;
  ac_rate_point points[10];
  ac_rate_test test;
  for (int i = 0; i < 32; i++) x[i] = y[i] = (float)i / 32;
  assert_ok(ac_dataset_from_memory(&dataset, 8, 2, named, data));
  assert_ok(ac_graph_create(&g));
  ac_tensor *in = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 4)),
            *target = ac_input(g, "y", AC_F32, SHAPE(AC_BATCH, 4));
  in = ac_linear(in, ac_parameter(g, "w", SHAPE(4, 4), ZEROS), NULL, AC_OUT_IN);
  ac_graph_set_loss(g, ac_mean_squared_error(in, target, NULL));
  run r = {.device = open_device("cpu")};
  assert_ok(ac_plan_create(&r.plan, g, r.device,
                           &(ac_plan_desc){.batch = 4, .optimizer = {.kind = AC_SGD}}));
  assert_ok(ac_trainer_create(
      &r.trainer, r.plan,
      &(ac_trainer_desc){.schedule = {.lr = 0.5}, .rate = own_rate, .user = &own}));
  assert_ok(ac_trainer_test_rates(
      r.trainer, &(ac_rate_test_desc){.train = dataset, .least = 1e-6, .most = 1e-3, .updates = 10},
      points, &test));
  assert_true(own.asked == 0 && points[0].rate == 1e-6);
  assert_true(ac_trainer_rate(r.trainer) == 0.5 && own.asked == 1);
  stop(&r);
  ac_graph_free(g);
  ac_dataset_free(dataset);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void senseless_schedules_are_refused(void **state) {
  (void)state;
#define ONE .kind = AC_SCHEDULE_ONE_CYCLE, .total = 9
#define CYCLE .kind = AC_SCHEDULE_CYCLIC, .period = 9
  static const struct {
    ac_schedule schedule;
    const char *text;
  } bad[] = {
      {{.lr = (double)INFINITY}, "learning rates inf"},
      {{.min_lr = -1}, "learning rates 0.001 and -1"},
      {{.warmup = -1}, "warm-up -1"},
      {{.kind = AC_SCHEDULE_LINEAR}, "a linear schedule needs its number of updates"},
      {{.kind = AC_SCHEDULE_ONE_CYCLE}, "a one-cycle schedule needs its number of updates"},
      {{ONE, .warmup = 9}, "warm-up of 9 updates must be shorter than the 9"},
      {{.kind = AC_SCHEDULE_STABLE_DECAY}, "a stable-decay schedule needs its number of updates"},
      {{.kind = AC_SCHEDULE_COSINE_RESTARTS}, "a restarting schedule needs a period"},
      {{.kind = AC_SCHEDULE_CYCLIC, .period = -3}, "a cyclic schedule needs a period"},
      {{.kind = AC_SCHEDULE_STEP}, "a step schedule needs a period"},
      {{.kind = AC_SCHEDULE_STEP, .period = 2, .lr = 1, .min_lr = 2}, "above the learning rate 1"},
      {{.period_factor = -1}, "by -1"},
      {{.fall = -1}, "fall -1"},
      {{.decay = -1}, "decay -1"},
      {{.period = INT64_MAX}, "period 9223372036854775807"},
      {{.kind = AC_SCHEDULE_EXPONENTIAL}, "needs its gamma"},
      {{.gamma = -0.5}, "gamma -0.5 must be positive"},
      {{.gamma = (double)NAN}, "gamma nan"},
      {{.gamma = (double)INFINITY}, "gamma inf"},
      {{.kind = AC_SCHEDULE_PLATEAU, .gamma = 1}, "to reduce the rate; it is 1"},
      {{.kind = AC_SCHEDULE_MULTISTEP}, "1 to 16 milestones, not 0"},
      {{.kind = AC_SCHEDULE_MULTISTEP, .milestone_count = 17}, "not 17"},
      {{.kind = AC_SCHEDULE_MULTISTEP, .milestone_count = 1},
       "must be positive and increase; 0 does not"},
      {{.kind = AC_SCHEDULE_MULTISTEP, .milestones = {4, 4}, .milestone_count = 2},
       "increase; 4 does not"},
      {{ONE, .rise = 1.5}, "the part of a cycle that rises is 1.5; it must be at most 1"},
      {{ONE, .rise = 0.6, .three_phases = true}, "at most 0.5"},
      {{ONE, .rise = (double)NAN}, "that rises is nan"},
      {{ONE, .start_divisor = -1}, "the divisors -1 and 0"},
      {{ONE, .end_divisor = (double)INFINITY}, "the divisors 0 and inf"},
      {{ONE, .anneal = AC_ANNEAL_SQRT}, "not a square root"},
      {{ONE, .min_momentum = 0.96}, "between 0.96 and 0.95"},
      {{ONE, .max_momentum = 1}, "between 0.85 and 1:"},
      {{CYCLE, .min_momentum = (double)NAN}, "between nan and 0.9"},
      {{CYCLE, .max_momentum = -1}, "between 0.8 and 0:"},
      {{.anneal = (ac_anneal)7}, "unknown annealing 7"},
      {{.cycle = (ac_cycle)-1}, "cycle -1"},
      {{.kind = AC_SCHEDULE_STABLE_DECAY, .total = 9, .decay = 8, .warmup = 2},
       "a warm-up of 2 and a decay of 8 updates do not fit into 9"},
      {{.kind = AC_SCHEDULE_PLATEAU, .threshold = 1}, "the threshold 1 must be finite"},
      {{.kind = AC_SCHEDULE_PLATEAU, .threshold = (double)NAN}, "the threshold nan must be finite"},
      {{.scaling = (ac_rate_scaling)3, .base_batch = 1}, "unknown scaling 3"},
      {{.scaling = AC_RATE_SCALING_SQRT}, "give the batch that it is for"},
  };
  run r = start_scheduled(&(ac_schedule){0}, AC_ADAMW);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    ac_trainer *trainer;
    assert_refused(
        ac_trainer_create(&trainer, r.plan, &(ac_trainer_desc){.schedule = bad[i].schedule}),
        AC_ERROR_ARGUMENT, bad[i].text);
    assert_true(ac_schedule_rate(&bad[i].schedule, 1) == 0);
    assert_true(ac_schedule_momentum(&bad[i].schedule, 1) == -1);
  }
  stop(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rates_are_those_of_pytorch),
      cmocka_unit_test(zeros_are_defaults),
      cmocka_unit_test(a_cosine_keeps_its_bits),
      cmocka_unit_test(stable_decay_is_its_formula),
      cmocka_unit_test(inverse_sqrt_is_its_formula),
      cmocka_unit_test(an_end_is_an_end),
      cmocka_unit_test(a_warmup_leads_to_the_first_rate),
      cmocka_unit_test(a_plateau_has_limits),
      cmocka_unit_test(a_cycle_may_begin_at_its_top),
      cmocka_unit_test(far_updates_have_a_rate),
      cmocka_unit_test(any_update_has_a_rate),
      cmocka_unit_test(updates_are_those_of_pytorch),
      cmocka_unit_test(rates_follow_the_batch),
      cmocka_unit_test(an_update_tells_its_momentum),
      cmocka_unit_test(validations_reduce_the_rate),
      cmocka_unit_test(senseless_schedules_are_refused),
      cmocka_unit_test(a_caller_says_the_rate),
      cmocka_unit_test(senseless_rates_are_refused),
      cmocka_unit_test(a_range_test_asks_nobody),
  };
  return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
