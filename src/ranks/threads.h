/* Ranks of one process: a world that they share, a lock, and a queue of messages for each rank.
 *
 * A sender puts a message into the receiver's queue; the receiver copies its bytes from the
 * sender's memory, or from a copy if the simulation made one, and tells the sender. Each rank
 * sleeps at a bell of its own. Threads.c does this; simulation.c decides when something arrives, if
 * the world has a seed: then `now` is the time, and it passes only while all ranks rest, from event
 * to event. All that is random is drawn by seed, rank and a count of that rank, and nothing is seen
 * at the very time it was done, so the order in which threads run does not matter. */
#ifndef AC_RANKS_THREADS_H
#define AC_RANKS_THREADS_H

#include <accrue/ranks.h>

#include "core/platform/threads.h"
#include "ranks/engine.h"

typedef struct ac_world_message {
  struct ac_world_message *next;
  struct ac_world_message *next_coming; /* of a simulation: that its rank has not seen begin */
  int from;
  uint32_t tag;
  uint64_t size;
  const void *bytes;
  void *copy;        /* what `bytes` is, or NULL */
  ac_transfer *send; /* NULL: it was done when it began */
  ac_notice notice;
  double head;    /* when its first byte comes */
  double arrives; /* and its last; HUGE_VAL: not known yet */
} ac_world_message;

typedef struct ac_world ac_world;

/* In the order of sending for each sender. */
typedef struct ac_world_queue {
  ac_world_message *first, *last;
} ac_world_queue;

/* Messages are in the queue of their sender, so that with many ranks one is found at once; notices
 * are in the last queue. */
enum { AC_WORLD_SENDERS = 64, AC_WORLD_QUEUES };

typedef struct ac_world_rank {
  ac_engine engine; /* first: what the transport knows of it */
  ac_world *world;
  ac_world_queue queues[AC_WORLD_QUEUES]; /* sent to it: by sender, and notices */
  ac_monitor *bell;
  bool rung;
  int being_read; /* messages that receivers are copying from this rank's memory */
  bool detaching; /* it waits until there are none */
  bool gone;      /* closed or killed: none waits for it any more */
  bool killed;
  bool has_ended;   /* it ended the run for all */
  double closed_at; /* HUGE_VAL: it is not closed, or no one will know */
  /* Of a simulation: */
  bool resting, working; /* in `rest`; in `work`, which nothing shortens */
  double wakes;          /* when it stops resting */
  ac_world_queue coming; /* messages that have not begun to come, in the order of sending */
  double first_head;     /* when something of one of them comes; HUGE_VAL: never */
  double sends_until, reads_until; /* when its link is free again */
  int64_t begun, sent, drawn;      /* messages begun, sent; random numbers */
  int lost_peer;                   /* to whom nothing arrives any more; -1: none */
} ac_world_rank;

struct ac_world {
  ac_monitor *lock;
  int size;
  int open;    /* ranks that are not closed */
  int resting; /* of those that are not gone */
  int present; /* ranks that are not gone */
  ac_world_message *spare;
  double ended_at; /* HUGE_VAL: none has ended the run */
  int ended_by;
  char why[AC_ENGINE_WHY];
  ac_ranks_threads_desc desc;
  double now;
  ac_world_rank *ranks;
};

/* Engines of ranks 0 to count - 1, engines[r] for rank r. */
ac_status ac_threads_create(ac_engine **engines, int count, const ac_ranks_threads_desc *desc);

/* All that follows is called with the lock. */
static inline double ac_world_earlier(double a, double b) {
  return a < b ? a : b;
}

/* What this rank cannot take before `time` it has not seen. Without a simulation all is seen. */
bool ac_simulation_sees(const ac_world *world, double time);
/* The rank begins a message: it may be killed, or stall. */
ac_status ac_simulation_begin(ac_world_rank *rank, bool sends, int peer);
/* When the first byte of a message of this rank arrives; HUGE_VAL: never. */
double ac_simulation_head(ac_world_rank *rank, int to, uint64_t size);
/* Whether the message is copied, so that it is done at once for its sender. */
bool ac_simulation_copies(ac_world_rank *rank, uint64_t size);
/* When something that this rank does now is known to others. */
double ac_simulation_known(ac_world_rank *rank);
/* Something happens to the rank at this time, which it may be resting for. */
void ac_simulation_expect(ac_world_rank *rank, double time);
/* A message that was sent to the rank is on its way; it never was. */
void ac_simulation_add(ac_world_rank *to, ac_world_message *message);
void ac_simulation_remove(ac_world_rank *to, const ac_world_message *message);
/* Rests until `until`, or until something happens before; gives up the lock for that time. */
void ac_simulation_rest(ac_world_rank *rank, double until, bool working);
/* Time goes on if all ranks rest. */
void ac_simulation_step(ac_world *world);

void ac_world_ring(ac_world_rank *rank);
/* Until the bell rings, or so many seconds; called without the lock. */
void ac_world_sleep(ac_world_rank *rank, double seconds);
/* No receiver needs the memory of this rank any more; gives up the lock for that. */
void ac_world_detach(ac_world_rank *rank);

#endif
