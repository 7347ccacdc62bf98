/* Gradients that a caller writes, within a window and while its update is decided, in every storage
 * and way of clipping: what is measured of them then, and refusals. */
#include "support/runs.h"

#include "window/trainer.h"

static const ac_optimizer_desc plain = {.weight_decay = -1, .momentum = -1};

static ac_trainer_desc settings(double clip, ac_decide decide, void *user) {
  ac_trainer_desc desc = {
      .seed = 3, .optimizer = plain, .schedule = {.lr = 0.05}, .decide = decide, .user = user};
  desc.optimizer.clip = clip;
  return desc;
}

/* All gradients times a factor, in two pieces each. */
enum { MOST = 4 * 24 * 24 };
static void scale_gradients(ac_trainer *trainer, float factor) {
  float g[MOST];
  for (int i = 0; i < ac_trainer_parameter_count(trainer); i++) {
    const int64_t count = elements(trainer, i), first = count / 3;
    assert_ok(ac_trainer_get_gradient(trainer, i, 0, count, g));
    for (int64_t e = 0; e < count; e++) g[e] *= factor;
    assert_ok(ac_trainer_set_gradient(trainer, i, 0, first, g));
    assert_ok(ac_trainer_set_gradient(trainer, i, first, count - first, g + first));
  }
}

/* ---- what a decision does -------------------------------------------------------------------- */

typedef struct deed {
  float scale;   /* of the gradients; 0: they are left */
  double factor; /* of the decision, times that proposed; 0: left */
  bool keep;     /* the window is not to be skipped */
  bool spike;    /* as it was proposed */
  int asked;
  double mean_norm, norm; /* of the first parameter, before anything is done */
} deed;

static void act(void *user, ac_trainer *trainer, ac_decision *decision) {
  deed *d = user;
  d->asked++;
  d->norm = ac_trainer_gradient_norm(trainer, 0);
  if (trainer->instance.plan->way->keeps) {
    float g[MOST];
    double squares = 0;
    const int64_t count = elements(trainer, 0);
    assert_ok(ac_trainer_get_mean_gradient(trainer, 0, 0, count, g));
    for (int64_t e = 0; e < count; e++) squares += (double)g[e] * (double)g[e];
    d->mean_norm = sqrt(squares);
  }
  if (d->scale != 0) scale_gradients(trainer, d->scale);
  if (d->factor != 0) decision->factor *= d->factor;
  assert_int_equal(decision->spike, decision->skip);
  d->spike = decision->spike;
  if (d->keep) decision->skip = false;
}

typedef struct outcome {
  ac_update update[3];
  double norm; /* of the first parameter's gradient, as it was last measured */
  float *parameters;
  size_t count;
} outcome;

/* Three windows; `within` scales the gradients before an update. */
static outcome train(ac_device *device, ac_plan_desc plan, const ac_trainer_desc *desc,
                     float within) {
  const corpus c = make_corpus();
  outcome o;
  plan.batch = 8;
  plan.optimizer.kind = AC_SGD;
  plan.optimizer.sgd_no_momentum = true;
  run r = start_on(device, &model, plan, *desc);
  for (int u = 0; u < 3; u++) {
    assert_ok(feed(&r, &c, u, 8));
    if (within != 0) scale_gradients(r.trainer, within);
    assert_ok(ac_trainer_update(r.trainer, &o.update[u]));
  }
  o.norm = ac_trainer_gradient_norm(r.trainer, 0);
  o.parameters = all_parameters(&r, &o.count);
  stop_on(&r);
  return o;
}

static void assert_same(outcome a, outcome b) {
  assert_int_equal(a.count, b.count);
  assert_memory_equal(a.parameters, b.parameters, a.count * sizeof *a.parameters);
  assert_true(a.norm == b.norm);
  for (int u = 0; u < 3; u++) {
    assert_true(a.update[u].grad_norm == b.update[u].grad_norm);
    assert_true(a.update[u].skipped == b.update[u].skipped);
    for (int g = 0; g < a.update[u].group_count; g++)
      assert_true(a.update[u].group_norms[g] == b.update[u].group_norms[g]);
  }
  free(a.parameters);
  free(b.parameters);
}

