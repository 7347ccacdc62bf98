/* What an update does with a window's gradients, against the formulas of window.h and
 * ops/update/optimizer.h in double: which parameters decay and how much, the factor, the first step
 * and those after it; gradients with squares that floats do not hold; the factor of the loss
 * gradient.
 */
#include "support/runs.h"

#include "window/trainer.h"

#include <float.h>
#include <math.h>

enum { BATCH = 4, IN = 3, OUT = 2, PARAMETERS = 3, LARGEST = OUT * IN, STEPS = 3 };

static const struct {
  const char *name;
  int64_t count, columns;
  bool decays, in_out;
} parameters[PARAMETERS] = {{"w", OUT *IN, IN, true, false},
                            {"b", OUT, OUT, false, false},
                            {"exempt", OUT *IN, OUT, false, true}};

/* No update changes these: one is frozen, of the other the loss knows nothing. */
static const char *const untrained[2] = {"frozen", "loose"};

/* y = tanh(x) (w + exempt^T + frozen)^T + b, mean squared error. */
static ac_graph *two_ways(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_tanh(ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, IN)));
  ac_tensor *w = ac_parameter(g, "w", SHAPE(OUT, IN), ZEROS);
  ac_tensor *b = ac_parameter(g, "b", SHAPE(OUT), NULL);
  ac_tensor *exempt =
      ac_parameter(g, "exempt", SHAPE(IN, OUT), &(ac_parameter_desc){.no_weight_decay = true});
  ac_parameter_desc desc = {.init = {AC_INIT_CONSTANT, .value = 0.125f}};
  ac_parameter(g, "loose", SHAPE(OUT, IN), &desc);
  desc.frozen = true;
  ac_tensor *frozen = ac_parameter(g, "frozen", SHAPE(OUT, IN), &desc);
  ac_tensor *y = ac_add(ac_linear(x, w, b, AC_OUT_IN), ac_linear(x, exempt, NULL, AC_IN_OUT));
  y = ac_add(y, ac_linear(x, frozen, NULL, AC_OUT_IN));
  ac_graph_set_loss(g,
                    ac_mean_squared_error(y, ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, OUT)), NULL));
  return g;
}

static run start_two_ways(const char *device, ac_plan_desc plan, ac_optimizer_desc optimizer,
                          ac_loss_scaling_desc scaling) {
  run r;
  ac_graph *graph = two_ways();
  plan.batch = BATCH;
  ac_trainer_desc desc = {
      .optimizer = optimizer, .schedule = {.lr = 0.05}, .loss_scaling = scaling};
  assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = device, .threads = 2}));
  assert_ok(ac_plan_create(&r.plan, graph, r.device, &plan));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, &desc));
  ac_graph_free(graph);
  for (int i = 0; i < PARAMETERS; i++) {
    float values[LARGEST];
    int index = ac_trainer_find_parameter(r.trainer, parameters[i].name);
    for (int k = 0; k < LARGEST; k++) values[k] = 0.5f - 0.3f * (float)k + 0.1f * (float)i;
    assert_ok(ac_trainer_set_parameter(r.trainer, index, 0, parameters[i].count, values));
  }
  return r;
}

static void feed_two_ways(run *r, float scale) {
  float x[BATCH * IN], t[BATCH * OUT];
  for (int i = 0; i < BATCH * IN; i++) x[i] = (float)(i % 5) * 0.25f - 0.4f;
  for (int i = 0; i < BATCH * OUT; i++) t[i] = scale * ((float)(i % 3) * 0.5f + 0.3f);
  ac_feed feeds[] = {{"x", x}, {"t", t}};
  assert_ok(ac_trainer_accumulate(r->trainer, BATCH, feeds, 2));
}

static void read_all(run *r, bool gradients, float values[PARAMETERS][LARGEST]) {
  for (int i = 0; i < PARAMETERS; i++) {
    int index = ac_trainer_find_parameter(r->trainer, parameters[i].name);
    assert_ok((gradients ? ac_trainer_get_gradient : ac_trainer_get_parameter)(
        r->trainer, index, 0, parameters[i].count, values[i]));
  }
}

/* ---- steps ----------------------------------------------------------------------------------- */

typedef struct state {
  double p, m, v;
} state;

