#include "backend/cpu/shared/decode.h"

#include "core/blocks.h"
#include "core/half.h"

#include <string.h>

static inline float half_at(const uint8_t *at) {
  uint16_t half;
  memcpy(&half, at, sizeof half);
  return ac_f16_to_float(half);
}

static void decode_q8_0(const uint8_t *x, int64_t blocks, float *y) {
  for (int64_t b = 0; b < blocks; b++, x += 34, y += 32) {
    const float d = half_at(x);
    const int8_t *q = (const int8_t *)x + 2;
#pragma omp simd
    for (int i = 0; i < 32; i++) y[i] = d * (float)q[i];
  }
}

static void decode_q4_0(const uint8_t *x, int64_t blocks, float *y) {
  for (int64_t b = 0; b < blocks; b++, x += 18, y += 32) {
    const float d = half_at(x);
    const uint8_t *q = x + 2;
#pragma omp simd
    for (int i = 0; i < 16; i++) y[i] = d * (float)((q[i] & 15) - 8);
#pragma omp simd
    for (int i = 0; i < 16; i++) y[i + 16] = d * (float)((q[i] >> 4) - 8);
  }
}

static void decode_q4_1(const uint8_t *x, int64_t blocks, float *y) {
  for (int64_t b = 0; b < blocks; b++, x += 20, y += 32) {
    const float d = half_at(x), m = half_at(x + 2);
    const uint8_t *q = x + 4;
#pragma omp simd
    for (int i = 0; i < 16; i++) y[i] = d * (float)(q[i] & 15) + m;
#pragma omp simd
    for (int i = 0; i < 16; i++) y[i + 16] = d * (float)(q[i] >> 4) + m;
  }
}

static void decode_nf4(const uint8_t *x, int64_t blocks, float *y) {
  for (int64_t b = 0; b < blocks; b++, x += 36, y += 64) {
    float d, values[16];
    memcpy(&d, x, sizeof d);
    for (int i = 0; i < 16; i++) values[i] = d * ac_nf4_values[i];
    const uint8_t *q = x + 4;
#pragma omp simd
    for (int i = 0; i < 32; i++) y[i] = values[q[i] & 15];
#pragma omp simd
    for (int i = 0; i < 32; i++) y[i + 32] = values[q[i] >> 4];
  }
}

void ac_cpu_decode(ac_blocks blocks, const void *x, int64_t count, float *y) {
  switch (blocks) {
  case AC_BLOCKS_Q8_0:
    decode_q8_0(x, count / 32, y);
    break;
  case AC_BLOCKS_Q4_0:
    decode_q4_0(x, count / 32, y);
    break;
  case AC_BLOCKS_Q4_1:
    decode_q4_1(x, count / 32, y);
    break;
  case AC_BLOCKS_NF4:
    decode_nf4(x, count / 64, y);
    break;
  default:
    break;
  }
}
