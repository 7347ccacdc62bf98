/* Norms under accumulation: those that look at one sample at a time do not notice how a batch is
 * split; batch norm does (more on it in batch_norm.c). */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { CHANNELS = 6, SIZE = 7, CLASSES = 5, BATCH = 64, PIXELS = SIZE * SIZE };

typedef enum norm_kind { GROUP, SAMPLE, INSTANCE, BATCH_NORM } norm_kind;

static ac_tensor *vector(ac_graph *g, const char *name, float value, bool frozen) {
  ac_parameter_desc desc = {.init = {AC_INIT_CONSTANT, value, 0, false}, .frozen = frozen};
  return ac_parameter(g, name, 1, (const int64_t[]){CHANNELS}, &desc);
}

static ac_tensor *norm(ac_graph *g, norm_kind kind, ac_tensor *x, const char *prefix) {
  char name[4][32];
  static const char *const leaves[] = {"gamma", "beta", "mean", "variance"};
  for (int i = 0; i < 4; i++) snprintf(name[i], sizeof name[i], "%s.%s", prefix, leaves[i]);
  ac_tensor *gamma = vector(g, name[0], 1, false), *beta = vector(g, name[1], 0, false);
  if (kind == GROUP) return ac_group_norm(x, gamma, beta, 3, 0);
  if (kind == SAMPLE) return ac_sample_norm(x, gamma, beta, 0);
  if (kind == INSTANCE) return ac_instance_norm(x, gamma, beta, 0);
  ac_tensor *mean = vector(g, name[2], 0, true), *variance = vector(g, name[3], 1, true);
  return ac_batch_norm(x, gamma, beta, mean, variance, &(ac_batch_norm_desc){.momentum = 0.5f});
}

