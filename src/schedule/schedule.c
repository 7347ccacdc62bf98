/* Learning rates in closed form. Each kind is a function of t, the updates since the warm-up, and
 * of nothing that came before, except reductions on a plateau. A one-cycle and a cyclic schedule
 * yield a momentum by the same function, because it moves in the same way between other ends. */
#include "schedule/schedule.h"

#include "core/error.h"
#include "core/integers.h"

#include <math.h>

/* ---- defaults -------------------------------------------------------------------------------- */

static double top_of(const ac_schedule *s) {
  return ac_or_default(s->lr, 1e-3);
}

static double gamma_of(const ac_schedule *s) {
  return ac_or_default(s->gamma, s->kind == AC_SCHEDULE_CYCLIC ? 1 : 0.1);
}

/* ---- ways ------------------------------------------------------------------------------------ */

static double go(ac_anneal way, double from, double to, double x) {
  const double pi = 3.14159265358979323846;
  if (way == AC_ANNEAL_LINEAR) return from + (to - from) * x;
  if (way == AC_ANNEAL_SQRT) return to + (from - to) * (1 - sqrt(x));
  return to + 0.5 * (1 + cos(pi * x)) * (from - to);
}

/* From lr to min_lr over the updates between warm-up and total, which is past 0. */
static double descend(const ac_schedule *s, ac_anneal way, int64_t t) {
  const int64_t length = s->total - s->warmup;
  if (t >= length) return s->min_lr;
  return go(way, top_of(s), s->min_lr, (double)t / (double)length);
}

static double restart(const ac_schedule *s, int64_t t) {
  const int64_t factor = s->period_factor ? s->period_factor : 1;
  int64_t length = s->period;
  if (factor == 1) t %= length;
  while (t >= length) {
    t -= length;
    length = length > INT64_MAX / factor ? INT64_MAX : length * factor;
  }
  return go(AC_ANNEAL_COSINE, top_of(s), s->min_lr, (double)t / (double)length);
}

static double decay(const ac_schedule *s, int64_t t) {
  const int64_t length = s->decay ? s->decay : s->total / 10;
  const int64_t stable = s->total - s->warmup - length;
  if (t < stable) return top_of(s);
  if (t >= stable + length) return s->min_lr;
  const ac_anneal way = s->anneal == AC_ANNEAL_DEFAULT ? AC_ANNEAL_LINEAR : s->anneal;
  return go(way, top_of(s), s->min_lr, (double)(t - stable) / (double)length);
}

static double fall_by_steps(const ac_schedule *s, int64_t update) {
  int passed = 0;
  while (passed < s->milestone_count && s->milestones[passed] <= update) passed++;
  return top_of(s) * pow(gamma_of(s), passed);
}

/* ---- cycles ---------------------------------------------------------------------------------- */

/* What moves in a cycle: a rate or, the other way round, a momentum. */
typedef struct ends {
  double first, top, last;
} ends;

/* The phases end at fractions of updates, as PyTorch's do. */
static double one_cycle(const ac_schedule *s, ends e, int64_t t) {
  const double count = (double)(s->total - s->warmup), rise = ac_or_default(s->rise, 0.3);
  const struct {
    double end, from, to;
  } phases[] = {{rise * count - 1, e.first, e.top},
                {s->three_phases ? 2 * rise * count - 2 : count - 1, e.top,
                 s->three_phases ? e.first : e.last},
                {count - 1, e.first, e.last}};
  const int last = s->three_phases ? 2 : 1;
  double begin = 0, at = fmin((double)t, count - 1);
  int p = 0;
  for (; p < last && at > phases[p].end; p++) begin = phases[p].end;
  const double length = phases[p].end - begin;
  return go(s->anneal, phases[p].from, phases[p].to, length > 0 ? (at - begin) / length : 1);
}

/* How far above its lowest value a cycle is, from 0 to 1. */
static double height(const ac_schedule *s, int64_t t) {
  const uint64_t up = (uint64_t)s->period, down = s->fall ? (uint64_t)s->fall : up;
  const uint64_t cycle = (uint64_t)t / (up + down), at = (uint64_t)t % (up + down);
  const double triangle =
      at <= up ? (double)at / (double)up : (double)(up + down - at) / (double)down;
  if (s->cycle == AC_CYCLE_TRIANGULAR2) return triangle * pow(0.5, (double)cycle);
  if (s->cycle == AC_CYCLE_EXP_RANGE) return triangle * pow(gamma_of(s), (double)t);
  return triangle;
}

