/* Packing: which lengths share a sample, and that sharing changes nothing. The loss over samples
 * that documents share is that over documents by themselves, and so are its gradients, for a small
 * Llama on every device and in every precision. */
#include "chat/pack.h"
#include "support/devices.h"
#include "support/files.h"
#include "support/trainers.h"

#include <accrue/chat.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- lengths --------------------------------------------------------------------------------- */

static int64_t pack(const int32_t *lengths, int64_t count, int64_t context, int64_t *sample_of) {
  int64_t samples;
  assert_ok(ac_chat_pack(lengths, count, context, sample_of, &samples));
  return samples;
}

static void lengths_fill_samples(void **state) {
  (void)state;
  int64_t of[6];
  /* 6 is first; 5 begins another one, 4 fills that, 3 fills the first one, 2 begins another. */
  assert_int_equal(pack((int32_t[]){3, 5, 2, 6, 4, 1}, 6, 9, of), 3);
  assert_memory_equal(of, ((int64_t[]){0, 1, 2, 0, 1, 2}), sizeof of);
  assert_int_equal(pack((int32_t[]){9, 9}, 2, 9, of), 2);
  assert_int_equal(pack(NULL, 0, 9, of), 0);
  /* The least room that is enough: 2 goes to the room of 2, not to that of 3. */
  assert_int_equal(pack((int32_t[]){7, 8, 2}, 3, 10, of), 2);
  assert_int_equal(of[2], 1);
}

/* By a search through all samples, instead of the tree. */
static int64_t plain_pack(const int32_t *lengths, int64_t count, int64_t context) {
  int64_t *room = malloc((size_t)count * sizeof *room), samples = 0;
  for (int64_t length = context; length; length--)
    for (int64_t i = 0; i < count; i++) {
      if (lengths[i] != length) continue;
      int64_t best = -1;
      for (int64_t s = 0; s < samples; s++)
        if (room[s] >= length && (best < 0 || room[s] < room[best])) best = s;
      if (best < 0) room[best = samples++] = context;
      room[best] -= length;
    }
  free(room);
  return samples;
}

static void packing_is_best_fit(void **state) {
  (void)state;
  uint64_t random = 3;
  for (int round = 0; round < 200; round++) {
    enum { MOST = 300 };
    const int64_t count = 1 + next_random(&random) % MOST;
    const int64_t context = 1 + next_random(&random) % (round % 2 ? 5000 : 40);
    int32_t lengths[MOST];
    int64_t of[MOST], sums[MOST] = {0}, total = 0, seen = 0;
    for (int64_t i = 0; i < count; i++) {
      lengths[i] = 1 + (int32_t)(next_random(&random) % (uint32_t)context);
      if (round % 3) lengths[i] = (lengths[i] + 3) / 4;
      total += lengths[i];
    }
    const int64_t samples = pack(lengths, count, context, of);
    assert_int_equal(samples, plain_pack(lengths, count, context));
    for (int64_t i = 0; i < count; i++) {
      assert_true(of[i] >= 0 && of[i] <= seen); /* numbered as they appear */
      if (of[i] == seen) seen++;
      sums[of[i]] += lengths[i];
      assert_true(sums[of[i]] <= context);
    }
    assert_int_equal(seen, samples);
    assert_true(samples >= (total + context - 1) / context);
  }
}

/* ---- data ------------------------------------------------------------------------------------ */

enum { CONTEXT = 48, WIDTH = 32, HEADS = 4, KEY_HEADS = 2, SIZE = 8, LAYERS = 2, FIELDS = 5 };

static ac_tokenizer *tokenizer;
static const ac_chat_template *chatml;

static int prepare(void **state) {
  test_path path;
  make_test_folder(state);
  snprintf(path.text, sizeof path.text, "%s/tokenizers/gpt2.json", ACCRUE_TEST_VECTORS);
  assert_ok(ac_tokenizer_open(&tokenizer, path.text));
  assert_ok(ac_chat_template_find(&chatml, "chatml"));
  return 0;
}

static int finish(void **state) {
  ac_tokenizer_free(tokenizer);
  return remove_test_folder(state);
}

static void put_words(FILE *file, uint64_t *random, uint32_t most) {
  static const char *const words[] = {"one", "two", "three", "four", "five", "six"};
  for (uint32_t i = 1 + next_random(random) % most; i; i--)
    fprintf(file, "%s ", words[next_random(random) % 6]);
}

