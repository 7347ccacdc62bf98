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
      /* PyTorch's Linear: uniform in +-1 / sqrt(fan_in). */
      {{.kind = AC_INIT_DEFAULT}, 0, 1 / sqrt(3.0 * COLUMNS)},
      {{AC_INIT_DEFAULT, .in_out = true}, 0, 1 / sqrt(3.0 * ROWS)},
      /* The deviation of a normal distribution within 2, and within 0.5 and 3. */
      {{AC_INIT_TRUNCATED_NORMAL, .deviation = 1}, 0, 0.8796256610},
      {{AC_INIT_TRUNCATED_NORMAL, .mean = 3, .deviation = 2}, 3, 1.7592513221},
      {{AC_INIT_TRUNCATED_NORMAL, .deviation = 1, .low = 0.5f, .high = 3}, 1.1316649, 0.4990982},
      {{AC_INIT_TRUNCATED_NORMAL, .deviation = 1, .low = -3, .high = -0.5f}, -1.1316649, 0.4990982},
      {{.kind = AC_INIT_ORTHOGONAL}, 0, 1 / sqrt(COLUMNS)},
      {{AC_INIT_ORTHOGONAL, .gain = 3}, 0, 3 / sqrt(COLUMNS)},
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
      {{AC_INIT_DEFAULT, .gain = 1}, "the default initialiser has no gain, which is 1"},
      {{AC_INIT_TRUNCATED_NORMAL, .low = -1, .high = 1},
       "the truncated normal initialiser's deviation is 0; it must be above 0"},
      {{AC_INIT_TRUNCATED_NORMAL, .deviation = 1, .low = 2, .high = 1},
       "the truncated normal initialiser's low, 2, is not below its high, 1"},
      {{AC_INIT_TRUNCATED_NORMAL, .deviation = 1, .low = 5, .high = 6},
       "the truncated normal initialiser has less than a millionth of its values between low, 5, "
       "and high, 6"},
      {{AC_INIT_ORTHOGONAL, .deviation = 1}, "the orthogonal initialiser has no deviation"},
      {{AC_INIT_IDENTITY, .gain = -1}, "the identity initialiser's gain is -1"},
      {{.kind = AC_INIT_ARRAY}, "the array initialiser has no values"},
      {{AC_INIT_ARRAY, .values = (const float[]){1, 2, NAN, 4}}, "element 2 of its values is nan"},
      {{AC_INIT_ZERO, .values = (const float[]){1, 2, 3, 4}},
       "the zero initialiser has no use for values"},
      {{.kind = (ac_init_kind)13}, "unknown initialiser 13"},
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

/* ---- values of a matrix ---------------------------------------------------------------------- */

enum { MOST = 600 };

/* The initial values of a parameter of this shape. The caller's array is overwritten before. */
static void values_of(ac_init init, int rank, const int64_t *dim, uint64_t seed, float *values) {
  ac_graph *g;
  ac_device *device;
  ac_plan *plan;
  ac_session *session;
  int64_t count = 1;
  float given[MOST];
  for (int i = 0; i < rank; i++) count *= dim[i];
  if (init.values) {
    memcpy(given, init.values, (size_t)count * sizeof *given);
    init.values = given;
  }
  assert_ok(ac_graph_create(&g));
  ac_tensor *w = ac_parameter(g, "w", rank, dim, &(ac_parameter_desc){.init = init});
  memset(given, 0xff, sizeof given);
  ac_graph_set_output(g, "w", ac_scale(w, 2)); /* an op, and exact */
  assert_ok(ac_graph_status(g));
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu"}));
  assert_ok(ac_plan_create(&plan, g, device, &(ac_plan_desc){.purpose = AC_PREDICT}));
  ac_graph_free(g);
  assert_ok(ac_session_create(&session, plan, seed));
  assert_ok(ac_session_run(session, 1, NULL, 0));
  assert_ok(ac_session_output(session, "w", 0, count, values));
  for (int64_t i = 0; i < count; i++) values[i] /= 2;
  ac_session_free(session);
  ac_plan_free(plan);
  ac_device_close(device);
}

