/* Bytes of rank 0 for all others. */
#include "ranks/ranks.h"

#include "core/error.h"

enum { TAG_TELL = 16 };

ac_status ac_ranks_tell(ac_ranks *ranks, void *bytes, uint64_t size) {
  AC_REQUIRE(ranks);
  if (size > 0) AC_REQUIRE(bytes);
  return ac_transport_tell(ac_ranks_transport(ranks), TAG_TELL, bytes, size);
}
