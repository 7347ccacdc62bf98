/* Mixed precision as a plan lays it down: what is stored in 16 bits and what is not, working copies
 * of parameters, casts where dtypes meet. */
#include "support/devices.h"

#include "ops/linear/linear.h"
#include "plan/cost.h"
#include "support/models.h"

#include <math.h>

static const test_gpt gpt = {
    .layers = 2, .width = 32, .context = 8, .vocab = 17, .heads = 4, .weighted = true};

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Classes add up, and what is counted as activations is what is alive at once and no workspace. */
static void check_classes(const ac_plan *plan) {
  const ac_plan_info *info = ac_plan_get_info(plan);
  const ac_plan_bytes *b = &info->bytes;
  assert_int_equal(b->total, b->parameters + b->gradients + b->optimizer + b->activations +
                                 b->workspace + b->io);
  uint64_t most = 0, scratch = 0;
  for (int64_t i = 0; i < info->steps; i++) {
    ac_plan_step step;
    assert_ok(ac_plan_get_step(plan, i, &step));
    uint64_t kept = step.live_bytes - step.workspace_bytes;
    if (kept > most) most = kept;
    if (step.workspace_bytes > scratch) scratch = step.workspace_bytes;
  }
  assert_int_equal(b->activations, most);
  assert_true(b->activations + b->workspace >= info->live_bytes);
  assert_true(b->activations + b->workspace >= scratch);
}

static ac_plan_info info_of(const ac_graph *graph, ac_device *device, ac_plan_desc desc) {
  ac_plan *plan;
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  ac_plan_info info = *ac_plan_get_info(plan);
  check_classes(plan);
  ac_plan_free(plan);
  return info;
}

/* Activations shrink to little more than half; masters, gradients and moments stay, and the working
 * copies come on top. */
static void activations_shrink_on(const char *name, ac_precision precision) {
  const test_gpt shapes[] = {{.layers = 4, .width = 128, .context = 64, .vocab = 65, .heads = 4},
                             {.layers = 3,
                              .width = 64,
                              .context = 32,
                              .vocab = 300,
                              .heads = 2,
                              .dropout = 0.1f,
                              .fused = true}};
  ac_device *device = open_device(name);
  for (int s = 0; s < 2; s++)
    for (int policy = AC_RECOMPUTE_NONE; policy <= AC_RECOMPUTE_ALL; policy++) {
      ac_graph *graph = test_gpt_graph(&shapes[s]);
      ac_plan_desc desc = {.batch = 12, .micro_batch = 6, .recompute = (ac_recompute)policy};
      ac_plan_info whole = info_of(graph, device, desc);
      desc.precision = precision;
      ac_plan_info half = info_of(graph, device, desc);
      assert_int_equal(half.recomputed_ops, whole.recomputed_ops);
      assert_true((double)half.bytes.activations <= 0.55 * (double)whole.bytes.activations);
      assert_int_equal(half.bytes.gradients, whole.bytes.gradients);
      assert_int_equal(half.bytes.optimizer, whole.bytes.optimizer);
      assert_int_equal(whole.working_bytes, 0);
      assert_true(half.working_bytes > 0);
      assert_true(half.bytes.parameters >= whole.bytes.parameters + half.working_bytes);
      ac_graph_free(graph);
    }
  ac_device_close(device);
}

static void activations_shrink(void **state) {
  (void)state;
  for (int k = 0; k < 2; k++) activations_shrink_on("dry", halves[k]);
  everywhere(activations_shrink_on);
}

/* On the CPU products of 16-bit operands need scratch of floats. With all else recomputed it stays
 * below what the activations save. */
static void scratch_leaves_something_to_save(void **state) {
  (void)state;
  ac_device *device = open_device("cpu");
  ac_graph *graph = test_gpt_graph(
      &(test_gpt){.layers = 4, .width = 128, .context = 64, .vocab = 65, .heads = 4});
  for (int64_t micro_batch = 2; micro_batch <= 12; micro_batch += 10) {
    ac_plan_desc desc = {.batch = 12, .micro_batch = micro_batch, .recompute = AC_RECOMPUTE_ALL};
    ac_plan_info whole = info_of(graph, device, desc);
    desc.precision = AC_PRECISION_F16;
    ac_plan_info half = info_of(graph, device, desc);
    assert_true(half.bytes.total <= whole.bytes.total + half.working_bytes);
  }
  ac_graph_free(graph);
  ac_device_close(device);
}

