/* Leaves that are neither parameters nor samples: constants of a graph. */
#include "support/devices.h"
#include "support/files.h"
#include "support/trainers.h"

#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLES = 11, WIDTH = 6, ROWS = 5 };

static const float factors[ROWS * WIDTH] = {0.5f, -1.25f, 2, 0.75f, 1.5f, -0.5f, 1,   3,
                                            -2,   0.25f,  1, 1.75f, 0.1f, 0.2f,  0.3f};
static const int32_t picks[ROWS] = {4, 0, 2, 2, 1};

/* y = W2 (table[picks] * (W1 x)) over rows, where what `leaf` gives is a constant or a frozen
 * parameter. */
typedef ac_tensor *(*leaf)(ac_graph *g, const char *name, int rank, const int64_t *shape,
                           const float *values);

static ac_tensor *constant(ac_graph *g, const char *name, int rank, const int64_t *shape,
                           const float *values) {
  return ac_constant(g, name, AC_F32, rank, shape, values);
}

static ac_tensor *frozen(ac_graph *g, const char *name, int rank, const int64_t *shape,
                         const float *values) {
  (void)values;
  return ac_parameter(g, name, rank, shape, &(ac_parameter_desc){.frozen = true});
}

static ac_graph *graph_with(leaf make, bool ids) {
  ac_graph *g;
  const ac_parameter_desc drawn = {.init = {.kind = AC_INIT_NORMAL, .deviation = 0.3f}};
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, ROWS, WIDTH)),
            *y = ac_input(g, "y", AC_F32, SHAPE(AC_BATCH, ROWS, 3));
  ac_tensor *table = make(g, "factors", SHAPE(ROWS, WIDTH), factors);
  if (ids) table = ac_embedding(table, ac_constant(g, "picks", AC_I32, SHAPE(ROWS), picks));
  x = ac_linear(x, ac_parameter(g, "w1", SHAPE(WIDTH, WIDTH), &drawn), NULL, AC_OUT_IN);
  x = ac_tanh(ac_multiply(x, table));
  x = ac_linear(x, ac_parameter(g, "w2", SHAPE(3, WIDTH), &drawn),
                ac_parameter(g, "b2", SHAPE(3), NULL), AC_OUT_IN);
  ac_graph_set_output(g, "prediction", x);
  ac_graph_set_loss(g, ac_mean_squared_error(x, y, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

static float value(int i) {
  return (float)((i * 37 + 11) % 64) / 32 - 1;
}

static void train(run *r, double losses[4]) {
  float x[SAMPLES * ROWS * WIDTH], y[SAMPLES * ROWS * 3];
  for (int u = 0; u < 4; u++) {
    ac_update update;
    for (int i = 0; i < SAMPLES * ROWS * WIDTH; i++) x[i] = value(i + 5 * u);
    for (int i = 0; i < SAMPLES * ROWS * 3; i++) y[i] = value(3 * i + u);
    const ac_feed feeds[] = {{"x", x}, {"y", y}};
    assert_ok(ac_trainer_accumulate(r->trainer, SAMPLES, feeds, 2));
    assert_ok(ac_trainer_update(r->trainer, &update));
    assert_false(update.skipped);
    losses[u] = update.loss;
  }
}

/* A constant gives what a frozen parameter of the same values gives, to the bit, in each precision;
 * and its bytes are counted, but not its numbers. */
static void constants_are_frozen_parameters(const char *device) {
  for (ac_precision p = AC_PRECISION_F32; p <= AC_PRECISION_BF16; p++)
    for (int ids = 0; ids < 2; ids++) {
      const ac_plan_desc plan = {.batch = SAMPLES, .micro_batch = 4, .precision = p};
      const ac_trainer_desc desc = {.seed = 4, .schedule = {.lr = 1e-2}};
      double with[4], without[4];
      run a = run_of(open_device(device), graph_with(constant, ids), &plan, &desc),
          b = run_of(open_device(device), graph_with(frozen, ids), &plan, &desc);
      const int index = ac_trainer_find_parameter(b.trainer, "factors");
      assert_ok(ac_trainer_set_parameter(b.trainer, index, 0, ROWS * WIDTH, factors));
      assert_int_equal(ac_trainer_find_parameter(a.trainer, "factors"), -1);
      train(&a, with);
      train(&b, without);
      assert_memory_equal(with, without, sizeof with);
      const ac_plan_info *info = ac_plan_get_info(a.plan), *other = ac_plan_get_info(b.plan);
      assert_int_equal(info->parameter_count, other->parameter_count);
      assert_true(info->constant_bytes >= ROWS * WIDTH * (p == AC_PRECISION_F32 ? 4u : 2u));
      assert_int_equal(other->constant_bytes, ids ? ROWS * sizeof(int32_t) : 0);
      size_t count;
      float *values = all_parameters(&a, &count);
      assert_int_equal(count, WIDTH * WIDTH + 3 * WIDTH + 3);
      free(values);
      stop(&a);
      stop(&b);
    }
}
ON_EVERY_DEVICE(constants_are_frozen_parameters)

/* Model and state files do not have it. */
static void files_have_no_constants(void **state) {
  (void)state;
  const ac_plan_desc plan = {.batch = SAMPLES};
  const ac_trainer_desc desc = {.seed = 4, .schedule = {.lr = 1e-2}};
  double losses[4], again[4];
  run r = run_of(open_device("cpu"), graph_with(constant, true), &plan, &desc);
  train(&r, losses);
  assert_ok(ac_trainer_save(r.trainer, "leaves.safetensors", NULL, 0));
  assert_ok(ac_trainer_save_state(r.trainer, "leaves.state", NULL, 0));
  const char *const paths[] = {"leaves.safetensors", "leaves.state"};
  for (int i = 0; i < 2; i++) {
    ac_model_file *file;
    assert_ok(ac_model_file_open(&file, paths[i]));
    for (int t = 0; t < ac_model_file_tensor_count(file); t++) {
      assert_null(strstr(ac_model_file_tensor(file, t)->name, "factors"));
      assert_null(strstr(ac_model_file_tensor(file, t)->name, "picks"));
    }
    ac_model_file_close(file);
  }
  train(&r, losses);
  assert_ok(ac_trainer_load_state(r.trainer, "leaves.state"));
  train(&r, again);
  assert_memory_equal(losses, again, sizeof losses);
  stop(&r);
  remove(paths[0]);
  remove(paths[1]);
}

/* What a type becomes, and that the graph's own copy is used. */
static void every_type_is_taken(void **state) {
  (void)state;
  const uint8_t bytes[] = {0, 1, 200, 255};
  const uint16_t halves[] = {0x3c00, 0xc000, 0x0001, 0x7bff},
                 brains[] = {0x3f80, 0xc000, 1, 0x4120};
  float floats[] = {1, -2, 3.5f, -INFINITY};
  const int64_t longs[] = {1, 0, 3, INT32_MIN};
  const struct {
    ac_dtype dtype, kept;
    const void *data;
  } cases[] = {{AC_U8, AC_F32, bytes},
               {AC_F16, AC_F32, halves},
               {AC_BF16, AC_F32, brains},
               {AC_F32, AC_F32, floats},
               {AC_I64, AC_I32, longs}};
  const float third[] = {200, 5.9604645e-8f, ldexpf(1, -133), 3.5f};
  for (int i = 0; i < 5; i++) {
    ac_graph *g;
    ac_tensor_info info;
    assert_ok(ac_graph_create(&g));
    ac_tensor *c = ac_constant(g, "c", cases[i].dtype, SHAPE(2, 2), cases[i].data);
    assert_ok(ac_graph_status(g));
    ac_tensor_get_info(c, &info);
    assert_int_equal(info.dtype, cases[i].kept);
    assert_string_equal(info.name, "c");
    if (cases[i].kept == AC_F32)
      assert_memory_equal((const float *)(const void *)c->values->data + 2, &third[i], 4);
    else assert_int_equal(((const int32_t *)(const void *)c->values->data)[3], INT32_MIN);
    assert_int_equal(ac_graph_parameter_count(g) + ac_graph_input_count(g), 0);
    ac_graph_free(g);
  }
}

#define REFUSED(text, ...)                                                   \
  do {                                                                       \
    ac_graph *g;                                                             \
    assert_ok(ac_graph_create(&g));                                          \
    ac_graph_scope(g, "the.scope");                                          \
    assert_null(ac_constant(g, __VA_ARGS__));                                \
    assert_int_equal(ac_graph_status(g), AC_ERROR_ARGUMENT);                 \
    assert_string_equal(ac_graph_message(g), "constant (the.scope): " text); \
    ac_graph_free(g);                                                        \
  } while (0)

static void bad_constants_are_refused(void **state) {
  (void)state;
  const float one = 1, wrong[] = {0, NAN};
  const int64_t large[] = {0, 1, 1 + (int64_t)INT32_MAX};
  REFUSED("it has no name", NULL, AC_F32, SHAPE(1), &one);
  REFUSED("\"c\" has no data", "c", AC_F32, SHAPE(1), NULL);
  REFUSED("\"c\" has the unknown dtype 17", "c", (ac_dtype)17, SHAPE(1), &one);
  REFUSED("\"c\": its element 1 is not a number", "c", AC_F32, SHAPE(2), wrong);
  REFUSED("\"c\": its element 2 exceeds 32 bits", "c", AC_I64, SHAPE(3), large);
  REFUSED("the shape of \"c\" must have 1 to 6 positive dimensions, not contain the batch, and at "
          "most 2^48 elements",
          "c", AC_F32, SHAPE(AC_BATCH, 2), &one);
  REFUSED("the shape of \"c\" must have 1 to 6 positive dimensions, not contain the batch, and at "
          "most 2^48 elements",
          "c", AC_F32, SHAPE(2, 0), &one);
  assert_null(ac_constant(NULL, "c", AC_F32, SHAPE(1), &one));
}

static void ids_are_checked_when_a_plan_is_made(void **state) {
  (void)state;
  const int32_t ids[] = {0, 1, -1};
  ac_graph *g;
  ac_device *device = open_device("dry");
  ac_plan *plan;
  assert_ok(ac_graph_create(&g));
  ac_tensor *table = ac_parameter(g, "table", SHAPE(2, 3), NULL),
            *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 3, 3));
  ac_graph_scope(g, "the.scope");
  x = ac_add(x, ac_embedding(table, ac_constant(g, "ids", AC_I32, SHAPE(3), ids)));
  ac_graph_set_output(g, "sum", x);
  assert_ok(ac_graph_status(g));
  assert_refused(ac_plan_create(&plan, g, device, &(ac_plan_desc){.purpose = AC_PREDICT}),
                 AC_ERROR_ARGUMENT,
                 "plan: embedding (the.scope): constant \"ids\" holds -1 at position 2, outside "
                 "[0, 2)");
  ac_graph_free(g);
  ac_device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(constants_are_frozen_parameters_everywhere),
      cmocka_unit_test(files_have_no_constants),
      cmocka_unit_test(every_type_is_taken),
      cmocka_unit_test(bad_constants_are_refused),
      cmocka_unit_test(ids_are_checked_when_a_plan_is_made),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