/* By powers of two, which no rounding sees. */
static void check_storage(ac_device *device, ac_plan_desc plan) {
  deed same = {.scale = 1}, twice = {.scale = 2}, factor = {.factor = 2}, none = {.scale = 0};
  const ac_trainer_desc asks = settings(0, act, &none), writes = settings(0, act, &same),
                        doubles = settings(0, act, &twice), scales = settings(0, act, &factor);
  assert_same(train(device, plan, &asks, 0), train(device, plan, &writes, 0));
  assert_true(none.asked == 3 && fabs(none.mean_norm - none.norm) <= 1e-5 * none.norm);
  assert_same(train(device, plan, &asks, 2), train(device, plan, &doubles, 0));
  outcome a = train(device, plan, &doubles, 0), b = train(device, plan, &scales, 0);
  assert_memory_equal(a.parameters, b.parameters, a.count * sizeof *a.parameters);
  assert_true(a.update[0].grad_norm == 2 * b.update[0].grad_norm);
  free(a.parameters);
  free(b.parameters);
}

static void they_are_what_is_stepped_by(const char *name) {
  static const ac_plan_desc plans[] = {
      {.micro_batch = 8},
      {.micro_batch = 3},
      {.whole_windows = true, .micro_batch = 8, .gradients = AC_GRADIENTS_BUFFER},
      {.precision = AC_PRECISION_F16, .micro_batch = 4},
      {.precision = AC_PRECISION_BF16, .micro_batch = 4},
      {.gradient_storage = AC_GRADIENT_BF16, .micro_batch = 4}};
  ac_device *device = open_device(name);
  for (size_t k = 0; k < sizeof plans / sizeof *plans; k++) check_storage(device, plans[k]);
  ac_device_close(device);
}
ON_EVERY_DEVICE(they_are_what_is_stepped_by)

/* ---- what follows from them ------------------------------------------------------------------ */

/* What is written in the decision is clipped as what was written before it. */
static void clips_go_by_what_was_written(void **state) {
  (void)state;
  ac_device *device = open_device("cpu");
  for (ac_clipping kind = AC_CLIP_NORM; kind <= AC_CLIP_ADAPTIVE; kind++) {
    const ac_plan_desc plan = {.optimizer = {.clipping = kind}, .micro_batch = 4};
    deed none = {.scale = 0}, much = {.scale = 8};
    ac_trainer_desc before = settings(0.01, act, &none), now = settings(0.01, act, &much);
    before.groups[0] = now.groups[0] = (ac_parameter_group){"wte.w", {.clip = 0.02}};
    before.group_count = now.group_count = 1;
    assert_same(train(device, plan, &before, 8), train(device, plan, &now, 0));
  }
  ac_device_close(device);
}

/* It depends on the norm that was seen, not on the norm of what was written. */
static void a_factor_of_the_callers_stays(void **state) {
  (void)state;
  ac_device *device = open_device("cpu");
  const ac_plan_desc plan = {.micro_batch = 4};
  deed both = {.scale = 4, .factor = 0.125}, factor = {.factor = 0.5};
  const ac_trainer_desc a = settings(0.01, act, &both), b = settings(0.01, act, &factor);
  outcome x = train(device, plan, &a, 0), y = train(device, plan, &b, 0);
  assert_memory_equal(x.parameters, y.parameters, x.count * sizeof *x.parameters);
  assert_true(x.update[0].grad_norm == 4 * y.update[0].grad_norm);
  free(x.parameters);
  free(y.parameters);
  ac_device_close(device);
}

static void spoil(void *user, ac_trainer *trainer, ac_decision *decision) {
  float values[] = {0, 0, *(const float *)user};
  assert_true(decision->finite);
  assert_ok(ac_trainer_set_gradient(trainer, 1, 0, 3, values));
}

static void mend(void *user, ac_trainer *trainer, ac_decision *decision) {
  (void)user;
  assert_false(decision->finite);
  assert_ok(ac_trainer_set_gradient(trainer, 1, 2, 1, &(float){0}));
}

/* One that is not finite skips the window and lowers the scale, and one that was made so does not.
 */
