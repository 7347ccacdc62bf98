/* Ranks within one process, each in a thread, without a simulation: what arrives, which rank waits
 * for which, how a run ends, what ranks agree on, and what is refused. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/platform/clock.h"
#include "ranks/engine.h"
#include "ranks/ranks.h"
#include "support/rank_threads.h"
#include "support/rank_traffic.h"

enum { MOST = 4 };

/* What each rank met. */
typedef struct outcome {
  ac_status status[MOST];
  char sentence[MOST][1024];
  double seconds[MOST];
  int wrong;
  traffic_result traffic[MOST];
  ac_status (*body)(ac_transport *t, int rank, struct outcome *o);
  bool aborts; /* a rank that fails ends the run for all */
} outcome;

static void thread_body(ac_ranks *ranks, int rank, void *user) {
  outcome *o = user;
  const double begun = ac_clock();
  o->status[rank] = o->body(ac_ranks_transport(ranks), rank, o);
  o->seconds[rank] = ac_clock() - begun;
  if (o->status[rank] != AC_OK)
    snprintf(o->sentence[rank], sizeof o->sentence[rank], "%s", ac_last_error());
  if (o->status[rank] != AC_OK && o->aborts) ac_ranks_abort(ranks, o->sentence[rank]);
  ac_ranks_close(ranks);
}

static void run(outcome *o, int count, double timeout,
                ac_status (*body)(ac_transport *t, int rank, outcome *o)) {
  ac_ranks *list[MOST];
  o->body = body;
  assert_ok(ac_ranks_create_threads(list, count, &(ac_ranks_threads_desc){.timeout = timeout}));
  for (int r = 0; r < count; r++) {
    assert_int_equal(ac_ranks_rank(list[r]), r);
    assert_int_equal(ac_ranks_size(list[r]), count);
    assert_int_equal(ac_ranks_local_rank(list[r]), r);
    assert_int_equal(ac_ranks_local_size(list[r]), count);
    assert_true(ac_ranks_threads(list[r]) >= 1);
    assert_string_equal(ac_ranks_engine(list[r]), count > 1 ? "threads" : "alone");
  }
  run_rank_threads(list, count, thread_body, o);
}

static ac_status traffic_body(ac_transport *t, int rank, outcome *o) {
  run_traffic(t, &(traffic){.seed = 3, .rounds = 40, .most_bytes = 100000, .polls = true},
              &o->traffic[rank]);
  return ac_transport_barrier(t);
}

static void random_traffic_arrives(void **state) {
  (void)state;
  for (int count = 1; count <= MOST; count++) {
    outcome o = {0};
    run(&o, count, 0, traffic_body);
    for (int r = 0; r < count; r++) {
      if (o.status[r] != AC_OK) fail_msg("rank %d: %s", r, o.sentence[r]);
      assert_int_equal(o.traffic[r].wrong, 0);
      assert_int_equal(o.traffic[r].rounds, 40);
    }
  }
}

static ac_status count_body(ac_transport *t, int rank, outcome *o) {
  char bytes[10] = {0};
  ac_transfer to_self[2] = {{0}};
  ac_status status = ac_transport_wait(t, to_self, 2); /* zeros are done */
  if (status == AC_OK) status = ac_transport_begin_receive(t, rank, 0, bytes, 10, &to_self[0]);
  if (status == AC_OK) status = ac_transport_begin_send(t, rank, 0, "123456789", 10, &to_self[1]);
  if (status == AC_OK) status = ac_transport_wait(t, to_self, 2);
  o->wrong += status == AC_OK && strcmp(bytes, "123456789") != 0;
  if (status == AC_OK)
    status = rank == 0 ? ac_transport_send(t, 1, AC_TRANSPORT_TAGS - 2, bytes, 7)
                       : ac_transport_receive(t, 0, AC_TRANSPORT_TAGS - 2, bytes, 7);
  const ac_transport_counts counts = ac_transport_count(t);
  o->wrong += counts.messages != (rank == 0) || counts.bytes != (rank == 0 ? 7 : 0);
  return status == AC_OK ? ac_transport_barrier(t) : status;
}

static void what_goes_to_others_is_counted(void **state) {
  (void)state;
  outcome o = {0};
  run(&o, 2, 0, count_body);
  assert_int_equal(o.status[0], AC_OK);
  assert_int_equal(o.status[1], AC_OK);
  assert_int_equal(o.wrong, 0);
}

static ac_status size_body(ac_transport *t, int rank, outcome *o) {
  (void)o;
  char bytes[10] = {0};
  return rank ? ac_transport_receive(t, 0, 4, bytes, 10) : ac_transport_send(t, 1, 4, bytes, 9);
}

