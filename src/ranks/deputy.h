/* A thread that answers for a rank while this does something long that has nothing to do with the
 * others, such as writing a file. */
#ifndef AC_RANKS_DEPUTY_H
#define AC_RANKS_DEPUTY_H

#include <accrue/base.h>

#include "core/platform/threads.h"

/* So many timeouts long: a disk that is slow is not dead, but one that never answers is. */
enum { AC_DEPUTY_TIMEOUTS = 30 };

/* All zeros: there is none. */
typedef struct ac_deputy {
  int depth;         /* begun and not ended */
  ac_monitor *lock;  /* NULL: no thread answers */
  ac_thread *thread; /* which calls `answer` with the lock */
  bool ends;
  double pause, until; /* seconds between answers; when it gives up */
  void (*answer)(void *user);
  void *user;
} ac_deputy;

/* From now on `answer` is called several times within a timeout. Each call needs its end. Without a
 * thread or memory nobody answers, as if this had not been called. */
void ac_deputy_begin(ac_deputy *deputy, double timeout, void (*answer)(void *user), void *user);
void ac_deputy_end(ac_deputy *deputy);

/* Around what the rank does itself meanwhile: the thread keeps still. */
static inline void ac_deputy_hold(ac_deputy *deputy) {
  if (deputy->lock) ac_monitor_lock(deputy->lock);
}
static inline void ac_deputy_let_go(ac_deputy *deputy) {
  if (deputy->lock) ac_monitor_unlock(deputy->lock);
}

#endif
