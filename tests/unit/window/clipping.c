/* Clipping of gradients, each by its norm, by value and adaptively, against PyTorch's and timm's in
 * every way of keeping gradients; with groups; and refused. */
#include "support/practice.h"

static const char *device_name;

static const char *const names[] = {
    [AC_CLIP_EACH] = "each", [AC_CLIP_VALUE] = "value", [AC_CLIP_ADAPTIVE] = "agc"};

static ac_clipping clipping_of(const op_vector *v) {
  ac_clipping kind = AC_CLIP_EACH;
  while (strncmp(v->name, names[kind], strlen(names[kind])) != 0) kind++;
  return kind;
}

/* The limit is the optimizer's, or the same in a group of all. */
static void check_way(const op_vector *v, ac_plan_desc plan, bool grouped) {
  const ac_clipping kind = clipping_of(v);
  ac_trainer_desc desc = {.optimizer = {.clip = practice_number(v, names[kind])}};
  if (grouped) {
    desc.groups[0] = (ac_parameter_group){"*", {.clip = desc.optimizer.clip}};
    desc.group_count = 1;
    desc.optimizer.clip = 1e-6;
  }
  plan.optimizer.clipping = kind;
  run r = practice_begin(device_name, v, plan, desc);
  for (int u = 0; u < (int)practice_number(v, "updates"); u++) {
    ac_update update;
    practice_feed(&r, v, u);
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_true(!update.skipped && update.left_out == 0);
    practice_check(&r, v, "p", u, ac_trainer_get_parameter);
  }
  stop(&r);
}

static void check_ways(const op_vector *v) {
  static const ac_plan_desc ways[] = {{.micro_batch = 4},
                                      {.micro_batch = 3},
                                      {.micro_batch = 4, .whole_windows = true},
                                      {.gradients = AC_GRADIENTS_FUSED},
                                      {.gradients = AC_GRADIENTS_FUSED_LOCAL}};
  for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) check_way(v, ways[k], k % 2 == 1);
}

static void check_pytorch(const char *device) {
  device_name = device;
  for (ac_clipping kind = AC_CLIP_EACH; kind <= AC_CLIP_ADAPTIVE; kind++)
    practice_cases(names[kind], 2, check_ways);
}

ON_EVERY_DEVICE(check_pytorch)

/* Without a limit every kind leaves the same bits. */
static void check_unlimited(const op_vector *v) {
  float values[2][54];
  for (int kind = AC_CLIP_NORM; kind <= AC_CLIP_ADAPTIVE; kind++) {
    const ac_plan_desc plan = {.optimizer = {.clipping = (ac_clipping)kind}, .micro_batch = 4};
    run r = practice_begin("cpu", v, plan, (ac_trainer_desc){.seed = 1});
    practice_feed(&r, v, 0);
    assert_ok(ac_trainer_update(r.trainer, NULL));
    assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, 54, values[kind > 0]));
    if (kind) assert_memory_equal(values[0], values[1], sizeof *values);
    stop(&r);
  }
}

static void without_a_limit(void **state) {
  (void)state;
  practice_cases("value_sgd", 1, check_unlimited);
}

/* z = w x, at w = 0 and t = 0, where the gradient is x / 2. */
static run begin_with(ac_device *device, ac_plan_desc plan, ac_trainer_desc desc) {
  run r = {.device = device};
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *z = ac_linear(ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 2)),
                           ac_parameter(g, "w", SHAPE(1, 2), ZEROS), NULL, AC_OUT_IN);
  ac_graph_set_loss(g,
                    ac_binary_cross_entropy(z, ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, 1)), NULL));
  plan.batch = 1;
  desc.schedule.lr = 0.1;
  assert_ok(ac_plan_create(&r.plan, g, device, &plan));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, &desc));
  ac_graph_free(g);
  return r;
}

