/* Inputs that are fed in other types than ops take, that have no batch, and lengths of samples. */
#include "support/devices.h"
#include "support/files.h"
#include "support/trainers.h"

#include "core/half.h"
#include "plan/plan.h"

#include <math.h>
#include <stdlib.h>

enum { SAMPLES = 10, ROWS = 3, WIDTH = 6, CLASSES = 5, UPDATES = 4 };

static const ac_parameter_desc drawn = {.init = {.kind = AC_INIT_NORMAL, .deviation = 0.3f}};

static int number(int i) {
  return (i * 37 + 11) % 64;
}

/* ---- other types ----------------------------------------------------------------------------- */

typedef struct types {
  ac_dtype x, targets, weights;
} types;

static ac_graph *classifier(types t) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", t.x, SHAPE(AC_BATCH, ROWS, WIDTH)),
            *targets = ac_input(g, "targets", t.targets, SHAPE(AC_BATCH, ROWS)),
            *weights = ac_input(g, "weights", t.weights, SHAPE(AC_BATCH, ROWS));
  x = ac_scale(ac_reshape(x, SHAPE(AC_BATCH_TIMES(ROWS), WIDTH)), 1.0f / 32);
  x = ac_linear(x, ac_parameter(g, "w", SHAPE(CLASSES, WIDTH), &drawn), NULL, AC_OUT_IN);
  x = ac_reshape(x, SHAPE(AC_BATCH, ROWS, CLASSES));
  ac_graph_set_loss(g,
                    ac_cross_entropy(x, targets, weights,
                                     &(ac_cross_entropy_desc){.ignore = true, .ignore_index = -1}));
  assert_ok(ac_graph_status(g));
  return g;
}

/* So many numbers, as elements of a type. */
static void *elements_as(ac_dtype dtype, const int *values, int count) {
  char *data = calloc((size_t)count, ac_dtype_bytes(dtype));
  for (int i = 0; i < count; i++)
    if (dtype == AC_I64) ((int64_t *)(void *)data)[i] = values[i];
    else if (dtype == AC_I32) ((int32_t *)(void *)data)[i] = values[i];
    else if (dtype == AC_U8) data[i] = (char)values[i];
    else ac_float_write(dtype, data, i, (float)values[i]);
  return data;
}

typedef struct fed {
  void *x, *targets, *weights;
} fed;

static fed samples_as(types t, int update) {
  int x[SAMPLES * ROWS * WIDTH], targets[SAMPLES * ROWS], weights[SAMPLES * ROWS];
  for (int i = 0; i < SAMPLES * ROWS * WIDTH; i++) x[i] = number(i + 5 * update);
  for (int i = 0; i < SAMPLES * ROWS; i++) {
    targets[i] = number(i + update) % (CLASSES + 1) - 1;
    weights[i] = number(3 * i) % 4;
  }
  return (fed){elements_as(t.x, x, SAMPLES * ROWS * WIDTH),
               elements_as(t.targets, targets, SAMPLES * ROWS),
               elements_as(t.weights, weights, SAMPLES * ROWS)};
}

static void release(fed *f) {
  free(f->x), free(f->targets), free(f->weights);
}

/* Losses and weights of windows, and then of an evaluation over a dataset. */
static float *train(const char *device, types t, ac_precision precision,
                    double numbers[2 * UPDATES + 2], size_t *count) {
  const ac_plan_desc plan = {.batch = SAMPLES, .micro_batch = 4, .precision = precision};
  const ac_trainer_desc desc = {.seed = 4, .schedule = {.lr = 1e-2}};
  run r = run_of(open_device(device), classifier(t), &plan, &desc);
  for (int u = 0; u < UPDATES; u++) {
    fed f = samples_as(t, u);
    const ac_feed feeds[] = {{"x", f.x}, {"targets", f.targets}, {"weights", f.weights}};
    ac_update update;
    assert_ok(ac_trainer_accumulate(r.trainer, SAMPLES, feeds, 3));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_false(update.skipped);
    numbers[2 * u] = update.loss, numbers[2 * u + 1] = update.weight;
    release(&f);
  }
  fed f = samples_as(t, 0);
  const ac_field fields[] = {
      {"x", t.x, ROWS * WIDTH}, {"targets", t.targets, ROWS}, {"weights", t.weights, ROWS}};
  const void *data[] = {f.x, f.targets, f.weights};
  ac_dataset *dataset;
  ac_evaluation evaluation;
  assert_ok(ac_dataset_from_memory(&dataset, SAMPLES, 3, fields, data));
  assert_ok(ac_trainer_evaluate(r.trainer, dataset, 0, &evaluation));
  numbers[2 * UPDATES] = evaluation.loss, numbers[2 * UPDATES + 1] = evaluation.weight;
  ac_dataset_free(dataset);
  release(&f);
  float *parameters = all_parameters(&r, count);
  stop(&r);
  return parameters;
}

