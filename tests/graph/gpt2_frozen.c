/* In this GPT-2 the embeddings, which the head shares, and the first block are frozen. It ends with
 * the weights that PyTorch trains (tests/vectors/gpt2_frozen), on every device and in every way of
 * a plan. */
#include "support/check.h"

#include "models/gpt.h"
#include "ops/vector.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLES = 3, CONTEXT = 16, VOCAB = 61, UPDATES = 20, MOST = 61 * 24 + 96 * 24 };

static const gpt_config config = {2, 3, 24, CONTEXT, VOCAB, 0};
static const char weights[] = ACCRUE_TEST_VECTORS "/gpt2_tiny.safetensors";
static const char frozen[] = GPT_PREFIX "w?e.*," GPT_PREFIX "h.0.*";

static ac_trainer *begin(ac_device *device, ac_plan_desc desc, ac_plan **plan,
                         const op_vector *expected) {
  ac_graph *graph;
  ac_trainer *trainer;
  const ac_trainer_desc training = {
      .schedule = {.lr = op_vector_attribute(expected, "lr", 0)},
      .optimizer = {.epsilon = op_vector_attribute(expected, "epsilon", 0),
                    .weight_decay = op_vector_attribute(expected, "weight_decay", 0)}};
  desc.batch = SAMPLES;
  desc.frozen = frozen;
  assert_ok(ac_graph_create(&graph));
  gpt_build(graph, &config, true);
  assert_ok(ac_plan_create(plan, graph, device, &desc));
  ac_graph_free(graph);
  assert_ok(ac_trainer_create(&trainer, *plan, &training));
  assert_ok(ac_trainer_load(trainer, weights, GPT_PREFIX));
  return trainer;
}

/* 17 ids make 16 tokens and their 16 targets. */
static double update(ac_trainer *trainer, const double *ids) {
  int32_t tokens[SAMPLES * CONTEXT], targets[SAMPLES * CONTEXT];
  ac_update result;
  for (int s = 0; s < SAMPLES; s++)
    for (int t = 0; t < CONTEXT; t++) {
      tokens[s * CONTEXT + t] = (int32_t)ids[s * (CONTEXT + 1) + t];
      targets[s * CONTEXT + t] = (int32_t)ids[s * (CONTEXT + 1) + t + 1];
    }
  const ac_feed feeds[] = {{"tokens", tokens}, {"targets", targets}};
  assert_ok(ac_trainer_accumulate(trainer, SAMPLES, feeds, 2));
  assert_ok(ac_trainer_update(trainer, &result));
  return result.loss;
}

/* AdamW divides by the size of a gradient. Floats lose about 1e-6 of the numbers that are summed.
 */
static void check_parameter(ac_trainer *trainer, int index, const float *before,
                            const op_vector *expected) {
  float values[MOST];
  ac_tensor_info info;
  assert_ok(ac_trainer_parameter_info(trainer, index, &info));
  int64_t count = 1;
  for (int i = 0; i < info.rank; i++) count *= info.shape[i];
  assert_true(count <= MOST);
  assert_ok(ac_trainer_get_parameter(trainer, index, 0, count, values));
  const op_vector_tensor *trained = op_vector_find(expected, info.name + strlen(GPT_PREFIX));
  if (!trained) assert_memory_equal(values, before, (size_t)count * sizeof *values);
  for (int64_t i = 0; trained && i < count; i++)
    if (!(fabs((double)values[i] - trained->data[i]) <= 2e-6))
      fail_msg("%s[%d] is %.9g, not %.9g", info.name, (int)i, (double)values[i], trained->data[i]);
}

static void check_plan(ac_device *device, ac_plan_desc desc, const op_vector *expected) {
  static float before[64][MOST];
  ac_plan *plan;
  ac_trainer *trainer = begin(device, desc, &plan, expected);
  const int parameters = ac_trainer_parameter_count(trainer);
  assert_true(parameters <= 64);
  for (int i = 0; i < parameters; i++) {
    ac_tensor_info info;
    assert_ok(ac_trainer_parameter_info(trainer, i, &info));
    int64_t count = 1;
    for (int k = 0; k < info.rank; k++) count *= info.shape[k];
    assert_ok(ac_trainer_get_parameter(trainer, i, 0, count, before[i]));
  }
  const double *ids = op_vector_find(expected, "ids")->data,
               *losses = op_vector_find(expected, "losses")->data;
  for (int u = 0; u < UPDATES; u++)
    assert_true(fabs(update(trainer, ids + u * SAMPLES * (CONTEXT + 1)) - losses[u]) <= 2e-5);
  for (int i = 0; i < parameters; i++) check_parameter(trainer, i, before[i], expected);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
}

static void matches_pytorch(void **state) {
  (void)state;
  static const ac_plan_desc ways[] = {
      {.micro_batch = 3},
      {.micro_batch = 2},
      {.micro_batch = 1, .recompute = AC_RECOMPUTE_ALL},
      {.gradients = AC_GRADIENTS_FUSED},
      {.gradients = AC_GRADIENTS_FUSED_LOCAL, .recompute = AC_RECOMPUTE_ALL},
  };
  int count;
  op_vector *expected = op_vectors_read("gpt2_frozen", &count);
  assert_true(expected && count == 1);
  ac_device_info list[8];
  assert_ok(ac_device_list(list, 8, &count));
  for (int i = 0; i < count && i < 8; i++) {
    ac_device *device;
    assert_ok(ac_device_open(&device, &(ac_device_desc){.name = list[i].id}));
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) check_plan(device, ways[k], expected);
    ac_device_close(device);
  }
  op_vectors_free(expected, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(matches_pytorch)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