static ends rates_of(const ac_schedule *s) {
  const double top = top_of(s), first = top / ac_or_default(s->start_divisor, 25);
  return (ends){first, top, first / ac_or_default(s->end_divisor, 1e4)};
}

/* Whether a trainer would take it. */
static bool makes_sense(const ac_schedule *s) {
  const ac_kept_error kept = ac_error_keep();
  const bool good = ac_schedule_check(s) == AC_OK;
  ac_error_restore(&kept);
  return good;
}

double ac_schedule_momentum(const ac_schedule *schedule, int64_t update) {
  const ac_schedule s = AC_DESCRIBED(ac_schedule, schedule);
  const bool cyclic = s.kind == AC_SCHEDULE_CYCLIC;
  if (s.keep_momentum || (!cyclic && s.kind != AC_SCHEDULE_ONE_CYCLE)) return -1;
  if (!makes_sense(&s)) return -1;
  const double least = ac_or_default(s.min_momentum, cyclic ? 0.8 : 0.85);
  const double most = ac_or_default(s.max_momentum, cyclic ? 0.9 : 0.95);
  const int64_t t = update < s.warmup ? 0 : update - s.warmup;
  if (cyclic) return most - (most - least) * height(&s, t);
  return one_cycle(&s, (ends){most, least, most}, t);
}

/* ---- rates ----------------------------------------------------------------------------------- */

/* After the warm-up. */
static double rate_at(const ac_schedule *s, int64_t reductions, int64_t t) {
  const double top = top_of(s);
  switch (s->kind) {
  case AC_SCHEDULE_CONSTANT:
    return top;
  case AC_SCHEDULE_COSINE:
    return descend(s, AC_ANNEAL_COSINE, t);
  case AC_SCHEDULE_LINEAR:
    return descend(s, AC_ANNEAL_LINEAR, t);
  case AC_SCHEDULE_COSINE_RESTARTS:
    return restart(s, t);
  case AC_SCHEDULE_ONE_CYCLE:
    return one_cycle(s, rates_of(s), t);
  case AC_SCHEDULE_CYCLIC:
    return s->min_lr + (top - s->min_lr) * height(s, t);
  case AC_SCHEDULE_STEP:
    return fmax(s->min_lr, top * pow(gamma_of(s), (double)(t / s->period)));
  case AC_SCHEDULE_MULTISTEP:
    return fmax(s->min_lr, fall_by_steps(s, t + s->warmup));
  case AC_SCHEDULE_EXPONENTIAL:
    return fmax(s->min_lr, top * pow(gamma_of(s), (double)t));
  case AC_SCHEDULE_STABLE_DECAY:
    return decay(s, t);
  case AC_SCHEDULE_INVERSE_SQRT:
    return fmax(s->min_lr,
                top * sqrt(((double)s->warmup + 1) / ((double)t + (double)s->warmup + 1)));
  case AC_SCHEDULE_PLATEAU:
    return fmax(s->min_lr, top * pow(gamma_of(s), (double)reductions));
  case AC_SCHEDULE_COUNT:
    break;
  }
  return 0;
}

/* What the warm-up leads to, which for a cosine is lr to the last bit. */
static double first_rate(const ac_schedule *s, int64_t reductions) {
  const bool from_below = s->kind == AC_SCHEDULE_ONE_CYCLE || s->kind == AC_SCHEDULE_CYCLIC;
  return from_below || s->kind == AC_SCHEDULE_PLATEAU ? rate_at(s, reductions, 0) : top_of(s);
}

double ac_schedule_reduced_rate(const ac_schedule *schedule, int64_t reductions, int64_t update) {
  const ac_schedule *s = schedule;
  if (update < s->warmup)
    return first_rate(s, reductions) * (double)(update + 1) / ((double)s->warmup + 1);
  return rate_at(s, reductions, update - s->warmup);
}

double ac_schedule_rate(const ac_schedule *schedule, int64_t update) {
  const ac_schedule s = AC_DESCRIBED(ac_schedule, schedule);
  return makes_sense(&s) ? ac_schedule_reduced_rate(&s, 0, ac_larger(update, 0)) : 0;
}

double ac_schedule_scale(const ac_schedule *schedule, int64_t batch) {
  if (schedule->scaling == AC_RATE_SCALING_NONE) return 1;
  const double factor = (double)batch / (double)schedule->base_batch;
  return schedule->scaling == AC_RATE_SCALING_SQRT ? sqrt(factor) : factor;
}
