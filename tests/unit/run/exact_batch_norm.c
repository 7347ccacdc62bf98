/* Batch norm over whole windows that are split: loss, gradients, weights and running statistics are
 * those of the whole batch. On the CPU and on every OpenCL device. */
#include "plan/plan.h"
#include "support/devices.h"
#include "support/models.h"
#include "support/trainers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  SAMPLES = 11,
  SHORT = 7,
  CHANNELS = 4,
  SIDE = 6,
  IMAGE = CHANNELS * SIDE * SIDE,
  CLASSES = 3
};

static ac_tensor *vector(ac_graph *g, const char *scope, const char *name, float value,
                         bool frozen) {
  char text[64];
  snprintf(text, sizeof text, "%s.%s", scope, name);
  const ac_parameter_desc desc = {.init = {AC_INIT_CONSTANT, .value = value}, .frozen = frozen};
  return ac_parameter(g, text, SHAPE(CHANNELS), &desc);
}

static ac_tensor *norm(ac_graph *g, ac_tensor *x, const char *scope, bool affine) {
  ac_tensor *gamma = affine ? vector(g, scope, "weight", 1.25f, false) : NULL,
            *beta = affine ? vector(g, scope, "bias", 0.125f, false) : NULL;
  return ac_batch_norm(x, gamma, beta, vector(g, scope, "running_mean", 0, true),
                       vector(g, scope, "running_var", 1, true),
                       &(ac_batch_norm_desc){.momentum = 0.25f});
}

static ac_tensor *convolution(ac_graph *g, ac_tensor *x, const char *name) {
  ac_tensor *w = ac_parameter(g, name, SHAPE(CHANNELS, CHANNELS, 3, 3),
                              &(ac_parameter_desc){.init = {AC_INIT_NORMAL, .deviation = 0.2f}});
  return ac_conv2d(x, w, NULL, &(ac_conv2d_desc){.padding = {1, 1}});
}

/* Two norms in a row, one without parameters, a branch around two convolutions with a norm
 * of its own, dropout, and a norm that is frozen. */
static ac_graph *model(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, CHANNELS, SIDE, SIDE));
  ac_tensor *t = ac_input(g, "t", AC_I32, SHAPE(AC_BATCH));
  ac_tensor *y = ac_relu(norm(g, convolution(g, norm(g, x, "input", false), "a"), "a.norm", true));
  ac_tensor *z = ac_relu(norm(g, convolution(g, y, "b"), "b.norm", true));
  ac_graph_set_output(g, "middle", y);
  z = norm(g, convolution(g, ac_dropout(z, 0.25f), "c"), "c.norm", true);
  y = ac_relu(ac_add(z, norm(g, convolution(g, y, "d"), "d.norm", false)));
  y = ac_batch_norm(y, NULL, NULL, vector(g, "frozen", "running_mean", 0.1f, true),
                    vector(g, "frozen", "running_var", 0.5f, true),
                    &(ac_batch_norm_desc){.frozen_statistics = true});
  y = ac_reshape(y, SHAPE(AC_BATCH, IMAGE));
  y = ac_linear(y, test_matrix(g, "head", "w", CLASSES, IMAGE), NULL, AC_OUT_IN);
  ac_graph_set_output(g, "logits", y);
  ac_graph_set_loss(g, ac_cross_entropy(y, t, NULL, NULL));
  return g;
}

typedef struct samples {
  float x[SAMPLES * IMAGE];
  int32_t t[SAMPLES];
} samples;

/* Samples differ in mean and scale, so that a part of them has other statistics. */
static samples make_samples(void) {
  static samples s;
  uint32_t state = 7;
  for (int i = 0; i < SAMPLES * IMAGE; i++) {
    state = state * 1664525u + 1013904223u;
    const float sample = (float)(i / IMAGE);
    s.x[i] = ((float)(state >> 8) * 0x1p-24f - 0.5f) * (1 + sample / 4) + sample / 8;
  }
  for (int i = 0; i < SAMPLES; i++) s.t[i] = i * i % CLASSES;
  return s;
}