static ac_update step_with(run *r, double norm, float w[2]) {
  const float x[2] = {(float)(1.2 * norm), (float)(1.6 * norm)}, t = 0, zeros[2] = {0, 0};
  const ac_feed feeds[] = {{"x", x}, {"t", &t}};
  ac_update update;
  assert_ok(ac_trainer_set_parameter(r->trainer, 0, 0, 2, zeros));
  assert_ok(ac_trainer_accumulate(r->trainer, 1, feeds, 2));
  assert_ok(ac_trainer_update(r->trainer, &update));
  assert_ok(ac_trainer_get_parameter(r->trainer, 0, 0, 2, w));
  return update;
}

/* Squares of these are beyond floats, or below. */
static const double norms[] = {1e19, 2e19, 1e25, 1e37, 1e-19, 1e-23, 1e-30};
enum { NORMS = sizeof norms / sizeof *norms };

static void any_norm_is_measured_and_clipped(const char *name) {
  ac_device *device = open_device(name);
  static const ac_plan_desc ways[] = {
      {0}, {.gradients = AC_GRADIENTS_FUSED}, {.gradients = AC_GRADIENTS_FUSED_LOCAL}};
  for (int k = 0; k < 3; k++) {
    ac_plan_desc plan = ways[k];
    plan.optimizer.kind = AC_SGD, plan.optimizer.sgd_no_momentum = true;
    plan.optimizer.clipping = k % 2 ? AC_CLIP_EACH : AC_CLIP_NORM;
    run r = begin_with(device, plan, (ac_trainer_desc){.optimizer = {.clip = 1}});
    for (int i = 0; i < NORMS; i++) {
      const double norm = norms[i], clipped = fmin(norm, 1);
      float w[2];
      const ac_update update = step_with(&r, norm, w);
      assert_true(!update.skipped && update.finite_gradient);
      assert_true(fabs(update.grad_norm / norm - 1) < 1e-5);
      assert_true(fabs(ac_trainer_gradient_norm(r.trainer, 0) / norm - 1) < 1e-5);
      assert_true(fabs((double)w[0] / (-0.06 * clipped) - 1) < 1e-5);
      assert_true(fabs((double)w[1] / (-0.08 * clipped) - 1) < 1e-5);
    }
    stop_on(&r);
  }
  ac_device_close(device);
}
ON_EVERY_DEVICE(any_norm_is_measured_and_clipped)

static const struct {
  ac_optimizer_kind kind;
  bool keeps_squares;
} optimizers[] = {{AC_ADAMW, true}, {AC_ADAM_MINI, true}, {AC_ADAFACTOR, true},
                  {AC_MUON, true},  {AC_SGD, false},      {AC_LION, false}};
enum { OPTIMIZERS = sizeof optimizers / sizeof *optimizers };

/* The mean of squares would be infinite from then on, and no step would move anything. */
static void check_squares(ac_device *device, ac_plan_desc plan, bool keeps) {
  const ac_trainer_desc desc = {.optimizer = {.weight_decay = -1}};
  float w[2], first[2], next[2];
  run r = begin_with(device, plan, desc);
  const ac_update update = step_with(&r, 2e19, w);
  assert_true(update.skipped == keeps && update.finite_gradient != keeps);
  assert_true(keeps ? isinf(update.grad_norm) : fabs(update.grad_norm / 2e19 - 1) < 1e-5);
  assert_true((w[0] == 0 && w[1] == 0) == keeps);
  assert_true(isfinite(w[0]) && isfinite(w[1]));
  if (keeps) { /* as a first window is stepped */
    step_with(&r, 1, next);
    stop_on(&r);
    r = begin_with(device, plan, desc);
    step_with(&r, 1, first);
    assert_memory_equal(first, next, sizeof first);
    assert_true(first[0] < 0 && first[1] < 0);
  }
  stop_on(&r);
}

