/* The exchange of gradients while backward goes on: in the last micro-batch of a window a thread
 * sends chunks of gradients to their owners as soon as nothing in the micro-batch changes them any
 * more, and adds up what comes (chunks.h). From start to end the transport and the exchange are the
 * thread's alone. It sleeps while it waits, because all processors compute.
 *
 * There is such a thread where the device's memory is the host's, which two threads may read at
 * once. Else chunks are exchanged after the last micro-batch. Whether a rank overlaps is its own
 * matter: messages and sums are the same. */
#ifndef AC_WINDOW_OVERLAP_H
#define AC_WINDOW_OVERLAP_H

#include "core/error.h"

struct ac_trainer;
struct ac_thread;
struct ac_monitor;

typedef struct ac_overlap {
  struct ac_thread *thread; /* NULL: there is none */
  int *final;     /* by round: how many steps of the micro-batch have run when it may begin */
  bool never;     /* not even with a thread; for tests */
  bool on;        /* between start and end */
  int64_t early;  /* rounds that began before the micro-batch was over */
  double covered; /* seconds that the thread has waited for others while steps ran */
  struct ac_monitor *lock; /* what follows is read and written with this lock */
  double waited;           /* seconds that the thread has waited for others in this window */
  int steps;               /* of the micro-batch that have run */
  int awaited;             /* how many of them the thread waits for */
  double moved;            /* when that was last told */
  bool works, leaves;      /* the thread has a window to exchange; it is to end */
  ac_status status;        /* what has come of it, with the sentence */
  ac_kept_error error;
} ac_overlap;

/* Free it in any case. */
ac_status ac_overlap_create(struct ac_trainer *trainer);
void ac_overlap_free(struct ac_trainer *trainer);

/* Before the last micro-batch of a window runs, where there is a thread. */
void ac_overlap_start(struct ac_trainer *trainer);
/* When no step of it follows, also after a failure: waits until all is exchanged. */
ac_status ac_overlap_end(struct ac_trainer *trainer);
/* Between two steps: whether the exchange has failed. */
ac_status ac_overlap_check(ac_overlap *overlap);

/* Waits until a round may begin, and meanwhile lets the exchange's first `count` transfers go on.
 * Without overlap it may. */
ac_status ac_overlap_await(struct ac_trainer *trainer, int64_t round, int count);

#endif
