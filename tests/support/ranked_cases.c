#include "ranked_cases.h"

#include "models.h"
#include "trainers.h"
#include "window/trainer.h"

#include <math.h>

ac_graph *ranked_gpt(void) {
  return test_gpt_graph(&(test_gpt){.layers = 1,
                                    .width = RANKED_WIDTH,
                                    .context = RANKED_CONTEXT,
                                    .vocab = RANKED_VOCAB,
                                    .heads = 2,
                                    .dropout = 0.1f});
}

/* Sequences of unequal length: sample k has 1 + k % RANKED_CONTEXT tokens that count. */
ac_status ranked_read_tokens(void *user, const ac_sample_key *key, void *const *fields) {
  int32_t *tokens = fields[0], *targets = fields[1];
  (void)user;
  for (int64_t t = 0; t < RANKED_CONTEXT; t++) {
    tokens[t] = (int32_t)((key->index * 7 + t * 3) % RANKED_VOCAB);
    targets[t] = t <= key->index % RANKED_CONTEXT
                     ? (int32_t)((key->index * 7 + t * 3 + 3) % RANKED_VOCAB)
                     : -1;
  }
  return AC_OK;
}

ranked_case ranked_gpt_case(ac_optimizer_kind optimizer) {
  return (ranked_case){
      .graph = ranked_gpt,
      .plan = {.batch = 8,
               .micro_batch = 3,
               .optimizer = {.kind = optimizer},
               .frozen = "*qkv.b"}, /* gradients of keys' biases are rounding alone */
      .trainer = {.seed = 5, .schedule = {.lr = 0.01}, .noise_every = 3},
      .fit = {.steps = RANKED_UPDATES, .seed = 11, .eval_every = 7},
      .validation = 13,
      .data = {.count = RANKED_SAMPLES,
               .field_count = 2,
               .fields = {{"tokens", AC_I32, RANKED_CONTEXT}, {"targets", AC_I32, RANKED_CONTEXT}},
               .read = ranked_read_tokens}};
}

