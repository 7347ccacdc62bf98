/* Schedules of the effective batch: how many samples a window has, by how far a run has come. They
 * follow from the way through the data alone, never from losses, so that samples can be read ahead
 * and a run can go on anywhere. One that grows by itself is written down row by row, for the same
 * reason. */
#ifndef ACCRUE_BATCHES_H
#define ACCRUE_BATCHES_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the beginning of a stage is counted in. */
typedef enum ac_batch_unit {
  AC_BATCH_FROM_STEP = 0, /* windows before it, skipped ones included, as in ac_fit_result */
  AC_BATCH_FROM_EPOCH,    /* epochs before the one that a window begins in */
  AC_BATCH_FROM_SAMPLE    /* samples of the windows before it */
} ac_batch_unit;

/* One row of a schedule. A window is of the last row that has begun, so units may be mixed. */
typedef struct ac_batch_stage {
  int64_t batch; /* samples of a window: from 1 to the plan's batch */
  ac_batch_unit unit;
  int64_t from; /* 0 in the first row; in rows of one unit it rises */
} ac_batch_stage;

#define AC_MAX_BATCH_STAGES 32

/* Batches that grow by the gradient noise scale (ac_noise_scale): after an update they double, at
 * most to the plan's batch, if the scale, less its deviation, is at least `factor` times the batch
 * that follows then, and was measured in so many windows since they last grew. Up to the scale
 * larger batches save updates, arXiv 1812.06162, section 2.2. May still change. */
typedef struct ac_batch_growth {
  int64_t from;    /* samples of the first windows, more than a micro-batch; 0: none of this */
  int64_t windows; /* default 20 */
  double factor;   /* default 1 */
} ac_batch_growth;

#ifdef __cplusplus
}
#endif
#endif
