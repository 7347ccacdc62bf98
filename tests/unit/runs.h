/* Runs of a small transformer with ragged targets, on every device: what tests of training share.
 */
#ifndef AC_TESTS_RUNS_H
#define AC_TESTS_RUNS_H

#include "models.h"

#include "backend/device.h"

#include <stdlib.h>

static const test_gpt model = {2, 24, 9, 17, 2, 0.1f, true, true};
enum { SAMPLES = 23, CONTEXT = 9, VOCAB = 17 };

typedef struct corpus {
  int32_t tokens[SAMPLES * CONTEXT], targets[SAMPLES * CONTEXT];
  float weights[SAMPLES * CONTEXT];
} corpus;

/* Sequences of unequal length: the rest of each row is padding, ignored by target or by weight. */
static inline corpus make_corpus(void) {
  corpus c;
  uint32_t state = 7;
  for (int i = 0; i < SAMPLES * CONTEXT; i++) {
    state = state * 1664525u + 1013904223u;
    int row = i / CONTEXT, column = i % CONTEXT, length = 1 + row * 5 % CONTEXT;
    c.tokens[i] = (int32_t)(state >> 16) % VOCAB;
    c.targets[i] = column < length ? (c.tokens[i] * 3 + 1) % VOCAB : row % 2 ? -1 : 0;
    c.weights[i] = column < length ? 1 + (float)(row % 3) / 2 : row % 2 ? 1 : 0;
  }
  return c;
}

typedef struct run {
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
} run;

static inline ac_device *open_device(const char *name) {
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = name, .threads = 2}));
  return device;
}

/* On a device that stays open: OpenCL then compiles once for several runs. */
static inline run start_on(ac_device *device, const test_gpt *m, ac_plan_desc plan,
                           ac_trainer_desc desc) {
  run r = {.device = device};
  ac_graph *graph = test_gpt_graph(m);
  assert_ok(ac_plan_create(&r.plan, graph, r.device, &plan));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, &desc));
  ac_graph_free(graph);
  return r;
}

static inline run start(const char *device, const test_gpt *m, ac_plan_desc plan,
                        ac_trainer_desc desc) {
  return start_on(open_device(device), m, plan, desc);
}

static inline void stop_on(run *r) {
  ac_trainer_free(r->trainer);
  ac_plan_free(r->plan);
}

static inline void stop(run *r) {
  ac_trainer_free(r->trainer);
  assert_int_equal(ac_device_allocated_bytes(r->device), 0);
  ac_plan_free(r->plan);
  ac_device_close(r->device);
}

static inline ac_status feed(run *r, const corpus *c, int first, int count) {
  ac_feed feeds[] = {{"tokens", c->tokens + first * CONTEXT},
                     {"targets", c->targets + first * CONTEXT},
                     {"weights", c->weights + first * CONTEXT}};
  return ac_trainer_accumulate(r->trainer, count, feeds, 3);
}

static inline int64_t elements(const ac_trainer *trainer, int index) {
  ac_tensor_info info;
  int64_t count = 1;
  assert_ok(ac_trainer_parameter_info(trainer, index, &info));
  for (int k = 0; k < info.rank; k++) count *= info.shape[k];
  return count;
}

/* All parameters one after another; free it. */
static inline float *all_parameters(run *r, size_t *total) {
  float *all = NULL;
  *total = 0;
  for (int i = 0; i < ac_trainer_parameter_count(r->trainer); i++) {
    const int64_t count = elements(r->trainer, i);
    all = realloc(all, (*total + (size_t)count) * sizeof *all);
    assert_non_null(all);
    assert_ok(ac_trainer_get_parameter(r->trainer, i, 0, count, all + *total));
    *total += (size_t)count;
  }
  return all;
}

/* ---- devices --------------------------------------------------------------------------------- */

/* Runs a check on the CPU and on each OpenCL device. */
static inline void on_every_device(void (*check)(const char *device)) {
  ac_device_info list[8];
  int count;
  assert_ok(ac_device_list(list, 8, &count));
  /* If an OpenCL implementation must be installed, the test fails without it. */
  assert_true(count >= (getenv("ACCRUE_TEST_OPENCL") ? 2 : 1));
  for (int i = 0; i < count && i < 8; i++) check(list[i].id);
}

#define ON_EVERY_DEVICE(check)                   \
  static void check##_everywhere(void **state) { \
    (void)state;                                 \
    on_every_device(check);                      \
  }

#endif
