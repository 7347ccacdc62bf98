/* Messages between ranks: point to point, in order for each pair and tag, of any size.
 *
 * A transport belongs to one rank. One thread at a time calls it, not always the same one. Ranks
 * are numbered from 0 to size - 1.
 *
 *   begin_send, begin_receive   start a transfer, and never wait for it
 *   test, wait                  let all that has begun go on, and say whether a list of it is done
 *   barrier                     waits until all ranks have come to it
 *   abort                       ends all: the others' calls fail, with MPI their processes end
 *   close                       for a rank that has finished in order
 *
 * Nothing goes on outside of these calls. So a rank that computes for long delays the others; a
 * communication thread that waits does not.
 *
 * What fails stays failed: after the first failure every call returns the same status and sentence,
 * but for abort and close. A rank that has failed tells the others by abort. */
#ifndef AC_RANKS_TRANSPORT_H
#define AC_RANKS_TRANSPORT_H

#include <accrue/base.h>

typedef struct ac_transport ac_transport;

/* Tags are in [0, AC_TRANSPORT_TAGS). The last one is that of ac_ranks_agree. */
enum { AC_TRANSPORT_TAGS = 1 << 19, AC_TAG_OF_FACTS = AC_TRANSPORT_TAGS - 1 };

/* Pieces of a large message that are under way at once. */
enum { AC_TRANSFER_PIECES = 16 };

/* A message on its way. It lives with the caller and must stay where it is, with the bytes, until
 * test or wait says that it is done, or a call fails. One of zeros counts as done. After that it
 * may be begun again. The members are the transport's. */
typedef struct ac_transfer {
  struct ac_transfer *next;     /* the next one that has begun and is not done */
  struct ac_transfer *follower; /* the one that must not overtake this one */
  void *bytes;
  uint64_t size;
  uint64_t begun, done; /* bytes that are with the engine, and those that it is done with */
  double since;         /* when it last got on, by the engine's clock */
  double time;          /* the engine's own */
  int peer;
  uint32_t tag;
  uint8_t sends;   /* or receives */
  uint8_t pending; /* in the list of those that are not done */
  uint8_t follows; /* an earlier one of the same pair, tag and direction is not all started */
  uint8_t engine;  /* what else the engine remembers */
  void *pieces[AC_TRANSFER_PIECES];
} ac_transfer;

/* Whether all of the list are done, as the last test or wait has left them. */
static inline bool ac_transfers_are_done(const ac_transfer *list, int count) {
  for (int i = 0; i < count; i++)
    if (list[i].pending) return false;
  return true;
}

int ac_transport_rank(const ac_transport *transport);
int ac_transport_size(const ac_transport *transport);
double ac_transport_timeout(const ac_transport *transport); /* seconds */

/* `size` bytes to rank `to`, which may be this one. They must not change until the transfer is
 * done. `size` may be 0, also beyond 2^31. AC_ERROR_ARGUMENT: no such rank or tag. */
ac_status ac_transport_begin_send(ac_transport *transport, int to, uint32_t tag, const void *bytes,
                                  uint64_t size, ac_transfer *transfer);
/* Exactly `size` bytes from rank `from`. A message of another size makes test and wait fail with
 * AC_ERROR_FORMAT and a sentence that names both. */
ac_status ac_transport_begin_receive(ac_transport *transport, int from, uint32_t tag, void *bytes,
                                     uint64_t size, ac_transfer *transfer);

/* Whether all of the list are done; does not wait. A rank that computes for longer than half of the
 * timeout has to call this once in a while, if only with a count of 0: it tells those who wait for
 * it that it has not died. */
ac_status ac_transport_test(ac_transport *transport, ac_transfer *list, int count, bool *done);
/* The same for a rank with nothing to ask for. It may call this as often as it likes: unless
 * something is under way the engine is asked only after a share of the timeout. */
ac_status ac_transport_show_life(ac_transport *transport);
/* Between these two calls another thread shows life for this rank, which works on something else
 * for long. It may also call the transport meanwhile. Pairs may be nested. Ends by itself after
 * AC_DEPUTY_TIMEOUTS timeouts. Simulated time does not pass meanwhile, so there it does nothing. */
void ac_transport_begin_absence(ac_transport *transport);
void ac_transport_end_absence(ac_transport *transport);
/* Until all of the list are done. AC_ERROR_IO if none of it gets on for the length of the timeout:
 * the sentence names the rank that is silent, which may be one that the awaited rank itself waits
 * for. */
ac_status ac_transport_wait(ac_transport *transport, ac_transfer *list, int count);

/* Both at once; may be the same rank. */
ac_status ac_transport_send(ac_transport *transport, int to, uint32_t tag, const void *bytes,
                            uint64_t size);
ac_status ac_transport_receive(ac_transport *transport, int from, uint32_t tag, void *bytes,
                               uint64_t size);
ac_status ac_transport_barrier(ac_transport *transport);
/* Makes bytes of rank 0 those of all ranks; all call it, with the same size. */
ac_status ac_transport_tell(ac_transport *transport, uint32_t tag, void *bytes, uint64_t size);

/* What this rank has done so far. */
typedef struct ac_transport_counts {
  uint64_t messages, bytes; /* sent to other ranks */
  double waited;            /* seconds in wait and barrier, by the transport's clock */
} ac_transport_counts;
ac_transport_counts ac_transport_count(const ac_transport *transport);

/* This rank computes for so long. Only a simulation takes note: its clock goes on. */
ac_status ac_transport_work(ac_transport *transport, double seconds);

/* Ends the run for all ranks. With MPI the processes of all ranks end and this does not return, so
 * the caller first tells the user `why`. Else calls of the other ranks fail with `why`, one
 * sentence. */
void ac_transport_abort(ac_transport *transport, const char *why);

/* What is under way is left as it is, because its memory is about to go: if there is anything, this
 * rank fails from now on. The others hear of it by abort. */
void ac_transport_give_up(ac_transport *transport);

/* While a thread of its own calls the transport for this rank, any other thread that wants to call
 * it takes it back first, which waits until that thread has done. `take_back` NULL: it is not lent.
 */
void ac_transport_lend(ac_transport *transport, void (*take_back)(void *user), void *user);
void ac_transport_take_back(ac_transport *transport);

/* For a rank that has finished in order, after a barrier of all; else the engine ends the run for
 * all. NULL: nothing. */
void ac_transport_close(ac_transport *transport);

#endif
