/* Ops of the caller's own, in networks that train: the same results as ops of the library, whatever
 * the plan; several outputs, integers and random numbers; what is refused, and what failures leave.
 */
#include "support/correlation.h"
#include "support/devices.h"
#include "support/trainers.h"

#include <math.h>
#include <stdlib.h>

/* ---- against ops of the library -------------------------------------------------------------- */

enum { SAMPLES = 7, ROWS = 2, LONG = 12, KERNEL = 3, FLAT = ROWS * (LONG - 2 * (KERNEL - 1)) };

static ac_tensor *correlate(ac_graph *g, ac_tensor *x, ac_tensor *w, const ac_custom_desc *own) {
  if (own) return ac_custom_op(g, (ac_tensor *[]){x, w}, 2, NULL, own);
  ac_tensor_info info;
  ac_tensor_get_info(x, &info);
  ac_tensor *image = ac_reshape(x, SHAPE(AC_BATCH_TIMES(ROWS), 1, 1, info.shape[2]));
  ac_tensor *y = ac_conv2d(image, ac_reshape(w, SHAPE(1, 1, 1, KERNEL)), NULL, NULL);
  return ac_scale(ac_reshape(y, SHAPE(AC_BATCH, ROWS, info.shape[2] - KERNEL + 1)), 0.5f);
}

