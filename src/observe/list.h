/* The list of watchers, and what a trainer calls for all of them. */
#ifndef AC_OBSERVE_LIST_H
#define AC_OBSERVE_LIST_H

#include "observe/watcher.h"

/* For each NAME the file observe/NAME.c has ac_watcher_NAME, and its record is an ac_NAME. They are
 * called in this order. */
#define AC_WATCHERS(W) \
  W(scaler)            \
  W(plateau)           \
  W(patience)          \
  W(noise)             \
  W(spikes)            \
  W(growth)            \
  W(layers)            \
  W(noise_layers)

#define AC_WATCHER_(name) AC_WATCHER_##name,
enum { AC_WATCHERS(AC_WATCHER_) AC_WATCHER_COUNT };
#undef AC_WATCHER_

#define AC_WATCHER_(name) extern const ac_watcher ac_watcher_##name;
AC_WATCHERS(AC_WATCHER_)
#undef AC_WATCHER_

extern const ac_watcher *const ac_watchers[AC_WATCHER_COUNT];

/* What a watcher keeps. */
#define AC_WATCHED(run, name) ((ac_##name *)(run)->watched[AC_WATCHER_##name])

/* ---- records --------------------------------------------------------------------------------- */

/* All records of a run, in the order in which states have them: `index` from 0 on; NULL: there are
 * no more. *at: where the record is. */
const ac_record *ac_run_record(const ac_run *run, int index, void **at);

/* The record of a run without a plan, to read into. Release it, also after a failure. */
ac_status ac_run_create(ac_run *run);
/* Another with the same in it. */
ac_status ac_run_copy(ac_run *copy, const ac_run *run);
/* Makes `run` what its copy is. */
void ac_run_put_back(ac_run *run, const ac_run *copy);
/* And what was read into its copy, from a run with another plan perhaps. */
void ac_run_take(ac_run *run, ac_run *read);
/* Frees a copy. */
void ac_run_drop(ac_run *copy);

/* ---- a trainer's life ------------------------------------------------------------------------ */

/* Release in any case. */
ac_status ac_watchers_begin(ac_run *run, const ac_watch_setup *setup);
void ac_watchers_release(ac_run *run);

/* ---- a window: each as in ac_watcher --------------------------------------------------------- */

bool ac_watchers_want_first(const ac_window_view *view);
void ac_watchers_first(ac_run *run, const ac_window_view *view);
ac_proposal ac_watchers_judge(const ac_window_view *view);
bool ac_watchers_look(const ac_window_view *view);
ac_status ac_watchers_before_step(ac_run *run, const ac_window_view *view);
ac_status ac_watchers_after_step(ac_run *run, const ac_window_view *view);
void ac_watchers_after(ac_run *run, const ac_window_view *view, ac_update *update);
/* What all watchers have measured of the window in progress that ranks add up, and back. Returns
 * how many numbers there are; without room for them it only counts. */
int64_t ac_watchers_get_sums(const ac_run *run, double *values);
void ac_watchers_set_sums(ac_run *run, const double *values);
/* When the window is over or discarded, or its gradients are no longer those of its samples. */
void ac_watchers_leave(ac_run *run);

/* ---- a fit ----------------------------------------------------------------------------------- */

ac_status ac_watchers_check_fit(const ac_watch_setup *setup, const ac_fit_desc *fit);
ac_status ac_watchers_begin_fit(ac_run *run, const ac_watch_setup *setup, const ac_fit_desc *fit,
                                bool goes_on);
void ac_watchers_validated(ac_run *run, double loss);
void ac_watchers_go_back(ac_run *run, const ac_run *before, int64_t step);
void ac_watchers_rest(ac_run *run);

#endif
