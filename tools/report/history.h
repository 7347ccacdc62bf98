/* What a run's folder says about the run: run.json, the metrics that its flags name, examples.json
 * of `accrue train --examples`, and eval.json, if somebody has put the output of `accrue eval
 * --json` there. */
#ifndef TOOLS_REPORT_HISTORY_H
#define TOOLS_REPORT_HISTORY_H

#include "report/spikes.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { HISTORY_PATH = 4096 };

typedef enum history_value {
  HISTORY_LOSS,
  HISTORY_ACCURACY,
  HISTORY_LR,
  HISTORY_GRAD_NORM,
  HISTORY_LOSS_SCALE,
  HISTORY_RATE,  /* samples a second */
  HISTORY_BATCH, /* samples */
  HISTORY_MEAN_IOU,
  HISTORY_VALUES
} history_value;

typedef struct history_point {
  double step;
  double values[HISTORY_VALUES]; /* NAN: there is none */
} history_point;

typedef struct history_series {
  history_point *points; /* their updates increase */
  size_t count, room;
} history_series;

typedef struct history {
  char name[HISTORY_PATH]; /* the folder, as it was named */
  dev_t device;            /* identifies the folder, with inode */
  ino_t inode;
  json_t *record;                /* run.json */
  json_t *plan, *end;            /* of the metrics; NULL: none */
  json_t *layers, *noise_layers; /* the last such lines; NULL: none */
  json_t *evaluation;            /* eval.json; NULL: none */
  json_t *examples;              /* examples.json; NULL: none of this run */
  char metrics[HISTORY_PATH];    /* "": none */
  char strange[HISTORY_PATH];    /* the metrics of another run that were found; "": none */
  dev_t metrics_device;
  ino_t metrics_inode;
  char lacking[2 * HISTORY_PATH + 256]; /* a sentence on why there are no metrics; "": there are */
  history_series steps, evaluations, averages; /* averages: evaluations of averaged weights */
  spike_lines spikes;
  size_t damaged, first_damaged; /* lines without metrics that were left out; a line's number */
} history;

/* Reads a run's folder. If metrics are missing or have damaged lines, a message says so, and the
 * page repeats it. A status of message.h; free in any case. */
int history_read(history *h, const char *folder);
void history_free(history *h);

/* Which of evaluation and examples has something under a key, the evaluation first. NULL: neither.
 */
const json_t *history_answers(const history *h, const char *key);

/* Each run may be given once. If several runs have written the same metrics file, it belongs to the
 * one that began last; the others have no metrics, and a message says so. A status of message.h. */
int histories_check(history *runs, size_t count);

#endif
