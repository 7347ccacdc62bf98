#include "program/rate.h"

#include "common/message.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* In the order of ac_schedule_kind. */
#define SCHEDULES                                                                    \
  "constant|cosine|linear|restarts|one-cycle|cyclic|step|multistep|exponential|wsd|" \
  "inverse-sqrt|plateau"

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
      {"lr", "X", OPTION_REAL, &f->lr, .help = "learning rate, the highest of a schedule"},
      {"schedule", SCHEDULES, OPTION_CHOICE, &f->schedule,
       .help = "of the learning rate after the warm-up"},
      {"min-lr", "X", OPTION_REAL, &f->min_lr, .help = "the lowest",
       .fallback = "lr / 10; 0 of schedules with a factor and of inverse-sqrt"},
      {"warmup", "N", OPTION_INTEGER, &f->warmup, .help = "updates of linear warm-up",
       .fallback = "a tenth of the run, at most 100; one-cycle, cyclic: none"},
      {"lr-period", "N", OPTION_INTEGER, &f->period,
       .help = "updates: restarts' first cycle, cyclic's way up, step's distance",
       .fallback = "a quarter, a tenth, a third of the run", .least = 1, .most = INT32_MAX},
      {"lr-period-factor", "N", OPTION_INTEGER, &f->period_factor,
       .help = "restarts: each cycle is so many times as long as the one before", .least = 1,
       .most = 1000},
      {"lr-fall", "N", OPTION_INTEGER, &f->fall, .help = "cyclic: updates of the way down",
       .fallback = "as up", .least = 1, .most = INT32_MAX},
      {"lr-cycle", "triangular|triangular2|exp-range", OPTION_CHOICE, &f->cycle,
       .help = "cyclic: each as high, half as high as the one before, by lr-factor an update"},
      {"lr-factor", "X", OPTION_REAL, &f->gamma,
       .help = "of each step, milestone, plateau, or of each update of exponential and exp-range",
       .fallback = "0.1; exponential: to a hundredth; exp-range: 0.9999", .least = 0,
       .above_least = true},
      {"lr-milestones", "N,N,...", OPTION_TEXT, &f->milestones, .help = "multistep: updates",
       .fallback = "a half and three quarters of the run"},
      {"lr-decay", "N", OPTION_INTEGER, &f->decay, .help = "wsd: last updates, in which it falls",
       .fallback = "a tenth of the run", .least = 1},
      {"lr-anneal", "default|cosine|linear|sqrt", OPTION_CHOICE, &f->anneal,
       .help = "the way of one-cycle (cosine) and of wsd's decay (linear)"},
      {"lr-rise", "X", OPTION_REAL, &f->rise, .help = "one-cycle: part of the run that rises",
       .least = 0, .most = 1},
      {"lr-start-divisor", "X", OPTION_REAL, &f->start_divisor,
       .help = "one-cycle: the first rate is lr / X", .least = 1},
      {"lr-end-divisor", "X", OPTION_REAL, &f->end_divisor,
       .help = "one-cycle: the last rate is the first / X", .least = 1},
      {"lr-phases", "two|three", OPTION_CHOICE, &f->phases,
       .help = "one-cycle; three: down as long as up, then to the last rate"},
      {"cycle-momentum", "on|off", OPTION_CHOICE, &f->keep_momentum,
       .help = "one-cycle, cyclic: move momentum or beta1 against the rate"},
      {"min-momentum", "X", OPTION_REAL, &f->min_momentum, .help = "where the rate is highest",
       .fallback = "one-cycle: 0.85, cyclic: 0.8", .least = 0, .most = 1, .below_most = true},
      {"max-momentum", "X", OPTION_REAL, &f->max_momentum, .help = "where the rate is lowest",
       .fallback = "one-cycle: 0.95, cyclic: 0.9", .least = 0, .most = 1, .below_most = true},
      {"lr-patience", "N", OPTION_INTEGER, &f->patience,
       .help = "plateau: validations that may be no better", .least = 0},
      {"lr-cooldown", "N", OPTION_INTEGER, &f->cooldown,
       .help = "plateau: validations after a reduction that do not count", .least = 0},
      {"lr-threshold", "X", OPTION_REAL, &f->threshold,
       .help = "plateau: by which a better validation loss is lower", .least = 0},
      {"lr-threshold-kind", "relative|absolute", OPTION_CHOICE, &f->threshold_kind,
       .help = "plateau: part of the loss, or nats"},
      {"lr-scaling", "none|linear|sqrt", OPTION_CHOICE, &f->scaling,
       .help = "multiply the rate by batch / lr-base-batch, or its square root"},
      {"lr-base-batch", "N", OPTION_INTEGER, &f->base_batch, .help = "the batch that --lr is for",
       .fallback = "", .least = 1, .most = 1 << 30},
  };
  OPTIONS_ADD(o, "Learning rate", rows);
}

