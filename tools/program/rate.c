#include "program/rate.h"

#include "common/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void rate_defaults(rate_flags *f) {
  *f = (rate_flags){.min_lr = -1,
                    .warmup = -1,
                    .period_factor = 1,
                    .rise = 0.3,
                    .start_divisor = 25,
                    .end_divisor = 1e4,
                    .min_momentum = -1,
                    .max_momentum = -1,
                    .patience = 10,
                    .threshold = 1e-4};
}

void rate_add_options(rate_flags *f, options *o) {
  const option rows[] = {
      FLAG("lr", OPTION_REAL, &f->lr),
      FLAG("schedule", OPTION_CHOICE, &f->schedule),
      FLAG("min-lr", OPTION_REAL, &f->min_lr),
      FLAG("warmup", OPTION_INTEGER, &f->warmup),
      FLAG("lr-period", OPTION_INTEGER, &f->period),
      FLAG("lr-period-factor", OPTION_INTEGER, &f->period_factor),
      FLAG("lr-fall", OPTION_INTEGER, &f->fall),
      FLAG("lr-cycle", OPTION_CHOICE, &f->cycle),
      FLAG("lr-factor", OPTION_REAL, &f->gamma),
      FLAG("lr-milestones", OPTION_TEXT, &f->milestones),
      FLAG("lr-decay", OPTION_INTEGER, &f->decay),
      FLAG("lr-anneal", OPTION_CHOICE, &f->anneal),
      FLAG("lr-rise", OPTION_REAL, &f->rise),
      FLAG("lr-start-divisor", OPTION_REAL, &f->start_divisor),
      FLAG("lr-end-divisor", OPTION_REAL, &f->end_divisor),
      FLAG("lr-phases", OPTION_CHOICE, &f->phases),
      FLAG("cycle-momentum", OPTION_CHOICE, &f->keep_momentum),
      FLAG("min-momentum", OPTION_REAL, &f->min_momentum),
      FLAG("max-momentum", OPTION_REAL, &f->max_momentum),
      FLAG("lr-patience", OPTION_INTEGER, &f->patience),
      FLAG("lr-cooldown", OPTION_INTEGER, &f->cooldown),
      FLAG("lr-threshold", OPTION_REAL, &f->threshold),
      FLAG("lr-threshold-kind", OPTION_CHOICE, &f->threshold_kind),
      FLAG("lr-scaling", OPTION_CHOICE, &f->scaling),
      FLAG("lr-base-batch", OPTION_INTEGER, &f->base_batch),
  };
  OPTIONS_ADD(o, rows);
}

/* ---- checking -------------------------------------------------------------------------------- */

#define OF(kind) (1u << AC_SCHEDULE_##kind)
enum { MOMENTUM = 1 << AC_SCHEDULE_ONE_CYCLE | 1 << AC_SCHEDULE_CYCLIC };

static bool has_factor(const rate_flags *f) {
  return f->schedule != AC_SCHEDULE_CYCLIC || f->cycle == AC_CYCLE_EXP_RANGE;
}

static int check_relevance(const rate_flags *f, const options *o) {
  if (!has_factor(f) && options_given(o, "lr-factor"))
    return fail_usage("--lr-factor has no meaning without --lr-cycle exp-range");
  if (f->scaling && !f->base_batch)
    return fail_usage("--lr-scaling needs --lr-base-batch: the batch that --lr is for");
  return STATUS_CONTINUE;
}

/* A schedule that moves the momentum replaces the one that was given. */
static int check_momentum(const rate_flags *f, const options *o) {
  static const char *const moved[] = {"momentum", "beta1"};
  if (!((unsigned)MOMENTUM >> f->schedule & 1)) return STATUS_CONTINUE;
  for (size_t i = 0; i < sizeof moved / sizeof *moved; i++)
    if (options_given(o, moved[i]) && !f->keep_momentum)
      return fail_usage("--%s has no meaning where the schedule moves it; --cycle-momentum off "
                        "leaves it alone",
                        moved[i]);
  const bool cyclic = f->schedule == AC_SCHEDULE_CYCLIC;
  const double least = f->min_momentum < 0 ? cyclic ? 0.8 : 0.85 : f->min_momentum;
  const double most = f->max_momentum < 0 ? cyclic ? 0.9 : 0.95 : f->max_momentum;
  if (least > most) return fail_usage("--min-momentum %g is above --max-momentum %g", least, most);
  return STATUS_CONTINUE;
}

static int check_values(const rate_flags *f) {
  if (f->min_lr > f->lr)
    return fail_usage("--min-lr %g is larger than the learning rate %g", f->min_lr, f->lr);
  if (f->schedule == AC_SCHEDULE_PLATEAU && f->gamma >= 1)
    return fail_usage("--lr-factor %g does not reduce the rate on a plateau: it must be below 1",
                      f->gamma);
  if (f->schedule == AC_SCHEDULE_PLATEAU && !f->threshold_kind && f->threshold >= 1)
    return fail_usage("--lr-threshold %g is not a part of a loss: it must be below 1",
                      f->threshold);
  if (f->schedule == AC_SCHEDULE_ONE_CYCLE && f->anneal == AC_ANNEAL_SQRT)
    return fail_usage("--lr-anneal sqrt has no meaning for the schedule one-cycle");
  if (f->phases && f->rise > 0.5)
    return fail_usage("--lr-rise %g leaves no time to come down again in three phases; it must be "
                      "at most 0.5",
                      f->rise);
  return STATUS_CONTINUE;
}

