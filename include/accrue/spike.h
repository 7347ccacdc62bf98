/** @file
 * Spikes: an alarm if a window's loss or gradient is far above those before it. */
#ifndef ACCRUE_SPIKE_H
#define ACCRUE_SPIKE_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- may still change ------------------------------------------------------------------------ */

/** What happens after an alarm. */
typedef enum AC_UNSTABLE(ac_spike_policy) {
  AC_UNSTABLE(AC_SPIKE_IGNORE) = 0, /**< Nothing is watched. */
  AC_UNSTABLE(AC_SPIKE_TELL),       /**< ac_update.spike tells it, and the update is made. */
  /** The update is skipped, as with ac_decision.skip. AC_ERROR_ARGUMENT with AC_GRADIENTS_FOLDED
   * and AC_GRADIENTS_FUSED_LOCAL, because they cannot skip windows. */
  AC_UNSTABLE(AC_SPIKE_SKIP),
  /** ac_fit loads the last good state and continues after this window, at a smaller rate. Windows
   * since that state are left out. It needs ac_fit_desc.good_state. Without ac_fit the window is
   * skipped if it can be, and the caller may load a state. */
  AC_UNSTABLE(AC_SPIKE_BACK)
} AC_UNSTABLE(ac_spike_policy);

/** How spikes are found. A spike is a window with a loss or a gradient norm above
 *
 *     median + deviations x max(1.4826 x median(abs(x - median)), 0.01 x abs(median))
 *
 * over the last 64 windows x that led to an update without an alarm; at least 16 are needed. The
 * factor 1.4826 turns the median absolute deviation into a standard deviation, if x is normal.
 *
 * For a window with fewer samples than the batch, `deviations` counts sqrt(batch / samples) times
 * as much, and norms may be that many times as large. The 64 windows begin anew with another batch
 * (ac_trainer_set_batch), and after 8 alarms in a row: the run has then reached another level. A
 * window that is not finite is not a spike, and does not count. With AC_GRADIENTS_FOLDED only
 * losses are watched. All this is saved in states. */
typedef struct AC_UNSTABLE(ac_spike_desc) {
  AC_UNSTABLE(ac_spike_policy) policy; /**< What happens after an alarm. */
  double deviations;                   /**< Finite and positive. Default 10. */
  /** Going back multiplies all later learning rates by this. In (0, 1]; default 0.5. */
  double back_rate;
  /** How often to go back to one good state. After another alarm ac_fit ends with
   * AC_ERROR_NOT_FINITE. Default 3. */
  int64_t most_back;
} AC_UNSTABLE(ac_spike_desc);

/** A window compared with those before it. */
typedef struct AC_UNSTABLE(ac_spike) {
  bool alarm;        /**< It is a spike. */
  bool begins_anew;  /**< It is the eighth alarm in a row. Earlier windows are forgotten. */
  double loss_limit; /**< The largest loss without an alarm. NaN: not known yet. */
  double norm_limit; /**< The largest gradient norm without an alarm. NaN: not known yet. */
} AC_UNSTABLE(ac_spike);

#ifdef __cplusplus
}
#endif
#endif
