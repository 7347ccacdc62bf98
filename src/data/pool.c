#include "data/pool.h"

#include "core/align.h"
#include "core/error.h"
#include "core/platform/processors.h"
#include "core/platform/threads.h"

#include <stdlib.h>

struct ac_pool {
  ac_monitor *monitor; /* guards the stack of free blocks */
  char *memory;
  size_t bytes; /* of a block */
  int count, free_count;
  void *free_blocks[AC_POOL_MOST];
};

int ac_pool_usual_count(void) {
  const int processors = ac_processor_count();
  return processors < 1 ? 1 : processors < AC_POOL_MOST ? processors : AC_POOL_MOST;
}

ac_status ac_pool_create(ac_pool **pool, int count, uint64_t bytes, const char *of_what) {
  *pool = NULL;
  ac_pool *made = calloc(1, sizeof *made);
  if (made && bytes <= PTRDIFF_MAX / AC_POOL_MOST - AC_LINE_BYTES) {
    made->bytes = (size_t)ac_align(bytes + !bytes, AC_LINE_BYTES);
    made->monitor = ac_monitor_create();
    made->memory = calloc((size_t)count, made->bytes);
  }
  if (!made || !made->monitor || !made->memory) {
    ac_pool_free(made);
    return ac_fail(AC_ERROR_MEMORY, "%s: no memory for %d samples", of_what, count);
  }
  made->count = count;
  for (; made->free_count < count; made->free_count++)
    made->free_blocks[made->free_count] = ac_pool_block(made, made->free_count);
  *pool = made;
  return AC_OK;
}

void ac_pool_free(ac_pool *pool) {
  if (!pool) return;
  ac_monitor_free(pool->monitor);
  free(pool->memory);
  free(pool);
}

uint64_t ac_pool_bytes(const ac_pool *pool) {
  return pool ? (uint64_t)pool->count * pool->bytes : 0;
}

void *ac_pool_borrow(ac_pool *pool) {
  ac_monitor_lock(pool->monitor);
  while (!pool->free_count) ac_monitor_wait(pool->monitor);
  void *block = pool->free_blocks[--pool->free_count];
  ac_monitor_unlock(pool->monitor);
  return block;
}

void ac_pool_return(ac_pool *pool, void *block) {
  ac_monitor_lock(pool->monitor);
  if (!pool->free_count) ac_monitor_wake(pool->monitor);
  pool->free_blocks[pool->free_count++] = block;
  ac_monitor_unlock(pool->monitor);
}

int ac_pool_count(const ac_pool *pool) {
  return pool ? pool->count : 0;
}

void *ac_pool_block(const ac_pool *pool, int i) {
  return pool->memory + (size_t)i * pool->bytes;
}