/* What is fed does not matter, to the bit, if the values are the same. */
static void types_change_nothing(const char *device) {
  static const types plain = {AC_F32, AC_I32, AC_F32}, others[] = {{AC_U8, AC_I64, AC_F16},
                                                                   {AC_F16, AC_I64, AC_BF16},
                                                                   {AC_BF16, AC_I32, AC_U8}};
  for (ac_precision p = AC_PRECISION_F32; p <= AC_PRECISION_BF16; p++) {
    double want[2 * UPDATES + 2], got[2 * UPDATES + 2];
    size_t count, same;
    float *a = train(device, plain, p, want, &count);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
      float *b = train(device, others[i], p, got, &same);
      assert_int_equal(count, same);
      assert_memory_equal(want, got, sizeof want);
      assert_memory_equal(a, b, count * sizeof *a);
      free(b);
    }
    free(a);
  }
}
ON_EVERY_DEVICE(types_change_nothing)

/* On the device and on the host, and read ahead: bytes are a quarter. */
static void bytes_take_a_quarter(void **state) {
  (void)state;
  uint64_t read_ahead[2];
  for (int i = 0; i < 2; i++) {
    const types t = {i ? AC_U8 : AC_F32, AC_I32, AC_F32};
    const ac_plan_desc desc = {.batch = 64, .micro_batch = 16, .read_ahead = 2};
    ac_device *device = open_device("dry");
    ac_graph *graph = classifier(t);
    ac_tensor_info info;
    ac_plan *plan;
    int cells = 0;
    assert_ok(ac_graph_input(graph, 0, &info));
    assert_int_equal(info.dtype, t.x);
    assert_ok(ac_plan_create(&plan, graph, device, &desc));
    for (int c = 0; c < plan->cell_count; c++) {
      const ac_cell *cell = &plan->cells[c];
      if (cell->role != AC_ROLE_INPUT || cell->owner != 0) continue;
      assert_int_equal(cell->bytes, 16 * ROWS * WIDTH * ac_dtype_bytes(t.x));
      cells++;
    }
    assert_int_equal(cells, 2);
    read_ahead[i] = plan->info.read_ahead_bytes;
    ac_plan_free(plan);
    ac_device_close(device);
    ac_graph_free(graph);
  }
  assert_int_equal(read_ahead[0] - read_ahead[1], 3 * 3 * 64 * ROWS * WIDTH);
}

#define REFUSED(text, feed_x, feed_targets, feed_weights)                                          \
  do {                                                                                             \
    const ac_feed feeds[] = {{"x", feed_x}, {"targets", feed_targets}, {"weights", feed_weights}}; \
    assert_refused(ac_trainer_accumulate(r.trainer, 1, feeds, 3), AC_ERROR_ARGUMENT, text);        \
  } while (0)

