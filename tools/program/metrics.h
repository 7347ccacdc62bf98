/* --metrics FILE: one JSON object a line, flushed as it happens. Field names are an interface: more
 * are added when needed, none is renamed. --tensorboard gets the same lines. */
#ifndef TOOLS_PROGRAM_METRICS_H
#define TOOLS_PROGRAM_METRICS_H

#include "tensorboard/tensorboard.h"

#include <accrue/accrue.h>
#include <stdio.h>

typedef struct metrics {
  bool continued; /* there are lines of an earlier start of the run */
  FILE *stream;   /* NULL: nothing is written */
  const char *path;
  const char *run; /* id, which the first line has */
  bool overwrite;
  int64_t done; /* updates that the run had made before this start */
  int64_t good; /* bytes of whole lines */
  int error;    /* errno of the first line that could not be written; later ones are not tried */
  tensorboard *tensorboard; /* NULL: none */
  const ac_device *device;  /* its memory is reported */
} metrics;

/* The numbers at the end of a run. */
typedef struct metrics_end {
  const ac_fit_result *fit;
  const ac_trainer *trainer;
  const char *batches;       /* the schedule that has grown; NULL: none has */
  int64_t tokens_per_sample; /* 0: samples are not made of tokens */
  uint64_t planned_bytes, peak_bytes;
  double seconds; /* of the whole run, evaluations included */
} metrics_end;

typedef struct metrics_desc {
  const char *path; /* NULL: no file */
  const char *run;  /* its id */
  bool overwrite;   /* metrics of another run may be replaced */
  tensorboard_desc events;
} metrics_desc;

/* Like metrics_close, a status of message.h. */
int metrics_open(metrics *m, const metrics_desc *desc);
/* When the run is sure to begin: opens the file, after the `keep` bytes that the run wrote before
 * it was stopped; -1: it had no file then. Lines of updates that are done stay. */
int metrics_begin(metrics *m, int64_t keep);
/* If the run does not begin after all: leaves no file of events. */
void metrics_abandon(metrics *m);
/* Brings the lines so far to the disk and says how many bytes they take; -1: there is no file. */
int64_t metrics_sync(metrics *m);
void metrics_plan(metrics *m, const ac_device *device, const ac_plan_info *plan);
void metrics_fit(metrics *m, const ac_fit_event *event); /* "step", "spike", "epoch", "eval" */
/* "layers": norms of the update that was measured last, each by the name of its parameter. */
void metrics_layers(metrics *m, int64_t step, const ac_trainer *trainer);
/* "average": the same as "eval" of averages of weights. */
void metrics_average(metrics *m, int64_t step, const ac_evaluation *evaluation);
/* "ranks": what each rank has sent to others, and how long it has waited for them. */
void metrics_ranks(metrics *m, int64_t step, const ac_trainer *trainer);
/* "growth": of a window after which batches are larger. */
void metrics_growth(metrics *m, const ac_fit_event *event);
/* "noise_layers": what is known so far of the noise of each parameter's gradient, by names. */
void metrics_noise_layers(metrics *m, int64_t step, const ac_trainer *trainer);
void metrics_finish(metrics *m, const metrics_end *end);
int metrics_close(metrics *m);

#endif
