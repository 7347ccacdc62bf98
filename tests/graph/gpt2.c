/* The graph that `accrue train gpt` builds, with a model file from Hugging Face's transformers,
 * gives the loss, the logits and the gradients that PyTorch computed for it
 * (tests/vectors/gpt2_tiny, gpt2_results), on every device and for any split. */
#include "support/check.h"

#include "models/gpt.h"
#include "ops/vector.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 3, CONTEXT = 16, VOCAB = 61 };

static const gpt_config config = {2, 3, 24, CONTEXT, VOCAB, 0};
static const char weights[] = ACCRUE_TEST_VECTORS "/gpt2_tiny.safetensors";

typedef struct expected {
  op_vector *vector;
  int count;
  int32_t tokens[SAMPLES * CONTEXT], targets[SAMPLES * CONTEXT];
} expected;

static void copy_integers(const op_vector *vector, const char *name, int32_t *to) {
  const op_vector_tensor *tensor = op_vector_find(vector, name);
  assert_non_null(tensor);
  for (int64_t i = 0; i < tensor->count; i++) to[i] = (int32_t)tensor->data[i];
}

static expected read_expected(void) {
  expected e = {0};
  e.vector = op_vectors_read("gpt2_results", &e.count);
  assert_non_null(e.vector);
  copy_integers(e.vector, "tokens", e.tokens);
  copy_integers(e.vector, "targets", e.targets);
  return e;
}

static double value(const expected *e, const char *name, int index) {
  const op_vector_tensor *tensor = op_vector_find(e->vector, name);
  assert_non_null(tensor);
  return tensor->data[index];
}

static ac_plan *make_plan(ac_device *device, bool loss, ac_plan_desc desc) {
  ac_graph *graph;
  ac_plan *plan;
  assert_ok(ac_graph_create(&graph));
  gpt_build(graph, &config, loss);
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  ac_graph_free(graph);
  return plan;
}

/* Float rounding through two layers: 1e-4 relative to the gradient's norm. */
static void check_gradient(const expected *e, ac_trainer *trainer, int index) {
  ac_tensor_info info;
  assert_ok(ac_trainer_parameter_info(trainer, index, &info));
  int64_t count = 1;
  for (int i = 0; i < info.rank; i++) count *= info.shape[i];
  float *gradient = malloc((size_t)count * sizeof *gradient);
  assert_ok(ac_trainer_get_gradient(trainer, index, 0, count, gradient));
  double norm = 0;
  for (int64_t i = 0; i < count; i++) norm += (double)gradient[i] * (double)gradient[i];
  norm = sqrt(norm);
  char name[64];
  const char *bare = info.name + strlen(GPT_PREFIX);
  snprintf(name, sizeof name, "norm.%s", bare);
  assert_true(fabs(norm - value(e, name, 0)) <= 1e-4 * norm);
  const op_vector_tensor *whole = op_vector_find(e->vector, bare);
  for (int64_t i = 0; whole && i < count; i++)
    assert_true(fabs((double)gradient[i] - whole->data[i]) <= 1e-4 * norm);
  free(gradient);
}

static void check_training(const expected *e, ac_device *device, int64_t micro_batch) {
  ac_plan *plan =
      make_plan(device, true, (ac_plan_desc){.batch = SAMPLES, .micro_batch = micro_batch});
  ac_trainer *trainer;
  ac_update update;
  ac_feed feeds[] = {{"tokens", e->tokens}, {"targets", e->targets}};
  assert_ok(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.schedule = {.lr = -1}}));
  assert_ok(ac_trainer_load(trainer, weights, GPT_PREFIX));
  assert_ok(ac_trainer_accumulate(trainer, SAMPLES, feeds, 2));
  for (int i = 0; i < ac_trainer_parameter_count(trainer); i++) check_gradient(e, trainer, i);
  assert_ok(ac_trainer_update(trainer, &update));
  double mean = value(e, "loss", 0) / value(e, "loss", 1);
  assert_true(fabs(update.loss - mean) <= 1e-5 * mean);
  assert_true(update.weight == value(e, "loss", 1));
  ac_trainer_free(trainer);
  ac_plan_free(plan);
}

static void check_prediction(const expected *e, ac_device *device) {
  ac_plan *plan = make_plan(device, false, (ac_plan_desc){.purpose = AC_PREDICT, .batch = SAMPLES});
  ac_session *session;
  ac_feed feed = {"tokens", e->tokens};
  assert_ok(ac_session_create(&session, plan, 0));
  assert_ok(ac_session_load(session, weights, GPT_PREFIX));
  assert_ok(ac_session_run(session, SAMPLES, &feed, 1));
  for (int s = 0; s < SAMPLES; s++) {
    float logits[VOCAB];
    assert_ok(ac_session_output(session, "logits", ((s + 1) * CONTEXT - 1) * VOCAB, VOCAB, logits));
    for (int v = 0; v < VOCAB; v++)
      assert_true(fabs((double)logits[v] - value(e, "logits", s * VOCAB + v)) <= 1e-4);
  }
  ac_session_free(session);
  ac_plan_free(plan);
}

static void matches_transformers(void **state) {
  (void)state;
  expected e = read_expected();
  ac_device_info list[8];
  int count;
  assert_ok(ac_device_list(list, 8, &count));
  for (int i = 0; i < count && i < 8; i++) {
    ac_device *device;
    assert_ok(ac_device_open(&device, &(ac_device_desc){.name = list[i].id}));
    check_training(&e, device, 3);
    check_training(&e, device, 2);
    check_prediction(&e, device);
    ac_device_close(device);
  }
  op_vectors_free(e.vector, e.count);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(matches_transformers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
