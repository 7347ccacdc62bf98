/** @file
 * A range test of the learning rate. */
#ifndef ACCRUE_RANGE_TEST_H
#define ACCRUE_RANGE_TEST_H

#include <accrue/fit.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/** A range test: trains for a short time with a rate that grows by the same factor in each update,
 * and looks at the loss; arXiv 1506.01186. It takes the plan's memory, and host memory for
 * parameters and optimizer state. Afterwards the trainer is exactly as before. */
typedef struct ac_rate_test_desc {
  ac_dataset *train; /**< Training data. */
  double least;      /**< First rate. Default 1e-7. */
  double most;       /**< Last rate. Default 10. */
  int64_t updates;   /**< At least 10. Default 100. */
  int64_t batch;     /**< Samples of a window, at most the plan's. 0: the plan's. */
  /** The test ends if the mean of the latest losses is above its least value times this. Default 4.
   */
  double divergence;
  uint64_t seed;            /**< Seed of the order of samples. */
  int loader_threads;       /**< As in ac_fit_desc. */
  ac_fit_callback callback; /**< Called after each window. May be NULL. */
  bool (*stop)(void *user); /**< As in ac_fit_desc. May be NULL. */
  void *user;               /**< Passed to both functions. */
} ac_rate_test_desc;

/** One window of a range test. */
typedef struct ac_rate_point {
  double rate;     /**< Its learning rate. */
  double loss;     /**< Its loss, before the update at this rate. */
  double smoothed; /**< Mean of the losses around it: a tenth of the test's updates. */
} ac_rate_point;

/** The result of a range test. */
typedef struct ac_rate_test {
  int64_t count;  /**< Points: one for each update. */
  bool diverged;  /**< It ended early because the loss diverged. */
  bool stopped;   /**< It ended early because a callback stopped it. */
  int64_t lowest; /**< The point with the least smoothed loss. -1: there is no point. */
  /** The suggested rate: the point before `lowest` where the loss falls fastest by the logarithm of
   * the rate. The slope is that of a line through the points that smoothed losses are means of. -1:
   * no suggestion, because the loss falls by at most twice the deviation of losses from the
   * smoothed ones. */
  int64_t steepest;
} ac_rate_test;

/** Runs a range test. `points` has room for desc->updates. A loss that is NaN ends the test like
 * one that diverges. AC_ERROR_NOT_FINITE if it is the first loss. AC_ERROR_STATE with a window in
 * progress. */
AC_API ac_status ac_trainer_test_rates(ac_trainer *trainer, const ac_rate_test_desc *desc,
                                       ac_rate_point *points, ac_rate_test *result);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
