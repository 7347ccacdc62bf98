/* Philox 4x32-10 (core/random.h), 16 blocks at a time so that the rounds vectorise. */
#ifndef AC_BACKEND_CPU_RANDOM_BITS_H
#define AC_BACKEND_CPU_RANDOM_BITS_H

#include "core/random.h"

enum { AC_CPU_RANDOM_BLOCKS = 16, AC_CPU_RANDOM_WORDS = 4 * AC_CPU_RANDOM_BLOCKS };

/* The words of elements [4 first_block, 4 first_block + 64) of a sample's mask. */
static inline void random_words(uint32_t *words, uint64_t key, uint32_t first_block, uint32_t c1,
                                uint32_t c2, uint32_t c3) {
  uint32_t lanes[4][AC_CPU_RANDOM_BLOCKS];
#pragma omp simd
  for (int i = 0; i < AC_CPU_RANDOM_BLOCKS; i++) {
    ac_philox_block block = ac_philox(key, first_block + (uint32_t)i, c1, c2, c3);
    lanes[0][i] = block.v[0];
    lanes[1][i] = block.v[1];
    lanes[2][i] = block.v[2];
    lanes[3][i] = block.v[3];
  }
  for (int i = 0; i < AC_CPU_RANDOM_BLOCKS; i++)
    for (int w = 0; w < 4; w++) words[4 * i + w] = lanes[w][i];
}

#endif