static void what_is_fed_is_checked(void **state) {
  (void)state;
  const uint8_t x[ROWS * WIDTH] = {0};
  const int64_t good[ROWS] = {0, -1, 4}, wide[ROWS] = {0, (int64_t)1 << 32, 0}, high[ROWS] = {5};
  const uint16_t ones[ROWS] = {0x3c00, 0x3c00, 0x3c00}, negative[ROWS] = {0x3c00, 0xbc00, 0};
  run r = run_of(open_device("cpu"), classifier((types){AC_U8, AC_I64, AC_F16}),
                 &(ac_plan_desc){.batch = 1}, &(ac_trainer_desc){.schedule = {.lr = 1}});
  REFUSED("input \"targets\" holds 4294967296 at position 1, beyond 32 bits", x, wide, ones);
  REFUSED("input \"targets\" holds 5 at position 0, outside [0, 5)", x, high, ones);
  REFUSED("input \"weights\" holds the weight -1 at position 1", x, good, negative);
  REFUSED("input \"x\" was not fed", NULL, good, ones);
  const ac_feed feeds[] = {{"x", x}, {"targets", good}, {"weights", ones}};
  assert_ok(ac_trainer_accumulate(r.trainer, 1, feeds, 3));
  ac_trainer_discard(r.trainer);
  stop(&r);
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  assert_null(ac_input(g, "x", (ac_dtype)9, SHAPE(AC_BATCH, 2)));
  assert_string_equal(ac_graph_message(g), "input: \"x\" has the unknown dtype 9");
  ac_graph_free(g);
  assert_ok(ac_graph_create(&g));
  ac_tensor *bytes = ac_input(g, "x", AC_U8, SHAPE(AC_BATCH, 2));
  ac_tensor_info info;
  ac_tensor_get_info(bytes, &info);
  assert_string_equal(info.name, "x");
  assert_int_equal(info.dtype, AC_F32);
  assert_null(ac_embedding(bytes, bytes));
  assert_contains(ac_graph_message(g), "table is input \"x\" f32 [B, 2]");
  ac_graph_free(g);
}

/* ---- without the batch ----------------------------------------------------------------------- */

