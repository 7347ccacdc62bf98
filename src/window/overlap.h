/* The exchange while steps run, by a thread that sleeps while it waits, because all processors
 * compute.
 *
 *   gradients   in the last micro-batch of a window it sends chunks of them to their owners as soon
 *               as nothing in the micro-batch changes them any more, and adds up what comes
 *   weights     after an update it gathers what the others have stepped (chunks.h), in the order in
 *               which a forward pass reads it. The next micro-batch begins meanwhile: each of its
 *               steps waits for what it reads, and all else that has to do with parameters for all
 *               of them (ac_exchange_settle)
 *
 * While it has one of these the transport is the thread's alone. What ranks tell each other at a
 * point between two windows, when weights may be on their way, it tells for the trainer.
 *
 * There is such a thread where two threads may use the device's memory at once (lane.h). Else
 * nothing is exchanged while steps run. Whether a rank overlaps is its own matter: messages and
 * sums are the same. */
#ifndef AC_WINDOW_OVERLAP_H
#define AC_WINDOW_OVERLAP_H

#include "core/error.h"

struct ac_trainer;
struct ac_thread;
struct ac_monitor;
struct ac_transfer;
struct ac_instance;
struct ac_lane;

typedef struct ac_overlap {
  struct ac_thread *thread; /* NULL: there is none */
  int *final;   /* by round: how many steps of the micro-batch have run when it may begin */
  bool *marked; /* by number of steps: a round, or the end, waits for it */
  struct ac_lane *lane;
  int64_t *needed; /* by step: after how many rounds of weights it may run */
  bool never;      /* not even with a thread; for tests */
  bool on;         /* gradients: between start and end */
  bool owed;       /* weights are on their way, or have come unnoticed */
  bool at_work;    /* the thread's: it moves sums or weights, */
  bool gathering;  /* or weights */
  ac_status late;  /* a failure of theirs that nobody was told, with the sentence */
  ac_kept_error late_error;
  int64_t early;           /* rounds of gradients that began before the micro-batch was over */
  int64_t waits;           /* steps that weights were not there for */
  double covered;          /* seconds that the thread has waited for others while steps ran */
  double blocked;          /* and the trainer's for weights, and for points meanwhile */
  struct ac_monitor *lock; /* what follows is read and written with this lock */
  double waited;           /* seconds that the thread has waited for others in this window */
  int steps;               /* of the micro-batch that have run */
  int awaited;             /* how many of them the thread waits for */
  double moved;            /* when that was last told */
  int64_t arrived;         /* rounds of weights */
  bool gathers;            /* the thread has weights to gather */
  bool lent;               /* it answers for this rank when it has nothing to do */
  bool meets;              /* and a point to come to */
  bool works, leaves;      /* and gradients of a window to exchange; it is to end */
  ac_status met;           /* what has come of the last point, with the sentence */
  ac_kept_error met_error;
  double counted;     /* seconds of it that the transport has counted as waiting */
  ac_status gathered; /* of weights */
  ac_kept_error gathered_error;
  ac_status status; /* of gradients */
  ac_kept_error error;
} ac_overlap;

/* Free it in any case. */
ac_status ac_overlap_create(struct ac_trainer *trainer);
void ac_overlap_free(struct ac_trainer *trainer);

/* What sums and weights are moved with: by the thread or, where it does not, by the trainer. */
const struct ac_instance *ac_overlap_instance(const struct ac_trainer *trainer);

/* Before the last micro-batch of a window runs, where there is a thread. */
void ac_overlap_start(struct ac_trainer *trainer);
/* When no step of it follows, also after a failure: waits until all is exchanged. */
ac_status ac_overlap_end(struct ac_trainer *trainer);
/* Between two steps: whether the exchange has failed. */
ac_status ac_overlap_check(ac_overlap *overlap);

/* After a rank has stepped its part of the parameters, where there is a thread. */
void ac_overlap_start_weights(struct ac_trainer *trainer);
/* Waits until so many rounds of them have come. */
ac_status ac_overlap_await_weights(ac_overlap *overlap, int64_t rounds);
/* Waits for all, and has the transport back. */
ac_status ac_overlap_end_weights(struct ac_trainer *trainer);
bool ac_overlap_has_weights(ac_overlap *overlap);
/* Comes to a point (ac_exchange_point) while weights are owed. */
ac_status ac_overlap_meet(struct ac_trainer *trainer);

/* Seconds that the transport has not counted as waiting, less those that it has counted though
 * steps ran. */
double ac_overlap_waited(const struct ac_trainer *trainer);

/* Waits for transfers of a point, and lets weights go on meanwhile, if this is the thread. */
ac_status ac_overlap_wait(struct ac_trainer *trainer, struct ac_transfer *list, int count);
/* Waits until a round may begin, and meanwhile lets the exchange's transfers go on. Without overlap
 * it may. */
ac_status ac_overlap_await(struct ac_trainer *trainer, int64_t round);

#endif
