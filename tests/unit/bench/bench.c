/* The bench: its rows' work against counts by hand, its statistics, and measurements that are there
 * and sensible. Nothing here depends on how fast the machine is. */
#include "support/models.h"

#include "ops/description.h"
#include <math.h>
#include <stdlib.h>

/* B T C V of the model below. */
enum { B = 4, T = 10, C = 24, V = 17, H = 2, LAYERS = 3, N = B * T };
static const test_gpt model = {LAYERS, C, T, V, H, 0.1f, false, true};

static ac_device *open_device(const char *name) {
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = name}));
  return device;
}

static ac_bench *bench_of_plan(ac_device *device, const ac_bench_desc *desc,
                               ac_precision precision) {
  ac_graph *graph = test_gpt_graph(&model);
  ac_plan *plan;
  ac_bench *bench;
  assert_ok(ac_plan_create(
      &plan, graph, device,
      &(ac_plan_desc){
          .batch = B, .micro_batch = B, .precision = precision, .recompute = AC_RECOMPUTE_NONE}));
  assert_ok(ac_bench_create(&bench, device, desc));
  assert_ok(ac_bench_add_plan(bench, plan));
  ac_plan_free(plan);
  ac_graph_free(graph);
  return bench;
}

static ac_bench_op row(const ac_bench *bench, int index) {
  ac_bench_op op;
  assert_ok(ac_bench_get(bench, index, &op));
  return op;
}

static int find(const ac_bench *bench, const char *op, const char *shapes) {
  for (int i = 0; i < ac_bench_count(bench); i++)
    if (!strcmp(row(bench, i).op, op) && !strcmp(row(bench, i).shapes, shapes)) return i;
  for (int i = 0; i < ac_bench_count(bench); i++)
    if (!strcmp(row(bench, i).op, op)) print_message("%s %s\n", op, row(bench, i).shapes);
  fail_msg("no row %s %s", op, shapes);
  return -1;
}

/* ---- counts by hand -------------------------------------------------------------------------- */

static void check_row(const ac_bench *bench, const char *op, const char *shapes, int64_t count,
                      double flops, double bytes) {
  ac_bench_op r = row(bench, find(bench, op, shapes));
  if (r.count != count || r.flops != flops || r.bytes != bytes)
    fail_msg("%s %s: %lld times %.17g flops, %.17g bytes instead of %lld, %.17g, %.17g", op, shapes,
             (long long)r.count, r.flops, r.bytes, (long long)count, flops, bytes);
}

static void test_counts_by_hand(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  ac_bench *bench = bench_of_plan(device, NULL, AC_PRECISION_F32);
  /* The first linear layer of a block: x[40, 24] W[24, 72] + b. */
  const double x = N * C, w = C * 3 * C, y = N * 3 * C;
  check_row(bench, "linear", "4x10x24 24x72 72 -> 4x10x72", LAYERS, 2 * x * 3 * C,
            4 * (x + w + 3 * C + y));
  check_row(bench, "linear_input_gradient", "4x10x72 24x72 -> 4x10x24", LAYERS, 2 * x * 3 * C,
            4 * (y + w + x));
  /* Parameter gradients are added to: read and written. */
  check_row(bench, "linear_weight_gradient", "4x10x24 4x10x72 -> +24x72 +72", LAYERS,
            2 * x * 3 * C + y, 4 * (x + y + 2 * w + 2 * 3 * C));
  /* q k^T and p v, one row although each has random numbers of its own, over pairs j <= i of each
   * sample, 2 flops for each of C channels. */
  const double pairs = B * T * (T + 1) / 2.0;
  check_row(bench, "attention", "4x10x72 -> 4x10x24 4x2x10, dropout", LAYERS, 2 * 2 * pairs * C,
            4 * (y + x + B * H * T));
  check_row(bench, "attention_gradient", "4x10x24 4x10x72 - - 4x10x24 4x2x10 -> 4x10x72, dropout",
            LAYERS, 5 * 2 * pairs * C, 4 * (x + y + x + B * H * T + y));
  /* Two norms a block and one at the end. */
  check_row(bench, "layer_norm", "4x10x24 24 24 -> 4x10x24 4x10x2", 2 * LAYERS + 1, 7 * x,
            4 * (2 * x + 2 * C + 2 * N));
  /* Of the table of tokens only the rows asked for. */
  check_row(bench, "embedding", "17x24 4x10 -> 4x10x24", 1, 0, 4 * (2 * x + N));
  /* Of a parameter the gradient is read, itself and two moments are read and written. */
  check_row(bench, "adamw", "1728 -> 1728 1728 1728", LAYERS, 14 * w, 4 * 7 * w);
  check_row(bench, "gradient_statistics", "24x72 -> 2", LAYERS, 3 * w, 4 * (w + 2));
  ac_bench_free(bench);
  ac_device_close(device);
}

