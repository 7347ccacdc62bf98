/* Constants of updates that are near 1, or near 0 as 1 less such a one: each optimizer, in each way
 * of taking in gradients, against its formulas in double, which PyTorch's results follow to
 * rounding. And what is there before the first update: momenta and a number of updates that were
 * set, which count as PyTorch's do after load_state_dict. */
#include "support/runs.h"

#include <math.h>

enum { OUT = 2, IN = 3, COUNT = OUT * IN, BATCH = 2, UPDATES = 100 };

/* y = x w^T, mean squared error. Against targets so far away that no step changes the gradient. */
static ac_graph *far_away(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, IN));
  ac_tensor *w = ac_parameter(g, "w", SHAPE(OUT, IN), ZEROS);
  ac_graph_set_loss(g, ac_mean_squared_error(ac_linear(x, w, NULL, AC_OUT_IN),
                                             ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, OUT)), NULL));
  return g;
}

static const double inputs[IN] = {0x1p-19, 0x3p-20, 0x1p-20}, targets[OUT] = {-0x1p17, 0x1p18};

/* d/dw of the mean over samples of sum_o (y_o - t_o)^2 / OUT; y is tiny compared with t. */
static double gradient(int e) {
  return -2.0 / OUT * targets[e / IN] * inputs[e % IN];
}

static void feed_window(run *r) {
  float x[BATCH * IN], t[BATCH * OUT];
  for (int i = 0; i < BATCH * IN; i++) x[i] = (float)inputs[i % IN];
  for (int i = 0; i < BATCH * OUT; i++) t[i] = (float)targets[i % OUT];
  ac_feed feeds[] = {{"x", x}, {"t", t}};
  assert_ok(ac_trainer_accumulate(r->trainer, BATCH, feeds, 2));
}

static void step_window(run *r) {
  feed_window(r);
  assert_ok(ac_trainer_update(r->trainer, NULL));
}

static run begin(ac_device *device, ac_plan_desc plan, ac_trainer_desc desc) {
  static const float zeros[COUNT];
  plan.batch = BATCH;
  run r = run_of(device, far_away(), &plan, &desc);
  assert_ok(ac_trainer_set_parameter(r.trainer, 0, 0, COUNT, zeros));
  return r;
}

static void end(run *r) {
  ac_trainer_free(r->trainer);
  ac_plan_free(r->plan);
}

/* ---- every optimizer, every way -------------------------------------------------------------- */

typedef struct way {
  const char *name;
  ac_plan_desc plan;
} way;

static const way ways[] = {
    {"buffer", {.gradients = AC_GRADIENTS_BUFFER}},
    {"buffer, two micro-batches", {.gradients = AC_GRADIENTS_BUFFER, .micro_batch = 1}},
    {"8 bits", {.gradients = AC_GRADIENTS_BUFFER, .optimizer = {.state = AC_STATE_8BIT}}},
    {"fused", {.gradients = AC_GRADIENTS_FUSED}},
    {"fused-local", {.gradients = AC_GRADIENTS_FUSED_LOCAL}},
    {"folded", {.gradients = AC_GRADIENTS_FOLDED}},
    {"folded, two micro-batches", {.gradients = AC_GRADIENTS_FOLDED, .micro_batch = 1}},
};

static const struct {
  const char *name;
  ac_optimizer_kind kind;
  bool eight_bit, folds;
} optimizers[] = {{"AdamW", AC_ADAMW, true, true},
                  {"SGD", AC_SGD, true, true},
                  {"Lion", AC_LION, true, false},
                  {"Muon", AC_MUON, false, true},
                  {"Adam-mini", AC_ADAM_MINI, false, false}};

/* Of all elements, after so many updates of constant gradients. */
typedef struct expected {
  double w[COUNT], first[COUNT], second[COUNT]; /* of Adam-mini's second, a row's */
} expected;

