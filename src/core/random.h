/* clang-format off */
/* Counter-based random numbers: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy
 * as 1, 2, 3", SC 2011). A value is a pure function of (key, counter), so it depends neither on the order of
 * evaluation nor on how work is split. cl/common.h holds the same function for OpenCL.
 *
 *   stream          key                            counter
 *   dropout masks   seed                           (element / 8 within the sample, sample in the effective
 *                                                   batch, update, stream of the op)
 *   initial values  seed ^ hash(parameter name)    (element / 4 as 64 bits, 0, 0)
 *   rounded weights seed ^ hash(parameter name)    (element / 8, 0, update, 1)
 *   rounded sums    seed ^ hash(parameter name)    (element / 8, sample, update, 2 + number of the addition)
 *   shuffling       see src/data/shuffle.c */
/* clang-format on */
#ifndef AC_CORE_RANDOM_H
#define AC_CORE_RANDOM_H

#include <stdint.h>

typedef struct ac_philox_block {
  uint32_t v[4];
} ac_philox_block;

static inline ac_philox_block ac_philox(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2,
                                        uint32_t c3) {
  uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
    uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c1 = (uint32_t)p1;
    c3 = (uint32_t)p0;
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return (ac_philox_block){{c0, c1, c2, c3}};
}

/* Uniform in [0, 1) with 24 bits. */
static inline float ac_uniform24(uint32_t bits) {
  return (float)(bits >> 8) * 0x1p-24f;
}

/* Dropout draws 16 bits an element: 16-bit half e % 8 of block e / 8, low halves of words first,
 * and drops what is below this threshold, p 2^16 rounded. (So p is a multiple of 2^-16, 1 - 2^-16
 * at most.) */
static inline uint32_t ac_dropout_threshold(float p) {
  double scaled = (double)p * 65536.0 + 0.5;
  return scaled < 65535.0 ? (uint32_t)scaled : 65535u;
}

/* What is kept is multiplied with this, the reciprocal of the probability of being kept. */
static inline float ac_dropout_factor(float p) {
  return 65536.0f / (float)(65536u - ac_dropout_threshold(p));
}

/* Weights that are rounded by chance draw as many, from the first of these streams; what is added
 * to a gradient from one of those that follow. */
enum { AC_WEIGHT_STREAM = 1, AC_GRADIENT_STREAM };

/* The bits of element e. */
static inline uint32_t ac_dropout_bits(const ac_philox_block *block, uint64_t e) {
  return block->v[e % 8 / 2] >> 16 * (e % 2) & 0xffffu;
}

#endif