static void step_adamw(state *s, double g, double decay, double rate, int t) {
  const double beta1 = 0.8, beta2 = 0.95, epsilon = 1e-3;
  s->p -= rate * decay * s->p;
  s->m = beta1 * s->m + (1 - beta1) * g;
  s->v = beta2 * s->v + (1 - beta2) * g * g;
  s->p -= rate * s->m / (1 - pow(beta1, t)) / (sqrt(s->v / (1 - pow(beta2, t))) + epsilon);
}

static void step_sgd(state *s, double g, double decay, double rate, int t, double momentum,
                     bool nesterov) {
  g += decay * s->p;
  s->m = t == 1 ? g : momentum * s->m + g;
  s->p -= rate * (nesterov ? g + momentum * s->m : s->m);
}

static void step_lion(state *s, double g, double decay, double rate) {
  const double beta1 = 0.8, beta2 = 0.95, direction = beta1 * s->m + (1 - beta1) * g;
  s->p -= rate * decay * s->p;
  s->p -= direction > 0 ? rate : direction < 0 ? -rate : 0;
  s->m = beta2 * s->m + (1 - beta2) * g;
}

/* Of a matrix [count / columns, columns]: its moments are the `m` of each row's first element and
 * the `v` of the first row's; or of a vector of one row. */
static void step_adafactor(state *s, const double *g, int count, int columns, double decay,
                           double rate, int t) {
  const double take = pow(t, -0.8), rows = (double)count / columns;
  double old[LARGEST], u[LARGEST], size = 0, mean = 0, update = 0;
  for (int e = 0; e < count; e++) old[e] = s[e].m, u[e] = s[e].v, size += s[e].p * s[e].p / count;
  for (int e = 0; e < count; e++) {
    const int row = e - e % columns, column = e % columns;
    s[row].m += take * (g[e] * g[e] - old[row]) / columns;
    s[column].v += take * (g[e] * g[e] - u[column]) / rows;
  }
  for (int e = 0; e < count; e += columns) mean += s[e].m / rows;
  for (int e = 0; e < count; e++) {
    const double row = count > columns ? s[e - e % columns].m / fmax(mean, 0x1p-23) : 1;
    u[e] = g[e] / sqrt(fmax(row * s[e % columns].v, 0x1p-46));
    update += u[e] * u[e] / count;
  }
  const double step = fmax(1e-3, sqrt(size)) * fmin(rate, 1 / sqrt(t)) / fmax(1, sqrt(update));
  for (int e = 0; e < count; e++) s[e].p -= rate * decay * s[e].p + step * u[e];
}

/* X = u / |u|, and five times X = 3.4445 X - 4.775 A X + 2.0315 A A X with A = X X^T. */
static void orthogonalise(double *x, int rows, int columns) {
  double size = 0;
  for (int e = 0; e < rows * columns; e++) size += x[e] * x[e];
  for (int e = 0; e < rows * columns; e++) x[e] /= sqrt(size);
  for (int k = 0; k < 5; k++) {
    double a[IN][IN] = {{0}}, once[LARGEST] = {0}, twice[LARGEST] = {0};
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < rows; j++)
        for (int c = 0; c < columns; c++) a[i][j] += x[i * columns + c] * x[j * columns + c];
    for (int e = 0; e < rows * columns; e++)
      for (int j = 0; j < rows; j++) once[e] += a[e / columns][j] * x[j * columns + e % columns];
    for (int e = 0; e < rows * columns; e++)
      for (int j = 0; j < rows; j++)
        twice[e] += a[e / columns][j] * once[j * columns + e % columns];
    for (int e = 0; e < rows * columns; e++)
      x[e] = 3.4445 * x[e] - 4.775 * once[e] + 2.0315 * twice[e];
  }
}

/* Of a matrix with two outputs and three inputs. */
static void step_muon(state *s, const double *g, int count, int columns, double decay, double rate,
                      double momentum, bool nesterov, bool original) {
  double x[LARGEST];
  for (int e = 0; e < count; e++) {
    s[e].m = momentum * s[e].m + (1 - momentum) * g[e];
    x[e] = nesterov ? momentum * s[e].m + (1 - momentum) * g[e] : s[e].m;
  }
  orthogonalise(x, count / columns, columns);
  const double scale = original ? 1 : 0.2 * sqrt(3);
  for (int e = 0; e < count; e++) s[e].p -= rate * decay * s[e].p + rate * scale * x[e];
}