/* The kernel occurs twice, and so does what the first one yields. */
static ac_graph *network(const ac_custom_desc *own) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, ROWS, LONG));
  ac_tensor *y = ac_input(g, "y", AC_F32, SHAPE(AC_BATCH, FLAT));
  ac_tensor *w = ac_parameter(g, "w", SHAPE(KERNEL), NULL);
  const ac_parameter_desc spread = {.init = {AC_INIT_UNIFORM, .low = -1, .high = 1}};
  ac_tensor *square = ac_parameter(g, "square", SHAPE(LONG, LONG), &spread);
  ac_tensor *h = correlate(g, ac_tanh(ac_linear(x, square, NULL, AC_IN_OUT)), w, own);
  h = correlate(g, ac_multiply(h, ac_tanh(h)), w, own);
  ac_graph_set_loss(g, ac_mean_squared_error(ac_reshape(h, SHAPE(AC_BATCH, FLAT)), y, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

/* Parameters after three updates, with what is predicted with them; free it. */
static float *trained(ac_device *device, ac_graph *g, ac_plan_desc plan, size_t *count) {
  static const float kernel[KERNEL] = {0.5f, -1, 0.75f};
  float x[SAMPLES * ROWS * LONG], y[SAMPLES * FLAT];
  for (int i = 0; i < SAMPLES * ROWS * LONG; i++) x[i] = sinf((float)(i * 37 % 101));
  for (int i = 0; i < SAMPLES * FLAT; i++) y[i] = cosf((float)(i * 17 % 53));
  plan.batch = SAMPLES;
  run r = run_of(device, g, &plan, &(ac_trainer_desc){.seed = 3, .schedule = {.lr = 0.01}});
  assert_ok(ac_trainer_set_parameter(r.trainer, 0, 0, KERNEL, kernel));
  for (int u = 0; u < 3; u++) {
    assert_ok(ac_trainer_accumulate(r.trainer, SAMPLES, (ac_feed[]){{"x", x}, {"y", y}}, 2));
    assert_ok(ac_trainer_update(r.trainer, NULL));
  }
  float *all = all_parameters(&r, count);
  stop_on(&r);
  return all;
}

static void is_like_an_op(const char *name) {
  static const struct {
    const ac_custom_desc *own;
    ac_plan_desc plan;
    double most; /* by rounding of what is stored */
  } cases[] = {
      {&correlation_stored, {.micro_batch = SAMPLES}, 2e-6},
      {&correlation_floats, {.micro_batch = 3, .recompute = AC_RECOMPUTE_ALL}, 2e-6},
      {&correlation_stored, {.micro_batch = 1, .recompute = AC_RECOMPUTE_ALL}, 2e-6},
      {&correlation_stored, {.micro_batch = 3, .precision = AC_PRECISION_BF16}, 1e-2},
      {&correlation_floats, {.micro_batch = 3, .precision = AC_PRECISION_F16}, 1e-2},
  };
  ac_device *device = open_device(name);
  size_t count;
  float *want = trained(device, network(NULL), (ac_plan_desc){.micro_batch = SAMPLES}, &count);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    float *got = trained(device, network(cases[i].own), cases[i].plan, &count);
    const double off = distance(want, got, count);
    if (!(off <= cases[i].most)) fail_msg("%s, case %zu: off by %g", name, i, off);
    free(got);
  }
  free(want);
  ac_device_close(device);
}
ON_EVERY_DEVICE(is_like_an_op)

/* ---- several outputs, integers --------------------------------------------------------------- */

/* x[B, n], id[B] -> how many of a row are positive; its positive part, times 1 + id; its negative
 * part, times 1 + id. Gradient: dpositive dnegative x id -> dx. */
enum { WIDE = 4 };

static const char *part_shapes(const ac_tensor_info *in, int in_count, ac_tensor_info *out,
                               const void *constants) {
  (void)constants;
  if (in_count != 2 || in[0].rank != 2 || in[1].dtype != AC_I32) return "it takes x and id";
  out[0].dtype = AC_I32;
  out[0].rank = 1;
  return NULL;
}

static const char *part_rows(const ac_custom_call *call) {
  const float *x = call->in[0].data;
  const int32_t *id = call->in[1].data;
  int32_t *positives = call->out[0].data;
  float *positive = call->out[1].data, *negative = call->out[2].data;
  const int64_t n = call->in[0].shape[1];
  for (int64_t b = 0; b < call->batch; b++) positives[b] = 0;
  for (int64_t i = 0; i < call->in[0].count; i++) {
    const float factor = (float)(1 + id[i / n]);
    positives[i / n] += x[i] > 0;
    positive[i] = x[i] > 0 ? factor * x[i] : 0;
    negative[i] = x[i] > 0 ? 0 : factor * x[i];
  }
  return NULL;
}

static const char *part_gradient(const ac_custom_call *call) {
  const float *dp = call->in[0].data, *dn = call->in[1].data, *x = call->in[2].data;
  const int32_t *id = call->in[3].data;
  float *dx = call->out[0].data;
  const int64_t n = call->in[2].shape[1];
  for (int64_t i = 0; i < call->in[2].count; i++) {
    const float *dy = x[i] > 0 ? dp : dn;
    dx[i] = dy ? (float)(1 + id[i / n]) * dy[i] : 0;
  }
  return NULL;
}

static const char part_source[] =
    "kernel void rows(const global float *x, const global int *id, global int *positives,\n"
    "                 global float *positive, global float *negative, int n) {\n"
    "  const size_t b = get_global_id(0);\n"
    "  int count = 0;\n"
    "  for (int k = 0; k < n; k++) {\n"
    "    const float v = x[b * n + k], y = (1 + id[b]) * v;\n"
    "    count += v > 0;\n"
    "    positive[b * n + k] = v > 0 ? y : 0;\n"
    "    negative[b * n + k] = v > 0 ? 0 : y;\n"
    "  }\n"
    "  positives[b] = count;\n"
    "}\n";
static const char part_gradient_source[] =
    "kernel void rows(const global float *dp, const global float *dn, const global float *x,\n"
    "                 const global int *id, global float *dx, int n) {\n"
    "  const size_t i = get_global_id(0);\n"
    "  const global float *dy = x[i] > 0 ? dp : dn;\n"
    "  dx[i] = dy ? (1 + id[i / n]) * dy[i] : 0;\n"
    "}\n";

static const char *part_launch(const ac_custom_call *call) {
  const int32_t n = (int32_t)call->in[0].shape[1];
  const ac_custom_argument arguments[] = {
      AC_CUSTOM_BUFFER(call->in[0].data),  AC_CUSTOM_BUFFER(call->in[1].data),
      AC_CUSTOM_BUFFER(call->out[0].data), AC_CUSTOM_BUFFER(call->out[1].data),
      AC_CUSTOM_BUFFER(call->out[2].data), AC_CUSTOM_VALUE(n)};
  ac_custom_launch(call,
                   &(ac_custom_launch_desc){"rows", {(size_t)call->batch}, {0}, arguments, 6});
  return NULL;
}

static const char *part_gradient_launch(const ac_custom_call *call) {
  const int32_t n = (int32_t)call->in[2].shape[1];
  const ac_custom_argument arguments[] = {
      AC_CUSTOM_BUFFER(call->in[0].data),  AC_CUSTOM_BUFFER(call->in[1].data),
      AC_CUSTOM_BUFFER(call->in[2].data),  AC_CUSTOM_BUFFER(call->in[3].data),
      AC_CUSTOM_BUFFER(call->out[0].data), AC_CUSTOM_VALUE(n)};
  const size_t count = (size_t)call->in[2].count;
  ac_custom_launch(call, &(ac_custom_launch_desc){"rows", {count}, {0}, arguments, 6});
  return NULL;
}

static const ac_custom_desc parts_gradient = {.name = "parts_gradient",
                                              .cpu = part_gradient,
                                              .opencl_source = part_gradient_source,
                                              .opencl = part_gradient_launch},
                            parts = {.name = "parts",
                                     .outputs = 3,
                                     .shapes = part_shapes,
                                     .cpu = part_rows,
                                     .opencl_source = part_source,
                                     .opencl = part_launch,
                                     .gradient = &parts_gradient,
                                     .gradient_takes = 3};

/* Whichever outputs are used. `uses` has bit 0 for the positive part, bit 1 for the negative one.
 */
static void outputs_are_separate_on(ac_device *device, int uses) {
  static const float x[3][WIDE] = {{1, -2, 3, -4}, {-1, -2, -3, 4}, {5, 6, 7, -8}};
  static const float start[WIDE] = {1, 2, 1, 0.5f};
  static const int32_t ids[3] = {0, 2, 1};
  static const float counts[3] = {2, 1, 3};
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *w = ac_parameter(g, "w", SHAPE(WIDE), NULL), *out[3];
  ac_tensor *h = ac_multiply(ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, WIDE)), w);
  ac_tensor *in[] = {h, ac_input(g, "id", AC_I32, SHAPE(AC_BATCH))};
  ac_tensor *first = ac_custom_op(g, in, 2, out, &parts);
  assert_ptr_equal(first, out[0]);
  ac_graph_set_output(g, "positives", out[0]);
  ac_graph_set_loss(g, ac_loss(uses == 3 ? ac_add(out[1], out[2]) : out[uses], NULL));
  const ac_plan_desc plan = {
      .batch = 3, .micro_batch = 2, .optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}};
  run r = run_of(device, g, &plan, &(ac_trainer_desc){.schedule = {.lr = 1}});
  const ac_feed feeds[] = {{"x", x}, {"id", ids}};
  float got[WIDE], positives[3];
  assert_ok(ac_trainer_set_parameter(r.trainer, 0, 0, WIDE, start));
  assert_ok(ac_trainer_predict(r.trainer, "positives", 3, feeds, 2, 3, positives));
  assert_memory_equal(positives, counts, sizeof counts);
  assert_ok(ac_trainer_accumulate(r.trainer, 3, feeds, 2));
  assert_ok(ac_trainer_update(r.trainer, NULL));
  assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, WIDE, got));
  for (int t = 0; t < WIDE; t++) {
    double gradient = 0;
    for (int b = 0; b < 3; b++)
      if (uses >> (x[b][t] > 0 ? 0 : 1) & 1)
        gradient += (1 + ids[b]) * (double)x[b][t] / (3 * WIDE);
    assert_true(fabs((double)got[t] - ((double)start[t] - gradient)) < 1e-6);
  }
  stop_on(&r);
}

