/* A wait is reported after it has lasted for a while. A thread watches for that, as a compiler that
 * takes long says nothing until it is done. */
#include "common/waiting.h"

#include "common/progress.h"
#include "common/terminal.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Seconds before a wait is reported, and between two lines if there is no terminal. */
static const double first_bar = 0.3, first_line = 1, next_line = 10;

static struct {
  pthread_mutex_t lock;
  pthread_cond_t changed;
  bool watched, waiting, terminal;
  double began, said; /* clock readings; said 0: nothing yet */
  int done, all;      /* of the latest wait */
  char line[160];
} state = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* The next line that is written overwrites it. */
static void draw(void) {
  terminal_draw(state.done, state.all, state.line);
  fputc('\r', stderr);
  fflush(stderr);
}

/* The time to report the line. A bar follows each line. */
static double due(void) {
  if (!state.waiting) return HUGE_VAL;
  if (state.said == 0) return state.began + (state.terminal ? first_bar : first_line);
  return state.terminal ? state.said : state.said + next_line;
}

static void tell_if_due(void) {
  const double now = progress_clock();
  if (now < due()) return;
  if (state.terminal) draw();
  else fprintf(stderr, "%s\n", state.line);
  state.said = now;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void sleep_until_due(void) {
  struct timespec until;
  const double seconds = fmax(due() - progress_clock(), 0);
  clock_gettime(CLOCK_REALTIME, &until);
  const double nanoseconds = (double)until.tv_nsec + 1e9 * (seconds - floor(seconds));
  until.tv_sec += (time_t)(floor(seconds) + floor(nanoseconds / 1e9));
  until.tv_nsec = (long)fmod(nanoseconds, 1e9);
  pthread_cond_timedwait(&state.changed, &state.lock, &until);
}

static void *watch(void *unused) {
  pthread_mutex_lock(&state.lock);
  for (;;) {
    const bool bar_stands = state.terminal && state.said > 0;
    if (!state.waiting || bar_stands) pthread_cond_wait(&state.changed, &state.lock);
    else if (progress_clock() < due()) sleep_until_due();
    else tell_if_due();
  }
  return unused;
}

/* Signals are for the threads that were there. Without this one, lines tell of those before. */
static void start_watching(void) {
  pthread_t thread;
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (pthread_create(&thread, NULL, watch, NULL) == 0) pthread_detach(thread);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  state.watched = true;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void go_on(const char *line) {
  int done, all;
  const char *counts = strrchr(line, '(');
  if (!state.waiting) {
    state.waiting = true;
    state.terminal = terminal_redraws(STDERR_FILENO);
    state.began = progress_clock();
    state.said = 0;
    state.all = 0;
  }
  if (counts && sscanf(counts, "(%d of %d)", &done, &all) == 2 && done <= all) {
    state.done = done;
    state.all = all;
  }
  snprintf(state.line, sizeof state.line, "%s", line);
  if (!state.watched) start_watching();
  tell_if_due();
}

/* Of short waits only warnings remain on the screen. */
static void end(ac_log_level level, const char *line) {
  const bool was_long = state.waiting && progress_clock() - state.began >= first_line;
  if (state.terminal && state.waiting && state.said > 0) terminal_erase();
  if (was_long || level >= AC_LOG_WARNING) fprintf(stderr, "%s\n", line);
  state.waiting = false;
}

void waiting_log(void *user, ac_log_level level, const char *line) {
  static const char ongoing[] = "...";
  (void)user;
  const size_t length = strlen(line), dots = sizeof ongoing - 1;
  if (level == AC_LOG_DEBUG) return;
  pthread_mutex_lock(&state.lock);
  if (length >= dots && !strcmp(line + length - dots, ongoing)) go_on(line);
  else end(level, line);
  pthread_cond_signal(&state.changed);
  pthread_mutex_unlock(&state.lock);
}
