/* The alarm for spikes: windows with a loss or gradient that is far larger than in those before
 * them. */
#ifndef AC_OBSERVE_SPIKES_H
#define AC_OBSERVE_SPIKES_H

#include "observe/list.h"

enum { AC_SPIKE_WINDOWS = 64 };

/* What is remembered of a window; norm 0: not known. */
typedef struct ac_calm_window {
  double loss, norm;
} ac_calm_window;

/* What is known of earlier windows. */
typedef struct ac_spikes {
  ac_spike_desc desc;   /* defaults filled in */
  bool can_skip;        /* a spike is known before it changes anything */
  int64_t count, batch; /* of windows that are remembered, and of their samples; 0: none */
  ac_calm_window windows[AC_SPIKE_WINDOWS]; /* oldest first */
  int64_t alarms, run;                      /* in all, and in a row */
  int64_t calm;                             /* windows without one since the last */
  /* About going back: how often in all and to the current good state, the factor of learning rates,
   * and the last update at which this happened, or at which a good state could not be saved. */
  int64_t went_back, again, back_step;
  double rate;
  int64_t has_good, good_step; /* whether there is a good state, and ac_fit_event.step */
} ac_spikes;

/* A finite window of so many samples; `norm` NaN: not known. */
ac_spike ac_spikes_judge(const ac_spikes *spikes, int64_t batch, int64_t samples, double loss,
                         double norm);
/* What is known after such a window, which may have been skipped. */
void ac_spikes_take(ac_spikes *spikes, const ac_spike *spike, int64_t batch, double loss,
                    double norm, bool skipped);

/* ---- good states ----------------------------------------------------------------------------- */

/* Whether a good state is due after this update: one every `every` updates. At first they come
 * sooner, so that there is one early: the number of updates doubles from one to the next. */
bool ac_spikes_good_is_due(const ac_spikes *spikes, int64_t step, int64_t every);
void ac_spikes_good_is_here(ac_spikes *spikes, int64_t step);
/* It could not be saved: the next is due as late as after going back. */
void ac_spikes_good_failed(ac_spikes *spikes, int64_t step);

#endif
