/* Blocks of 8 bits (core/eight_bit.h) from and to floats, 16 elements at a time where AVX-512 looks
 * up what differs by decade in registers; a compiler makes twice as many instructions of the plain
 * functions. Codes are the same but for values within rounding of the middle between two. */
#ifndef AC_BACKEND_CPU_EIGHT_BIT_H
#define AC_BACKEND_CPU_EIGHT_BIT_H

#include "core/eight_bit.h"

#if defined(__GNUC__) && defined(__AVX512F__) && defined(__AVX512DQ__)

#include <immintrin.h>

/* Of a position y in the decade e = floor(log2 y), counted from that of the first non-zero code,
 * the value is base[e] + slope[e] y; of a value x in it the position is the whole part of
 * rise[e] x + shift[e], but below that of the next decade. An octave [2^(k - 23), 2^(k - 22)) has
 * at most one border of decades. */
typedef struct eight_bit_tables {
  __m512 base, slope, rise, shift;
  __m512 border[2];  /* by octave; NaN: none */
  __m512i before[2]; /* the decade below it */
} eight_bit_tables;

static inline eight_bit_tables eight_bit_tables_of(bool is_signed) {
  const float half = is_signed ? 1 : 2;
  float base[16] = {0}, slope[16] = {0}, rise[16] = {0}, shift[16] = {0}, border[32], unit = 1e-6f;
  int32_t before[32];
  for (int e = 0; e < 8; e++, unit *= 10) {
    const float n = (float)(1 << e) * half;
    base[e] = e == 7 ? 1 : unit * (-0.8f + 0.45f / n);
    slope[e] = e == 7 ? 0 : 0.9f * unit / n;
    rise[e] = n / (0.9f * unit);
    shift[e] = n - n / 9;
  }
  int decade = 0;
  float below = 1e-5f;
  for (int k = 0; k < 32; k++) {
    const float end = ldexpf(1, k - 22),
                at = below * (0.1f + 0.18f / ((float)(2 << decade) * half));
    before[k] = decade;
    border[k] = decade < 6 && at < end ? at : NAN;
    if (border[k] < end) decade++, below *= 10;
  }
  return (eight_bit_tables){_mm512_loadu_ps(base),
                            _mm512_loadu_ps(slope),
                            _mm512_loadu_ps(rise),
                            _mm512_loadu_ps(shift),
                            {_mm512_loadu_ps(border), _mm512_loadu_ps(border + 16)},
                            {_mm512_loadu_si512(before), _mm512_loadu_si512(before + 16)}};
}

/* Exponents of positive floats, as integers without their bias. */
static inline __m512i eight_bit_exponent(__m512 x) {
  return _mm512_sub_epi32(_mm512_srli_epi32(_mm512_castps_si512(x), 23), _mm512_set1_epi32(127));
}

static inline void eight_bit_load(const eight_bit_tables *t, const uint8_t *block, bool is_signed,
                                  float values[AC_EIGHT_BIT_BLOCK]) {
  float scale;
  memcpy(&scale, block + AC_EIGHT_BIT_BLOCK, sizeof scale);
  const __m512 scales = _mm512_set1_ps(scale);
  const __m512i zero = _mm512_set1_epi32(is_signed ? 127 : 0), one = _mm512_set1_epi32(1);
  for (int i = 0; i < AC_EIGHT_BIT_BLOCK; i += 16) {
    const __m512i code = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(block + i)));
    const __m512i distance = _mm512_sub_epi32(code, zero);
    const __m512i whole = is_signed ? _mm512_abs_epi32(distance) : _mm512_add_epi32(distance, one);
    const __m512 position = _mm512_cvtepi32_ps(whole);
    __m512i decade = eight_bit_exponent(position);
    if (!is_signed) decade = _mm512_sub_epi32(decade, one);
    const __mmask16 some = _mm512_test_epi32_mask(distance, distance);
    const __m512 value = _mm512_maskz_fmadd_ps(some, _mm512_permutexvar_ps(decade, t->slope),
                                               position, _mm512_permutexvar_ps(decade, t->base));
    const __m512i sign = _mm512_and_si512(distance, _mm512_set1_epi32(INT32_MIN));
    const __m512i with_sign = _mm512_or_si512(_mm512_castps_si512(value), sign);
    _mm512_storeu_ps(values + i, _mm512_mul_ps(_mm512_castsi512_ps(with_sign), scales));
  }
}