static void outputs_are_separate(const char *name) {
  ac_device *device = open_device(name);
  for (int uses = 1; uses <= 3; uses++) outputs_are_separate_on(device, uses);
  ac_device_close(device);
}
ON_EVERY_DEVICE(outputs_are_separate)

/* ---- the same operand twice ------------------------------------------------------------------ */

static const char *multiply(const ac_custom_call *call) {
  const float *a = call->in[0].data, *b = call->in[1].data;
  float *y = call->out[0].data;
  for (int64_t i = 0; i < call->out[0].count; i++) y[i] = a[i] * b[i];
  return NULL;
}

static const char *multiply_gradient(const ac_custom_call *call) {
  const float *dy = call->in[0].data;
  for (int j = 0; j < 2; j++) {
    const float *other = call->in[2 - j].data;
    float *dx = call->out[j].data;
    for (int64_t i = 0; i < call->out[j].count; i++) dx[i] = dy[i] * other[i];
  }
  return NULL;
}

/* With h = w x, the loss is the mean of h^2 + h w^2, where w is seen in the shape of h. */
static void an_operand_occurs_twice(void **state) {
  (void)state;
  static const float x[2] = {3, -2}, start = 0.5f;
  const ac_custom_desc back = {.name = "product_gradient", .cpu = multiply_gradient};
  const ac_custom_desc product = {
      .name = "product", .cpu = multiply, .gradient = &back, .gradient_takes = 3};
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *w = ac_parameter(g, "w", SHAPE(1, 1), NULL), *row = ac_reshape(w, SHAPE(1));
  ac_tensor *h = ac_multiply(ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 1)), w);
  ac_tensor *twice = ac_custom_op(g, (ac_tensor *[]){h, h}, 2, NULL, &product);
  ac_tensor *squared = ac_custom_op(g, (ac_tensor *[]){row, w}, 2, NULL, &product);
  ac_graph_set_loss(g, ac_loss(ac_add(twice, ac_multiply(h, squared)), NULL));
  const ac_plan_desc plan = {
      .batch = 2, .micro_batch = 1, .optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}};
  run r = run_of(open_device("cpu"), g, &plan, &(ac_trainer_desc){.schedule = {.lr = 1}});
  float got;
  double want = (double)start;
  assert_ok(ac_trainer_set_parameter(r.trainer, 0, 0, 1, &start));
  assert_ok(ac_trainer_accumulate(r.trainer, 2, &(ac_feed){"x", x}, 1));
  assert_ok(ac_trainer_update(r.trainer, NULL));
  assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, 1, &got));
  for (int b = 0; b < 2; b++) {
    const double v = (double)x[b], p = (double)start;
    want -= (2 * p * v * v + 3 * v * p * p) / 2;
  }
  assert_true(fabs((double)got - want) < 1e-6);
  stop(&r);
}

