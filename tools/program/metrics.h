/* --metrics FILE: one JSON object a line, flushed as it happens. Field names are an interface: more
 * are added when needed, none is renamed. --tensorboard gets the same lines. */
#ifndef TOOLS_PROGRAM_METRICS_H
#define TOOLS_PROGRAM_METRICS_H

#include "tensorboard/tensorboard.h"

#include <accrue/accrue.h>
#include <stdio.h>

typedef struct metrics {
  FILE *stream; /* NULL: nothing is written */
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

/* `path` NULL: no file. Like metrics_close, a status of message.h. */
int metrics_open(metrics *m, const char *path, const tensorboard_desc *events);
void metrics_plan(metrics *m, const ac_device *device, const ac_plan_info *plan);
void metrics_fit(metrics *m, const ac_fit_event *event); /* "step" and "eval" */
void metrics_finish(metrics *m, const metrics_end *end);
int metrics_close(metrics *m);

#endif
