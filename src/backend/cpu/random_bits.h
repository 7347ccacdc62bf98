/* Philox 4x32-10 (core/random.h), 16 blocks at a time.
 *
 * A round needs the whole 64 bits of 32 x 32-bit products. Compilers make such loops out of full
 * 64-bit multiplications, six times slower than the instruction that multiplies the low halves of
 * 64-bit lanes; so that is named here, and the state kept in such lanes, whose high halves may hold
 * anything. */
#ifndef AC_BACKEND_CPU_RANDOM_BITS_H
#define AC_BACKEND_CPU_RANDOM_BITS_H

#include "core/random.h"

#include <string.h>

enum { AC_CPU_RANDOM_BLOCKS = 16, AC_CPU_RANDOM_WORDS = 4 * AC_CPU_RANDOM_BLOCKS };

#if defined(__GNUC__) && (defined(__AVX512F__) || defined(__AVX2__))

#include <immintrin.h>

#if defined(__AVX512F__)
enum { AC_CPU_RANDOM_LANES = 8 };
typedef uint64_t random_lanes __attribute__((vector_size(64)));
#define RANDOM_MULTIPLY(a, b) ((random_lanes)_mm512_mul_epu32((__m512i)(a), (__m512i)(b)))
#else
enum { AC_CPU_RANDOM_LANES = 4 };
typedef uint64_t random_lanes __attribute__((vector_size(32)));
#define RANDOM_MULTIPLY(a, b) ((random_lanes)_mm256_mul_epu32((__m256i)(a), (__m256i)(b)))
#endif

static inline void random_lane_words(uint32_t *words, uint64_t key, uint32_t first_block,
                                     uint32_t sample, uint32_t update, uint32_t stream) {
  const random_lanes zero = {0}, low = zero + 0xffffffffu;
  const random_lanes m0 = zero + 0xD2511F53u, m1 = zero + 0xCD9E8D57u;
  random_lanes c0, c1 = zero + sample, c2 = zero + update, c3 = zero + stream;
  for (int i = 0; i < AC_CPU_RANDOM_LANES; i++) c0[i] = (uint32_t)(first_block + (uint32_t)i);
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    random_lanes p0 = RANDOM_MULTIPLY(c0, m0), p1 = RANDOM_MULTIPLY(c2, m1);
    c0 = (p1 >> 32) ^ c1 ^ (zero + k0);
    c2 = (p0 >> 32) ^ c3 ^ (zero + k1);
    c1 = p1;
    c3 = p0;
  }
  random_lanes first = (c0 & low) | (c1 << 32), second = (c2 & low) | (c3 << 32);
  uint64_t pairs[2 * AC_CPU_RANDOM_LANES];
  for (int i = 0; i < AC_CPU_RANDOM_LANES; i++) {
    pairs[2 * i] = first[i];
    pairs[2 * i + 1] = second[i];
  }
  memcpy(words, pairs, sizeof pairs);
}

#else

enum { AC_CPU_RANDOM_LANES = 1 };

static inline void random_lane_words(uint32_t *words, uint64_t key, uint32_t first_block,
                                     uint32_t sample, uint32_t update, uint32_t stream) {
  ac_philox_block block = ac_philox(key, first_block, sample, update, stream);
  memcpy(words, block.v, sizeof block.v);
}

#endif

/* The words of elements [4 first_block, 4 first_block + 64) of a sample's mask. */
static inline void random_words(uint32_t *words, uint64_t key, uint32_t first_block,
                                uint32_t sample, uint32_t update, uint32_t stream) {
  for (int i = 0; i < AC_CPU_RANDOM_BLOCKS; i += AC_CPU_RANDOM_LANES)
    random_lane_words(words + 4 * i, key, first_block + (uint32_t)i, sample, update, stream);
}

#endif
