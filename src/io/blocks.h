/* Weights in blocks, as GGUF files hold them: some numbers of few bits with common scales. Their
 * layout is ggml's. What they decode to, and what they are made of floats, is equal, bit for bit,
 * to what its reference yields. */
#ifndef AC_IO_BLOCKS_H
#define AC_IO_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

enum { AC_MOST_OF_BLOCK = 256 };

typedef struct ac_block_format {
  const char *name;
  int elements, bytes; /* of a block */
  void (*decode)(const unsigned char *block, float *elements);
  /* Rounds a block as ggml's reference does; NULL: blocks of this format are only decoded. A block
   * with an element that is not finite, or too large for its scales, gets scales that are not
   * finite. */
  void (*encode)(const float *elements, unsigned char *block);
} ac_block_format;

/* By ggml's number of a type; NULL: there is none, or it is not in blocks. */
const ac_block_format *ac_block_format_of(uint32_t type);

#endif
