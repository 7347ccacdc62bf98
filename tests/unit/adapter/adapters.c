/* Adapters of a small Llama, against PEFT (tests/vectors/adapters.py): losses of ten updates, what
 * they leave, and logits; folders that PEFT wrote and that PEFT reads; and several adapters of one
 * base. */
#include "support/devices.h"
#include "support/files.h"

#include "adapter/targets.h"
#include "graph/graph.h"

#include <math.h>

enum { VOCABULARY = 48, CONTEXT = 8, BATCH = 3, UPDATES = 10, LOGITS = CONTEXT * VOCABULARY };
#define VECTORS ACCRUE_TEST_VECTORS "/adapters.safetensors"
#define WRITTEN_BY_PEFT ACCRUE_TEST_VECTORS "/adapter_of_peft"

static const char configuration[] =
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 48, "
    "\"hidden_size\": 16, \"intermediate_size\": 24, \"num_hidden_layers\": 2, "
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"max_position_embeddings\": 32, "
    "\"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": true, \"attention_bias\": true}";

static ac_model *model;
static ac_model_file *vectors;

static int open_all(void **state) {
  if (make_test_folder(state)) return -1;
  test_path path = in_folder("config.json");
  write_file(path.text, configuration, strlen(configuration));
  assert_ok(ac_model_open(&model, path.text));
  assert_ok(ac_model_file_open(&vectors, VECTORS));
  return 0;
}

static int close_all(void **state) {
  ac_model_free(model);
  ac_model_file_close(vectors);
  return remove_test_folder(state);
}

/* ---- vectors --------------------------------------------------------------------------------- */

static int64_t find_values(const char *group, const char *name, int *index) {
  char key[512];
  snprintf(key, sizeof key, "%s/%s", group, name);
  *index = ac_model_file_find(vectors, key);
  if (*index < 0) return 0;
  const ac_model_tensor *tensor = ac_model_file_tensor(vectors, *index);
  int64_t count = 1;
  for (int d = 0; d < tensor->rank; d++) count *= tensor->shape[d];
  return count;
}

/* Free it. */
static float *values_of(const char *group, const char *name) {
  int index;
  const int64_t count = find_values(group, name, &index);
  float *values = malloc((size_t)(count + 1) * sizeof *values);
  if (index < 0) fail_msg("there is no %s/%s", group, name);
  assert_ok(ac_model_file_read(vectors, index, 0, count, values));
  return values;
}

static double largest_difference(const float *a, const float *b, int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < count; i++) most = fmax(most, fabs((double)a[i] - (double)b[i]));
  return most;
}

/* ---- trainers and sessions ------------------------------------------------------------------- */

static ac_graph *graph_of(const ac_lora_desc *lora, bool logits) {
  ac_graph *graph;
  assert_ok(ac_graph_create(&graph));
  ac_model_build(
      model, graph,
      &(ac_model_graph_desc){.context = CONTEXT, .frozen = true, .lora = lora, .logits = logits});
  if (ac_graph_status(graph) != AC_OK) fail_msg("%s", ac_graph_message(graph));
  return graph;
}

static void load_base(ac_trainer *trainer, ac_session *session) {
  for (int i = 0; i < ac_model_file_tensor_count(vectors); i++) {
    const ac_model_tensor *tensor = ac_model_file_tensor(vectors, i);
    if (strncmp(tensor->name, "base/", 5) != 0) continue;
    const char *name = tensor->name + 5;
    float *values = values_of("base", name);
    int index;
    const int64_t count = find_values("base", name, &index);
    if (trainer)
      assert_ok(ac_trainer_set_parameter(trainer, ac_trainer_find_parameter(trainer, name), 0,
                                         count, values));
    else assert_ok(ac_session_set_parameter(session, name, 0, count, values));
    free(values);
  }
}

typedef struct trained {
  ac_plan *plan;
  ac_trainer *trainer;
} trained;

static trained start(ac_device *device, const ac_lora_desc *lora, const ac_plan_desc *plan,
                     ac_trainer *share) {
  trained t;
  ac_graph *graph = graph_of(lora, false);
  ac_plan_desc desc = plan ? *plan : (ac_plan_desc)AC_DEFAULTS;
  desc.batch = BATCH;
  assert_ok(ac_plan_create(&t.plan, graph, device, &desc));
  ac_graph_free(graph);
  const ac_trainer_desc rates = {
      .seed = 1, .schedule = {.lr = 1e-2}, .share = share, .average_decay = desc.average ? 0.5 : 0};
  assert_ok(ac_trainer_create(&t.trainer, t.plan, &rates));
  if (!share) load_base(t.trainer, NULL);
  return t;
}