/* Texts and conversations of many lengths. */
static test_path make_data(void) {
  const test_path path = in_folder("data.jsonl");
  FILE *file = fopen(path.text, "w");
  uint64_t random = 8;
  assert_non_null(file);
  for (int i = 0; i < 20; i++) {
    if (i % 3) {
      fputs("{\"text\":\"", file);
      put_words(file, &random, 5);
      fputs("\"}\n", file);
      continue;
    }
    fputs("{\"messages\":[{\"role\":\"user\",\"content\":\"", file);
    put_words(file, &random, 2);
    fputs("\"},{\"role\":\"assistant\",\"content\":\"", file);
    put_words(file, &random, 2);
    fputs("\"}]}\n", file);
  }
  fclose(file);
  return path;
}

/* All samples of a dataset, as feeds. */
typedef struct samples {
  ac_chat *chat;
  ac_dataset *dataset;
  int64_t count;
  void *data[FIELDS];
  ac_feed feeds[FIELDS];
} samples;

static samples open_samples(bool packed) {
  const test_path path = make_data();
  const ac_chat_desc desc = {
      .tokenizer = tokenizer, .chat_template = chatml, .context = CONTEXT, .no_packing = !packed};
  samples s;
  assert_ok(ac_chat_open(&s.chat, path.text, &desc));
  assert_ok(ac_dataset_from_chat(&s.dataset, s.chat, false));
  s.count = ac_dataset_count(s.dataset);
  for (int f = 0; f < FIELDS; f++) {
    s.data[f] = malloc((size_t)s.count * CONTEXT * 4);
    s.feeds[f] = (ac_feed){ac_dataset_field(s.dataset, f)->name, s.data[f]};
  }
  for (int64_t i = 0; i < s.count; i++) {
    void *at[FIELDS];
    for (int f = 0; f < FIELDS; f++) at[f] = (char *)s.data[f] + (size_t)i * CONTEXT * 4;
    assert_ok(ac_dataset_read(s.dataset, &(ac_sample_key){.index = i}, at));
  }
  return s;
}

static void close_samples(samples *s) {
  for (int f = 0; f < FIELDS; f++) free(s->data[f]);
  ac_dataset_free(s->dataset);
  ac_chat_free(s->chat);
}

/* ---- the model ------------------------------------------------------------------------------- */

typedef struct model {
  ac_graph *graph;
  ac_tensor *segments, *positions;
} model;

static ac_tensor *matrix(model *m, int layer, const char *part, int64_t out, int64_t in) {
  char name[32];
  snprintf(name, sizeof name, "%d.%s", layer, part);
  return ac_parameter(m->graph, name, SHAPE(out, in), NULL);
}

static ac_tensor *norm(model *m, int layer, const char *part, ac_tensor *x) {
  char name[32];
  snprintf(name, sizeof name, "%d.%s", layer, part);
  return ac_norm_layer(m->graph, name, x, &(ac_norm_layer_desc){.kind = AC_NORM_RMS});
}

static ac_tensor *project(model *m, int layer, const char *part, ac_tensor *x, int heads) {
  x = ac_linear(x, matrix(m, layer, part, (int64_t)heads * SIZE, WIDTH), NULL, AC_OUT_IN);
  return ac_reshape(x, SHAPE(AC_BATCH, CONTEXT, heads, SIZE));
}

static ac_tensor *block(model *m, int layer, ac_tensor *x) {
  const ac_attention_desc own = {.causal = true, .segments = m->segments};
  ac_tensor *h = norm(m, layer, "norm_1", x);
  ac_tensor *q = ac_rope(project(m, layer, "q", h, HEADS), m->positions, NULL);
  ac_tensor *k = ac_rope(project(m, layer, "k", h, KEY_HEADS), m->positions, NULL);
  ac_tensor *seen = ac_attention(q, k, project(m, layer, "v", h, KEY_HEADS), &own);
  seen = ac_reshape(seen, SHAPE(AC_BATCH, CONTEXT, WIDTH));
  x = ac_add(x, ac_linear(seen, matrix(m, layer, "o", WIDTH, WIDTH), NULL, AC_OUT_IN));
  h = norm(m, layer, "norm_2", x);
  ac_tensor *gate = ac_linear(h, matrix(m, layer, "gate", 48, WIDTH), NULL, AC_OUT_IN);
  ac_tensor *up = ac_linear(h, matrix(m, layer, "up", 48, WIDTH), NULL, AC_OUT_IN);
  h = ac_linear(ac_swiglu(gate, up), matrix(m, layer, "down", WIDTH, 48), NULL, AC_OUT_IN);
  return ac_add(x, h);
}

