/* What ranks tell each other about a window, an evaluation or the end of a run. All ranks call
 * these functions at the same points, one after another; with one rank they do nothing.
 *
 * A rank that fails by itself says so at the next such point, where all fail with its sentence. */
#ifndef AC_WINDOW_EXCHANGE_H
#define AC_WINDOW_EXCHANGE_H

#include "plan/shards.h"
#include "run/instance.h"
#include "window/overlap.h"
#include "window/sharded.h"

struct ac_trainer;
struct ac_transport;
struct ac_transfer;

/* What a point is for, so that ranks that have come to different ones are told so. */
typedef enum ac_meeting {
  AC_MEET_WINDOW = 1, /* a window's gradients are summed and measured */
  AC_MEET_DECISION,   /* what rank 0 has decided */
  AC_MEET_TURN,       /* before the next window of a fit: whether it goes on */
  AC_MEET_EVALUATION, /* the samples of an evaluation are summed up */
  AC_MEET_STATE,      /* rank 0 has saved a state */
  AC_MEET_COUNTS,     /* the weights of a window's losses, before it */
  AC_MEET_PARTS,      /* the last micro-batch of a window, before its gradients are exchanged */
  AC_MEET_MEASURES,   /* gradients that were written are measured anew */
  AC_MEET_NORM,       /* the sums of a batch norm over a window */
  AC_MEET_PIECE       /* a micro-batch with divided gradients, or the lack of one */
} ac_meeting;

/* Numbers by rank of ac_exchange.reports. */
enum { AC_RANK_REPORT = 2 };

/* Weights on their way (chunks.h). */
typedef struct ac_arriving {
  int64_t begun, arrived; /* rounds */
  ac_status status;       /* of the whole, with the sentence */
  ac_kept_error error;
} ac_arriving;

typedef struct ac_exchange {
  struct ac_transport *transport; /* NULL: one rank */
  int rank, ranks;
  uint64_t met;    /* points so far */
  int64_t first;   /* number of this rank's first sample in the window in progress */
  bool laid;       /* somebody has said so; else it is that of a whole window */
  bool empty;      /* this rank had no sample of it */
  bool reduced;    /* this rank's part of its gradients is the sum of all ranks' */
  bool gathered;   /* and so is all of them */
  bool summed;     /* the window's other sums are those of all ranks */
  bool told;       /* all ranks know of the last failure */
  bool measures;   /* this rank's own gradients as they pass, into `squares` */
  double *squares; /* by parameter; of gradients with the loss scale */
  ac_rounds rounds;
  ac_arriving arriving;
  ac_overlap overlap;
  ac_sharded sharded;
  float *memory;                 /* of chunks */
  struct ac_transfer *transfers; /* of chunks, and then of points */
  int transfer_count;
  int counts[AC_ROUNDS_AT_ONCE]; /* of transfers of the rounds under way */
  bool sums;             /* a point adds up numbers of all ranks, and does not take rank 0's */
  double *values;        /* room for what is told and heard at a point */
  char *messages;        /* with these, and on rank 0 those of all ranks */
  int64_t window_values; /* that are heard at the end of a window */
  int64_t most_values;   /* heard at any point */
  int64_t most_told;     /* told by a rank at any point */
  float *norm;           /* room for the sums of a batch norm */
  bool idle;             /* this rank has no sample of the window in which others gather these */
  const char *found;     /* what this rank has found in it, which ends it for all; NULL, "": none */
  double *reports;       /* by rank: bytes sent and seconds waited */
} ac_exchange;

/* Begins with the ranks of the trainer's description; release it in any case. */
ac_status ac_exchange_begin(struct ac_trainer *trainer);
void ac_exchange_release(struct ac_trainer *trainer);

static inline bool ac_exchange_is_alone(const ac_exchange *exchange) {
  return !exchange->transport;
}

/* Sends what this rank tells at a point, and receives the result, from whatever thread has the
 * transport. */
ac_status ac_exchange_point(struct ac_trainer *trainer);
/* The point before gradients are exchanged, by whatever thread does that. */
ac_status ac_exchange_parts(struct ac_trainer *trainer);

/* Adds up numbers of all ranks, in the order of ranks. `status` is this rank's own: if one of them
 * is not AC_OK all fail, this rank with its own sentence if it is the one. */
ac_status ac_exchange_sum(struct ac_trainer *trainer, ac_meeting meeting, ac_status status,
                          double *values, int64_t count);
/* `listed` numbers after these are not added up: those of all ranks take their place, one rank
 * after another, for which `values` has room. All ranks have as many. */
ac_status ac_exchange_sum_and_list(struct ac_trainer *trainer, ac_meeting meeting, ac_status status,
                                   double *values, int64_t count, int64_t listed);
