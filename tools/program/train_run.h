/* One run of training as `accrue train` makes it, for commands that make several. */
#ifndef TOOLS_PROGRAM_TRAIN_RUN_H
#define TOOLS_PROGRAM_TRAIN_RUN_H

#include "common/run_id.h"
#include "program/data.h"
#include "program/plan_cache.h"

typedef struct train_wish {
  plan_cache *cache;     /* lends device and plans; NULL: none */
  int64_t pause_step;    /* as in ac_fit_desc */
  double pause_seconds;  /* limit of this run; 0: --max-minutes */
  bool quiet;            /* the command reports results itself */
  const char *pilot;     /* its id, which the run's record has; NULL: of no pilot */
  int pilot_run;         /* which of its runs, from 1 */
  ac_ranks *ranks;       /* that train together; NULL: one */
  const char *device;    /* in the place of the flag's; NULL: the flag's */
  shared_tokens *tokens; /* as in setup_words */
  const char *data;      /* what the fingerprint of its data begins with; NULL: anything */
} train_wish;

typedef struct train_summary {
  bool interrupted;   /* by a signal, or by its policy */
  int signal;         /* that it was; 0: none */
  bool paused;        /* at the wished update, or because its time is over */
  bool out_of_tokens; /* and because --max-tokens are used up */
  bool diverged;      /* also where only a validation at its end shows it */
  char run[RUN_ID_BYTES];
  int64_t steps;
  int64_t tokens_per_sample; /* 0: samples are not made of tokens */
} train_summary;

/* argv as for `accrue train`: the model's kind, then flags. Returns the exit status. */
int train_run(int argc, char **argv, const train_wish *wish, train_summary *summary);

#endif