static ac_graph *make_graph(void) {
  model m;
  const int64_t vocabulary = ac_tokenizer_vocabulary(tokenizer);
  assert_ok(ac_graph_create(&m.graph));
  ac_tensor *tokens = ac_input(m.graph, "tokens", AC_I32, SHAPE(AC_BATCH, CONTEXT));
  ac_tensor *targets = ac_input(m.graph, "targets", AC_I32, SHAPE(AC_BATCH, CONTEXT));
  ac_tensor *weights = ac_input(m.graph, "weights", AC_F32, SHAPE(AC_BATCH, CONTEXT));
  m.segments = ac_input(m.graph, "segments", AC_I32, SHAPE(AC_BATCH, CONTEXT));
  m.positions = ac_input(m.graph, "positions", AC_I32, SHAPE(AC_BATCH, CONTEXT));
  ac_tensor *table = matrix(&m, LAYERS, "table", vocabulary, WIDTH);
  ac_tensor *x = ac_embedding(table, tokens);
  for (int layer = 0; layer < LAYERS; layer++) x = block(&m, layer, x);
  x = norm(&m, LAYERS, "norm", x);
  ac_graph_add_loss(m.graph, "loss",
                    ac_linear_cross_entropy(x, table, AC_OUT_IN, targets, weights, NULL), 1);
  return m.graph;
}

/* ---- the same -------------------------------------------------------------------------------- */

typedef struct result {
  ac_evaluation evaluation;
  ac_update update;
  float *moved; /* parameters after an update */
  size_t parameters;
} result;

static result learn(const char *device, ac_precision precision, const samples *s) {
  const ac_plan_desc plan = {
      .batch = s->count, .micro_batch = 3, .precision = precision, .optimizer.kind = AC_SGD};
  const ac_trainer_desc desc = {.seed = 5, .schedule = {.lr = 1}};
  run r = run_of(open_device(device), make_graph(), &plan, &desc);
  result made;
  assert_ok(ac_trainer_evaluate(r.trainer, s->dataset, 0, &made.evaluation));
  assert_ok(ac_trainer_accumulate(r.trainer, s->count, s->feeds, FIELDS));
  assert_ok(ac_trainer_update(r.trainer, &made.update));
  assert_false(made.update.skipped);
  made.moved = all_parameters(&r, &made.parameters);
  stop(&r);
  return made;
}

/* In f32 sums differ by the order of their parts. In 16 bits a document's own activations are the
 * same, but sums over samples are rounded at other places: 2^-8 each for bf16. */
static void check_sharing(const char *device, ac_precision precision) {
  const double loss_bound = precision == AC_PRECISION_F32 ? 2e-6 : 1e-3;
  const double step_bound = precision == AC_PRECISION_F32 ? 1e-5 : 1e-2;
  samples apart = open_samples(false), shared = open_samples(true);
  assert_true(shared.count * 3 < apart.count * 2);
  result a = learn(device, precision, &apart), b = learn(device, precision, &shared);
  assert_true(a.evaluation.weight > 50);
  assert_true(a.evaluation.weight == b.evaluation.weight);
  assert_true(a.evaluation.loss > 1);
  assert_true(fabs(a.evaluation.loss - b.evaluation.loss) <= loss_bound * a.evaluation.loss);
  assert_true(fabs(a.update.loss - b.update.loss) <= loss_bound * a.update.loss);
  assert_true(fabs(a.update.grad_norm - b.update.grad_norm) <= step_bound * a.update.grad_norm);
  assert_true(distance(a.moved, b.moved, a.parameters) <= step_bound);
  free(a.moved);
  free(b.moved);
  close_samples(&apart);
  close_samples(&shared);
}

static void check_floats(const char *device) {
  check_sharing(device, AC_PRECISION_F32);
}

ON_EVERY_DEVICE(check_floats)

static void check_halves_everywhere(void **state) {
  (void)state;
  everywhere(check_sharing);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lengths_fill_samples),
      cmocka_unit_test(packing_is_best_fit),
      cmocka_unit_test(check_floats_everywhere),
      cmocka_unit_test(check_halves_everywhere),
  };
  return cmocka_run_group_tests(tests, prepare, finish);
}
