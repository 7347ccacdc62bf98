/* Turns squares of an image's or of weights' elements round, so that samples or channels are
 * neighbours (conv2d_lanes.c): pairs of bf16, and floats; and turns sums back. */
#ifndef AC_BACKEND_CPU_CONV_SQUARE_H
#define AC_BACKEND_CPU_CONV_SQUARE_H

#include "backend/cpu/product/pairs.h"

enum { LANES = AC_DOT_LANES };

/* Up to 16 rows of up to 16 columns of elements; rows lie `distance` apart. Of bf16
 * `seconds` of the rows have second ones, and the others 0 in their place. */
typedef struct square {
  const void *first;
  int64_t second; /* elements from the first */
  int64_t distance;
  int64_t rows, seconds, columns;
  int64_t step; /* of columns */
} square;

/* to[k * distance + i] = the pair in row i and column k, or 0, for all 16 rows. */
static void gather_pairs(const square *s, uint32_t *to, int64_t distance) {
  const uint16_t *first = s->first;
  for (int64_t k = 0; k < s->columns; k++, to += distance)
    for (int64_t i = 0; i < PAIRS; i++) {
      const uint16_t *from = first + (i < s->rows ? i * s->distance + k * s->step : 0);
      uint32_t pair = i < s->rows ? from[0] : 0;
      if (i < s->seconds) pair |= (uint32_t)from[s->second] << 16;
      to[i] = pair;
    }
}

/* The same of floats. */
static void gather_floats(const square *s, float *to, int64_t distance) {
  const float *first = s->first;
  if (s->step == 1) transpose_rows(first, s->distance, s->rows, s->columns, to, distance);
  else
    for (int64_t i = 0; i < s->rows; i++)
      for (int64_t k = 0; k < s->columns; k++)
        to[k * distance + i] = first[i * s->distance + k * s->step];
  for (int64_t k = 0; k < s->columns; k++)
    for (int64_t i = s->rows; i < LANES; i++) to[k * distance + i] = 0;
}

#if defined(AC_CPU_HAVE_SHUFFLES) && defined(__AVX512F__) && defined(__AVX512BW__) && \
    defined(__AVX512VL__)
#include <immintrin.h>
#define INLINE static inline __attribute__((always_inline))

/* Elements of so many columns, one or two apart, in the lower halves of lanes. */
INLINE words halves_at(const uint16_t *x, int64_t columns, int64_t step) {
  if (step == 1) {
    const __mmask16 m = (__mmask16)((1u << columns) - 1);
    return (words)_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, x));
  }
  const __mmask32 m = (__mmask32)((UINT64_C(1) << (2 * columns - 1)) - 1) & 0x55555555u;
  return (words)_mm512_maskz_loadu_epi16(m, x);
}

/* The pairs of row i. */
INLINE words pairs_of(const square *s, int i, int64_t columns, int64_t step) {
  const uint16_t *row = (const uint16_t *)s->first + i * s->distance;
  words v = halves_at(row, columns, step);
  if (i < s->seconds) v |= halves_at(row + s->second, columns, step) << 16;
  return v;
}

/* Two apart there are 8 columns at most. */
INLINE words floats_of(const square *s, int i, int64_t columns, int64_t step) {
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 0, 0, 0, 0, 0, 0, 0, 0);
  const __mmask16 m = (__mmask16)((1u << (step * (columns - 1) + 1)) - 1);
  __m512 v = _mm512_maskz_loadu_ps(m, (const float *)s->first + i * s->distance);
  return (words)(step == 1 ? v : _mm512_permutexvar_ps(even, v));
}

/* `pairs` and `step`, and most often `columns`, are constants where this is inlined. */
INLINE void turn_columns(bool pairs, const square *s, int64_t columns, int64_t step, void *to,
                         int64_t distance) {
  words v[LANES];
#pragma GCC unroll 16
  for (int i = 0; i < LANES; i++) {
    v[i] = (words){0};
    if (i < s->rows) v[i] = pairs ? pairs_of(s, i, columns, step) : floats_of(s, i, columns, step);
  }
  turn(v);
#pragma GCC unroll 16
  for (int k = 0; k < LANES; k++)
    if (k < columns) memcpy((uint32_t *)to + k * distance, &v[k], sizeof v[k]);
}

INLINE void turn_square(bool pairs, const square *s, void *to, int64_t distance) {
  if (s->step == 2) turn_columns(pairs, s, s->columns, 2, to, distance);
  else if (s->columns == 16) turn_columns(pairs, s, 16, 1, to, distance);
  else if (s->columns == 9) turn_columns(pairs, s, 9, 1, to, distance); /* taps of 3 x 3 */
  else turn_columns(pairs, s, s->columns, 1, to, distance);
}

static void turn_pairs(const square *s, uint32_t *to, int64_t distance) {
  if (s->step > 2) gather_pairs(s, to, distance);
  else turn_square(true, s, to, distance);
}

static void turn_floats(const square *s, float *to, int64_t distance) {
  if (s->step > 2 || (s->step == 2 && s->columns > LANES / 2)) gather_floats(s, to, distance);
  else turn_square(false, s, to, distance);
}

/* to[s * distance + k] = sums[slot[k] * LANES + s] for 16 of either. */
static void turn_sums(const float *sums, const int32_t *slot, float *to, int64_t distance) {
  words v[LANES];
#pragma GCC unroll 16
  for (int k = 0; k < LANES; k++) memcpy(&v[k], sums + slot[k] * LANES, sizeof v[k]);
  turn(v);
#pragma GCC unroll 16
  for (int s = 0; s < LANES; s++) memcpy(to + s * distance, &v[s], sizeof v[s]);
}

#else

static void turn_pairs(const square *s, uint32_t *to, int64_t distance) {
  gather_pairs(s, to, distance);
}

static void turn_floats(const square *s, float *to, int64_t distance) {
  gather_floats(s, to, distance);
}

static void turn_sums(const float *sums, const int32_t *slot, float *to, int64_t distance) {
  for (int64_t s = 0; s < LANES; s++)
    for (int64_t k = 0; k < LANES; k++) to[s * distance + k] = sums[slot[k] * LANES + s];
}

#endif

#endif
