/* Norms over one sample, and standardised weights, give the same results however a batch is split
 * and whether or not they run again. On the CPU and on every OpenCL device. */
#include "support/devices.h"
#include "support/models.h"
#include "support/trainers.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLES = 24, CHANNELS = 6, POSITIONS = 10, LABELS = 5, UPDATES = 20 };

static ac_tensor *vector_of(ac_graph *g, const char *name, int64_t size, float value) {
  ac_parameter_desc desc = {.init = {AC_INIT_CONSTANT, .value = value}};
  return ac_parameter(g, name, 1, &size, &desc);
}

/* A standardised weight mixes the positions of each channel; norms of all kinds in between. */
static ac_graph *model(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, CHANNELS, POSITIONS));
  ac_tensor *w = test_matrix(g, "first", "w", POSITIONS, POSITIONS);
  x = ac_linear(x, ac_weight_standardisation(w, 0), NULL, AC_OUT_IN);
  x = ac_silu(ac_group_norm(x, vector_of(g, "gamma1", CHANNELS, 1),
                            vector_of(g, "beta1", CHANNELS, 0), 3, 0));
  w = test_matrix(g, "second", "w", POSITIONS, POSITIONS);
  ac_tensor *y = ac_linear(x, ac_weight_standardisation(w, 0), NULL, AC_OUT_IN);
  y = ac_leaky_relu(ac_instance_norm(y, vector_of(g, "gamma2", CHANNELS, 1), NULL, 0), 0.1f);
  x = ac_sample_norm(ac_add(x, y), NULL, vector_of(g, "beta3", CHANNELS, 0), 0);
  x = ac_rms_norm(ac_tanh(x), vector_of(g, "gamma4", POSITIONS, 1), 0);
  x = ac_reshape(x, SHAPE(AC_BATCH, CHANNELS * POSITIONS));
  x = ac_linear(x, test_matrix(g, "out", "w", LABELS, CHANNELS * POSITIONS), NULL, AC_OUT_IN);
  ac_tensor *targets = ac_input(g, "targets", AC_F32, SHAPE(AC_BATCH, LABELS));
  ac_tensor *weights = ac_input(g, "weights", AC_F32, SHAPE(AC_BATCH));
  ac_graph_set_loss(g, ac_binary_cross_entropy(x, targets, weights));
  return g;
}

typedef struct samples {
  float x[SAMPLES * CHANNELS * POSITIONS], targets[SAMPLES * LABELS], weights[SAMPLES];
} samples;

static samples make_samples(void) {
  samples s;
  uint32_t state = 7;
  for (int i = 0; i < SAMPLES * CHANNELS * POSITIONS; i++) {
    state = state * 1664525u + 1013904223u;
    s.x[i] = (float)(state >> 8) * 0x1p-23f - 1 + (float)(i % CHANNELS);
  }
  for (int i = 0; i < SAMPLES * LABELS; i++) s.targets[i] = s.x[i * 11] > s.x[i * 7 + 1] ? 1 : 0;
  for (int i = 0; i < SAMPLES; i++) s.weights[i] = (float)(1 + i % 3) / 2;
  return s;
}

/* Trains, and returns all parameters one after another; free it. */
static float *train(const char *name, ac_plan_desc desc, double losses[UPDATES], size_t *total,
                    int64_t *recomputed) {
  samples s = make_samples();
  desc.batch = SAMPLES;
  run r =
      run_of(open_device(name), model(), &desc,
             &(ac_trainer_desc){
                 .seed = 3, .schedule = {.lr = 1e-2}, .optimizer = {.clip = 1, .epsilon = 1e-5}});
  *recomputed = ac_plan_get_info(r.plan)->recomputed_ops;
  const ac_feed feeds[] = {{"x", s.x}, {"targets", s.targets}, {"weights", s.weights}};
  for (int u = 0; u < UPDATES; u++) {
    ac_update update;
    assert_ok(ac_trainer_accumulate(r.trainer, SAMPLES, feeds, 3));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_false(update.skipped);
    losses[u] = update.loss;
  }
  float *all = all_parameters(&r, total);
  stop(&r);
  return all;
}

/* One batch of 24 against 4, 6 and 24 micro-batches, one of the sizes uneven. */
static void compare_splits(const char *device) {
  static const int64_t sizes[] = {6, 5, 1};
  double whole[UPDATES], split[UPDATES];
  size_t total, same;
  int64_t recomputed;
  float *a = train(device, (ac_plan_desc){.micro_batch = SAMPLES}, whole, &total, &recomputed);
  assert_true(whole[UPDATES - 1] < 0.8 * whole[0]);
  for (int i = 0; i < 3; i++) {
    float *b = train(device, (ac_plan_desc){.micro_batch = sizes[i]}, split, &same, &recomputed);
    assert_int_equal(total, same);
    for (int u = 0; u < UPDATES; u++) assert_true(fabs(split[u] - whole[u]) <= 1e-5 * whole[u]);
    assert_true(distance(a, b, total) <= 1e-5);
    free(b);
  }
  free(a);
}