static void finiteness_is_of_what_was_written(const char *name) {
  static const ac_plan_desc plan = {
      .batch = 8, .precision = AC_PRECISION_F16, .gradients = AC_GRADIENTS_BUFFER};
  const corpus c = make_corpus();
  ac_device *device = open_device(name);
  float values[] = {(float)NAN, -INFINITY, 1e38f}; /* the last by a scale of 65536 and more */
  for (int k = 0; k < 4; k++) {
    ac_update update;
    const bool mends = k == 3;
    run r = start_on(device, &model, plan, settings(0, mends ? mend : spoil, &values[k % 3]));
    const float scale = AC_WATCHED(&r.trainer->run, scaler)->scale;
    assert_ok(feed(&r, &c, 0, 8));
    if (mends) assert_ok(ac_trainer_set_gradient(r.trainer, 1, 2, 1, values));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_true(update.skipped == !mends && update.finite_gradient == mends);
    assert_true(isinf(update.grad_norm) == !mends && !update.stuck);
    assert_true(AC_WATCHED(&r.trainer->run, scaler)->scale == (mends ? scale : scale / 2));
    assert_true(mends || r.trainer->window.nonfinite == 1);
    stop_on(&r);
  }
  ac_device_close(device);
}
ON_EVERY_DEVICE(finiteness_is_of_what_was_written)

/* A window is a spike, and is skipped, by what it comes to, unless the caller has said otherwise.
 */
static void spikes_are_of_what_was_written(void **state) {
  (void)state;
  static const struct {
    float within, scale;
    bool keep, proposed, alarm, skipped;
  } cases[] = {{0, 64, false, false, true, true},
               {64, 0, false, true, true, true},
               {64, 1.0f / 64, false, true, false, false},
               {64, 0, true, true, true, false},
               {64, 1, true, true, true, false}};
  const corpus c = make_corpus();
  const ac_plan_desc plan = {.batch = 8, .micro_batch = 4, .optimizer = {.kind = AC_SGD}};
  deed d = {.scale = 0};
  ac_trainer_desc desc = settings(0, act, &d);
  test_gpt m = model;
  ac_update update;
  m.dropout = 0;
  desc.schedule.lr = 1e-5;
  desc.spikes.policy = AC_SPIKE_SKIP;
  run r = start("cpu", &m, plan, desc);
  for (int u = 0; u < 16; u++) {
    assert_ok(feed(&r, &c, 0, 8));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_false(update.spike.alarm);
  }
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    d = (deed){.scale = cases[k].scale, .keep = cases[k].keep};
    assert_ok(feed(&r, &c, 0, 8));
    if (cases[k].within != 0) scale_gradients(r.trainer, cases[k].within);
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_int_equal(d.spike, cases[k].proposed);
    assert_int_equal(update.spike.alarm, cases[k].alarm);
    assert_int_equal(update.skipped, cases[k].skipped);
  }
  stop(&r);
}

/* Samples that follow add to it, and the window says nothing of the noise. */
static void a_window_goes_on(void **state) {
  (void)state;
  const corpus c = make_corpus();
  const ac_plan_desc plan = {.batch = 8, .micro_batch = 4, .optimizer = {.kind = AC_SGD}};
  ac_trainer_desc desc = settings(0, NULL, NULL);
  ac_noise_scale noise;
  test_gpt m = model;
  m.dropout = 0;
  desc.noise_every = 1;
  run r = start("cpu", &m, plan, desc);
  const int64_t count = elements(r.trainer, 0);
  float want[MOST], got[MOST];
  assert_ok(feed(&r, &c, 4, 4));
  assert_ok(ac_trainer_get_gradient(r.trainer, 0, 0, count, want));
  ac_trainer_discard(r.trainer);
  assert_ok(feed(&r, &c, 0, 4));
  scale_gradients(r.trainer, 0);
  assert_ok(feed(&r, &c, 4, 4));
  assert_ok(ac_trainer_get_gradient(r.trainer, 0, 0, count, got));
  assert_memory_equal(want, got, (size_t)count * sizeof *got);
  assert_ok(ac_trainer_update(r.trainer, NULL));
  assert_ok(ac_trainer_noise_scale(r.trainer, &noise));
  assert_int_equal(noise.windows, 0);
  assert_ok(feed(&r, &c, 0, 8));
  assert_ok(ac_trainer_update(r.trainer, NULL));
  assert_ok(ac_trainer_noise_scale(r.trainer, &noise));
  assert_int_equal(noise.windows, 1);
  stop(&r);
}

