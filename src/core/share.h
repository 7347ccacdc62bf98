/* What is shared out among ranks: parts that follow one another in the order of ranks, the first
 * ones larger by one where they do not come out even. One rank, or 0, has all. */
#ifndef AC_CORE_SHARE_H
#define AC_CORE_SHARE_H

#include "core/integers.h"

static inline int64_t ac_share_begin(int64_t count, int rank, int ranks) {
  return ranks > 1 ? count / ranks * rank + ac_smaller(rank, count % ranks) : 0;
}
static inline int64_t ac_share_of(int64_t count, int rank, int ranks) {
  return ranks > 1 ? count / ranks + (rank < count % ranks) : count;
}
/* The largest. */
static inline int64_t ac_share_most(int64_t count, int ranks) {
  return ac_share_of(count, 0, ranks);
}

#endif
