/* The device as the communication thread uses it (overlap.h): where its memory is the host's, as
 * the trainer does; else by a queue of its own. The trainer marks in its own queue what the thread
 * waits for, because steps that were handed to the device have not run yet. */
#ifndef AC_WINDOW_LANE_H
#define AC_WINDOW_LANE_H

#include <accrue/base.h>

struct ac_trainer;
struct ac_instance;

typedef struct ac_lane ac_lane;

/* With a mark for each number of steps of the micro-batch. *lane becomes NULL where the device
 * has no such queue. */
ac_status ac_lane_create(struct ac_trainer *trainer, ac_lane **lane);
void ac_lane_free(ac_lane *lane);
/* What the thread moves sums and weights with. */
const struct ac_instance *ac_lane_instance(const ac_lane *lane);
/* After so many steps, from the trainer's thread. */
void ac_lane_mark(ac_lane *lane, int steps);
/* Whether they have run, if they are marked; from the thread. */
ac_status ac_lane_has_run(ac_lane *lane, int steps, bool *has_run);

#endif
