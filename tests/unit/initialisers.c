/* Initial values of parameters: what they depend on, and how they are distributed. */
#include "models.h"

#include <math.h>

/* A trainer's initial values of the first elements of a parameter. */
static void initial_values(const test_gpt *m, uint64_t seed, const char *name, float *values,
                           int64_t count) {
  ac_graph *graph = test_gpt_graph(m);
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu"}));
  assert_ok(ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = 1}));
  assert_ok(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.seed = seed}));
  int index = ac_trainer_find_parameter(trainer, name);
  assert_true(index >= 0);
  assert_ok(ac_trainer_get_parameter(trainer, index, 0, count, values));
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
}

/* Drawn by name: a parameter's values do not depend on what else the model holds. */
static void initial_values_go_by_name(void **state) {
  (void)state;
  const test_gpt small = {.layers = 2, .width = 32, .context = 8, .vocab = 17, .heads = 4};
  test_gpt larger = small;
  larger.layers = 4;
  float x[24], y[24], z[24];
  initial_values(&small, 9, "h1.fc.w", x, 24);
  initial_values(&larger, 9, "h1.fc.w", y, 24);
  initial_values(&small, 10, "h1.fc.w", z, 24);
  assert_memory_equal(x, y, sizeof x);
  assert_memory_not_equal(x, z, sizeof x);
}

static void initialisers_have_their_moments(void **state) {
  (void)state;
  enum { ROWS = 200, COLUMNS = 300, COUNT = ROWS * COLUMNS };
  static float data[COUNT];
  const struct {
    ac_init init;
    double mean, deviation;
  } cases[] = {
      {{AC_INIT_CONSTANT, .value = 0.5f}, 0.5, 0},
      {{AC_INIT_NORMAL, .mean = 1, .deviation = 2}, 1, 2},
      {{AC_INIT_UNIFORM, .low = -1, .high = 3}, 1, 4 / sqrt(12)},
      {{AC_INIT_KAIMING_NORMAL, .gain = 2}, 0, 2 / sqrt(COLUMNS)},
      {{AC_INIT_KAIMING_UNIFORM, .gain = 2, .in_out = true}, 0, 2 / sqrt(ROWS)},
      {{AC_INIT_XAVIER_NORMAL, .gain = 1}, 0, sqrt(2.0 / (ROWS + COLUMNS))},
      {{AC_INIT_XAVIER_UNIFORM, .gain = 1, .in_out = true}, 0, sqrt(2.0 / (ROWS + COLUMNS))},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    ac_graph *g;
    assert_ok(ac_graph_create(&g));
    ac_parameter_desc desc = {.init = cases[k].init};
    ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, COLUMNS));
    ac_tensor *w = ac_parameter(g, "w", SHAPE(ROWS, COLUMNS), &desc);
    ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, ROWS));
    ac_graph_set_loss(g, ac_mean_squared_error(ac_linear(x, w, NULL, AC_OUT_IN), t, NULL));
    ac_device *device;
    ac_plan *plan;
    ac_trainer *trainer;
    assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu"}));
    assert_ok(ac_plan_create(&plan, g, device, &(ac_plan_desc){.batch = 1}));
    assert_ok(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.seed = k}));
    assert_ok(ac_trainer_get_parameter(trainer, 0, 0, COUNT, data));
    double sum = 0, squares = 0;
    for (int i = 0; i < COUNT; i++) sum += (double)data[i];
    for (int i = 0; i < COUNT; i++)
      squares += ((double)data[i] - sum / COUNT) * ((double)data[i] - sum / COUNT);
    /* Five standard errors of 60,000 draws: 5 / sqrt(60000) = 2 %. */
    assert_true(fabs(sum / COUNT - cases[k].mean) <= 0.02 * cases[k].deviation + 1e-6);
    assert_true(fabs(sqrt(squares / COUNT) - cases[k].deviation) <=
                0.02 * cases[k].deviation + 1e-6);
    ac_trainer_free(trainer);
    ac_plan_free(plan);
    ac_device_close(device);
    ac_graph_free(g);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(initial_values_go_by_name),
      cmocka_unit_test(initialisers_have_their_moments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
