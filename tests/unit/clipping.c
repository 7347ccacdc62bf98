/* Clipping of gradients, each by its norm, by value and adaptively, against PyTorch's and timm's in
 * every way of keeping gradients; with groups; and refused. */
#include "practice.h"

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
  plan.clipping = kind;
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
    const ac_plan_desc plan = {.clipping = (ac_clipping)kind, .micro_batch = 4};
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

static void half(void *user, ac_trainer *trainer, ac_decision *decision) {
  (void)user, (void)trainer;
  assert_true(decision->factor == 1);
  decision->factor = 0.5;
}

/* A decision's factor comes before the limit: SGD's first step is the rate times that. */
static void check_decided(const op_vector *v) {
  const double lr = practice_number(v, "lr"), limit = 0.02, *before = op_vector_find(v, "p0")->data;
  const ac_trainer_desc desc = {.optimizer = {.momentum = -1, .clip = limit}, .decide = half};
  run r = practice_begin("cpu", v, (ac_plan_desc){.clipping = AC_CLIP_VALUE}, desc);
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
      {.clipping = AC_CLIP_VALUE, .gradients = AC_GRADIENTS_FOLDED},
      {.clipping = AC_CLIP_VALUE, .gradient_storage = AC_GRADIENT_BF16},
      {.clipping = AC_CLIP_ADAPTIVE, .precision = AC_PRECISION_BF16, .weights = AC_WEIGHTS_BF16}};
  ac_device *device = open_device("cpu");
  ac_graph *graph = practice_graph();
  ac_plan *plan;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    assert_refused(ac_plan_create(&plan, graph, device, &cases[i]), AC_ERROR_ARGUMENT,
                   "needs weights and gradients in f32, and none that are folded");
  assert_refused(ac_plan_create(&plan, graph, device, &(ac_plan_desc){.clipping = (ac_clipping)4}),
                 AC_ERROR_ARGUMENT, "unknown clipping 4");
  ac_graph_free(graph);
  ac_device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(check_pytorch_everywhere), cmocka_unit_test(without_a_limit),
      cmocka_unit_test(decisions_come_first), cmocka_unit_test(refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
