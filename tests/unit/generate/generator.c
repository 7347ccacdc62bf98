/* Generators: a text that is fed in any parts, rewound and continued has the logits of one forward
 * pass over all of it, for a model of each family; the same seed draws the same text; the choice of
 * a token follows its settings; bytes are as planned. */
#include "support/files.h"

#include "generate/sampling.h"

#include <math.h>

static uint64_t state;

static int below(int n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int)((state >> 33) % (uint64_t)n);
}

static ac_device *open_cpu(void) {
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = "cpu", .threads = 2}));
  return device;
}

static ac_model *open_vector(const char *name) {
  char path[512];
  ac_model *model;
  snprintf(path, sizeof path, "%s/models/%s", ACCRUE_TEST_VECTORS, name);
  assert_ok(ac_model_open(&model, path));
  return model;
}

/* ---- the same as a whole pass ---------------------------------------------------------------- */

enum { LENGTH = 40 };

/* Logits of every position, [LENGTH, V]. */
static float *read_whole(ac_model *model, ac_device *device, ac_precision precision,
                         const uint32_t *text, int64_t vocabulary) {
  ac_graph *graph;
  ac_plan *plan;
  ac_session *session;
  float *logits = malloc((size_t)(LENGTH * vocabulary) * sizeof *logits);
  const ac_plan_desc desc = {.purpose = AC_PREDICT, .batch = 1, .precision = precision};
  const ac_feed feed = {"tokens", text};
  assert_non_null(logits);
  assert_ok(ac_graph_create(&graph));
  ac_model_build(model, graph, &(ac_model_graph_desc){.context = LENGTH, .logits = true});
  assert_ok(ac_plan_create(&plan, graph, device, &desc));
  ac_graph_free(graph);
  assert_ok(ac_session_create(&session, plan, 0));
  assert_ok(ac_model_load_session(model, session));
  assert_ok(ac_session_run(session, 1, &feed, 1));
  assert_ok(ac_session_output(session, "logits", 0, LENGTH * vocabulary, logits));
  ac_session_free(session);
  ac_plan_free(plan);
  return logits;
}

/* How far the logits may be off, as a part of their length. */
static double allowed(ac_precision precision) {
  return precision == AC_PRECISION_F32 ? 1e-5 : precision == AC_PRECISION_F16 ? 0.01 : 0.08;
}

static void compare(const char *name, ac_precision precision, const float *ours,
                    const float *theirs, int64_t vocabulary, int64_t length) {
  double off = 0, size = 0;
  for (int64_t i = 0; i < vocabulary; i++) {
    off += pow((double)ours[i] - (double)theirs[i], 2);
    size += pow((double)theirs[i], 2);
  }
  if (!(sqrt(off) <= allowed(precision) * sqrt(size)))
    fail_msg("%s, precision %d, %d tokens: off by %g", name, (int)precision, (int)length,
             sqrt(off / size));
}

/* Changes the text at random: feeds more of it, goes back, or sets another beginning. */
static int64_t change(ac_generator *generator, const uint32_t *text, int64_t length) {
  const int what = length ? below(3) : 0;
  if (what == 0 && length < LENGTH) {
    const int64_t more = 1 + below((int)(LENGTH - length));
    assert_ok(ac_generator_feed(generator, text + length, more));
    return length + more;
  }
  const int64_t to = 1 + below(what == 1 ? (int)length : LENGTH);
  if (what == 1) assert_ok(ac_generator_rewind(generator, to));
  else assert_ok(ac_generator_set_text(generator, text, to));
  return to;
}

static void agrees(const char *name, ac_device *device, ac_precision precision, int64_t chunk) {
  ac_model *model = open_vector(name);
  ac_model_info info;
  uint32_t text[LENGTH];
  ac_model_get_info(model, &info);
  for (int i = 0; i < LENGTH; i++) text[i] = (uint32_t)below((int)info.vocabulary);
  float *whole = read_whole(model, device, precision, text, info.vocabulary);
  float *logits = malloc((size_t)info.vocabulary * sizeof *logits);
  ac_generator *generator;
  const ac_generator_desc desc = {.context = LENGTH, .precision = precision, .chunk = chunk};
  assert_ok(ac_generator_create_model(&generator, model, device, &desc, NULL));
  int64_t length = 0, count;
  for (int round = 0; round < 10; round++) {
    length = change(generator, text, length);
    assert_ok(ac_generator_logits(generator, logits, info.vocabulary));
    const uint32_t *own = ac_generator_text(generator, &count);
    assert_int_equal(count, length);
    assert_memory_equal(own, text, (size_t)length * sizeof *own);
    compare(name, precision, logits, whole + (length - 1) * info.vocabulary, info.vocabulary,
            length);
  }
  ac_generator_free(generator);
  free(logits);
  free(whole);
  ac_model_free(model);
}