/* In 16 bits activations take half; biases and statistics do not. */
static void test_counts_in_16_bits(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  ac_bench *bench = bench_of_plan(device, NULL, AC_PRECISION_BF16);
  const double x = N * C, w = C * 3 * C, y = N * 3 * C;
  const char *shapes = "4x10x24 24x72 72 -> 4x10x72";
  check_row(bench, "linear", shapes, LAYERS, 2 * x * 3 * C, 2 * (x + w + y) + 4 * 3 * C);
  assert_int_equal(row(bench, find(bench, "linear", shapes)).precision, AC_PRECISION_BF16);
  check_row(bench, "adamw", "1728 -> 1728 1728 1728 1728", LAYERS, 14 * w, (4 * 7 + 2) * w);
  ac_bench_free(bench);
  ac_device_close(device);
}

/* The rows are the plan: their sum is what the plan says of a micro-batch, and every parameter is
 * stepped once. */
static void test_rows_add_up(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  ac_graph *graph = test_gpt_graph(&model);
  ac_plan *plan;
  assert_ok(ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = B, .micro_batch = B}));
  ac_bench *bench;
  assert_ok(ac_bench_create(&bench, device, NULL));
  assert_ok(ac_bench_add_plan(bench, plan));
  double flops = 0;
  int64_t steps = 0, stepped = 0;
  for (int i = 0; i < ac_bench_count(bench); i++) {
    ac_bench_op op = row(bench, i);
    if (!strcmp(op.op, "adamw")) stepped += op.count;
    if (op.update) continue;
    flops += (double)op.count * op.flops;
    steps += op.count;
  }
  const ac_plan_info *info = ac_plan_get_info(plan);
  assert_int_equal(steps, info->steps);
  assert_true(fabs(flops - info->flops) <= 1e-12 * flops);
  assert_int_equal(stepped, ac_graph_parameter_count(graph));
  ac_bench_free(bench);
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_device_close(device);
}

static double flops_of_window(ac_device *device, int64_t micro_batch) {
  ac_graph *graph = test_gpt_graph(&model);
  ac_plan *plan;
  ac_bench *bench;
  assert_ok(ac_plan_create(
      &plan, graph, device,
      &(ac_plan_desc){.batch = B, .micro_batch = micro_batch, .recompute = AC_RECOMPUTE_NONE}));
  assert_ok(ac_bench_create(&bench, device, NULL));
  assert_ok(ac_bench_add_window(bench, plan));
  double flops = 0;
  int64_t stepped = 0;
  for (int i = 0; i < ac_bench_count(bench); i++) {
    ac_bench_op op = row(bench, i);
    if (!strcmp(op.op, "adamw")) stepped += op.count;
    flops += (double)op.count * op.flops;
  }
  assert_int_equal(stepped, ac_graph_parameter_count(graph));
  ac_bench_free(bench);
  ac_plan_free(plan);
  ac_graph_free(graph);
  return flops;
}

/* However a window is cut, its samples are the same: micro-batches of 3 and 1 do the work of one of
 * 4. */
static void test_window_is_its_samples(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  double whole = flops_of_window(device, B);
  for (int64_t micro_batch = 1; micro_batch < B; micro_batch++)
    assert_true(fabs(flops_of_window(device, micro_batch) - whole) <= 1e-12 * whole);
  ac_device_close(device);
}

static ac_graph *one_layer(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, C));
  ac_tensor *y = ac_linear(x, test_matrix(g, "a", "w", V, C), NULL, AC_OUT_IN);
  ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, V));
  ac_graph_set_loss(g, ac_mean_squared_error(y, t, NULL));
  return g;
}

/* The first micro-batch of 2, 2 and 1 samples overwrites the gradient and the loss, which the
 * others read and write. */