static void another_size_is_refused(void **state) {
  (void)state;
  outcome o = {.aborts = true};
  run(&o, 2, 0, size_body);
  assert_int_equal(o.status[1], AC_ERROR_FORMAT);
  assert_string_equal(o.sentence[1],
                      "rank 1 expects 10 bytes from rank 0 with tag 4, which has sent 9");
  assert_int_equal(o.status[0], AC_ERROR_STOPPED);
  assert_contains(o.sentence[0], "rank 1 has ended the run: rank 1 expects 10 bytes");
}

/* Rank 2 does not answer. Rank 0 waits for rank 1, which waits for rank 2: each learns of rank 2.
 */
static ac_status silent_body(ac_transport *t, int rank, outcome *o) {
  (void)o;
  char byte;
  if (rank < 2) return ac_transport_receive(t, rank + 1, 1, &byte, 1);
  ac_sleep(4);
  return ac_transport_barrier(t);
}

static void a_silent_rank_is_named_by_all(void **state) {
  (void)state;
  outcome o = {.aborts = true};
  run(&o, 3, 1, silent_body);
  for (int r = 0; r < 3; r++) {
    assert_true(o.status[r] == AC_ERROR_IO || o.status[r] == AC_ERROR_STOPPED);
    assert_contains(o.sentence[r], "rank 2 is silent for 1 s");
    if (r < 2) assert_true(o.seconds[r] >= 0.9 && o.seconds[r] < 3.5);
  }
}

/* Rank 1 computes for three times the timeout, and shows that it lives. */
static ac_status busy_body(ac_transport *t, int rank, outcome *o) {
  (void)o;
  char byte = 1;
  if (rank == 0) return ac_transport_receive(t, 1, 1, &byte, 1);
  for (int i = 0; i < 30; i++) {
    bool done;
    ac_status status = ac_transport_test(t, NULL, 0, &done);
    if (status != AC_OK || !done) return status;
    ac_sleep(0.03);
  }
  return ac_transport_send(t, 0, 1, &byte, 1);
}

static void a_rank_that_shows_life_is_waited_for(void **state) {
  (void)state;
  outcome o = {0};
  run(&o, 2, 0.3, busy_body);
  if (o.status[0] != AC_OK) fail_msg("%s", o.sentence[0]);
  assert_int_equal(o.status[1], AC_OK);
}

static ac_status early_body(ac_transport *t, int rank, outcome *o) {
  (void)o;
  char byte;
  return rank ? AC_OK : ac_transport_receive(t, 1, 1, &byte, 1);
}

static void a_rank_that_ended_is_not_waited_for(void **state) {
  (void)state;
  outcome o = {0};
  run(&o, 2, 30, early_body);
  assert_int_equal(o.status[0], AC_ERROR_IO);
  assert_string_equal(o.sentence[0],
                      "rank 1 has ended, and rank 0 still has a message to get from it");
  assert_true(o.seconds[0] < 10);
}

static ac_status wrong_body(ac_transport *t, int rank, outcome *o) {
  (void)rank;
  ac_transfer transfer;
  char byte = 0;
  o->wrong += ac_transport_begin_send(t, 2, 0, &byte, 1, &transfer) != AC_ERROR_ARGUMENT;
  o->wrong += ac_transport_begin_receive(t, -1, 0, &byte, 1, &transfer) != AC_ERROR_ARGUMENT;
  o->wrong +=
      ac_transport_begin_send(t, 0, AC_TRANSPORT_TAGS, &byte, 1, &transfer) != AC_ERROR_ARGUMENT;
  return ac_transport_barrier(t); /* such a mistake is not the end */
}

static void ranks_and_tags_are_checked(void **state) {
  (void)state;
  outcome o = {0};
  run(&o, 2, 0, wrong_body);
  assert_int_equal(o.wrong, 0);
  assert_int_equal(o.status[0], AC_OK);
}

/* ---- what ranks agree on
 * --------------------------------------------------------------------------- */

typedef struct facts {
  ac_ranks_fact list[MOST][3];
  int counts[MOST];
  ac_status status[MOST];
  char sentence[MOST][1024];
} facts;

static void facts_body(ac_ranks *ranks, int rank, void *user) {
  facts *f = user;
  f->status[rank] = ac_ranks_agree(ranks, f->list[rank], f->counts[rank]);
  snprintf(f->sentence[rank], sizeof f->sentence[rank], "%s", ac_last_error());
  (void)ac_ranks_barrier(ranks); /* agreement that fails does not end the run */
  ac_ranks_close(ranks);
}

static void compare_facts(facts *f) {
  ac_ranks *list[MOST];
  assert_ok(ac_ranks_create_threads(list, MOST, NULL));
  run_rank_threads(list, MOST, facts_body, f);
}

static facts same_facts(void) {
  facts f = {0};
  for (int r = 0; r < MOST; r++) {
    f.list[r][0] = (ac_ranks_fact){"the version", "0.1.0"};
    f.list[r][1] = (ac_ranks_fact){"--lr", ""};
    f.list[r][2] = (ac_ranks_fact){"the data", "12345678"};
    f.counts[r] = 3;
  }
  return f;
}

