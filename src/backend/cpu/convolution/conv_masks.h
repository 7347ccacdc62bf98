/* Rows of images where the instruction set has masks: lanes of vectors that are left out, and every
 * second element. */
#ifndef AC_BACKEND_CPU_CONV_MASKS_H
#define AC_BACKEND_CPU_CONV_MASKS_H

#include "backend/cpu/convolution/conv.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__BMI2__)
#include <immintrin.h>
#define HAVE_MASKS
#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16, EVEN = 0x5555 };

/* The first n lanes; and those from `begin` to before `end`. */
static inline __mmask16 lanes(int64_t n) {
  return n >= LANES ? 0xffff : n <= 0 ? 0 : (__mmask16)((1u << n) - 1);
}
static inline __mmask16 between(int64_t begin, int64_t end) {
  return (__mmask16)(lanes(end) & ~(unsigned)lanes(begin));
}

/* The mask of every second lane of two vectors. These eight lanes belong to one half of `m`. */
static inline __mmask16 spread(unsigned m) {
  return (__mmask16)_pdep_u32(m & 0xff, EVEN);
}

static inline __m512 read_vector(const ac_conv_source *source, int64_t at, __mmask16 m) {
  if (source->dtype == AC_F32) return _mm512_maskz_loadu_ps(m, (const float *)source->data + at);
  __m256i halves = _mm256_maskz_loadu_epi16(m, (const uint16_t *)source->data + at);
  if (source->dtype == AC_F16) return _mm512_cvtph_ps(halves);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

static inline __m512 read_even(const ac_conv_source *source, int64_t at, __mmask16 m) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  __m512 low = read_vector(source, at, spread(m)),
         high = read_vector(source, at + LANES, spread((unsigned)m >> 8));
  return _mm512_permutex2var_ps(low, even, high);
}

#endif

#endif
