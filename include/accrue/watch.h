/* Watching a run: an alarm where a window's loss or gradient is far beyond those before it, and
 * what updates do layer by layer. May still change. */
#ifndef ACCRUE_WATCH_H
#define ACCRUE_WATCH_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- spikes ---------------------------------------------------------------------------------- */

/* What follows from an alarm. */
typedef enum ac_spike_policy {
  AC_SPIKE_IGNORE = 0, /* nothing is watched */
  AC_SPIKE_TELL,       /* ac_update.spike says it, and the update is made */
  /* Nothing is changed, as where ac_decision.skip is set. With AC_GRADIENTS_FOLDED and
   * AC_GRADIENTS_FUSED_LOCAL, whose windows cannot be skipped, AC_ERROR_ARGUMENT. */
  AC_SPIKE_SKIP,
  /* ac_fit loads the last good state and goes on behind the window, at a smaller rate: windows
   * since that state are left out. It needs ac_fit_desc.good_state. Without ac_fit the window is
   * skipped where it can be, and the caller may load a state. */
  AC_SPIKE_BACK
} ac_spike_policy;

/* A spike is a window whose loss or whose gradient's norm is above
 *
 *   median + deviations x max(1.4826 x median of |x - median|, 0.01 x |median|)
 *
 * of the last 64 windows x, or of at least 16: of those that led to an update without an alarm.
 * 1.4826 makes of the median absolute deviation a standard deviation where x is normal. Of a window
 * of fewer samples than the batch deviations count sqrt(batch / samples) times as much, and norms
 * may be so many times as large. With another batch (ac_trainer_set_batch) and after 8 alarms in a
 * row the 64 begin anew: then another level has come to stay. A window that is not finite is no
 * spike, and does not count. With AC_GRADIENTS_FOLDED there are losses alone. All this is part of
 * states. */
typedef struct ac_spike_desc {
  ac_spike_policy policy;
  double deviations; /* finite and positive; default 10 */
  double back_rate;  /* going back multiplies learning rates by it, for good: (0, 1]; default 0.5 */
  /* How often to go back to one good state. If there is an alarm again, ac_fit ends with
   * AC_ERROR_NOT_FINITE; default 3. */
  int64_t most_back;
} ac_spike_desc;

/* A window by what came before it. */
typedef struct ac_spike {
  bool alarm;
  bool begins_anew; /* with the eighth alarm in a row: what is known of earlier windows goes */
  double loss_limit, norm_limit; /* NaN: not known yet */
} ac_spike;

/* ---- layers ---------------------------------------------------------------------------------- */

/* What the updates that were measured say of a parameter. */
typedef enum ac_layer_hint {
  AC_LAYER_NO_HINT = 0, /* or fewer than three were measured */
  AC_LAYER_DEAD,        /* its gradient was zero each time */
  AC_LAYER_DEAD_UNITS,  /* that of some of its outputs was: such units of a ReLU are dead */
  AC_LAYER_VANISHING    /* gradient_size is 10,000 times below that of the median parameter */
} ac_layer_hint;

/* Norms are Euclidean, over all elements. Weights of a parameter of more than 65,536 elements are
 * looked at in 16 blocks of 4,096, spread evenly from the first element to the last: its
 * weight_norm and update_ratio are estimates. Of a parameter that is not trained `measured` is 0.
 */
typedef struct ac_layer_report {
  int64_t update;       /* that was measured last, as in ac_update; 0: none since the trainer began
                           or loaded a state, and norms are NaN */
  double gradient_norm; /* of the mean loss, unscaled, before clipping; NaN: folded */
  double weight_norm;   /* before the update */
  double update_ratio;  /* norm of what the update changed / weight_norm; NaN where that is 0 */
  /* Over all updates that were measured, which is part of states. */
  int64_t measured, zero; /* how many, and how many of these with a gradient that was zero */
  double gradient_size; /* the geometric mean of gradient_norm / sqrt(elements) of the others; NaN:
                           there are none */
  int64_t units;        /* outputs of the layer whose matrix it is; 0: no matrix, or the plan keeps
                           no gradients */
  int64_t dead_units;   /* those whose gradients were all zero */
  ac_layer_hint hint;
} ac_layer_report;

#ifdef __cplusplus
}
#endif
#endif
