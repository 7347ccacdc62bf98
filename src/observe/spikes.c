/* A window is compared with the median of earlier ones and their median absolute deviation. A few
 * spikes among the earlier windows do not change these. 64 numbers are sorted for each window,
 * which takes a few microseconds; they are kept in the order of measuring.
 *
 * Only windows that led to an update without an alarm are remembered. After several alarms in a row
 * all is forgotten, so that a new level does not raise alarms for ever. */
#include "observe/spikes.h"

#include "core/error.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  LEAST = 16,  /* windows that have to be known */
  MOST_RUN = 8 /* alarms in a row, and the windows without one that make a state good */
};

/* The least deviation, as a part of the median: if windows are almost equal, every other would be
 * an alarm. */
static const double least_deviation = 0.01;

static ac_status check_desc(ac_spike_desc *desc) {
  if ((unsigned)desc->policy > AC_SPIKE_BACK)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: unknown policy for spikes %d", (int)desc->policy);
  if (desc->deviations == 0) desc->deviations = 10;
  if (desc->back_rate == 0) desc->back_rate = 0.5;
  if (desc->most_back == 0) desc->most_back = 3;
  if (!(desc->deviations > 0) || isinf(desc->deviations))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: the deviations of a spike must be positive and finite; they are %g",
                   desc->deviations);
  if (!(desc->back_rate > 0 && desc->back_rate <= 1) || desc->most_back < 0)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: most_back must not be negative, and back_rate must be above 0 and at "
                   "most 1; they are %lld and %g",
                   (long long)desc->most_back, desc->back_rate);
  return AC_OK;
}

/* ---- a window -------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Sorts what it is given. */
static double median(double *x, int64_t count) {
  qsort(x, (size_t)count, sizeof *x, ascending);
  return (x[(count - 1) / 2] + x[count / 2]) / 2;
}

/* NaN: too little is known. `wider`: what a deviation counts. */
static double limit_of(const ac_spikes *spikes, bool of_norms, int64_t count, double wider) {
  const double deviations = spikes->desc.deviations;
  double x[AC_SPIKE_WINDOWS];
  if (count < LEAST) return (double)NAN;
  for (int64_t i = 0; i < count; i++)
    x[i] = of_norms ? spikes->windows[i].norm : spikes->windows[i].loss;
  const double middle = median(x, count);
  for (int64_t i = 0; i < count; i++) x[i] = fabs(x[i] - middle);
  const double deviation = fmax(1.4826 * median(x, count), least_deviation * fabs(middle));
  return deviation > 0 ? middle + deviations * wider * deviation : (double)NAN;
}

ac_spike ac_spikes_judge(const ac_spikes *spikes, int64_t batch, int64_t samples, double loss,
                         double norm) {
  const int64_t count = spikes->batch == batch ? spikes->count : 0;
  const double wider = samples < batch ? sqrt((double)batch / (double)samples) : 1;
  ac_spike spike = {.loss_limit = limit_of(spikes, false, count, wider),
                    .norm_limit = wider * limit_of(spikes, true, count, 1)};
  spike.alarm = loss > spike.loss_limit || norm > spike.norm_limit;
  spike.begins_anew = spike.alarm && spikes->run + 1 >= MOST_RUN;
  return spike;
}

static void remember(ac_spikes *spikes, double loss, double norm) {
  if (spikes->count == AC_SPIKE_WINDOWS) {
    memmove(spikes->windows, spikes->windows + 1, sizeof spikes->windows - sizeof *spikes->windows);
    spikes->count--;
  }
  spikes->windows[spikes->count++] = (ac_calm_window){loss, isnan(norm) ? 0 : norm};
}

void ac_spikes_take(ac_spikes *spikes, const ac_spike *spike, int64_t batch, double loss,
                    double norm, bool skipped) {
  if (spikes->batch != batch) spikes->count = spikes->run = 0;
  spikes->batch = batch;
  if (spike->alarm) {
    spikes->alarms++;
    spikes->run++;
    spikes->calm = 0;
    if (spike->begins_anew) spikes->count = spikes->run = 0;
  } else if (!skipped) {
    spikes->run = 0;
    spikes->calm++;
    if (isfinite(loss) && !isinf(norm)) remember(spikes, loss, norm);
  }
}

/* ---- good states ----------------------------------------------------------------------------- */

/* When nothing would go back to it. */
static void forget_good(ac_spikes *spikes) {
  spikes->has_good = spikes->good_step = spikes->again = spikes->back_step = 0;
}

bool ac_spikes_good_is_due(const ac_spikes *spikes, int64_t step, int64_t every) {
  if (!spikes->has_good) return true;
  const int64_t last =
      spikes->good_step > spikes->back_step ? spikes->good_step : spikes->back_step;
  const int64_t early = last > MOST_RUN ? last : MOST_RUN, wait = early < every ? early : every;
  return spikes->calm >= MOST_RUN && step - last >= wait;
}

void ac_spikes_good_is_here(ac_spikes *spikes, int64_t step) {
  spikes->has_good = 1;
  spikes->good_step = step;
  spikes->again = 0;
}

void ac_spikes_good_failed(ac_spikes *spikes, int64_t step) {
  spikes->back_step = step;
}

/* ---- as a watcher ---------------------------------------------------------------------------- */

