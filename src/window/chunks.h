/* Chunks of gradients and weights on their way between ranks, in rounds (plan/shards.h says which).
 * All ranks call these functions at the same points. */
#ifndef AC_WINDOW_CHUNKS_H
#define AC_WINDOW_CHUNKS_H

#include <accrue/base.h>

struct ac_trainer;

/* When all ranks have come to the last micro-batch of a window: each adds up its part of the
 * gradients, in the order of ranks, and keeps that; all get what batch norms pool. A round waits
 * until its gradients are final (overlap.h), so this may begin while backward goes on. */
ac_status ac_chunks_reduce(struct ac_trainer *trainer);
/* Or one round of gradients that are divided (sharded.h), in a micro-batch: sends what this rank
 * has, after which it does not need it any more; looks whether all has come; waits for that, and
 * adds up. Two rounds may be under way at once. */
ac_status ac_chunks_begin_round(struct ac_trainer *trainer, int64_t round);
ac_status ac_chunks_test_round(struct ac_trainer *trainer, int64_t round, bool *come);
ac_status ac_chunks_end_round(struct ac_trainer *trainer, int64_t round);
/* Each rank gives its part of the summed gradients to all others. */
ac_status ac_chunks_gather_gradients(struct ac_trainer *trainer);

/* And of the weights, those of the last round first. */
ac_status ac_chunks_gather_weights(struct ac_trainer *trainer);
/* The same in steps: each moves what has come to the device and begins the rounds that follow, but
 * waits for nothing. *done: all have come. The wait is for the round that comes next. */
void ac_chunks_begin_weights(struct ac_trainer *trainer);
ac_status ac_chunks_advance_weights(struct ac_trainer *trainer, bool *done);
ac_status ac_chunks_wait_for_weights(struct ac_trainer *trainer);

#endif
