/* Progress on stderr: a bar with loss, rate and time left where stderr is a terminal; elsewhere a
 * plain line at every evaluation and every tenth of the run. */
#ifndef TOOLS_COMMON_PROGRESS_H
#define TOOLS_COMMON_PROGRESS_H

#include <accrue/trainer.h>

typedef struct progress {
  bool terminal;
  int64_t steps;    /* of the whole run */
  const char *unit; /* of the rate: "tokens" */
  double units_per_sample;
  double began, drawn; /* clock readings */
  double loss;         /* running mean over the latest updates */
  bool updated;        /* there is one */
  int64_t skipped;     /* windows that led to no update */
  int64_t first;       /* the first step seen, which warms caches and is left out of the rate */
  double samples;      /* after the first step */
} progress;

double progress_clock(void); /* seconds, monotonic */

void progress_begin(progress *p, int64_t steps, const char *unit, int64_t units_per_sample);
void progress_fit(progress *p, const ac_fit_event *event);
/* Removes the bar, before anything else is written. */
void progress_clear(progress *p);
/* Draws it again. */
void progress_show(progress *p, int64_t step);

#endif
