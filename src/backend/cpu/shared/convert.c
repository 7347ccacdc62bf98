/* Conversions of storage types (core/half.h says what they are).
 *
 * f16 is converted by the CPU's own instructions, which round, keep NaNs and treat subnormals
 * exactly as half.h says. Without these instructions, both ways are computed without branches: a
 * normal half is a float with another bias, and a subnormal half is in the lowest bits of |x| +
 * 1/2, because the unit of these is that of a subnormal half, 2^-24.
 *
 * bf16 is converted by integer arithmetic everywhere: AVX-512's own instruction flushes subnormals
 * to zero. */
#include "backend/cpu/shared/convert.h"
#include "core/half.h"

#include <string.h>

#if defined(__AVX512F__) || defined(__F16C__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* ---- f16 ------------------------------------------------------------------------------------- */

#if defined(__AVX512F__)

enum { F16_VECTOR = 16 };

static inline void widen_vector(const uint16_t *x, float *y) {
  _mm512_storeu_ps(y, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)x)));
}

static inline void narrow_vector(const float *x, uint16_t *y) {
  _mm256_storeu_si256((__m256i *)y, _mm512_cvtps_ph(_mm512_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT));
}

#elif defined(__F16C__)

enum { F16_VECTOR = 8 };

static inline void widen_vector(const uint16_t *x, float *y) {
  _mm256_storeu_ps(y, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)x)));
}

static inline void narrow_vector(const float *x, uint16_t *y) {
  _mm_storeu_si128((__m128i *)y, _mm256_cvtps_ph(_mm256_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT));
}

#elif defined(__aarch64__)

enum { F16_VECTOR = 4 };

static inline void widen_vector(const uint16_t *x, float *y) {
  vst1q_f32(y, vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(x))));
}

static inline void narrow_vector(const float *x, uint16_t *y) {
  vst1_u16(y, vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x))));
}

#else

enum { F16_VECTOR = 8 };

static inline void widen_vector(const uint16_t *x, float *y) {
#pragma omp simd
  for (int i = 0; i < F16_VECTOR; i++) {
    uint32_t rest = x[i] & 0x7fffu, sign = (uint32_t)(x[i] & 0x8000u) << 16;
    uint32_t normal = (rest << 13) + (112u << 23);
    uint32_t special = (rest << 13) | 0x7f800000u | (rest > 0x7c00u ? 0x400000u : 0);
    uint32_t small = ac_float_bits((float)(int32_t)rest * 0x1p-24f);
    y[i] = ac_float_from_bits(sign | (rest >= 0x7c00u ? special : rest >= 0x400u ? normal : small));
  }
}

static inline void narrow_vector(const float *x, uint16_t *y) {
#pragma omp simd
  for (int i = 0; i < F16_VECTOR; i++) {
    int32_t bits = (int32_t)ac_float_bits(x[i]), rest = bits & 0x7fffffff;
    int32_t normal = (rest - (112 << 23) + 0xfff + (rest >> 13 & 1)) >> 13;
    int32_t small = (int32_t)ac_float_bits(ac_float_from_bits((uint32_t)rest) + 0.5f) - 0x3f000000;
    int32_t special = rest > 0x7f800000 ? 0x7e00 | (rest >> 13 & 0x3ff) : 0x7c00;
    int32_t half = rest >= 0x477ff000 ? special : rest >= 0x38800000 ? normal : small;
    y[i] = (uint16_t)((bits >> 16 & 0x8000) | half);
  }
}

#endif

static void widen_f16(const uint16_t *x, float *y, int64_t count) {
  int64_t i = 0;
  for (; i + F16_VECTOR <= count; i += F16_VECTOR) widen_vector(x + i, y + i);
  if (i == count) return;
  uint16_t from[F16_VECTOR] = {0};
  float to[F16_VECTOR];
  memcpy(from, x + i, (size_t)(count - i) * sizeof *x);
  widen_vector(from, to);
  memcpy(y + i, to, (size_t)(count - i) * sizeof *y);
}

static void narrow_f16(const float *x, uint16_t *y, int64_t count) {
  int64_t i = 0;
  for (; i + F16_VECTOR <= count; i += F16_VECTOR) narrow_vector(x + i, y + i);
  if (i == count) return;
  float from[F16_VECTOR] = {0};
  uint16_t to[F16_VECTOR];
  memcpy(from, x + i, (size_t)(count - i) * sizeof *x);
  narrow_vector(from, to);
  memcpy(y + i, to, (size_t)(count - i) * sizeof *y);
}

/* Tells apart the zeros of y, which x was converted to: -0 if x was none, else +0. */
static void mark_zeros(const float *x, uint16_t *y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    uint32_t was = ac_float_bits(x[i]) << 1, is = y[i];
    y[i] = (uint16_t)(is & 0x7fffu ? is : was ? 0x8000u : 0u);
  }
}

/* ---- bf16 ------------------------------------------------------------------------------------ */

static void widen_bf16(const uint16_t *x, float *y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) y[i] = ac_bf16_to_float(x[i]);
}

static void narrow_bf16(const float *x, uint16_t *y, int64_t count) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) y[i] = ac_bf16_from_float(x[i]);
}

/* ---- any ------------------------------------------------------------------------------------- */

void ac_cpu_widen(ac_dtype dtype, const void *x, float *y, int64_t count) {
  if (dtype == AC_F16) widen_f16(x, y, count);
  else if (dtype == AC_BF16) widen_bf16(x, y, count);
  else memcpy(y, x, (size_t)count * sizeof *y);
}

void ac_cpu_narrow(ac_dtype dtype, bool mark, const float *x, void *y, int64_t count) {
  if (dtype == AC_F16) narrow_f16(x, y, count);
  else if (dtype == AC_BF16) narrow_bf16(x, y, count);
  else memcpy(y, x, (size_t)count * sizeof *x);
  if (dtype == AC_F16 && mark) mark_zeros(x, y, count);
}

void ac_cpu_accumulate(ac_dtype dtype, bool mark, const float *x, void *y, int64_t count) {
  float sum[AC_CPU_RUN];
  if (dtype == AC_F32) {
    float *to = y;
#pragma omp simd
    for (int64_t i = 0; i < count; i++) to[i] += x[i];
    return;
  }
  ac_cpu_widen(dtype, y, sum, count);
  for (int64_t i = 0; i < count; i++) sum[i] += x[i];
  ac_cpu_narrow(dtype, mark, sum, y, count);
}

void ac_cpu_widen_rows(ac_dtype dtype, const void *x, int64_t ldx, float *y, int64_t ldy,
                       int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; i++)
    ac_cpu_widen(dtype, ac_element(x, dtype, i * ldx), y + i * ldy, columns);
}

void ac_cpu_narrow_rows(ac_dtype dtype, bool mark, const float *x, int64_t ldx, void *y,
                        int64_t ldy, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; i++)
    ac_cpu_narrow(dtype, mark, x + i * ldx, ac_element(y, dtype, i * ldy), columns);
}

/* Uses a separate run as buffer: the two must not overlap while they are converted. */
void ac_cpu_narrow_in_place(ac_dtype dtype, bool mark, float *x, int64_t count) {
  float run[AC_CPU_RUN];
  for (int64_t i = 0; i < count; i += AC_CPU_RUN) {
    int64_t length = ac_smaller(AC_CPU_RUN, count - i);
    memcpy(run, x + i, (size_t)length * sizeof *x);
    ac_cpu_narrow(dtype, mark, run, ac_element(x, dtype, i), length);
  }
}
