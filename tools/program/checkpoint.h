/* States of a run that is under way: saved every so often, the newest whole one loaded to go on. */
#ifndef TOOLS_PROGRAM_CHECKPOINT_H
#define TOOLS_PROGRAM_CHECKPOINT_H

#include "program/metrics.h"
#include "program/run_folder.h"
#include "program/setup.h"

typedef struct checkpoint {
  const setup *setup;
  const run_folder *folder;
  const char *run; /* its id (run_record.h) */
  ac_trainer *trainer;
  int64_t saved_step; /* of the last state */
  double saved_at;    /* progress_clock */
  bool failing;       /* the last one could not be saved, which has been said */
  double best;        /* least validation loss so far; infinity: none */
} checkpoint;

void checkpoint_begin(checkpoint *c, const setup *s, const run_folder *folder, const char *run,
                      ac_trainer *trainer);

/* Whether --save-every or --save-minutes says so. */
bool checkpoint_is_due(const checkpoint *c, int64_t step);

/* Saves a state and removes what is older than the last --keep. Training goes on where that fails:
 * it is said once, and tried again the next time. */
void checkpoint_save(checkpoint *c, int64_t step, const metrics *m);

/* Loads the newest whole state of the run, with a warning for each that is not. *step: the one it
 * was saved at, -1 where there is none; *metrics_bytes: what the metrics had by then. Returns a
 * status of message.h. */
int checkpoint_resume(checkpoint *c, int64_t *step, int64_t *metrics_bytes);

/* The micro-batch of the newest state of such a batch, so that the bits can be the same; 0:
 * unknown. Returns a status of message.h. */
int checkpoint_micro_batch(const run_folder *folder, int64_t batch, int64_t *micro_batch);

#endif