/* ---- checking -------------------------------------------------------------------------------- */

#define OF(kind) (1u << AC_SCHEDULE_##kind)
enum { MOMENTUM = 1 << AC_SCHEDULE_ONE_CYCLE | 1 << AC_SCHEDULE_CYCLIC };

/* For each flag the schedules that use it. */
static const struct {
  const char *flag;
  unsigned schedules;
} relevant[] = {
    {"min-lr", ~(OF(CONSTANT) | OF(ONE_CYCLE))},
    {"lr-period", OF(COSINE_RESTARTS) | OF(CYCLIC) | OF(STEP)},
    {"lr-period-factor", OF(COSINE_RESTARTS)},
    {"lr-fall", OF(CYCLIC)},
    {"lr-cycle", OF(CYCLIC)},
    {"lr-factor", OF(CYCLIC) | OF(STEP) | OF(MULTISTEP) | OF(EXPONENTIAL) | OF(PLATEAU)},
    {"lr-milestones", OF(MULTISTEP)},
    {"lr-decay", OF(STABLE_DECAY)},
    {"lr-anneal", OF(ONE_CYCLE) | OF(STABLE_DECAY)},
    {"lr-rise", OF(ONE_CYCLE)},
    {"lr-start-divisor", OF(ONE_CYCLE)},
    {"lr-end-divisor", OF(ONE_CYCLE)},
    {"lr-phases", OF(ONE_CYCLE)},
    {"cycle-momentum", MOMENTUM},
    {"min-momentum", MOMENTUM},
    {"max-momentum", MOMENTUM},
    {"lr-patience", OF(PLATEAU)},
    {"lr-cooldown", OF(PLATEAU)},
    {"lr-threshold", OF(PLATEAU)},
    {"lr-threshold-kind", OF(PLATEAU)},
};

static bool has_factor(const rate_flags *f) {
  return f->schedule != AC_SCHEDULE_CYCLIC || f->cycle == AC_CYCLE_EXP_RANGE;
}

static int check_relevance(const rate_flags *f, const options *o) {
  int length;
  const char *name = option_choice_name(SCHEDULES, f->schedule, &length);
  for (size_t i = 0; i < sizeof relevant / sizeof *relevant; i++)
    if (options_given(o, relevant[i].flag) && !(relevant[i].schedules >> f->schedule & 1))
      return fail_usage("--%s has no meaning for the schedule %.*s", relevant[i].flag, length,
                        name);
  if (!has_factor(f) && options_given(o, "lr-factor"))
    return fail_usage("--lr-factor has no meaning without --lr-cycle exp-range");
  if (f->base_batch && !f->scaling)
    return fail_usage("--lr-base-batch has no meaning without --lr-scaling");
  if (f->scaling && !f->base_batch)
    return fail_usage("--lr-scaling needs --lr-base-batch: the batch that --lr is for");
  return STATUS_CONTINUE;
}

/* A schedule that moves the momentum replaces the one that was given. */
static int check_momentum(const rate_flags *f, const options *o, ac_optimizer_kind optimizer) {
  static const char *const moving[] = {"cycle-momentum", "min-momentum", "max-momentum"};
  static const char *const moved[] = {"momentum", "beta1"};
  if (!((unsigned)MOMENTUM >> f->schedule & 1)) return STATUS_CONTINUE;
  for (size_t i = 0; i < sizeof moving / sizeof *moving; i++)
    if (options_given(o, moving[i]) && optimizer == AC_ADAFACTOR)
      return fail_usage("--%s has no meaning for the optimizer adafactor", moving[i]);
  for (size_t i = 1; i < sizeof moving / sizeof *moving; i++)
    if (options_given(o, moving[i]) && f->keep_momentum)
      return fail_usage("--%s has no meaning with --cycle-momentum off", moving[i]);
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

int rate_check(const rate_flags *f, const options *o, ac_optimizer_kind optimizer) {
  int status = check_relevance(f, o);
  if (status == STATUS_CONTINUE) status = check_momentum(f, o, optimizer);
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
