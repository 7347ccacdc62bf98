/* Ranks within one process under a simulated network, drawn by seeds: delays, messages that
 * overtake each other, a rank that dies at any of its messages, one that stalls, a message that
 * never comes. Never a wrong result, never a wait beyond the limit, and the silent rank is named.
 * The same seed repeats the same run.
 *
 *   test_rank_simulation              100 seeds of each kind
 *   test_rank_simulation FIRST COUNT  others, by hand */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/random.h"
#include "ranks/engine.h"
#include "ranks/ranks.h"
#include "support/rank_threads.h"
#include "support/rank_traffic.h"

enum { MOST = 5 };
#define TIMEOUT 20.0

static uint64_t first_seed = 1, seeds = 100;

typedef struct run {
  traffic what;
  int size;
  traffic_result results[MOST];
  double ended[MOST]; /* simulated seconds */
  bool killed[MOST];
} run;

static double clock_of(ac_ranks *ranks) {
  ac_engine *engine = ac_transport_engine(ac_ranks_transport(ranks));
  return engine->functions->clock(engine);
}

static void body(ac_ranks *ranks, int rank, void *user) {
  run *r = user;
  ac_transport *t = ac_ranks_transport(ranks);
  traffic_result *result = &r->results[rank];
  run_traffic(t, &r->what, result);
  /* None closes before the others need it no more. */
  if (result->status == AC_OK && (result->status = ac_ranks_barrier(ranks)) != AC_OK)
    snprintf(result->sentence, sizeof result->sentence, "%s", ac_last_error());
  /* Time does not wait for a rank that was killed. */
  r->killed[rank] = strstr(result->sentence, "as the simulation asks") != NULL;
  r->ended[rank] = r->killed[rank] ? 0 : clock_of(ranks);
  if (result->status != AC_OK) ac_ranks_abort(ranks, result->sentence);
  ac_ranks_close(ranks);
}

static uint32_t drawn(uint64_t seed, uint32_t which, uint32_t limit) {
  return (uint32_t)(((uint64_t)ac_philox(seed, which, 0, 0, 11).v[0] * limit) >> 32);
}

static void simulate(run *r, uint64_t seed, ac_ranks_threads_desc desc) {
  *r = (run){.size = 1 + (int)drawn(seed, 0, MOST)};
  if (desc.killed_at || desc.stalled_at || desc.lost_at)
    r->size = 2 + (int)drawn(seed, 0, MOST - 1);
  r->what = (traffic){.seed = seed,
                      .rounds = 1 + (int)drawn(seed, 1, 6),
                      .most_bytes = 3000,
                      .polls = drawn(seed, 2, 2)};
  desc.seed = seed;
  desc.timeout = TIMEOUT;
  desc.latency = drawn(seed, 3, 2) ? 0.01 : 0;
  desc.bandwidth = drawn(seed, 4, 2) ? 1e6 : 0;
  desc.killed_rank = desc.stalled_rank = desc.lost_rank = (int)drawn(seed, 5, (uint32_t)r->size);
  ac_ranks *list[MOST];
  assert_ok(ac_ranks_create_threads(list, r->size, &desc));
  run_rank_threads(list, r->size, body, r);
  for (int rank = 0; rank < r->size; rank++)
    if (r->results[rank].wrong) fail_msg("seed %llu: wrong bytes", (unsigned long long)seed);
}

static void fail_for(uint64_t seed, const run *r, const char *what) {
  for (int rank = 0; rank < r->size; rank++)
    print_message("rank %d of %d: status %d after %g s, %s\n", rank, r->size,
                  r->results[rank].status, r->ended[rank], r->results[rank].sentence);
  fail_msg("seed %llu: %s", (unsigned long long)seed, what);
}

static void differ_for(uint64_t seed, const run *r) {
  for (int i = 0; i < 2; i++)
    for (int rank = 0; rank < r->size; rank++)
      print_message("run %d, rank %d: status %d after %.9g s, hash %llx, %s\n", i, rank,
                    r[i].results[rank].status, r[i].ended[rank],
                    (unsigned long long)r[i].results[rank].hash, r[i].results[rank].sentence);
  fail_msg("seed %llu: two runs differ", (unsigned long long)seed);
}

static bool all_finished(const run *r) {
  for (int rank = 0; rank < r->size; rank++)
    if (r->results[rank].status != AC_OK) return false;
  return true;
}

