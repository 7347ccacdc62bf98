/* The bench's models: which are measured by default, and what happens if a step was not made. */
#include "support/check.h"

#include "bench/models.h"

static const bench_model *find(const char *name) {
  for (int m = 0; m < bench_model_count; m++)
    if (!strcmp(bench_models[m].name, name)) return &bench_models[m];
  fail_msg("there is no model %s", name);
  return NULL;
}

/* What is there for its ops has no step that anyone would train. */
static void test_steps_are_of_real_models(void **state) {
  (void)state;
  assert_true(find("gpt2-124m")->steps && find("gpt-small")->steps);
  assert_true(find("resnet18")->steps && find("mobilenet")->steps);
  assert_false(find("convolutions")->steps || find("elementwise")->steps);
}

static float factor;

static void build(ac_graph *graph, int64_t context) {
  (void)context;
  ac_tensor *x = ac_input(graph, "x", AC_F32, SHAPE(AC_BATCH, 3));
  ac_tensor *t = ac_input(graph, "t", AC_F32, SHAPE(AC_BATCH, 2));
  ac_tensor *y = ac_linear(x, ac_parameter(graph, "w", SHAPE(2, 3), ZEROS), NULL, AC_OUT_IN);
  ac_graph_set_loss(graph, ac_mean_squared_error(ac_scale(y, factor), t, NULL));
}

/* Takes two steps of a model. Its parameters are zero, and its results are multiplied by `by`. */
static ac_status take_steps(float by) {
  const bench_model model = {.name = "tiny", .batch = 4, .build = build};
  const bench_setting setting = {0};
  bench_planned planned;
  bench_stepper stepper;
  ac_device *device;
  factor = by;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu"}));
  assert_ok(bench_planned_open(&planned, &model, &setting, device));
  assert_ok(bench_stepper_open(&stepper, &planned));
  ac_status status = bench_stepper_run(&stepper, 2);
  bench_stepper_close(&stepper);
  bench_planned_close(&planned);
  ac_device_close(device);
  return status;
}

static void test_a_skipped_step_fails(void **state) {
  (void)state;
  assert_ok(take_steps(0.5f));
  assert_int_equal(take_steps(3e38f), AC_ERROR_NOT_FINITE);
  assert_contains(bench_error(), "an update was skipped");
}

/* The library's sentence, where the failure is the library's. */
static void test_errors(void **state) {
  (void)state;
  bench_planned planned;
  ac_device *device;
  const bench_setting setting = {.memory = 1};
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "dry"}));
  assert_int_equal(bench_planned_open(&planned, find("gpt-small"), &setting, device),
                   AC_ERROR_BUDGET);
  assert_contains(bench_error(), "needs at least");
  bench_planned_close(&planned);
  ac_device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_steps_are_of_real_models),
      cmocka_unit_test(test_a_skipped_step_fails),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