static void end(trained *t) {
  ac_trainer_free(t->trainer);
  ac_plan_free(t->plan);
}

typedef struct predictor {
  ac_plan *plan;
  ac_session *session;
} predictor;

static predictor predict_with(ac_device *device, const ac_lora_desc *lora) {
  predictor p;
  ac_graph *graph = graph_of(lora, true);
  const ac_plan_desc desc = {.purpose = AC_PREDICT, .micro_batch = BATCH};
  assert_ok(ac_plan_create(&p.plan, graph, device, &desc));
  ac_graph_free(graph);
  assert_ok(ac_session_create(&p.session, p.plan, 0));
  load_base(NULL, p.session);
  return p;
}

static void end_predictor(predictor *p) {
  ac_session_free(p->session);
  ac_plan_free(p->plan);
}

/* `stride` numbers a row: the first CONTEXT are tokens. */
static void tokens_of(const float *rows, int stride, int32_t tokens[BATCH * CONTEXT]) {
  for (int b = 0; b < BATCH; b++)
    for (int t = 0; t < CONTEXT; t++) tokens[b * CONTEXT + t] = (int32_t)rows[b * stride + t];
}

static void logits_of(ac_session *session, const float *rows, int stride, float *logits) {
  int32_t tokens[BATCH * CONTEXT];
  tokens_of(rows, stride, tokens);
  const ac_feed feeds[] = {{"tokens", tokens}};
  assert_ok(ac_session_predict(session, "logits", BATCH, feeds, 1, BATCH * LOGITS, logits));
}

static void assert_logits(ac_session *session, const char *group, int stride) {
  float got[BATCH * LOGITS], *rows = values_of(group, "tokens"), *want = values_of(group, "logits");
  logits_of(session, rows, stride, got);
  const double difference = largest_difference(got, want, BATCH * LOGITS);
  if (difference > 1e-4) fail_msg("logits of %s differ by %g", group, difference);
  free(rows);
  free(want);
}

/* ---- against PEFT ---------------------------------------------------------------------------- */

/* Sets the parameters of the adapter to those of the vectors, of magnitudes the changes, which are
 * zero: or compares them. */
static void set_adapter(ac_trainer *trainer, const char *group) {
  for (int i = 0; i < ac_trainer_parameter_count(trainer); i++) {
    ac_tensor_info info;
    int index;
    assert_ok(ac_trainer_parameter_info(trainer, i, &info));
    const int64_t count = find_values(group, info.name, &index);
    if (index < 0) continue;
    float *values = values_of(group, info.name);
    assert_ok(ac_trainer_set_parameter(trainer, i, 0, count, values));
    free(values);
  }
}

static double train_window(ac_trainer *trainer, const float *rows, int update) {
  int32_t tokens[BATCH * CONTEXT], targets[BATCH * CONTEXT];
  const float *window = rows + update * BATCH * (CONTEXT + 1);
  tokens_of(window, CONTEXT + 1, tokens);
  tokens_of(window + 1, CONTEXT + 1, targets);
  const ac_feed feeds[] = {{"tokens", tokens}, {"targets", targets}};
  ac_update result;
  assert_ok(ac_trainer_accumulate(trainer, BATCH, feeds, 2));
  assert_ok(ac_trainer_update(trainer, &result));
  return result.loss;
}

/* The trained adapter in its file, which has magnitudes as PEFT has them. */
static void assert_file(const char *folder, const char *group) {
  ac_model_file *file;
  char path[600], name[256];
  int compared = 0;
  snprintf(path, sizeof path, "%s/adapter_model.safetensors", folder);
  assert_ok(ac_model_file_open(&file, path));
  for (int i = 0; i < ac_model_file_tensor_count(file); i++) {
    const char *full = ac_model_file_tensor(file, i)->name;
    int index;
    assert_int_equal(strncmp(full, "base_model.model.", 17), 0);
    snprintf(name, sizeof name, "after.%s", full + 17);
    const int64_t count = find_values(group, name, &index);
    float *want = values_of(group, name), *got = malloc((size_t)count * sizeof *got);
    assert_ok(ac_model_file_read(file, i, 0, count, got));
    const double difference = largest_difference(got, want, count);
    /* AdamW divides by the size of the gradient: where that is near its rounding, updates of 1e-2
     * differ by much of it. */
    if (difference > 2e-4) fail_msg("%s differs by %g", name, difference);
    compared++;
    free(got);
    free(want);
  }
  assert_int_equal(compared, strcmp(group, "dora") ? 12 : 18);
  ac_model_file_close(file);
}

