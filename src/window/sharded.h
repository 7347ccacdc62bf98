/* Windows with gradients that are divided among ranks (AC_GRADIENTS_SHARDED). While a micro-batch
 * runs, rounds of chunks go to their owners as soon as their gradients are final (plan/shed.c), and
 * an owner adds what all ranks have there, in the order of ranks, to its sum. A round travels while
 * the next steps run, and ends between two of them: at the latest when the second one after it
 * begins, or the micro-batch is over. What is sent is copied before, so gradients need not wait.
 * Before each micro-batch ranks meet and tell whether they have one. Those that have none send
 * zeros, until nobody has one any more. */
#ifndef AC_WINDOW_SHARDED_H
#define AC_WINDOW_SHARDED_H

#include <accrue/base.h>

struct ac_trainer;

typedef struct ac_sharded {
  int *places;    /* by round of gradients: how many steps of a micro-batch have run when it is
                     exchanged; NULL: gradients are not divided */
  void **handles; /* by storage: a micro-batch's gradient */
  int64_t begun, ended; /* rounds */
  int64_t summed;       /* how many micro-batches of all ranks this window's sums have */
  bool on;              /* a micro-batch runs */
} ac_sharded;

static inline bool ac_sharded_is_on(const ac_sharded *sharded) {
  return sharded->places != NULL;
}

/* Free it in any case. */
ac_status ac_sharded_create(struct ac_trainer *trainer);
void ac_sharded_free(struct ac_trainer *trainer);

/* Runs a micro-batch and exchanges its gradients. After a failure the others get zeros for what is
 * left, so that they learn of it at the next point. */
ac_status ac_sharded_run(struct ac_trainer *trainer, bool fresh);
/* When this rank has no more micro-batches of a window: takes part until no rank has. */
ac_status ac_sharded_finish(struct ac_trainer *trainer);
/* Likewise, if the window is thrown away before it was summed up. */
ac_status ac_sharded_discard(struct ac_trainer *trainer);

/* What is told how many steps of a micro-batch have run; `user` is the trainer. */
ac_status ac_sharded_follow(void *user, int steps);

/* The first element of a tensor that its cell has. */
int64_t ac_sharded_first(const struct ac_trainer *trainer, int tensor);

#endif
