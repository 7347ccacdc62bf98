/* A run of training while it lasts, for the files that `accrue train` consists of. */
#ifndef TOOLS_PROGRAM_TRAINING_H
#define TOOLS_PROGRAM_TRAINING_H

#include "common/progress.h"
#include "program/checkpoint.h"
#include "program/metrics.h"
#include "program/run_record.h"
#include "program/setup.h"
#include "program/train_run.h"

typedef struct run {
  const train_wish *wish;
  setup setup;
  metrics metrics;
  char metrics_path[RUN_PATH_BYTES]; /* the default */
  progress progress;
  run_folder folder;
  json_t *before; /* record of the run that is resumed; NULL: none */
  run_record record;
  char replaced[RUN_ID_BYTES]; /* the run that this one replaces; "": none that is known */
  bool after_another;          /* it replaces one; that record stays until there is a state */
  bool model_is_best;          /* but it could not be saved again under its own name */
  double lost_best;            /* least validation loss of a model that could not be saved */
  bool trained;                /* no window follows */
  bool saved_early;            /* the model, before the final evaluation */
  bool state_missed;           /* could not be saved in this event */
  bool diverged;
  bool average_worthless; /* its last validation loss is not finite */
  bool stopping;          /* and a message has said so */
  checkpoint checkpoint;
  ac_trainer *trainer;
  ac_fit_result result;
  double began;
  int64_t step;          /* the last update that is done, or skipped */
  int64_t updates;       /* updates that were not skipped */
  int64_t validated;     /* samples of the last validation */
  double window_seconds; /* the last window's */
  double loss;           /* of the last update; NAN: there is none yet */
  int save_status;       /* of saving models; STATUS_DONE: the last one is not saved yet */
  int state_status;      /* of the last state */
  int policy_status;     /* of the last window */
} run;

/* Whether only problems are reported: with --quiet, or because the command reports results itself.
 */
static inline bool is_quiet(const run *r) {
  return r->wish->quiet || r->setup.flags.quiet;
}

/* Creates the trainer, takes over what there is of a run that is resumed, and opens metrics. What
 * may refuse the run comes before anything is written. A status of message.h. */
int training_begin(run *r);

/* What the flags ask of a fit. */
ac_fit_desc training_fit_desc(run *r, const char *good, ac_fit_callback callback,
                              bool (*stop)(void *user));

/* What a fit asks after each micro-batch, and an evaluation: whether it is to stop. */
bool training_on_micro_batch(void *user);

ac_status training_save_weights(run *r, const char *path);
/* Average and model. */
int training_save_model(run *r);
/* What --examples asks for, after the last validation. */
int training_keep_examples(run *r);
/* Validates averages; if the run was stopped before that, when it is resumed. */
int training_validate_average(run *r);
int training_make_up_average(run *r);

#endif
