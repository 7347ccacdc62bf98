/* Where a value of several ranks that is not finite first appears. */
#include "support/models.h"
#include "support/ranked_cases.h"
#include "support/trainers.h"

#include "core/error.h"

#include <math.h>

/* All say where the rank that has read it found it. */
static ac_status read_infinity(void *user, const ac_sample_key *key, void *const *fields) {
  AC_TRY(ranked_read_features(user, key, fields));
  if (key->index == 20) ((float *)fields[0])[1] = INFINITY;
  return AC_OK;
}

static void check_found(const ranked_case *c, const char *where, const char *rank) {
  ranked all[3];
  ranked_run(c, 3, all);
  for (int r = 0; r < 3; r++) {
    assert_int_not_equal(all[r].status, AC_OK); /* one may hear that another has ended */
    assert_contains(all[r].sentence, where);
    assert_contains(all[r].sentence, rank);
  }
  ranked_free(all, 3);
}

static void what_is_not_finite_is_named_by_all(void **state) {
  (void)state;
  ranked_case c = ranked_feature_case(ranked_plain);
  c.data.read = read_infinity;
  c.fit.no_shuffle = true; /* the second window's samples 20 to 23 are rank 2's */
  check_found(&c, "it first appears in input x", "(rank 2)");
}

static ac_graph *steep_norm(void) {
  ac_graph *g;
  assert_ok(ac_graph_create(&g));
  const ac_parameter_desc steep = {.init = {AC_INIT_CONSTANT, .value = 3e38f}},
                          flat = {.init = {AC_INIT_CONSTANT, .value = 1e-38f}},
                          still = {.frozen = true, .init = {AC_INIT_CONSTANT, .value = 1}};
  ac_tensor *x = ac_input(g, "x", AC_F32, SHAPE(AC_BATCH, RANKED_FEATURES));
  ac_tensor *t = ac_input(g, "t", AC_F32, SHAPE(AC_BATCH, RANKED_CLASSES));
  x = ac_linear(x, test_matrix(g, "a", "w", 4, RANKED_FEATURES), NULL, AC_OUT_IN);
  x = ac_batch_norm(x, ac_parameter(g, "n.gamma", SHAPE(4), &steep),
                    ac_parameter(g, "n.beta", SHAPE(4), NULL),
                    ac_parameter(g, "n.mean", SHAPE(4), &still),
                    ac_parameter(g, "n.variance", SHAPE(4), &still), NULL);
  x = ac_linear(x, ac_parameter(g, "b.w", SHAPE(RANKED_CLASSES, 4), &flat), NULL, AC_OUT_IN);
  ac_graph_set_loss(g, ac_mean_squared_error(x, t, NULL));
  assert_ok(ac_graph_status(g));
  return g;
}

/* Samples of a rank are alike, and those of rank 1 are not like the others'. */
static ac_status read_apart(void *user, const ac_sample_key *key, void *const *fields) {
  (void)user;
  memset(fields[1], 0, RANKED_CLASSES * sizeof(float));
  for (int i = 0; i < RANKED_FEATURES; i++)
    ((float *)fields[0])[i] = key->index >= 4 && key->index < 8 ? 1e3f : 0;
  return AC_OK;
}

/* By a rank's own statistics all is finite; by those of all, rank 1 has elements of 1.4 standard
 * deviations. An input that is not finite spoils the statistics of all ranks, but is named
 * nevertheless, also by a rank without a sample. */
static void with_exact_statistics_it_is_found_in_those_of_all(void **state) {
  (void)state;
  ranked_case c = ranked_feature_case(steep_norm);
  c.plan.batch_norm = AC_BATCH_NORM_EXACT;
  c.data.read = read_apart;
  c.fit.no_shuffle = true;
  check_found(&c, "it first appears in op batch_norm", "(rank 1)");
  c = ranked_feature_case(ranked_norms);
  c.plan.batch_norm = AC_BATCH_NORM_EXACT;
  c.data.read = read_infinity;
  c.fit.no_shuffle = true;
  check_found(&c, "it first appears in input x", "(rank 2)");
  c.plan.batch = 2; /* rank 2 has none */
  check_found(&c, "it first appears in input x", "(rank 0)");
}

static ac_status find_alone(ac_trainer *trainer) {
  const float x[RANKED_FEATURES] = {1}, t[RANKED_CLASSES] = {1};
  char text[64];
  return ac_trainer_locate_nonfinite(trainer, 1, (ac_feed[]){{"x", x}, {"t", t}}, 2, text,
                                     sizeof text);
}

static void a_loop_of_its_own_does_not_look_for_others(void **state) {
  (void)state;
  ranked_case c = ranked_feature_case(ranked_norms);
  c.plan.batch_norm = AC_BATCH_NORM_EXACT;
  c.fit.steps = 1;
  c.after = find_alone;
  check_found(&c, "with exact batch norm over several ranks ac_fit alone", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_not_finite_is_named_by_all),
      cmocka_unit_test(with_exact_statistics_it_is_found_in_those_of_all),
      cmocka_unit_test(a_loop_of_its_own_does_not_look_for_others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
