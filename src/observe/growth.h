/* Batches that grow by the gradient noise scale: a schedule of batches that is written while a run
 * goes on, a row whenever it doubles them. */
#ifndef AC_OBSERVE_GROWTH_H
#define AC_OBSERVE_GROWTH_H

#include "observe/list.h"

typedef struct ac_growth {
  int count; /* of stages; 0: batches do not grow */
  ac_batch_stage stages[AC_MAX_BATCH_STAGES];
  int64_t measured; /* windows with measured noise before the last stage */
} ac_growth;

/* After an update, with so many windows over. The batch that follows if it grows now, or 0. `most`:
 * the plan's. */
int64_t ac_growth_take(ac_run *run, const ac_batch_growth *wish, int64_t most, int64_t windows);

#endif