/* y = w (x * factor), where the factor is an input or a constant. */
static ac_graph *scaled(const float *constant, ac_dtype dtype) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, WIDTH)),
            *y = ac_input(g, "y", AC_F32, SHAPE(AC_BATCH, 2)),
            *factor = constant ? ac_constant(g, "factor", AC_F32, SHAPE(WIDTH), constant)
                               : ac_input(g, "factor", dtype, SHAPE(WIDTH));
  x = ac_linear(ac_multiply(x, factor), ac_parameter(g, "w", SHAPE(2, WIDTH), &drawn), NULL,
                AC_OUT_IN);
  ac_graph_set_output(g, "prediction", x);
  ac_graph_set_loss(g, ac_mean_squared_error(x, y, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

static const float factors[WIDTH] = {0.5f, -1.25f, 2, 0.75f, 1.5f, -0.5f};

static void fill(float *x, float *y, int update) {
  for (int i = 0; i < SAMPLES * WIDTH; i++) x[i] = (float)number(i + update) / 32 - 1;
  for (int i = 0; i < SAMPLES * 2; i++) y[i] = (float)number(2 * i + update) / 32 - 1;
}

/* `fed`: how often the factor is fed with the samples. */
static void train_scaled(run *r, bool constant, int fed, double losses[UPDATES]) {
  float x[SAMPLES * WIDTH], y[SAMPLES * 2];
  for (int u = 0; u < UPDATES; u++) {
    ac_update update;
    fill(x, y, u);
    const ac_feed feeds[] = {{"x", x}, {"y", y}, {"factor", factors}};
    const int count = !constant && u < fed ? 3 : 2;
    assert_ok(ac_trainer_accumulate(r->trainer, SAMPLES, feeds, count));
    assert_ok(ac_trainer_update(r->trainer, &update));
    losses[u] = update.loss;
  }
}

static void inputs_without_a_batch_are_constants(const char *device) {
  for (ac_precision p = AC_PRECISION_F32; p <= AC_PRECISION_BF16; p++)
    for (int fed = 0; fed <= UPDATES; fed += UPDATES / 2) {
      const ac_plan_desc plan = {.batch = SAMPLES, .micro_batch = 4, .precision = p};
      const ac_trainer_desc desc = {.seed = 4, .schedule = {.lr = 1e-2}};
      double want[UPDATES], got[UPDATES];
      run a = run_of(open_device(device), scaled(factors, AC_F32), &plan, &desc),
          b = run_of(open_device(device), scaled(NULL, AC_F32), &plan, &desc);
      if (!fed) assert_ok(ac_trainer_set_input(b.trainer, "factor", factors));
      train_scaled(&a, true, 0, want);
      train_scaled(&b, false, fed, got);
      assert_memory_equal(want, got, sizeof want);
      stop(&a);
      stop(&b);
    }
}
ON_EVERY_DEVICE(inputs_without_a_batch_are_constants)

/* With datasets it is set; a trainer, its evaluation and a session all take it. */
static void datasets_leave_them_as_they_are(void **state) {
  (void)state;
  float x[SAMPLES * WIDTH], y[SAMPLES * 2], output[SAMPLES * 2], whole[SAMPLES * WIDTH] = {0};
  fill(x, y, 0);
  const ac_field fields[] = {{"x", AC_F32, WIDTH}, {"y", AC_F32, 2}, {"factor", AC_F32, WIDTH}};
  const void *data[] = {x, y, whole};
  ac_dataset *dataset, *wrong;
  ac_evaluation evaluations[2];
  assert_ok(ac_dataset_from_memory(&dataset, SAMPLES, 2, fields, data));
  assert_ok(ac_dataset_from_memory(&wrong, SAMPLES, 3, fields, data));
  const ac_trainer_desc desc = {.seed = 4, .schedule = {.lr = 1e-2}};
  const ac_fit_desc fit = {.train = dataset, .steps = 3, .no_final_evaluation = true};
  for (int i = 0; i < 2; i++) {
    const ac_plan_desc plan = {.batch = 4, .micro_batch = 2, .read_ahead = i};
    run r = run_of(open_device("cpu"), scaled(NULL, AC_F32), &plan, &desc);
    assert_refused(ac_fit(r.trainer, &fit, NULL), AC_ERROR_ARGUMENT,
                   "input \"factor\" has no batch and no value yet, and a dataset cannot feed it");
    assert_refused(ac_trainer_set_input(r.trainer, "x", factors), AC_ERROR_ARGUMENT,
                   "trainer: input \"x\" has the batch, so it is fed with samples");
    assert_refused(ac_trainer_set_input(r.trainer, "none", factors), AC_ERROR_ARGUMENT,
                   "trainer: no input \"none\"");
    assert_ok(ac_trainer_set_input(r.trainer, "factor", factors));
    assert_refused(ac_trainer_evaluate(r.trainer, wrong, 0, &evaluations[i]), AC_ERROR_ARGUMENT,
                   "input \"factor\" has no batch, so the dataset's field of this name cannot");
    assert_ok(ac_fit(r.trainer, &fit, NULL));
    assert_ok(ac_trainer_evaluate(r.trainer, dataset, 0, &evaluations[i]));
    assert_ok(ac_trainer_save(r.trainer, "fed.safetensors", NULL, 0));
    stop(&r);
  }
  assert_true(evaluations[0].loss == evaluations[1].loss);

  ac_device *device = open_device("cpu");
  ac_plan *plan;
  ac_session *session;
  ac_graph *g = scaled(NULL, AC_F32);
  assert_ok(
      ac_plan_create(&plan, g, device, &(ac_plan_desc){.purpose = AC_PREDICT, .batch = SAMPLES}));
  assert_ok(ac_session_create(&session, plan, 1));
  assert_ok(ac_session_load_part(session, "fed.safetensors", "w,!b", NULL));
  const ac_feed feeds[] = {{"x", x}};
  assert_refused(ac_session_run(session, SAMPLES, feeds, 1), AC_ERROR_ARGUMENT,
                 "input \"factor\" was not fed");
  assert_ok(ac_session_set_input(session, "factor", factors));
  assert_ok(ac_session_run(session, SAMPLES, feeds, 1));
  assert_ok(ac_session_output(session, "prediction", 0, SAMPLES * 2, output));
  double sum = 0;
  for (int i = 0; i < SAMPLES * 2; i++) sum += (double)(output[i] - y[i]) * (output[i] - y[i]) / 2;
  assert_true(fabs(sum / SAMPLES - evaluations[1].loss) <= 1e-5 * sum);
  ac_session_free(session);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(g);
  ac_dataset_free(dataset);
  ac_dataset_free(wrong);
  remove("fed.safetensors");
}

/* ---- lengths --------------------------------------------------------------------------------- */

enum { LONGEST = 7, VOCAB = 9 };

/* Predicts each token from the one before; `weighted` by a mask that is fed, else by lengths. */
static ac_graph *language(bool weighted, ac_dtype dtype, int losses) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *ids = ac_input(g, "ids", AC_I32, SHAPE(AC_BATCH, LONGEST)),
            *targets = ac_input(g, "targets", AC_I32, SHAPE(AC_BATCH, LONGEST)), *mask;
  mask = weighted ? ac_input(g, "mask", AC_F32, SHAPE(AC_BATCH, LONGEST))
                  : ac_length_mask(ac_input(g, "lengths", dtype, SHAPE(AC_BATCH)), LONGEST);
  ac_tensor *x = ac_embedding(ac_parameter(g, "table", SHAPE(VOCAB, WIDTH), &drawn), ids);
  x = ac_causal_attention(
      ac_linear(x, ac_parameter(g, "qkv", SHAPE(3 * WIDTH, WIDTH), &drawn), NULL, AC_OUT_IN),
      &(ac_attention_desc){.heads = 2});
  ac_tensor *head = ac_parameter(g, "head", SHAPE(VOCAB, WIDTH), &drawn);
  for (int i = 0; i < losses; i++) {
    ac_tensor *loss = ac_cross_entropy(ac_linear(x, head, NULL, AC_OUT_IN), targets, mask, NULL);
    if (losses == 1) ac_graph_set_loss(g, loss);
    else ac_graph_add_loss(g, i ? "second" : "first", loss, 1 + i);
  }
  assert_ok(ac_graph_status(g));
  return g;
}

typedef struct sentences {
  int32_t ids[SAMPLES * LONGEST], targets[SAMPLES * LONGEST], lengths[SAMPLES];
  int64_t long_lengths[SAMPLES];
  float mask[SAMPLES * LONGEST];
  int positions; /* real ones */
} sentences;

/* `padding`: what is beyond the lengths. */
static sentences make_sentences(int update, int32_t padding) {
  sentences s = {.positions = 0};
  for (int i = 0; i < SAMPLES; i++) {
    s.long_lengths[i] = s.lengths[i] = number(i + update) % (LONGEST + 1);
    s.positions += s.lengths[i];
    for (int t = 0; t < LONGEST; t++) {
      const int at = i * LONGEST + t;
      const bool real = t < s.lengths[i];
      s.ids[at] = real ? number(at) % VOCAB : padding;
      s.targets[at] = real ? number(at + 1) % VOCAB : padding;
      s.mask[at] = real ? 1 : 0;
    }
  }
  return s;
}

static void train_sentences(const char *device, bool weighted, ac_dtype dtype, int losses,
                            int32_t padding, ac_gradients gradients, double numbers[UPDATES]) {
  const ac_plan_desc plan = {.batch = SAMPLES, .micro_batch = 4, .gradients = gradients};
  const ac_trainer_desc desc = {.seed = 2, .schedule = {.lr = 1e-2}};
  run r = run_of(open_device(device), language(weighted, dtype, losses), &plan, &desc);
  for (int u = 0; u < UPDATES; u++) {
    const sentences s = make_sentences(u, padding);
    const ac_feed feeds[] = {
        {"ids", s.ids},
        {"targets", s.targets},
        {"mask", s.mask},
        {"lengths", dtype == AC_I64 ? (const void *)s.long_lengths : (const void *)s.lengths}};
    ac_update update;
    assert_ok(ac_trainer_accumulate(r.trainer, SAMPLES, feeds, 4));
    assert_ok(ac_trainer_update(r.trainer, &update));
    assert_false(update.skipped);
    assert_true(update.losses[0].weight == s.positions);
    numbers[u] = update.loss;
  }
  stop(&r);
}

/* The padding counts nothing, whatever it holds, also where weights are known before a window. */
static void lengths_are_masks(const char *device) {
  for (int losses = 1; losses <= 2; losses++)
    for (int folded = 0; folded < 2; folded++) {
      const ac_gradients way = folded ? AC_GRADIENTS_FOLDED : AC_GRADIENTS_BUFFER;
      double want[UPDATES], got[UPDATES];
      train_sentences(device, true, AC_I32, losses, 0, way, want);
      train_sentences(device, false, AC_I32, losses, 0, way, got);
      assert_memory_equal(want, got, sizeof want);
      train_sentences(device, false, AC_I64, losses, 3, way, got);
      assert_memory_equal(want, got, sizeof want);
    }
}
ON_EVERY_DEVICE(lengths_are_masks)

static void wrong_lengths_are_refused(void **state) {
  (void)state;
  run r = run_of(open_device("cpu"), language(false, AC_I32, 1), &(ac_plan_desc){.batch = SAMPLES},
                 &(ac_trainer_desc){.schedule = {.lr = 1}});
  sentences s = make_sentences(0, 0);
  s.lengths[4] = LONGEST + 1;
  const ac_feed feeds[] = {{"ids", s.ids}, {"targets", s.targets}, {"lengths", s.lengths}};
  assert_refused(ac_trainer_accumulate(r.trainer, SAMPLES, feeds, 3), AC_ERROR_ARGUMENT,
                 "input \"lengths\" holds 8 at position 4, outside [0, 8)");
  stop(&r);
}

/* Attention takes lengths up to all keys, and any numbers of documents. */
static void lengths_of_keys_are_checked(void **state) {
  (void)state;
  ac_graph *g;
  ac_plan *plan;
  ac_session *session;
  ac_device *device = open_device("cpu");
  assert_ok(ac_graph_create(&g));
  ac_tensor *qkv = ac_input(g, "qkv", AC_F32, SHAPE(AC_BATCH, 2, 3)),
            *lengths = ac_input(g, "lengths", AC_I32, SHAPE(AC_BATCH)),
            *documents = ac_input(g, "documents", AC_I32, SHAPE(AC_BATCH, 2));
  const ac_attention_desc desc = {.heads = 1, .lengths = lengths, .segments = documents};
  ac_graph_set_output(g, "y", ac_causal_attention(qkv, &desc));
  assert_ok(ac_plan_create(&plan, g, device, &(ac_plan_desc){.purpose = AC_PREDICT, .batch = 1}));
  assert_ok(ac_session_create(&session, plan, 0));
  static const float x[] = {1, 1, 5, 1, 1, 7};
  static const int32_t ids[] = {-3, INT32_MAX};
  for (int32_t length = 0; length < 4; length++) {
    const ac_feed feeds[] = {{"qkv", x}, {"lengths", &length}, {"documents", ids}};
    float y[2];
    const ac_status status = ac_session_run(session, 1, feeds, 3);
    if (length == 3) {
      assert_refused(status, AC_ERROR_ARGUMENT,
                     "input \"lengths\" holds 3 at position 0, outside [0, 3)");
      continue;
    }
    assert_ok(status);
    assert_ok(ac_session_output(session, "y", 0, 2, y));
    assert_true(y[0] == 0 && y[1] == (length == 2 ? 7 : 0));
  }
  ac_session_free(session);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(g);
}

/* ---- positions ------------------------------------------------------------------------------- */

static void check_position(ac_session *session, int32_t position, const char *refusal) {
  const float x[2] = {1, 2};
  float y[2];
  const ac_feed feeds[] = {{"x", x}, {"positions", &position}};
  const ac_status status = ac_session_run(session, 1, feeds, 2);
  if (refusal) {
    assert_refused(status, AC_ERROR_ARGUMENT, refusal);
    return;
  }
  assert_ok(status);
  assert_ok(ac_session_output(session, "y", 0, 2, y));
  const double angle = position + 4.0;
  assert_true(fabs(y[0] - (cos(angle) - 2 * sin(angle))) <= 1e-6);
  assert_true(fabs(y[1] - (2 * cos(angle) + sin(angle))) <= 1e-6);
}

static void positions_are_checked(void **state) {
  (void)state;
  ac_graph *g;
  ac_plan *plan;
  ac_session *session;
  ac_device *device = open_device("cpu");
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, 1, 1, 2)),
            *positions = ac_input(g, "positions", AC_I32, SHAPE(AC_BATCH, 1));
  ac_graph_set_output(g, "y", ac_rope(x, positions, &(ac_rope_desc){.offset = 4}));
  assert_ok(ac_plan_create(&plan, g, device, &(ac_plan_desc){.purpose = AC_PREDICT, .batch = 1}));
  assert_ok(ac_session_create(&session, plan, 0));
  check_position(session, 0, NULL);
  check_position(session, 131072, NULL);
  check_position(session, INT32_MAX - 5, NULL);
  check_position(session, -1,
                 "input \"positions\" holds -1 at position 0, outside [0, 2147483643)");
  check_position(session, INT32_MAX - 4, "holds 2147483643 at position 0");
  ac_session_free(session);
  ac_plan_free(plan);
  ac_device_close(device);
  ac_graph_free(g);
}