/* ---- random numbers -------------------------------------------------------------------------- */

/* y = 0 or 2 x, by a number that depends on seed, update, sample and element alone; its own
 * gradient. */
static const char *drop(const ac_custom_call *call) {
  const float *x = call->in[0].data;
  float *y = call->out[0].data;
  const int64_t n = call->in[0].count / call->batch;
  for (int64_t i = 0; i < call->in[0].count; i++) {
    uint64_t h = call->seed + call->update * UINT64_C(0x9e3779b97f4a7c15) + call->stream;
    h = (h ^ (uint64_t)(call->sample + i / n)) * UINT64_C(0xbf58476d1ce4e5b9);
    h = (h ^ h >> 29 ^ (uint64_t)(i % n)) * UINT64_C(0x94d049bb133111eb);
    y[i] = !call->training ? x[i] : h >> 40 & 1 ? 2 * x[i] : 0;
  }
  return NULL;
}

static const ac_custom_desc drops_gradient = {.name = "drops_gradient", .cpu = drop},
                            drops = {.name = "drops", .cpu = drop, .gradient = &drops_gradient};

static ac_graph *dropping(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, ROWS, LONG));
  ac_tensor *y = ac_input(g, "y", AC_F32, SHAPE(AC_BATCH, FLAT));
  ac_tensor *w = ac_parameter(g, "w", SHAPE(KERNEL), NULL);
  ac_tensor *h = ac_multiply(ac_reshape(x, SHAPE(AC_BATCH, ROWS * LONG / 3, 3)), w);
  for (int i = 0; i < 2; i++) h = ac_tanh(ac_custom_op(g, &h, 1, NULL, &drops));
  h = ac_slice(ac_reshape(h, SHAPE(AC_BATCH, ROWS * LONG)), 1, 0, FLAT);
  ac_graph_set_loss(g, ac_mean_squared_error(h, y, NULL));
  return g;
}

static void draws_the_same_again(void **state) {
  (void)state;
  ac_device *device = open_device("cpu");
  size_t count;
  float *want = trained(device, dropping(), (ac_plan_desc){.micro_batch = SAMPLES}, &count);
  for (int micro_batch = 1; micro_batch < SAMPLES; micro_batch += 2) {
    const ac_plan_desc plan = {.micro_batch = micro_batch, .recompute = AC_RECOMPUTE_ALL};
    float *got = trained(device, dropping(), plan, &count);
    assert_true(distance(want, got, count) < 1e-6);
    free(got);
  }
  free(want);
  ac_device_close(device);
}

/* ---- failures -------------------------------------------------------------------------------- */

