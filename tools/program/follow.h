/* The ranks of `accrue train` under a launcher such as mpirun. Rank 0 leads: it alone writes files
 * and messages. What of it needs all ranks it orders: between two windows of a fit, before the
 * first and after the last. The others follow, and obey until they are told to go on. */
#ifndef TOOLS_PROGRAM_FOLLOW_H
#define TOOLS_PROGRAM_FOLLOW_H

#include "program/training.h"

typedef enum rank_order {
  ORDER_GO_ON = 1,
  ORDER_INIT,   /* load --init */
  ORDER_LOAD,   /* a state */
  ORDER_SAVE,   /* a state */
  ORDER_AVERAGE /* validate averages on so many samples */
} rank_order;

/* What --rank-timeout says; 0: nothing that can be used. It is checked again with all other flags.
 */
double ranks_timeout(int argc, char **argv);
/* Opens the rank of this process, before its flags are read. Ranks above 0 write nothing from here
 * on. *ranks NULL: nothing started more than one. A status of message.h. */
int ranks_open(int argc, char **argv, ac_ranks **ranks);
/* With the status that this process ends with. Returns it, or another if the ranks cannot be
 * closed. */
int ranks_close(ac_ranks *ranks, int status);

static inline bool ranks_lead(const ac_ranks *ranks) {
  return !ranks || ac_ranks_rank(ranks) == 0;
}

/* Whether all ranks are ready, with the same flags and data: `status` is this one's. */
int ranks_meet(const setup *s, int status);

/* Of rank 0. The path may be NULL. One rank has nobody to order. */
int ranks_order(ac_ranks *ranks, rank_order order, const char *path, int64_t number);

/* A run on a rank above 0, after its setup. */
int training_follow(run *r);

#endif