/* A model of the next token; `cut`: its two inputs are parts of one. */
static ac_graph *next_token(bool cut, ac_dtype dtype) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *in, *out;
  if (cut) {
    ac_tensor *tokens = ac_input(g, "tokens", dtype, SHAPE(AC_BATCH, 6));
    in = ac_slice(tokens, 1, 0, 5);
    out = ac_flip(ac_slice_step(tokens, 1, 5, 5, -1), AC_AXES(1));
  } else {
    in = ac_input(g, "in", dtype, SHAPE(AC_BATCH, 5));
    out = ac_input(g, "out", dtype, SHAPE(AC_BATCH, 5));
  }
  ac_tensor *y = ac_embedding(ac_parameter(g, "table", SHAPE(7, 3), NULL), in);
  y = ac_linear(y, ac_parameter(g, "head", SHAPE(9, 3), NULL), NULL, AC_OUT_IN);
  ac_graph_set_loss(g, ac_cross_entropy(y, out, NULL, NULL));
  return g;
}

/* Parts of what is fed are as good as what is fed itself, in any type; and they are checked against
 * the smaller of both limits. */
static void parts_of_tokens_are_fed(void **state) {
  (void)state;
  static const int32_t narrow[2][6] = {{0, 6, 3, 2, 5, 1}, {4, 4, 0, 6, 1, 2}},
                       high[2][6] = {{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 4, 7}};
  int64_t wide[2][6];
  int32_t in[2][5], out[2][5];
  double loss[2] = {0};
  for (int s = 0; s < 2; s++)
    for (int t = 0; t < 6; t++) {
      wide[s][t] = narrow[s][t];
      if (t < 5) in[s][t] = narrow[s][t];
      if (t > 0) out[s][t - 1] = narrow[s][t];
    }
  for (int bf16 = 0; bf16 < 2; bf16++)
    for (int k = 0; k < 3; k++) {
      const ac_plan_desc desc = {.batch = 2, .precision = bf16 ? AC_PRECISION_BF16 : 0};
      run r = run_of(open_device("cpu"), next_token(k > 0, k == 2 ? AC_I64 : AC_I32), &desc,
                     &(ac_trainer_desc){.schedule = {.lr = 1}});
      const void *tokens = k == 2 ? (const void *)wide : (const void *)narrow;
      const ac_feed feeds[] = {{k ? "tokens" : "in", k ? tokens : in}, {"out", out}},
                    wrong[] = {{"tokens", high}};
      ac_update update;
      if (k == 1)
        assert_refused(ac_trainer_accumulate(r.trainer, 2, wrong, 1), AC_ERROR_ARGUMENT,
                       "input \"tokens\" holds 7 at position 11, outside [0, 7)");
      assert_ok(ac_trainer_accumulate(r.trainer, 2, feeds, k ? 1 : 2));
      assert_ok(ac_trainer_update(r.trainer, &update));
      if (k == 0) loss[bf16] = update.loss;
      assert_true(update.loss == loss[bf16]);
      stop(&r);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_of_tokens_are_fed),
      cmocka_unit_test(types_change_nothing_everywhere),
      cmocka_unit_test(bytes_take_a_quarter),
      cmocka_unit_test(what_is_fed_is_checked),
      cmocka_unit_test(inputs_without_a_batch_are_constants_everywhere),
      cmocka_unit_test(datasets_leave_them_as_they_are),
      cmocka_unit_test(lengths_are_masks_everywhere),
      cmocka_unit_test(wrong_lengths_are_refused),
      cmocka_unit_test(lengths_of_keys_are_checked),
      cmocka_unit_test(positions_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
