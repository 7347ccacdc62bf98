/* Blocks of 8 bits with AVX-512, which eight_bit.h includes: 16 elements a vector. */
#ifndef AC_BACKEND_CPU_EIGHT_BIT_AVX512_H
#define AC_BACKEND_CPU_EIGHT_BIT_AVX512_H

#include "backend/cpu/update/eight_bit_ranges.h"

#include <immintrin.h>

/* Tables of 16 are indexed by the last bits of an exponent.
 *
 * A code becomes a position by its place in the mantissa of a large number; the exponents of zero
 * and of each decade differ. A position y in a decade has the value base + slope y.
 *
 * `turn` is indexed by the exponent of a magnitude x, so by octaves from 2^-23 on. An octave has at
 * most one border, where the next range begins: the sum of x's bits and `turn` has the exponent of
 * x's position. That position, divided by the power of two N that its decade begins with, is
 * rise x + 8/9 and less than two: this is its mantissa. */
typedef struct eight_bit_tables {
  float base[16], slope[16];
  __m512i turn[2];
  __m512 rise;
  __m512 least; /* what x is raised to: something of zero's, or the first value */
} eight_bit_tables;

static inline eight_bit_tables eight_bit_tables_of(bool is_signed) {
  eight_bit_tables t;
  const float half = is_signed ? 1 : 2, unit_of_code = is_signed ? 0x1p-7f : 1;
  const uint32_t before = is_signed ? 126 : 127; /* the exponent of what range 0 would begin with */
  float rise[16] = {0};
  uint32_t turn[32];
  memset(t.base, 0, sizeof t.base);
  memset(t.slope, 0, sizeof t.slope);
  for (uint32_t range = 1; range < EIGHT_BIT_RANGES; range++) {
    const float n = (float)(1 << (range - 1)) * half, unit = powf(10, (float)range - 7);
    const bool one = range == EIGHT_BIT_ONE;
    const uint32_t index = (before + range - (is_signed ? 7 : 0)) & 15;
    t.base[index] = one ? 1 : unit * (-0.8f + 0.45f / n);
    t.slope[index] = one ? 0 : 0.9f * unit / n / unit_of_code;
    rise[(before + range) & 15] = one ? 0.112f : 1 / (0.9f * unit); /* of one: to little above N */
  }
  uint32_t range = is_signed ? 0 : 1;
  for (uint32_t k = 0; k < 32; k++) {
    const uint32_t exponent = 127 - 23 + k;
    const float end = ac_float_from_bits((exponent + 1) << 23),
                at = eight_bit_border((int)range, is_signed);
    const bool inside = range < EIGHT_BIT_ONE && at < end;
    range += inside;
    turn[exponent & 31] = ((before + range) << 23) - (inside ? ac_float_bits(at) : exponent << 23);
  }
  t.turn[0] = _mm512_loadu_si512(turn);
  t.turn[1] = _mm512_loadu_si512(turn + 16);
  t.rise = _mm512_loadu_ps(rise);
  t.least = _mm512_set1_ps(is_signed ? 0x1p-23f : ac_eight_bit_value(2, 256));
  return t;
}

/* Elements that are decoded, stepped and compared with the largest at a time, in registers, and
 * those that are stored at a time. */
enum { EIGHT_BIT_RUN = 16, EIGHT_BIT_STORED = 64 };

/* A block that is read, with its scale in the tables, and what becomes the next scale. */
typedef struct eight_bit_reader {
  const uint8_t *block;
  __m512 base, slope, most;
} eight_bit_reader;

static inline eight_bit_reader eight_bit_begin(const eight_bit_tables *t, const uint8_t *block) {
  float scale;
  memcpy(&scale, block + AC_EIGHT_BIT_BLOCK, sizeof scale);
  const __m512 scales = _mm512_set1_ps(scale);
  return (eight_bit_reader){block, _mm512_mul_ps(_mm512_loadu_ps(t->base), scales),
                            _mm512_mul_ps(_mm512_loadu_ps(t->slope), scales), _mm512_setzero_ps()};
}

/* The run of values from element i on. A position has the sign of its distance from zero's code. */
static inline void eight_bit_load(const eight_bit_reader *r, int i, bool is_signed, float *values) {
  const float large = is_signed ? 0x1p16f : 0x1p23f, zero = is_signed ? 127 * 0x1p-7f : -1;
  const __m512i code = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(r->block + i)));
  const __m512i counted = _mm512_or_si512(code, _mm512_set1_epi32((int32_t)ac_float_bits(large)));
  const __m512 position = _mm512_sub_ps(_mm512_castsi512_ps(counted), _mm512_set1_ps(large + zero));
  const __m512i exponent = _mm512_srli_epi32(_mm512_castps_si512(position), 23);
  __m512 base = _mm512_permutexvar_ps(exponent, r->base);
  if (is_signed) /* base ^ (position & sign) */
    base = _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(base),
                                                         _mm512_castps_si512(position),
                                                         _mm512_set1_epi32(INT32_MIN), 0x78));
  _mm512_storeu_ps(values,
                   _mm512_fmadd_ps(_mm512_permutexvar_ps(exponent, r->slope), position, base));
}