static ac_status begin(void *record, const ac_watch_setup *setup) {
  ac_spikes *spikes = record;
  spikes->desc = setup->desc->spikes;
  spikes->can_skip = setup->plan->way->can_skip;
  return check_desc(&spikes->desc);
}

/* What has changed parameters or moments by the time it is known cannot be skipped. */
static bool skips(const ac_watch_setup *setup, const ac_fit_desc *fit) {
  return !fit && setup->desc->spikes.policy == AC_SPIKE_SKIP;
}

static void judge(const void *record, const ac_window_view *view, ac_proposal *proposal) {
  const ac_spikes *spikes = record;
  const ac_spike_policy policy = spikes->desc.policy;
  if (policy == AC_SPIKE_IGNORE || !view->finite_loss || !view->finite_gradient ||
      isnan(view->loss))
    return;
  const ac_run *run = view->run;
  proposal->spike = ac_spikes_judge(spikes, run->batch, run->samples, view->loss, view->norm);
  if (!proposal->spike.alarm) return;
  proposal->skip |= policy >= AC_SPIKE_SKIP && spikes->can_skip;
  proposal->back |= policy == AC_SPIKE_BACK && spikes->has_good;
}

static void after(void *record, const ac_window_view *view, ac_update *update) {
  ac_spikes *spikes = record;
  if (spikes->desc.policy == AC_SPIKE_IGNORE || !update->finite_loss || !update->finite_gradient ||
      !view->weighs)
    return;
  ac_spikes_take(spikes, &update->spike, view->run->batch, update->loss, update->grad_norm,
                 update->skipped);
}

static ac_status begin_fit(void *record, const ac_watch_setup *setup, const ac_fit_desc *fit,
                           bool goes_on) {
  ac_spikes *spikes = record;
  (void)setup, (void)fit;
  if (!goes_on) spikes->alarms = spikes->went_back = 0;
  if (!goes_on || spikes->desc.policy != AC_SPIKE_BACK) forget_good(spikes);
  return AC_OK;
}

static void went_back(void *record, const void *before_record, const ac_run *run, int64_t step) {
  const ac_spikes *before = before_record;
  ac_spikes *spikes = record;
  (void)run;
  spikes->alarms = before->alarms;
  spikes->run = spikes->calm = 0;
  spikes->went_back = before->went_back + 1;
  spikes->again = before->again + 1;
  spikes->back_step = step;
  spikes->rate = fmax(before->rate * spikes->desc.back_rate, DBL_MIN);
}

static void rest(void *record) {
  ac_spikes *spikes = record;
  spikes->desc.policy = AC_SPIKE_IGNORE;
  spikes->rate = 1;
}

/* ---- states ---------------------------------------------------------------------------------- */

static bool is_kept(const void *record) {
  const ac_spikes *spikes = record;
  return spikes->desc.policy != AC_SPIKE_IGNORE || spikes->rate != 1;
}

static void anew(void *record) {
  ac_spikes *spikes = record;
  *spikes = (ac_spikes){.desc = spikes->desc, .can_skip = spikes->can_skip, .rate = 1};
}

static const char *check(const void *record, const ac_run *run) {
  const ac_spikes *spikes = record;
  (void)run;
  return spikes->rate > 0 && spikes->rate <= 1 ? NULL : "spikes.rate";
}

static const ac_state_rows history = {
    .of = {{.kind = AC_FINITE, .offset = offsetof(ac_calm_window, loss)},
           {.kind = AC_FINITE, .offset = offsetof(ac_calm_window, norm), .before = ' '}},
    .between = ' ',
    .begin = offsetof(ac_spikes, windows),
    .stride = sizeof(ac_calm_window),
    .count = {.kind = AC_COUNT, .offset = offsetof(ac_spikes, count)}};

#define FIELD(key, kind, member, most) AC_STATE_FIELD(key, kind, ac_spikes, member, most)
#define COUNT(key, member) FIELD(key, AC_COUNT, member, AC_MOST_COUNT)
static const ac_state_field fields[] = {FIELD("spikes.count", AC_COUNT, count, AC_SPIKE_WINDOWS),
                                        COUNT("spikes.batch", batch),
                                        COUNT("spikes.alarms", alarms),
                                        COUNT("spikes.run", run),
                                        COUNT("spikes.calm", calm),
                                        COUNT("spikes.went_back", went_back),
                                        COUNT("spikes.again", again),
                                        COUNT("spikes.back_step", back_step),
                                        FIELD("spikes.rate", AC_REAL, rate, 0),
                                        FIELD("spikes.has_good", AC_COUNT, has_good, 1),
                                        COUNT("spikes.good_step", good_step),
                                        {.key = "accrue.state.spikes.history", .rows = &history},
                                        {0}};

const ac_watcher ac_watcher_spikes = {
    .record = {.fields = fields, .is_kept = is_kept, .anew = anew, .check = check},
    .bytes = sizeof(ac_spikes),
    .needs = AC_NEEDS_SKIP,
    .is_asked = skips,
    .lacking =
        "trainer: a spike cannot be skipped if gradients are %s; go back to a good state instead",
    .begin = begin,
    .judge = judge,
    .after = after,
    .begin_fit = begin_fit,
    .went_back = went_back,
    .rest = rest};
