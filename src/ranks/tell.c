/* Bytes of rank 0 for all others. */
#include "ranks/ranks.h"

#include "core/error.h"

#include <stdlib.h>

enum { TAG_TELL = 16 };

ac_status ac_ranks_tell(ac_ranks *ranks, void *bytes, uint64_t size) {
  AC_REQUIRE(ranks);
  if (size > 0) AC_REQUIRE(bytes);
  ac_transport *transport = ac_ranks_transport(ranks);
  const int count = ac_transport_size(transport);
  if (count < 2) return AC_OK;
  if (ac_transport_rank(transport))
    return ac_transport_receive(transport, 0, TAG_TELL, bytes, size);
  ac_transfer *transfers = calloc((size_t)count, sizeof *transfers);
  if (!transfers) return ac_fail(AC_ERROR_MEMORY, "ranks: no memory for %d messages", count);
  ac_status status = AC_OK;
  for (int r = 1; r < count && status == AC_OK; r++)
    status = ac_transport_begin_send(transport, r, TAG_TELL, bytes, size, &transfers[r]);
  if (status == AC_OK) status = ac_transport_wait(transport, transfers, count);
  free(transfers);
  return status;
}