static void train_as_peft(const char *name, const char *group, const ac_lora_desc *lora) {
  ac_device *device = open_device(name);
  trained t = start(device, lora, NULL, NULL);
  set_adapter(t.trainer, group);
  float *rows = values_of(group, "tokens"), *want = values_of(group, "loss");
  for (int update = 0; update < UPDATES; update++) {
    const double loss = train_window(t.trainer, rows, update);
    if (fabs(loss - (double)want[update]) > 1e-5 * (double)want[update])
      fail_msg("%s: the loss of update %d is %.7f, not %.7f", group, update, loss,
               (double)want[update]);
  }
  assert_ok(ac_adapter_save(t.trainer, test_folder, lora, "the base"));
  assert_file(test_folder, group);
  ac_adapter *adapter;
  assert_ok(ac_adapter_open(&adapter, test_folder));
  assert_string_equal(ac_adapter_base(adapter), "the base");
  predictor p = predict_with(device, ac_adapter_desc(adapter));
  assert_ok(ac_adapter_load_session(adapter, p.session));
  assert_logits(p.session, group, CONTEXT + 1);
  end_predictor(&p);
  ac_adapter_close(adapter);
  free(rows);
  free(want);
  end(&t);
  ac_device_close(device);
}

static const char targets[] = "q_proj,v_proj,*.down_proj";

static void updates_are_pefts(const char *device) {
  train_as_peft(device, "lora", &(ac_lora_desc){.rank = 4, .alpha = 6, .targets = targets});
  train_as_peft(
      device, "rslora",
      &(ac_lora_desc){.rank = 4, .alpha = 6, .targets = targets, .rank_stabilised = true});
  train_as_peft(device, "dora",
                &(ac_lora_desc){.rank = 4, .alpha = 6, .targets = targets, .dora = true});
}
ON_EVERY_DEVICE(updates_are_pefts)

static void a_folder_of_peft_is_read(const char *name) {
  ac_device *device = open_device(name);
  ac_adapter *adapter;
  assert_ok(ac_adapter_open(&adapter, WRITTEN_BY_PEFT));
  const ac_lora_desc *lora = ac_adapter_desc(adapter);
  assert_true(lora->dora && lora->rank_stabilised);
  assert_float_equal(lora->dropout, 0.1, 1e-9);
  assert_int_equal(lora->module_count, 4);
  predictor p = predict_with(device, lora);
  assert_ok(ac_adapter_load_session(adapter, p.session));
  assert_logits(p.session, "peft", CONTEXT);
  end_predictor(&p);
  /* Merged into the base, it gives the same. */
  p = predict_with(device, NULL);
  int merged = 0;
  for (int i = 0; i < ac_model_file_tensor_count(vectors); i++) {
    const ac_model_tensor *tensor = ac_model_file_tensor(vectors, i);
    if (strncmp(tensor->name, "base/", 5) != 0 || tensor->rank != 2) continue;
    const int64_t rows = tensor->shape[0], columns = tensor->shape[1], half = rows / 2;
    float *values = values_of("base", tensor->name + 5),
          *before = values_of("base", tensor->name + 5);
    assert_ok(ac_adapter_merge(adapter, tensor->name + 5, AC_OUT_IN, 0, half, columns, values));
    assert_ok(ac_adapter_merge(adapter, tensor->name + 5, AC_OUT_IN, half, rows - half, columns,
                               values + half * columns));
    merged += memcmp(values, before, (size_t)(rows * columns) * sizeof *values) != 0;
    assert_ok(ac_session_set_parameter(p.session, tensor->name + 5, 0, rows * columns, values));
    free(values);
    free(before);
  }
  assert_int_equal(merged, 4);
  assert_logits(p.session, "peft", CONTEXT);
  end_predictor(&p);
  ac_adapter_close(adapter);
  ac_device_close(device);
}
ON_EVERY_DEVICE(a_folder_of_peft_is_read)