static uint64_t product_scratch(ac_device *device, int64_t m, int64_t n, int64_t k, ac_op op) {
  ac_linear_attributes attributes = {.layout = AC_IN_OUT};
  ac_run_state run = {.training = true, .batch = m};
  ac_operand x = {.dtype = AC_F16, .rank = 2, .dim = {m, k}, .count = m * k},
             w = {.dtype = AC_F16, .rank = 2, .dim = {k, n}, .count = k * n},
             y = {.dtype = AC_F16, .rank = 2, .dim = {m, n}, .count = m * n};
  ac_op_args args = {.op = op, .attributes = &attributes, .run = &run};
  args.in[0] = x;
  args.in[1] = op == AC_OP_linear ? w : y;
  args.out[0] = op == AC_OP_linear ? y : w;
  if (op != AC_OP_linear) args.out[0].dtype = AC_F32;
  return device->backend->workspace(device->state, &args);
}

/* However the threads divide it. */
static void scratch_grows_with_the_product(void **state) {
  (void)state;
  static const int threads[] = {1, 2, 3, 4, 16};
  static const int64_t widths[][2] = {{24, 40}, {130, 129}, {512, 128}, {700, 2000}};
  for (int t = 0; t < 5; t++) {
    ac_device *device;
    assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = threads[t]}));
    for (int w = 0; w < 4; w++)
      for (int which = 0; which < 2; which++) {
        ac_op op = which ? AC_OP_linear_weight_gradient : AC_OP_linear;
        uint64_t before = 0;
        for (int64_t m = 1; m < 1500; m += 1 + m / 200) {
          uint64_t bytes = product_scratch(device, m, widths[w][0], widths[w][1], op);
          assert_true(bytes >= before);
          assert_true(bytes <= (uint64_t)threads[t] * 800 * 1024);
          before = bytes;
        }
      }
    ac_device_close(device);
  }
}

/* Without a backward pass weights of products are kept in 16 bits alone. */
static void weights_shrink_without_training(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  ac_graph *graph = test_gpt_graph(&gpt);
  ac_plan_desc desc = {.purpose = AC_PREDICT, .batch = 4};
  ac_plan_info whole = info_of(graph, device, desc);
  desc.precision = AC_PRECISION_BF16;
  ac_plan_info half = info_of(graph, device, desc);
  assert_true((double)half.bytes.parameters < 0.6 * (double)whole.bytes.parameters);
  ac_graph_free(graph);
  ac_device_close(device);
}

static void a_refusal_names_half_precision(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  ac_graph *graph = test_gpt_graph(
      &(test_gpt){.layers = 2, .width = 32, .context = 256, .vocab = 65, .heads = 4});
  ac_plan *plan;
  ac_plan_desc desc = {.batch = 64, .memory = 1};
  const uint64_t bytes = test_offer(graph, device, desc, AC_RELIEF_PRECISION_F16).bytes;
  assert_true(bytes > 0);
  /* The amount that it names is enough, and the least. */
  desc.precision = AC_PRECISION_F16;
  desc.memory = bytes - 1;
  assert_refused(ac_plan_create(&plan, graph, device, &desc), AC_ERROR_BUDGET, "needs at least");
  desc.memory = bytes;
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_device_close(device);
}

/* What comes first takes more memory than what comes on top of it, and each amount is enough, and
 * the least. */
