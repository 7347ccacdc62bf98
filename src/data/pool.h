/* Blocks of memory that threads borrow while they read a sample: as many as are to read at the same
 * time, made beforehand. A thread that finds none free waits for one. */
#ifndef AC_DATA_POOL_H
#define AC_DATA_POOL_H

#include <accrue/base.h>

enum { AC_POOL_MOST = 16 };

typedef struct ac_pool ac_pool;

/* As many blocks as there are processors, at most AC_POOL_MOST. */
int ac_pool_usual_count(void);

/* `count` blocks of `bytes`, which are zeros, at most AC_POOL_MOST. `of_what` begins the message if
 * there is no memory: "mixing". */
ac_status ac_pool_create(ac_pool **pool, int count, uint64_t bytes, const char *of_what);
void ac_pool_free(ac_pool *pool); /* NULL: nothing */

uint64_t ac_pool_bytes(const ac_pool *pool); /* NULL: 0 */

void *ac_pool_borrow(ac_pool *pool);
void ac_pool_return(ac_pool *pool, void *block);

/* Block i, also while a thread has it: for the end, if blocks lead to memory of their own. */
int ac_pool_count(const ac_pool *pool); /* NULL: 0 */
void *ac_pool_block(const ac_pool *pool, int i);

#endif