static run start(const char *device, ac_plan_desc desc) {
  desc.batch = SAMPLES;
  return run_of(open_device(device), model(), &desc,
                &(ac_trainer_desc){.seed = 3, .schedule = {.lr = 1e-2}});
}

enum { WINDOWS = 3, MOST = 4096 };
typedef struct outcome {
  double loss[WINDOWS];
  float gradients[WINDOWS][MOST], weights[WINDOWS][MOST];
  int gradient_count, weight_count;
} outcome;

static ac_status accumulate(run *r, const samples *s, int64_t count) {
  const ac_feed feeds[] = {{"x", s->x}, {"t", s->t}};
  return ac_trainer_accumulate(r->trainer, count, feeds, 2);
}

/* Gradients or weights of a window. */
static void read_all(run *r, outcome *o, int w, bool gradients) {
  const ac_graph *graph = r->plan->graph;
  int *total = gradients ? &o->gradient_count : &o->weight_count;
  *total = 0;
  for (int p = 0; p < graph->parameter_count; p++) {
    const int64_t count = ac_shape_count(&ac_tensor_at(graph, graph->parameters[p])->shape);
    if (gradients && r->plan->problem.parameters[p].gradient < 0) continue;
    assert_true(*total + count <= MOST);
    assert_ok(gradients
                  ? ac_trainer_get_gradient(r->trainer, p, 0, count, o->gradients[w] + *total)
                  : ac_trainer_get_parameter(r->trainer, p, 0, count, o->weights[w] + *total));
    *total += (int)count;
  }
}

/* The second window is short. */
static void train(run *r, const samples *s, outcome *o) {
  for (int w = 0; w < WINDOWS; w++) {
    ac_update update;
    assert_ok(accumulate(r, s, w == 1 ? SHORT : SAMPLES));
    read_all(r, o, w, true);
    assert_ok(ac_trainer_update(r->trainer, &update));
    assert_false(update.skipped);
    o->loss[w] = update.loss;
    read_all(r, o, w, false);
  }
}

static double largest(const float *x, int count) {
  double most = 0;
  for (int i = 0; i < count; i++)
    if (fabs((double)x[i]) > most) most = fabs((double)x[i]);
  return most;
}

static void hold(const float *a, const float *b, int count, double tolerance) {
  const double most = largest(b, count);
  for (int i = 0; i < count; i++)
    if (!(fabs((double)a[i] - (double)b[i]) <= tolerance * most))
      fail_msg("[%d] is %.9g, not %.9g; the largest is %.9g", i, (double)a[i], (double)b[i], most);
}

static void compare(const outcome *a, const outcome *b) {
  for (int w = 0; w < WINDOWS; w++) {
    assert_true(fabs(a->loss[w] - b->loss[w]) < 1e-5 * b->loss[w]);
    hold(a->gradients[w], b->gradients[w], b->gradient_count, 1e-5);
    hold(a->weights[w], b->weights[w], b->weight_count, 1e-4); /* AdamW amplifies rounding */
  }
}

static void check_splits(const char *device) {
  static const int64_t sizes[] = {1, 2, 5, 10, SAMPLES};
  static outcome whole, split;
  const samples s = make_samples();
  run r = start(device, (ac_plan_desc){.recompute = AC_RECOMPUTE_NONE});
  train(&r, &s, &whole);
  stop(&r);
  for (int i = 0; i < 5; i++)
    for (int policy = AC_RECOMPUTE_NONE; policy <= AC_RECOMPUTE_ALL; policy++) {
      r = start(device, (ac_plan_desc){.micro_batch = sizes[i],
                                       .batch_norm = AC_BATCH_NORM_EXACT,
                                       .recompute = (ac_recompute)policy});
      assert_true(ac_plan_get_info(r.plan)->sections > 5);
      train(&r, &s, &split);
      compare(&split, &whole);
      stop(&r);
    }
}

ON_EVERY_DEVICE(check_splits)

