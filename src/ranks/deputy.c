#include "ranks/deputy.h"

#include "core/platform/clock.h"

enum { ANSWERS = 16 }; /* within a timeout */

static void stand_in(void *user) {
  ac_deputy *d = user;
  ac_monitor_lock(d->lock);
  while (!d->ends && ac_clock() < d->until) {
    d->answer(d->user);
    if (!d->ends) ac_monitor_wait_for(d->lock, d->pause);
  }
  ac_monitor_unlock(d->lock);
}

void ac_deputy_begin(ac_deputy *d, double timeout, void (*answer)(void *user), void *user) {
  if (d->depth++) return;
  *d = (ac_deputy){.depth = 1,
                   .lock = ac_monitor_create(),
                   .pause = timeout / ANSWERS,
                   .until = ac_clock() + AC_DEPUTY_TIMEOUTS * timeout,
                   .answer = answer,
                   .user = user};
  if (!d->lock || ac_thread_start(&d->thread, stand_in, d) == AC_OK) return;
  ac_monitor_free(d->lock);
  *d = (ac_deputy){.depth = 1};
}

void ac_deputy_end(ac_deputy *d) {
  if (d->depth == 0 || --d->depth) return;
  if (!d->lock) return;
  ac_monitor_lock(d->lock);
  d->ends = true;
  ac_monitor_wake(d->lock);
  ac_monitor_unlock(d->lock);
  ac_thread_join(d->thread);
  ac_monitor_free(d->lock);
  *d = (ac_deputy){0};
}
