/* Points at which ranks meet (window/exchange.h): what all hear is the same, and a rank that fails
 * or has come to another point is told of by all. */
#include "support/ranked_cases.h"

#include "window/trainer.h"

#include <string.h>

enum { SUMMED = 20, LISTED = 2 };

/* More numbers than a first message holds, and fewer, and those that are listed. */
static ac_status tell_numbers(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  for (int count = 0; count <= SUMMED; count += 5) {
    double values[SUMMED + LISTED * RANKED_MOST], all = 0;
    for (int r = 0; r < e->ranks; r++) all += r + 1;
    for (int i = 0; i < count; i++) values[i] = (e->rank + 1) * (i + 1);
    for (int k = 0; k < LISTED; k++) values[count + k] = 10 * e->rank + k;
    ac_status status =
        ac_exchange_sum_and_list(trainer, AC_MEET_STATE, AC_OK, values, count, LISTED);
    if (status != AC_OK) return status;
    for (int i = 0; i < count; i++)
      if (values[i] != all * (i + 1)) return ac_fail(AC_ERROR_INTERNAL, "a wrong sum");
    for (int i = 0; i < LISTED * e->ranks; i++)
      if (values[count + i] != 10 * (i / LISTED) + i % LISTED)
        return ac_fail(AC_ERROR_INTERNAL, "a wrong list");
    for (int i = 0; i < count; i++) values[i] = e->rank ? 0 : i;
    status = ac_exchange_take(trainer, AC_MEET_DECISION, values, count);
    if (status != AC_OK) return status;
    for (int i = 0; i < count; i++)
      if (values[i] != i) return ac_fail(AC_ERROR_INTERNAL, "not what rank 0 has");
  }
  return AC_OK;
}

static ranked_case case_of(ac_status (*before)(ac_trainer *trainer)) {
  ranked_case c = ranked_feature_case(ranked_plain);
  c.fit.steps = 2;
  c.before = before;
  return c;
}

static void all_hear_the_same(void **state) {
  (void)state;
  const ranked_case c = case_of(tell_numbers);
  for (int ranks = 2; ranks <= 4; ranks++) {
    ranked all[4];
    ranked_run(&c, ranks, all);
    ranked_check_same(all, ranks);
    ranked_free(all, ranks);
  }
}

/* A rank that has heard of it ends the run, perhaps before all have heard. */
static void check_told(ac_status (*before)(ac_trainer *trainer), ac_status expected,
                       const char *sentence) {
  const ranked_case c = case_of(before);
  ranked all[3];
  ranked_run(&c, 3, all);
  int heard = 0;
  for (int r = 0; r < 3; r++) {
    heard += all[r].status == expected;
    if (all[r].status != expected && all[r].status != AC_ERROR_STOPPED)
      fail_msg("rank %d has status %d", r, (int)all[r].status);
    if (!strstr(all[r].sentence, sentence)) fail_msg("rank %d says: %s", r, all[r].sentence);
  }
  assert_true(heard > 0);
  ranked_free(all, 3);
}

/* Few numbers meet many, either way. */
static ac_status go_elsewhere(ac_trainer *trainer) {
  double values[SUMMED] = {0};
  ac_exchange *e = &trainer->exchange;
  return e->rank == 1 ? ac_exchange_sum(trainer, AC_MEET_STATE, AC_OK, values, 3)
                      : ac_exchange_sum(trainer, AC_MEET_COUNTS, AC_OK, values, SUMMED);
}

static ac_status go_elsewhere_with_more(ac_trainer *trainer) {
  double values[SUMMED] = {0};
  ac_exchange *e = &trainer->exchange;
  return e->rank == 2 ? ac_exchange_sum(trainer, AC_MEET_STATE, AC_OK, values, SUMMED)
                      : ac_exchange_sum(trainer, AC_MEET_COUNTS, AC_OK, values, 3);
}

static ac_status count_otherwise(ac_trainer *trainer) {
  double values[SUMMED] = {0};
  ac_exchange *e = &trainer->exchange;
  return ac_exchange_sum(trainer, AC_MEET_COUNTS, AC_OK, values, SUMMED - e->rank);
}

static void ranks_out_of_step_are_told(void **state) {
  (void)state;
  check_told(go_elsewhere, AC_ERROR_STATE,
             "rank 1 has come to a state, and rank 0 to the weights of a window");
  check_told(go_elsewhere_with_more, AC_ERROR_STATE,
             "rank 2 has come to a state, and rank 0 to the weights of a window");
  check_told(count_otherwise, AC_ERROR_STATE, "all ranks must make the same calls");
}

static ac_status fail_on_rank_2(ac_trainer *trainer) {
  double values[SUMMED] = {0};
  ac_exchange *e = &trainer->exchange;
  const ac_status own = e->rank == 2 ? ac_fail(AC_ERROR_IO, "the disk is on fire") : AC_OK;
  return ac_exchange_sum(trainer, AC_MEET_STATE, own, values, SUMMED);
}

static void a_failure_is_told_to_all(void **state) {
  (void)state;
  check_told(fail_on_rank_2, AC_ERROR_IO, "the disk is on fire");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_hear_the_same),
      cmocka_unit_test(ranks_out_of_step_are_told),
      cmocka_unit_test(a_failure_is_told_to_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
