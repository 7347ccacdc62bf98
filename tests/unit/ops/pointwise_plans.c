/* A formula against the same function written by ops, in a small network that trains: the same loss
 * and gradients to rounding, and no more memory, in every precision and with less memory than the
 * plan would like. */
#include "support/check.h"

#include <math.h>

enum { ROWS = 24, IN = 5, WIDE = 16, COUNT = WIDE * IN + WIDE + WIDE + WIDE };

typedef ac_tensor *function(ac_graph *graph, ac_tensor *a, ac_tensor *b, bool formula);

static ac_tensor *formula_of(ac_graph *graph, const char *text, ac_tensor *a, ac_tensor *b) {
  return ac_formula(graph, text, (ac_tensor *[]){a, b}, 2);
}

/* b is a parameter [WIDE], repeated for each row. */
static ac_tensor *gated(ac_graph *graph, ac_tensor *a, ac_tensor *b, bool formula) {
  return formula ? formula_of(graph, "a * tanh(softplus(b))", a, b)
                 : ac_multiply(a, ac_tanh(ac_softplus(b)));
}

static ac_tensor *bell(ac_graph *graph, ac_tensor *a, ac_tensor *b, bool formula) {
  return formula ? formula_of(graph, "exp(-(a - b)^2) + 0.1 * a", a, b)
                 : ac_add(ac_exp(ac_scale(ac_square(ac_subtract(a, b)), -1)), ac_scale(a, 0.1f));
}

static ac_tensor *trained_slope(ac_graph *graph, ac_tensor *a, ac_tensor *b, bool formula) {
  return formula ? formula_of(graph, "where(a < 0, a * b, a)", a, b)
                 : ac_where(ac_less(a, ac_scale(a, 0)), ac_multiply(a, b), a);
}

static ac_tensor *long_chain(ac_graph *graph, ac_tensor *a, ac_tensor *b, bool formula) {
  if (formula)
    return formula_of(graph, "sigmoid(log1p(abs(sin(silu(a)))) / (1 + b^2)) - 0.5", a, b);
  ac_tensor *top = ac_log1p(ac_abs(ac_sin(ac_silu(a))));
  return ac_add_scalar(ac_sigmoid(ac_divide(top, ac_add_scalar(ac_square(b), 1))), -0.5f);
}

typedef struct outcome {
  uint64_t bytes;
  double loss;
  float gradient[COUNT];
} outcome;

static void describe(ac_graph *graph, function *f, bool formula) {
  const ac_parameter_desc spread = {.init = {AC_INIT_UNIFORM, .low = -1, .high = 1}};
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, IN)),
            *y = ac_input(graph, "y", AC_F32, AC_SHAPE(AC_BATCH, 1)),
            *w = ac_parameter(graph, "w", AC_SHAPE(WIDE, IN), &spread),
            *bias = ac_parameter(graph, "bias", AC_SHAPE(WIDE), &spread),
            *b = ac_parameter(graph, "b", AC_SHAPE(WIDE), &spread),
            *head = ac_parameter(graph, "head", AC_SHAPE(1, WIDE), &spread);
  ac_tensor *h = f(graph, ac_linear(x, w, bias, AC_OUT_IN), b, formula);
  ac_graph_set_loss(graph, ac_mean_squared_error(ac_linear(h, head, NULL, AC_OUT_IN), y, NULL));
}

static void run(outcome *o, function *f, bool formula, const ac_plan_desc *policy) {
  static float x[ROWS][IN], y[ROWS];
  for (int i = 0; i < ROWS; i++) {
    for (int k = 0; k < IN; k++) x[i][k] = (float)((i * 7 + k * 5) % 23) / 12 - 0.9f;
    y[i] = (float)(i % 5) / 4;
  }
  ac_graph *graph;
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
  ac_update update;
  assert_ok(ac_graph_create(&graph));
  describe(graph, f, formula);
  assert_ok(ac_graph_status(graph));
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 2}));
  assert_ok(ac_plan_create(&plan, graph, device, policy));
  o->bytes = ac_plan_get_info(plan)->bytes.total;
  const ac_trainer_desc training = {.seed = 3, .schedule = {.lr = 0.01}};
  assert_ok(ac_trainer_create(&trainer, plan, &training));
  assert_ok(ac_trainer_accumulate(trainer, ROWS, (ac_feed[]){{"x", x}, {"y", y}}, 2));
  const int64_t counts[] = {WIDE * IN, WIDE, WIDE, WIDE};
  float *gradient = o->gradient;
  for (int i = 0; i < 4; gradient += counts[i++])
    assert_ok(ac_trainer_get_gradient(trainer, i, 0, counts[i], gradient));
  assert_ok(ac_trainer_update(trainer, &update));
  o->loss = update.loss;
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
}