/* `parts`: micro-batches; folding adds up their squares instead of squaring their sum. */
static expected expect(ac_optimizer_kind kind, double beta, double rate, int parts) {
  expected x = {{0}, {0}, {0}};
  for (int t = 1; t <= UPDATES; t++)
    for (int e = 0; e < COUNT; e++) {
      const double g = gradient(e);
      double square = g * g / parts;
      if (kind == AC_ADAM_MINI) {
        const int row = e - e % IN;
        square = 0;
        for (int k = row; k < row + IN; k++) square += gradient(k) * gradient(k) / IN;
      }
      if (kind == AC_SGD) x.first[e] = beta * x.first[e] + g;
      else x.first[e] += (1 - beta) * (g - x.first[e]);
      x.second[e] += (1 - beta) * (square - x.second[e]);
      if (kind == AC_SGD) x.w[e] -= rate * x.first[e];
      else if (kind == AC_LION) x.w[e] -= g > 0 ? rate : -rate;
      else
        x.w[e] -= rate * x.first[e] / (1 - pow(beta, t)) /
                  (sqrt(x.second[e] / (1 - pow(beta, t))) + 1e-8);
    }
  return x;
}

static void assert_all_near(const char *what, const float *is, const double *want, int count) {
  /* A hundred sums in floats; each rounds by half a unit in the last place at most. */
  const double tolerance = UPDATES * 0x1p-24;
  for (int e = 0; e < count; e++)
    if (!(fabs((double)is[e] - want[e]) <= tolerance * fabs(want[e])))
      fail_msg("%s [%d]: %.9g, expected %.9g", what, e, (double)is[e], want[e]);
}

static void check_way(ac_device *device, int optimizer, const way *way, double beta) {
  const ac_optimizer_kind kind = optimizers[optimizer].kind;
  const bool eight_bit = way->plan.optimizer.state == AC_STATE_8BIT,
             folds = way->plan.gradients == AC_GRADIENTS_FOLDED;
  const double rate = 0x1p-10;
  char what[128];
  float values[COUNT];
  if ((eight_bit && !optimizers[optimizer].eight_bit) || (folds && !optimizers[optimizer].folds))
    return;
  ac_plan_desc plan = way->plan;
  plan.optimizer.kind = kind;
  run r = begin(device, plan,
                (ac_trainer_desc){.optimizer = {.beta1 = beta,
                                                .beta2 = beta,
                                                .momentum = beta,
                                                .muon_no_nesterov = true,
                                                .weight_decay = -1},
                                  .schedule = {.lr = rate}});
  const expected want = expect(kind, beta, rate, folds && way->plan.micro_batch ? BATCH : 1);
  for (int t = 0; t < UPDATES; t++) step_window(&r);
  snprintf(what, sizeof what, "%s, %s, beta %.12g", optimizers[optimizer].name, way->name, beta);
  assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, COUNT, values));
  /* What 8 bits lose is more than any of this; a step of Muon's is of one size at any momentum. */
  if (kind != AC_MUON && !eight_bit) assert_all_near(what, values, want.w, COUNT);
  strcat(what, ", state");
  assert_ok(ac_trainer_get_state(r.trainer, 0, 0, 0, COUNT, values));
  if (!eight_bit) assert_all_near(what, values, want.first, COUNT);
  if (kind == AC_ADAMW && !eight_bit) {
    assert_ok(ac_trainer_get_state(r.trainer, 0, 1, 0, COUNT, values));
    assert_all_near(what, values, want.second, COUNT);
  }
  if (kind == AC_ADAM_MINI)
    for (int row = 0; row < OUT; row++) {
      assert_ok(ac_trainer_get_state(r.trainer, 0, 1, row, 1, values));
      assert_all_near(what, values, want.second + row * IN, 1);
    }
  end(&r);
}