static void every_family_agrees(void **unused) {
  static const char *const names[] = {"llama", "llama3",       "mistral",      "qwen2",  "qwen3",
                                      "gemma", "gemma2",       "gemma3",       "phi3",   "olmo2",
                                      "gpt2",  "qwen2_window", "phi3_partial", "smollm3"};
  (void)unused;
  ac_device *device = open_cpu();
  state = 5;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    for (int p = 0; p < 3; p++) agrees(names[i], device, (ac_precision)p, 1 + below(LENGTH + 9));
  ac_device_close(device);
}

/* ---- a graph of the caller's own ------------------------------------------------------------- */

enum { VOCABULARY = 50, WIDTH = 16 };

static void build_own(void *user, ac_graph *g, int64_t tokens, int64_t context) {
  ac_tensor *ids = ac_input(g, "tokens", AC_I32, SHAPE(AC_BATCH, tokens)),
            *ends = ac_input(g, "ends", AC_I32, SHAPE(AC_BATCH)),
            *table = ac_parameter(g, "table", SHAPE(VOCABULARY, WIDTH), NULL),
            *x = ac_reshape(ac_embedding(table, ids), SHAPE(AC_BATCH, tokens, 2, WIDTH / 2));
  ++*(int *)user;
  x = ac_reshape(ac_cached_attention(x, x, x, "a", ends, context, NULL),
                 SHAPE(AC_BATCH, tokens, WIDTH));
  ac_graph_set_output(g, "logits",
                      ac_linear(ac_slice(x, 1, tokens - 1, 1), table, NULL, AC_OUT_IN));
}

static void build_without_logits(void *user, ac_graph *g, int64_t tokens, int64_t context) {
  (void)user, (void)context;
  ac_tensor *ids = ac_input(g, "tokens", AC_I32, SHAPE(AC_BATCH, tokens));
  ac_graph_set_output(g, "others", ac_one_hot(ids, 5));
}

static ac_generator *make_own(ac_device *device, ac_generator_desc desc) {
  int built = 0;
  ac_generator *generator;
  desc.context = desc.context ? desc.context : 100;
  assert_ok(ac_generator_create(&generator, device, &desc, build_own, &built));
  assert_true(built >= 2);
  return generator;
}

static const uint32_t prompt[] = {3, 14, 15, 9, 26, 5};
enum { PROMPT = sizeof prompt / sizeof *prompt, WRITTEN = 60 };

static void write_text(ac_generator *generator, uint32_t *text) {
  assert_ok(ac_generator_set_text(generator, prompt, PROMPT));
  for (int i = 0; i < WRITTEN; i++) assert_ok(ac_generator_next(generator, &text[i]));
}

static void seeds_repeat(void **unused) {
  (void)unused;
  ac_device *device = open_cpu();
  const ac_sampling sampling = {.temperature = 2, .seed = 7};
  ac_generator *g = make_own(device, (ac_generator_desc){.sampling = sampling});
  uint32_t first[WRITTEN], again[WRITTEN], other[WRITTEN];
  write_text(g, first);
  write_text(g, other); /* the draws go on */
  assert_memory_not_equal(first, other, sizeof first);
  assert_ok(ac_generator_set_sampling(g, &sampling));
  write_text(g, again);
  assert_memory_equal(first, again, sizeof first);
  assert_ok(ac_generator_set_sampling(g, &(ac_sampling){.temperature = 2, .seed = 8}));
  write_text(g, other);
  assert_memory_not_equal(first, other, sizeof first);
  /* Without a temperature nothing is drawn; with a top_k of 1 there is one to draw. */
  assert_ok(ac_generator_set_sampling(g, &(ac_sampling){.seed = 9}));
  write_text(g, first);
  assert_ok(ac_generator_set_sampling(g, &(ac_sampling){.temperature = 5, .top_k = 1}));
  write_text(g, again);
  assert_memory_equal(first, again, sizeof first);
  ac_generator_free(g);
  ac_device_close(device);
}

