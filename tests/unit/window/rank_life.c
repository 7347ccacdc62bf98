/* Ranks that are at work for longer than others wait for a silent one are not taken for dead, and
 * those that hang are. */
#include "support/models.h"
#include "support/ranked.h"
#include "support/trainers.h"

#include "core/platform/clock.h"
#include "window/trainer.h"

#include <stdio.h>

enum { FEATURES = 4, SAMPLES = 48 };
#define TIMEOUT 2.0 /* of which a busy machine may take most */

static ac_graph *line(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, FEATURES)),
            *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, 1));
  x = ac_linear(x, test_matrix(g, "a", "w", 1, FEATURES), NULL, AC_OUT_IN);
  ac_graph_set_loss(g, ac_mean_squared_error(x, t, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

static ac_status read_features(void *user, const ac_sample_key *key, void *const *fields) {
  float *x = fields[0], *t = fields[1];
  (void)user;
  for (int i = 0; i < FEATURES; i++) x[i] = (float)((key->index * 5 + i * 3) % 11) / 11;
  t[0] = (float)(key->index % 3);
  return AC_OK;
}

static ranked_case line_case(void) {
  return (ranked_case){.graph = line,
                       .plan = {.batch = 6, .micro_batch = 3},
                       .trainer = {.seed = 3, .schedule = {.lr = 0.01}},
                       .fit = {.steps = 2, .seed = 2},
                       .data = {.count = SAMPLES,
                                .field_count = 2,
                                .fields = {{"x", AC_F32, FEATURES}, {"t", AC_F32, 1}},
                                .read = read_features},
                       .ranks = {.timeout = TIMEOUT}};
}

static void check_alive(const ranked_case *c) {
  ranked all[3];
  ranked_run(c, 3, all);
  ranked_check_same(all, 3);
  ranked_free(all, 3);
}

/* ---- samples that are read ahead ------------------------------------------------------------- */

/* By the thread of rank 1's loader: a sample takes a fraction of the timeout, and the share of 16
 * more than all of it. */
static ac_status read_slowly(void *user, const ac_sample_key *key, void *const *fields) {
  if (key->index / 16 == 1) ac_sleep(0.12 * TIMEOUT);
  return read_features(user, key, fields);
}

static void a_rank_that_waits_for_samples_lives(void **state) {
  (void)state;
  ranked_case c = line_case();
  c.plan.read_ahead = 1;
  c.plan.batch = SAMPLES;
  c.fit.steps = 1;
  c.fit.no_shuffle = true;
  c.data.read = read_slowly;
  check_alive(&c);
}

/* ---- files ----------------------------------------------------------------------------------- */

static ac_status be_away(ac_trainer *trainer) {
  const ac_exchange *e = &trainer->exchange;
  ac_ranks *ranks = trainer->desc.ranks;
  int known = 0;
  if (e->rank == 0) {
    known = 41;
    ac_ranks_begin_absence(ranks);
    ac_ranks_begin_absence(ranks);
    ac_sleep(1.5 * TIMEOUT);
    ac_ranks_end_absence(ranks);
    /* It may speak in the middle of it. */
    AC_TRY(ac_ranks_tell(ranks, &known, sizeof known));
    ac_sleep(1.5 * TIMEOUT);
    known++;
    ac_ranks_end_absence(ranks);
  } else AC_TRY(ac_ranks_tell(ranks, &known, sizeof known));
  AC_TRY(ac_ranks_tell(ranks, &known, sizeof known));
  return known == 42 ? AC_OK : AC_ERROR_INTERNAL;
}

static void a_rank_that_says_that_it_is_away_lives(void **state) {
  (void)state;
  ranked_case c = line_case();
  c.after = be_away;
  check_alive(&c);
}

static ac_status hang(ac_trainer *trainer) {
  if (trainer->exchange.rank == 2) ac_sleep(3 * TIMEOUT);
  return ac_ranks_barrier(trainer->desc.ranks);
}

static void a_rank_that_hangs_is_named(void **state) {
  (void)state;
  ranked_case c = line_case();
  ranked all[3];
  c.after = hang;
  ranked_run(&c, 3, all);
  for (int r = 0; r < 2; r++) {
    assert_int_not_equal(all[r].status, AC_OK);
    assert_contains(all[r].sentence, "rank 2 is silent for 2 s");
  }
  ranked_free(all, 3);
}

/* ---- gradients that a caller writes ---------------------------------------------------------- */

/* All ranks double what they have summed, or rank 0 alone. */
static bool alone;

static void double_gradients(void *user, ac_trainer *trainer, ac_decision *decision) {
  float gradient[FEATURES];
  (void)user, (void)decision;
  if (alone && trainer->exchange.rank) return;
  assert_int_equal(ac_trainer_get_gradient(trainer, 0, 0, FEATURES, gradient), AC_OK);
  for (int i = 0; i < FEATURES; i++) gradient[i] *= 2;
  assert_int_equal(ac_trainer_set_gradient(trainer, 0, 0, FEATURES, gradient), AC_OK);
}

static void written_gradients_are_those_of_one_rank(void **state) {
  (void)state;
  ranked_case c = line_case();
  ranked one, many[3];
  c.trainer.decide = double_gradients;
  c.plan.optimizer.clip = 0.1;
  ranked_run(&c, 1, &one);
  ranked_check_same(&one, 1);
  ranked_run(&c, 3, many);
  ranked_check_same(many, 3);
  assert_true(distance(one.parameters, many[0].parameters, one.parameter_count) <= 1e-6);
  for (int i = 0; i < one.windows; i++)
    assert_true(one.update[i].grad_norm > 0 &&
                fabs(many[0].update[i].grad_norm - one.update[i].grad_norm) <=
                    1e-6 * one.update[i].grad_norm);
  ranked_free(many, 3);
  alone = true;
  ranked_run(&c, 3, many);
  alone = false;
  assert_int_not_equal(many[0].status, AC_OK);
  assert_contains(many[0].sentence, "1 of 3 ranks have written gradients");
  ranked_free(many, 3);
  ranked_free(&one, 1);
}

static ac_status write_within_a_window(ac_trainer *trainer) {
  const float x[FEATURES] = {1, 2, 3, 4}, t[1] = {1}, gradient[FEATURES] = {0};
  const ac_feed feeds[] = {{"x", x}, {"t", t}};
  AC_TRY(ac_trainer_accumulate(trainer, 1, feeds, 2));
  const ac_status status = ac_trainer_set_gradient(trainer, 0, 0, FEATURES, gradient);
  ac_trainer_discard(trainer);
  return status == AC_ERROR_STATE ? AC_OK : AC_ERROR_INTERNAL;
}

static void a_part_of_a_gradient_cannot_be_written(void **state) {
  (void)state;
  ranked_case c = line_case();
  c.after = write_within_a_window;
  check_alive(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_rank_that_waits_for_samples_lives),
      cmocka_unit_test(a_rank_that_says_that_it_is_away_lives),
      cmocka_unit_test(a_rank_that_hangs_is_named),
      cmocka_unit_test(written_gradients_are_those_of_one_rank),
      cmocka_unit_test(a_part_of_a_gradient_cannot_be_written),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
