/* What tests/ranks/run.sh starts under a launcher: one rank.
 *
 *   info            rank, size, ranks of this machine, threads and engine
 *   traffic SEED    random traffic with known contents, and a hash of all that came
 *   threads N SEED  the same by N ranks of this process
 *   pieces          messages that travel in pieces, and one of 48 MiB
 *   huge            one of 2200 MiB to each next rank; by hand, it takes 4.3 GiB for each rank
 *   size            a receiver expects another size than was sent
 *   die R           rank R dies by a signal while the others wait
 *   stall R         rank R sleeps while the others wait for each other, and one for it
 *   leave R         rank R ends before it opens its ranks
 *   differ R        rank R has another fact
 *   engine NAME     opens with this engine */
#include <accrue/accrue.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/platform/clock.h"
#include "ranks/engine.h"
#include "ranks/ranks.h"
#include "support/rank_threads.h"
#include "support/rank_traffic.h"

enum { MOST_THREADS = 16 };
#define TIMEOUT 2.0
#define HUGE_TIMEOUT 120.0 /* filling 2 GiB takes a while */

static int refuse(void) {
  fprintf(stderr, "error: %s\n", ac_last_error());
  return 1;
}

/* As a program has to: it says why, and ends all. */
static int end_all(ac_ranks *ranks) {
  const int status = refuse();
  ac_ranks_abort(ranks, ac_last_error());
  ac_ranks_close(ranks);
  return status;
}

static int info(ac_ranks *ranks) {
  printf("rank %d of %d, %d of %d on this machine, %d threads, %s\n", ac_ranks_rank(ranks),
         ac_ranks_size(ranks), ac_ranks_local_rank(ranks), ac_ranks_local_size(ranks),
         ac_ranks_threads(ranks), ac_ranks_engine(ranks));
  return 0;
}

static traffic traffic_of(const char *seed) {
  return (traffic){
      .seed = strtoull(seed, NULL, 10), .rounds = 12, .most_bytes = 300000, .polls = true};
}

static int print_traffic(int rank, const traffic_result *result) {
  if (result->status != AC_OK) return fprintf(stderr, "rank %d: %s\n", rank, result->sentence), 1;
  printf("rank %d: %d rounds, %d wrong, hash %016llx\n", rank, result->rounds, result->wrong,
         (unsigned long long)result->hash);
  return result->wrong > 0;
}

static int move_traffic(ac_ranks *ranks, const char *seed) {
  traffic_result result;
  const traffic what = traffic_of(seed);
  run_traffic(ac_ranks_transport(ranks), &what, &result);
  return print_traffic(ac_ranks_rank(ranks), &result);
}

typedef struct thread_run {
  traffic what;
  traffic_result results[MOST_THREADS];
} thread_run;

static void thread_body(ac_ranks *ranks, int rank, void *user) {
  thread_run *run = user;
  run_traffic(ac_ranks_transport(ranks), &run->what, &run->results[rank]);
  (void)ac_ranks_barrier(ranks);
  ac_ranks_close(ranks);
}

static int move_in_threads(int count, const char *seed) {
  static thread_run run;
  ac_ranks *list[MOST_THREADS];
  run.what = traffic_of(seed);
  if (count > MOST_THREADS || ac_ranks_create_threads(list, count, NULL) != AC_OK) return refuse();
  run_rank_threads(list, count, thread_body, &run);
  int failed = 0;
  for (int r = 0; r < count; r++) failed |= print_traffic(r, &run.results[r]);
  return failed;
}

/* A ring of large messages of one tag, each followed by small ones, which must not overtake it. */
static int move_pieces(ac_ranks *ranks, uint64_t piece, uint64_t size) {
  ac_transport *t = ac_ranks_transport(ranks);
  const int rank = ac_ranks_rank(ranks), count = ac_ranks_size(ranks);
  const int to = (rank + 1) % count, from = (rank + count - 1) % count;
  ac_transport_engine(t)->piece = piece;
  unsigned char *out = malloc(size), *in = calloc(1, size), small[8], got[8] = {0};
  ac_transfer list[18];
  ac_status status = out && in ? AC_OK : AC_ERROR_MEMORY;
  for (uint64_t i = 0; out && i < size; i++)
    out[i] = (unsigned char)(i * 7 + i / 251 + (uint64_t)rank);
  for (int i = 0; i < 8; i++) small[i] = (unsigned char)(rank + i);
  if (status == AC_OK) status = ac_transport_begin_send(t, to, 3, out, size, &list[0]);
  for (int i = 0; i < 8 && status == AC_OK; i++)
    status = ac_transport_begin_send(t, to, 3, &small[i], 1, &list[1 + i]);
  if (status == AC_OK) status = ac_transport_begin_receive(t, from, 3, in, size, &list[9]);
  for (int i = 0; i < 8 && status == AC_OK; i++)
    status = ac_transport_begin_receive(t, from, 3, &got[i], 1, &list[10 + i]);
  if (status == AC_OK) status = ac_transport_wait(t, list, 18);
  int wrong = 0;
  for (uint64_t i = 0; status == AC_OK && i < size; i++)
    wrong += in[i] != (unsigned char)(i * 7 + i / 251 + (uint64_t)from);
  for (int i = 0; i < 8; i++) wrong += got[i] != (unsigned char)(from + i);
  free(out);
  free(in);
  if (status != AC_OK) return end_all(ranks);
  if (wrong) fprintf(stderr, "rank %d: %d bytes are wrong\n", rank, wrong);
  return wrong > 0;
}