/* The `v` of a block's first element is the block's: of a row, a column, or all of a vector. */
static void step_adam_mini(state *s, const double *g, int count, int columns, bool by_column,
                           double decay, double rate, int t) {
  const double beta1 = 0.8, beta2 = 0.95, epsilon = 1e-3;
  const int terms = by_column ? count / columns : columns;
  double squares[LARGEST] = {0};
  for (int e = 0; e < count; e++)
    squares[by_column ? e % columns : e - e % columns] += g[e] * g[e] / terms;
  for (int e = 0; e < count; e++) {
    const int block = by_column ? e % columns : e - e % columns;
    if (block == e) s[e].v = beta2 * s[e].v + (1 - beta2) * squares[e];
    s[e].p -= rate * decay * s[e].p;
    s[e].m = beta1 * s[e].m + (1 - beta1) * g[e];
    s[e].p -=
        rate * s[e].m / (1 - pow(beta1, t)) / (sqrt(s[block].v / (1 - pow(beta2, t))) + epsilon);
  }
}

typedef struct kind {
  ac_optimizer_kind optimizer;
  bool no_momentum, nesterov;
  double decay, clip;
  bool original;
} kind;

static void step_element(const kind *k, state *s, double g, double decay, int t) {
  if (k->optimizer == AC_ADAMW) step_adamw(s, g, decay, 0.05, t);
  else if (k->optimizer == AC_LION) step_lion(s, g, decay, 0.05);
  else step_sgd(s, g, decay, 0.05, t, k->no_momentum ? 0 : 0.7, k->nesterov);
}

static void step(const kind *k, state *s, int parameter, const double *g, int t) {
  const int count = (int)parameters[parameter].count, columns = (int)parameters[parameter].columns;
  const double decay = parameters[parameter].decays ? k->decay : 0;
  if (k->optimizer == AC_ADAFACTOR) step_adafactor(s, g, count, columns, decay, 0.05, t);
  else if (k->optimizer == AC_ADAM_MINI)
    step_adam_mini(s, g, count, columns, parameters[parameter].in_out, decay, 0.05, t);
  else if (k->optimizer == AC_MUON && columns < count)
    step_muon(s, g, count, columns, decay, 0.05, 0.7, k->nesterov, k->original);
  else if (k->optimizer == AC_MUON)
    for (int e = 0; e < count; e++)
      step_adamw(&s[e], g[e], decay, 0.05 * (k->original ? 0.015 : 1), t);
  else
    for (int e = 0; e < count; e++) step_element(k, &s[e], g[e], decay, t);
}

static void assert_untrained(run *r) {
  for (int i = 0; i < 2; i++) {
    const int index = ac_trainer_find_parameter(r->trainer, untrained[i]);
    float values[OUT * IN];
    assert_refused(ac_trainer_get_gradient(r->trainer, index, 0, OUT * IN, values),
                   AC_ERROR_ARGUMENT, "is frozen or the loss does not depend on it");
    assert_ok(ac_trainer_get_parameter(r->trainer, index, 0, OUT * IN, values));
    for (int k = 0; k < OUT * IN; k++) assert_true(values[k] == 0.125f);
    assert_true(ac_trainer_gradient_norm(r->trainer, index) == 0);
  }
}

/* A few units in the last place of values near one, or of larger ones, an update after the other.
 * `scale`: of the targets, and so about that of the gradients. */
