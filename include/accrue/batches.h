/* Schedules of the effective batch: how many samples a window has, by how far a run has come. They
 * follow from the way through the data alone, never from losses, so that samples can be read ahead
 * and a run can go on anywhere. */
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

#ifdef __cplusplus
}
#endif
#endif