/* The first values of a parameter, and of its tensor in the adapter's file in the test folder. */
static void values_saved(ac_trainer *trainer, const char *name, float now[8], float saved[8]) {
  ac_model_file *file;
  char full[256];
  snprintf(full, sizeof full, "base_model.model.%s", name);
  test_path path = in_folder("adapter_model.safetensors");
  assert_ok(ac_model_file_open(&file, path.text));
  assert_ok(ac_model_file_read(file, ac_model_file_find(file, full), 0, 8, saved));
  ac_model_file_close(file);
  assert_ok(ac_trainer_get_parameter(trainer, ac_trainer_find_parameter(trainer, name), 0, 8, now));
}

static void averages_are_saved_in_their_place(void **state) {
  (void)state;
  static const char name[] = "model.layers.0.self_attn.q_proj.lora_B.weight";
  const ac_lora_desc lora = {.rank = 4, .targets = targets};
  ac_device *device = open_device("cpu");
  trained t = start(device, &lora, &(ac_plan_desc){.average = true}, NULL);
  float *rows = values_of("lora", "tokens"), now[8], saved[8], trained_values[8];
  for (int update = 0; update < 3; update++) train_window(t.trainer, rows, update);
  assert_ok(ac_adapter_save(t.trainer, test_folder, &lora, NULL));
  values_saved(t.trainer, name, trained_values, saved);
  assert_memory_equal(trained_values, saved, sizeof saved);
  assert_ok(ac_trainer_use_average(t.trainer, true));
  assert_ok(ac_adapter_save(t.trainer, test_folder, &lora, NULL));
  values_saved(t.trainer, name, now, saved);
  assert_memory_equal(now, saved, sizeof saved);
  assert_memory_not_equal(saved, trained_values, sizeof saved);
  free(rows);
  end(&t);
  ac_device_close(device);
}

/* ---- several adapters of one base ------------------------------------------------------------ */

static const char own[] = "*norm.weight,*proj.weight,*proj.bias,*embed_tokens.weight";

/* Two trainers and a session with one copy of the base: each has its own adapter alone, and what it
 * computes is what it would compute by itself. */
static void one_base_serves_all(const char *name) {
  const ac_lora_desc first = {.rank = 4, .alpha = 6, .targets = targets},
                     second = {.rank = 2, .targets = "o_proj", .dora = true};
  float *rows = values_of("lora", "tokens");
  for (int p = 0; p < 3; p++) {
    ac_device *device = open_device(name);
    const ac_plan_desc alone = {.precision = (ac_precision)p},
                       shared = {.precision = (ac_precision)p, .shared = own};
    trained a = start(device, &first, &alone, NULL), c = start(device, &second, &alone, NULL),
            b = start(device, &second, &shared, a.trainer);
    assert_true(ac_plan_get_info(b.plan)->bytes.parameters * 4 <
                ac_plan_get_info(c.plan)->bytes.parameters);
    for (int update = 0; update < 3; update++) {
      train_window(a.trainer, rows, update);
      const double together = train_window(b.trainer, rows, update),
                   by_itself = train_window(c.trainer, rows, update);
      assert_float_equal(together, by_itself, 1e-6);
    }
    assert_ok(ac_adapter_save(b.trainer, test_folder, &second, NULL));
    ac_adapter *adapter;
    assert_ok(ac_adapter_open(&adapter, test_folder));
    ac_graph *graph = graph_of(ac_adapter_desc(adapter), true);
    predictor s;
    const ac_plan_desc desc = {
        .purpose = AC_PREDICT, .micro_batch = BATCH, .precision = (ac_precision)p, .shared = own};
    assert_ok(ac_plan_create(&s.plan, graph, device, &desc));
    ac_graph_free(graph);
    assert_ok(ac_session_create_shared(&s.session, s.plan, 0, a.trainer));
    assert_ok(ac_adapter_load_session(adapter, s.session));
    float got[BATCH * LOGITS], want[BATCH * LOGITS];
    logits_of(s.session, rows, CONTEXT + 1, got);
    assert_ok(ac_adapter_load(adapter, c.trainer));
    /* The same adapter with a base of its own. */
    predictor own_base = predict_with(device, ac_adapter_desc(adapter));
    assert_ok(ac_adapter_load_session(adapter, own_base.session));
    logits_of(own_base.session, rows, CONTEXT + 1, want);
    const double allowed = p == AC_PRECISION_F32 ? 1e-5 : 0.15;
    if (largest_difference(got, want, BATCH * LOGITS) > allowed)
      fail_msg("precision %d: logits differ by %g", p,
               largest_difference(got, want, BATCH * LOGITS));
    end_predictor(&own_base);
    end_predictor(&s);
    ac_adapter_close(adapter);
    end(&b);
    end(&c);
    end(&a);
    ac_device_close(device);
  }
  free(rows);
}
ON_EVERY_DEVICE(one_base_serves_all)

