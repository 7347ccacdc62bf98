#include "program/rank_threads.h"

#include "common/message.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

typedef struct rank_thread {
  pthread_t handle;
  ac_ranks *ranks;
  bool (*body)(void *user, ac_ranks *ranks);
  void *user;
} rank_thread;

static void *run(void *argument) {
  rank_thread *t = argument;
  if (!t->body(t->user, t->ranks)) ac_ranks_abort(t->ranks, ac_last_error());
  ac_ranks_close(t->ranks);
  return NULL;
}

/* Signals are for the thread that leads. */
static int start(rank_thread *t) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  const int error = pthread_create(&t->handle, NULL, run, t);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return error ? fail("cannot start a thread for rank %d: %s", ac_ranks_rank(t->ranks),
                      strerror(error))
               : STATUS_CONTINUE;
}

int rank_threads_run(int count, double timeout, bool (*body)(void *user, ac_ranks *ranks),
                     void *user) {
  rank_thread threads[MOST_RANK_THREADS];
  ac_ranks *list[MOST_RANK_THREADS];
  const ac_ranks_threads_desc desc = {.timeout = timeout};
  if (ac_ranks_create_threads(list, count, &desc) != AC_OK) return fail_library();
  int status = STATUS_CONTINUE, started = 1;
  for (int r = 0; r < count; r++) threads[r] = (rank_thread){0, list[r], body, user};
  while (started < count && status == STATUS_CONTINUE)
    if ((status = start(&threads[started])) == STATUS_CONTINUE) started++;
  if (status == STATUS_CONTINUE) {
    run(&threads[0]);
  } else {
    ac_ranks_abort(list[0], "not all ranks have a thread");
    ac_ranks_close(list[0]);
  }
  for (int r = started; r < count; r++) ac_ranks_close(list[r]);
  for (int r = 1; r < started; r++) pthread_join(threads[r].handle, NULL);
  return status;
}