ac_graph *ranked_norms(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, RANKED_FEATURES));
  ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, RANKED_CLASSES));
  x = ac_linear(x, test_matrix(g, "a", "w", 24, RANKED_FEATURES), NULL, AC_OUT_IN);
  const ac_parameter_desc one = {.init = {AC_INIT_CONSTANT, .value = 1}},
                          still = {.frozen = true, .init = {AC_INIT_CONSTANT, .value = 1}};
  x = ac_batch_norm(x, ac_parameter(g, "n.gamma", SHAPE(24), &one),
                    ac_parameter(g, "n.beta", SHAPE(24), NULL),
                    ac_parameter(g, "n.mean", SHAPE(24), &still),
                    ac_parameter(g, "n.variance", SHAPE(24), &still), NULL);
  x = ac_linear(ac_relu(x), test_matrix(g, "b", "w", RANKED_CLASSES, 24), NULL, AC_OUT_IN);
  ac_graph_set_loss(g, ac_mean_squared_error(x, t, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

ac_graph *ranked_plain(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, RANKED_FEATURES));
  ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, RANKED_CLASSES));
  x = ac_linear(x, test_matrix(g, "a", "w", 96, RANKED_FEATURES), NULL, AC_OUT_IN);
  x = ac_linear(ac_relu(x), test_matrix(g, "b", "w", 96, 96), NULL, AC_OUT_IN);
  x = ac_linear(ac_relu(x), test_matrix(g, "c", "w", RANKED_CLASSES, 96), NULL, AC_OUT_IN);
  ac_graph_set_loss(g, ac_mean_squared_error(x, t, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

ac_graph *ranked_wide(void) {
  enum { WIDE = 640, LAYERS = 4 };
  static const char *const names[LAYERS] = {"a", "b", "c", "d"};
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, RANKED_FEATURES));
  ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, RANKED_CLASSES));
  for (int i = 0; i < LAYERS; i++)
    x = ac_relu(ac_linear(x, test_matrix(g, names[i], "w", WIDE, i ? WIDE : RANKED_FEATURES), NULL,
                          AC_OUT_IN));
  x = ac_linear(x, test_matrix(g, "e", "w", RANKED_CLASSES, WIDE), NULL, AC_OUT_IN);
  ac_graph_set_output(g, "y", x);
  ac_graph_set_loss(g, ac_mean_squared_error(x, t, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

ac_status ranked_read_features(void *user, const ac_sample_key *key, void *const *fields) {
  float *x = fields[0], *t = fields[1];
  const bool bad = user && key->index == *(const int *)user;
  for (int i = 0; i < RANKED_FEATURES; i++)
    x[i] = bad ? 3e4f : (float)((key->index * 5 + i * 3) % 11) / 11 - 0.5f;
  for (int i = 0; i < RANKED_CLASSES; i++) t[i] = (float)((key->index + i) % 3) - 1;
  return AC_OK;
}

ranked_case ranked_feature_case(ac_graph *(*graph)(void)) {
  return (ranked_case){
      .graph = graph,
      .plan = {.batch = 12, .micro_batch = 2, .batch_norm = AC_BATCH_NORM_MICRO},
      .trainer = {.seed = 3, .schedule = {.lr = 0.003}},
      .fit = {.steps = RANKED_UPDATES, .seed = 2},
      .validation = 7,
      .data = {.count = 48,
               .field_count = 2,
               .fields = {{"x", AC_F32, RANKED_FEATURES}, {"t", AC_F32, RANKED_CLASSES}},
               .read = ranked_read_features}};
}

void ranked_check_bits(const ranked *a, const ranked *b) {
  assert_int_equal(a->parameter_count, b->parameter_count);
  assert_memory_equal(a->parameters, b->parameters, 4 * a->parameter_count);
}

void ranked_check_near(const ranked *one, const ranked *many, double tolerance) {
  assert_int_equal(many->windows, one->windows);
  for (int i = 0; i < one->windows; i++) {
    assert_int_equal(many->samples[i], one->samples[i]);
    assert_int_equal(many->update[i].skipped, one->update[i].skipped);
    assert_true(many->update[i].weight == one->update[i].weight);
    assert_true(many->update[i].loss_scale == one->update[i].loss_scale);
    const double error = fabs(many->update[i].loss - one->update[i].loss);
    if (!(error <= tolerance * fabs(one->update[i].loss)) && !one->update[i].skipped)
      fail_msg("window %d of %d ranks: loss %.9g, but %.9g with one", i, many->ranks,
               many->update[i].loss, one->update[i].loss);
  }
  assert_int_equal(many->result.updates, one->result.updates);
  const double validated = fabs(many->result.final.loss - one->result.final.loss);
  if (!(validated <= tolerance * fabs(one->result.final.loss)))
    fail_msg("the validation loss of %d ranks is %.9g, but %.9g with one", many->ranks,
             many->result.final.loss, one->result.final.loss);
  const double apart = distance(one->parameters, many->parameters, one->parameter_count);
  if (!(apart <= tolerance))
    fail_msg("parameters of %d ranks are %g from those of one", many->ranks, apart);
  if (one->noise.windows) assert_int_equal(many->noise.windows, one->noise.windows);
}

ac_status ranked_exchange_afterwards(ac_trainer *trainer) {
  trainer->exchange.overlap.never = true;
  return AC_OK;
}

void ranked_check_near_one(const ranked_case *c, int most, double tolerance) {
  ranked one, many[RANKED_MOST];
  assert_true(most <= RANKED_MOST);
  ranked_run(c, 1, &one);
  ranked_check_same(&one, 1);
  for (int ranks = 2; ranks <= most; ranks++) {
    ranked_run(c, ranks, many);
    ranked_check_same(many, ranks);
    ranked_check_near(&one, many, tolerance);
    ranked_free(many, ranks);
  }
  ranked_free(&one, 1);
}

/* Another run, which exchanges gradients after the last micro-batch and not while it runs, has the
 * same bits. */
void ranked_check_case(const ranked_case *c, double tolerance) {
  ranked one, many[4], again[4];
  ranked_case afterwards = *c;
  afterwards.before = ranked_exchange_afterwards;
  ranked_run(c, 1, &one);
  ranked_check_same(&one, 1);
  for (int ranks = 2; ranks <= 4; ranks++) {
    ranked_run(c, ranks, many);
    ranked_check_same(many, ranks);
    ranked_check_near(&one, many, tolerance);
    ranked_run(&afterwards, ranks, again);
    ranked_check_same(again, ranks);
    assert_memory_equal(again[0].parameters, many[0].parameters, 4 * many[0].parameter_count);
    ranked_free(many, ranks);
    ranked_free(again, ranks);
  }
  ranked_free(&one, 1);
}