static void test_bytes_of_a_window(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  ac_graph *graph = one_layer();
  ac_plan *plan;
  ac_bench *bench;
  const ac_plan_desc desc = {.batch = 5, .micro_batch = 2, .recompute = AC_RECOMPUTE_NONE};
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  assert_ok(ac_bench_create(&bench, device, NULL));
  assert_ok(ac_bench_add_window(bench, plan));
  const double w = V * C, pair = C + V;
  const double flops = 2 * 2 * w, bytes = 4 * (2 * pair + w);
  check_row(bench, "linear_weight_gradient", "2x24 2x17 -> 17x24", 1, flops, bytes);
  check_row(bench, "linear_weight_gradient", "2x24 2x17 -> +17x24", 1, flops, bytes + 4 * w);
  check_row(bench, "linear_weight_gradient", "1x24 1x17 -> +17x24", 1, flops / 2,
            4 * (pair + 2 * w));
  check_row(bench, "linear", "2x24 17x24 -> 2x17", 2, flops, bytes);
  double total = 0;
  for (int i = 0; i < ac_bench_count(bench); i++)
    total += (double)row(bench, i).count * row(bench, i).bytes;
  const double forward = 5 * pair + 3 * w, backward = 5 * pair + (1 + 2 + 2) * w;
  const double loss = 2 * 5 * V + (1 + 2 + 2) * AC_LOSS_SUMS + 3 * 5 * V;
  const double update = w + 2 + 7 * w;
  assert_true(total == 4 * (forward + backward + loss + update));
  ac_bench_free(bench);
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_device_close(device);
}

/* Of a parameter the gradient is read, itself and its momentum, if it has one, read and written. */
static void test_counts_of_sgd(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  ac_graph *graph = one_layer();
  for (int plain = 0; plain < 2; plain++) {
    ac_plan *plan;
    ac_bench *bench;
    const ac_plan_desc desc = {.batch = B, .optimizer = {.kind = AC_SGD, .sgd_no_momentum = plain}};
    assert_ok(ac_plan_create(&plan, graph, device, &desc));
    assert_ok(ac_bench_create(&bench, device, NULL));
    assert_ok(ac_bench_add_plan(bench, plan));
    const double w = V * C;
    check_row(bench, "sgd", plain ? "408 -> 408" : "408 -> 408 408", 1, 6 * w,
              4 * (plain ? 3 : 5) * w);
    ac_bench_free(bench);
    ac_plan_free(plan);
  }
  ac_graph_free(graph);
  ac_device_close(device);
}

/* Steps that see a parameter as a matrix are measured in its shape. */
static void test_steps_of_matrices_keep_their_shape(void **state) {
  (void)state;
  static const struct {
    ac_plan_desc desc;
    const char *op, *shapes;
  } cases[] = {{{.optimizer = {.kind = AC_ADAFACTOR}}, "adafactor", "24x72 -> 24x72 24 72"},
               {{.optimizer = {.kind = AC_ADAM_MINI}}, "adam_mini", "24x72 -> 24x72 24x72 1x72"},
               {{.optimizer = {.kind = AC_MUON}}, "muon", "24x72 -> 24x72 24x72"},
               {{.optimizer = {.clipping = AC_CLIP_ADAPTIVE}}, "clip", "24x72 24x72 -> 24x72"}};
  ac_device *device = open_device("dry");
  ac_graph *graph = test_gpt_graph(&model);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ac_plan *plan;
    ac_bench *bench;
    ac_plan_desc desc = cases[i].desc;
    desc.batch = desc.micro_batch = B;
    assert_ok(ac_plan_create(&plan, graph, device, &desc));
    assert_ok(ac_bench_create(&bench, device, NULL));
    assert_ok(ac_bench_add_plan(bench, plan));
    assert_int_equal(row(bench, find(bench, cases[i].op, cases[i].shapes)).count, LAYERS);
    ac_bench_free(bench);
    ac_plan_free(plan);
  }
  ac_graph_free(graph);
  ac_device_close(device);
}

