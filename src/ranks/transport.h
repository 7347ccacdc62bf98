/* Messages between ranks: point to point, in order for each pair and tag, of any size.
 *
 * A transport belongs to one rank. One thread at a time calls it, not always the same one. Ranks are
 * numbered from 0 to size - 1.
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

/* Tags of callers are in [0, AC_TRANSPORT_TAGS); the transport has others of its own. */
enum { AC_TRANSPORT_TAGS = 1 << 19 };

/* Pieces of a large message that are under way at once. */
enum { AC_TRANSFER_PIECES = 4 };

/* A message on its way. It lives with the caller and must stay where it is, with the bytes, until
 * test or wait says that it is done, or the transport is closed. One of zeros counts as done. After
 * that it may be begun again. The members are the transport's. */
typedef struct ac_transfer {
  struct ac_transfer *next; /* the next one that has begun and is not done */
  struct ac_transfer *follower; /* a later receive of the same pair and tag, which waits for this one */
  void *bytes;
  uint64_t size;
  uint64_t begun, done; /* bytes that are with the engine, and those that it is done with */
  int peer;
  uint32_t tag;
  uint8_t sends;   /* or receives */
  uint8_t pending; /* in the list of those that are not done */
  uint8_t behind;  /* an earlier receive of the same pair and tag has not found its message yet */
  uint8_t engine;  /* what else the engine remembers */
  double since;    /* when it began, by the engine's clock */
  void *pieces[AC_TRANSFER_PIECES];
} ac_transfer;

int ac_transport_rank(const ac_transport *transport);
int ac_transport_size(const ac_transport *transport);

/* `size` bytes to rank `to`, which may be this one. They must not change until the transfer is done.
 * `size` may be 0, also beyond 2^31. AC_ERROR_ARGUMENT: no such rank or tag. */
ac_status ac_transport_begin_send(ac_transport *transport, int to, uint32_t tag, const void *bytes,
                                  uint64_t size, ac_transfer *transfer);
/* Exactly `size` bytes from rank `from`. A message of another size makes test and wait fail with
 * AC_ERROR_FORMAT and a sentence that names both. */
ac_status ac_transport_begin_receive(ac_transport *transport, int from, uint32_t tag, void *bytes,
                                     uint64_t size, ac_transfer *transfer);

/* Whether all of the list are done; does not wait. */
ac_status ac_transport_test(ac_transport *transport, ac_transfer *list, int count, bool *done);
/* Until all of the list are done. AC_ERROR_IO after the timeout without any progress of the list: the
 * sentence names the rank that is silent, which may be one that the awaited rank itself waits for. */
ac_status ac_transport_wait(ac_transport *transport, ac_transfer *list, int count);

/* Both at once; may be the same rank. */
ac_status ac_transport_send(ac_transport *transport, int to, uint32_t tag, const void *bytes,
                            uint64_t size);
ac_status ac_transport_receive(ac_transport *transport, int from, uint32_t tag, void *bytes,
                               uint64_t size);
ac_status ac_transport_barrier(ac_transport *transport);

/* What this rank has done so far. */
typedef struct ac_transport_counts {
  uint64_t messages, bytes; /* sent to other ranks */
  double waited;            /* seconds in wait and barrier, by the transport's clock */
} ac_transport_counts;
ac_transport_counts ac_transport_count(const ac_transport *transport);

/* Ends the run for all ranks. `why` is one sentence, which the others see. With MPI this process and
 * all others end with status 1, after `why` was written as an error; else it returns. */
void ac_transport_abort(ac_transport *transport, const char *why);

/* NULL: nothing. A rank that closes while others wait for it makes their calls fail. */
void ac_transport_close(ac_transport *transport);

#endif