/* A mode of VRANGEPS: the larger magnitude, without its sign. */
enum { LARGER_WITHOUT_SIGN = 0xb };

/* Compares a run that will be stored. */
static inline void eight_bit_compare(eight_bit_reader *r, const float *values) {
  r->most = _mm512_range_ps(r->most, _mm512_loadu_ps(values), LARGER_WITHOUT_SIGN);
}

/* A block that is stored. */
typedef struct eight_bit_writer {
  uint8_t *block;
  float most;     /* of its values, without their signs */
  __m512 inverse; /* of its scale */
} eight_bit_writer;

/* Ends a block of zeros. */
static inline eight_bit_writer eight_bit_end_none(uint8_t *block) {
  return (eight_bit_writer){block, 0, _mm512_setzero_ps()};
}

/* Ends a block after all its runs were read and compared. */
static inline eight_bit_writer eight_bit_end(const eight_bit_reader *r, uint8_t *block) {
  const float most = _mm512_reduce_max_ps(r->most), scale = ac_eight_bit_scale(most);
  memcpy(block + AC_EIGHT_BIT_BLOCK, &scale, sizeof scale);
  return (eight_bit_writer){block, most, _mm512_set1_ps(scale > 0 ? 1 / scale : 0)};
}

/* All values of the block, before any is stored. */
static inline void eight_bit_prepare(const eight_bit_writer *w, float values[AC_EIGHT_BIT_BLOCK]) {
  eight_bit_cut(w->most, values);
}

/* EIGHT_BIT_STORED values from element i on; without signs none is -0. What is computed is their
 * positions, as floats that are cut to whole ones; with signs, how far codes are from zero's the
 * other way round, from -128 to 127: that of minus one is cut to it. Several vectors are computed
 * at once: one alone would wait for each of its results. */
static inline void eight_bit_store(const eight_bit_tables *t, const eight_bit_writer *w, int i,
                                   bool is_signed, const float *values) {
  enum { ABREAST = EIGHT_BIT_STORED / 16 };
#define ABREAST_EACH for (int k = 0; k < ABREAST; k++)
  const __m512 start = _mm512_set1_ps(8 / 9.0f), most = _mm512_set1_ps(2 - 0x1p-23f);
  const __m512i mantissa = _mm512_set1_epi32(0x7fffff), sign = _mm512_set1_epi32(INT32_MIN),
                one = _mm512_set1_epi32(1);
  __m512 x[ABREAST], size[ABREAST], part[ABREAST];
  __m512i turned[ABREAST];
  ABREAST_EACH x[k] = _mm512_mul_ps(_mm512_loadu_ps(values + 16 * k), w->inverse);
  ABREAST_EACH size[k] = _mm512_range_ps(x[k], t->least, LARGER_WITHOUT_SIGN);
  ABREAST_EACH turned[k] = _mm512_srli_epi32(_mm512_castps_si512(size[k]), 23);
  ABREAST_EACH turned[k] = _mm512_permutex2var_epi32(t->turn[0], turned[k], t->turn[1]);
  ABREAST_EACH turned[k] = _mm512_add_epi32(_mm512_castps_si512(size[k]), turned[k]);
  ABREAST_EACH part[k] = _mm512_permutexvar_ps(_mm512_srli_epi32(turned[k], 23), t->rise);
  ABREAST_EACH part[k] = _mm512_min_ps(_mm512_fmadd_ps(size[k], part[k], start), most);
  ABREAST_EACH turned[k] = /* a position: mantissa of part, exponent of turned */
      _mm512_ternarylogic_epi32(turned[k], _mm512_castps_si512(part[k]), mantissa, 0xd8);
  ABREAST_EACH if (is_signed) turned[k] = /* position | (~x & sign) */
      _mm512_ternarylogic_epi32(turned[k], _mm512_castps_si512(x[k]), sign, 0xf2);
  ABREAST_EACH {
    const __m512 position = _mm512_castsi512_ps(turned[k]);
    const __m512i given = _mm512_castps_si512(x[k]);
    turned[k] = is_signed
                    ? _mm512_cvttps_epi32(position)
                    : _mm512_mask_cvttps_epi32(one, _mm512_test_epi32_mask(given, given), position);
  }
  ABREAST_EACH {
    const __m128i codes = is_signed
                              ? _mm_sub_epi8(_mm_set1_epi8(127), _mm512_cvtsepi32_epi8(turned[k]))
                              : _mm_sub_epi8(_mm512_cvtepi32_epi8(turned[k]), _mm_set1_epi8(1));
    _mm_storeu_si128((__m128i *)(w->block + i + 16 * k), codes);
  }
#undef ABREAST_EACH
}

#endif