static void splitting_changes_nothing(void **state) {
  (void)state;
  on_every_device(compare_splits);
}

static void compare_recomputation(const char *device) {
  static const ac_precision precisions[] = {AC_PRECISION_F32, AC_PRECISION_F16, AC_PRECISION_BF16};
  for (int p = 0; p < 3; p++) {
    double kept[UPDATES], again[UPDATES];
    size_t total, same;
    int64_t recomputed;
    ac_plan_desc desc = {
        .micro_batch = 5, .precision = precisions[p], .recompute = AC_RECOMPUTE_NONE};
    float *a = train(device, desc, kept, &total, &recomputed);
    assert_int_equal(recomputed, 0);
    desc.recompute = AC_RECOMPUTE_ALL;
    float *b = train(device, desc, again, &same, &recomputed);
    assert_true(recomputed > 0);
    assert_memory_equal(kept, again, sizeof kept);
    assert_memory_equal(a, b, total * sizeof *a);
    assert_true(kept[UPDATES - 1] < 0.8 * kept[0]);
    free(a);
    free(b);
  }
}

static void recomputing_changes_no_bit(void **state) {
  (void)state;
  on_every_device(compare_recomputation);
}

/* ---- norms that are made of others ----------------------------------------------------------- */

enum { IMAGES = 2, DEPTH = 5, HIGH = 3, WIDE = 4, PLANE = HIGH * WIDE };

/* What a session computes of the one input. */
static void compute(const char *device, ac_graph *g, ac_tensor *y, const float *x, float *result) {
  ac_plan *plan;
  ac_session *session;
  ac_graph_set_output(g, "y", y);
  assert_ok(ac_graph_status(g));
  ac_device *opened = open_device(device);
  assert_ok(
      ac_plan_create(&plan, g, opened, &(ac_plan_desc){.batch = IMAGES, .purpose = AC_PREDICT}));
  assert_ok(ac_session_create(&session, plan, 0));
  assert_ok(ac_session_predict(session, "y", IMAGES, (const ac_feed[]){{"x", x}}, 1,
                               IMAGES * DEPTH * PLANE, result));
  ac_session_free(session);
  ac_plan_free(plan);
  ac_graph_free(g);
  ac_device_close(opened);
}

static void check_channels(const char *device) {
  float x[IMAGES * DEPTH * PLANE], y[IMAGES * DEPTH * PLANE];
  for (int i = 0; i < IMAGES * DEPTH * PLANE; i++) x[i] = (float)(i * 37 % 23) / 4 - 2;
  for (int kind = 0; kind < 4; kind++) {
    ac_graph *g;
    assert_ok(ac_graph_create(&g));
    ac_tensor *t = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, DEPTH, HIGH, WIDE));
    const ac_local_response_norm_desc response = {kind == 2 ? 3 : 4, 0.5f, 0.6f, 2};
    const float gamma = 0.5f, beta = -1;
    if (kind == 0)
      t = ac_layer_norm_over(t, vector_of(g, "g", DEPTH, gamma), vector_of(g, "b", DEPTH, beta),
                             AC_AXES(1), 0.01f);
    else if (kind == 1)
      t = ac_rms_norm_over(t, vector_of(g, "g", DEPTH, gamma), AC_AXES(-3), 0.01f);
    else t = ac_local_response_norm(t, &response);
    compute(device, g, t, x, y);
    for (int i = 0; i < IMAGES * DEPTH * PLANE; i++) {
      const int c = i / PLANE % DEPTH, first = i - c * PLANE;
      double mean = 0, squares = 0, near = 0, want;
      for (int k = 0; k < DEPTH; k++) mean += (double)x[first + k * PLANE] / DEPTH;
      for (int k = 0; k < DEPTH; k++) {
        const double v = (double)x[first + k * PLANE];
        squares += pow(kind == 0 ? v - mean : v, 2) / DEPTH;
        if (k >= c - response.size / 2 && k <= c + (response.size - 1) / 2)
          near += v * v / response.size;
      }
      if (kind == 0) want = ((double)x[i] - mean) / sqrt(squares + 0.01) * 0.5 - 1;
      else if (kind == 1) want = (double)x[i] / sqrt(squares + 0.01) * 0.5;
      else want = (double)x[i] / pow(2 + 0.5 * near, 0.6);
      assert_true(fabs((double)y[i] - want) <= 4e-6);
    }
  }
}

static void norms_over_channels(void **state) {
  (void)state;
  on_every_device(check_channels);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(splitting_changes_nothing),
      cmocka_unit_test(recomputing_changes_no_bit),
      cmocka_unit_test(norms_over_channels),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
