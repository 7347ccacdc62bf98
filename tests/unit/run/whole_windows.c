/* Plans for whole windows keep gradients in the arena, in the place of activations that are not
 * needed any more. That changes the memory of a window, not its results. On the CPU and on every
 * OpenCL device. */
#include "support/runs.h"

#include "plan/plan.h"

enum { BATCH = 8, UPDATES = 12 };

static const ac_trainer_desc trained = {
    .seed = 3, .schedule = {.lr = 1e-3}, .optimizer = {.clip = 1}};

/* Updates on windows of all sizes up to the batch; free the result. */
static float *train(const char *device, bool fused, ac_plan_desc desc, double losses[UPDATES],
                    ac_plan_bytes *bytes, size_t *total) {
  corpus c = make_corpus();
  test_gpt m = model;
  m.fused = fused;
  run r = start(device, &m, desc, trained);
  *bytes = ac_plan_get_info(r.plan)->bytes;
  assert_int_equal(ac_device_peak_bytes(r.device), bytes->total);
  for (int u = 0; u < UPDATES; u++) {
    ac_update update;
    assert_ok(feed(&r, &c, u % 7, BATCH - u % 3));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_false(update.skipped);
    losses[u] = update.loss;
  }
  float *parameters = all_parameters(&r, total);
  stop(&r);
  return parameters;
}

static uint64_t sum(const ac_plan_bytes *b) {
  return b->parameters + b->gradients + b->optimizer + b->activations + b->workspace + b->io;
}

static void same_bits_in_less_memory(const char *device) {
  static const ac_precision precisions[] = {AC_PRECISION_F32, AC_PRECISION_BF16};
  static const ac_recompute policies[] = {AC_RECOMPUTE_NONE, AC_RECOMPUTE_ALL};
  for (int i = 0; i < 4; i++) {
    ac_plan_desc desc = {.batch = BATCH,
                         .micro_batch = BATCH,
                         .precision = precisions[i / 2],
                         .recompute = policies[i % 2]};
    double apart[UPDATES], within[UPDATES];
    ac_plan_bytes before, after;
    size_t total;
    float *a = train(device, i % 2, desc, apart, &before, &total);
    desc.whole_windows = true;
    float *b = train(device, i % 2, desc, within, &after, &total);
    assert_memory_equal(apart, within, sizeof apart);
    assert_memory_equal(a, b, total * sizeof *a);
    assert_true(after.total < before.total && after.gradients < before.gradients);
    assert_int_equal(sum(&after), after.total);
    assert_int_equal(after.activations, before.activations);
    free(a);
    free(b);
  }
}
ON_EVERY_DEVICE(same_bits_in_less_memory)

/* Split in two, a window is not a micro-batch, and gradients stay where they were. */
static void split_windows_are_as_before(void **state) {
  (void)state;
  ac_plan_desc desc = {.batch = BATCH, .micro_batch = BATCH / 2};
  double apart[UPDATES], within[UPDATES];
  ac_plan_bytes before, after;
  size_t total;
  float *a = train("cpu", true, desc, apart, &before, &total);
  desc.whole_windows = true;
  float *b = train("cpu", true, desc, within, &after, &total);
  assert_memory_equal(&before, &after, sizeof before);
  assert_memory_equal(apart, within, sizeof apart);
  assert_memory_equal(a, b, total * sizeof *a);
  free(a);
  free(b);
}

/* Between a window and its update gradients can be read, and nothing can be computed that would
 * overwrite them. A refusal leaves the window as it is; so does an update that is skipped. */
