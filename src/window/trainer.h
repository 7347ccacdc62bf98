/* The state of training: an instance, the window in progress, the counters. */
#ifndef AC_WINDOW_TRAINER_H
#define AC_WINDOW_TRAINER_H

#include "observe/growth.h"
#include "observe/layers.h"
#include "observe/noise_layers.h"
#include "observe/patience.h"
#include "observe/plateau.h"
#include "observe/scaler.h"
#include "observe/spikes.h"
#include "schedule/schedule.h"
#include "window/exchange.h"
#include "run/instance.h"

#include <float.h>
#include <math.h>

static inline float ac_to_float(double x) {
  return x > (double)FLT_MAX ? INFINITY : (float)x;
}

/* Whether a parameter is stepped in its window's only pass. */
typedef enum ac_local_decision {
  AC_LOCAL_UNDECIDED = 0,
  AC_LOCAL_RUNS,
  AC_LOCAL_LEFT_OUT
} ac_local_decision;

/* The window in progress, and the update that ends it. */
typedef struct ac_open_window {
  ac_window_view view;          /* what watchers see of it; `rate` is that of the current update */
  ac_optimizer_desc optimizer;  /* of the current update: with the momentum of the schedule */
  double shares[AC_MAX_LOSSES]; /* of each gradient in the sum, in addition to the loss scale */
  float loss_scales[AC_MAX_LOSSES]; /* run.loss_scales */
  double reduced_weight;            /* of the window that was reduced last; 0: none */
  /* The parameter with a gradient that was not finite in the last update, or the running mean with
   * pooled statistics that were not; -1: none. */
  int nonfinite;
  ac_proposal proposal; /* of watchers, for the last window that could be decided on */
  bool rewritten;       /* the caller has written gradients since it was reduced */
  bool broken;          /* a device failure left it half done */
} ac_open_window;

/* Functions of the caller's that are being called, from where not everything is allowed. */
typedef struct ac_trainer_busy {
  bool handing_over;    /* its own optimizer, during an update */
  bool deciding;        /* it looks at what was reduced */
  bool evaluating;      /* its datasets are read, and it is asked to stop an evaluation */
  bool asking;          /* a fit asks it whether to stop */
  int fits;             /* how many are in progress, one in a callback of the other */
  bool averaged;        /* averages are in the place of parameters */
  ac_decide fit_decide; /* the ac_fit in progress, which also asks the caller */
  void *fit_user;
} ac_trainer_busy;

struct ac_trainer {
  ac_instance instance;
  /* Settings. */
  ac_trainer_desc desc;   /* defaults filled in, but those of what watchers take */
  int64_t schedule_begin; /* the update from which the schedule counts */
  ac_loss_division division;
  /* What it remembers, and what it is at. */
  ac_run run;
  ac_open_window window;
  ac_trainer_busy busy;
  ac_exchange exchange; /* between ranks */
  bool has_stepped;     /* an update has run all that updates run */
  /* Memory for an update. */
  struct {
    ac_local_decision *decided; /* by parameter, of the current update */
    int *stepped;               /* by parameter: how often the current update steps it */
    float *views;               /* what a caller's own optimizer is handed copies in */
  } scratch;
};

/* Adds samples [first, first + count) of the data, by input, to the window: at most a micro-batch.
 * `last`: no others of this rank's follow. */
ac_status ac_trainer_accumulate_data(ac_trainer *trainer, const void *const *data, int64_t first,
                                     int64_t count, bool last);
/* Says what the window that begins with these samples holds in all, where several losses need that;
 * ac_trainer_accumulate does. */
ac_status ac_trainer_count_window(ac_trainer *trainer, const void *const *data, int64_t first,
                                  int64_t count);
/* Begins a window, before its first sample, or where a rank has none. */
void ac_trainer_begin(ac_trainer *trainer);
/* Shows watchers what the host's copies say of a window's first micro-batch. */
void ac_trainer_show_first(ac_trainer *trainer);
/* The optimizer's settings for the update that comes next: with the schedule's momentum. */
ac_optimizer_desc ac_trainer_optimizer(const ac_trainer *trainer);
/* The momentum, or beta1, of the current update; 0 of an optimizer that has none. */
double ac_trainer_momentum(const ac_trainer *trainer);
/* Refuses to go on with a window after a failure, or while an update is being decided. */
ac_status ac_trainer_check_usable(const ac_trainer *trainer);
/* Refuses what no callback may do that the trainer itself calls in the middle of something: that
 * decides on an update, is handed a parameter, reads a sample, or is asked to stop an evaluation.
 */
