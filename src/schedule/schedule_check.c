/* What of a learning-rate schedule is refused, in one sentence each. */
#include "schedule/schedule.h"

#include "core/error.h"
#include "core/floats.h"

#include <math.h>

/* For each kind: its name, and which settings without a default it uses. */
static const struct {
  const char *name; /* after "a" */
  bool total, period, falls;
} kinds[AC_SCHEDULE_COUNT] = {
    [AC_SCHEDULE_CONSTANT] = {"constant", false, false, false},
    [AC_SCHEDULE_COSINE] = {"cosine", true, false, true},
    [AC_SCHEDULE_LINEAR] = {"linear", true, false, true},
    [AC_SCHEDULE_COSINE_RESTARTS] = {"restarting", false, true, true},
    [AC_SCHEDULE_ONE_CYCLE] = {"one-cycle", true, false, false},
    [AC_SCHEDULE_CYCLIC] = {"cyclic", false, true, true},
    [AC_SCHEDULE_STEP] = {"step", false, true, true},
    [AC_SCHEDULE_MULTISTEP] = {"multistep", false, false, true},
    [AC_SCHEDULE_EXPONENTIAL] = {"exponential", false, false, true},
    [AC_SCHEDULE_STABLE_DECAY] = {"stable-decay", true, false, true},
    [AC_SCHEDULE_INVERSE_SQRT] = {"square-root", false, false, true},
    [AC_SCHEDULE_PLATEAU] = {"plateau", false, false, true},
};

static ac_status check_rates(const ac_schedule *s) {
  const double top = ac_or_default(s->lr, 1e-3);
  if (!ac_is_float(s->lr) || !ac_is_float(s->min_lr) || s->min_lr < 0 || s->warmup < 0)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: learning rates %g and %g and warm-up %lld must be "
                   "finite, at most 3.4e38, and all but the first not negative",
                   s->lr, s->min_lr, (long long)s->warmup);
  if (s->lr > 0 && !ac_is_positive_float(s->lr))
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: the learning rate %g is too small for a float",
                   s->lr);
  if (kinds[s->kind].falls && s->min_lr > top)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: min_lr %g is above the learning rate %g", s->min_lr,
                   top);
  return AC_OK;
}

static ac_status check_counts(const ac_schedule *s) {
  const char *name = kinds[s->kind].name;
  if (kinds[s->kind].total && s->total <= 0)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: a %s schedule needs its number of updates", name);
  if (kinds[s->kind].period && s->period <= 0)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: a %s schedule needs a period of updates", name);
  const int64_t most = INT64_MAX / 4;
  if (s->period > most || s->period_factor < 0 || s->fall < 0 || s->fall > most || s->decay < 0)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: the schedule's period %lld by %lld, fall %lld and decay %lld must be "
                   "numbers of updates",
                   (long long)s->period, (long long)s->period_factor, (long long)s->fall,
                   (long long)s->decay);
  return AC_OK;
}

static ac_status check_gamma(const ac_schedule *s) {
  if (s->kind == AC_SCHEDULE_EXPONENTIAL && s->gamma == 0)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: an exponential schedule needs its gamma");
  if (!(s->gamma >= 0) || isinf(s->gamma))
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: the schedule's gamma %g must be positive",
                   s->gamma);
  if (s->kind == AC_SCHEDULE_PLATEAU && s->gamma >= 1)
    return ac_fail(
        AC_ERROR_ARGUMENT,
        "trainer: gamma of a plateau schedule must be below 1 to reduce the rate; it is %g",
        s->gamma);
  return AC_OK;
}

static ac_status check_milestones(const ac_schedule *s) {
  if (s->milestone_count < 1 || s->milestone_count > AC_MAX_MILESTONES)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: a schedule has 1 to %d milestones, not %d",
                   AC_MAX_MILESTONES, s->milestone_count);
  for (int i = 0; i < s->milestone_count; i++)
    if (s->milestones[i] < 1 || (i && s->milestones[i] <= s->milestones[i - 1]))
      return ac_fail(AC_ERROR_ARGUMENT,
                     "trainer: milestones must be positive and increase; %lld does not",
                     (long long)s->milestones[i]);
  return AC_OK;
}