/* Copies, until the count has come to zero. */
static const char *tire(const ac_custom_call *call) {
  int *left = call->user;
  if (call->in[0].data && (*left)-- == 0) return "it is tired";
  if (call->in[0].data && call->out[0].data)
    memcpy(call->out[0].data, call->in[0].data, (size_t)call->in[0].count * sizeof(float));
  return NULL;
}

static const char *tire_opencl(const ac_custom_call *call) {
  int *left = call->user;
  const ac_custom_argument arguments[] = {AC_CUSTOM_BUFFER(call->in[0].data),
                                          AC_CUSTOM_BUFFER(call->out[0].data)};
  if (call->in[0].data && (*left)-- == 0) return "it is tired";
  const size_t count = (size_t)call->in[0].count;
  ac_custom_launch(call, &(ac_custom_launch_desc){"pass", {count}, {0}, arguments, 2});
  return NULL;
}

static const char pass_source[] = "kernel void pass(const global float *x, global float *y) {\n"
                                  "  y[get_global_id(0)] = x[get_global_id(0)];\n"
                                  "}\n";

/* What a failed update leaves, after it is discarded, is what was there before. Forward and
 * backward count alike. */
static void nothing_is_lost_on(ac_device *device, int runs) {
  static const float x[2] = {1, 2}, y[2] = {3, 5};
  int left = 100;
  ac_custom_desc back = {.name = "tires_gradient",
                         .cpu = tire,
                         .opencl_source = pass_source,
                         .opencl = tire_opencl,
                         .user = &left};
  ac_custom_desc tires = back;
  tires.name = "tires";
  tires.gradient = &back;
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *w = ac_parameter(g, "w", SHAPE(1), NULL);
  ac_tensor *h = ac_multiply(ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 1)), w);
  ac_graph_scope(g, "layer");
  h = ac_custom_op(g, &h, 1, NULL, &tires);
  ac_graph_set_loss(g,
                    ac_mean_squared_error(h, ac_input(g, "y", AC_F32, SHAPE(AC_BATCH, 1)), NULL));
  const ac_plan_desc plan = {.batch = 2, .micro_batch = 1};
  run r = run_of(device, g, &plan, &(ac_trainer_desc){.schedule = {.lr = 0.1}});
  const ac_feed feeds[] = {{"x", x}, {"y", y}};
  float before, after;
  left = runs;
  assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, 1, &before));
  assert_refused(ac_trainer_accumulate(r.trainer, 2, feeds, 2), AC_ERROR_STOPPED,
                 runs % 2 ? "tires_gradient (layer): it is tired" : "tires (layer): it is tired");
  assert_refused(ac_trainer_update(r.trainer, NULL), AC_ERROR_STATE, "");
  ac_trainer_discard(r.trainer);
  assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, 1, &after));
  assert_true(before == after);
  left = 100;
  assert_ok(ac_trainer_accumulate(r.trainer, 2, feeds, 2));
  assert_ok(ac_trainer_update(r.trainer, NULL));
  assert_ok(ac_trainer_get_parameter(r.trainer, 0, 0, 1, &after));
  assert_true(before != after);
  stop_on(&r);
}

static void nothing_is_lost(const char *name) {
  ac_device *device = open_device(name);
  for (int runs = 0; runs < 4; runs++) nothing_is_lost_on(device, runs);
  ac_device_close(device);
}
ON_EVERY_DEVICE(nothing_is_lost)

/* ---- what is refused ------------------------------------------------------------------------- */