/* ---- a base in blocks ------------------------------------------------------------------------ */

/* A layer with an adapter and a weight in blocks computes what it would with the decoded weight,
 * and its file has the magnitudes of that. */
static void a_base_in_blocks_is_read_as_it_is(const char *name) {
  enum { IN = 64, OUT = 6, ROWS = 5 };
  ac_device *device = open_device(name);
  for (int dora = 0; dora < 2; dora++) {
    const ac_lora_desc lora = {.rank = 3, .dora = dora};
    float y[2][ROWS * OUT], weights[IN * OUT], x[ROWS * IN], magnitudes[2][OUT];
    for (int i = 0; i < IN * OUT; i++) weights[i] = (float)((i * 37) % 23 - 11) / 40;
    for (int i = 0; i < ROWS * IN; i++) x[i] = (float)((i * 29) % 17 - 8) / 8;
    for (int plain = 0; plain < 2; plain++) { /* first in blocks, then with what these say */
      ac_graph *graph;
      ac_plan *plan;
      ac_trainer *trainer;
      assert_ok(ac_graph_create(&graph));
      const ac_parameter_desc desc = {.frozen = true,
                                      .blocks = plain ? AC_BLOCKS_NONE : AC_BLOCKS_Q8_0};
      ac_tensor *in = ac_input(graph, "x", AC_F32, SHAPE(AC_BATCH, IN)),
                *w = ac_parameter(graph, "l.weight", SHAPE(OUT, IN), &desc);
      ac_tensor *out = ac_lora_linear(graph, "l", in, w, NULL, AC_OUT_IN, &lora);
      ac_graph_set_output(graph, "y", out);
      ac_graph_set_loss(graph, ac_loss(ac_square(out), NULL));
      assert_ok(ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = ROWS}));
      assert_ok(ac_trainer_create(&trainer, plan,
                                  &(ac_trainer_desc){.seed = 3, .schedule = {.lr = 0.1}}));
      const int index = ac_trainer_find_parameter(trainer, "l.weight");
      assert_ok(ac_trainer_set_parameter(trainer, index, 0, IN * OUT, weights));
      assert_ok(ac_trainer_get_parameter(trainer, index, 0, IN * OUT, weights));
      const ac_feed feed = {"x", x};
      for (int update = 0; update < 2; update++) {
        assert_ok(ac_trainer_accumulate(trainer, ROWS, &feed, 1));
        assert_ok(ac_trainer_update(trainer, NULL));
      }
      assert_ok(ac_trainer_predict(trainer, "y", ROWS, &feed, 1, ROWS * OUT, y[plain]));
      ac_model_file *file;
      test_path path = in_folder("adapter_model.safetensors");
      assert_ok(ac_adapter_save(trainer, test_folder, &lora, NULL));
      assert_ok(ac_model_file_open(&file, path.text));
      const int magnitude = ac_model_file_find(file, "base_model.model.l.lora_magnitude_vector");
      assert_int_equal(magnitude >= 0, dora);
      if (dora) assert_ok(ac_model_file_read(file, magnitude, 0, OUT, magnitudes[plain]));
      ac_model_file_close(file);
      ac_trainer_free(trainer);
      ac_plan_free(plan);
      ac_graph_free(graph);
    }
    assert_true(largest_difference(y[0], y[1], ROWS * OUT) < 1e-4);
    if (dora) assert_true(largest_difference(magnitudes[0], magnitudes[1], OUT) < 1e-5);
  }
  ac_device_close(device);
}
ON_EVERY_DEVICE(a_base_in_blocks_is_read_as_it_is)

/* ---- names of weights ------------------------------------------------------------------------ */