static uint64_t footprint_of_muon(ac_device *device, ac_precision precision) {
  ac_graph *graph = test_gpt_graph(&model);
  ac_plan *plan;
  ac_bench *bench;
  const ac_plan_desc desc = {
      .batch = B, .micro_batch = B, .precision = precision, .optimizer = {.kind = AC_MUON}};
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  assert_ok(ac_bench_create(&bench, device, &(ac_bench_desc){.footprint = 1 << 16}));
  assert_ok(ac_bench_add_plan(bench, plan));
  const char *shapes =
      precision == AC_PRECISION_F32 ? "96x24 -> 96x24 96x24" : "96x24 -> 96x24 96x24 96x24";
  const uint64_t bytes = row(bench, find(bench, "muon", shapes)).footprint;
  ac_bench_free(bench);
  ac_plan_free(plan);
  ac_graph_free(graph);
  return bytes;
}

static void check_muon_multiplies_bf16(const char *name) {
  ac_device *device = open_device(name);
  if (strcmp(ac_device_get_info(device)->bf16_products, "as floats") != 0)
    assert_true(footprint_of_muon(device, AC_PRECISION_BF16) <
                footprint_of_muon(device, AC_PRECISION_F32));
  ac_device_close(device);
}

/* The workspace of Muon's matrices is half as large if the device multiplies bf16, also with a
 * working copy. */
static void test_muon_multiplies_bf16(void **state) {
  (void)state;
  ac_device_info list[8];
  int count;
  check_muon_multiplies_bf16("cpu");
  setenv("ACCRUE_PRODUCTS", "mma", 1);
  assert_ok(ac_device_list(list, 8, &count));
  for (int i = 0; i < count && i < 8; i++) check_muon_multiplies_bf16(list[i].id);
  unsetenv("ACCRUE_PRODUCTS");
}

/* With the ops that the model lacks the list has every op of the table, and none twice. */
static void test_every_op_is_there(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  ac_bench *bench = bench_of_plan(device, NULL, AC_PRECISION_F32);
  assert_ok(ac_bench_add_others(bench, AC_PRECISION_F32));
  for (int op = 0; op < AC_OP_COUNT; op++) {
    bool found = false;
    for (int i = 0; i < ac_bench_count(bench); i++)
      found |= !strcmp(row(bench, i).op,
                       ac_op_title((ac_op)op, ac_op_describe((ac_op)op)->sample.attributes));
    if (!found) fail_msg("%s is not in the list", ac_op_name((ac_op)op));
  }
  for (int i = 0; i < ac_bench_count(bench); i++)
    for (int j = 0; j < i; j++)
      assert_false(!strcmp(row(bench, i).op, row(bench, j).op) &&
                   !strcmp(row(bench, i).shapes, row(bench, j).shapes));
  ac_bench_free(bench);
  ac_device_close(device);
}