static ac_graph *with(const ac_custom_desc *desc) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *w = ac_parameter(g, "w", SHAPE(2), NULL);
  ac_tensor *h = ac_multiply(ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 2)), w);
  ac_graph_scope(g, "layer");
  h = ac_custom_op(g, &h, 1, NULL, desc);
  ac_graph_set_output(g, "h", h);
  ac_graph_set_loss(g, ac_loss(h, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

static void refuse_plan(const char *device, const ac_custom_desc *desc, const ac_plan_desc *plan,
                        ac_status status, const char *sentence) {
  ac_device *opened = open_device(device);
  ac_graph *g = with(desc);
  ac_plan *made;
  assert_refused(ac_plan_create(&made, g, opened, plan), status, sentence);
  ac_graph_free(g);
  ac_device_close(opened);
}

/* An input that the caller calls constant gets no gradient, and needs none if there is another way.
 */
static void gradients_end_at_constant_inputs(void **state) {
  (void)state;
  const ac_plan_desc train = {.batch = 4, .micro_batch = 2, .frozen = "t"};
  const ac_custom_desc desc = {.name = "plain", .cpu = drop, .constant_inputs = 1};
  refuse_plan("cpu", &desc, &(ac_plan_desc){.batch = 4}, AC_ERROR_ARGUMENT,
              "the loss has no gradient, and would train nothing: it depends on parameter \"w\" "
              "only through plain (layer), which passes no gradient on");
  ac_device *device = open_device("cpu");
  ac_graph *g;
  ac_plan *plan;
  assert_ok(ac_graph_create(&g));
  ac_tensor *w = ac_parameter(g, "w", SHAPE(2), NULL), *t = ac_parameter(g, "t", SHAPE(2), NULL);
  ac_tensor *h = ac_multiply(ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 2)), w);
  ac_tensor *own = ac_custom_op(g, &h, 1, NULL, &desc);
  ac_graph_set_loss(g, ac_loss(ac_add(ac_multiply(h, t), own), NULL));
  assert_ok(ac_plan_create(&plan, g, device, &train));
  ac_plan_free(plan);
  ac_graph_free(g);
  ac_device_close(device);
}

static void what_it_lacks_is_named(void **state) {
  (void)state;
  const ac_plan_desc train = {.batch = 4, .micro_batch = 2}, predict = {.purpose = AC_PREDICT};
  const ac_custom_desc plain = {.name = "plain", .cpu = drop};
  refuse_plan("cpu", &plain, &train, AC_ERROR_UNSUPPORTED,
              "plain (layer) has no gradient; describe one (ac_custom_desc.gradient)");
  const ac_custom_desc foreign = {
      .name = "foreign", .opencl_source = pass_source, .opencl = tire_opencl};
  refuse_plan(
      "cpu", &foreign, &predict, AC_ERROR_UNSUPPORTED,
      "plan: device cpu cannot run foreign (layer), because it has no function for the CPU");
  ac_custom_desc whole = drops;
  whole.whole_batch = true;
  refuse_plan("cpu", &whole, &train, AC_ERROR_ARGUMENT,
              "drops (layer) looks at all samples of a batch of 4 and cannot be split");
  ac_device *cpu = open_device("cpu");
  ac_graph *g = with(&whole);
  ac_plan *plan;
  assert_ok(ac_plan_create(&plan, g, cpu, &(ac_plan_desc){.batch = 4}));
  assert_int_equal(ac_plan_get_info(plan)->micro_batch, 4);
  ac_plan_free(plan);
  ac_graph_free(g);
  ac_device_close(cpu);
  ac_device_close(open_opencl("opencl"));
  refuse_plan("opencl", &plain, &predict, AC_ERROR_UNSUPPORTED,
              "cannot run plain (layer), because it has no OpenCL source");
}

static void faults_in_source_are_told(void **state) {
  (void)state;
  static const struct {
    const char *source, *sentence;
  } cases[] = {
      {"kernel void pass(const global float *x, global float *y) {\n  y[0] = z;\n}\n", "pass"},
      {"kernel void other(const global float *x, global float *y) { y[0] = x[0]; }\n",
       "kernel pass"},
      {"kernel void pass(const global float *x, global float *y, int n) { y[0] = n; }\n",
       "kernel pass"},
  };
  ac_device *device = open_opencl("opencl");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int left = 100;
    const ac_custom_desc desc = {
        .name = "faulty", .opencl_source = cases[i].source, .opencl = tire_opencl, .user = &left};
    ac_graph *g = with(&desc);
    ac_plan *plan;
    ac_session *session = NULL;
    const float x[2] = {1, 2};
    assert_ok(ac_plan_create(&plan, g, device, &(ac_plan_desc){.purpose = AC_PREDICT}));
    ac_status status = ac_session_create(&session, plan, 1);
    if (status == AC_OK) status = ac_session_run(session, 1, &(ac_feed){"x", x}, 1);
    assert_int_equal(status, AC_ERROR_DEVICE);
    assert_contains(ac_last_error(), "faulty");
    if (i) assert_contains(ac_last_error(), cases[i].sentence);
    ac_session_free(session);
    ac_plan_free(plan);
    ac_graph_free(g);
  }
  ac_device_close(device);
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