static void budgets_hold(void **unused) {
  (void)unused;
  ac_device *device = open_cpu();
  ac_generator *g = make_own(device, (ac_generator_desc){0});
  ac_generator_info info, small;
  ac_generator_get_info(g, &info);
  assert_int_equal(info.chunk, 64);
  assert_int_equal(info.vocabulary, VOCABULARY);
  assert_int_equal(info.context, 100);
  assert_int_equal(info.caches, 2 * 100 * WIDTH * 4);
  assert_int_equal(ac_device_allocated_bytes(device), info.total);
  ac_generator_free(g);
  uint64_t total = info.total;
  int64_t chunk = 64;
  for (; chunk > 1; chunk = small.chunk, total = small.total) {
    g = make_own(device, (ac_generator_desc){.memory = total - 1});
    ac_generator_get_info(g, &small);
    assert_true(small.chunk < chunk && small.total < total);
    assert_int_equal(ac_device_allocated_bytes(device), small.total);
    ac_generator_free(g);
  }
  ac_generator_desc desc = {.context = 100, .memory = total - 1};
  int built = 0;
  assert_refused(ac_generator_create(&g, device, &desc, build_own, &built), AC_ERROR_BUDGET,
                 "needs at least");
  desc = (ac_generator_desc){.context = 100, .memory = info.total - 1, .chunk = 64};
  assert_refused(ac_generator_create(&g, device, &desc, build_own, &built), AC_ERROR_BUDGET,
                 "needs at least");
  assert_int_equal(ac_device_allocated_bytes(device), 0);
  ac_device_close(device);
}

