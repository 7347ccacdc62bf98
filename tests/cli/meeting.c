/* A clock_gettime for a program that it is loaded before. The first time that SIGTERM's handler
 * asks for the time, a SIGINT comes before the answer is returned, some milliseconds after it was
 * read.
 */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

typedef int clock_function(clockid_t, struct timespec *);

/* Signals are blocked while they are handled; by threads that want none, all are. */
static bool in_handler(void) {
  sigset_t blocked;
  sigemptyset(&blocked);
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  return sigismember(&blocked, SIGTERM) && !sigismember(&blocked, SIGUSR1);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  static volatile sig_atomic_t met;
  clock_function *next;
  *(void **)&next = dlsym(RTLD_NEXT, "clock_gettime");
  const int result = next(clock, time);
  if (!met && in_handler()) {
    met = 1;
    nanosleep(&(struct timespec){0, 5000000}, NULL);
    raise(SIGINT);
  }
  return result;
}