static const char *add_constant(const ac_custom_call *call) {
  const float *x = call->in[0].data;
  float *y = call->out[0].data, by = *(const float *)call->constants;
  for (int64_t i = 0; i < call->in[0].count; i++) y[i] = x[i] + by;
  return NULL;
}

/* Graphs and plans have copies of descriptions, and ops of one name may do different things. */
static void descriptions_are_copied(void **state) {
  (void)state;
  ac_device *device = open_device("cpu");
  ac_plan *plans[2];
  for (int i = 0; i < 2; i++) {
    char *name = strdup("add_constant");
    float *by = malloc(sizeof *by);
    assert_non_null(name);
    assert_non_null(by);
    *by = i ? 100 : -5;
    ac_custom_desc desc = {
        .name = name, .cpu = add_constant, .constants = by, .constant_bytes = sizeof *by};
    ac_graph *g = with(&desc);
    memset(name, 'x', strlen(name));
    *by = 7;
    free(name);
    free(by);
    assert_ok(ac_plan_create(&plans[i], g, device, &(ac_plan_desc){.purpose = AC_PREDICT}));
    ac_graph_free(g);
  }
  ac_bench *bench;
  assert_ok(ac_bench_create(&bench, device, NULL));
  for (int i = 0; i < 2; i++) {
    const float x[2] = {0, 0}, want[2] = {i ? 100 : -5, i ? 100 : -5};
    float got[2];
    ac_session *session;
    ac_plan_step step;
    assert_ok(ac_session_create(&session, plans[i], 1));
    assert_ok(ac_session_predict(session, "h", 1, &(ac_feed){"x", x}, 1, 2, got));
    assert_memory_equal(got, want, sizeof got);
    assert_ok(ac_plan_get_step(plans[i], 1, &step));
    assert_string_equal(step.op, "add_constant");
    assert_ok(ac_bench_add_plan(bench, plans[i]));
    ac_session_free(session);
    ac_plan_free(plans[i]);
  }
  ac_bench_op op;
  assert_int_equal(ac_bench_count(bench), 2);
  assert_ok(ac_bench_get(bench, 1, &op));
  assert_string_equal(op.op, "add_constant");
  ac_bench_free(bench);
  ac_device_close(device);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { MANY = 100003 };

static void count_up(const ac_custom_call *call, int64_t first, int64_t last, void *context) {
  const float *x = call->in[0].data;
  float *y = call->out[0].data;
  for (int64_t i = first; i < last; i++) y[i] = x[i] + *(const float *)context;
}

static const char *count_up_all(const ac_custom_call *call) {
  float one = 1;
  if (call->threads != 2) return "it has other threads";
  ac_custom_parallel(call, call->in[0].count, 1, count_up, &one);
  ac_custom_parallel(call, 0, 1, count_up, NULL);
  return NULL;
}

static void ranges_cover_all(void **state) {
  (void)state;
  static float x[MANY], got[MANY];
  for (int i = 0; i < MANY; i++) x[i] = (float)i;
  ac_device *device = open_device("cpu");
  ac_graph *g;
  ac_plan *plan;
  ac_session *session;
  assert_ok(ac_graph_create(&g));
  ac_tensor *h = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, MANY));
  const ac_custom_desc desc = {.name = "count_up", .cpu = count_up_all};
  ac_graph_set_output(g, "h", ac_custom_op(g, &h, 1, NULL, &desc));
  assert_ok(ac_plan_create(&plan, g, device, &(ac_plan_desc){.purpose = AC_PREDICT}));
  assert_ok(ac_session_create(&session, plan, 1));
  assert_ok(ac_session_predict(session, "h", 1, &(ac_feed){"x", x}, 1, MANY, got));
  for (int i = 0; i < MANY; i++) assert_true(got[i] == (float)(i + 1));
  ac_session_free(session);
  ac_plan_free(plan);
  ac_graph_free(g);
  ac_device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(is_like_an_op_everywhere),
      cmocka_unit_test(outputs_are_separate_everywhere),
      cmocka_unit_test(an_operand_occurs_twice),
      cmocka_unit_test(draws_the_same_again),
      cmocka_unit_test(nothing_is_lost_everywhere),
      cmocka_unit_test(gradients_end_at_constant_inputs),
      cmocka_unit_test(what_it_lacks_is_named),
      cmocka_unit_test(faults_in_source_are_told),
      cmocka_unit_test(descriptions_are_copied),
      cmocka_unit_test(ranges_cover_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
