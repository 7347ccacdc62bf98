/* Blocks of 8 bits (core/eight_bit.h) from and to floats, 16 elements at a time where AVX-512 looks
 * up what differs by decade in registers; a compiler makes twice as many instructions of the plain
 * functions. Codes are the same but for values within rounding of the middle between two. */
#ifndef AC_BACKEND_CPU_EIGHT_BIT_H
#define AC_BACKEND_CPU_EIGHT_BIT_H

#include "core/eight_bit.h"

#if defined(__GNUC__) && defined(__AVX512F__) && defined(__AVX512DQ__) && defined(__AVX512BW__)

#include <immintrin.h>

/* Tables of 16 are indexed by the last bits of the exponent of a position, as a float: of
 * a position y in a decade the value is base + slope y.
 *
 * `turn` is indexed by those of a magnitude x, so by octaves from 2^-23 on; what is not finite
 * comes out as [1, 2) does. Ranges are what becomes zero, seven decades, and what becomes one, and
 * an octave has at most one border, where the next one begins: the sum of x's bits and `turn` has
 * the range in its last bits of the exponent. In a range the code, counted from zero's, is the
 * whole part of rise x + shift, and at most that of 2.25 shift + rest, which lies half below the
 * next range's first. */
typedef struct eight_bit_tables {
  float base[16], slope[16];
  __m512i turn[2];
  __m512 rise, shift, rest;
  __m512 least; /* what x is raised to: something of zero's, or the first value */
} eight_bit_tables;

enum { EIGHT_BIT_RANGES = 9, EIGHT_BIT_ONE = EIGHT_BIT_RANGES - 1 };

/* Where a range ends. */
static inline float eight_bit_border(int range, bool is_signed) {
  const float half = is_signed ? 1 : 2;
  if (range == 0) return 1e-6f * 0.275f; /* half of the first value */
  if (range == EIGHT_BIT_ONE - 1) return 1 - 0.225f / (64 * half);
  return powf(10, (float)(range - 6)) * (0.1f + 0.18f / ((float)(1 << range) * half));
}

static inline eight_bit_tables eight_bit_tables_of(bool is_signed) {
  eight_bit_tables t;
  const float half = is_signed ? 1 : 2;
  const float codes_below = is_signed ? 0 : 1; /* of positions, which begin at 1 without a sign */
  const float rest = -0.5f + 1.25f * codes_below; /* 2.25 shift + rest: half below the next range */
  float rise[16] = {0}, shift[16] = {0};
  uint32_t turn[32];
  memset(t.base, 0, sizeof t.base);
  memset(t.slope, 0, sizeof t.slope);
  for (int range = 1; range < EIGHT_BIT_RANGES; range++) {
    const float n = (float)(1 << (range - 1)) * half, unit = powf(10, (float)(range - 7));
    const bool one = range == EIGHT_BIT_ONE;
    const int index = (127 + range - is_signed) & 15;
    t.base[index] = one ? 1 : unit * (-0.8f + 0.45f / n);
    t.slope[index] = one ? 0 : 0.9f * unit / n;
    rise[range] = one ? 2 * n : n / (0.9f * unit); /* of one: to what is the most */
    shift[range] = one ? (n - codes_below + 0.5f - rest) / 2.25f : n - n / 9 - codes_below;
  }
  uint32_t range = is_signed ? 0 : 1;
  for (uint32_t k = 0; k < 32; k++) {
    const uint32_t exponent = 127 - 23 + k;
    const float end = ac_float_from_bits((exponent + 1) << 23),
                at = eight_bit_border((int)range, is_signed);
    const bool inside = range < EIGHT_BIT_ONE && at < end;
    range += inside;
    turn[exponent & 31] = (range << 23) - (inside ? ac_float_bits(at) : exponent << 23);
  }
  t.turn[0] = _mm512_loadu_si512(turn);
  t.turn[1] = _mm512_loadu_si512(turn + 16);
  t.rise = _mm512_loadu_ps(rise);
  t.shift = _mm512_loadu_ps(shift);
  t.rest = _mm512_set1_ps(rest);
  t.least = _mm512_set1_ps(is_signed ? 0x1p-23f : ac_eight_bit_value(2, 256));
  return t;
}

/* Elements that are decoded, stepped and compared with the largest at a time: in registers. */
enum { EIGHT_BIT_RUN = 16 };

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

/* The run of values from element i on. A position has the sign of its distance from zero's code;
 * zero itself is zero at any scale. */
