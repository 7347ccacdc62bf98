/* What a run's folder tells of the run: run.json, the metrics that its flags name, and eval.json,
 * which is what `accrue eval --json` printed, if somebody has put it there. */
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
  HISTORY_VALUES
} history_value;

typedef struct history_point {
  double step;
  double values[HISTORY_VALUES]; /* NAN: there is none */
} history_point;

typedef struct history_series {
  history_point *points; /* their steps increase */
  size_t count, room;
} history_series;

typedef struct history {
  char name[HISTORY_PATH]; /* the folder, as it was named */
  dev_t device;            /* with inode: which folder it is */
  ino_t inode;
  json_t *record;                /* run.json */
  json_t *plan, *end;            /* of the metrics; NULL: none */
  json_t *layers, *noise_layers; /* the last such lines; NULL: none */
  json_t *evaluation;            /* eval.json; NULL: none */
  char metrics[HISTORY_PATH];    /* "": none */
  char strange[HISTORY_PATH];    /* metrics where they should be, but of another run; "": none */
  dev_t metrics_device;
  ino_t metrics_inode;
  char lacking[2 * HISTORY_PATH + 256]; /* a sentence on why there are no metrics; "": there are */
  history_series steps, evaluations, averages; /* averages: evaluations of averaged weights */
  spike_lines spikes;
  size_t damaged, first_damaged; /* lines without metrics that were left out; a line's number */
} history;

/* Reads a run's folder. Metrics that are missing or have damaged lines are said on stderr and kept
 * in mind. A status of message.h; free in any case. */
int history_read(history *h, const char *folder);
void history_free(history *h);

/* Each run is there once. Where several have written the same metrics file, it holds those of the
 * last that began; the others lose theirs, which is said. A status of message.h. */
int histories_check(history *runs, size_t count);

#endif