static void delays_change_nothing(void **state) {
  (void)state;
  for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
    run r;
    simulate(&r, seed, (ac_ranks_threads_desc){0});
    if (!all_finished(&r)) fail_for(seed, &r, "a run without faults failed");
  }
}

static void a_seed_repeats_its_run(void **state) {
  (void)state;
  for (uint64_t seed = first_seed; seed < first_seed + seeds / 4; seed++) {
    run r[2];
    for (int i = 0; i < 2; i++)
      simulate(&r[i], seed, (ac_ranks_threads_desc){.killed_at = 1 + drawn(seed, 6, 100)});
    for (int rank = 0; rank < r[0].size; rank++) {
      const traffic_result *a = &r[0].results[rank], *b = &r[1].results[rank];
      if (a->status != b->status || a->hash != b->hash || r[0].ended[rank] != r[1].ended[rank] ||
          strcmp(a->sentence, b->sentence))
        differ_for(seed, r);
    }
  }
}

/* Ranks that have not finished know which one was silent. */
static void check_named(uint64_t seed, const run *r, const char *whose) {
  char name[40];
  const int faulty = (int)drawn(seed, 5, (uint32_t)r->size);
  snprintf(name, sizeof name, "rank %d is silent", faulty);
  for (int rank = 0; rank < r->size; rank++) {
    if (rank == faulty || r->results[rank].status == AC_OK) continue;
    if (!strstr(r->results[rank].sentence, name)) fail_for(seed, r, whose);
  }
}

static void check_ended(uint64_t seed, const run *r, double begun) {
  for (int rank = 0; rank < r->size; rank++)
    if (r->ended[rank] > begun + 2.5 * TIMEOUT) fail_for(seed, r, "a rank waited beyond the limit");
}

static void a_rank_that_dies_is_named(void **state) {
  (void)state;
  int deaths = 0;
  for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
    run r;
    simulate(&r, seed, (ac_ranks_threads_desc){.killed_at = 1 + drawn(seed, 6, 60)});
    const int faulty = (int)drawn(seed, 5, (uint32_t)r.size);
    if (!r.killed[faulty]) {
      if (!all_finished(&r)) fail_for(seed, &r, "a run failed although its rank was not killed");
      continue;
    }
    deaths++;
    check_named(seed, &r, "the rank that died is not named");
    check_ended(seed, &r, TIMEOUT);
  }
  assert_true(deaths > (int)seeds / 4);
}

static void a_rank_that_stalls_is_waited_for_or_named(void **state) {
  (void)state;
  int waited = 0, named = 0;
  for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
    run r;
    const double seconds = drawn(seed, 7, 2) ? 0.5 * TIMEOUT : 3 * TIMEOUT;
    simulate(
        &r, seed,
        (ac_ranks_threads_desc){.stalled_at = 1 + drawn(seed, 6, 30), .stalled_seconds = seconds});
    if (seconds < TIMEOUT) {
      if (!all_finished(&r)) fail_for(seed, &r, "a short stall ended the run");
      waited++;
    } else if (!all_finished(&r)) {
      named++;
      check_named(seed, &r, "the rank that stalled is not named");
    }
    check_ended(seed, &r, 4 * TIMEOUT);
  }
  assert_true(waited > (int)seeds / 4 && named > (int)seeds / 8);
}

/* Which of the two ends is to blame none can know. A rank that has got all that it needs has
 * finished. */
static void a_message_that_never_comes_ends_the_run(void **state) {
  (void)state;
  int ended = 0;
  for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
    run r;
    simulate(&r, seed, (ac_ranks_threads_desc){.lost_at = 1 + drawn(seed, 6, 30)});
    check_ended(seed, &r, TIMEOUT);
    if (all_finished(&r)) continue;
    ended++;
    for (int rank = 0; rank < r.size; rank++)
      if (r.results[rank].status == AC_OK && r.results[rank].rounds < r.what.rounds)
        fail_for(seed, &r, "a rank does not know of the end");
  }
  assert_true(ended > (int)seeds / 4);
}

int main(int argc, char **argv) {
  if (argc > 2) {
    first_seed = strtoull(argv[1], NULL, 10);
    seeds = strtoull(argv[2], NULL, 10);
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(delays_change_nothing),
      cmocka_unit_test(a_seed_repeats_its_run),
      cmocka_unit_test(a_rank_that_dies_is_named),
      cmocka_unit_test(a_rank_that_stalls_is_waited_for_or_named),
      cmocka_unit_test(a_message_that_never_comes_ends_the_run),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
