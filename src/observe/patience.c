#include "observe/patience.h"

#include "core/error.h"

#include <math.h>

bool ac_patience_is_over(const ac_patience *p) {
  return p->patience && p->no_better >= p->patience;
}

static ac_status check_fit(const void *record, const ac_watch_setup *setup,
                           const ac_fit_desc *fit) {
  (void)record, (void)setup;
  if (fit->patience < 0 || !(fit->patience_gain >= 0))
    return ac_fail(AC_ERROR_ARGUMENT, "fit: patience and patience_gain must not be negative");
  if (!fit->patience || (fit->validation && fit->eval_every > 0)) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "fit: patience needs validations: give data for them, and eval_every");
}

static void anew(void *record) {
  ac_patience *p = record;
  p->watched = p->no_better = 0;
  p->least_loss = 0;
}

static ac_status begin_fit(void *record, const ac_watch_setup *setup, const ac_fit_desc *fit,
                           bool goes_on) {
  ac_patience *p = record;
  (void)setup;
  p->patience = fit->patience;
  p->gain = fit->patience_gain;
  if (!goes_on) anew(p);
  return AC_OK;
}

static void validated(void *record, double loss) {
  ac_patience *p = record;
  if (!p->patience) return;
  const bool none = p->watched == 0 || isnan(p->least_loss);
  const bool better = none || loss < p->least_loss - p->gain;
  p->watched++;
  p->no_better = better ? 0 : p->no_better + 1;
  if (better) p->least_loss = loss;
}

static bool has_watched(const void *record) {
  return ((const ac_patience *)record)->watched > 0;
}

#define FIELD(key, kind, member, most) AC_STATE_FIELD(key, kind, ac_patience, member, most)
static const ac_state_field fields[] = {
    FIELD("patience.watched", AC_COUNT, watched, AC_MOST_COUNT),
    FIELD("patience.no_better", AC_COUNT, no_better, AC_MOST_COUNT),
    FIELD("patience.least_loss", AC_REAL, least_loss, 0),
    {0}};

const ac_watcher ac_watcher_patience = {
    .record = {.fields = fields, .is_kept = has_watched, .anew = anew},
    .bytes = sizeof(ac_patience),
    .check_fit = check_fit,
    .begin_fit = begin_fit,
    .validated = validated};
