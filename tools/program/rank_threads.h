/* Ranks that are threads of this process. Rank 0 is the caller's thread. */
#ifndef TOOLS_PROGRAM_RANK_THREADS_H
#define TOOLS_PROGRAM_RANK_THREADS_H

#include <accrue/ranks.h>

enum { MOST_RANK_THREADS = 64 };

/* Runs body(user, ranks) for each rank at once, and waits for all. The body says what has become of
 * it by itself, and neither aborts nor closes its ranks: if it returns false the others fail with
 * the last error of its thread. A status of message.h: whether threads could be started. */
int rank_threads_run(int count, double timeout, bool (*body)(void *user, ac_ranks *ranks),
                     void *user);

#endif
