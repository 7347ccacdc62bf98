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
  return run_of(device, test_gpt_graph(m), &plan, &desc);
}

run start(const char *device, const test_gpt *m, ac_plan_desc plan, ac_trainer_desc desc) {
  return start_on(open_device(device), m, plan, desc);
}

ac_status feed(run *r, const corpus *c, int first, int count) {
  ac_feed feeds[] = {{"tokens", c->tokens + first * CONTEXT},
                     {"targets", c->targets + first * CONTEXT},
                     {"weights", c->weights + first * CONTEXT}};
  return ac_trainer_accumulate(r->trainer, count, feeds, 3);
}
