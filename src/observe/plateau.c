/* A learning rate that falls where validation losses do not (AC_SCHEDULE_PLATEAU). */
#include "observe/plateau.h"

#include "core/integers.h"
#include "schedule/schedule.h"

#include <math.h>

ac_plateau ac_plateau_begin(const ac_schedule *schedule) {
  return (ac_plateau){.schedule = schedule, .best = (double)INFINITY};
}

static bool is_better(const ac_plateau *p, double loss) {
  const ac_schedule *s = p->schedule;
  const double threshold = ac_or_default(s->threshold, 1e-4);
  return loss < (s->threshold_absolute ? p->best - threshold : p->best * (1 - threshold));
}

/* A rate that would hardly change stays, by PyTorch's measure. */
static bool can_fall(const ac_plateau *p) {
  const ac_schedule *s = p->schedule;
  const double now = ac_schedule_reduced_rate(s, p->reductions, s->warmup),
               next = ac_schedule_reduced_rate(s, p->reductions + 1, s->warmup);
  return now - next > 1e-8;
}

void ac_plateau_observe(ac_plateau *p, double loss) {
  const ac_schedule *s = p->schedule;
  const int64_t patience = s->patience ? s->patience : 10;
  const bool better = is_better(p, loss);
  p->bad = better || p->cooling > 0 ? 0 : p->bad + 1;
  p->cooling -= p->cooling > 0;
  if (better) p->best = loss;
  if (p->bad <= (patience > 0 ? patience : 0)) return;
  p->reductions += can_fall(p);
  p->cooling = s->cooldown > 0 ? ac_smaller(s->cooldown, AC_MOST_COUNT) : 0; /* as states hold */
  p->bad = 0;
}

/* ---- as a watcher ---------------------------------------------------------------------------- */

static ac_status begin(void *record, const ac_watch_setup *setup) {
  *(ac_plateau *)record = ac_plateau_begin(&setup->desc->schedule);
  return AC_OK;
}

static bool is_used(const void *record) {
  return ((const ac_plateau *)record)->schedule->kind == AC_SCHEDULE_PLATEAU;
}

static void validated(void *record, double loss) {
  if (is_used(record)) ac_plateau_observe(record, loss);
}

static void anew(void *record) {
  ac_plateau *plateau = record;
  *plateau = ac_plateau_begin(plateau->schedule);
}

static const char *check(const void *record, const ac_run *run) {
  (void)run;
  return isnan(((const ac_plateau *)record)->best) ? "plateau.best" : NULL;
}

#define COUNT(key, member) AC_STATE_FIELD(key, AC_COUNT, ac_plateau, member, AC_MOST_COUNT)
static const ac_state_field fields[] = {
    AC_STATE_FIELD("plateau.best", AC_REAL, ac_plateau, best, 0),
    COUNT("plateau.bad", bad),
    COUNT("plateau.cooling", cooling),
    COUNT("plateau.reductions", reductions),
    {0}};

const ac_watcher ac_watcher_plateau = {
    .record = {.fields = fields, .is_kept = is_used, .anew = anew, .check = check},
    .bytes = sizeof(ac_plateau),
    .begin = begin,
    .validated = validated};
