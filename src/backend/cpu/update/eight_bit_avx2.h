/* Blocks of 8 bits with AVX2, which eight_bit.h includes: 8 elements a vector. */
#ifndef AC_BACKEND_CPU_EIGHT_BIT_AVX2_H
#define AC_BACKEND_CPU_EIGHT_BIT_AVX2_H

#include "backend/cpu/update/eight_bit_ranges.h"

#include <immintrin.h>

/* Tables of 8 are indexed by the last bits of an exponent, or of a range's number.
 *
 * A code becomes a position by its place in the mantissa of a large number. A position y in a
 * decade has the value base + slope y. Nine kinds of positions share eight places: with signs one
 * line serves zero and the first value, without them zero and one, which is then off by a rounding.
 *
 * The range of a magnitude x is guessed from its bits, which grow as its logarithm does: it is the
 * guess, or the next one from `border` on. The position of x, divided by twice the power of two N
 * that its decade begins with, or by N without signs, is rise x + start and less than `most`:
 * with the range added to its exponent it is the position itself. */
typedef struct eight_bit_tables {
  float base[8], slope[8];
  __m256 border, rise, start, most;
  __m256 least; /* what x is raised to: something of zero's, or the first value */
} eight_bit_tables;

static inline eight_bit_tables eight_bit_tables_of(bool is_signed) {
  eight_bit_tables t;
  const float half = is_signed ? 1 : 2, part = is_signed ? 0.5f : 1;
  const float unit_of_code = is_signed ? 0x1p-7f : 1;
  float border[8] = {0}, rise[8] = {0};
  for (int range = 1; range < EIGHT_BIT_ONE; range++) {
    const float n = (float)(1 << (range - 1)) * half, unit = powf(10, (float)(range - 7));
    t.base[range - 1] = unit * (-0.8f + 0.45f / n);
    t.slope[range - 1] = 0.9f * unit / n / unit_of_code;
    border[range] = eight_bit_border(range, is_signed);
    rise[range] = part / (0.9f * unit);
  }
  if (is_signed) {
    t.slope[0] += t.base[0] / unit_of_code; /* of zero and the first value, position 1 */
    t.base[0] = 0;
    t.base[7] = 1;
    t.slope[7] = 0;
    border[0] = eight_bit_border(0, true);
  } else {
    t.base[7] = -1 / 255.0f; /* of positions 1 and 256 */
    t.slope[7] = 1 / 255.0f;
  }
  rise[0] = 0.112f * part; /* of zero; and of one, range 8: to little above N */
  t.border = _mm256_loadu_ps(border);
  t.rise = _mm256_loadu_ps(rise);
  t.start = _mm256_set1_ps(8 / 9.0f * part);
  t.most = _mm256_set1_ps((2 - 0x1p-23f) * part);
  t.least = _mm256_set1_ps(is_signed ? 0x1p-23f : ac_eight_bit_value(2, 256));
  return t;
}

/* Elements that are decoded, stepped and compared with the largest at a time, in registers, and
 * those that are stored at a time. */
enum { EIGHT_BIT_RUN = 16, EIGHT_BIT_STORED = 32, EIGHT_BIT_VECTOR = 8 };

/* A block that is read, with its scale in the tables, and what becomes the next scale. */
typedef struct eight_bit_reader {
  const uint8_t *block;
  __m256 base, slope, most;
} eight_bit_reader;

static inline eight_bit_reader eight_bit_begin(const eight_bit_tables *t, const uint8_t *block) {
  float scale;
  memcpy(&scale, block + AC_EIGHT_BIT_BLOCK, sizeof scale);
  const __m256 scales = _mm256_set1_ps(scale);
  return (eight_bit_reader){block, _mm256_mul_ps(_mm256_loadu_ps(t->base), scales),
                            _mm256_mul_ps(_mm256_loadu_ps(t->slope), scales), _mm256_setzero_ps()};
}

/* The run of values from element i on. A position has the sign of its distance from zero's code. */
static inline void eight_bit_load(const eight_bit_reader *r, int i, bool is_signed, float *values) {
  const float large = is_signed ? 0x1p16f : 0x1p23f, zero = is_signed ? 127 * 0x1p-7f : -1;
  const __m256i larges = _mm256_set1_epi32((int32_t)ac_float_bits(large));
  const __m256 sign = _mm256_set1_ps(-0.0f);
  for (int k = 0; k < EIGHT_BIT_RUN; k += EIGHT_BIT_VECTOR) {
    const __m256i code = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(r->block + i + k)));
    const __m256 position = _mm256_sub_ps(_mm256_castsi256_ps(_mm256_or_si256(code, larges)),
                                          _mm256_set1_ps(large + zero));
    const __m256i exponent = _mm256_srli_epi32(_mm256_castps_si256(position), 23);
    __m256 base = _mm256_permutevar8x32_ps(r->base, exponent);
    if (is_signed) base = _mm256_xor_ps(base, _mm256_and_ps(position, sign));
    _mm256_storeu_ps(values + k,
                     _mm256_fmadd_ps(_mm256_permutevar8x32_ps(r->slope, exponent), position, base));
  }
}