static void check_steps(const char *device, const kind *k, double scale) {
  run r = start_two_ways(
      device,
      (ac_plan_desc){.optimizer = {.kind = k->optimizer, .sgd_no_momentum = k->no_momentum}},
      (ac_optimizer_desc){.beta1 = 0.8,
                          .beta2 = 0.95,
                          .epsilon = 1e-3,
                          .momentum = 0.7,
                          .nesterov = k->nesterov,
                          .muon_no_nesterov = !k->nesterov,
                          .muon_scale = k->original ? AC_MUON_ORIGINAL : AC_MUON_MATCH_ADAMW,
                          .weight_decay = k->decay,
                          .clip = k->clip},
      (ac_loss_scaling_desc){0});
  float values[PARAMETERS][LARGEST], gradients[PARAMETERS][LARGEST];
  state states[PARAMETERS][LARGEST] = {{{0}}};
  read_all(&r, false, values);
  for (int i = 0; i < PARAMETERS; i++)
    for (int e = 0; e < parameters[i].count; e++) states[i][e].p = (double)values[i][e];
  for (int t = 1; t <= STEPS; t++) {
    ac_update update;
    feed_two_ways(&r, (float)scale);
    read_all(&r, true, gradients);
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_true(update.finite_loss && update.finite_gradient && !update.skipped);
    double squares = 0;
    for (int i = 0; i < PARAMETERS; i++)
      for (int e = 0; e < parameters[i].count; e++)
        squares += (double)gradients[i][e] * (double)gradients[i][e];
    double norm = sqrt(squares) / BATCH, factor = 1.0 / BATCH;
    if (t == 1 && scale != 1) assert_true(squares > (double)FLT_MAX);
    assert_true(update.weight == BATCH && fabs(update.grad_norm - norm) <= 1e-5 * norm);
    if (k->clip > 0) {
      assert_true(norm > k->clip);
      factor *= k->clip / norm;
    }
    read_all(&r, false, values);
    for (int i = 0; i < PARAMETERS; i++) {
      double scaled[LARGEST];
      for (int e = 0; e < parameters[i].count; e++) scaled[e] = factor * (double)gradients[i][e];
      step(k, states[i], i, scaled, t);
      for (int e = 0; e < parameters[i].count; e++) {
        const state *s = &states[i][e];
        if (!(fabs(s->p - (double)values[i][e]) <= 2e-6 * fmax(1, fabs(s->p))))
          fail_msg("%s, update %d, %s[%d]: %.9g, expected %.9g", device, t, parameters[i].name, e,
                   (double)values[i][e], s->p);
      }
    }
  }
  assert_untrained(&r);
  stop(&r);
}

static void steps_are_those_of_the_formulas(const char *device) {
  static const kind kinds[] = {
      {AC_ADAMW, false, false, 0.3, -1, false},     {AC_ADAMW, false, false, 0, 0.05, false},
      {AC_SGD, true, false, 0.3, -1, false},        {AC_SGD, false, false, 0.3, 0.05, false},
      {AC_SGD, false, true, 0.3, -1, false},        {AC_LION, false, false, 0.3, 0.05, false},
      {AC_LION, false, false, 0, -1, false},        {AC_ADAFACTOR, false, false, 0.3, 0.05, false},
      {AC_ADAFACTOR, false, false, 0, -1, false},   {AC_MUON, false, true, 0.3, 0.05, false},
      {AC_MUON, false, false, 0.3, -1, false},      {AC_MUON, false, true, 0, -1, true},
      {AC_ADAM_MINI, false, false, 0.3, -1, false}, {AC_ADAM_MINI, false, false, 0, 0.05, false},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    check_steps(device, &kinds[i], 1);
    /* A loss of about 1e38. Floats hold the squares of the mean's gradients, not of the sum's. */
    check_steps(device, &kinds[i], 5e18);
  }
}
ON_EVERY_DEVICE(steps_are_those_of_the_formulas)

/* In bf16 a device that multiplies it keeps the factors of Muon's products so: steps are then off
 * by a few of its roundings, which nothing else of a step is. */
static void muon_multiplies_in_the_precision(const char *device) {
  run r = start_two_ways(
      device, (ac_plan_desc){.optimizer = {.kind = AC_MUON}, .precision = AC_PRECISION_BF16},
      (ac_optimizer_desc){.momentum = 0.7, .weight_decay = -1, .clip = -1},
      (ac_loss_scaling_desc){0});
  const bool rounds = strcmp(ac_device_get_info(r.device)->bf16_products, "as floats") != 0;
  float values[PARAMETERS][LARGEST], gradients[PARAMETERS][LARGEST];
  state states[LARGEST] = {{0}};
  double scaled[LARGEST], off = 0;
  read_all(&r, false, values);
  for (int e = 0; e < parameters[0].count; e++) states[e].p = (double)values[0][e];
  feed_two_ways(&r, 1);
  read_all(&r, true, gradients);
  assert_ok(ac_trainer_update(r.trainer, NULL));
  for (int e = 0; e < parameters[0].count; e++) scaled[e] = (double)gradients[0][e] / BATCH;
  const kind muon = {AC_MUON, false, true, 0, -1, false};
  step(&muon, states, 0, scaled, 1);
  read_all(&r, false, values);
  for (int e = 0; e < parameters[0].count; e++)
    off = fmax(off, fabs(states[e].p - (double)values[0][e]));
  const double step_size = 0.05 * 0.2 * sqrt(3);
  if (!(rounds ? off > 0x1p-12 * step_size && off < 0.1 * step_size : off <= 2e-6))
    fail_msg("%s: off by %g of a step", device, off / step_size);
  stop(&r);
}
ON_EVERY_DEVICE(muon_multiplies_in_the_precision)

