/* One rank, as public functions give it. */
#ifndef AC_RANKS_RANKS_H
#define AC_RANKS_RANKS_H

#include <accrue/ranks.h>

#include "ranks/transport.h"

/* Belongs to `ranks`. Taken back first, if it is lent to a thread. */
ac_transport *ac_ranks_transport(ac_ranks *ranks);

#endif
