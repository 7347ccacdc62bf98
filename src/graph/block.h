/* Bytes that several graphs share: a plan's copy of a graph has the same values of constants. The
 * last user frees them. */
#ifndef AC_GRAPH_BLOCK_H
#define AC_GRAPH_BLOCK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>

typedef struct ac_block {
  atomic_int users;
  size_t bytes;
  _Alignas(max_align_t) unsigned char data[];
} ac_block;

/* NULL: no memory. */
static inline ac_block *ac_block_create(size_t bytes) {
  if (bytes > (size_t)-1 - sizeof(ac_block)) return NULL;
  ac_block *block = malloc(sizeof *block + bytes);
  if (!block) return NULL;
  atomic_init(&block->users, 1);
  block->bytes = bytes;
  return block;
}

static inline ac_block *ac_block_share(ac_block *block) {
  if (block) atomic_fetch_add(&block->users, 1);
  return block;
}

static inline void ac_block_free(ac_block *block) {
  if (block && atomic_fetch_sub(&block->users, 1) == 1) free(block);
}

#endif