ac_status ac_trainer_check_deciding(const ac_trainer *trainer);
/* And what may not be done either where a fit asks within a window whether to stop: to change that
 * window. */
ac_status ac_trainer_check_asking(const ac_trainer *trainer);
/* Like ac_trainer_check_usable, for functions that only read the window. */
ac_status ac_trainer_check_whole(const ac_trainer *trainer);
/* Fails if the plan has no moment at which a caller could decide on an update; the message names
 * `who`. */
ac_status ac_trainer_check_decidable(const ac_plan *plan, const char *who);
/* Sets the factors of the gradients of the losses by the loss scale, before a window begins. */
void ac_trainer_set_loss_scale(ac_trainer *trainer);
/* And by what each loss weighs in the window that begins or goes on. */
void ac_trainer_set_window_scale(ac_trainer *trainer);
/* The first of several losses that weighs so little in the last window that the factor of its
 * gradient is beyond floats, and not for the loss scale alone; -1: none. */
int ac_trainer_light_loss(const ac_trainer *trainer);

/* ---- ending a window: update.c, local.c ------------------------------------------------------ */

static inline bool ac_trainer_trains(const ac_trainer *trainer, int parameter) {
  return trainer->instance.plan->problem.parameters[parameter].gradient >= 0;
}

/* What one pass over a parameter's gradient yields, or over what was pooled for a parameter that is
 * not trained. */
typedef struct ac_measure {
  double squares; /* their sum, unscaled */
  bool finite;
} ac_measure;
/* From the host's copy. */
ac_measure ac_trainer_measure(const ac_trainer *trainer, const ac_cell *cell);
/* The sum of squares that the host's copy of a cell has; infinite: elements are. And back. */
double ac_trainer_squares(const ac_trainer *trainer, const ac_cell *cell);
void ac_trainer_set_squares(ac_trainer *trainer, const ac_cell *cell, double squares);
/* Whether the step of a parameter can keep the squares of its gradient after they were multiplied
 * with `factor`. `squares` is their sum. */
bool ac_trainer_holds_squares(const ac_trainer *trainer, int index, double squares, double factor);

/* What one pass over all gradients and pooled statistics yields. */
typedef struct ac_gradient_report {
  double norm;                       /* of the sum of gradients, unscaled */
  double groups[AC_MAX_GROUPS];      /* of each group's part */
  double clipped[AC_MAX_GROUPS + 1]; /* of those that are clipped by one norm; last: all without a
                                        clip of their group's */
  bool finite;                       /* also pooled statistics */
} ac_gradient_report;
/* From the host's copy; trainer->window.nonfinite says which one is not finite. */
ac_gradient_report ac_trainer_read_statistics(ac_trainer *trainer);

/* What a window's losses have come to, and what follows for its sum of gradients. */
typedef struct ac_window_sum {
  ac_total_loss total;
  double factor; /* 1 / (loss scale x weight) */
  bool light;    /* ac_trainer_light_loss */
  bool divides;  /* what the sum is multiplied with is a number */
} ac_window_sum;
ac_window_sum ac_trainer_window_sum(const ac_trainer *trainer);
/* Fails if losses do not weigh what they should. */
ac_status ac_trainer_check_losses(const ac_trainer *trainer);

/* What clipping leaves of a gradient of this norm. */
double ac_trainer_clip(double clip, double norm);
/* What a parameter's gradient is clipped by: its group's, or the optimizer's. */
double ac_trainer_clip_of(const ac_trainer *trainer, int index);
/* Sets what the step of a trained parameter uses in the current update. */
void ac_trainer_set_step(ac_trainer *trainer, int index, double factor, double rate);

/* Refuses an update in which what some parameter is stepped by is beyond floats. */
ac_status ac_trainer_check_steps(const ac_trainer *trainer);

