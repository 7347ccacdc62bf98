#include "runs.h"

const test_gpt model = {2, 24, 9, 17, 2, 0.1f, true, true};

corpus make_corpus(void) {
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

run start_on(ac_device *device, const test_gpt *m, ac_plan_desc plan, ac_trainer_desc desc) {
  run r = {.device = device};
  ac_graph *graph = test_gpt_graph(m);
  assert_ok(ac_plan_create(&r.plan, graph, r.device, &plan));
  assert_ok(ac_trainer_create(&r.trainer, r.plan, &desc));
  ac_graph_free(graph);
  return r;
}

run start(const char *device, const test_gpt *m, ac_plan_desc plan, ac_trainer_desc desc) {
  return start_on(open_device(device), m, plan, desc);
}

void stop_on(run *r) {
  ac_trainer_free(r->trainer);
  ac_plan_free(r->plan);
}

void stop(run *r) {
  ac_trainer_free(r->trainer);
  assert_int_equal(ac_device_allocated_bytes(r->device), 0);
  ac_plan_free(r->plan);
  ac_device_close(r->device);
}

ac_status feed(run *r, const corpus *c, int first, int count) {
  ac_feed feeds[] = {{"tokens", c->tokens + first * CONTEXT},
                     {"targets", c->targets + first * CONTEXT},
                     {"weights", c->weights + first * CONTEXT}};
  return ac_trainer_accumulate(r->trainer, count, feeds, 3);
}

int64_t elements(const ac_trainer *trainer, int index) {
  ac_tensor_info info;
  int64_t count = 1;
  assert_ok(ac_trainer_parameter_info(trainer, index, &info));
  for (int k = 0; k < info.rank; k++) count *= info.shape[k];
  return count;
}

float *all_parameters(run *r, size_t *total) {
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
