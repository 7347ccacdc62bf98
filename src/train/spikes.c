/* A window is compared with the median of earlier ones and their median absolute deviation. A few
 * spikes among the earlier windows do not change these. 64 numbers are sorted for each window,
 * which takes a few microseconds; they are kept in the order of measuring.
 *
 * Only windows that led to an update without an alarm are remembered. After several alarms in a row
 * all is forgotten, so that a new level does not raise alarms for ever. */
#include "train/spikes.h"

#include "core/error.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  LEAST = 16,  /* windows that have to be known */
  MOST_RUN = 8 /* alarms in a row, and the windows without one that make a state good */
};

/* The least deviation, as a part of the median: if windows are almost equal, every other would be
 * an alarm. */
static const double least_deviation = 0.01;

ac_spikes ac_spikes_begin(void) {
  return (ac_spikes){.rate = 1};
}

ac_status ac_spikes_check(ac_spike_desc *desc) {
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
static double limit_of(const double *known, int64_t count, double deviations, double wider) {
  double x[AC_SPIKE_WINDOWS];
  if (count < LEAST) return (double)NAN;
  memcpy(x, known, (size_t)count * sizeof *x);
  const double middle = median(x, count);
  for (int64_t i = 0; i < count; i++) x[i] = fabs(x[i] - middle);
  const double deviation = fmax(1.4826 * median(x, count), least_deviation * fabs(middle));
  return deviation > 0 ? middle + deviations * wider * deviation : (double)NAN;
}

ac_spike ac_spikes_judge(const ac_spikes *spikes, const ac_spike_desc *desc, int64_t batch,
                         int64_t samples, double loss, double norm) {
  const int64_t count = spikes->batch == batch ? spikes->count : 0;
  const double wider = samples < batch ? sqrt((double)batch / (double)samples) : 1;
  ac_spike spike = {.loss_limit = limit_of(spikes->losses, count, desc->deviations, wider),
                    .norm_limit = wider * limit_of(spikes->norms, count, desc->deviations, 1)};
  spike.alarm = loss > spike.loss_limit || norm > spike.norm_limit;
  spike.begins_anew = spike.alarm && spikes->run + 1 >= MOST_RUN;
  return spike;
}

static void remember(ac_spikes *spikes, double loss, double norm) {
  if (spikes->count == AC_SPIKE_WINDOWS) {
    const size_t bytes = (AC_SPIKE_WINDOWS - 1) * sizeof *spikes->losses;
    memmove(spikes->losses, spikes->losses + 1, bytes);
    memmove(spikes->norms, spikes->norms + 1, bytes);
    spikes->count--;
  }
  spikes->losses[spikes->count] = loss;
  spikes->norms[spikes->count] = isnan(norm) ? 0 : norm;
  spikes->count++;
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

void ac_spikes_begin_fit(ac_spikes *spikes) {
  spikes->alarms = spikes->went_back = 0;
  ac_spikes_forget_good(spikes);
}

void ac_spikes_forget_good(ac_spikes *spikes) {
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

void ac_spikes_go_back(ac_spikes *spikes, const ac_spikes *before, const ac_spike_desc *desc,
                       int64_t step) {
  spikes->alarms = before->alarms;
  spikes->run = spikes->calm = 0;
  spikes->went_back = before->went_back + 1;
  spikes->again = before->again + 1;
  spikes->back_step = step;
  spikes->rate = fmax(before->rate * desc->back_rate, DBL_MIN);
}

/* ---- states ---------------------------------------------------------------------------------- */

void ac_spikes_put(const ac_spikes *spikes, char text[AC_SPIKES_TEXT]) {
  size_t used = 0;
  text[0] = 0;
  for (int64_t i = 0; i < spikes->count; i++)
    used += (size_t)snprintf(text + used, AC_SPIKES_TEXT - used, "%s%.17g %.17g", i ? " " : "",
                             spikes->losses[i], spikes->norms[i]);
}

bool ac_spikes_get(ac_spikes *spikes, const char *text) {
  char again[AC_SPIKES_TEXT], *end = (char *)text;
  if (spikes->count > AC_SPIKE_WINDOWS) return false;
  for (int64_t i = 0; i < spikes->count; i++) {
    spikes->losses[i] = strtod(end, &end);
    spikes->norms[i] = strtod(end, &end);
    if (!isfinite(spikes->losses[i]) || !isfinite(spikes->norms[i])) return false;
  }
  ac_spikes_put(spikes, again);
  return !strcmp(text, again);
}
