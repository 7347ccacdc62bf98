/* The network between ranks: a short message goes to and fro between the first and the last rank,
 * and all ranks send to the next one while they receive. */
#include "ranks/ranks.h"

#include <stdlib.h>

#include "core/error.h"
#include "ranks/engine.h"

enum { TAG_SHORT = 17, TAG_LONG, TAG_TIME };
enum { SHORTS = 50, LONGS = 6, LONG_BYTES = 4 << 20 };

static double now(const ac_transport *t) {
  ac_engine *engine = ac_transport_engine(t);
  return engine->functions->clock(engine);
}

/* One way; known to rank 0. The first round is not timed. */
static ac_status measure_latency(ac_transport *t, double *seconds) {
  const int rank = ac_transport_rank(t), last = ac_transport_size(t) - 1;
  double begun = 0;
  char byte = 0;
  for (int i = 0; i <= SHORTS && (rank == 0 || rank == last); i++) {
    if (i == 1) begun = now(t);
    if (!rank) AC_TRY(ac_transport_send(t, last, TAG_SHORT, &byte, 1));
    AC_TRY(ac_transport_receive(t, rank ? 0 : last, TAG_SHORT, &byte, 1));
    if (rank) AC_TRY(ac_transport_send(t, 0, TAG_SHORT, &byte, 1));
  }
  *seconds = (now(t) - begun) / (2 * SHORTS);
  return AC_OK;
}

/* Of the slowest rank; known to rank 0. */
static ac_status measure_bandwidth(ac_transport *t, char *memory, double *bandwidth) {
  const int rank = ac_transport_rank(t), size = ac_transport_size(t);
  double begun = 0;
  for (int i = 0; i <= LONGS; i++) {
    ac_transfer both[2];
    AC_TRY(ac_transport_barrier(t));
    if (i == 1) begun = now(t);
    AC_TRY(ac_transport_begin_receive(t, (rank + size - 1) % size, TAG_LONG, memory, LONG_BYTES,
                                      &both[0]));
    AC_TRY(ac_transport_begin_send(t, (rank + 1) % size, TAG_LONG, memory + LONG_BYTES, LONG_BYTES,
                                   &both[1]));
    AC_TRY(ac_transport_wait(t, both, 2));
  }
  double seconds = now(t) - begun, slowest = seconds;
  if (rank) AC_TRY(ac_transport_send(t, 0, TAG_TIME, &seconds, sizeof seconds));
  for (int r = 1; r < size && !rank; r++) {
    AC_TRY(ac_transport_receive(t, r, TAG_TIME, &seconds, sizeof seconds));
    if (seconds > slowest) slowest = seconds;
  }
  *bandwidth = slowest > 0 ? (double)LONGS * LONG_BYTES / slowest : 0;
  return AC_OK;
}

ac_status ac_ranks_measure(ac_ranks *ranks, ac_network *network) {
  AC_REQUIRE(ranks, network);
  *network = (ac_network){0};
  ac_transport *t = ac_ranks_transport(ranks);
  if (ac_transport_size(t) < 2)
    return ac_fail(AC_ERROR_STATE, "there is no network with one rank; start several");
  char *memory = calloc(2, LONG_BYTES);
  if (!memory) return ac_fail(AC_ERROR_MEMORY, "no memory to measure the network with");
  ac_network found = {0};
  ac_status status = measure_latency(t, &found.latency);
  if (status == AC_OK) status = measure_bandwidth(t, memory, &found.bandwidth);
  free(memory);
  if (status == AC_OK) status = ac_ranks_tell(ranks, &found, sizeof found);
  if (status == AC_OK) *network = found;
  return status;
}