static void muon_multiplies_by_matrix_units(void **state_) {
  (void)state_;
  setenv("ACCRUE_PRODUCTS", "mma", 1);
  on_every_device(muon_multiplies_in_the_precision);
  unsetenv("ACCRUE_PRODUCTS");
}

static void settings_of_muon_are_checked(void **state_) {
  (void)state_;
  static const struct {
    ac_optimizer_desc optimizer;
    const char *sentence;
  } refused[] = {
      {{.muon_scale = (ac_muon_scale)2}, "unknown scale of Muon's steps 2"},
      {{.momentum = 1}, "rate of AdamW 1 must be finite and the momentum 1 below 1"},
      {{.adamw_rate = (double)INFINITY}, "rate of AdamW inf must be finite"},
      {{.beta2 = 1}, "beta1 0.9 and beta2 1 must be below 1"},
  };
  run r = start_two_ways("cpu", (ac_plan_desc){.optimizer = {.kind = AC_MUON}},
                         (ac_optimizer_desc){0}, (ac_loss_scaling_desc){0});
  ac_trainer *other;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    assert_refused(
        ac_trainer_create(&other, r.plan, &(ac_trainer_desc){.optimizer = refused[i].optimizer}),
        AC_ERROR_ARGUMENT, refused[i].sentence);
  stop(&r);
}

/* ---- scales ---------------------------------------------------------------------------------- */

/* The loss scale is that of the window's mean: with the weight that a whole window has, the factor
 * of the loss gradient comes to the scale, up to a power of two. */
static void the_factor_is_the_scale_by_the_windows_rows(void **state_) {
  (void)state_;
  const double rows[] = {BATCH, 23 * CONTEXT};
  for (int k = 0; k < 2; k++) {
    ac_loss_scaling_desc scaling = {.kind = AC_LOSS_SCALING_STATIC, .scale = 1024};
    run r = k ? start("cpu", &model, (ac_plan_desc){.batch = 23},
                      (ac_trainer_desc){.schedule = {.lr = 1e-3}, .loss_scaling = scaling})
              : start_two_ways("cpu", (ac_plan_desc){0}, (ac_optimizer_desc){0}, scaling);
    double whole = (double)r.trainer->instance.run.loss_scale * rows[k];
    assert_true(whole > 512 && whole <= 1024);
    stop(&r);
  }
}

/* ---- deciding -------------------------------------------------------------------------------- */

typedef struct decider {
  double factor; /* 0: that of the library */
  bool skip, meddle;
  ac_decision seen;
  double norms[PARAMETERS];
  float gradients[PARAMETERS][LARGEST];
} decider;

/* The window's gradients are there to be read, and nothing else may be done. */
static void decide(void *user, ac_trainer *trainer, ac_decision *decision) {
  decider *d = user;
  run r = {.trainer = trainer};
  d->seen = *decision;
  read_all(&r, true, d->gradients);
  for (int i = 0; i < PARAMETERS; i++)
    d->norms[i] =
        ac_trainer_gradient_norm(trainer, ac_trainer_find_parameter(trainer, parameters[i].name));
  if (d->meddle) {
    const float x[IN] = {0}, t[OUT] = {0};
    const ac_feed feeds[] = {{"x", x}, {"t", t}};
    char text[64];
    assert_refused(ac_trainer_accumulate(trainer, 1, feeds, 2), AC_ERROR_STATE, "being decided");
    assert_refused(ac_trainer_update(trainer, NULL), AC_ERROR_STATE, "being decided");
    assert_refused(ac_trainer_set_parameter(trainer, 0, 0, 1, x), AC_ERROR_STATE, "being decided");
    assert_refused(ac_trainer_load(trainer, "x", NULL), AC_ERROR_STATE, "being decided");
    assert_refused(ac_trainer_locate_nonfinite(trainer, 1, feeds, 2, text, sizeof text),
                   AC_ERROR_STATE, "being decided");
    ac_trainer_discard(trainer);
  }
  if (d->factor != 0) decision->factor = d->factor;
  decision->skip = d->skip;
}

