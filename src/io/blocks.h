/* Weights in blocks, as GGUF files hold them: some numbers of few bits with common scales. Their
 * layout is ggml's; what they decode to is equal, bit for bit, to what its reference yields. */
#ifndef AC_IO_BLOCKS_H
#define AC_IO_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

enum { AC_MOST_OF_BLOCK = 256 };

typedef struct ac_block_format {
  const char *name;
  int elements, bytes; /* of a block */
  void (*decode)(const unsigned char *block, float *elements);
} ac_block_format;

/* By ggml's number of a type; NULL: there is none, or it is not in blocks. */
const ac_block_format *ac_block_format_of(uint32_t type);

#endif
