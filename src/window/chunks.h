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
 * has, in so many transfers, after which it does not need it any more. And waits for these, and
 * adds up. */
ac_status ac_chunks_begin_round(struct ac_trainer *trainer, int64_t round, int *count);
ac_status ac_chunks_end_round(struct ac_trainer *trainer, int64_t round, int count);
/* Each rank gives its part of the summed gradients to all others, or of the weights. */
ac_status ac_chunks_gather_gradients(struct ac_trainer *trainer);
ac_status ac_chunks_gather_weights(struct ac_trainer *trainer);

#endif
