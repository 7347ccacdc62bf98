/* Direct preference optimisation of adapters, against TRL (tests/vectors/preferences.py): the loss
 * and the gradients of a small Llama; in 16 bits; and what the loss refuses. */
#include "support/devices.h"
#include "support/files.h"

#include <math.h>

enum { PAIRS = 3, ROW = 12, CONTEXT = ROW - 1 };

static const char configuration[] =
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 48, "
    "\"hidden_size\": 16, \"intermediate_size\": 24, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 32, "
    "\"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": true, \"attention_bias\": true}";

static ac_model *model;
static ac_model_file *base, *vectors;

static int open_all(void **state) {
  if (make_test_folder(state)) return -1;
  test_path path = in_folder("config.json");
  write_file(path.text, configuration, strlen(configuration));
  assert_ok(ac_model_open(&model, path.text));
  assert_ok(ac_model_file_open(&base, ACCRUE_TEST_VECTORS "/adapters.safetensors"));
  assert_ok(ac_model_file_open(&vectors, ACCRUE_TEST_VECTORS "/preferences.safetensors"));
  return 0;
}

static int close_all(void **state) {
  ac_model_free(model);
  ac_model_file_close(base);
  ac_model_file_close(vectors);
  return remove_test_folder(state);
}

/* Of GROUP/NAME; NULL: there is none. Free it. */
static float *values_of(ac_model_file *file, const char *group, const char *name) {
  char key[512];
  snprintf(key, sizeof key, "%s/%s", group, name);
  const int index = ac_model_file_find(file, key);
  if (index < 0) return NULL;
  const ac_model_tensor *tensor = ac_model_file_tensor(file, index);
  int64_t count = 1;
  for (int d = 0; d < tensor->rank; d++) count *= tensor->shape[d];
  float *values = malloc((size_t)(count + 1) * sizeof *values);
  assert_ok(ac_model_file_read(file, index, 0, count, values));
  return values;
}

typedef struct pairs {
  int32_t tokens[2][PAIRS][CONTEXT], targets[2][PAIRS][CONTEXT];
  float weights[2][PAIRS][CONTEXT];
} pairs;

static pairs pairs_of(const char *group) {
  pairs p;
  float *tokens = values_of(vectors, group, "tokens"), *mask = values_of(vectors, group, "mask");
  for (int a = 0; a < 2; a++)
    for (int i = 0; i < PAIRS; i++)
      for (int t = 0; t < CONTEXT; t++) {
        const int at = (a * PAIRS + i) * ROW + t;
        p.tokens[a][i][t] = (int32_t)tokens[at];
        p.targets[a][i][t] = (int32_t)tokens[at + 1];
        p.weights[a][i][t] = mask[at + 1];
      }
  free(tokens);
  free(mask);
  return p;
}

static void set_all(ac_trainer *trainer, const char *group) {
  for (int i = 0; i < ac_trainer_parameter_count(trainer); i++) {
    ac_tensor_info info;
    assert_ok(ac_trainer_parameter_info(trainer, i, &info));
    float *values = values_of(base, "base", info.name);
    if (!values) values = values_of(vectors, group, info.name);
    if (!values) fail_msg("nothing for %s", info.name);
    const int64_t count = info.shape[0] * (info.rank == 2 ? info.shape[1] : 1);
    assert_ok(ac_trainer_set_parameter(trainer, i, 0, count, values));
    free(values);
  }
}

/* With SGD and a rate of 1 a parameter less itself after the update is its gradient. */
static void assert_gradients(ac_trainer *trainer, const char *group, double allowed) {
  int compared = 0;
  for (int i = 0; i < ac_trainer_parameter_count(trainer); i++) {
    ac_tensor_info info;
    char name[300];
    assert_ok(ac_trainer_parameter_info(trainer, i, &info));
    snprintf(name, sizeof name, "grad.%s", info.name);
    float *want = values_of(vectors, group, name), *before = values_of(vectors, group, info.name);
    if (!want) continue;
    const int64_t count = info.shape[0] * info.shape[1];
    float *after = malloc((size_t)count * sizeof *after);
    assert_ok(ac_trainer_get_parameter(trainer, i, 0, count, after));
    double largest = 0, off = 0;
    for (int64_t e = 0; e < count; e++) {
      largest = fmax(largest, fabs((double)want[e]));
      off = fmax(off, fabs((double)before[e] - (double)after[e] - (double)want[e]));
    }
    if (off > allowed * (largest + 0.1)) fail_msg("%s: off by %g of %g", name, off, largest);
    compared++;
    free(after);
    free(before);
    free(want);
  }
  assert_int_equal(compared, 12);
}

