/* States of a run: saved every so often. The newest whole one is loaded to resume the run. */
#ifndef TOOLS_PROGRAM_CHECKPOINT_H
#define TOOLS_PROGRAM_CHECKPOINT_H

#include "program/metrics.h"
#include "program/run_folder.h"
#include "program/run_record.h"

typedef struct checkpoint {
  const setup *setup;
  const run_folder *folder;
  run_record *record;
  ac_trainer *trainer;
  int64_t saved_step;     /* update of the last state; -1: none */
  int64_t tried_step;     /* update of the last try to save one */
  double saved_at;        /* progress_clock */
  bool failing;           /* the last one could not be saved */
  char problem[1024];     /* why */
  bool average_due;       /* the last evaluation lacks the averages: it was stopped */
  int64_t evaluated_step; /* of the last validation on all samples; -1: none */
  double best;            /* least validation loss so far; infinity: none */
  double began;           /* progress_clock */
  double before;          /* seconds of the run before this start */
} checkpoint;

void checkpoint_begin(checkpoint *c, const setup *s, const run_folder *folder, run_record *record,
                      ac_trainer *trainer);

/* Seconds of the run, including earlier starts as far as they count. */
double checkpoint_seconds(const checkpoint *c);

/* Whether --save-every or --save-minutes says so. */
bool checkpoint_is_due(const checkpoint *c, int64_t step);

/* Saves a state. False: it could not; `problem` says why, and the next time it is tried again. A
 * file of another run in its place stays. Then states that are older than the last --keep are
 * removed, if the folder's record is this run's. */
bool checkpoint_save(checkpoint *c, int64_t step, metrics *m);

/* Loads the newest whole state of the run, with a warning for each one that cannot be used. Refuses
 * other data. *step: the update at which it was saved, -1: there is none; *metrics_bytes: the bytes
 * of metrics at that time. Returns a status of message.h. */
int checkpoint_resume(checkpoint *c, int64_t *step, int64_t *metrics_bytes);

#endif