/* Larger than what is written at once. */
static void all_elements_are_written(const char *name) {
  enum { COUNT = 9001 };
  static float values[COUNT], read[COUNT], x[COUNT];
  ac_graph *graph;
  assert_ok(ac_graph_create(&graph));
  ac_tensor *in = ac_input(graph, "x", AC_F32, SHAPE(AC_BATCH, COUNT)),
            *y = ac_input(graph, "y", AC_F32, SHAPE(AC_BATCH, 1));
  in = ac_linear(in, test_matrix(graph, "w", "w", 1, COUNT), NULL, AC_OUT_IN);
  ac_graph_set_loss(graph, ac_mean_squared_error(in, y, NULL));
  run r = {.device = open_device(name)};
  assert_ok(ac_plan_create(&r.plan, graph, r.device,
                           &(ac_plan_desc){.batch = 1, .optimizer = {.kind = AC_SGD}}));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, NULL));
  assert_ok(ac_trainer_accumulate(r.trainer, 1, (ac_feed[]){{"x", x}, {"y", x}}, 2));
  for (int i = 0; i < COUNT; i++) values[i] = (float)i;
  assert_ok(ac_trainer_set_gradient(r.trainer, 0, 0, COUNT, values));
  assert_ok(ac_trainer_get_gradient(r.trainer, 0, 0, COUNT, read));
  assert_memory_equal(values, read, sizeof read);
  stop(&r);
  ac_graph_free(graph);
}
ON_EVERY_DEVICE(all_elements_are_written)

/* ---- refused --------------------------------------------------------------------------------- */

static void refuse(ac_plan_desc plan, bool fed, ac_status status, const char *why) {
  const corpus c = make_corpus();
  float value = 1;
  plan.batch = 4;
  plan.optimizer.kind = AC_SGD;
  run r = start("cpu", &model, plan, settings(0, NULL, NULL));
  if (fed) assert_ok(feed(&r, &c, 0, 4));
  assert_refused(ac_trainer_set_gradient(r.trainer, 0, 0, 1, &value), status, why);
  assert_refused(ac_trainer_get_mean_gradient(r.trainer, 0, 0, 1, &value), status, why);
  if (fed) ac_trainer_discard(r.trainer);
  stop(&r);
}

static void refusals(void **state) {
  (void)state;
  const corpus c = make_corpus();
  float value = 1;
  refuse((ac_plan_desc){0}, false, AC_ERROR_STATE, "nothing was accumulated");
  refuse((ac_plan_desc){.frozen = "wte.w"}, true, AC_ERROR_ARGUMENT, "is frozen");
  refuse((ac_plan_desc){.gradients = AC_GRADIENTS_FUSED}, true, AC_ERROR_STATE,
         "keeps no gradients (AC_GRADIENTS_FUSED)");
  refuse((ac_plan_desc){.gradients = AC_GRADIENTS_FUSED_LOCAL}, true, AC_ERROR_STATE,
         "keeps no gradients (AC_GRADIENTS_FUSED_LOCAL)");
  run r = start("cpu", &model, (ac_plan_desc){.batch = 4}, settings(0, NULL, NULL));
  assert_ok(feed(&r, &c, 0, 4));
  assert_refused(ac_trainer_set_gradient(r.trainer, 0, 24 * 17, 1, &value), AC_ERROR_ARGUMENT,
                 "has 408 elements");
  assert_refused(ac_trainer_get_mean_gradient(r.trainer, 0, 0, 1, &value), AC_ERROR_STATE,
                 "while its update is being decided");
  stop(&r);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(they_are_what_is_stepped_by_everywhere),
                                     cmocka_unit_test(clips_go_by_what_was_written),
                                     cmocka_unit_test(a_factor_of_the_callers_stays),
                                     cmocka_unit_test(finiteness_is_of_what_was_written_everywhere),
                                     cmocka_unit_test(spikes_are_of_what_was_written),
                                     cmocka_unit_test(all_elements_are_written_everywhere),
                                     cmocka_unit_test(a_window_goes_on),
                                     cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