static inline __m128i eight_bit_codes(const eight_bit_tables *t, __m512 x, bool is_signed) {
  const __m512i one = _mm512_set1_epi32(1);
  const __m512 size = _mm512_min_ps(_mm512_abs_ps(x), _mm512_set1_ps(1)); /* NaN becomes one */
  /* Below the octaves nothing is met but the first decade. */
  const __m512i exponent = _mm512_srli_epi32(_mm512_castps_si512(size), 23),
                octave = _mm512_subs_epu16(exponent, _mm512_set1_epi32(127 - 23));
  const __m512 border = _mm512_permutex2var_ps(t->border[0], octave, t->border[1]);
  const __mmask16 above = _mm512_cmp_ps_mask(size, border, _CMP_GE_OQ);
  __m512i decade = _mm512_permutex2var_epi32(t->before[0], octave, t->before[1]);
  decade = _mm512_mask_add_epi32(decade, above, decade, one);
  const __m512 part = _mm512_fmadd_ps(size, _mm512_permutexvar_ps(decade, t->rise),
                                      _mm512_permutexvar_ps(decade, t->shift));
  const __m512i ends = _mm512_sllv_epi32(_mm512_set1_epi32(is_signed ? 2 : 4), decade);
  const __m512i top = _mm512_sub_epi32(ends, one);
  __m512i position = _mm512_min_epi32(_mm512_cvttps_epi32(part), top);
  const __m512 last = _mm512_set1_ps(1 - 0.225f / (is_signed ? 64 : 128));
  const __mmask16 ones = _mm512_cmp_ps_mask(size, last, _CMP_GE_OQ);
  position = _mm512_mask_add_epi32(position, ones, position, one);
  const __m512i bits = _mm512_castps_si512(size);
  if (!is_signed) {
    const __mmask16 some = _mm512_test_epi32_mask(bits, bits);
    position = _mm512_max_epi32(position, _mm512_set1_epi32(2));
    return _mm512_cvtepi32_epi8(_mm512_maskz_sub_epi32(some, position, one));
  }
  const __mmask16 some = _mm512_cmp_ps_mask(size, _mm512_set1_ps(1e-6f * 0.275f), _CMP_GE_OQ);
  position = _mm512_maskz_mov_epi32(some, position);
  const __m512i middle = _mm512_set1_epi32(127);
  const __mmask16 negative = _mm512_movepi32_mask(_mm512_castps_si512(x));
  const __m512i up = _mm512_add_epi32(middle, position);
  return _mm512_cvtepi32_epi8(
      _mm512_mask_sub_epi32(up, negative, middle, _mm512_min_epi32(position, middle)));
}

static inline void eight_bit_store(const eight_bit_tables *t, uint8_t *block, bool is_signed,
                                   const float values[AC_EIGHT_BIT_BLOCK]) {
  __m512 most = _mm512_setzero_ps();
  for (int i = 0; i < AC_EIGHT_BIT_BLOCK; i += 16)
    most = _mm512_max_ps(_mm512_abs_ps(_mm512_loadu_ps(values + i)), most);
  const float scale = ac_eight_bit_scale(_mm512_reduce_max_ps(most));
  const __m512 inverse = _mm512_set1_ps(scale > 0 ? 1 / scale : 0);
  for (int i = 0; i < AC_EIGHT_BIT_BLOCK; i += 16) {
    const __m512 x = _mm512_mul_ps(_mm512_loadu_ps(values + i), inverse);
    _mm_storeu_si128((__m128i *)(block + i), eight_bit_codes(t, x, is_signed));
  }
  memcpy(block + AC_EIGHT_BIT_BLOCK, &scale, sizeof scale);
}

#else

typedef struct eight_bit_tables {
  char none;
} eight_bit_tables;

static inline eight_bit_tables eight_bit_tables_of(bool is_signed) {
  (void)is_signed;
  return (eight_bit_tables){0};
}

static inline void eight_bit_load(const eight_bit_tables *t, const uint8_t *block, bool is_signed,
                                  float values[AC_EIGHT_BIT_BLOCK]) {
  (void)t;
  ac_eight_bit_load(block, is_signed, values);
}

static inline void eight_bit_store(const eight_bit_tables *t, uint8_t *block, bool is_signed,
                                   const float values[AC_EIGHT_BIT_BLOCK]) {
  (void)t;
  ac_eight_bit_store(block, is_signed, values);
}

#endif

#endif