static ac_status check_momentum(const ac_schedule *s) {
  const bool cyclic = s->kind == AC_SCHEDULE_CYCLIC;
  const double least = ac_or_default(s->min_momentum, cyclic ? 0.8 : 0.85);
  const double most = ac_or_default(s->max_momentum, cyclic ? 0.9 : 0.95);
  if (s->keep_momentum || (least <= most && most < 1)) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "trainer: the momentum cannot move between %g and %g: both must be below 1, and "
                 "the first at most the second",
                 least, most);
}

static ac_status check_one_cycle(const ac_schedule *s) {
  const double most = s->three_phases ? 0.5 : 1;
  if (!(s->rise <= most))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: the part of a cycle that rises is %g; it must be at most %g", s->rise,
                   most);
  if (!(s->start_divisor >= 0) || !(s->end_divisor >= 0) || isinf(s->start_divisor) ||
      isinf(s->end_divisor))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: the divisors %g and %g of a one-cycle schedule must be positive",
                   s->start_divisor, s->end_divisor);
  if (s->warmup >= s->total)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: the warm-up of %lld updates must be shorter than the %lld of the "
                   "whole schedule, to leave some for the cycle",
                   (long long)s->warmup, (long long)s->total);
  if (s->anneal == AC_ANNEAL_SQRT)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: a one-cycle schedule follows a cosine or a line, not a square root");
  return AC_OK;
}

static ac_status check_decay(const ac_schedule *s) {
  const int64_t decay = s->decay ? s->decay : s->total / 10;
  if (s->warmup <= s->total && decay <= s->total - s->warmup) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "trainer: a warm-up of %lld and a decay of %lld updates do not fit into %lld",
                 (long long)s->warmup, (long long)decay, (long long)s->total);
}

static ac_status check_plateau(const ac_schedule *s) {
  if (!isfinite(s->threshold) || (!s->threshold_absolute && s->threshold >= 1))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: the threshold %g must be finite, and below 1 if it is relative",
                   s->threshold);
  return AC_OK;
}

static ac_status check_scaling(const ac_schedule *s) {
  if ((unsigned)s->scaling > AC_RATE_SCALING_SQRT)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: unknown scaling %d of the learning rate",
                   (int)s->scaling);
  if (s->scaling != AC_RATE_SCALING_NONE && s->base_batch < 1)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: to scale the learning rate, give the batch that it is for");
  return AC_OK;
}

ac_status ac_schedule_check(const ac_schedule *s) {
  if ((unsigned)s->kind >= AC_SCHEDULE_COUNT)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: unknown kind of schedule %d", (int)s->kind);
  if ((unsigned)s->anneal > AC_ANNEAL_SQRT || (unsigned)s->cycle > AC_CYCLE_EXP_RANGE)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: unknown annealing %d or cycle %d of a schedule",
                   (int)s->anneal, (int)s->cycle);
  AC_TRY(check_rates(s));
  AC_TRY(check_counts(s));
  AC_TRY(check_gamma(s));
  if (s->kind == AC_SCHEDULE_MULTISTEP) AC_TRY(check_milestones(s));
  if (s->kind == AC_SCHEDULE_ONE_CYCLE) AC_TRY(check_one_cycle(s));
  if (s->kind == AC_SCHEDULE_ONE_CYCLE || s->kind == AC_SCHEDULE_CYCLIC) AC_TRY(check_momentum(s));
  if (s->kind == AC_SCHEDULE_STABLE_DECAY) AC_TRY(check_decay(s));
  if (s->kind == AC_SCHEDULE_PLATEAU) AC_TRY(check_plateau(s));
  return check_scaling(s);
}