/* Takes over what rank 0 has. */
ac_status ac_exchange_take(struct ac_trainer *trainer, ac_meeting meeting, double *values,
                           int64_t count);
/* Tells a failure that the others do not know of yet. */
void ac_exchange_fail(struct ac_trainer *trainer, ac_status status);
/* The last failure as the rank that has failed says it. */
void ac_exchange_copy_sentence(char *text, size_t size);

/* Shows the others that this rank is at work; without it one that computes, reads or writes for
 * longer than the timeout is taken for dead. The trainer's instance calls it before each step and
 * each sample. Fails where the ranks have failed. */
ac_status ac_exchange_show_life(struct ac_trainer *trainer);
/* While this rank writes a file, which may take long, others are answered (transport.h). */
void ac_exchange_begin_absence(struct ac_trainer *trainer);
void ac_exchange_end_absence(struct ac_trainer *trainer);
/* How many numbers are told at the end of a window, and of a batch norm that is exact. */
int64_t ac_exchange_window_values(const struct ac_trainer *trainer);
int64_t ac_exchange_norm_values(const struct ac_trainer *trainer);
/* Lets batch norms that are exact take their sums over all ranks, also (the second) where this one
 * has no sample of the window: then it has to take part at its end. */
ac_status ac_exchange_begin_norms(struct ac_trainer *trainer);
ac_status ac_exchange_idle_norms(struct ac_trainer *trainer);
/* Says which sample of the window this rank's first one is. */
void ac_exchange_lay(ac_exchange *exchange, int64_t first);
/* When a window is over or discarded. */
void ac_exchange_leave(ac_exchange *exchange);

/* Before a window of losses with weights that have to be known: adds up what each rank has counted.
 */
ac_status ac_exchange_counts(struct ac_trainer *trainer);
/* Before the last micro-batch of a window: its gradients are exchanged while it runs, where that is
 * possible (overlap.h). `measures`: it is the first one as well, and watchers want to know what it
 * has come to; this is measured of what passes, because sums take the place of parts. A rank that
 * fails in it ends the exchange before it says so. */
void ac_exchange_begin_last(struct ac_trainer *trainer, bool measures);
void ac_exchange_leave_last(struct ac_trainer *trainer);
/* Shows watchers what this rank's first micro-batch has come to, of what was measured then. */
ac_status ac_exchange_show_first(struct ac_trainer *trainer);
/* At the end of a window: sums up each rank's part of the gradients and what batch norms pool; then
 * samples, sums of losses, what watchers have measured, and what each rank measures of its part. A
 * window that was summed stays as it is. */
ac_status ac_exchange_window(struct ac_trainer *trainer);
/* Then, where somebody reads them: all gradients, on each rank, unless they are divided. */
ac_status ac_exchange_gather_gradients(struct ac_trainer *trainer);
/* And if all ranks have written them alike: measures them anew, each its part. */
ac_status ac_exchange_measures(struct ac_trainer *trainer);
/* After the steps of an update: each rank's part of the parameters goes to all others, while the
 * next micro-batch runs where that is possible. Then averages follow. */
ac_status ac_exchange_weights(struct ac_trainer *trainer);
/* Waits until all parameters are there. What reads or writes them does so by itself
 * (ac_instance_settle), and so does what needs the transport. A failure ends the use of the trainer
 * as that of an update does. */
ac_status ac_exchange_settle(struct ac_trainer *trainer);
/* The same, also for weights of another trainer of the same ranks: then the transport is free.
 * Before anything that uses it. */
ac_status ac_exchange_take_transport(struct ac_trainer *trainer);
/* A rank that fails half way through transfers cannot tell so at a point, because the others wait
 * for its messages. Its caller ends them. Returns `status`. */
ac_status ac_exchange_end_transfers(ac_exchange *exchange, ac_status status);
/* For a state: makes rank 0's read find elements of cells that other ranks have. The others answer
 * it until rank 0 is done. */
ac_status ac_exchange_read(struct ac_trainer *trainer, const ac_cell *cell, int64_t first,
                           int64_t count, void *data);
ac_status ac_exchange_answer(struct ac_trainer *trainer);
ac_status ac_exchange_end_answers(struct ac_trainer *trainer);
/* Makes rank 0's decision everybody's. */
ac_status ac_exchange_decision(struct ac_trainer *trainer, ac_decision *decision);
/* Adds up an evaluation, and whether some rank was asked to stop it. */
ac_status ac_exchange_evaluation(struct ac_trainer *trainer, ac_status status, ac_all_sums *sums,
                                 bool *stopped);

#endif
