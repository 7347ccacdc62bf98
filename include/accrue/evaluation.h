/** @file
 * Evaluation: loss and accuracy over a dataset. A trainer evaluates in its own memory; a session
 * (ac_session_evaluate) needs less. */
#ifndef ACCRUE_EVALUATION_H
#define ACCRUE_EVALUATION_H

#include <accrue/dataset.h>
#include <accrue/window.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The result of an evaluation. Over data without weight, loss and accuracy are NaN. The schedule
 * and early stopping then ignore the evaluation. With several losses only those with a weight are
 * summed. */
typedef struct ac_evaluation {
  double loss; /**< Nats per unit of weight. With several losses: the sum of factor x mean. */
  /** Weighted share of rows that are classified right. 0 for losses without classes. With several
   * losses: that of the first one. */
  double accuracy;
  double weight; /**< The weight. With several losses: samples. */

  /* ---- may still change ---- */

  /** Each loss. */
  AC_UNSTABLE(ac_loss_mean) AC_UNSTABLE(losses)[AC_MAX_LOSSES];
  int AC_UNSTABLE(loss_count); /**< How many losses there are. */
  /** Each metric (ac_graph_add_metric). */
  ac_metric AC_UNSTABLE(metrics)[AC_MAX_METRICS];
  int AC_UNSTABLE(metric_count); /**< How many metrics there are. */
} ac_evaluation;

/** Evaluates at most `limit` samples (0: all), from the first on. It runs forward only, without
 * dropout, in the trainer's own memory. A window in progress is left as it is, or the evaluation is
 * refused as by ac_trainer_locate_nonfinite. */
AC_API ac_status ac_trainer_evaluate(ac_trainer *trainer, ac_dataset *dataset, int64_t limit,
                                     ac_evaluation *result);

/** Returns true to stop. */
typedef bool (*ac_stop_callback)(void *user);

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/** Like ac_trainer_evaluate. `stop` (may be NULL) is asked before each micro-batch. If it returns
 * true there is no result, and *stopped is true. Calls that would change the trainer meanwhile are
 * refused with AC_ERROR_STATE. */
AC_API ac_status ac_trainer_evaluate_until(ac_trainer *trainer, ac_dataset *dataset, int64_t limit,
                                           ac_stop_callback stop, void *user, ac_evaluation *result,
                                           bool *stopped);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