/* A layer with a weight of another name, next to a layer without an adapter. */
static void weights_may_have_any_name(void **state) {
  (void)state;
  enum { IN = 8, OUT = 4, ROWS = 3 };
  ac_device *device = open_device("cpu");
  for (int kind = 0; kind < 4; kind++) {
    const ac_layout layout = kind % 2 ? AC_IN_OUT : AC_OUT_IN;
    const ac_lora_desc lora = {.rank = 2, .alpha = 3, .targets = "up", .dora = kind / 2};
    const ac_parameter_desc frozen = {.frozen = true};
    float x[ROWS * IN], y[2][ROWS * OUT];
    for (int i = 0; i < ROWS * IN; i++) x[i] = sinf((float)i);
    for (int again = 0; again < 2; again++) {
      ac_graph *graph;
      ac_plan *plan;
      ac_trainer *trainer;
      assert_ok(ac_graph_create(&graph));
      ac_tensor *in = ac_input(graph, "x", AC_F32, SHAPE(AC_BATCH, IN)),
                *down = ac_parameter(graph, "a.down.weight", SHAPE(IN, IN), &frozen),
                *matrix = layout == AC_OUT_IN ? ac_parameter(graph, "w", SHAPE(OUT, IN), &frozen)
                                              : ac_parameter(graph, "w", SHAPE(IN, OUT), &frozen);
      ac_tensor *h = ac_lora_linear(graph, "a.down", in, down, NULL, AC_OUT_IN, &lora),
                *out = ac_lora_linear(graph, "a.up", h, matrix, NULL, layout, &lora);
      ac_graph_set_output(graph, "y", out);
      ac_graph_set_loss(graph, ac_loss(ac_square(out), NULL));
      assert_ok(ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = ROWS}));
      assert_int_equal(ac_plan_get_info(plan)->frozen_count, IN * IN + IN * OUT);
      assert_int_equal(ac_plan_get_info(plan)->parameter_count,
                       2 * (IN + OUT) + (lora.dora ? OUT : 0));
      assert_ok(ac_trainer_create(&trainer, plan,
                                  &(ac_trainer_desc){.seed = 3, .schedule = {.lr = 0.1}}));
      const ac_feed feed = {"x", x};
      for (int update = 0; update < 2 && !again; update++) {
        assert_ok(ac_trainer_accumulate(trainer, ROWS, &feed, 1));
        assert_ok(ac_trainer_update(trainer, NULL));
      }
      if (!again) assert_ok(ac_adapter_save(trainer, test_folder, &lora, NULL));
      ac_adapter *adapter;
      assert_ok(ac_adapter_open(&adapter, test_folder));
      assert_int_equal(ac_adapter_desc(adapter)->module_count, 1);
      assert_string_equal(ac_adapter_desc(adapter)->modules[0].name, "a.up");
      if (again) assert_ok(ac_adapter_load(adapter, trainer));
      ac_adapter_close(adapter);
      assert_ok(ac_trainer_predict(trainer, "y", ROWS, &feed, 1, ROWS * OUT, y[again]));
      ac_trainer_free(trainer);
      ac_plan_free(plan);
      ac_graph_free(graph);
    }
    assert_true(largest_difference(y[0], y[1], ROWS * OUT) < 1e-5);
  }
  ac_device_close(device);
}

/* ---- dropout --------------------------------------------------------------------------------- */

/* What the adapter adds while training, with A and B of ones: the mean over many rows is that
 * without dropout, and the variance p / (1 - p) of a sum of ones. In evaluation nothing is dropped.
 */