/* Plain SGD, so that a step is the gradient by rate and factor. */
static run start_deciding(const char *device, decider *d, double clip) {
  run r;
  ac_graph *graph = two_ways();
  ac_plan_desc plan = {.batch = BATCH, .optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}};
  ac_trainer_desc desc = {
      .optimizer = {.clip = clip}, .schedule = {.lr = 0.05}, .decide = decide, .user = d};
  assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = device, .threads = 2}));
  assert_ok(ac_plan_create(&r.plan, graph, r.device, &plan));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, &desc));
  ac_graph_free(graph);
  return r;
}

static void the_caller_decides(const char *device) {
  for (int k = 0; k < 4; k++) {
    decider d = {.factor = k == 1 ? 0.25 : 0, .skip = k == 2, .meddle = k == 0};
    double clip = k == 3 ? 0.05 : 0;
    run r = start_deciding(device, &d, clip);
    float before[PARAMETERS][LARGEST] = {{0}}, after[PARAMETERS][LARGEST] = {{0}};
    ac_update update;
    read_all(&r, false, before);
    feed_two_ways(&r, 1);
    assert_ok(ac_trainer_update(r.trainer, &update));
    read_all(&r, false, after);
    double squares = 0, factor = k == 1 ? 0.25 : k == 2 ? 0 : k == 3 ? clip / update.grad_norm : 1;
    for (int i = 0; i < PARAMETERS; i++) squares += d.norms[i] * d.norms[i];
    assert_true(d.seen.finite && !d.seen.skip && d.seen.weight == BATCH);
    assert_true(d.seen.loss == update.loss && d.seen.grad_norm == update.grad_norm);
    assert_true(fabs(sqrt(squares) - update.grad_norm) <= 1e-6 * update.grad_norm);
    assert_true(fabs(d.seen.factor - (k == 3 ? factor : 1)) <= 1e-12);
    assert_true(update.skipped == (k == 2) && update.update == (k != 2) && !update.stuck);
    for (int i = 0; i < PARAMETERS; i++)
      for (int e = 0; e < parameters[i].count; e++) {
        double expected =
            (double)before[i][e] - 0.05 * factor * (double)d.gradients[i][e] / (double)BATCH;
        assert_true(fabs(expected - (double)after[i][e]) <= 1e-6);
      }
    stop(&r);
  }
}
ON_EVERY_DEVICE(the_caller_decides)

/* The window is still there, and can be decided anew. */
static void a_factor_that_is_no_number_changes_nothing(void **state_) {
  (void)state_;
  const double factors[] = {(double)NAN, (double)INFINITY, -1, 1e300};
  for (int k = 0; k < 4; k++) {
    decider d = {.factor = factors[k]};
    run r = start_deciding("cpu", &d, 0);
    float before[PARAMETERS][LARGEST] = {{0}}, after[PARAMETERS][LARGEST] = {{0}};
    read_all(&r, false, before);
    feed_two_ways(&r, 1);
    assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_ARGUMENT, "multiplied by");
    read_all(&r, false, after);
    assert_memory_equal(before, after, sizeof before);
    d.factor = 0;
    ac_update update;
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_true(update.update == 1 && !update.skipped);
    stop(&r);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_caller_decides_everywhere),
      cmocka_unit_test(a_factor_that_is_no_number_changes_nothing),
      cmocka_unit_test(steps_are_those_of_the_formulas_everywhere),
      cmocka_unit_test(muon_multiplies_in_the_precision_everywhere),
      cmocka_unit_test(muon_multiplies_by_matrix_units),
      cmocka_unit_test(settings_of_muon_are_checked),

      cmocka_unit_test(the_factor_is_the_scale_by_the_windows_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
