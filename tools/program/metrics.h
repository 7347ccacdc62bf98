/* --metrics FILE: one JSON object a line, flushed as it happens. Field names are an interface: more
 * are added when needed, none is renamed. --tensorboard gets the same lines. */
#ifndef TOOLS_PROGRAM_METRICS_H
#define TOOLS_PROGRAM_METRICS_H

#include "tensorboard/tensorboard.h"

#include <accrue/accrue.h>
#include <stdio.h>

typedef struct metrics {
  bool continued; /* there are lines of an earlier life of the run */
  FILE *stream;   /* NULL: nothing is written */
  const char *path;
  int error; /* errno of the first line that could not be written; later ones are not tried */
  tensorboard *tensorboard; /* NULL: none */
  const ac_device *device;  /* whose memory is told */
} metrics;

/* What the end of a run is known by. */
typedef struct metrics_end {
  const ac_fit_result *fit;
  int64_t tokens_per_sample; /* 0: samples are not made of tokens */
  uint64_t planned_bytes, peak_bytes;
  double seconds; /* of the whole run, evaluations included */
} metrics_end;

typedef struct metrics_desc {
  const char *path; /* NULL: no file */
  int64_t keep;     /* bytes of the file behind which it goes on, if it has these; -1: anew */
  tensorboard_desc events;
} metrics_desc;

/* Like metrics_close, a status of message.h. */
int metrics_open(metrics *m, const metrics_desc *desc);
/* How long the file is by now; -1: there is none. */
int64_t metrics_bytes(const metrics *m);
void metrics_plan(metrics *m, const ac_device *device, const ac_plan_info *plan);
void metrics_fit(metrics *m, const ac_fit_event *event); /* "step" and "eval" */
void metrics_finish(metrics *m, const metrics_end *end);
int metrics_close(metrics *m);

#endif
