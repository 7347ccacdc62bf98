/* The device as the communication thread uses it (overlap.h): where its memory is the host's, as
 * the trainer does; else by a queue of its own. The trainer marks in its own queue what the thread
 * waits for, because steps that were handed to the device have not run yet. */
#ifndef AC_WINDOW_BESIDE_H
#define AC_WINDOW_BESIDE_H

#include <accrue/base.h>

struct ac_trainer;
struct ac_instance;

typedef struct ac_beside ac_beside;

/* With a mark for each number of steps of the micro-batch. *beside becomes NULL where the device
 * has no such queue. */
ac_status ac_beside_create(struct ac_trainer *trainer, ac_beside **beside);
void ac_beside_free(ac_beside *beside);
/* What the thread moves sums and weights with. */
const struct ac_instance *ac_beside_instance(const ac_beside *beside);
/* After so many steps, from the trainer's thread. */
void ac_beside_mark(ac_beside *beside, int steps);
/* Whether they have run, if they are marked; from the thread. */
ac_status ac_beside_has_run(ac_beside *beside, int steps, bool *has_run);

#endif
