/* States of a run that is under way: saved every so often, the newest whole one loaded to go on. */
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
  int64_t saved_step;     /* of the last state; -1: none */
  int64_t tried_step;     /* and of the last that was to be one */
  double saved_at;        /* progress_clock */
  bool failing;           /* the last one could not be saved */
  char problem[1024];     /* why */
  bool average_due;       /* the last evaluation lacks that of averages, which was stopped */
  int64_t evaluated_step; /* of the last validation on all samples; -1: none */
  double best;            /* least validation loss so far; infinity: none */
  double began;           /* progress_clock */
  double before;          /* seconds of the run until the state that it goes on from */
} checkpoint;

void checkpoint_begin(checkpoint *c, const setup *s, const run_folder *folder, run_record *record,
                      ac_trainer *trainer);

/* Of the run, earlier lives included as far as they count. */
double checkpoint_seconds(const checkpoint *c);

/* Whether --save-every or --save-minutes says so. */
bool checkpoint_is_due(const checkpoint *c, int64_t step);

/* Saves a state, and says whether that went well: `problem` tells what did not, and it is tried
 * again the next time. What another run has left in its place stays. Then what is older than the
 * last --keep goes, once the folder's record is this run's. */
bool checkpoint_save(checkpoint *c, int64_t step, metrics *m);

/* Loads the newest whole state of the run, with a warning for each that cannot be used. Other data
 * are refused. *step: the one it was saved at, -1
 * where there is none; *metrics_bytes: what the metrics had by then. Returns a status of message.h.
 */
int checkpoint_resume(checkpoint *c, int64_t *step, int64_t *metrics_bytes);

#endif
