/* `accrue train --json`: what came of a run, as one JSON object. */
#ifndef TOOLS_PROGRAM_TRAIN_JSON_H
#define TOOLS_PROGRAM_TRAIN_JSON_H

#include "program/setup.h"

typedef struct train_end {
  const setup *setup;
  const ac_fit_result *fit;
  const char *outcome;         /* "done" */
  const char *folder, *run;    /* the run's id */
  const char *weights, *state; /* paths; NULL: nothing is saved */
  int64_t step;                /* of the whole run */
  double loss;                 /* of the last update's batch; NAN: none was made */
  double seconds;              /* of this start of the program */
} train_end;

/* Prints it on stdout. A status of message.h. */
int train_json_put(const train_end *end);

#endif