static ac_graph *graph_of(norm_kind kind) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_parameter_desc normal = {.init = {AC_INIT_NORMAL, 0, 0.3f, false}};
  ac_tensor *x = ac_input(g, "images", AC_F32, 4, (const int64_t[]){AC_BATCH, 2, SIZE, SIZE});
  ac_tensor *labels = ac_input(g, "labels", AC_I32, 1, (const int64_t[]){AC_BATCH});
  const ac_conv2d_desc same = {.padding = {1, 1}};
  ac_graph_scope(g, "first");
  x = ac_conv2d(x, ac_parameter(g, "w1", 4, (const int64_t[]){CHANNELS, 2, 3, 3}, &normal), NULL,
                &same);
  x = ac_relu(norm(g, kind, x, "first"));
  ac_graph_scope(g, "second");
  x = ac_conv2d(x, ac_parameter(g, "w2", 4, (const int64_t[]){CHANNELS, CHANNELS, 3, 3}, &normal),
                NULL, &same);
  x = ac_relu(norm(g, kind, x, "second"));
  ac_graph_scope(g, NULL);
  ac_tensor *w = ac_parameter(g, "w3", 2, (const int64_t[]){CLASSES, CHANNELS}, &normal);
  ac_graph_set_loss(g, ac_cross_entropy(ac_linear(ac_global_average_pool(x), w, NULL, AC_OUT_IN),
                                        labels, NULL, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

static float images[BATCH * 2 * PIXELS];
static int32_t labels[BATCH];

static void make_data(void) {
  uint32_t state = 11;
  for (int i = 0; i < BATCH * 2 * PIXELS; i++) {
    state = state * 1664525u + 1013904223u;
    images[i] = (float)(state >> 8) * 0x1p-24f + (float)(i / (2 * PIXELS) % 7) / 3;
  }
  for (int i = 0; i < BATCH; i++) labels[i] = i * 7 % CLASSES;
}

typedef struct run {
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
} run;

static run start(const char *device, norm_kind kind, ac_plan_desc desc) {
  run r;
  ac_graph *graph = graph_of(kind);
  assert_ok(ac_device_open(&r.device, &(ac_device_desc){.name = device, .threads = 2}));
  assert_ok(ac_plan_create(&r.plan, graph, r.device, &desc));
  ac_trainer_desc how = {.seed = 3, .schedule = {.lr = 1e-2}, .optimizer = {.epsilon = 1e-4}};
  assert_ok(ac_trainer_create(&r.trainer, r.plan, &how));
  ac_graph_free(graph);
  return r;
}

static void stop(run *r) {
  ac_trainer_free(r->trainer);
  ac_plan_free(r->plan);
  ac_device_close(r->device);
}

static ac_status feed(run *r, const float *pixels, int count) {
  ac_feed feeds[] = {{"images", pixels}, {"labels", labels}};
  return ac_trainer_accumulate(r->trainer, count, feeds, 2);
}

static void parameter(run *r, const char *name, float *values, int64_t count) {
  int index = ac_trainer_find_parameter(r->trainer, name);
  assert_true(index >= 0);
  assert_ok(ac_trainer_get_parameter(r->trainer, index, 0, count, values));
}

/* After 20 updates: the losses, and the second layer's weights. */
enum { UPDATES = 20, WEIGHTS = CHANNELS * CHANNELS * 9 };

static void train(const char *device, norm_kind kind, ac_plan_desc desc, double *losses,
                  float *weights) {
  run r = start(device, kind, desc);
  for (int u = 0; u < UPDATES; u++) {
    ac_update update;
    assert_ok(feed(&r, images, BATCH));
    assert_ok(ac_trainer_update(r.trainer, &update));
    losses[u] = update.loss;
  }
  parameter(&r, "w2", weights, WEIGHTS);
  stop(&r);
}

static double distance(const float *a, const float *b, int count) {
  double difference = 0, norm_of = 0;
  for (int i = 0; i < count; i++) {
    difference += pow((double)a[i] - (double)b[i], 2);
    norm_of += pow((double)a[i], 2);
  }
  return sqrt(difference / norm_of);
}

static void each_device(void (*check)(const char *device)) {
  ac_device_info list[8];
  int count;
  make_data();
  assert_ok(ac_device_list(list, 8, &count));
  for (int i = 0; i < count && i < 8; i++) check(list[i].id);
}

static void splitting_shows_only_in_batch_norm(const char *device) {
  for (norm_kind kind = GROUP; kind <= BATCH_NORM; kind++) {
    double whole[UPDATES], split[UPDATES], worst = 0;
    float a[WEIGHTS], b[WEIGHTS];
    ac_plan_desc desc = {.batch = BATCH, .micro_batch = BATCH};
    train(device, kind, desc, whole, a);
    desc.micro_batch = 4;
    desc.micro_batch_norm = kind == BATCH_NORM;
    train(device, kind, desc, split, b);
    for (int u = 0; u < UPDATES; u++) worst = fmax(worst, fabs(split[u] - whole[u]) / whole[u]);
    assert_true(whole[UPDATES - 1] < whole[0]);
    if (kind == BATCH_NORM) {
      assert_true(worst > 1e-3 && distance(a, b, WEIGHTS) > 1e-3);
    } else if (worst > 1e-5 || distance(a, b, WEIGHTS) > 1e-5) {
      fail_msg("%s: norm %d: losses differ by %g, weights by %g", device, (int)kind, worst,
               distance(a, b, WEIGHTS));
    }
  }
}

/* ---- whole batches --------------------------------------------------------------------------- */

static void a_window_comes_in_one_piece(void **state) {
  (void)state;
  make_data();
  run r = start("cpu", BATCH_NORM, (ac_plan_desc){.batch = 8});
  assert_refused(feed(&r, images, 9), AC_ERROR_STATE, "in one piece");
  assert_ok(feed(&r, images, 4));
  assert_refused(feed(&r, images, 4), AC_ERROR_STATE, "in one piece");
  assert_ok(ac_trainer_update(r.trainer, NULL));
  stop(&r);
}

#define EVERYWHERE(check)                        \
  static void check##_everywhere(void **state) { \
    (void)state;                                 \
    each_device(check);                          \
  }
EVERYWHERE(splitting_shows_only_in_batch_norm)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(splitting_shows_only_in_batch_norm_everywhere),
      cmocka_unit_test(a_window_comes_in_one_piece),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
