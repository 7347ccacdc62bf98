/* POSIX. */
#include "core/platform/threads.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/error.h"

void ac_call_once(ac_once *flag, void (*once)(void)) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  if (!flag->state) {
    once();
    flag->state = 1;
  }
  pthread_mutex_unlock(&mutex);
}

struct ac_thread {
  pthread_t handle;
  void (*run)(void *user);
  void *user;
};

static void *run_thread(void *argument) {
  const ac_thread *thread = argument;
  thread->run(thread->user);
  return NULL;
}

ac_status ac_thread_start(ac_thread **thread, void (*run)(void *user), void *user) {
  *thread = NULL;
  ac_thread *made = malloc(sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "no memory for a thread");
  *made = (ac_thread){.run = run, .user = user};
  /* A thread inherits the mask of the one that starts it. */
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int error = pthread_create(&made->handle, NULL, run_thread, made);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (error) {
    free(made);
    return ac_fail(AC_ERROR_MEMORY, "cannot start a thread: %s", strerror(error));
  }
  *thread = made;
  return AC_OK;
}

void ac_thread_join(ac_thread *thread) {
  if (!thread) return;
  pthread_join(thread->handle, NULL);
  free(thread);
}

size_t ac_thread_stack_bytes(void) {
  pthread_attr_t attributes;
  size_t bytes = 0;
  if (pthread_attr_init(&attributes) != 0) return 0;
  if (pthread_attr_getstacksize(&attributes, &bytes) != 0) bytes = 0;
  pthread_attr_destroy(&attributes);
  return bytes;
}

struct ac_monitor {
  pthread_mutex_t mutex;
  pthread_cond_t condition;
};

ac_monitor *ac_monitor_create(void) {
  ac_monitor *made = malloc(sizeof *made);
  if (!made) return NULL;
  pthread_condattr_t monotonic; /* times of waits are by the clock of clock.h */
  bool locks = pthread_mutex_init(&made->mutex, NULL) == 0, waits = false;
  if (locks && pthread_condattr_init(&monotonic) == 0) {
    waits = pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) == 0 &&
            pthread_cond_init(&made->condition, &monotonic) == 0;
    pthread_condattr_destroy(&monotonic);
  }
  if (waits) return made;
  if (locks) pthread_mutex_destroy(&made->mutex);
  free(made);
  return NULL;
}

void ac_monitor_free(ac_monitor *monitor) {
  if (!monitor) return;
  pthread_cond_destroy(&monitor->condition);
  pthread_mutex_destroy(&monitor->mutex);
  free(monitor);
}

void ac_monitor_lock(ac_monitor *monitor) {
  pthread_mutex_lock(&monitor->mutex);
}

void ac_monitor_unlock(ac_monitor *monitor) {
  pthread_mutex_unlock(&monitor->mutex);
}

void ac_monitor_wait(ac_monitor *monitor) {
  pthread_cond_wait(&monitor->condition, &monitor->mutex);
}

void ac_monitor_wait_for(ac_monitor *monitor, double seconds) {
  const double most = 1e6; /* seconds; a wait may end early */
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  const double end = 1e-9 * (double)until.tv_nsec + (seconds < 0      ? 0
                                                     : seconds < most ? seconds
                                                                      : most);
  const time_t whole = (time_t)end;
  until.tv_sec += whole;
  until.tv_nsec = (long)((end - (double)whole) * 1e9);
  pthread_cond_timedwait(&monitor->condition, &monitor->mutex, &until);
}

void ac_monitor_wake(ac_monitor *monitor) {
  pthread_cond_broadcast(&monitor->condition);
}