static inline void eight_bit_load(const eight_bit_reader *r, int i, bool is_signed, float *values) {
  const __m512i code = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(r->block + i)));
  const __m512i distance = is_signed ? _mm512_sub_epi32(code, _mm512_set1_epi32(127)) : code;
  const __m512 position =
      _mm512_cvtepi32_ps(is_signed ? distance : _mm512_add_epi32(distance, _mm512_set1_epi32(1)));
  const __m512i exponent = _mm512_srli_epi32(_mm512_castps_si512(position), 23);
  __m512 base = _mm512_permutexvar_ps(exponent, r->base);
  if (is_signed) /* base ^ (position & sign) */
    base = _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(base),
                                                         _mm512_castps_si512(position),
                                                         _mm512_set1_epi32(INT32_MIN), 0x78));
  _mm512_storeu_ps(values, _mm512_maskz_fmadd_ps(_mm512_test_epi32_mask(distance, distance),
                                                 _mm512_permutexvar_ps(exponent, r->slope),
                                                 position, base));
}

/* Of a run that will be stored. */
static inline void eight_bit_compare(eight_bit_reader *r, const float *values) {
  enum { LARGER_WITHOUT_SIGN = 0xb };
  r->most = _mm512_range_ps(r->most, _mm512_loadu_ps(values), LARGER_WITHOUT_SIGN);
}

/* Of 16 values in [-1, 1], or [0, 1], how far their codes are from zero's, the other way round if
 * there are signs. */
static inline __m512i eight_bit_distances(const eight_bit_tables *t, __m512 x, bool is_signed) {
  enum { LARGER_MAGNITUDE = 0xb };
  const __m512 size = _mm512_range_ps(x, t->least, LARGER_MAGNITUDE);
  const __m512i bits = _mm512_castps_si512(size), exponent = _mm512_srli_epi32(bits, 23);
  const __m512i turn = _mm512_permutex2var_epi32(t->turn[0], exponent, t->turn[1]);
  const __m512i range = _mm512_srli_epi32(_mm512_add_epi32(bits, turn), 23);
  const __m512 shift = _mm512_permutexvar_ps(range, t->shift),
               most = _mm512_fmadd_ps(shift, _mm512_set1_ps(2.25f), t->rest);
  const __m512 part =
      _mm512_min_ps(_mm512_fmadd_ps(size, _mm512_permutexvar_ps(range, t->rise), shift), most);
  if (!is_signed) {
    const __m512i given = _mm512_castps_si512(x);
    return _mm512_maskz_cvttps_epi32(_mm512_test_epi32_mask(given, given), part);
  }
  const __m512i turned = /* part | (~x & sign) */
      _mm512_ternarylogic_epi32(_mm512_castps_si512(part), _mm512_castps_si512(x),
                                _mm512_set1_epi32(INT32_MIN), 0xf2);
  return _mm512_cvttps_epi32(_mm512_castsi512_ps(turned));
}

/* 64 codes. With signs distances go from -128 to 127: that of minus one is cut to it. */
static inline __m512i eight_bit_codes(const eight_bit_tables *t, const float *values,
                                      __m512 inverse, bool is_signed) {
  __m512i d[4];
  for (int k = 0; k < 4; k++)
    d[k] =
        eight_bit_distances(t, _mm512_mul_ps(_mm512_loadu_ps(values + 16 * k), inverse), is_signed);
  const __m512i low = _mm512_packs_epi32(d[0], d[1]), high = _mm512_packs_epi32(d[2], d[3]);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i bytes = is_signed ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
  const __m512i ordered = _mm512_permutexvar_epi32(order, bytes);
  return is_signed ? _mm512_sub_epi8(_mm512_set1_epi8(127), ordered) : ordered;
}

/* A block whose runs have all been compared. */
static inline void eight_bit_store(const eight_bit_tables *t, const eight_bit_reader *r,
                                   uint8_t *block, bool is_signed,
                                   const float values[AC_EIGHT_BIT_BLOCK]) {
  const float scale = ac_eight_bit_scale(_mm512_reduce_max_ps(r->most));
  const __m512 inverse = _mm512_set1_ps(scale > 0 ? 1 / scale : 0);
  for (int i = 0; i < AC_EIGHT_BIT_BLOCK; i += 64)
    _mm512_storeu_si512(block + i, eight_bit_codes(t, values + i, inverse, is_signed));
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

enum { EIGHT_BIT_RUN = AC_EIGHT_BIT_BLOCK };

typedef struct eight_bit_reader {
  const uint8_t *block;
} eight_bit_reader;

static inline eight_bit_reader eight_bit_begin(const eight_bit_tables *t, const uint8_t *block) {
  (void)t;
  return (eight_bit_reader){block};
}

static inline void eight_bit_load(const eight_bit_reader *r, int i, bool is_signed, float *values) {
  (void)i;
  ac_eight_bit_load(r->block, is_signed, values);
}

static inline void eight_bit_compare(eight_bit_reader *r, const float *values) {
  (void)r;
  (void)values;
}

static inline void eight_bit_store(const eight_bit_tables *t, const eight_bit_reader *r,
                                   uint8_t *block, bool is_signed,
                                   const float values[AC_EIGHT_BIT_BLOCK]) {
  (void)t;
  (void)r;
  ac_eight_bit_store(block, is_signed, values);
}

#endif

#endif