static void a_refusal_names_approximations(void **state) {
  (void)state;
  static const unsigned reliefs[] = {
      AC_RELIEF_STATE_8BIT, AC_RELIEF_STATE_8BIT | AC_RELIEF_WEIGHTS_BF16,
      AC_RELIEF_STATE_8BIT | AC_RELIEF_WEIGHTS_BF16 | AC_RELIEF_GRADIENTS_BF16};
  ac_device *device = open_device("dry");
  ac_graph *graph = test_gpt_graph(
      &(test_gpt){.layers = 3, .width = 96, .context = 8, .vocab = 1000, .heads = 4});
  ac_plan *plan;
  ac_plan_desc desc = {.batch = 4, .memory = 1};
  uint64_t before = UINT64_MAX;
  for (int k = 0; k < 3; k++) {
    ac_plan_offer offer = test_offer(graph, device, desc, reliefs[k]);
    assert_true(offer.bytes > 0 && offer.bytes < before);
    before = offer.bytes;
    assert_int_equal(offer.desc.optimizer.state, AC_STATE_8BIT);
    assert_int_equal(offer.desc.weights, k > 0 ? AC_WEIGHTS_BF16 : AC_WEIGHTS_F32);
    assert_int_equal(offer.desc.gradient_storage, k > 1 ? AC_GRADIENT_BF16 : AC_GRADIENT_F32);
    offer.desc.memory = offer.bytes - 1;
    assert_refused(ac_plan_create(&plan, graph, device, &offer.desc), AC_ERROR_BUDGET,
                   "needs at least");
    offer.desc.memory = offer.bytes;
    assert_ok(ac_plan_create(&plan, graph, device, &offer.desc));
    ac_plan_free(plan);
  }
  /* What the optimizer cannot take is not named. */
  desc = (ac_plan_desc){.batch = 4, .memory = 1, .optimizer = {.kind = AC_ADAFACTOR}};
  assert_int_equal(test_offer(graph, device, desc, AC_RELIEF_STATE_8BIT).bytes, 0);
  assert_true(test_offer(graph, device, desc, AC_RELIEF_WEIGHTS_BF16).bytes > 0);
  desc.optimizer.kind = AC_OPTIMIZER_CALLBACK;
  assert_int_equal(test_offer(graph, device, desc, AC_RELIEF_WEIGHTS_BF16).bytes, 0);
  assert_int_equal(test_offer(graph, device, desc, AC_RELIEF_GRADIENTS_BF16).bytes, 0);
  ac_graph_free(graph);
  ac_device_close(device);
}

/* Also without a backward pass. If there is only a remark, nothing is measured either. */
static void refusals_measure_nothing(const char *name, ac_precision precision) {
  ac_device *device = open_device(name);
  ac_graph *graph = test_gpt_graph(
      &(test_gpt){.layers = 4, .width = 128, .context = 64, .vocab = 65, .heads = 4});
  ac_plan *plan;
  static const ac_purpose purposes[] = {AC_TRAIN, AC_EVALUATE, AC_PREDICT};
  for (int i = 0; i < 3; i++) {
    ac_plan_desc desc = {.purpose = purposes[i], .batch = 16, .memory = 1};
    assert_refused(ac_plan_create(&plan, graph, device, &desc), AC_ERROR_BUDGET, "needs at least");
    const uint64_t half = test_offer(graph, device, desc, AC_RELIEF_PRECISION_F16).bytes;
    if (i > 0) assert_true(half > 0);
    assert_null(ac_cost_account_of(device)->models[AC_F16]);
    desc.precision = precision;
    assert_refused(ac_plan_create(&plan, graph, device, &desc), AC_ERROR_BUDGET, "needs at least");
    assert_int_equal(test_offer(graph, device, desc, AC_RELIEF_PRECISION_F16).bytes, 0);
    ac_device_close(device);
    device = open_device(name);
  }
  ac_graph_free(graph);
  ac_device_close(device);
}

static void refusals_measure_nothing_anywhere(void **state) {
  (void)state;
  everywhere(refusals_measure_nothing);
}

static void every_step_tells_its_dtypes(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  ac_graph *graph = test_gpt_graph(&gpt);
  ac_plan *plan;
  assert_ok(ac_plan_create(&plan, graph, device,
                           &(ac_plan_desc){.batch = 2, .precision = AC_PRECISION_F16}));
  int linears = 0;
  for (int64_t i = 0; i < ac_plan_get_info(plan)->steps; i++) {
    ac_plan_step step;
    assert_ok(ac_plan_get_step(plan, i, &step));
    if (!strcmp(step.op, "linear_weight_gradient")) {
      linears++;
      assert_int_equal(step.inputs, 2);
      assert_int_equal(step.input[0], AC_F16);
      assert_int_equal(step.output[0], AC_F32);
    }
  }
  assert_int_equal(linears, 9);
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_device_close(device);
}

/* ---- graphs where dtypes meet ---------------------------------------------------------------- */

enum { WIDTH = 24, SAMPLES = 6 };

/* An f32 input goes into a product, a parameter is scaled and gated before it is used, one is read
 * both as a weight and as a bias, one is shared by two layers and seen in another shape, and the
 * loss compares with an f32 input. */
