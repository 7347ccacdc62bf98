/* Weights in blocks: some numbers of few bits with common scales. A row of a matrix is a whole
 * number of blocks, so the blocks of a matrix are those of its elements in their order.
 *
 * Q8_0, Q4_0 and Q4_1 are laid out as in GGUF files, with the low byte of numbers first, and
 * encoded and decoded as ggml's reference does, to the bit. NF4 (Dettmers et al., arXiv 2305.14314)
 * takes bitsandbytes' sixteen values and thresholds, with an f32 scale for each 64 elements; the
 * layout is our own:
 *
 *   Q8_0   32   f16 d, 32 signed bytes q            x = d q
 *   Q4_0   32   f16 d, 16 bytes                     x = d (q - 8)
 *   Q4_1   32   f16 d, f16 m, 16 bytes              x = d q + m
 *   NF4    64   f32 d, 32 bytes                     x = d value[q]
 *
 * The low half of byte i is element i, its high half is element i + half a block. A block with an
 * element that is not finite becomes one of NaNs, so that checks of values find it. */
#ifndef AC_CORE_BLOCKS_H
#define AC_CORE_BLOCKS_H

#include <accrue/storage.h>

enum { AC_MOST_OF_BLOCK = 256 };

typedef struct ac_block_format {
  const char *name;    /* as GGUF files' types are called */
  int elements, bytes; /* of a block */
  void (*decode)(const unsigned char *block, float *elements);
  void (*encode)(const float *elements, unsigned char *block); /* NULL: is only read */
} ac_block_format;

/* NULL for AC_BLOCKS_NONE and for what is not a format. */
const ac_block_format *ac_blocks_format(ac_blocks blocks);

/* The values of NF4's sixteen codes. */
extern const float ac_nf4_values[16];

/* Whole blocks: `count` is a multiple of the format's elements. */
void ac_blocks_encode(ac_blocks blocks, const float *from, int64_t count, void *to);
void ac_blocks_decode(ac_blocks blocks, const void *from, int64_t count, float *to);

#endif
