/* Early stopping: a fit ends where so many validations in a row were not better. */
#ifndef AC_OBSERVE_PATIENCE_H
#define AC_OBSERVE_PATIENCE_H

#include "observe/list.h"

typedef struct ac_patience {
  int64_t patience;  /* 0: not asked for */
  double gain;       /* what is better is so much less */
  int64_t watched;   /* validations that counted */
  int64_t no_better; /* of the last ones in a row */
  double least_loss;
} ac_patience;

bool ac_patience_is_over(const ac_patience *patience);

#endif
