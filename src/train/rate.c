#include <accrue/trainer.h>

#include <math.h>

double ac_schedule_rate(const ac_schedule *schedule, int64_t update) {
  const double pi = 3.14159265358979323846;
  if (update < schedule->warmup)
    return schedule->lr * (double)(update + 1) / (double)(schedule->warmup + 1);
  if (schedule->kind == AC_SCHEDULE_CONSTANT) return schedule->lr;
  if (update >= schedule->total) return schedule->min_lr;
  double done = (double)(update - schedule->warmup) / (double)(schedule->total - schedule->warmup);
  return schedule->min_lr + 0.5 * (1 + cos(pi * done)) * (schedule->lr - schedule->min_lr);
}