static int differ_in_size(ac_ranks *ranks) {
  char bytes[100] = {0};
  ac_transport *t = ac_ranks_transport(ranks);
  ac_status status = ac_ranks_rank(ranks) == 0   ? ac_transport_send(t, 1, 9, bytes, 70)
                     : ac_ranks_rank(ranks) == 1 ? ac_transport_receive(t, 0, 9, bytes, 50)
                                                 : AC_OK;
  if (status == AC_OK) status = ac_ranks_barrier(ranks);
  return status == AC_OK ? 0 : end_all(ranks);
}

/* Each waits for the next one, and the last for `faulty`, which does something else. */
static int wait_for_faulty(ac_ranks *ranks, int faulty, bool dies) {
  ac_transport *t = ac_ranks_transport(ranks);
  const int rank = ac_ranks_rank(ranks), size = ac_ranks_size(ranks);
  char byte;
  if (ac_ranks_barrier(ranks) != AC_OK) return end_all(ranks);
  if (rank == faulty && dies) raise(SIGKILL);
  if (rank == faulty) ac_sleep(1000);
  return ac_transport_receive(t, (rank + 1) % size, 1, &byte, 1) == AC_OK ? 0 : end_all(ranks);
}

static int differ_in_facts(ac_ranks *ranks, int odd) {
  const bool is_odd = ac_ranks_rank(ranks) == odd;
  const ac_ranks_fact facts[] = {
      {"the version", "0.1.0"}, {"--lr", is_odd ? "0.2" : "0.1"}, {"the data", is_odd ? "b" : "a"}};
  return ac_ranks_agree(ranks, facts, 3) == AC_OK ? 0 : refuse();
}

static void print_warning(void *user, ac_log_level level, const char *line) {
  (void)user;
  (void)level;
  fprintf(stderr, "warning: %s\n", line);
}

static int run(ac_ranks *ranks, const char *what, const char *value) {
  if (!strcmp(what, "traffic")) return move_traffic(ranks, value);
  if (!strcmp(what, "pieces"))
    return move_pieces(ranks, 1000, 123457) || move_pieces(ranks, UINT64_C(1) << 26, 48 << 20);
  if (!strcmp(what, "huge")) return move_pieces(ranks, UINT64_C(1) << 26, UINT64_C(2200) << 20);
  if (!strcmp(what, "size")) return differ_in_size(ranks);
  if (!strcmp(what, "die")) return wait_for_faulty(ranks, atoi(value), true);
  if (!strcmp(what, "stall")) return wait_for_faulty(ranks, atoi(value), false);
  if (!strcmp(what, "differ")) return differ_in_facts(ranks, atoi(value));
  return info(ranks);
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "info", *value = argc > 2 ? argv[2] : "";
  if (!strcmp(what, "threads") && argc > 3) return move_in_threads(atoi(value), argv[3]);
  const char *own =
      getenv("OMPI_COMM_WORLD_RANK") ? getenv("OMPI_COMM_WORLD_RANK") : getenv("PMI_RANK");
  if (!strcmp(what, "leave") && own && !strcmp(own, value))
    return fprintf(stderr, "error: rank %s has no data\n", own), 1;
  ac_ranks *ranks;
  const ac_ranks_desc desc = {.timeout = strcmp(what, "huge") ? TIMEOUT : HUGE_TIMEOUT,
                              .engine = strcmp(what, "engine") ? NULL : value,
                              .log = print_warning};
  if (ac_ranks_open(&ranks, &desc) != AC_OK) return refuse();
  const int status = run(ranks, what, value);
  ac_ranks_close(ranks);
  return status;
}
