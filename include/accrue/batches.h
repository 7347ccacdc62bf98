/** @file
 * Schedules of the effective batch: how many samples a window has, depending on how far a run has
 * come.
 *
 * A schedule depends only on the way through the data, never on losses. So samples can be read
 * ahead, and a run can be resumed anywhere. For the same reason a batch that grows by itself is
 * recorded row by row. */
#ifndef ACCRUE_BATCHES_H
#define ACCRUE_BATCHES_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The unit in which the beginning of a stage is counted. */
typedef enum ac_batch_unit {
  AC_BATCH_FROM_STEP = 0, /**< Updates before it, skipped ones included: ac_fit_result.steps. */
  AC_BATCH_FROM_EPOCH,    /**< Epochs before the one in which a window begins. */
  AC_BATCH_FROM_SAMPLE    /**< Samples of the windows before it. */
} ac_batch_unit;

/** One row of a schedule. A window uses the last row that has begun, so units may be mixed. */
typedef struct ac_batch_stage {
  int64_t batch;      /**< Samples of a window: from 1 to the plan's batch. */
  ac_batch_unit unit; /**< What `from` counts. */
  int64_t from; /**< Where the stage begins: 0 in the first row; rising in rows of one unit. */
} ac_batch_stage;

/** Most rows of a schedule. */
#define AC_MAX_BATCH_STAGES 32

/* ---- may still change ------------------------------------------------------------------------ */

/** Batches that grow with the gradient noise scale (ac_noise_scale). After an update the batch
 * doubles, at most to the plan's batch, if two things hold: the scale minus its deviation is at
 * least `factor` times the doubled batch, and the scale was measured in at least `windows` windows
 * since the batch last grew. Larger batches save updates up to the noise scale: arXiv 1812.06162,
 * section 2.2. */
typedef struct AC_UNSTABLE(ac_batch_growth) {
  /** Samples of the first windows: more than a micro-batch, or with several ranks more than 1. 0:
   * do not grow. */
  int64_t from;
  int64_t windows; /**< Windows with a measurement before the batch grows. Default 20. */
  double factor;   /**< How large the scale must be, in doubled batches. Default 1. */
} AC_UNSTABLE(ac_batch_growth);

#ifdef __cplusplus
}
#endif
#endif
