/* Language models of others against transformers: tests/vectors/models has a random folder of each
 * family, most of them also as a GGUF file, and what came of them (language_models.py). */
#include "support/devices.h"
#include "support/files.h"

#include "io/safetensors.h"

#include <math.h>
#include <stdlib.h>

/* Of the vectors. */
enum { SAMPLES = 3, CONTEXT = 12, VOCABULARY = 32, UPDATES = 10 };
enum { LOGITS = SAMPLES * CONTEXT * VOCABULARY };

static const struct {
  const char *name;
  bool gguf;
  bool everywhere; /* also on OpenCL devices: all parts of graphs are in one of these */
} cases[] = {
    {"llama", true, true},          {"llama3", true, false},   {"llama_linear", false, false},
    {"mistral", false, false},      {"smollm3", false, false}, {"qwen2", true, false},
    {"qwen2_window", false, false}, {"qwen3", true, false},    {"gemma", true, false},
    {"gemma2", true, true},         {"gemma3", true, false},   {"phi3", true, true},
    {"phi3_partial", false, false}, {"olmo2", true, true},     {"gpt2", true, true}};
enum { CASES = sizeof cases / sizeof *cases };

static test_path path_of(const char *name, const char *ending) {
  test_path path;
  snprintf(path.text, sizeof path.text, "%s/models/%s%s", ACCRUE_TEST_VECTORS, name, ending);
  return path;
}

static bool runs(int i, const char *device) {
  return cases[i].everywhere || !strcmp(device, "cpu");
}

typedef struct expected {
  int32_t tokens[SAMPLES * CONTEXT], targets[SAMPLES * CONTEXT];
  float logits[LOGITS], full[UPDATES], lora[UPDATES];
} expected;

/* Whole tensors; those of integers are read through the rest of the library as they are. */
static void read_tensor(ac_model_file *file, const char *name, int64_t count, float *to) {
  const int index = ac_model_file_find(file, name);
  assert_true(index >= 0);
  assert_ok(ac_model_file_read(file, index, 0, count, to));
}

static void read_ids(ac_model_file *file, const char *name, int32_t *to) {
  const int index = ac_model_file_find(file, name);
  assert_true(index >= 0);
  assert_ok(ac_model_file_read_stored(file, index, 0, SAMPLES * CONTEXT, to));
}

static const expected *expected_of(const char *name) {
  static expected e;
  ac_model_file *file;
  assert_ok(ac_model_file_open(&file, path_of(name, ".results.safetensors").text));
  read_ids(file, "tokens", e.tokens);
  read_ids(file, "targets", e.targets);
  read_tensor(file, "logits", LOGITS, e.logits);
  read_tensor(file, "full", UPDATES, e.full);
  read_tensor(file, "lora", UPDATES, e.lora);
  ac_model_file_close(file);
  return &e;
}

static ac_model *open_model(const char *path) {
  ac_model *model;
  assert_ok(ac_model_open(&model, path));
  return model;
}

static ac_plan *plan_of(const ac_model *model, ac_device *device, const ac_model_graph_desc *desc,
                        ac_plan_desc plan_desc) {
  ac_graph *graph;
  ac_plan *plan;
  assert_ok(ac_graph_create(&graph));
  assert_non_null(ac_model_build(model, graph, desc));
  assert_ok(ac_graph_status(graph));
  assert_ok(ac_plan_create(&plan, graph, device, &plan_desc));
  ac_graph_free(graph);
  return plan;
}

/* ---- logits ---------------------------------------------------------------------------------- */

/* Both sides compute norms and rotary positions in floats; logits are up to 8. */
static const double logits_within = 3e-5;

static void check_logits(const char *path, const expected *e, ac_device *device) {
  static float logits[LOGITS];
  ac_model *model = open_model(path);
  ac_plan *plan = plan_of(model, device, &(ac_model_graph_desc){.context = CONTEXT, .logits = true},
                          (ac_plan_desc){.purpose = AC_PREDICT, .batch = SAMPLES});
  ac_session *session;
  const ac_feed feed = {"tokens", e->tokens};
  assert_ok(ac_session_create(&session, plan, 0));
  assert_ok(ac_model_load_session(model, session));
  assert_ok(ac_session_run(session, SAMPLES, &feed, 1));
  assert_ok(ac_session_output(session, "logits", 0, LOGITS, logits));
  for (int i = 0; i < LOGITS; i++)
    if (!(fabs((double)logits[i] - (double)e->logits[i]) <= logits_within))
      fail_msg("%s: logit %d is %g, not %g", path, i, (double)logits[i], (double)e->logits[i]);
  ac_session_free(session);
  ac_plan_free(plan);
  ac_model_free(model);
}

