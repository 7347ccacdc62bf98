/* Ranks of this process, each in a thread of its own. */
#ifndef AC_TESTS_RANK_THREADS_H
#define AC_TESTS_RANK_THREADS_H

#include <accrue/ranks.h>

/* Runs body(ranks, r, user) for each of `count` ranks at once, and waits for all. The body closes
 * its ranks. It must not assert: cmocka's assertions are for the thread of the test. */
void run_rank_threads(ac_ranks *const *list, int count,
                      void (*body)(ac_ranks *ranks, int rank, void *user), void *user);

#endif