static void gradients_are_protected(const char *device) {
  corpus c = make_corpus();
  run r = start(device, &model, (ac_plan_desc){.batch = BATCH, .whole_windows = true},
                (ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-2}});
  const ac_feed feeds[] = {{"tokens", c.tokens}, {"targets", c.targets}, {"weights", c.weights}};
  float gradient[2][24 * 17], loss[2];
  char where[64];
  int index = ac_trainer_find_parameter(r.trainer, "wte.w");
  const ac_field fields[] = {
      {"tokens", AC_I32, CONTEXT}, {"targets", AC_I32, CONTEXT}, {"weights", AC_F32, CONTEXT}};
  const void *arrays[] = {c.tokens, c.targets, c.weights};
  ac_dataset *dataset;
  assert_ok(ac_dataset_from_memory(&dataset, SAMPLES, 3, fields, arrays));
  for (int k = 0; k < 2; k++) {
    ac_update update;
    ac_evaluation evaluation;
    assert_refused(feed(&r, &c, 0, BATCH + 1), AC_ERROR_STATE, "windows of at most 8 samples");
    assert_ok(ac_trainer_evaluate(r.trainer, dataset, 0, &evaluation));
    assert_ok(ac_trainer_locate_nonfinite(r.trainer, BATCH, feeds, 3, where, sizeof where));
    assert_ok(feed(&r, &c, 0, BATCH - 1));
    assert_ok(ac_trainer_get_gradient(r.trainer, index, 0, 24 * 17, gradient[0]));
    assert_refused(feed(&r, &c, BATCH - 1, 1), AC_ERROR_STATE, "each in one piece");
    assert_refused(ac_trainer_evaluate(r.trainer, dataset, 0, &evaluation), AC_ERROR_STATE,
                   "update or discard it first");
    assert_refused(ac_trainer_locate_nonfinite(r.trainer, BATCH, feeds, 3, where, sizeof where),
                   AC_ERROR_STATE, "update or discard it first");
    assert_ok(ac_trainer_get_gradient(r.trainer, index, 0, 24 * 17, gradient[1]));
    assert_memory_equal(gradient[0], gradient[1], sizeof gradient[0]);
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_int_equal(update.update, k + 1);
    loss[k] = (float)update.loss;
  }
  assert_true(loss[1] < loss[0]);
  const ac_fit_desc carried = {.train = dataset, .epochs = 1, .last_window = AC_LAST_CARRY};
  assert_refused(ac_fit(r.trainer, &carried, NULL), AC_ERROR_ARGUMENT, "carried over");
  ac_dataset_free(dataset);
  stop(&r);
}
ON_EVERY_DEVICE(gradients_are_protected)

/* Parameters read several times, through ops that could be computed in place: what a later reader
 * adds to a gradient must not take it elsewhere. */
static float *train_shared(const char *device, bool whole, size_t *total) {
  enum { WIDTH = 12 };
  static const float x[BATCH * WIDTH] = {1, -2, 3, 0.5f}, t[BATCH * WIDTH] = {0.25f, 1, 0, -1};
  ac_graph *graph;
  assert_ok(ac_graph_create(&graph));
  const ac_parameter_desc one = {.init = {AC_INIT_CONSTANT, .value = 1.5f}};
  ac_tensor *in = ac_input(graph, "x", AC_F32, SHAPE(AC_BATCH, WIDTH));
  ac_tensor *g = ac_parameter(graph, "g", 1, (int64_t[]){WIDTH}, &one);
  ac_tensor *w = test_matrix(graph, "w", "w", WIDTH, WIDTH);
  ac_tensor *h = ac_multiply(in, ac_multiply(g, g));
  h = ac_linear(ac_add(h, ac_scale(g, 0.5f)), w, NULL, AC_OUT_IN);
  h = ac_linear(h, ac_weight_standardisation(w, 0), NULL, AC_OUT_IN);
  h = ac_linear(ac_add(h, ac_scale(g, 2)), ac_scale(w, 0.25f), NULL, AC_OUT_IN);
  ac_tensor *target = ac_input(graph, "t", AC_F32, SHAPE(AC_BATCH, WIDTH));
  ac_graph_set_loss(graph, ac_mean_squared_error(h, target, NULL));
  run r;
  assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = device, .threads = 2}));
  assert_ok(ac_plan_create(&r.plan, graph, r.device,
                           &(ac_plan_desc){.batch = BATCH, .whole_windows = whole}));
  assert_int_equal(r.plan->main.whole_window, whole);
  assert_ok(ac_trainer_create(&r.trainer, r.plan, &trained));
  ac_graph_free(graph);
  for (int u = 0; u < UPDATES; u++) {
    ac_update update;
    const ac_feed feeds[] = {{"x", x}, {"t", t}};
    assert_ok(ac_trainer_accumulate(r.trainer, BATCH, feeds, 2));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_false(update.skipped);
  }
  float *parameters = all_parameters(&r, total);
  stop(&r);
  return parameters;
}

static void shared_parameters_gather_all(const char *device) {
  size_t total;
  float *a = train_shared(device, false, &total), *b = train_shared(device, true, &total);
  assert_memory_equal(a, b, total * sizeof *a);
  free(a);
  free(b);
}
ON_EVERY_DEVICE(shared_parameters_gather_all)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(same_bits_in_less_memory_everywhere),
      cmocka_unit_test(split_windows_are_as_before),
      cmocka_unit_test(shared_parameters_gather_all_everywhere),
      cmocka_unit_test(gradients_are_protected_everywhere),
  };
  return cmocka_run_group_tests_name("whole windows", tests, NULL, NULL);
}