static void mistakes_are_refused(void **unused) {
  (void)unused;
  ac_device *device = open_cpu();
  ac_generator *g = make_own(device, (ac_generator_desc){.context = 8, .chunk = 4}), *none;
  const uint32_t many[9] = {0}, far[] = {1, VOCABULARY};
  uint32_t token;
  float logits[VOCABULARY];
  int built = 0;
  assert_refused(ac_generator_next(g, &token), AC_ERROR_STATE, "the text is empty");
  assert_refused(ac_generator_logits(g, logits, VOCABULARY), AC_ERROR_STATE, "the text is empty");
  assert_refused(ac_generator_feed(g, many, 9), AC_ERROR_ARGUMENT,
                 "9 tokens after 0 are more than the context of 8");
  assert_refused(ac_generator_feed(g, far, 2), AC_ERROR_ARGUMENT, "token 1 is 50, outside [0, 50)");
  assert_refused(ac_generator_set_text(g, many, -1), AC_ERROR_ARGUMENT, "-1 tokens");
  assert_refused(ac_generator_rewind(g, 1), AC_ERROR_ARGUMENT, "so not the first 1");
  assert_ok(ac_generator_feed(g, many, 8));
  assert_refused(ac_generator_logits(g, logits, 3), AC_ERROR_ARGUMENT,
                 "there are 50 logits, not 3");
  assert_refused(ac_generator_next(g, &token), AC_ERROR_STATE, "fills the context of 8 tokens");
  static const ac_sampling wrong[] = {{.temperature = -1},     {.temperature = NAN},
                                      {.top_k = -1},           {.top_p = 1.5},
                                      {.min_p = -0.1},         {.repetition_penalty = -2},
                                      {.repetition_span = -1}, {.temperature = INFINITY}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
    assert_refused(ac_generator_set_sampling(g, &wrong[i]), AC_ERROR_ARGUMENT, "generator: ");
  static const ac_generator_desc descs[] = {
      {.context = 0}, {.context = -1}, {.context = 5, .chunk = -1}};
  for (size_t i = 0; i < sizeof descs / sizeof *descs; i++)
    assert_refused(ac_generator_create(&none, device, &descs[i], build_own, &built),
                   AC_ERROR_ARGUMENT, "generator: a c");
  assert_refused(ac_generator_create(&none, device, &(ac_generator_desc){.context = 4},
                                     build_without_logits, NULL),
                 AC_ERROR_ARGUMENT, "the graph has no output \"logits\" [B, 1, V]");
  /* A weight that is not a number makes all that is read so. */
  assert_ok(ac_session_set_parameter(ac_generator_session(g), "table", 0, 1, &(float){NAN}));
  assert_ok(ac_generator_rewind(g, 0));
  assert_ok(ac_generator_feed(g, many, 2));
  assert_refused(ac_generator_next(g, &token), AC_ERROR_NOT_FINITE, "the logit of token 0 is");
  ac_generator_free(g);
  ac_device_close(device);
}

/* ---- choosing -------------------------------------------------------------------------------- */

enum { TOKENS = 7, DRAWS = 70000 };

/* How often each token is drawn, of all. */
static void count_draws(const ac_sampling *sampling, const float *logits, double share[TOKENS]) {
  ac_candidate room[TOKENS];
  for (int i = 0; i < TOKENS; i++) share[i] = 0;
  for (int i = 0; i < DRAWS; i++)
    share[ac_sampling_choose(sampling, logits, TOKENS, (i + 0.5) / DRAWS, room)] += 1.0 / DRAWS;
}

static void expect(const ac_sampling *sampling, const float *logits, const double *weights) {
  double share[TOKENS], sum = 0;
  count_draws(sampling, logits, share);
  for (int i = 0; i < TOKENS; i++) sum += weights[i];
  for (int i = 0; i < TOKENS; i++)
    if (!(fabs(share[i] - weights[i] / sum) < 1e-4))
      fail_msg("token %d: %g, not %g", i, share[i], weights[i] / sum);
}

static void choices_follow_settings(void **unused) {
  (void)unused;
  /* Probabilities 1, 8, 2, 4, 4, 1, 0 in 20. */
  const float logits[TOKENS] = {0, logf(8), logf(2), logf(4), logf(4), 0, -1000};
  expect(&(ac_sampling){.temperature = 1}, logits, (double[]){1, 8, 2, 4, 4, 1, 0});
  expect(&(ac_sampling){.temperature = 0.5}, logits, (double[]){1, 64, 4, 16, 16, 1, 0});
  expect(&(ac_sampling){.temperature = 1, .top_k = 3}, logits, (double[]){0, 8, 0, 4, 4, 0, 0});
  expect(&(ac_sampling){.temperature = 1, .top_k = 2}, logits, (double[]){0, 8, 0, 4, 0, 0, 0});
  expect(&(ac_sampling){.temperature = 1, .top_k = 99}, logits, (double[]){1, 8, 2, 4, 4, 1, 0});
  expect(&(ac_sampling){.temperature = 1, .top_p = 0.39}, logits, (double[]){0, 8, 0, 0, 0, 0, 0});
  expect(&(ac_sampling){.temperature = 1, .top_p = 0.59}, logits, (double[]){0, 8, 0, 4, 0, 0, 0});
  expect(&(ac_sampling){.temperature = 1, .top_p = 0.85}, logits, (double[]){0, 8, 2, 4, 4, 0, 0});
  expect(&(ac_sampling){.temperature = 1, .top_p = 1}, logits, (double[]){1, 8, 2, 4, 4, 1, 0});
  expect(&(ac_sampling){.temperature = 1, .min_p = 0.2}, logits, (double[]){0, 8, 2, 4, 4, 0, 0});
  expect(&(ac_sampling){.temperature = 1, .top_k = 4, .top_p = 0.7}, logits,
         (double[]){0, 8, 0, 4, 4, 0, 0});
  expect(&(ac_sampling){.seed = 3}, logits, (double[]){0, 1, 0, 0, 0, 0, 0});
  const float equal[TOKENS] = {-1, 2, 2, 2, 0, 2, 2};
  expect(&(ac_sampling){.temperature = 0}, equal, (double[]){0, 1, 0, 0, 0, 0, 0});
}

static void repetition_costs(void **unused) {
  (void)unused;
  const uint32_t text[] = {2, 1, 1, 4};
  bool marks[TOKENS] = {false};
  float logits[TOKENS] = {1, 2, -3, 4, 0, 6, 7};
  ac_sampling_penalise(&(ac_sampling){.repetition_penalty = 2}, logits, text, 4, marks);
  assert_memory_equal(logits, ((float[]){1, 1, -6, 4, 0, 6, 7}), sizeof logits);
  ac_sampling_penalise(&(ac_sampling){.repetition_penalty = 2, .repetition_span = 2}, logits, text,
                       4, marks);
  assert_memory_equal(logits, ((float[]){1, 0.5f, -6, 4, 0, 6, 7}), sizeof logits);
  ac_sampling_penalise(&(ac_sampling){.repetition_penalty = 1}, logits, text, 4, marks);
  ac_sampling_penalise(&(ac_sampling){0}, logits, text, 4, marks);
  assert_memory_equal(logits, ((float[]){1, 0.5f, -6, 4, 0, 6, 7}), sizeof logits);
  for (int i = 0; i < TOKENS; i++) assert_false(marks[i]);
  /* However large a penalty is, a token can be drawn. */
  static const double extreme[] = {1e-37, 1e37};
  for (int k = 0; k < 2; k++) {
    const ac_sampling s = {
        .temperature = 1, .top_p = 0.5, .min_p = 0.1, .repetition_penalty = extreme[k]};
    const uint32_t all[TOKENS] = {0, 1, 2, 3, 4, 5, 6};
    ac_candidate room[TOKENS];
    for (int i = 0; i < TOKENS; i++) logits[i] = k ? -100 - (float)i : 100 + (float)i;
    ac_sampling_penalise(&s, logits, all, TOKENS, marks);
    assert_in_range(ac_sampling_choose(&s, logits, TOKENS, 0.5, room), 0, TOKENS - 1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(choices_follow_settings),
      cmocka_unit_test(repetition_costs),
      cmocka_unit_test(every_family_agrees),
      cmocka_unit_test(seeds_repeat),
      cmocka_unit_test(budgets_hold),
      cmocka_unit_test(mistakes_are_refused),
  };
  return cmocka_run_group_tests_name("generator", tests, NULL, NULL);
}