/* Vectors of the short side, of length `gain`, are at right angles. */
static void orthogonal_is_orthogonal(void **state) {
  (void)state;
  static const int64_t shapes[][4] = {{7, 20}, {20, 7}, {24, 24}, {5, 3, 2, 4}, {1, 9}, {9, 1}};
  for (int s = 0; s < 6; s++) {
    const int rank = s == 3 ? 4 : 2;
    const int64_t rows = shapes[s][0], columns = s == 3 ? 24 : shapes[s][1];
    float w[MOST], again[MOST], other[MOST];
    const ac_init init = {.kind = AC_INIT_ORTHOGONAL, .gain = 2};
    values_of(init, rank, shapes[s], 5, w);
    values_of(init, rank, shapes[s], 5, again);
    values_of(init, rank, shapes[s], 6, other);
    assert_memory_equal(w, again, (size_t)(rows * columns) * sizeof *w);
    assert_memory_not_equal(w, other, (size_t)(rows * columns) * sizeof *w);
    const bool wide = rows < columns;
    const int64_t count = wide ? rows : columns, length = wide ? columns : rows;
    for (int64_t a = 0; a < count; a++)
      for (int64_t b = 0; b < count; b++) {
        double sum = 0;
        for (int64_t i = 0; i < length; i++)
          sum += (double)w[wide ? a * columns + i : i * columns + a] *
                 (double)w[wide ? b * columns + i : i * columns + b];
        assert_true(fabs(sum - (a == b ? 4 : 0)) <= 2e-6);
      }
  }
}

static void matrices_are_as_given(void **state) {
  (void)state;
  float w[12];
  const float values[12] = {1, -2, 0.5f, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  values_of((ac_init){.kind = AC_INIT_ARRAY, .values = values}, SHAPE(2, 3, 2), 1, w);
  assert_memory_equal(w, values, sizeof w);
  values_of((ac_init){.kind = AC_INIT_IDENTITY}, SHAPE(3, 4), 1, w);
  for (int i = 0; i < 12; i++) assert_true(w[i] == (i / 4 == i % 4 ? 1 : 0));
  values_of((ac_init){.kind = AC_INIT_IDENTITY, .gain = 0.5f}, SHAPE(4, 3), 1, w);
  for (int i = 0; i < 12; i++) assert_true(w[i] == (i / 3 == i % 3 ? 0.5f : 0));
  values_of((ac_init){.kind = AC_INIT_TRUNCATED_NORMAL, .deviation = 1, .low = 4, .high = 4.5f},
            SHAPE(12), 1, w);
  for (int i = 0; i < 12; i++) assert_true(w[i] >= 4 && w[i] <= 4.5f);
  values_of((ac_init){.kind = AC_INIT_DEFAULT}, SHAPE(12), 1, w);
  for (int i = 0; i < 12; i++) assert_true(w[i] == 0);
  values_of((ac_init){.kind = AC_INIT_DEFAULT}, SHAPE(3, 4), 1, w);
  for (int i = 0; i < 12; i++) assert_true(w[i] != 0 && fabsf(w[i]) <= 0.5f);
}

#define SHAPED(text, kind_, ...)                                  \
  do {                                                            \
    ac_graph *g;                                                  \
    assert_ok(ac_graph_create(&g));                               \
    const ac_parameter_desc desc = {.init = {.kind = kind_}};     \
    assert_null(ac_parameter(g, "w", SHAPE(__VA_ARGS__), &desc)); \
    assert_contains(ac_graph_message(g), text);                   \
    ac_graph_free(g);                                             \
  } while (0)

static void shapes_that_a_kind_cannot_fill_are_refused(void **state) {
  (void)state;
  SHAPED("parameter: \"w\": the orthogonal initialiser needs a shape of rank 2 or more",
         AC_INIT_ORTHOGONAL, 4);
  SHAPED("parameter: \"w\": the identity initialiser needs a shape of rank 2", AC_INIT_IDENTITY, 2,
         2, 2);
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
      cmocka_unit_test(orthogonal_is_orthogonal),
      cmocka_unit_test(matrices_are_as_given),
      cmocka_unit_test(shapes_that_a_kind_cannot_fill_are_refused),
      cmocka_unit_test(a_model_without_settings_trains),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