/* In 8 bits the largest value of a block is exact, and the first step is made before rounding. */
static void check_eight_bit(ac_device *device, double beta) {
  const double rate = 0x1p-10, take = 1 - beta;
  float w[COUNT], first[COUNT], second[COUNT];
  int largest = 0;
  run r =
      begin(device,
            (ac_plan_desc){.gradients = AC_GRADIENTS_BUFFER, .optimizer = {.state = AC_STATE_8BIT}},
            (ac_trainer_desc){.optimizer = {.beta1 = beta, .beta2 = beta, .weight_decay = -1},
                              .schedule = {.lr = rate}});
  step_window(&r);
  assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, COUNT, w));
  assert_ok(ac_trainer_get_state(r.trainer, 0, 0, 0, COUNT, first));
  assert_ok(ac_trainer_get_state(r.trainer, 0, 1, 0, COUNT, second));
  for (int e = 0; e < COUNT; e++) {
    const double step = -copysign(rate, gradient(e));
    if (fabs(gradient(e)) > fabs(gradient(largest))) largest = e;
    if (!(fabs((double)w[e] - step) <= 1e-6 * rate))
      fail_msg("8 bits, beta %.12g: a step of %.9g, not %.9g", beta, (double)w[e], step);
  }
  const double g = gradient(largest);
  assert_true(fabs((double)first[largest] - take * g) <= 1e-6 * fabs(take * g));
  assert_true(fabs((double)second[largest] - take * g * g) <= 1e-6 * take * g * g);
  end(&r);
}

static void betas_near_one(const char *name) {
  static const double betas[] = {0.9, 0.999, 0.9999, 0.99999, 0.999999, 0.99999999, 1 - 0x1p-40};
  ac_device *device = open_device(name);
  const bool all = ac_device_get_info(device)->backend[0] == 'c';
  for (size_t b = 0; b < sizeof betas / sizeof *betas; b += all ? 1 : 3) {
    check_eight_bit(device, betas[b]);
    for (size_t k = 0; k < sizeof optimizers / sizeof *optimizers; k++)
      for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        check_way(device, (int)k, &ways[i], betas[b]);
  }
  ac_device_close(device);
}
ON_EVERY_DEVICE(betas_near_one)

/* ---- averages -------------------------------------------------------------------------------- */

/* Of weights that grow from 0: what rounding is left is that of sums, in which a factor that does
 * not sum to 1 with the other would show as a bias of a few 1e-5. */
static void averages_have_no_bias(const char *name) {
  static const double decays[] = {0.999, 0.99999};
  static const ac_gradients gradients[] = {AC_GRADIENTS_BUFFER, AC_GRADIENTS_FUSED_LOCAL};
  enum { LONG = 4000 };
  ac_device *device = open_device(name);
  for (int k = 0; k < 4; k++) {
    const double decay = decays[k / 2];
    double average[COUNT] = {0};
    float values[COUNT];
    run r = begin(device,
                  (ac_plan_desc){.optimizer = {.kind = AC_SGD, .sgd_no_momentum = true},
                                 .gradients = gradients[k % 2],
                                 .average = true},
                  (ac_trainer_desc){.schedule = {.lr = 1e-3}, .average_decay = decay});
    for (int t = 0; t < LONG; t++) {
      step_window(&r);
      assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, COUNT, values));
      for (int e = 0; e < COUNT; e++)
        average[e] += (t ? 1 - decay : 1) * ((double)values[e] - average[e]);
    }
    assert_ok(ac_trainer_use_average(r.trainer, true));
    assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, COUNT, values));
    for (int e = 0; e < COUNT; e++)
      if (!(fabs((double)values[e] - average[e]) <= 2e-6 * fabs(average[e])))
        fail_msg("%s, decay %g: an average of %.9g, expected %.9g", name, decay, (double)values[e],
                 average[e]);
    end(&r);
  }
  ac_device_close(device);
}
ON_EVERY_DEVICE(averages_have_no_bias)

/* ---- what was there before ------------------------------------------------------------------- */

/* PyTorch: buf = momentum buf + g, where a buffer of 1 was loaded. */
static void a_momentum_that_was_set_counts(const char *name) {
  ac_device *device = open_device(name);
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    ac_plan_desc plan = ways[i].plan;
    float values[COUNT], ones[COUNT];
    double want[COUNT], momenta[COUNT];
    for (int e = 0; e < COUNT; e++) {
      ones[e] = 1;
      momenta[e] = 0.9 + gradient(e);
      want[e] = -0.1 * momenta[e];
    }
    plan.optimizer.kind = AC_SGD;
    run r = begin(device, plan, (ac_trainer_desc){.schedule = {.lr = 0.1}});
    assert_ok(ac_trainer_set_state(r.trainer, 0, 0, 0, COUNT, ones));
    step_window(&r);
    assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, COUNT, values));
    assert_all_near(ways[i].name, values, want, COUNT);
    assert_ok(ac_trainer_get_state(r.trainer, 0, 0, 0, COUNT, values));
    if (plan.optimizer.state != AC_STATE_8BIT)
      assert_all_near(ways[i].name, values, momenta, COUNT);
    end(&r);
  }
  ac_device_close(device);
}
ON_EVERY_DEVICE(a_momentum_that_was_set_counts)

