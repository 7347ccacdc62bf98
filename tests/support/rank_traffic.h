/* Traffic between ranks that a seed decides, so every rank knows what it must get: as a
 * window of training has it, with chunks that each rank sums for all in the order of ranks, small
 * sums, and messages of any size under several tags. */
#ifndef AC_TESTS_RANK_TRAFFIC_H
#define AC_TESTS_RANK_TRAFFIC_H

#include "ranks/transport.h"

typedef struct traffic {
  uint64_t seed;
  int rounds;
  int most_bytes; /* of a message */
  bool polls;     /* some waits are by ac_transport_test */
} traffic;

typedef struct traffic_result {
  ac_status status; /* of the first call that failed */
  char sentence[1024];
  int wrong;     /* bytes and sums that are not what they must be */
  int rounds;    /* that ended in order */
  uint64_t hash; /* of all that came, in the order in which it was waited for */
} traffic_result;

void run_traffic(ac_transport *transport, const traffic *what, traffic_result *result);

#endif
