#include "rank_threads.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct rank_thread {
  pthread_t handle;
  ac_ranks *ranks;
  int rank;
  void (*body)(ac_ranks *ranks, int rank, void *user);
  void *user;
} rank_thread;

static void *run(void *argument) {
  const rank_thread *thread = argument;
  thread->body(thread->ranks, thread->rank, thread->user);
  return NULL;
}

void run_rank_threads(ac_ranks *const *list, int count,
                      void (*body)(ac_ranks *ranks, int rank, void *user), void *user) {
  rank_thread *threads = calloc((size_t)count, sizeof *threads);
  if (!threads) abort();
  for (int r = 0; r < count; r++) {
    threads[r] = (rank_thread){.ranks = list[r], .rank = r, .body = body, .user = user};
    if (pthread_create(&threads[r].handle, NULL, run, &threads[r]) != 0) abort();
  }
  for (int r = 0; r < count; r++) pthread_join(threads[r].handle, NULL);
  free(threads);
}
