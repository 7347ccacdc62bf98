#include "core/error.h"

#include <accrue/trainer.h>

#include <math.h>

double ac_schedule_rate(const ac_schedule *schedule, int64_t update) {
  const double pi = 3.14159265358979323846;
  const ac_schedule s = AC_DESCRIBED(ac_schedule, schedule);
  const double lr = s.lr == 0 ? 1e-3 : s.lr < 0 ? 0 : s.lr;
  if (s.kind != AC_SCHEDULE_CONSTANT && s.kind != AC_SCHEDULE_COSINE) return 0;
  if (update < s.warmup) return lr * (double)(update + 1) / (double)(s.warmup + 1);
  if (s.kind == AC_SCHEDULE_CONSTANT) return lr;
  if (update >= s.total) return s.min_lr;
  double done = (double)(update - s.warmup) / (double)(s.total - s.warmup);
  return s.min_lr + 0.5 * (1 + cos(pi * done)) * (lr - s.min_lr);
}