int rate_check(const rate_flags *f, const options *o) {
  int status = check_relevance(f, o);
  if (status == STATUS_CONTINUE) status = check_momentum(f, o);
  return status == STATUS_CONTINUE ? check_values(f) : status;
}

/* ---- the schedule ---------------------------------------------------------------------------- */

static bool parse_milestones(const char *text, ac_schedule *s) {
  for (;;) {
    char *end;
    const long long at = strtoll(text, &end, 10);
    const int64_t before = s->milestone_count ? s->milestones[s->milestone_count - 1] : 0;
    if (end == text || *text < '0' || *text > '9' || at <= before || at > INT32_MAX) return false;
    if (s->milestone_count == AC_MAX_MILESTONES) return false;
    s->milestones[s->milestone_count++] = at;
    if (!*end) return true;
    if (*end != ',') return false;
    text = end + 1;
  }
}

static int set_milestones(const rate_flags *f, int64_t updates, ac_schedule *s) {
  if (f->milestones && !parse_milestones(f->milestones, s))
    return fail_usage("--lr-milestones %s is not a rising list of at most %d updates such as "
                      "100,200",
                      f->milestones, AC_MAX_MILESTONES);
  if (f->milestones) return STATUS_CONTINUE;
  s->milestones[0] = updates / 2 > 1 ? updates / 2 : 1;
  s->milestones[1] = updates * 3 / 4 > s->milestones[0] ? updates * 3 / 4 : s->milestones[0] + 1;
  s->milestone_count = 2;
  return STATUS_CONTINUE;
}

static int64_t default_warmup(const rate_flags *f, int64_t updates) {
  if ((unsigned)MOMENTUM >> f->schedule & 1) return 0;
  return updates / 10 < 100 ? updates / 10 : 100;
}

static double default_least(const rate_flags *f) {
  const unsigned kept = OF(STEP) | OF(MULTISTEP) | OF(EXPONENTIAL) | OF(INVERSE_SQRT) | OF(PLATEAU);
  return kept >> f->schedule & 1 ? 0 : f->lr / 10;
}

static int64_t default_period(const rate_flags *f, int64_t updates) {
  const int part = f->schedule == AC_SCHEDULE_CYCLIC ? 10 : f->schedule == AC_SCHEDULE_STEP ? 3 : 4;
  return updates / part > 1 ? updates / part : 1;
}

static double default_gamma(const rate_flags *f, int64_t updates) {
  if (f->schedule == AC_SCHEDULE_EXPONENTIAL) return pow(0.01, 1 / fmax((double)updates, 1));
  if (f->schedule == AC_SCHEDULE_CYCLIC) return f->cycle == AC_CYCLE_EXP_RANGE ? 0.9999 : 1;
  return 0.1;
}

double rate_or_off(double x) {
  return x > 0 ? x : -1;
}

static double or_library(double x) {
  return x < 0 ? 0 : rate_or_off(x);
}

static int check_lengths(const ac_schedule *s) {
  if (s->warmup > s->total)
    return fail_usage("--warmup %lld is longer than the run of %lld updates", (long long)s->warmup,
                      (long long)s->total);
  if (s->kind == AC_SCHEDULE_ONE_CYCLE && s->warmup == s->total)
    return fail_usage("--warmup %lld leaves no updates for a cycle", (long long)s->warmup);
  const int64_t decay = s->decay ? s->decay : s->total / 10;
  if (s->kind == AC_SCHEDULE_STABLE_DECAY && decay > s->total - s->warmup)
    return fail_usage("a decay of %lld updates does not fit into the run's %lld after the warm-up",
                      (long long)decay, (long long)(s->total - s->warmup));
  return STATUS_CONTINUE;
}

int rate_schedule(const rate_flags *f, int64_t updates, ac_schedule *s) {
  const int64_t warmup = f->warmup < 0 ? default_warmup(f, updates) : f->warmup;
  const int64_t rest = updates - warmup;
  *s = (ac_schedule){.kind = (ac_schedule_kind)f->schedule,
                     .lr = rate_or_off(f->lr),
                     .min_lr = f->min_lr < 0 ? default_least(f) : f->min_lr,
                     .warmup = warmup,
                     .total = updates,
                     .period = f->period ? f->period : default_period(f, rest),
                     .period_factor = f->period_factor,
                     .fall = f->fall,
                     .gamma = f->gamma > 0 ? f->gamma : default_gamma(f, rest),
                     .decay = f->decay,
                     .anneal = (ac_anneal)f->anneal,
                     .rise = rate_or_off(f->rise),
                     .start_divisor = f->start_divisor,
                     .end_divisor = f->end_divisor,
                     .three_phases = f->phases != 0,
                     .cycle = (ac_cycle)f->cycle,
                     .keep_momentum = f->keep_momentum != 0,
                     .min_momentum = or_library(f->min_momentum),
                     .max_momentum = or_library(f->max_momentum),
                     .patience = f->patience ? f->patience : -1,
                     .cooldown = f->cooldown,
                     .threshold = rate_or_off(f->threshold),
                     .threshold_absolute = f->threshold_kind != 0,
                     .scaling = (ac_rate_scaling)f->scaling,
                     .base_batch = f->base_batch};
  int status =
      f->schedule == AC_SCHEDULE_MULTISTEP ? set_milestones(f, updates, s) : STATUS_CONTINUE;
  return status == STATUS_CONTINUE ? check_lengths(s) : status;
}