/* Ops at the same shapes that do different work are different rows, which say what is different. */
static void test_attributes_tell_rows_apart(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  ac_graph *g;
  ac_plan *plan;
  ac_bench *bench;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, C, C));
  ac_tensor *y = ac_linear(x, test_matrix(g, "a", "w", C, C), NULL, AC_OUT_IN);
  y = ac_linear(y, test_matrix(g, "b", "w", C, C), NULL, AC_IN_OUT);
  y = ac_gelu(ac_tensor_hint(ac_gelu(y, AC_GELU_TANH), AC_KEEP), AC_GELU_ERF);
  y = ac_matmul(ac_matmul(y, y, false, false), y, false, true);
  ac_graph_set_output(g, "y", y);
  assert_ok(ac_plan_create(&plan, g, device, &(ac_plan_desc){.purpose = AC_PREDICT, .batch = B}));
  assert_ok(ac_bench_create(&bench, device, NULL));
  assert_ok(ac_bench_add_plan(bench, plan));
  static const char *const rows[][2] = {{"linear", "4x24x24 24x24 -> 4x24x24"},
                                        {"linear", "4x24x24 24x24 -> 4x24x24, in-out"},
                                        {"gelu", "4x24x24 -> 4x24x24"},
                                        {"gelu", "4x24x24 -> 4x24x24, erf"},
                                        {"matmul", "4x24x24 4x24x24 -> 4x24x24"},
                                        {"matmul", "4x24x24 4x24x24 -> 4x24x24, b transposed"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_int_equal(row(bench, find(bench, rows[i][0], rows[i][1])).count, 1);
  ac_bench_free(bench);
  ac_plan_free(plan);
  ac_graph_free(g);
  ac_device_close(device);
}

/* What does other work in evaluation is another row than in training, and nothing else is. */
static void test_evaluation_is_told_apart(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  ac_bench *bench = bench_of_plan(device, NULL, AC_PRECISION_F32);
  ac_graph *graph = test_gpt_graph(&model);
  ac_plan *plan;
  const ac_plan_desc desc = {.purpose = AC_PREDICT, .batch = B, .micro_batch = B};
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  assert_ok(ac_bench_add_plan(bench, plan));
  static const char *const rows[][2] = {
      {"attention", "4x10x72 -> 4x10x24 4x2x10, dropout"},
      {"attention", "4x10x72 -> 4x10x24 4x2x10, dropout, in evaluation"},
      {"dropout", "4x10x24 -> 4x10x24, in evaluation"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_true(row(bench, find(bench, rows[i][0], rows[i][1])).count >= LAYERS);
  assert_int_equal(row(bench, find(bench, "linear", "4x10x24 24x72 72 -> 4x10x72")).count,
                   2 * LAYERS);
  ac_bench_free(bench);
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_device_close(device);
}

/* Whether a row is of the backward pass or of an update does not depend on where it comes from. */
static void test_passes(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  ac_bench *others, *bench = bench_of_plan(device, NULL, AC_PRECISION_F32);
  assert_ok(ac_bench_create(&others, device, NULL));
  assert_ok(ac_bench_add_others(others, AC_PRECISION_F32));
  for (int i = 0; i < ac_bench_count(others); i++) {
    ac_bench_op other = row(others, i);
    bool gradient = strstr(other.op, "gradient") && strcmp(other.op, "gradient_statistics") != 0;
    assert_true(!gradient || other.backward);
    for (int j = 0; j < ac_bench_count(bench); j++) {
      ac_bench_op op = row(bench, j);
      if (strcmp(op.op, other.op) != 0 || !strcmp(op.op, "dropout") || !strcmp(op.op, "reduce") ||
          !strcmp(op.op, "scatter_add"))
        continue; /* in both passes */
      if (op.backward != other.backward || op.update != other.update)
        fail_msg("%s: backward %d, update %d", op.op, other.backward, other.update);
    }
  }
  ac_bench_free(others);
  ac_bench_free(bench);
  ac_device_close(device);
}

static ac_tensor *frozen_vector(ac_graph *g, const char *name) {
  return ac_parameter(g, name, SHAPE(C), &(ac_parameter_desc){.frozen = true});
}

/* Batch norm's running statistics are moved once an update, those of each norm. */
static void test_running_statistics_are_updated(void **state) {
  (void)state;
  ac_device *device = open_device("dry");
  ac_graph *g;
  ac_plan *plan;
  ac_bench *bench;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, C));
  ac_tensor *y = ac_linear(x, test_matrix(g, "a", "w", C, C), NULL, AC_OUT_IN);
  y = ac_batch_norm(y, NULL, NULL, frozen_vector(g, "mean1"), frozen_vector(g, "var1"), NULL);
  y = ac_batch_norm(y, NULL, NULL, frozen_vector(g, "mean2"), frozen_vector(g, "var2"), NULL);
  ac_graph_set_loss(g, ac_mean_squared_error(y, x, NULL));
  assert_ok(ac_plan_create(&plan, g, device, &(ac_plan_desc){.batch = B}));
  assert_ok(ac_bench_create(&bench, device, NULL));
  assert_ok(ac_bench_add_plan(bench, plan));
  ac_bench_op op = row(bench, find(bench, "batch_norm_update", "24x3 -> 24 24"));
  assert_true(op.update && !op.backward);
  assert_int_equal(op.count, 2);
  ac_bench_free(bench);
  ac_plan_free(plan);
  ac_graph_free(g);
  ac_device_close(device);
}

/* ---- statistics ------------------------------------------------------------------------------ */

/* The library's clock (linked with --wrap): how long a test's work takes must not hang on what else
 * the machine does. */
double __real_ac_clock(void);
double __wrap_ac_clock(void);
static bool by_hand;
static double hand; /* seconds */
double __wrap_ac_clock(void) {
  return by_hand ? hand : __real_ac_clock();
}

typedef struct work {
  int64_t calls, runs;
  double seconds; /* that a run takes */
  bool uneven, drifting;
  ac_status status;
} work;

/* Takes time in proportion to the runs; of an uneven work, every other call takes ten times that;
 * of a drifting one, every other round four times, as long as its samples have twice the runs. */
static ac_status work_on(void *user, int64_t runs) {
  work *w = user;
  int64_t factor = w->uneven && w->calls++ % 2 ? 10 : 1;
  for (int64_t i = runs; w->drifting && i; i /= 2) factor = factor == 1 ? 4 : 1;
  hand += w->seconds * (double)(runs * factor);
  w->runs += runs;
  return w->status;
}

static ac_status measure_by_hand(ac_bench_timing *timing, const ac_bench_desc *desc, work *w) {
  by_hand = true;
  ac_status status = ac_bench_measure(timing, desc, work_on, w);
  by_hand = false;
  return status;
}

static void test_measuring(void **state) {
  (void)state;
  ac_bench_timing timing;
  const ac_bench_desc desc = {.seconds = 0.2, .samples = 9};
  work even = {.seconds = 2e-5};
  assert_ok(measure_by_hand(&timing, &desc, &even));
  assert_true(fabs(timing.median - 2e-5) < 1e-12 && fabs(timing.least - 2e-5) < 1e-12);
  assert_true(timing.samples >= 5 && timing.samples <= 9 && !timing.noisy && timing.spread < 1e-6);
  assert_true(even.runs >= timing.runs * timing.samples);
  work uneven = {.seconds = 2e-5, .uneven = true};
  assert_ok(measure_by_hand(&timing, &desc, &uneven));
  assert_true(timing.noisy && timing.spread > 0.5);
  work drifting = {.seconds = 2e-5, .drifting = true};
  /* Time for more than the first round. */
  const ac_bench_desc long_desc = {.seconds = 4, .samples = 5};
  assert_ok(measure_by_hand(&timing, &long_desc, &drifting));
  assert_true(timing.noisy && timing.spread > 2);
  /* The time is over with the first run of four: two to warm up, and two rounds of five. */
  work slow = {.seconds = 4e-3};
  assert_ok(measure_by_hand(&timing, &(ac_bench_desc){.seconds = 1e-3}, &slow));
  assert_true(timing.samples == 5 && timing.runs == 1 && slow.runs == 12);
  /* Two to warm up, and one round. */
  slow.runs = 0;
  assert_ok(measure_by_hand(&timing, &(ac_bench_desc){.seconds = 1e-3, .rounds = 1}, &slow));
  assert_true(timing.samples == 5 && slow.runs == 7);
  work failing = {.status = AC_ERROR_DEVICE};
  assert_int_equal(measure_by_hand(&timing, &desc, &failing), AC_ERROR_DEVICE);
  assert_int_equal(failing.runs, 1);
  assert_refused(measure_by_hand(&timing, &(ac_bench_desc){.samples = 4}, &even), AC_ERROR_ARGUMENT,
                 "4 samples");
  assert_refused(measure_by_hand(&timing, &(ac_bench_desc){.rounds = -1}, &even), AC_ERROR_ARGUMENT,
                 "-1 rounds");
  assert_refused(measure_by_hand(&timing, &(ac_bench_desc){.seconds = -1}, &even),
                 AC_ERROR_ARGUMENT, "they are -1");
  assert_refused(measure_by_hand(&timing, &(ac_bench_desc){.footprint = 4095}, &even),
                 AC_ERROR_ARGUMENT, "a footprint of 4095 bytes");
}

static void test_visits(void **state) {
  (void)state;
  /* By hand: the middle one of 1.0, 1.02 and 1.04; 4 % between the outer ones, which is more than
   * the least spread. */
  const ac_bench_timing visits[] = {{1.04, 0.01, 0.9, 15, 2, false},
                                    {1.0, 0.02, 0.8, 15, 4, false},
                                    {1.02, 0.03, 0.95, 30, 2, false}};
  ac_bench_timing timing;
  assert_ok(ac_bench_combine(&timing, NULL, visits, 3));
  assert_true(timing.median == 1.02 && fabs(timing.spread - 0.04) < 1e-12 && !timing.noisy);
  assert_true(timing.least == 0.8 && timing.samples == 60);
  assert_ok(ac_bench_combine(&timing, &(ac_bench_desc){.spread = 0.03}, visits, 3));
  assert_true(timing.noisy);
  assert_ok(ac_bench_combine(&timing, NULL, visits, 1));
  assert_true(timing.median == 1.04 && timing.spread == 0.01 && timing.samples == 15);
  const ac_bench_timing alike[] = {{1, 0.2, 1, 5, 1, true}, {1, 0.1, 1, 5, 1, true}};
  assert_ok(ac_bench_combine(&timing, NULL, alike, 2));
  assert_true(timing.median == 1 && timing.spread == 0.1 && timing.noisy);
  assert_refused(ac_bench_combine(&timing, NULL, visits, 0), AC_ERROR_ARGUMENT, "0 visits");
  assert_refused(ac_bench_combine(&timing, NULL, visits, 17), AC_ERROR_ARGUMENT, "17 visits");
}

static void test_limits(void **state) {
  (void)state;
  const ac_bench_roofs roofs = {.flops = {100e9}, .bytes = 10e9, .launch = 1e-6};
  ac_bench_bound bound;
  assert_true(ac_bench_limit(&roofs, AC_PRECISION_F32, 1e9, 1e6, &bound) == 1e9 / 100e9);
  assert_int_equal(bound, AC_BOUND_COMPUTE);
  assert_true(ac_bench_limit(&roofs, AC_PRECISION_F32, 1e6, 1e9, &bound) == 1e9 / 10e9);
  assert_int_equal(bound, AC_BOUND_MEMORY);
  assert_true(ac_bench_limit(&roofs, AC_PRECISION_F32, 10, 10, &bound) == 1e-6);
  assert_int_equal(bound, AC_BOUND_LAUNCH);
  /* Without a rate in that precision the bytes are all that is known. */
  assert_true(ac_bench_limit(&roofs, AC_PRECISION_F16, 1e12, 1e9, NULL) == 1e9 / 10e9);
}

/* ---- measurements ---------------------------------------------------------------------------- */

static const ac_bench_desc quick = {.seconds = 0.01, .samples = 5, .footprint = 1 << 20};

/* Every op of the table runs with the operands of its row, and gives the memory back. */
static void check_ops(ac_device *device, ac_precision precision) {
  ac_bench *bench = bench_of_plan(device, &quick, precision);
  assert_ok(ac_bench_add_product(bench, precision, 33, 65, 17));
  for (int i = 0; i < ac_bench_count(bench); i++) {
    ac_bench_timing timing;
    ac_bench_op op = row(bench, i);
    assert_true(op.cached && op.footprint > 0);
    assert_ok(ac_bench_time(bench, i, &timing));
    assert_true(timing.median > 0 && isfinite(timing.median) && timing.spread >= 0);
  }
  assert_int_equal(ac_device_allocated_bytes(device), 0);
  ac_bench_free(bench);
}

static void test_cpu(void **state) {
  (void)state;
  ac_device *device = open_device("cpu");
  ac_device_reset_peak(device);
  check_ops(device, AC_PRECISION_F32);
  assert_int_equal(ac_device_peak_bytes(device), 0);
  ac_device_close(device);
}

static void test_opencl(void **state) {
  (void)state;
  ac_device *device;
  if (ac_device_open(&device, &(ac_device_desc){.name = "opencl"}) != AC_OK) {
    if (getenv("ACCRUE_TEST_OPENCL")) fail_msg("%s", ac_last_error());
    skip();
  }
  check_ops(device, AC_PRECISION_F32);
  ac_device_close(device);
}

static void test_roofs(void **state) {
  (void)state;
  ac_device *device = open_device("cpu");
  ac_bench_roofs roofs;
  assert_ok(ac_bench_measure_roofs(&roofs, device, &quick));
  assert_true(roofs.flops[AC_PRECISION_F32] > 0 && roofs.size[AC_PRECISION_F32] >= 512);
  assert_true(roofs.bytes > 0 && roofs.copied >= (uint64_t)256 << 20); /* not quick's */
  assert_true(roofs.launch > 0 && roofs.latency > 0);
  assert_int_equal(ac_device_allocated_bytes(device), 0);
  ac_device_close(device);
}

static void test_refusals(void **state) {
  (void)state;
  ac_device *dry = open_device("dry"), *cpu = open_device("cpu");
  ac_bench_roofs roofs;
  ac_bench_timing timing;
  ac_bench_op op;
  ac_bench *bench = bench_of_plan(dry, NULL, AC_PRECISION_F32), *other;
  assert_refused(ac_bench_measure_roofs(&roofs, dry, NULL), AC_ERROR_UNSUPPORTED,
                 "computes nothing");
  assert_refused(ac_bench_time(bench, 0, &timing), AC_ERROR_UNSUPPORTED, "computes nothing");
  assert_refused(ac_bench_get(bench, ac_bench_count(bench), &op), AC_ERROR_ARGUMENT, "op ");
  assert_refused(ac_bench_add_product(bench, AC_PRECISION_F32, 0, 1, 1), AC_ERROR_ARGUMENT,
                 "a product of 0");
  assert_refused(ac_bench_add_product(bench, (ac_precision)9, 4, 4, 4), AC_ERROR_ARGUMENT,
                 "bench: unknown precision 9");
  assert_refused(ac_bench_add_others(bench, (ac_precision)-1), AC_ERROR_ARGUMENT,
                 "bench: unknown precision -1");
  assert_ok(ac_bench_create(&other, cpu, NULL));
  ac_graph *graph = test_gpt_graph(&model);
  ac_plan *plan;
  assert_ok(ac_plan_create(&plan, graph, dry, &(ac_plan_desc){.batch = B}));
  assert_refused(ac_bench_add_plan(other, plan), AC_ERROR_ARGUMENT, "another device");
  assert_int_equal(ac_bench_count(other), 0);
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_bench_free(other);
  ac_bench_free(bench);
  ac_device_close(cpu);
  ac_device_close(dry);
}

/* Of the same shapes, by what they are called. */
static void different_functions_are_different_ops(void **state) {
  (void)state;
  ac_graph *g;
  ac_device *device;
  ac_plan *plan;
  ac_bench *bench;
  assert_ok(ac_graph_create(&g));
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu"}));
  ac_tensor *x = ac_input(g, "x", AC_F32, AC_SHAPE(AC_BATCH, 4));
  ac_tensor *w = ac_parameter(g, "w", AC_SHAPE(4, 4), NULL);
  x = ac_linear(ac_relu(x), w, NULL, AC_OUT_IN);
  x = ac_linear(ac_sigmoid(x), w, NULL, AC_OUT_IN);
  ac_graph_set_output(g, "y", ac_relu(x));
  assert_ok(ac_plan_create(&plan, g, device, &(ac_plan_desc){.purpose = AC_PREDICT}));
  assert_ok(ac_bench_create(&bench, device, NULL));
  assert_ok(ac_bench_add_plan(bench, plan));
  int64_t relu = 0, sigmoid = 0;
  for (int i = 0; i < ac_bench_count(bench); i++) {
    ac_bench_op op;
    assert_ok(ac_bench_get(bench, i, &op));
    if (!strcmp(op.op, "relu")) relu += op.count;
    if (!strcmp(op.op, "sigmoid")) sigmoid += op.count;
  }
  assert_int_equal(relu, 2);
  assert_int_equal(sigmoid, 1);
  ac_bench_free(bench);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(different_functions_are_different_ops),
      cmocka_unit_test(test_counts_by_hand),
      cmocka_unit_test(test_counts_in_16_bits),
      cmocka_unit_test(test_rows_add_up),
      cmocka_unit_test(test_window_is_its_samples),
      cmocka_unit_test(test_bytes_of_a_window),
      cmocka_unit_test(test_counts_of_sgd),
      cmocka_unit_test(test_steps_of_matrices_keep_their_shape),
      cmocka_unit_test(test_muon_multiplies_bf16),
      cmocka_unit_test(test_every_op_is_there),
      cmocka_unit_test(test_attributes_tell_rows_apart),
      cmocka_unit_test(test_evaluation_is_told_apart),
      cmocka_unit_test(test_passes),
      cmocka_unit_test(test_running_statistics_are_updated),
      cmocka_unit_test(test_measuring),
      cmocka_unit_test(test_visits),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_cpu),
      cmocka_unit_test(test_opencl),
      cmocka_unit_test(test_roofs),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
