/* Windows that ranks share out: N ranks of this process against one rank with the same effective
 * batch. All ranks have the same bits, the same again in another run, and those of one rank but for
 * rounding. */
#include "support/models.h"
#include "support/ranked.h"
#include "support/trainers.h"

#include <math.h>
#include <stdlib.h>

enum { CONTEXT = 6, VOCAB = 32, WIDTH = 32, SAMPLES = 43, UPDATES = 20 };

/* ---- a language model ------------------------------------------------------------------------ */

static ac_graph *gpt(void) {
  return test_gpt_graph(&(test_gpt){.layers = 1,
                                    .width = WIDTH,
                                    .context = CONTEXT,
                                    .vocab = VOCAB,
                                    .heads = 2,
                                    .dropout = 0.1f});
}

static ac_graph *gpt_fused(void) {
  return test_gpt_graph(&(test_gpt){.layers = 1,
                                    .width = WIDTH,
                                    .context = CONTEXT,
                                    .vocab = VOCAB,
                                    .heads = 2,
                                    .dropout = 0.1f,
                                    .fused = true});
}

/* Sequences of unequal length: sample k has 1 + k % CONTEXT tokens that count. */
static ac_status read_tokens(void *user, const ac_sample_key *key, void *const *fields) {
  int32_t *tokens = fields[0], *targets = fields[1];
  (void)user;
  for (int64_t t = 0; t < CONTEXT; t++) {
    tokens[t] = (int32_t)((key->index * 7 + t * 3) % VOCAB);
    targets[t] = t <= key->index % CONTEXT ? (int32_t)((key->index * 7 + t * 3 + 3) % VOCAB) : -1;
  }
  return AC_OK;
}

static ranked_case gpt_case(ac_optimizer_kind optimizer) {
  return (ranked_case){.graph = gpt,
                       .plan = {.batch = 8, .micro_batch = 3, .optimizer = {.kind = optimizer}},
                       .trainer = {.seed = 5, .schedule = {.lr = 0.01}, .noise_every = 3},
                       .fit = {.steps = UPDATES, .seed = 11, .eval_every = 7},
                       .validation = 13,
                       .data = {.count = SAMPLES,
                                .field_count = 2,
                                .fields = {{"tokens", AC_I32, CONTEXT}, {"targets", AC_I32, CONTEXT}},
                                .read = read_tokens}};
}

/* ---- comparing ------------------------------------------------------------------------------- */

static void check_near(const ranked *one, const ranked *many, double tolerance) {
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
  assert_true(fabs(many->result.final.loss - one->result.final.loss) <=
              tolerance * fabs(one->result.final.loss));
  const double apart = distance(one->parameters, many->parameters, one->parameter_count);
  if (!(apart <= tolerance))
    fail_msg("parameters of %d ranks are %g from those of one", many->ranks, apart);
  if (one->noise.windows) assert_int_equal(many->noise.windows, one->noise.windows);
}

static void check_case(const ranked_case *c, double tolerance) {
  ranked one, many[4], again[4];
  ranked_run(c, 1, &one);
  ranked_check_same(&one, 1);
  for (int ranks = 2; ranks <= 4; ranks++) {
    ranked_run(c, ranks, many);
    ranked_check_same(many, ranks);
    check_near(&one, many, tolerance);
    ranked_run(c, ranks, again);
    ranked_check_same(again, ranks);
    assert_memory_equal(again[0].parameters, many[0].parameters, 4 * many[0].parameter_count);
    ranked_free(many, ranks);
    ranked_free(again, ranks);
  }
  ranked_free(&one, 1);
}

static void check_optimizer(ac_optimizer_kind optimizer, double tolerance) {
  const ranked_case c = gpt_case(optimizer);
  check_case(&c, tolerance);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void adamw_is_that_of_one_rank(void **state) {
  (void)state;
  check_optimizer(AC_ADAMW, 1e-5);
}

static void sgd_is_that_of_one_rank(void **state) {
  (void)state;
  check_optimizer(AC_SGD, 1e-5);
}

static void adafactor_is_that_of_one_rank(void **state) {
  (void)state;
  check_optimizer(AC_ADAFACTOR, 1e-5);
}

static void adam_mini_is_that_of_one_rank(void **state) {
  (void)state;
  check_optimizer(AC_ADAM_MINI, 1e-5);
}

static void muon_is_that_of_one_rank(void **state) {
  (void)state;
  check_optimizer(AC_MUON, 1e-5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(adamw_is_that_of_one_rank),
      cmocka_unit_test(sgd_is_that_of_one_rank),
      cmocka_unit_test(adafactor_is_that_of_one_rank),
      cmocka_unit_test(adam_mini_is_that_of_one_rank),
      cmocka_unit_test(muon_is_that_of_one_rank),
  };
  (void)gpt_fused;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
