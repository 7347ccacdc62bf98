/* The flags of the learning rate, and the schedule that they ask for. */
#ifndef TOOLS_PROGRAM_RATE_H
#define TOOLS_PROGRAM_RATE_H

#include "common/options.h"

#include <accrue/accrue.h>

typedef struct rate_flags {
  double lr, min_lr;                          /* min_lr < 0: not given */
  int schedule;                               /* ac_schedule_kind */
  int64_t warmup;                             /* < 0: a small part of the run */
  int64_t period, period_factor, fall, decay; /* 0: not given */
  double gamma;                               /* 0: not given */
  const char *milestones;                     /* "N,N,..."; NULL: not given */
  int anneal, cycle, phases;
  double rise, start_divisor, end_divisor;
  int keep_momentum;
  double min_momentum, max_momentum; /* < 0: not given */
  int64_t patience, cooldown;
  double threshold;
  int threshold_kind; /* 1: absolute */
  int scaling;        /* ac_rate_scaling */
  int64_t base_batch; /* 0: not given */
} rate_flags;

void rate_defaults(rate_flags *flags);
void rate_add_options(rate_flags *flags, options *o);

/* Refuses flags that contradict each other, or that schedule and optimizer would ignore. A status
 * of message.h. */
int rate_check(const rate_flags *flags, const options *o);

/* The schedule of a run of so many updates of a batch. A status of message.h. */
int rate_schedule(const rate_flags *flags, int64_t updates, ac_schedule *schedule);

/* Zero would mean the library's default. */
double rate_or_off(double x);

#endif
