#include "program/stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

/* The first signal, and its time in milliseconds of a clock that starts anywhere; 0: none came. */
static atomic_int first;
static atomic_ulong requested;

static unsigned long milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (unsigned long)now.tv_sec * 1000 + (unsigned long)now.tv_nsec / 1000000;
}

/* The first signal ends the run after the current micro-batch, a later one ends the program at
 * once. Signals within one second count as one: `timeout` sends it to the program and then to the
 * program's group. */
static void on_signal(int number) {
  enum { SAME = 1000 };
  unsigned long none = 0, now = milliseconds();
  if (atomic_compare_exchange_strong(&requested, &none, now ? now : 1)) {
    first = number;
    return;
  }
  if (now < none + SAME) return; /* a signal that came in between may have stored a later time */
  signal(number, SIG_DFL);
  raise(number);
}

void stop_watch(void) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    sigaddset(&action.sa_mask, numbers[i]);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
      sigaction(numbers[i], &action, NULL);
}

int stop_signal(void) {
  return first;
}
