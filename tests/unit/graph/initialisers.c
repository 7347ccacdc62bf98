/* Initial values of parameters: what they depend on, and how they are distributed. */
#include "support/models.h"

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
      {{.kind = AC_INIT_KAIMING_NORMAL}, 0, sqrt(2.0 / COLUMNS)},
      {{.kind = AC_INIT_KAIMING_UNIFORM}, 0, sqrt(2.0 / COLUMNS)},
      {{.kind = AC_INIT_XAVIER_NORMAL}, 0, sqrt(2.0 / (ROWS + COLUMNS))},
      {{.kind = AC_INIT_XAVIER_UNIFORM}, 0, sqrt(2.0 / (ROWS + COLUMNS))},
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

/* What would silently make a model that cannot learn, and numbers that a kind has no use for. */
static void what_cannot_be_meant_is_refused(void **state) {
  (void)state;
  const struct {
    ac_init init;
    const char *text;
  } cases[] = {
      {{.kind = AC_INIT_NORMAL},
       "parameter: \"w\": the normal initialiser's deviation is 0; it must be above 0"},
      {{AC_INIT_NORMAL, .mean = 0.02f}, "the normal initialiser's deviation is 0"},
      {{AC_INIT_NORMAL, .deviation = -1}, "the normal initialiser's deviation is -1"},
      {{AC_INIT_NORMAL, .deviation = NAN}, "the normal initialiser's deviation is nan"},
      {{AC_INIT_NORMAL, .mean = INFINITY, .deviation = 1}, "the normal initialiser's mean is inf"},
      {{AC_INIT_NORMAL, .value = 0.02f}, "the normal initialiser has no value, which is 0.02"},
      {{AC_INIT_NORMAL, .deviation = 1, .gain = 1}, "has no gain, which is 1"},
      {{.kind = AC_INIT_UNIFORM}, "the uniform initialiser's low, 0, is not below its high, 0"},
      {{AC_INIT_UNIFORM, .low = 1, .high = -1}, "low, 1, is not below its high, -1"},
      {{AC_INIT_UNIFORM, .high = NAN}, "the uniform initialiser's high is nan"},
      {{AC_INIT_KAIMING_NORMAL, .value = 2}, "the Kaiming normal initialiser has no value"},
      {{AC_INIT_KAIMING_UNIFORM, .gain = -1}, "the Kaiming uniform initialiser's gain is -1"},
      {{AC_INIT_XAVIER_NORMAL, .deviation = 1}, "the Xavier normal initialiser has no deviation"},
      {{AC_INIT_XAVIER_UNIFORM, .gain = INFINITY}, "the Xavier uniform initialiser's gain is inf"},
      {{AC_INIT_CONSTANT, .value = NAN}, "the constant initialiser's value is nan"},
      {{AC_INIT_CONSTANT, .low = 1}, "the constant initialiser has no low"},
      {{AC_INIT_ZERO, .value = 1}, "the zero initialiser has no value"},
      {{.kind = (ac_init_kind)8}, "unknown initialiser 8"},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    ac_graph *g;
    assert_ok(ac_graph_create(&g));
    const ac_parameter_desc desc = {.init = cases[k].init};
    assert_null(ac_parameter(g, "w", SHAPE(2, 2), &desc));
    assert_int_equal(ac_graph_status(g), AC_ERROR_ARGUMENT);
    assert_contains(ac_graph_message(g), cases[k].text);
    ac_graph_free(g);
  }
}

/* ---- training with defaults ------------------------------------------------------------------ */

enum { POINTS = 64, SIDE = 8, HIDDEN = 32, UPDATES = 60 };

static ac_tensor *layer(ac_graph *g, const char *name, ac_tensor *x, int64_t in, int64_t out) {
  const ac_parameter_desc desc = {.init = {AC_INIT_KAIMING_NORMAL}};
  return ac_linear(x, ac_parameter(g, name, SHAPE(out, in), &desc), NULL, AC_OUT_IN);
}

/* A regression of two layers that says nothing of gains, nor, but for `lr`, of rates. Returns the
 * loss after as many updates over the loss at first. */
static double train(ac_optimizer_kind optimizer, double lr, double *rate) {
  static float x[POINTS * SIDE], y[POINTS];
  for (int i = 0; i < POINTS * SIDE; i++) x[i] = (float)((i * 37) % 101) / 50 - 1;
  for (int i = 0; i < POINTS; i++) y[i] = x[i * SIDE] - x[i * SIDE + 3];
  ac_graph *g;
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
  assert_ok(ac_graph_create(&g));
  ac_tensor *input = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, SIDE));
  ac_tensor *hidden = ac_relu(layer(g, "first", input, SIDE, HIDDEN));
  ac_tensor *target = ac_input(g, "y", AC_F32, SHAPE(AC_BATCH, 1));
  ac_graph_set_loss(g, ac_mean_squared_error(layer(g, "second", hidden, HIDDEN, 1), target, NULL));
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu"}));
  const ac_plan_desc desc = {.batch = POINTS, .optimizer = {.kind = optimizer}};
  assert_ok(ac_plan_create(&plan, g, device, &desc));
  const ac_trainer_desc how = {.schedule = {.lr = lr}};
  assert_ok(ac_trainer_create(&trainer, plan, lr != 0 ? &how : NULL));
  const ac_feed feeds[] = {{"x", x}, {"y", y}};
  double first = 0;
  ac_update update = {0};
  for (int i = 0; i < UPDATES; i++) {
    assert_ok(ac_trainer_accumulate(trainer, POINTS, feeds, 2));
    assert_ok(ac_trainer_update(trainer, &update));
    if (i == 0) first = update.loss;
  }
  *rate = update.lr;
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(g);
  return update.loss / first;
}

static void a_model_without_settings_trains(void **state) {
  (void)state;
  double rate;
  assert_true(train(AC_ADAMW, 0, &rate) < 0.7);
  assert_true(rate == 1e-3);
  assert_true(train(AC_SGD, 0, &rate) < 0.1);
  assert_true(rate == 0.1);
  assert_true(train(AC_ADAMW, -1, &rate) == 1);
  assert_true(rate == 0);
  assert_true(train(AC_SGD, -1, &rate) == 1);
  assert_true(rate == 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(initial_values_go_by_name),
      cmocka_unit_test(initialisers_have_their_moments),
      cmocka_unit_test(what_cannot_be_meant_is_refused),
      cmocka_unit_test(a_model_without_settings_trains),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
