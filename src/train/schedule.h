/* Learning-rate schedules within the library: what a plateau remembers, and what is refused. */
#ifndef AC_TRAIN_SCHEDULE_H
#define AC_TRAIN_SCHEDULE_H

#include <accrue/schedule.h>

#include "core/floats.h"

/* What AC_SCHEDULE_PLATEAU knows of the validations so far. */
typedef struct ac_plateau {
  double best;        /* the least loss; INFINITY before the first one */
  int64_t bad;        /* validations in a row that were no better */
  int64_t cooling;    /* validations that do not count yet */
  int64_t reductions; /* of the rate */
} ac_plateau;

ac_plateau ac_plateau_begin(void);
/* Takes a validation's loss into account. */
void ac_plateau_observe(ac_plateau *plateau, const ac_schedule *schedule, double loss);

/* Like ac_schedule_rate, after so many reductions, for a schedule that was checked. */
double ac_schedule_reduced_rate(const ac_schedule *schedule, int64_t reductions, int64_t update);

/* The factor of all rates for windows of so many samples; 1: no scaling. */
double ac_schedule_scale(const ac_schedule *schedule, int64_t batch);

/* Refuses what makes no sense. */
ac_status ac_schedule_check(const ac_schedule *schedule);

#endif