/* As ac_trainer_discard, but of this rank alone. */
void ac_trainer_leave_window(ac_trainer *trainer);

/* After an update that failed half way: the trainer cannot be used until a state is loaded. */
void ac_trainer_give_up(ac_trainer *trainer);

/* Sets what averages use in the current update. */
void ac_trainer_set_averages(ac_trainer *trainer);

/* Runs the only pass of a window that steps parameters in it. `steps` says how many steps were
 * taken, also after a failure. */
typedef struct ac_local_steps {
  int taken;    /* parameters that are trained */
  int left_out; /* parameters with gradients, or kept squares of them, that are not finite */
} ac_local_steps;
ac_status ac_trainer_step_locally(ac_trainer *trainer, ac_local_steps *steps);

/* ---------------------------------------------------------------------------------------------- */

/* Makes averages, if the plan keeps any, copies of the parameters. */
ac_status ac_trainer_begin_average(ac_trainer *trainer);
/* Refuses what has to do with parameters as they are trained while averages are in use. */
ac_status ac_trainer_check_averaged(const ac_trainer *trainer);
/* Refuses to change parameters when the update depends on them, or is being decided. */
ac_status ac_trainer_check_writable(const ac_trainer *trainer);
/* Loads the parameters that `takes` says yes to from a file that is open. */
ac_status ac_trainer_load_from(ac_trainer *trainer, ac_model_file *file, const char *prefix,
                               bool (*takes)(void *user, const char *name), void *user);
/* Refuses to compute anything else while a window's gradients or samples are still needed. */
ac_status ac_trainer_check_arena(const ac_trainer *trainer);

/* Whether what a window's losses weigh has to be known before it: of several, or where gradients
 * are folded. */
bool ac_trainer_knows_weights(const ac_trainer *trainer);

/* ---- folded gradients: folded.c -------------------------------------------------------------- */

/* Each refuses what needs a window's gradients before they change anything. Without folded
 * gradients it does nothing, like the others here. */
ac_status ac_folded_check_desc(const ac_trainer *trainer, const ac_plan *plan);
ac_status ac_folded_check_decision(const ac_trainer *trainer, const ac_decision *decision);
/* Refuses a window if the weight of its loss is not known. */
ac_status ac_folded_check_window(const ac_trainer *trainer);
/* Whether nothing of the window in progress is folded because its losses weigh nothing, or too
 * little to divide by: the update skips it. */
bool ac_folded_is_left_out(const ac_trainer *trainer);
/* What the micro-batch that comes next folds by. */
void ac_folded_set(ac_trainer *trainer);
/* After either the trainer cannot be used until a state is loaded: when a window in progress, or
 * one that failed, is left; and when it is not finite, or is and weighs nothing, which fails. */
void ac_folded_leave(ac_trainer *trainer);
ac_status ac_folded_fail(ac_trainer *trainer, bool finite);

/* ---- a caller's own optimizer: callback.c ---------------------------------------------------- */

/* Whether the description has one where the plan is for it, and nowhere else. */
ac_status ac_callback_check_desc(const ac_trainer_desc *desc);
/* Has updates call it, in memory of the plan's callback_bytes. */
ac_status ac_callback_begin(ac_trainer *trainer);

/* ---------------------------------------------------------------------------------------------- */

/* Like ac_trainer_evaluate, but it can be stopped; then there is no result. */
ac_status ac_trainer_evaluate_asking(ac_trainer *trainer, ac_dataset *dataset, int64_t limit,
                                     ac_stop *stop, ac_evaluation *result);

/* What watchers begin and are checked with. */
ac_watch_setup ac_trainer_setup(const ac_trainer *trainer);

/* ac_trainer_locate_nonfinite on samples [first, first + count) of the data, which are those from
 * `sample` on of the window. With exact batch norm all ranks call it, also with a count of 0; what
 * one of them finds before another batch norm all receive, with the number of its rank. */
ac_status ac_trainer_locate_data(ac_trainer *trainer, const void *const *data, int64_t first,
                                 int64_t sample, int64_t count, char *text, size_t size);

#endif
