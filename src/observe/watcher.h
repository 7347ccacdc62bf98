/* A watcher follows a run window by window: what it keeps, what it needs, and when it is called. It
 * sees what a window has come to, and never the trainer. observe/list.h has one row for each. */
#ifndef AC_OBSERVE_WATCHER_H
#define AC_OBSERVE_WATCHER_H

#include "plan/plan.h"
#include "record/run.h"

/* A window as watchers see it. `first` sees weight and norm of the first micro-batch, and no loss.
 * Where parameters are stepped in the only pass, `looks` and `before_step` see the rate alone. */
typedef struct ac_window_view {
  const struct ac_trainer *source; /* which the functions below read */
  const ac_plan *plan;
  const ac_run *run;   /* updates, samples and batch are those of before this window's update */
  double rate;         /* of this update */
  double loss, weight; /* as in ac_update; weight: what the sum of gradients is divided by */
  double norm;         /* of the gradient of the mean loss; NaN: not known */
  bool finite_loss, finite_gradient;
  bool weighs, divides; /* its weight is above 0, and large enough to divide by; */
  bool light;           /* if not for the reason of one of several losses alone */
} ac_window_view;

/* Of a parameter's sum of gradients: the sum of squares, as it was measured last, and the norm of
 * the mean; 0 if it is not trained. */
double ac_view_squares(const ac_window_view *view, int parameter);
double ac_view_norm(const ac_window_view *view, int parameter);
bool ac_view_trains(const ac_window_view *view, int parameter);
/* Elements of a parameter, or of its gradient where it is kept. */
ac_status ac_view_weights(const ac_window_view *view, int parameter, int64_t first, int64_t count,
                          float *data);
ac_status ac_view_gradient(const ac_window_view *view, int parameter, int64_t first, int64_t count,
                           float *data);

/* What watchers propose for a window that can still be decided on. */
typedef struct ac_proposal {
  double factor;  /* what gradients are multiplied by in addition to clipping; 1 */
  bool skip;      /* change nothing */
  bool back;      /* the fit goes back to its good state after this window */
  ac_spike spike; /* for ac_update */
} ac_proposal;

/* What a way of gradients has to have. */
enum {
  AC_NEEDS_NOISE = 1,    /* micro-batches are measured by themselves */
  AC_NEEDS_SKIP = 2,     /* a window can be skipped once it is known what it has come to */
  AC_NEEDS_LEAVE_OUT = 4 /* what is not finite is left out: the window, or parameters alone */
};

/* What a watcher begins with. */
typedef struct ac_watch_setup {
  const ac_plan *plan;
  const ac_trainer_desc *desc; /* which stays where it is */
  const ac_run *run;
} ac_watch_setup;

/* Numbers of the record about this window alone. They are measured from samples of one rank: ranks
 * add them up before watchers judge. When the window is over they are 0. */
typedef struct ac_watch_sum {
  ac_state_number number;
  ac_state_number times; /* of the record: how many there are, `stride` apart; no number: one */
  size_t stride;
} ac_watch_sum;

enum { AC_WATCH_SUMS = 5 };

typedef struct ac_watcher {
  ac_record record;
  size_t bytes; /* of its record */
  /* And those of tables at its end; NULL: it has none. */
  size_t (*tables)(const ac_watch_setup *setup);
  ac_watch_sum sums[AC_WATCH_SUMS + 1];

  /* What it needs of the way of gradients where it is asked to work: by the trainer's description,
   * or by a fit's. `lacking` is the sentence that refuses another, with the words of that way for
   * %s. */
  unsigned needs;
  bool (*is_asked)(const ac_watch_setup *setup, const ac_fit_desc *fit);
  const char *lacking;

  /* All may be NULL. `begin` takes the description and refuses what makes no sense; `release` frees
   * what it has allocated in addition to its record. */
  ac_status (*begin)(void *record, const ac_watch_setup *setup);
  void (*release)(void *record);

  /* After the first micro-batch: whether to measure its gradient, and what has come of it. */
  bool (*wants_first)(const void *record, const ac_window_view *view);
  void (*first)(void *record, const ac_window_view *view);
  /* Before a window changes anything. */
  void (*judge)(const void *record, const ac_window_view *view, ac_proposal *proposal);
  /* Whether to look at parameters before and after this update. */
  bool (*looks)(const void *record, const ac_window_view *view);
  ac_status (*before_step)(void *record, const ac_window_view *view);
  ac_status (*after_step)(void *record, const ac_window_view *view);
  /* At the end of a window, which may have been skipped. It may complete what is reported. */
  void (*after)(void *record, const ac_window_view *view, ac_update *update);

  /* A fit that makes sense for the plan; one that begins, or goes on; and one of the validations by
   * which it goes. */
  ac_status (*check_fit)(const void *record, const ac_watch_setup *setup, const ac_fit_desc *fit);
  ac_status (*begin_fit)(void *record, const ac_watch_setup *setup, const ac_fit_desc *fit,
                         bool goes_on);
  void (*validated)(void *record, double loss);
  /* After a good state was loaded at this step: takes from before what is not to be forgotten. */
  void (*went_back)(void *record, const void *before, const ac_run *run, int64_t step);
  /* Does nothing until its record is put back. */
  void (*rest)(void *record);
} ac_watcher;

#endif