static void facts_are_compared(void **state) {
  (void)state;
  facts f = same_facts();
  compare_facts(&f);
  for (int r = 0; r < MOST; r++) assert_int_equal(f.status[r], AC_OK);

  f = same_facts();
  f.list[3][1].value = "0.1";
  compare_facts(&f);
  for (int r = 0; r < MOST; r++) {
    assert_int_equal(f.status[r], AC_ERROR_STATE);
    assert_string_equal(f.sentence[r],
                        "ranks must agree on --lr: it is \"\" on rank 0 and \"0.1\" on rank 3");
  }

  f = same_facts();
  for (int r = 1; r < MOST; r++) f.list[r][0].value = "0.2.0", f.list[r][2].value = "9";
  compare_facts(&f);
  assert_string_equal(f.sentence[2],
                      "ranks must agree on the version: it is \"0.1.0\" on rank 0 and \"0.2.0\" on "
                      "rank 1 (1 other fact differs as well)");

  f = same_facts();
  f.counts[2] = 2;
  compare_facts(&f);
  assert_string_equal(f.sentence[0],
                      "rank 0 compares \"the data\" where rank 2 compares \"\": their "
                      "programs differ");

  f = same_facts();
  for (int r = 0; r < MOST; r++) f.counts[r] = 0;
  compare_facts(&f);
  for (int r = 0; r < MOST; r++) assert_int_equal(f.status[r], AC_OK);
}

/* ---- opening
 * ---------------------------------------------------------------------------------------- */

static void one_rank_needs_no_launcher(void **state) {
  (void)state;
  ac_ranks *ranks;
  assert_ok(ac_ranks_open(&ranks, NULL));
  assert_int_equal(ac_ranks_size(ranks), 1);
  assert_string_equal(ac_ranks_engine(ranks), "alone");
  assert_ok(ac_ranks_barrier(ranks));
  assert_ok(ac_ranks_agree(ranks, &(ac_ranks_fact){"a", "b"}, 1));
  assert_refused(ac_ranks_agree(ranks, &(ac_ranks_fact){"a", NULL}, 1), AC_ERROR_ARGUMENT,
                 "fact 0 of ranks has no name or no value");
  assert_refused(ac_ranks_agree(ranks, NULL, -1), AC_ERROR_ARGUMENT, "there cannot be -1 facts");
  ac_ranks_abort(ranks, NULL);
  assert_refused(ac_ranks_barrier(ranks), AC_ERROR_STOPPED, "cannot go on");
  ac_ranks_close(ranks);
}

static void settings_are_checked(void **state) {
  (void)state;
  ac_ranks *list[MOST], *ranks;
  assert_refused(ac_ranks_open(&ranks, &(ac_ranks_desc){.engine = "nccl"}), AC_ERROR_ARGUMENT,
                 "no engine \"nccl\" for ranks; there are alone, openmpi and mpich");
  assert_null(ranks);
  assert_refused(ac_ranks_open(&ranks, &(ac_ranks_desc){.timeout = -1}), AC_ERROR_ARGUMENT,
                 "timeout of ranks must be positive");
  assert_refused(ac_ranks_open(&ranks, &(ac_ranks_desc){.engine = "mpich"}), AC_ERROR_STATE,
                 "MPICH needs its launcher");
#define REFUSED(sentence, count, ...)                                                         \
  assert_refused(ac_ranks_create_threads(list, count, &(ac_ranks_threads_desc){__VA_ARGS__}), \
                 AC_ERROR_ARGUMENT, sentence)
  REFUSED("1 to 65536 ranks, not 0", 0, .timeout = 1);
  REFUSED("only with a seed", 2, .killed_at = 3);
  REFUSED("only with a seed", 2, .latency = 1);
  REFUSED("no rank 2 among 2", 2, .seed = 1, .killed_at = 1, .killed_rank = 2);
  REFUSED("counted from 1", 2, .seed = 1, .lost_at = -1);
  REFUSED("must not be negative", 2, .seed = 1, .bandwidth = -1);
  assert_null(list[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_traffic_arrives),
      cmocka_unit_test(what_goes_to_others_is_counted),
      cmocka_unit_test(another_size_is_refused),
      cmocka_unit_test(a_silent_rank_is_named_by_all),
      cmocka_unit_test(a_rank_that_shows_life_is_waited_for),
      cmocka_unit_test(a_rank_that_ended_is_not_waited_for),
      cmocka_unit_test(ranks_and_tags_are_checked),
      cmocka_unit_test(facts_are_compared),
      cmocka_unit_test(one_rank_needs_no_launcher),
      cmocka_unit_test(settings_are_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
