/* Philox 4x32-10 (core/random.h), 16 blocks at a time, as the halves of words that dropout takes.
 *
 * A round needs the whole 64 bits of 32 x 32-bit products. For AVX2 and AVX-512 compilers use full
 * 64-bit multiplications in such loops. These are six times slower than the instruction that
 * multiplies the low halves of 64-bit lanes, so that instruction is named here, and the state is
 * kept in such lanes; their high halves may hold anything. For other instruction sets the compiler
 * finds NEON's and SVE's widening products by itself. */
#ifndef AC_BACKEND_CPU_RANDOM_BITS_H
#define AC_BACKEND_CPU_RANDOM_BITS_H

#include "core/random.h"

enum { AC_CPU_RANDOM_BLOCKS = 16, AC_CPU_RANDOM_HALVES = 8 * AC_CPU_RANDOM_BLOCKS };

#if defined(__GNUC__) && (defined(__AVX512F__) || defined(__AVX2__))

#include <immintrin.h>

#if defined(__AVX512F__)

enum { AC_CPU_RANDOM_LANES = 8 };
typedef uint64_t random_lanes __attribute__((vector_size(64)));
#define RANDOM_LANE_NUMBERS ((random_lanes){0, 1, 2, 3, 4, 5, 6, 7})
#define RANDOM_MULTIPLY(a, b) ((random_lanes)_mm512_mul_epu32((__m512i)(a), (__m512i)(b)))
/* High halves into low ones, and low ones into high ones. These are shuffles, which run at the same
 * time as products; shifts would wait for these. */
#define RANDOM_HIGH(a) ((random_lanes)_mm512_shuffle_epi32((__m512i)(a), _MM_PERM_DDBB))
#define RANDOM_JOIN(low, high) \
  ((random_lanes)_mm512_mask_shuffle_epi32((__m512i)(low), 0xaaaa, (__m512i)(high), _MM_PERM_CCAA))

/* a0 b0 a1 b1 ... */
static inline void random_interleave(uint16_t *bits, random_lanes a, random_lanes b) {
  const __m512i low = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
  const __m512i high = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
  _mm512_storeu_si512(bits, _mm512_permutex2var_epi64((__m512i)a, low, (__m512i)b));
  _mm512_storeu_si512(bits + 32, _mm512_permutex2var_epi64((__m512i)a, high, (__m512i)b));
}

#else

enum { AC_CPU_RANDOM_LANES = 4 };
typedef uint64_t random_lanes __attribute__((vector_size(32)));
#define RANDOM_LANE_NUMBERS ((random_lanes){0, 1, 2, 3})
#define RANDOM_MULTIPLY(a, b) ((random_lanes)_mm256_mul_epu32((__m256i)(a), (__m256i)(b)))
#define RANDOM_HIGH(a) ((random_lanes)_mm256_shuffle_epi32((__m256i)(a), 0xf5))
#define RANDOM_JOIN(low, high)                                                                   \
  ((random_lanes)_mm256_blend_epi32((__m256i)(low), _mm256_shuffle_epi32((__m256i)(high), 0xa0), \
                                    0xaa))

static inline void random_interleave(uint16_t *bits, random_lanes a, random_lanes b) {
  __m256i even = _mm256_unpacklo_epi64((__m256i)a, (__m256i)b); /* a0 b0 a2 b2 */
  __m256i odd = _mm256_unpackhi_epi64((__m256i)a, (__m256i)b);
  _mm256_storeu_si256((__m256i *)bits, _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256((__m256i *)(bits + 16), _mm256_permute2x128_si256(even, odd, 0x31));
}

#endif

/* The mask of a call of dropout in an update: the keys of all rounds in all lanes, which takes as
 * long to make as several blocks. */
typedef struct random_mask {
  random_lanes key[10][2];
  uint32_t update, stream;
} random_mask;

static inline random_mask random_mask_of(uint64_t key, uint32_t update, uint32_t stream) {
  random_mask mask = {.update = update, .stream = stream};
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
    mask.key[round][0] = (random_lanes){0} + k0;
    mask.key[round][1] = (random_lanes){0} + k1;
  }
  return mask;
}

static inline void random_lane_bits(uint16_t *bits, const random_mask *mask, uint32_t sample,
                                    uint32_t first_block) {
  const random_lanes zero = {0};
  const random_lanes m0 = zero + 0xD2511F53u, m1 = zero + 0xCD9E8D57u;
  random_lanes c0 = RANDOM_LANE_NUMBERS + first_block;
  random_lanes c1 = zero + sample, c2 = zero + mask->update, c3 = zero + mask->stream;
#pragma GCC unroll 10
  for (int round = 0; round < 10; round++) {
    random_lanes p0 = RANDOM_MULTIPLY(c0, m0), p1 = RANDOM_MULTIPLY(c2, m1);
    c0 = RANDOM_HIGH(p1) ^ c1 ^ mask->key[round][0];
    c2 = RANDOM_HIGH(p0) ^ c3 ^ mask->key[round][1];
    c1 = p1;
    c3 = p0;
  }
  random_interleave(bits, RANDOM_JOIN(c0, c1), RANDOM_JOIN(c2, c3));
}

#else

enum { AC_CPU_RANDOM_LANES = AC_CPU_RANDOM_BLOCKS };

typedef struct random_mask {
  uint64_t key;
  uint32_t update, stream;
} random_mask;

static inline random_mask random_mask_of(uint64_t key, uint32_t update, uint32_t stream) {
  return (random_mask){key, update, stream};
}

static inline void random_lane_bits(uint16_t *bits, const random_mask *mask, uint32_t sample,
                                    uint32_t first_block) {
  uint32_t c0[AC_CPU_RANDOM_LANES], c1[AC_CPU_RANDOM_LANES];
  uint32_t c2[AC_CPU_RANDOM_LANES], c3[AC_CPU_RANDOM_LANES];
  uint32_t k0 = (uint32_t)mask->key, k1 = (uint32_t)(mask->key >> 32);
  for (uint32_t l = 0; l < AC_CPU_RANDOM_LANES; l++) {
    c0[l] = first_block + l;
    c1[l] = sample;
    c2[l] = mask->update;
    c3[l] = mask->stream;
  }
  for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
#pragma omp simd
    for (int l = 0; l < AC_CPU_RANDOM_LANES; l++) {
      uint64_t p0 = (uint64_t)0xD2511F53u * c0[l], p1 = (uint64_t)0xCD9E8D57u * c2[l];
      c0[l] = (uint32_t)(p1 >> 32) ^ c1[l] ^ k0;
      c2[l] = (uint32_t)(p0 >> 32) ^ c3[l] ^ k1;
      c1[l] = (uint32_t)p1;
      c3[l] = (uint32_t)p0;
    }
  }
#pragma omp simd
  for (int l = 0; l < AC_CPU_RANDOM_LANES; l++) {
    const uint32_t words[4] = {c0[l], c1[l], c2[l], c3[l]};
    for (int e = 0; e < 8; e++) bits[8 * l + e] = (uint16_t)(words[e / 2] >> 16 * (e % 2));
  }
}

#endif

/* The bits of elements [8 first_block, 8 first_block + 128) of a sample's mask. */
static inline void random_bits(uint16_t *bits, const random_mask *mask, uint32_t sample,
                               uint32_t first_block) {
  for (int i = 0; i < AC_CPU_RANDOM_BLOCKS; i += AC_CPU_RANDOM_LANES)
    random_lane_bits(bits + 8 * i, mask, sample, first_block + (uint32_t)i);
}

#endif
