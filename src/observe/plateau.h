/* What AC_SCHEDULE_PLATEAU knows of the validations so far. */
#ifndef AC_OBSERVE_PLATEAU_H
#define AC_OBSERVE_PLATEAU_H

#include "observe/list.h"

typedef struct ac_plateau {
  const ac_schedule *schedule; /* the trainer's, of any kind */
  double best;                 /* the least loss; INFINITY before the first one */
  int64_t bad;                 /* of the last validations, in a row, that were not better */
  int64_t cooling;             /* validations that do not count yet */
  int64_t reductions;          /* of the rate */
} ac_plateau;

ac_plateau ac_plateau_begin(const ac_schedule *schedule);
/* Takes a validation's loss into account. */
void ac_plateau_observe(ac_plateau *plateau, double loss);

#endif
