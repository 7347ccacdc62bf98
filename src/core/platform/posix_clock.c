/* POSIX. */
#include "core/platform/clock.h"

#include <time.h>

double ac_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void ac_sleep(double seconds) {
  if (!(seconds > 0)) return;
  const time_t whole = (time_t)seconds;
  const struct timespec time = {whole, (long)((seconds - (double)whole) * 1e9)};
  nanosleep(&time, NULL);
}