static void squares_that_cannot_be_kept_skip_the_window(const char *name) {
  ac_device *device = open_device(name);
  static const ac_gradients ways[] = {AC_GRADIENTS_BUFFER, AC_GRADIENTS_FUSED,
                                      AC_GRADIENTS_FUSED_LOCAL};
  for (int i = 0; i < OPTIMIZERS; i++) {
    ac_plan_desc plan = {.optimizer = {.kind = optimizers[i].kind}};
    for (int k = 0; k < 3; k++) {
      plan.gradients = ways[k];
      check_squares(device, plan, optimizers[i].keeps_squares);
    }
    /* Of what is clipped they can be kept. */
    float clipped[2], first[2];
    plan.gradients = AC_GRADIENTS_BUFFER;
    for (int k = 0; k < 2; k++) {
      run r = begin_with(device, plan, (ac_trainer_desc){.optimizer = {.clip = 1}});
      assert_true(!step_with(&r, k ? 1 : 2e19, k ? first : clipped).skipped);
      stop_on(&r);
    }
    for (int e = 0; e < 2; e++) {
      assert_true(first[e] < 0);
      assert_true(fabs((double)clipped[e] / (double)first[e] - 1) < 1e-5);
    }
  }
  ac_device_close(device);
}
ON_EVERY_DEVICE(squares_that_cannot_be_kept_skip_the_window)

static void half(void *user, ac_trainer *trainer, ac_decision *decision) {
  (void)user, (void)trainer;
  assert_true(decision->factor == 1);
  decision->factor = 0.5;
}

/* A decision's factor comes before the limit: SGD's first step is the rate times that. */
static void check_decided(const op_vector *v) {
  const double lr = practice_number(v, "lr"), limit = 0.02, *before = op_vector_find(v, "p0")->data;
  const ac_trainer_desc desc = {.optimizer = {.momentum = -1, .clip = limit}, .decide = half};
  run r = practice_begin("cpu", v, (ac_plan_desc){.optimizer = {.clipping = AC_CLIP_VALUE}}, desc);
  float gradient[54], after[54];
  practice_feed(&r, v, 0);
  assert_ok(ac_trainer_get_gradient(r.trainer, 0, 0, 54, gradient));
  assert_ok(ac_trainer_update(r.trainer, NULL));
  assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, 54, after));
  int clipped = 0;
  for (int e = 0; e < 54; e++) {
    const double g = 0.5 * (double)gradient[e] / PRACTICE_SAMPLES,
                 step = fmin(fmax(g, -limit), limit);
    clipped += step != g;
    assert_true(fabs((double)after[e] - (before[e] - lr * step)) <= 1e-7);
  }
  assert_true(clipped > 0 && clipped < 54);
  stop(&r);
}

static void decisions_come_first(void **state) {
  (void)state;
  practice_cases("value_sgd", 1, check_decided);
}

static void refusals(void **state) {
  (void)state;
  static const ac_plan_desc cases[] = {
      {.optimizer = {.clipping = AC_CLIP_VALUE}, .gradients = AC_GRADIENTS_FOLDED},
      {.optimizer = {.clipping = AC_CLIP_VALUE}, .gradient_storage = AC_GRADIENT_BF16},
      {.optimizer = {.clipping = AC_CLIP_ADAPTIVE},
       .precision = AC_PRECISION_BF16,
       .weights = AC_WEIGHTS_BF16}};
  ac_device *device = open_device("cpu");
  ac_graph *graph = practice_graph();
  ac_plan *plan;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_refused(ac_plan_create(&plan, graph, device, &cases[i]), AC_ERROR_ARGUMENT,
                   "needs weights and gradients in f32, and gradients that are not folded");
  assert_refused(ac_plan_create(&plan, graph, device,
                                &(ac_plan_desc){.optimizer = {.clipping = (ac_clipping)4}}),
                 AC_ERROR_ARGUMENT, "unknown clipping 4");
  ac_graph_free(graph);
  ac_device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(check_pytorch_everywhere),
      cmocka_unit_test(without_a_limit),
      cmocka_unit_test(any_norm_is_measured_and_clipped_everywhere),
      cmocka_unit_test(squares_that_cannot_be_kept_skip_the_window_everywhere),
      cmocka_unit_test(decisions_come_first),
      cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
