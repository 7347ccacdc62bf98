/* The planned way of `accrue verify --ranks N`: windows that N ranks of this process share out,
 * each with a device and a trainer of its own. */
#ifndef TOOLS_PROGRAM_VERIFY_RANKS_H
#define TOOLS_PROGRAM_VERIFY_RANKS_H

#include "program/rank_threads.h"
#include "program/setup.h"
#include "program/verify_judge.h"

typedef struct verify_ranks {
  const setup *setup;
  int count;
  ac_device *devices[MOST_RANK_THREADS];
  ac_plan *plans[MOST_RANK_THREADS];
} verify_ranks;

/* Opens devices, and plans for each rank; `change` is the command's. Needs verify_ranks_close in
 * any case. A status of message.h. */
int verify_ranks_open(verify_ranks *ranks, const setup *s, int count,
                      void (*change)(ac_plan_desc *desc));
void verify_ranks_close(verify_ranks *ranks);

/* What the command does for one rank's trainer. */
typedef struct verify_steps {
  int64_t windows;
  void *user;
  /* Reads a window's samples, into the memory of `feed`. Rank 0 alone calls it. */
  ac_status (*read)(void *user, int64_t window);
  /* Sets the weights that it begins with. */
  ac_status (*begin)(void *user, ac_trainer *trainer, int64_t window);
  /* Accumulates samples [first, first + count) of it. */
  ac_status (*feed)(void *user, ac_trainer *trainer, int64_t first, int64_t count);
  /* While the update is decided, with the sums of all ranks: takes the gradient, if this rank
   * leads, and sets the one to step by. */
  ac_status (*decide)(void *user, ac_trainer *trainer, int64_t window, bool leads);
  /* After the update. Rank 0 alone calls it. */
  ac_status (*end)(void *user, ac_trainer *trainer, int64_t window, const ac_update *update);
} verify_steps;

/* Runs all windows. AC_ERROR_NOT_FINITE: one has no finite gradient. On failure the sentence is in
 * `sentence`; a status of message.h says whether threads could be started. */
int verify_ranks_run(const verify_ranks *ranks, const verify_steps *steps, ac_status *result);

#endif