static void dropout_is_of_what_the_adapter_sees(void **state) {
  (void)state;
  enum { IN = 64, ROWS = 4000 };
  const double p = 0.25;
  ac_device *device = open_device("cpu");
  for (int dora = 0; dora < 2; dora++) {
    const ac_lora_desc lora = {.rank = 1, .alpha = 1, .dropout = p, .dora = dora};
    ac_graph *graph;
    ac_plan *plan;
    ac_trainer *trainer;
    assert_ok(ac_graph_create(&graph));
    ac_tensor *x = ac_input(graph, "x", AC_F32, SHAPE(AC_BATCH, IN)),
              *w =
                  ac_parameter(graph, "l.weight", SHAPE(1, IN),
                               &(ac_parameter_desc){
                                   .frozen = true, .init = {.kind = AC_INIT_CONSTANT, .value = 2}});
    ac_tensor *y = ac_lora_linear(graph, "l", x, w, NULL, AC_OUT_IN, &lora);
    ac_graph_set_output(graph, "y", y);
    ac_graph_set_loss(graph, ac_loss(ac_square(y), NULL));
    assert_ok(ac_plan_create(&plan, graph, device, &(ac_plan_desc){.batch = ROWS}));
    assert_ok(ac_trainer_create(&trainer, plan, &(ac_trainer_desc){.seed = 3}));
    static float ones[ROWS * IN], result[ROWS];
    for (int i = 0; i < ROWS * IN; i++) ones[i] = 1;
    for (int i = 0; i < ac_trainer_parameter_count(trainer); i++) {
      ac_tensor_info info;
      assert_ok(ac_trainer_parameter_info(trainer, i, &info));
      if (strstr(info.name, "lora_A")) assert_ok(ac_trainer_set_parameter(trainer, i, 0, IN, ones));
      if (strstr(info.name, "lora_B")) assert_ok(ac_trainer_set_parameter(trainer, i, 0, 1, ones));
    }
    ac_tensor_buffer buffer = {result, ROWS};
    const ac_feed feed = {"x", ones};
    assert_ok(ac_trainer_watch_tensor(trainer, "y", ac_keep_tensor, &buffer));
    assert_ok(ac_trainer_accumulate(trainer, ROWS, &feed, 1));
    ac_trainer_discard(trainer);
    double mean = 0, square = 0;
    for (int i = 0; i < ROWS; i++) mean += (double)result[i] / ROWS;
    for (int i = 0; i < ROWS; i++)
      square += ((double)result[i] - mean) * ((double)result[i] - mean) / ROWS;
    /* x W is 128 and never dropped; of DoRA, where the norm of W + B A, 3 * 8, is 1.5 times that of
     * W, what is dropped is 2/3 (2 + 1) - 2 = 0 of each element. */
    const double plain = dora ? 128 : 128 + IN, deviation = dora ? 0 : sqrt(IN * p / (1 - p));
    assert_float_equal(mean, plain, 5 * deviation / sqrt(ROWS) + 1e-3);
    assert_float_equal(sqrt(square), deviation, 0.05 * deviation + 1e-3);
    assert_ok(ac_trainer_watch_tensor(trainer, "y", NULL, NULL));
    assert_ok(ac_trainer_predict(trainer, "y", ROWS, &feed, 1, ROWS, result));
    for (int i = 0; i < ROWS; i++) assert_float_equal(result[i], plain, 1e-3);
    ac_trainer_free(trainer);
    ac_plan_free(plan);
    ac_graph_free(graph);
  }
  ac_device_close(device);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static ac_status zero_source(void *user, int index, int64_t first, int64_t count, void *data) {
  (void)index;
  memcpy(data, (const float *)user + first, (size_t)count * sizeof(float));
  return AC_OK;
}

static const char plain_config[] = "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 4, "
                                   "\"target_modules\": [\"l\"]%s}";

/* An adapter of the layer "a.l", [2, 3] and [4, 2], with this text added to its description. */
static void write_adapter(const char *more, const char *tensor, int64_t rank) {
  static const ac_metadata metadata = {"format", "pt"};
  char text[2048], path[600];
  const ac_model_tensor tensors[] = {{"base_model.model.a.l.lora_A.weight", AC_F32, 2, {rank, 3}},
                                     {tensor, AC_F32, 2, {4, 2}}};
  snprintf(text, sizeof text, plain_config, more);
  snprintf(path, sizeof path, "%s/adapter_config.json", test_folder);
  write_file(path, text, strlen(text));
  snprintf(path, sizeof path, "%s/adapter_model.safetensors", test_folder);
  struct {
    float values[16];
  } zeros = {{0}};
  assert_ok(ac_model_file_write(path, tensors, 2, &metadata, 1, zero_source, &zeros));
}

static void opens(const char *more) {
  ac_adapter *adapter;
  write_adapter(more, "base_model.model.a.l.lora_B.weight", 2);
  assert_ok(ac_adapter_open(&adapter, test_folder));
  ac_adapter_close(adapter);
}

static void refuses(ac_status status, const char *more, const char *why) {
  ac_adapter *adapter;
  write_adapter(more, "base_model.model.a.l.lora_B.weight", 2);
  assert_refused(ac_adapter_open(&adapter, test_folder), status, why);
  assert_null(adapter);
}

static void what_would_change_results_is_refused(void **state) {
  (void)state;
  opens("");
  opens(", \"modules_to_save\": [], \"corda_config\": null, \"init_lora_weights\": \"gaussian\"");
  opens(", \"rank_pattern\": {\"b.*\": 7}, \"alpha_pattern\": {\"l\": 3}, \"anything\": false");
  refuses(AC_ERROR_UNSUPPORTED, ", \"modules_to_save\": [\"lm_head\"]", "\"modules_to_save\"");
  refuses(AC_ERROR_UNSUPPORTED, ", \"lora_bias\": true", "\"lora_bias\" is \"true\"");
  refuses(AC_ERROR_UNSUPPORTED, ", \"bias\": \"all\"", "\"bias\" is \"all\"");
  refuses(AC_ERROR_UNSUPPORTED, ", \"init_lora_weights\": \"pissa\"", "\"pissa\"");
  refuses(AC_ERROR_UNSUPPORTED, ", \"layer_replication\": [[0, 2]]", "\"layer_replication\"");
  refuses(AC_ERROR_UNSUPPORTED, ", \"of_tomorrow\": 3", "\"of_tomorrow\" is \"3\"");
  refuses(AC_ERROR_FORMAT, ", \"rank_pattern\": {\"a.l\": 7}",
          "has rank 2, but its description says 7");
  refuses(AC_ERROR_FORMAT, ", \"alpha_pattern\": {\"(\": 7}", "cannot be used");
  refuses(AC_ERROR_FORMAT, ", \"alpha_pattern\": {\"l\": -1}", "has no positive number");
  refuses(AC_ERROR_FORMAT, ", \"lora_dropout\": 1", "not below 1");
  refuses(AC_ERROR_FORMAT, ", \"use_dora\": 1", "neither true nor false");
  refuses(AC_ERROR_FORMAT, ", \"use_dora\": true", "lacks its lora_magnitude_vector");
  refuses(AC_ERROR_FORMAT, ", \"r\": 2", "line");
}

static void tensors_must_fit(void **state) {
  (void)state;
  ac_adapter *adapter;
  write_adapter("", "base_model.model.a.l.lora_C.weight", 2);
  assert_refused(ac_adapter_open(&adapter, test_folder), AC_ERROR_UNSUPPORTED, "lora_C");
  write_adapter("", "base_model.model.a.k.lora_B.weight", 2);
  assert_refused(ac_adapter_open(&adapter, test_folder), AC_ERROR_FORMAT, "lacks its lora_B");
  write_adapter("", "base_model.model.a.l.lora_B.weight", 1);
  assert_refused(ac_adapter_open(&adapter, test_folder), AC_ERROR_FORMAT, "A is [1, 3]");
  assert_refused(ac_adapter_open(&adapter, "nowhere"), AC_ERROR_IO, "adapter_config.json");
  /* And the graph. */
  opens("");
  assert_ok(ac_adapter_open(&adapter, test_folder));
  ac_device *device = open_device("cpu");
  predictor p = predict_with(device, &(ac_lora_desc){.rank = 2});
  assert_refused(ac_adapter_load_session(adapter, p.session), AC_ERROR_FORMAT,
                 "layer \"a.l\" has no adapter");
  end_predictor(&p);
  ac_device_close(device);
  ac_adapter_close(adapter);
}

/* ---- which layers ---------------------------------------------------------------------------- */

static void targets_are_patterns_or_ends_of_names(void **state) {
  (void)state;
  const ac_lora_module own_rank = {"a.v_proj", 3, 5};
  const ac_lora_desc d = {
      .rank = 8, .alpha = 4, .targets = "q_proj,*.mlp.*", .modules = &own_rank, .module_count = 1};
  assert_int_equal(ac_lora_choose(&d, "model.layers.0.self_attn.q_proj").rank, 8);
  assert_int_equal(ac_lora_choose(&d, "q_proj").rank, 8);
  assert_int_equal(ac_lora_choose(&d, "model.layers.0.seq_proj").rank, 0);
  assert_int_equal(ac_lora_choose(&d, "model.layers.0.mlp.up_proj").rank, 8);
  assert_int_equal(ac_lora_choose(&d, "model.layers.0.mlp").rank, 0);
  const ac_lora_choice v = ac_lora_choose(&d, "a.v_proj");
  assert_int_equal(v.rank, 3);
  assert_float_equal(v.scale, 5.0 / 3, 1e-12);
  const ac_lora_desc stabilised = {.rank = 16, .rank_stabilised = true};
  assert_float_equal(ac_lora_choose(&stabilised, "x").scale, 8, 1e-12);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(updates_are_pefts_everywhere),
      cmocka_unit_test(a_folder_of_peft_is_read_everywhere),
      cmocka_unit_test(averages_are_saved_in_their_place),
      cmocka_unit_test(one_base_serves_all_everywhere),
      cmocka_unit_test(a_base_in_blocks_is_read_as_it_is_everywhere),
      cmocka_unit_test(weights_may_have_any_name),
      cmocka_unit_test(dropout_is_of_what_the_adapter_sees),
      cmocka_unit_test(what_would_change_results_is_refused),
      cmocka_unit_test(tensors_must_fit),
      cmocka_unit_test(targets_are_patterns_or_ends_of_names),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