static void logits_are_those_of_transformers(const char *name) {
  ac_device *device = open_device(name);
  for (int i = 0; i < CASES; i++) {
    if (!runs(i, name)) continue;
    const expected *e = expected_of(cases[i].name);
    check_logits(path_of(cases[i].name, "").text, e, device);
    if (cases[i].gguf && !strcmp(name, "cpu"))
      check_logits(path_of(cases[i].name, ".gguf").text, e, device);
  }
  ac_device_close(device);
}
ON_EVERY_DEVICE(logits_are_those_of_transformers)

/* ---- updates --------------------------------------------------------------------------------- */

static void set_adapters(ac_trainer *trainer) {
  float *values = NULL;
  ac_tensor_info info;
  for (int p = 0; p < ac_trainer_parameter_count(trainer); p++) {
    assert_ok(ac_trainer_parameter_info(trainer, p, &info));
    if (!strstr(info.name, ".lora_A.")) continue;
    values = realloc(values, (size_t)(info.shape[0] * info.shape[1]) * sizeof *values);
    for (int64_t i = 0; i < info.shape[0]; i++)
      for (int64_t j = 0; j < info.shape[1]; j++)
        values[i * info.shape[1] + j] = (float)((7 * i + 13 * j) % 11 - 5) / 32;
    assert_ok(ac_trainer_set_parameter(trainer, p, 0, info.shape[0] * info.shape[1], values));
  }
  free(values);
}

static void check_updates(const char *name, const expected *e, ac_device *device, bool lora) {
  static const ac_lora_desc adapters = {.rank = 2, .alpha = 4};
  const ac_optimizer_desc adamw = {.weight_decay = 0.1};
  const float *losses = lora ? e->lora : e->full;
  ac_model *model = open_model(path_of(name, "").text);
  ac_plan *plan = plan_of(
      model, device,
      &(ac_model_graph_desc){.context = CONTEXT, .frozen = lora, .lora = lora ? &adapters : NULL},
      (ac_plan_desc){.batch = SAMPLES, .micro_batch = 2, .optimizer = adamw});
  ac_trainer *trainer;
  ac_update update;
  const ac_feed feeds[] = {{"tokens", e->tokens}, {"targets", e->targets}};
  assert_ok(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.schedule = {.lr = 0.01}}));
  assert_ok(ac_model_load(model, trainer));
  if (lora) set_adapters(trainer);
  for (int i = 0; i < UPDATES; i++) {
    assert_ok(ac_trainer_accumulate(trainer, SAMPLES, feeds, 2));
    assert_ok(ac_trainer_update(trainer, &update));
    if (!(fabs(update.loss - (double)losses[i]) <= 1e-5 * (double)losses[i]))
      fail_msg("%s, lora %d: loss %d is %.8g, not %.8g", name, lora, i, update.loss,
               (double)losses[i]);
  }
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  ac_model_free(model);
}

static void ten_updates_are_those_of_transformers(const char *name) {
  ac_device *device = open_device(name);
  for (int i = 0; i < CASES; i++) {
    if (!runs(i, name)) continue;
    const expected *e = expected_of(cases[i].name);
    check_updates(cases[i].name, e, device, false);
    check_updates(cases[i].name, e, device, true);
  }
  ac_device_close(device);
}
ON_EVERY_DEVICE(ten_updates_are_those_of_transformers)

/* ---- packs ----------------------------------------------------------------------------------- */

/* Documents of 5, 1 and 4 positions, and 2 of padding. */
static const int32_t segments[CONTEXT] = {0, 0, 0, 0, 0, 1, 2, 2, 2, 2, -1, -1};
static const int32_t positions[CONTEXT] = {0, 1, 2, 3, 4, 0, 0, 1, 2, 3, 0, 0};
static const float weights[CONTEXT] = {1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 0, 0};

/* The sum of the losses of one sample: the mean times its weight. */
static double loss_of(const ac_model *model, ac_device *device, ac_precision precision,
                      const expected *e, int first, int count) {
  const bool whole = count == CONTEXT;
  ac_plan *plan = plan_of(
      model, device, &(ac_model_graph_desc){.context = count, .packed = whole, .weighted = true},
      (ac_plan_desc){.batch = 1, .precision = precision});
  ac_trainer *trainer;
  ac_update update;
  const ac_feed feeds[] = {{"tokens", e->tokens + first},
                           {"targets", e->targets + first},
                           {"weights", weights + first},
                           {"segments", segments + first},
                           {"positions", positions + first}};
  assert_ok(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.schedule = {.lr = -1}}));
  assert_ok(ac_model_load((ac_model *)model, trainer));
  assert_ok(ac_trainer_accumulate(trainer, 1, feeds, whole ? 5 : 3));
  assert_ok(ac_trainer_update(trainer, &update));
  ac_trainer_free(trainer);
  ac_plan_free(plan);
  return update.loss * update.weight;
}