static ac_graph *odd_graph(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  const int64_t rows[] = {AC_BATCH, WIDTH};
  ac_parameter_desc normal = {.init = {AC_INIT_NORMAL, .deviation = 0.2f}};
  ac_tensor *x = ac_input(g, "x", AC_F32, 2, rows), *goal = ac_input(g, "goal", AC_F32, 2, rows);
  ac_tensor *w = ac_parameter(g, "w", 2, (const int64_t[]){WIDTH, WIDTH}, &normal);
  ac_tensor *flat = ac_parameter(g, "flat", 1, (const int64_t[]){WIDTH * WIDTH}, &normal);
  ac_tensor *gate = ac_parameter(g, "gate", 1, (const int64_t[]){WIDTH}, &normal);
  ac_tensor *shift = ac_parameter(g, "shift", 1, (const int64_t[]){WIDTH}, &normal);
  ac_tensor *gamma = ac_parameter(g, "gamma", 1, (const int64_t[]){WIDTH}, &normal);
  ac_tensor *v = ac_reshape(flat, 2, (const int64_t[]){WIDTH, WIDTH});
  ac_graph_scope(g, "first");
  ac_tensor *h = ac_linear(x, w, shift, AC_OUT_IN);
  h = ac_add(ac_multiply(h, ac_scale(gate, 2)), shift);
  h = ac_layer_norm(h, ac_scale(gamma, 3), NULL, 0);
  ac_graph_scope(g, "second");
  h = ac_add(ac_linear(ac_gelu(h, AC_GELU_TANH), v, NULL, AC_IN_OUT), x);
  h = ac_linear(h, w, NULL, AC_IN_OUT);
  ac_graph_scope(g, NULL);
  ac_graph_set_output(g, "h", h);
  ac_graph_set_loss(g, ac_mean_squared_error(h, goal, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

static void fill(float *x, int count, uint32_t state) {
  for (int i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    x[i] = (float)(state >> 8) * 0x1p-23f - 1;
  }
}

/* Losses of `updates` updates; the last gradient of every parameter, one after another. */
static void train_odd(const char *name, ac_precision precision, ac_recompute recompute, int updates,
                      double *losses, float *weights, size_t most) {
  ac_device *device = open_device(name);
  ac_graph *graph = odd_graph();
  ac_plan *plan;
  ac_trainer *trainer;
  ac_plan_desc desc = {
      .batch = SAMPLES, .micro_batch = 4, .precision = precision, .recompute = recompute};
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  assert_ok(
      ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.seed = 5, .schedule = {.lr = 1e-3}}));
  float x[SAMPLES * WIDTH], goal[SAMPLES * WIDTH];
  fill(x, SAMPLES * WIDTH, 1);
  fill(goal, SAMPLES * WIDTH, 2);
  ac_feed feeds[] = {{"x", x}, {"goal", goal}};
  for (int u = 0; u < updates; u++) {
    ac_update update;
    assert_ok(ac_trainer_accumulate(trainer, SAMPLES, feeds, 2));
    assert_ok(ac_trainer_update(trainer, &update));
    assert_false(update.skipped);
    losses[u] = update.loss;
  }
  size_t used = 0;
  for (int i = 0; i < ac_trainer_parameter_count(trainer); i++) {
    ac_tensor_info info;
    assert_ok(ac_trainer_parameter_info(trainer, i, &info));
    int64_t count = info.shape[0] * (info.rank > 1 ? info.shape[1] : 1);
    assert_true(used + (size_t)count <= most);
    assert_ok(ac_trainer_get_parameter(trainer, i, 0, count, weights + used));
    used += (size_t)count;
  }
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_device_close(device);
}

enum { UPDATES = 30, WEIGHTS = 2 * WIDTH * WIDTH + 3 * WIDTH };

static void odd_graphs_train(const char *device, ac_precision precision) {
  double whole[UPDATES], half[UPDATES], again[UPDATES];
  float a[WEIGHTS], b[WEIGHTS], c[WEIGHTS];
  train_odd(device, AC_PRECISION_F32, AC_RECOMPUTE_NONE, UPDATES, whole, a, WEIGHTS);
  train_odd(device, precision, AC_RECOMPUTE_NONE, UPDATES, half, b, WEIGHTS);
  train_odd(device, precision, AC_RECOMPUTE_ALL, UPDATES, again, c, WEIGHTS);
  assert_true(whole[UPDATES - 1] < 0.9 * whole[0]);
  double tolerance = precision == AC_PRECISION_F16 ? 2e-3 : 2e-2;
  for (int u = 0; u < UPDATES; u++)
    if (!(fabs(half[u] - whole[u]) <= tolerance * whole[u]))
      fail_msg("%s: loss %d is %.6f, in f32 %.6f", device, u, half[u], whole[u]);
  assert_memory_equal(half, again, sizeof half);
  assert_memory_equal(b, c, sizeof b);
}

static void odd_graphs_train_everywhere(void **state) {
  (void)state;
  everywhere(odd_graphs_train);
}

/* ---- forward only ---------------------------------------------------------------------------- */

/* A parameter set by hand is read rounded where it is kept in 16 bits, and the output comes as
 * f32. */
static void sessions_convert(const char *name, ac_precision precision) {
  ac_device *device = open_device(name);
  ac_graph *graph = odd_graph();
  float result[2][SAMPLES * WIDTH], x[SAMPLES * WIDTH], w[WIDTH * WIDTH];
  fill(x, SAMPLES * WIDTH, 3);
  fill(w, WIDTH * WIDTH, 4);
  for (int k = 0; k < 2; k++) {
    ac_plan *plan;
    ac_session *session;
    ac_plan_desc desc = {.purpose = AC_PREDICT, .batch = SAMPLES};
    desc.precision = k ? precision : AC_PRECISION_F32;
    assert_ok(ac_plan_create(&plan, graph, device, &desc));
    assert_ok(ac_session_create(&session, plan, 9));
    assert_ok(ac_session_set_parameter(session, "w", 0, WIDTH * WIDTH, w));
    assert_ok(ac_session_run(session, SAMPLES, &(ac_feed){"x", x}, 1));
    assert_ok(ac_session_output(session, "h", 0, SAMPLES * WIDTH, result[k]));
    ac_session_free(session);
    ac_plan_free(plan);
  }
  double worst = 0, largest = 0;
  for (int i = 0; i < SAMPLES * WIDTH; i++) {
    double value = fabs((double)result[0][i]);
    double difference = fabs((double)result[1][i] - (double)result[0][i]);
    if (difference > worst) worst = difference;
    if (value > largest) largest = value;
  }
  double step = precision == AC_PRECISION_F16 ? 0x1p-11 : 0x1p-8;
  assert_true(worst > 0 && worst < 8 * step * largest);
  ac_graph_free(graph);
  ac_device_close(device);
}

static void sessions_convert_everywhere(void **state) {
  (void)state;
  everywhere(sessions_convert);
}

/* They are read, written and saved as all others. */
static void what_nothing_reads_is_kept(const char *name, ac_precision precision) {
  ac_graph *graph;
  assert_ok(ac_graph_create(&graph));
  ac_tensor *x = ac_input(graph, "x", AC_F32, AC_SHAPE(AC_BATCH, 4));
  ac_tensor *t = ac_input(graph, "t", AC_F32, AC_SHAPE(AC_BATCH, 4));
  ac_linear(x, ac_parameter(graph, "left out", AC_SHAPE(6, 4), ZEROS), NULL, AC_OUT_IN);
  ac_tensor *y = ac_linear(x, ac_parameter(graph, "w", AC_SHAPE(4, 4), ZEROS), NULL, AC_OUT_IN);
  ac_graph_add_loss(graph, "loss", ac_mean_squared_error(y, t, NULL), 1);
  assert_ok(ac_graph_status(graph));
  ac_device *device = open_device(name);
  ac_plan *plan;
  ac_trainer *trainer;
  assert_ok(
      ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = 4, .precision = precision}));
  assert_ok(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.schedule = {.lr = 0.1}}));
  int index = ac_trainer_find_parameter(trainer, "left out");
  float w[24], back[24];
  for (int i = 0; i < 24; i++) w[i] = (float)i / 3;
  assert_ok(ac_trainer_set_parameter(trainer, index, 0, 24, w));
  assert_ok(ac_trainer_get_parameter(trainer, index, 0, 24, back));
  assert_memory_equal(w, back, sizeof w);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_device_close(device);
}

static void what_nothing_reads_is_kept_everywhere(void **state) {
  (void)state;
  everywhere(what_nothing_reads_is_kept);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(activations_shrink),
      cmocka_unit_test(scratch_leaves_something_to_save),
      cmocka_unit_test(scratch_grows_with_the_product),
      cmocka_unit_test(weights_shrink_without_training),
      cmocka_unit_test(a_refusal_names_half_precision),
      cmocka_unit_test(a_refusal_names_approximations),
      cmocka_unit_test(refusals_measure_nothing_anywhere),
      cmocka_unit_test(every_step_tells_its_dtypes),
      cmocka_unit_test(odd_graphs_train_everywhere),
      cmocka_unit_test(sessions_convert_everywhere),
      cmocka_unit_test(what_nothing_reads_is_kept_everywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