static void take_over(run *to, run *from) {
  float values[COUNT];
  assert_ok(ac_trainer_get_parameter(from->trainer, 0, 0, COUNT, values));
  assert_ok(ac_trainer_set_parameter(to->trainer, 0, 0, COUNT, values));
  for (int k = 0; k < 2; k++) {
    assert_ok(ac_trainer_get_state(from->trainer, 0, k, 0, COUNT, values));
    assert_ok(ac_trainer_set_state(to->trainer, 0, k, 0, COUNT, values));
  }
}

/* With the number of updates, moments from elsewhere go on as if they had never left. */
static void moments_are_imported(const char *name) {
  ac_device *device = open_device(name);
  for (int average = 0; average < 2; average++) {
    const ac_plan_desc plan = {.average = average};
    const ac_trainer_desc desc = {.schedule = {.lr = 0.01}, .average_decay = 0.75};
    float own[COUNT], other[COUNT], before[COUNT];
    ac_progress progress;
    run a = begin(device, plan, desc), b = begin(device, plan, desc);
    for (int t = 0; t < 5; t++) step_window(&a);
    take_over(&b, &a);
    assert_ok(ac_trainer_set_updates(b.trainer, 5));
    assert_ok(ac_trainer_get_parameter(b.trainer, 0, 0, COUNT, before));
    step_window(&a);
    step_window(&b);
    assert_ok(ac_trainer_get_parameter(a.trainer, 0, 0, COUNT, own));
    assert_ok(ac_trainer_get_parameter(b.trainer, 0, 0, COUNT, other));
    assert_memory_equal(own, other, sizeof own);
    assert_ok(ac_trainer_get_progress(b.trainer, &progress));
    assert_int_equal(progress.updates, 6);
    if (average) {
      double want[COUNT];
      for (int e = 0; e < COUNT; e++) want[e] = 0.75 * (double)before[e] + 0.25 * (double)other[e];
      assert_ok(ac_trainer_use_average(b.trainer, true));
      assert_ok(ac_trainer_get_parameter(b.trainer, 0, 0, COUNT, own));
      assert_all_near("average", own, want, COUNT);
    }
    end(&a);
    end(&b);
  }
  ac_device_close(device);
}
ON_EVERY_DEVICE(moments_are_imported)

static void numbers_of_updates_are_checked(void **state) {
  (void)state;
  ac_device *device = open_device("cpu");
  run r = begin(device, (ac_plan_desc){.average = true}, (ac_trainer_desc){0});
  assert_refused(ac_trainer_set_updates(r.trainer, -1), AC_ERROR_ARGUMENT, "it is -1");
  assert_refused(ac_trainer_set_updates(r.trainer, INT64_MAX), AC_ERROR_ARGUMENT, "updates");
  feed_window(&r);
  assert_refused(ac_trainer_set_updates(r.trainer, 1), AC_ERROR_STATE, "window is in progress");
  assert_ok(ac_trainer_update(r.trainer, NULL));
  assert_ok(ac_trainer_use_average(r.trainer, true));
  assert_refused(ac_trainer_set_updates(r.trainer, 1), AC_ERROR_STATE, "averages");
  assert_ok(ac_trainer_use_average(r.trainer, false));
  assert_ok(ac_trainer_set_updates(r.trainer, INT64_MAX / 2));
  step_window(&r);
  end(&r);
  ac_device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(betas_near_one_everywhere),
      cmocka_unit_test(averages_have_no_bias_everywhere),
      cmocka_unit_test(a_momentum_that_was_set_counts_everywhere),
      cmocka_unit_test(moments_are_imported_everywhere),
      cmocka_unit_test(numbers_of_updates_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