static void is_the_same_as_ops(void **state) {
  (void)state;
  static const struct {
    const char *name;
    function *make;
  } functions[] = {{"gated", gated},
                   {"bell", bell},
                   {"trained slope", trained_slope},
                   {"long chain", long_chain}};
  const ac_plan_desc policies[] = {
      {.batch = ROWS, .micro_batch = ROWS, .gradients = AC_GRADIENTS_BUFFER},
      {.batch = ROWS, .micro_batch = 8, .gradients = AC_GRADIENTS_BUFFER},
      {.batch = ROWS,
       .micro_batch = ROWS,
       .gradients = AC_GRADIENTS_BUFFER,
       .recompute = AC_RECOMPUTE_ALL},
      {.batch = ROWS,
       .micro_batch = ROWS,
       .gradients = AC_GRADIENTS_BUFFER,
       .precision = AC_PRECISION_BF16},
  };
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    for (size_t p = 0; p < sizeof policies / sizeof *policies; p++) {
      static outcome one, other;
      run(&one, functions[i].make, true, &policies[p]);
      run(&other, functions[i].make, false, &policies[p]);
      /* 16 bits round what is stored between ops. */
      const double tolerance = policies[p].precision == AC_PRECISION_BF16 ? 3e-2 : 2e-5;
      double largest = 0;
      for (int k = 0; k < COUNT; k++) largest = fmax(largest, fabs((double)other.gradient[k]));
      assert_true(largest > 0.01);
      if (one.bytes > other.bytes)
        fail_msg("%s, plan %d: %llu bytes as a formula, %llu by ops", functions[i].name, (int)p,
                 (unsigned long long)one.bytes, (unsigned long long)other.bytes);
      if (!(fabs(one.loss - other.loss) <= tolerance * fabs(other.loss)))
        fail_msg("%s, plan %d: the loss is %.9g, not %.9g", functions[i].name, (int)p, one.loss,
                 other.loss);
      for (int k = 0; k < COUNT; k++)
        if (!(fabs((double)one.gradient[k] - (double)other.gradient[k]) <= tolerance * largest))
          fail_msg("%s, plan %d: gradient %d is %.9g, not %.9g", functions[i].name, (int)p, k,
                   (double)one.gradient[k], (double)other.gradient[k]);
    }
}

/* Three functions in a row are one: two of them are not stored. */
static void says_what_fusing_spares(void **state) {
  (void)state;
  enum { SAMPLES = 8, SIZE = 6 };
  for (int bf16 = 0; bf16 < 2; bf16++) {
    ac_graph *graph;
    ac_device *device;
    ac_plan *plan;
    assert_ok(ac_graph_create(&graph));
    ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, SIZE));
    ac_graph_set_loss(graph, ac_loss(ac_exp(ac_tanh(ac_sin(x))), NULL));
    assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu"}));
    const ac_plan_desc desc = {.purpose = AC_EVALUATE,
                               .batch = SAMPLES,
                               .micro_batch = SAMPLES,
                               .precision = bf16 ? AC_PRECISION_BF16 : AC_PRECISION_F32};
    assert_ok(ac_plan_create(&plan, graph, device, &desc));
    assert_int_equal(ac_plan_get_info(plan)->fused_ops, 2);
    assert_int_equal(ac_plan_get_info(plan)->fused_bytes, 2 * SAMPLES * SIZE * (bf16 ? 2 : 4));
    ac_plan_free(plan);
    ac_device_close(device);
    ac_graph_free(graph);
  }
}

/* The gradient of p, which the graph has as [4, 3] or as [2, 6]. */
static void gradient_of_shaped(float gradient[12], int rows, int columns) {
  const ac_parameter_desc spread = {.init = {AC_INIT_UNIFORM, .low = -1, .high = 1}};
  float x[2][12], y[2][12];
  for (int i = 0; i < 24; i++) {
    x[i / 12][i % 12] = (float)(i * 7 % 23) / 12 - 0.9f;
    y[i / 12][i % 12] = (float)(i * 5 % 17) / 9 - 0.8f;
  }
  const ac_feed feeds[] = {{"x", x}, {"y", y}};
  ac_graph *graph;
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
  assert_ok(ac_graph_create(&graph));
  ac_tensor *in = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 2, 6)),
            *target = ac_input(graph, "y", AC_F32, AC_SHAPE(AC_BATCH, 2, 6)),
            *p = ac_parameter(graph, "p", AC_SHAPE(rows, columns), &spread),
            *s = ac_parameter(graph, "s", AC_SHAPE(1), &spread);
  ac_tensor *moved = ac_subtract(ac_reshape(p, AC_SHAPE(2, 6)), s);
  ac_graph_set_loss(graph, ac_mean_squared_error(ac_add(in, moved), target, NULL));
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu"}));
  assert_ok(ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = 2}));
  assert_ok(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.seed = 5}));
  assert_ok(ac_trainer_accumulate(trainer, 2, feeds, 2));
  assert_ok(ac_trainer_get_gradient(trainer, 0, 0, 12, gradient));
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(graph);
}

/* A parameter that is read in another shape than its own gets the same gradient. */
static void reads_parameters_in_any_shape(void **state) {
  (void)state;
  float own[12], other[12];
  gradient_of_shaped(own, 2, 6);
  gradient_of_shaped(other, 4, 3);
  assert_memory_equal(own, other, sizeof own);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(is_the_same_as_ops),
                                     cmocka_unit_test(says_what_fusing_spares),
                                     cmocka_unit_test(reads_parameters_in_any_shape)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