/* Compares a run that will be stored. */
static inline void eight_bit_compare(eight_bit_reader *r, const float *values) {
  for (int k = 0; k < EIGHT_BIT_RUN; k += EIGHT_BIT_VECTOR)
    r->most = _mm256_max_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_loadu_ps(values + k)),
                            r->most);
}

/* A block that is stored. */
typedef struct eight_bit_writer {
  uint8_t *block;
  float most;     /* of its values, without their signs */
  __m256 inverse; /* of its scale */
} eight_bit_writer;

/* Ends a block of zeros. */
static inline eight_bit_writer eight_bit_end_none(uint8_t *block) {
  return (eight_bit_writer){block, 0, _mm256_setzero_ps()};
}

/* Ends a block after all its runs were read and compared. */
static inline eight_bit_writer eight_bit_end(const eight_bit_reader *r, uint8_t *block) {
  float each[8], most = 0;
  _mm256_storeu_ps(each, r->most);
  for (int k = 0; k < 8; k++) most = each[k] > most ? each[k] : most;
  const float scale = ac_eight_bit_scale(most);
  memcpy(block + AC_EIGHT_BIT_BLOCK, &scale, sizeof scale);
  return (eight_bit_writer){block, most, _mm256_set1_ps(scale > 0 ? 1 / scale : 0)};
}

/* All values of the block, before any is stored. */
static inline void eight_bit_prepare(const eight_bit_writer *w, float values[AC_EIGHT_BIT_BLOCK]) {
  eight_bit_cut(w->most, values);
}

/* The range of magnitudes, or the one before: 0.95 decades each, log10(2) to an octave. Each
 * threshold, 10^(-7.15 + 0.95 range), lies within that range; the first is below what x is raised
 * to, and the last above one. */
static inline __m256i eight_bit_guess(__m256 size) {
  const float octave = 0.30103f / 0.95f;
  return _mm256_cvttps_epi32(_mm256_fmadd_ps(_mm256_cvtepi32_ps(_mm256_castps_si256(size)),
                                             _mm256_set1_ps(octave * 0x1p-23f),
                                             _mm256_set1_ps(7.15f / 0.95f - 127 * octave)));
}

/* EIGHT_BIT_STORED values from element i on; without signs none is -0. What is computed is their
 * positions, as floats that are cut to whole ones; with signs, how far codes are from zero's the
 * other way round, from -128 to 127: that of minus one is cut to it. Several vectors are computed
 * at once: one alone would wait for each of its results. */
static inline void eight_bit_store(const eight_bit_tables *t, const eight_bit_writer *w, int i,
                                   bool is_signed, const float *values) {
  enum { ABREAST = EIGHT_BIT_STORED / EIGHT_BIT_VECTOR };
#define ABREAST_EACH for (int k = 0; k < ABREAST; k++)
  const __m256 sign = _mm256_set1_ps(-0.0f);
  __m256 x[ABREAST], size[ABREAST], part[ABREAST];
  __m256i range[ABREAST];
  ABREAST_EACH x[k] = _mm256_mul_ps(_mm256_loadu_ps(values + 8 * k), w->inverse);
  ABREAST_EACH size[k] = _mm256_max_ps(_mm256_andnot_ps(sign, x[k]), t->least);
  ABREAST_EACH range[k] = eight_bit_guess(size[k]);
  ABREAST_EACH part[k] = _mm256_permutevar8x32_ps(t->border, range[k]);
  ABREAST_EACH part[k] = _mm256_cmp_ps(size[k], part[k], _CMP_GE_OQ);
  ABREAST_EACH range[k] = _mm256_sub_epi32(range[k], _mm256_castps_si256(part[k]));
  ABREAST_EACH part[k] = _mm256_permutevar8x32_ps(t->rise, range[k]);
  ABREAST_EACH part[k] = _mm256_min_ps(_mm256_fmadd_ps(size[k], part[k], t->start), t->most);
  ABREAST_EACH range[k] = /* a position */
      _mm256_add_epi32(_mm256_slli_epi32(range[k], 23), _mm256_castps_si256(part[k]));
  ABREAST_EACH {
    const __m256 position = _mm256_castsi256_ps(range[k]);
    const __m256i none = _mm256_cmpeq_epi32(_mm256_castps_si256(x[k]), _mm256_setzero_si256());
    range[k] = is_signed ? _mm256_cvttps_epi32(_mm256_or_ps(position, _mm256_andnot_ps(x[k], sign)))
                         : _mm256_andnot_si256(none, _mm256_cvttps_epi32(position));
  }
  __m256i low = _mm256_packs_epi32(range[0], range[1]),
          high = _mm256_packs_epi32(range[2], range[3]), codes;
  if (is_signed) codes = _mm256_sub_epi8(_mm256_set1_epi8(127), _mm256_packs_epi16(low, high));
  else
    codes = _mm256_packus_epi16(_mm256_subs_epu16(low, _mm256_set1_epi16(1)),
                                _mm256_subs_epu16(high, _mm256_set1_epi16(1)));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256((__m256i *)(w->block + i), _mm256_permutevar8x32_epi32(codes, order));
#undef ABREAST_EACH
}

#endif
