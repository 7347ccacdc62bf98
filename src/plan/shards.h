/* What a window's sums are for ranks, and what of it each rank owns: adds up over all ranks, and
 * steps (shards.c). All chunk arithmetic is here: window/chunks.c moves what it says, and
 * exchange_cost.c prices it. */
#ifndef AC_PLAN_SHARDS_H
#define AC_PLAN_SHARDS_H

#include "plan/plan.h"

/* Finds what ranks add up. One rank adds up nothing. */
ac_status ac_shards_find(ac_problem *problem);
/* The part of a parameter that this rank steps, and keeps optimizer state of: from *first on,
 * *count elements. One rank has all, others perhaps none. */
void ac_shards_own(const ac_problem *problem, int parameter, int64_t *first, int64_t *count);
/* Whether this rank runs a node; *part receives the part of a parameter that it steps, or of its
 * gradient that it clips. */
bool ac_shards_run(const ac_problem *problem, const ac_node *node, ac_part *part);

/* The range of a tensor with an element of the stream. */
const ac_streamed *ac_shards_streamed(const ac_problem *problem, int64_t at);

/* Elements [begin, end) of the stream, which go from one rank to another at once; begin == end:
 * none. No chunk has gradients and pooled sums. */
typedef struct ac_chunk {
  int64_t begin, end;
} ac_chunk;

/* In the n-th round the n-th chunk of each rank is exchanged. Rounds of gradients come first, and
 * then those of what is pooled. */
typedef struct ac_rounds {
  int64_t chunk; /* elements of a chunk, at most */
  int64_t gradients, all;
} ac_rounds;
ac_rounds ac_shards_rounds(const ac_problem *problem);
/* One round's messages leave while those of the one before are on their way. */
enum { AC_ROUNDS_AT_ONCE = 2 };
ac_chunk ac_shards_chunk_of(const ac_problem *problem, const ac_rounds *rounds, int rank,
                            int64_t n);
/* By storage (of 0): how many steps of the micro-batch of a sequence have run when nothing reads or
 * writes it any more. */
void ac_shards_touched(const ac_graph *graph, const ac_sequence *sequence, int *touched);
/* And with that, when nothing of a round's chunks changes any more on this rank. */
int ac_shards_final(const ac_problem *problem, const int *touched, const ac_rounds *rounds,
                    int64_t n);

/* Weights go in the same chunks, but those of the last round first: backward finishes last what a
 * forward pass reads first. `rounds_of`, by storage (of 0), receives after how many rounds nothing
 * of a parameter or its working copy is on its way any more. */
void ac_shards_arrivals(const ac_problem *problem, const ac_rounds *rounds, int64_t *rounds_of);
/* And with that, after how many a step may run. */
int64_t ac_shards_needed(const ac_graph *graph, const ac_step *step, const int64_t *rounds_of);

/* Gradients that are divided among ranks are exchanged in each micro-batch (shed.c). By round of
 * gradients: how many steps have run when it is exchanged, not before the rounds before it. */
void ac_shards_places(const ac_problem *problem, const int *touched, const ac_rounds *rounds,
                      int *places);
/* Lets the gradients of a sequence live until their rounds. */
ac_status ac_shards_extend(ac_sequence *sequence, const ac_graph *graph);

/* Host memory for chunks on their way. */
uint64_t ac_shards_bytes(const ac_problem *problem);

static inline uint64_t ac_chunk_bytes(ac_chunk chunk) {
  return (uint64_t)(chunk.end - chunk.begin) * sizeof(float);
}

#endif