static void compare(const char *name, ac_precision precision, const char *group, float smoothing) {
  ac_device *device = open_device(name);
  ac_graph *graph;
  ac_plan *plan;
  ac_trainer *trainer;
  const ac_lora_desc lora = {.rank = 4, .alpha = 6, .targets = "q_proj,v_proj,down_proj"};
  const ac_dpo_desc dpo = {.beta = 0.3f, .label_smoothing = smoothing};
  const double allowed = precision == AC_PRECISION_F32 ? 1e-5 : 4e-2;
  assert_ok(ac_graph_create(&graph));
  ac_model_build(
      model, graph,
      &(ac_model_graph_desc){.context = CONTEXT, .frozen = true, .lora = &lora, .dpo = &dpo});
  if (ac_graph_status(graph) != AC_OK) fail_msg("%s", ac_graph_message(graph));
  const ac_plan_desc desc = {.batch = PAIRS,
                             .precision = precision,
                             .optimizer = {.kind = AC_SGD, .sgd_no_momentum = true}};
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  assert_ok(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.schedule = {.lr = 1}}));
  set_all(trainer, group);
  const pairs p = pairs_of(group);
  const ac_feed feeds[] = {{"chosen_tokens", p.tokens[0]},     {"chosen_targets", p.targets[0]},
                           {"chosen_weights", p.weights[0]},   {"rejected_tokens", p.tokens[1]},
                           {"rejected_targets", p.targets[1]}, {"rejected_weights", p.weights[1]}};
  ac_update update;
  assert_ok(ac_trainer_accumulate(trainer, PAIRS, feeds, 6));
  assert_ok(ac_trainer_update(trainer, &update));
  float *want = values_of(vectors, group, "loss");
  if (fabs(update.loss - (double)*want) > allowed)
    fail_msg("%s: the loss is %.7f, not %.7f", group, update.loss, (double)*want);
  free(want);
  assert_gradients(trainer, group, precision == AC_PRECISION_F32 ? 2e-5 : 5e-2);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_device_close(device);
}

static void loss_and_gradients_are_trls(const char *device) {
  compare(device, AC_PRECISION_F32, "dpo", 0);
  compare(device, AC_PRECISION_F32, "smoothed", 0.2f);
  compare(device, AC_PRECISION_BF16, "dpo", 0);
}
ON_EVERY_DEVICE(loss_and_gradients_are_trls)

/* With references of its own the loss is the same formula. */
static void references_may_be_given(void **state) {
  (void)state;
  ac_graph *graph;
  ac_plan *plan;
  ac_trainer *trainer;
  ac_device *device = open_device("cpu");
  static const float policy[2][2] = {{-3, -1}, {-2.5f, -4}}, reference[2][2] = {{-2, -2}, {-3, -3}};
  assert_ok(ac_graph_create(&graph));
  ac_tensor *in[4];
  static const char *const names[] = {"a", "b", "c", "d"};
  for (int i = 0; i < 4; i++) in[i] = ac_input(graph, names[i], AC_F32, AC_SHAPE(AC_BATCH, 1));
  ac_tensor *shift = ac_parameter(graph, "shift", AC_SHAPE(1), ZEROS);
  ac_graph_set_loss(graph, ac_dpo_loss(ac_add(in[0], shift), in[1], in[2], in[3], NULL,
                                       &(ac_dpo_desc){.beta = 0.5f, .label_smoothing = 0.1f}));
  assert_ok(ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = 2}));
  assert_ok(ac_trainer_create(&trainer, plan, NULL));
  const float fed[4][2] = {{policy[0][0], policy[0][1]},
                           {policy[1][0], policy[1][1]},
                           {reference[0][0], reference[0][1]},
                           {reference[1][0], reference[1][1]}};
  const ac_feed feeds[] = {{"a", fed[0]}, {"b", fed[1]}, {"c", fed[2]}, {"d", fed[3]}};
  ac_update update;
  assert_ok(ac_trainer_accumulate(trainer, 2, feeds, 4));
  assert_ok(ac_trainer_update(trainer, &update));
  double want = 0;
  for (int i = 0; i < 2; i++) {
    const double z =
        0.5 * (((double)fed[0][i] - (double)fed[2][i]) - ((double)fed[1][i] - (double)fed[3][i]));
    want += (0.9 * log1p(exp(-z)) + 0.1 * log1p(exp(z))) / 2;
  }
  assert_float_equal(update.loss, want, 1e-6);
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_graph_free(graph);
  ac_device_close(device);
}

static void refused(const ac_model_graph_desc *desc, const char *why) {
  ac_graph *graph;
  assert_ok(ac_graph_create(&graph));
  assert_null(ac_model_build(model, graph, desc));
  assert_contains(ac_graph_message(graph), why);
  ac_graph_free(graph);
}

static void what_cannot_be_preferred_is_refused(void **state) {
  (void)state;
  const ac_dpo_desc dpo = {.beta = 0.1f}, negative = {.beta = -1},
                    smoothed = {.label_smoothing = 0.6f};
  const ac_lora_desc lora = {.rank = 2};
  refused(&(ac_model_graph_desc){.context = 4, .dpo = &dpo, .frozen = true}, "need adapters");
  refused(&(ac_model_graph_desc){.context = 4, .dpo = &dpo, .lora = &lora}, "frozen model");
  refused(&(ac_model_graph_desc){.context = 4, .dpo = &negative, .lora = &lora, .frozen = true},
          "beta");
  refused(&(ac_model_graph_desc){.context = 4, .dpo = &smoothed, .lora = &lora, .frozen = true},
          "label_smoothing");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(loss_and_gradients_are_trls_everywhere),
      cmocka_unit_test(references_may_be_given),
      cmocka_unit_test(what_cannot_be_preferred_is_refused),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
