/* Learning-rate schedules within the library. */
#ifndef AC_SCHEDULE_SCHEDULE_H
#define AC_SCHEDULE_SCHEDULE_H

#include <accrue/schedule.h>

/* Zero means default, and what is negative zero. */
static inline double ac_or_default(double value, double fallback) {
  return value == 0 ? fallback : value < 0 ? 0 : value;
}

/* Like ac_schedule_rate, after so many reductions, for a schedule that was checked. */
double ac_schedule_reduced_rate(const ac_schedule *schedule, int64_t reductions, int64_t update);

/* The factor of all rates for windows of so many samples; 1: no scaling. */
double ac_schedule_scale(const ac_schedule *schedule, int64_t batch);

/* Refuses what makes no sense. */
ac_status ac_schedule_check(const ac_schedule *schedule);

#endif