/* What is rounded in 16 bits may be rounded another way where a sum has another order. */
static void check_pack(const char *name, ac_device *device, ac_precision precision) {
  static const double within[] = {
      [AC_PRECISION_F32] = 2e-6, [AC_PRECISION_F16] = 1e-3, [AC_PRECISION_BF16] = 8e-3};
  const expected *e = expected_of(name);
  ac_model *model = open_model(path_of(name, "").text);
  const double pack = loss_of(model, device, precision, e, 0, CONTEXT);
  const double sum = loss_of(model, device, precision, e, 0, 5) +
                     loss_of(model, device, precision, e, 5, 1) +
                     loss_of(model, device, precision, e, 6, 4);
  if (!(fabs(pack - sum) <= within[precision] * sum))
    fail_msg("%s in %s: a pack's loss is %.9g, its documents' %.9g", name,
             ac_precision_name(precision), pack, sum);
  ac_model_free(model);
}

static void a_pack_is_the_sum_of_its_documents(const char *name) {
  ac_device *device = open_device(name);
  for (int i = 0; i < CASES; i++)
    for (int precision = AC_PRECISION_F32; runs(i, name) && precision <= AC_PRECISION_BF16;
         precision++)
      check_pack(cases[i].name, device, (ac_precision)precision);
  ac_device_close(device);
}
ON_EVERY_DEVICE(a_pack_is_the_sum_of_its_documents)

/* ---- a real model ---------------------------------------------------------------------------- */

static const char *real_model, *real_results;

/* The mean loss of predicting each token but the first. */
static double loss_of_logits(const float *logits, const int32_t *tokens, int64_t length,
                             int64_t vocabulary) {
  double total = 0;
  for (int64_t t = 0; t + 1 < length; t++, logits += vocabulary) {
    double sum = 0;
    for (int64_t v = 0; v < vocabulary; v++) sum += exp((double)logits[v]);
    total += log(sum) - (double)logits[tokens[t + 1]];
  }
  return total / (double)(length - 1);
}

/* Logits are within 1e-4 of the largest one, and the loss within 1e-4: float sums over thousands of
 * products differ by as much. */
static void a_real_model_is_that_of_transformers(void **state) {
  (void)state;
  ac_model *model = open_model(real_model);
  ac_device *device = open_device("cpu");
  ac_model_file *file;
  assert_ok(ac_model_file_open(&file, real_results));
  const int tokens_at = ac_model_file_find(file, "tokens");
  const int64_t length = ac_model_file_tensor(file, tokens_at)->shape[1];
  const int64_t count =
      length * ac_model_file_tensor(file, ac_model_file_find(file, "logits"))->shape[2];
  int32_t *tokens = malloc((size_t)length * sizeof *tokens);
  float *expected = malloc((size_t)count * sizeof *expected);
  float *logits = malloc((size_t)count * sizeof *logits);
  assert_ok(ac_model_file_read_stored(file, tokens_at, 0, length, tokens));
  read_tensor(file, "logits", count, expected);
  ac_plan *plan = plan_of(model, device, &(ac_model_graph_desc){.context = length, .logits = true},
                          (ac_plan_desc){.purpose = AC_PREDICT, .batch = 1});
  ac_session *session;
  const ac_feed feed = {"tokens", tokens};
  assert_ok(ac_session_create(&session, plan, 0));
  assert_ok(ac_model_load_session(model, session));
  assert_ok(ac_session_run(session, 1, &feed, 1));
  assert_ok(ac_session_output(session, "logits", 0, count, logits));
  double worst = 0, largest = 0;
  for (int64_t i = 0; i < count; i++) {
    worst = fmax(worst, fabs((double)logits[i] - (double)expected[i]));
    largest = fmax(largest, fabs((double)expected[i]));
  }
  const double loss = loss_of_logits(logits, tokens, length, count / length),
               of_theirs = loss_of_logits(expected, tokens, length, count / length);
  print_message("logits differ by %g of %g; loss %.6f, transformers %.6f\n", worst, largest, loss,
                of_theirs);
  assert_true(worst <= 1e-4 * largest);
  assert_true(fabs(loss - of_theirs) <= 1e-4);
  ac_session_free(session);
  ac_plan_free(plan);
  ac_model_file_close(file);
  ac_device_close(device);
  ac_model_free(model);
  free(tokens);
  free(expected);
  free(logits);
}

/* With a model and results of it as arguments (tests/real_model.py): that model alone. */
int main(int argc, char **argv) {
  const struct CMUnitTest real[] = {cmocka_unit_test(a_real_model_is_that_of_transformers)};
  if (argc == 3) {
    real_model = argv[1];
    real_results = argv[2];
    return cmocka_run_group_tests(real, NULL, NULL);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(logits_are_those_of_transformers_everywhere),
      cmocka_unit_test(ten_updates_are_those_of_transformers_everywhere),
      cmocka_unit_test(a_pack_is_the_sum_of_its_documents_everywhere),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
