/* A model of a table and a matrix, with a bias: the smallest model that shows how weights,
 * gradients and optimizer state are stored. */
#ifndef AC_TESTS_TABLE_MODEL_H
#define AC_TESTS_TABLE_MODEL_H

#include "files.h"

#include "plan/plan.h"

#include <accrue/accrue.h>

#include <stdlib.h>
#include <string.h>

enum { ROWS = 90, WIDTH = 70, BATCH = 6, COUNT = ROWS * WIDTH };

/* `hidden`: the matrix is not that of the last layer, which Muon would leave to AdamW. */
static inline ac_graph *make_graph(bool hidden) {
  ac_graph *graph;
  const ac_parameter_desc normal = {.init = {.kind = AC_INIT_NORMAL, .deviation = 0.1f}};
  assert_ok(ac_graph_create(&graph));
  ac_tensor *ids = ac_input(graph, "ids", AC_I32, AC_SHAPE(AC_BATCH)),
            *targets = ac_input(graph, "targets", AC_I32, AC_SHAPE(AC_BATCH));
  ac_tensor *table = ac_parameter(graph, "table", AC_SHAPE(ROWS, WIDTH), &normal);
  ac_tensor *bias = ac_parameter(graph, "bias", AC_SHAPE(ROWS), NULL);
  ac_tensor *x = ac_embedding(table, ids);
  x = ac_linear(x, ac_parameter(graph, "matrix", AC_SHAPE(ROWS, WIDTH), &normal), bias, AC_OUT_IN);
  if (hidden) x = ac_silu(x);
  ac_graph_set_loss(graph, ac_cross_entropy(x, targets, NULL, NULL));
  return graph;
}

typedef struct trained {
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
} trained;

static inline trained begin_with(const char *device, ac_plan_desc desc, ac_trainer_desc training) {
  trained t;
  ac_graph *graph = make_graph(desc.optimizer.kind == AC_MUON);
  desc.batch = BATCH;
  assert_ok(ac_device_open(&t.device, &(ac_device_desc){.name = device}));
  assert_ok(ac_plan_create(&t.plan, graph, t.device, &desc));
  ac_graph_free(graph);
  assert_ok(ac_trainer_create(&t.trainer, t.plan, &training));
  return t;
}

static inline trained begin(const char *device, ac_plan_desc desc) {
  return begin_with(device, desc, (ac_trainer_desc){.seed = 3});
}

static inline void end(trained *t) {
  ac_trainer_free(t->trainer);
  ac_plan_free(t->plan);
  ac_device_close(t->device);
}

static inline void accumulate(trained *t, int step) {
  int32_t ids[BATCH], targets[BATCH];
  for (int i = 0; i < BATCH; i++) {
    ids[i] = (step * 7 + i * 13) % 30;
    targets[i] = (ids[i] * 3 + 1) % ROWS;
  }
  const ac_feed feeds[] = {{"ids", ids}, {"targets", targets}};
  assert_ok(ac_trainer_accumulate(t->trainer, BATCH, feeds, 2));
}

/* Returns the last loss. */
static inline double train(trained *t, int first, int last) {
  ac_update update = {0};
  for (int step = first; step < last; step++) {
    accumulate(t, step);
    assert_ok(ac_trainer_update(t->trainer, &update));
  }
  return update.loss;
}

static const char *const devices[] = {"cpu", "opencl"};

static inline bool is_missing(const char *name) {
  int count = 0;
  assert_ok(ac_device_list(NULL, 0, &count));
  return !strcmp(name, "opencl") && count < 2;
}

static inline float *all_parameters(trained *t) {
  float *all = malloc((2 * COUNT + ROWS) * sizeof *all), *at = all;
  assert_int_equal(ac_trainer_parameter_count(t->trainer), 3);
  for (int i = 0; i < 3; i++) {
    ac_tensor_info info;
    assert_ok(ac_trainer_parameter_info(t->trainer, i, &info));
    const int64_t count = info.rank == 2 ? COUNT : ROWS;
    assert_ok(ac_trainer_get_parameter(t->trainer, i, 0, count, at));
    at += count;
  }
  return all;
}

#endif