/* Statistics of micro-batches are something else, or the test above shows nothing. */
static void test_micro_differs(void **state) {
  static outcome whole, split;
  (void)state;
  const samples s = make_samples();
  run r = start("cpu", (ac_plan_desc){.recompute = AC_RECOMPUTE_NONE});
  train(&r, &s, &whole);
  stop(&r);
  r = start("cpu", (ac_plan_desc){.micro_batch = 5, .batch_norm = AC_BATCH_NORM_MICRO});
  train(&r, &s, &split);
  stop(&r);
  assert_true(fabs(whole.loss[0] - split.loss[0]) > 1e-3);
}

static uint64_t bytes_of(ac_plan_desc desc) {
  ac_device *device = open_device("cpu");
  ac_graph *graph = model();
  ac_plan *plan;
  desc.batch = SAMPLES;
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  const uint64_t bytes = ac_plan_get_info(plan)->bytes.total;
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_device_close(device);
  return bytes;
}

/* Between micro-batches alone and the whole batch. */
static void test_memory(void **state) {
  (void)state;
  for (int policy = AC_RECOMPUTE_NONE; policy <= AC_RECOMPUTE_ALL; policy++) {
    if (policy == AC_RECOMPUTE_AUTO) continue;
    const ac_recompute recompute = (ac_recompute)policy;
    const uint64_t whole = bytes_of((ac_plan_desc){.recompute = recompute}),
                   exact = bytes_of((ac_plan_desc){.recompute = recompute,
                                                   .micro_batch = 1,
                                                   .batch_norm = AC_BATCH_NORM_EXACT}),
                   micro = bytes_of((ac_plan_desc){.recompute = recompute,
                                                   .micro_batch = 2,
                                                   .batch_norm = AC_BATCH_NORM_MICRO});
    assert_true(micro < exact);
    assert_true(exact < whole);
  }
}

