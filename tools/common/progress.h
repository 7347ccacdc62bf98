/* Progress on stderr. On a terminal that can redraw a line: a bar with loss, rate and time left.
 * Otherwise: a line at every evaluation and every tenth of the run. */
#ifndef TOOLS_COMMON_PROGRESS_H
#define TOOLS_COMMON_PROGRESS_H

#include <accrue/fit.h>

typedef struct progress {
  bool terminal;
  bool quiet;       /* nothing is shown */
  int64_t steps;    /* updates of the whole run, skipped ones included */
  const char *unit; /* of the rate: "tokens" */
  double units_per_sample;
  double began, drawn, told; /* clock readings; told: of an evaluation */
  double loss;               /* running mean over the latest updates */
  bool updated;              /* there is one */
  int64_t skipped;           /* windows without an update */
  int64_t first;             /* the first update: it warms caches and does not count for the rate */
  double samples;            /* after the first update */
} progress;

double progress_clock(void); /* seconds, monotonic */

void progress_begin(progress *p, int64_t steps, const char *unit, int64_t units_per_sample,
                    bool quiet);
void progress_fit(progress *p, const ac_fit_event *event);
/* While an evaluation runs, which may take long: samples done, and samples in all. */
void progress_evaluation(progress *p, int64_t done, int64_t all);
/* Removes the bar, before anything else is written. */
void progress_clear(progress *p);
/* Draws it again. */
void progress_show(progress *p, int64_t step);

#endif