static void test_refusals(void **state) {
  (void)state;
  const samples s = make_samples();
  const ac_feed feeds[] = {{"x", s.x}, {"t", s.t}};
  ac_device *device = open_device("cpu");
  ac_graph *graph = model();
  ac_plan *plan = NULL;
  const struct {
    ac_plan_desc desc;
    const char *says;
  } cases[] = {
      {{.gradients = AC_GRADIENTS_FUSED}, "excludes gradients that are fused"},
      {{.gradients = AC_GRADIENTS_FOLDED}, "excludes gradients that are folded"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ac_plan_desc desc = cases[i].desc;
    desc.batch = SAMPLES;
    desc.batch_norm = AC_BATCH_NORM_EXACT;
    assert_int_equal(ac_plan_create(&plan, graph, device, &desc), AC_ERROR_ARGUMENT);
    assert_non_null(strstr(ac_last_error(), cases[i].says));
  }
  ac_graph_free(graph);
  ac_device_close(device);
  run r = start("cpu", (ac_plan_desc){.micro_batch = 4, .batch_norm = AC_BATCH_NORM_EXACT});
  assert_ok(ac_trainer_accumulate(r.trainer, 4, feeds, 2));
  assert_int_equal(ac_trainer_accumulate(r.trainer, 4, feeds, 2), AC_ERROR_STATE);
  assert_non_null(strstr(ac_last_error(), "comes in one piece"));
  ac_trainer_discard(r.trainer);
  stop(&r);
}

/* ---- what is looked at ----------------------------------------------------------------------- */

static ac_dataset *dataset_of(const float *x, const samples *s) {
  const ac_field fields[] = {{"x", AC_F32, IMAGE}, {"t", AC_I32, 1}};
  ac_dataset *dataset;
  assert_ok(ac_dataset_from_memory(&dataset, SAMPLES, 2, fields, (const void *[]){x, s->t}));
  return dataset;
}

enum { MIDDLE = IMAGE };
typedef struct seen {
  float data[SAMPLES * MIDDLE];
  int calls;
} seen;

static void see(void *user, const ac_tensor_view *view) {
  seen *to = user;
  assert_int_equal(view->elements, MIDDLE);
  assert_true(view->first + view->count <= SAMPLES);
  memcpy(to->data + view->first * MIDDLE, view->data,
         (size_t)(view->count * MIDDLE) * sizeof *view->data);
  to->calls++;
}

/* A tensor that later sections read as well, in each micro-batch. */
static void check_watching(const char *device) {
  static seen of[2];
  const samples s = make_samples();
  for (int split = 0; split < 2; split++) {
    run r =
        start(device, split ? (ac_plan_desc){.micro_batch = 4, .batch_norm = AC_BATCH_NORM_EXACT}
                            : (ac_plan_desc){.recompute = AC_RECOMPUTE_NONE});
    of[split].calls = 0;
    assert_ok(ac_trainer_watch_tensor(r.trainer, "middle", see, &of[split]));
    assert_ok(accumulate(&r, &s, SAMPLES));
    assert_int_equal(of[split].calls, split ? 3 : 1);
    ac_trainer_discard(r.trainer);
    stop(&r);
  }
  hold(of[1].data, of[0].data, SAMPLES * MIDDLE, 1e-5);
}
ON_EVERY_DEVICE(check_watching)

/* What may be computed between a window and its update, and what may not. */
static void check_between(const char *device) {
  static outcome with, without;
  static float outputs[2][SAMPLES * CLASSES];
  const samples s = make_samples();
  const ac_plan_desc desc = {.micro_batch = 4, .batch_norm = AC_BATCH_NORM_EXACT};
  const ac_feed feeds[] = {{"x", s.x}, {"t", s.t}};
  char where[192];
  run r = start(device, desc);
  train(&r, &s, &without);
  assert_ok(
      ac_trainer_predict(r.trainer, "logits", SAMPLES, feeds, 2, SAMPLES * CLASSES, outputs[0]));
  stop(&r);
  r = start(device, desc);
  for (int w = 0; w < WINDOWS; w++) {
    ac_evaluation evaluation;
    ac_dataset *dataset = dataset_of(s.x, &s);
    assert_ok(ac_trainer_locate_nonfinite(r.trainer, SAMPLES, feeds, 2, where, sizeof where));
    assert_string_equal(where, "");
    assert_ok(accumulate(&r, &s, w == 1 ? SHORT : SAMPLES));
    assert_ok(
        ac_trainer_predict(r.trainer, "logits", SAMPLES, feeds, 2, SAMPLES * CLASSES, outputs[1]));
    assert_ok(ac_trainer_evaluate(r.trainer, dataset, 0, &evaluation));
    assert_refused(ac_trainer_locate_nonfinite(r.trainer, SAMPLES, feeds, 2, where, sizeof where),
                   AC_ERROR_STATE, "update or discard it first");
    assert_refused(ac_trainer_save_state(r.trainer, "unwritten.state", NULL, 0), AC_ERROR_STATE,
                   "update or discard it first");
    assert_ok(ac_trainer_update(r.trainer, NULL));
    read_all(&r, &with, w, false);
    assert_memory_equal(with.weights[w], without.weights[w],
                        (size_t)with.weight_count * sizeof(float));
    ac_dataset_free(dataset);
  }
  assert_ok(
      ac_trainer_predict(r.trainer, "logits", SAMPLES, feeds, 2, SAMPLES * CLASSES, outputs[1]));
  assert_memory_equal(outputs[0], outputs[1], sizeof outputs[0]);
  stop(&r);
}
ON_EVERY_DEVICE(check_between)

/* A number that is not finite in the last micro-batch spoils all of them, and is found in the op
 * that made it. The window after it is as if it had not been. */
static void check_spoiled(const char *device) {
  static float spoiled[SAMPLES * IMAGE];
  static outcome good, after;
  const samples s = make_samples();
  const ac_plan_desc desc = {.micro_batch = 4, .batch_norm = AC_BATCH_NORM_EXACT};
  ac_update update;
  char where[192];
  memcpy(spoiled, s.x, sizeof spoiled);
  spoiled[SAMPLES * IMAGE - 1] = INFINITY;
  run r = start(device, desc);
  assert_ok(accumulate(&r, &s, SAMPLES));
  read_all(&r, &good, 0, true);
  ac_trainer_discard(r.trainer);
  const ac_feed feeds[] = {{"x", spoiled}, {"t", s.t}};
  assert_ok(ac_trainer_locate_nonfinite(r.trainer, SAMPLES, feeds, 2, where, sizeof where));
  assert_string_equal(where, "input x");
  spoiled[SAMPLES * IMAGE - 1] = 1e38f;
  assert_ok(ac_trainer_locate_nonfinite(r.trainer, SAMPLES, feeds, 2, where, sizeof where));
  spoiled[SAMPLES * IMAGE - 1] = NAN;
  assert_ok(ac_trainer_accumulate(r.trainer, SAMPLES, feeds, 2));
  assert_ok(ac_trainer_update(r.trainer, &update));
  assert_true(update.skipped);
  assert_ok(accumulate(&r, &s, SAMPLES));
  read_all(&r, &after, 0, true);
  assert_memory_equal(good.gradients[0], after.gradients[0],
                      (size_t)good.gradient_count * sizeof(float));
  ac_trainer_discard(r.trainer);
  stop(&r);
}
ON_EVERY_DEVICE(check_spoiled)

/* Windows of other sizes than the plan's, of one sample as well, read ahead or not. */
static void check_batches(const char *device) {
  static const ac_batch_stage stages[] = {{SAMPLES, AC_BATCH_FROM_STEP, 0},
                                          {1, AC_BATCH_FROM_STEP, 1},
                                          {3, AC_BATCH_FROM_STEP, 2},
                                          {10, AC_BATCH_FROM_STEP, 4}};
  static outcome of[3];
  const samples s = make_samples();
  ac_dataset *dataset = dataset_of(s.x, &s);
  for (int i = 0; i < 3; i++) {
    run r = start(
        device,
        i ? (ac_plan_desc){.micro_batch = 4, .batch_norm = AC_BATCH_NORM_EXACT, .read_ahead = i - 1}
          : (ac_plan_desc){.recompute = AC_RECOMPUTE_NONE});
    const ac_fit_desc fit = {.train = dataset,
                             .steps = 6,
                             .seed = 5,
                             .batches = stages,
                             .batch_count = sizeof stages / sizeof *stages};
    assert_ok(ac_fit(r.trainer, &fit, NULL));
    read_all(&r, &of[i], 0, false);
    stop(&r);
  }
  hold(of[1].weights[0], of[0].weights[0], of[0].weight_count, 1e-3);
  assert_memory_equal(of[2].weights[0], of[1].weights[0], (size_t)of[1].weight_count * 4);
  ac_dataset_free(dataset);
}
ON_EVERY_DEVICE(check_batches)

/* A fit over a window that is not finite says where, whatever a micro-batch holds. */
static void test_fit_says_where(void **state) {
  static float spoiled[SAMPLES * IMAGE];
  (void)state;
  const samples s = make_samples();
  for (int i = 0; i < SAMPLES * IMAGE; i++) spoiled[i] = i % IMAGE ? s.x[i] : 3e38f;
  ac_dataset *dataset = dataset_of(spoiled, &s);
  for (int ahead = 0; ahead < 2; ahead++) {
    run r = start(
        "cpu",
        (ac_plan_desc){.micro_batch = 4, .batch_norm = AC_BATCH_NORM_EXACT, .read_ahead = ahead});
    assert_refused(ac_fit(r.trainer, &(ac_fit_desc){.train = dataset, .steps = 3}, NULL),
                   AC_ERROR_NOT_FINITE, "it first appears in op batch_norm_moments");
    const ac_fit_desc grows = {.train = dataset, .steps = 1, .growth = {.from = 8}};
    assert_refused(ac_fit(r.trainer, &grows, NULL), AC_ERROR_ARGUMENT,
                   "not measured with exact batch norm");
    stop(&r);
  }
  ac_dataset_free(dataset);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(check_splits_everywhere),
      cmocka_unit_test(test_micro_differs),
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(check_watching_everywhere),
      cmocka_unit_test(check_between_everywhere),
      cmocka_unit_test(check_spoiled_everywhere),
      cmocka_unit_test(check_batches_everywhere),
      cmocka_unit_test(test_fit_says_where),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
