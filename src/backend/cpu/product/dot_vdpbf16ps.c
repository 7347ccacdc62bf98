/* Products of bf16 by VDPBF16PS: eight rows by two vectors of sums in registers. A pair of op(A) is
 * handed to all lanes as it is read. */
#include <immintrin.h>
#include <string.h>

#include "backend/cpu/product/dot.h"

enum { ROWS = 8, VECTOR = 16 };

bool ac_dot_vdpbf16ps_available(void) {
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512bf16");
}

/* On AMD's cores since Zen 4 it starts every cycle, which gives twice the products of floats. On
 * Intel's it starts every second cycle: on Emerald Rapids, from registers, a core reached 88
 * GFLOP/s, and 178 in f32. */
bool ac_dot_vdpbf16ps_pays(void) {
  __builtin_cpu_init();
  return __builtin_cpu_is("amd");
}

static inline __m512bh pairs_at(const uint32_t *b) {
  return (__m512bh)_mm512_load_si512(b);
}

static inline __attribute__((always_inline)) void
multiply_rows(int rows, int64_t steps, const uint32_t *a, const uint32_t *b, float *sums,
              int64_t distance, bool add, ac_dot_fetch *fetch) {
  __m512 sum[ROWS][2];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
    for (int v = 0; v < 2; v++)
      sum[i][v] = add ? _mm512_load_ps(sums + i * distance + v * VECTOR) : _mm512_setzero_ps();
  for (int64_t step = 0; step < steps; step++, a += AC_DOT_STRIP * AC_DOT_PAIRS) {
    for (int p = 0; p < AC_DOT_PAIRS; p++, b += AC_DOT_STRIP) {
      __m512bh b0 = pairs_at(b), b1 = pairs_at(b + VECTOR);
#pragma GCC unroll 8
      for (int i = 0; i < rows; i++) {
        __m512bh pair = (__m512bh)_mm512_set1_epi32((int)a[i * AC_DOT_PAIRS + p]);
        sum[i][0] = _mm512_dpbf16_ps(sum[i][0], b0, pair);
        sum[i][1] = _mm512_dpbf16_ps(sum[i][1], b1, pair);
      }
    }
    ac_dot_fetch_some(fetch);
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
    for (int v = 0; v < 2; v++) _mm512_store_ps(sums + i * distance + v * VECTOR, sum[i][v]);
}

void ac_dot_vdpbf16ps(int64_t steps, int rows, int columns, const uint32_t *a, const uint32_t *b,
                      float *sums, int64_t distance, bool add, ac_dot_fetch *fetch) {
  (void)columns;
  ac_dot_fetch_in(fetch, steps * ((rows + ROWS - 1) / ROWS));
  for (int i = 0; i < rows; i += ROWS, a += ROWS * AC_DOT_PAIRS, sums += ROWS * distance) {
    if (rows - i > ROWS / 2) multiply_rows(ROWS, steps, a, b, sums, distance, add, fetch);
    else if (rows - i > 1) multiply_rows(ROWS / 2, steps, a, b, sums, distance, add, fetch);
    else multiply_rows(1, steps, a, b, sums, distance, add, fetch);
  }
}

/* ---- op(B) in a patch ------------------------------------------------------------------------ */

static inline __m512bh pairs_in_patch(const uint32_t *b) {
  return (__m512bh)_mm512_loadu_si512(b);
}

/* `rows` rows by one or two vectors: at most 16 vectors of sums. What the next step reads is asked
 * for, since it may lie anywhere. */
static inline __attribute__((always_inline)) void convolve_rows(int rows, int vectors,
                                                                int64_t steps, const uint32_t *a,
                                                                const ac_dot_patch *b, float *sums,
                                                                int64_t distance, bool add) {
  __m512 sum[2 * ROWS][2];
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
    for (int v = 0; v < vectors; v++)
      sum[i][v] = add ? _mm512_load_ps(sums + i * distance + v * VECTOR) : _mm512_setzero_ps();
  for (int64_t step = 0; step < steps; step++) {
    const int64_t next = step + 1 < steps ? step + 1 : step;
    const uint32_t *at = b->at + b->offset[step], *next_at = b->at + b->offset[next];
    const uint32_t *from = a + ac_dot_step_of(b, step) * AC_DOT_STRIP * AC_DOT_PAIRS;
    const uint32_t *next_from = a + ac_dot_step_of(b, next) * AC_DOT_STRIP * AC_DOT_PAIRS;
    const int pairs = ac_dot_pairs_of(b, step, steps);
    for (int p = 0; p < pairs; p++) {
      int64_t row = p * b->distance;
      __m512bh b0 = pairs_in_patch(at + row),
               b1 = vectors > 1 ? pairs_in_patch(at + row + b->second) : b0;
      __builtin_prefetch(next_at + row);
      if (vectors > 1) __builtin_prefetch(next_at + row + b->second);
      if (p < rows) __builtin_prefetch(next_from + p * AC_DOT_PAIRS);
#pragma GCC unroll 16
      for (int i = 0; i < rows; i++) {
        __m512bh pair = (__m512bh)_mm512_set1_epi32((int)from[i * AC_DOT_PAIRS + p]);
        sum[i][0] = _mm512_dpbf16_ps(sum[i][0], b0, pair);
        if (vectors > 1) sum[i][1] = _mm512_dpbf16_ps(sum[i][1], b1, pair);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
    for (int v = 0; v < vectors; v++) _mm512_store_ps(sums + i * distance + v * VECTOR, sum[i][v]);
}

static inline __attribute__((always_inline)) void convolve(int most, int vectors, int64_t steps,
                                                           int rows, const uint32_t *a,
                                                           const ac_dot_patch *b, float *sums,
                                                           int64_t distance, bool add) {
  for (int i = 0; i < rows; i += most, a += most * AC_DOT_PAIRS, sums += most * distance) {
    if (rows - i > most / 2) convolve_rows(most, vectors, steps, a, b, sums, distance, add);
    else if (rows - i > 1) convolve_rows(most / 2, vectors, steps, a, b, sums, distance, add);
    else convolve_rows(1, vectors, steps, a, b, sums, distance, add);
  }
}

void ac_dot_vdpbf16ps_convolve(int64_t steps, int rows, int columns, const uint32_t *a,
                               const ac_dot_patch *b, float *sums, int64_t distance, bool add) {
  if (columns > VECTOR) convolve(ROWS, 2, steps, rows, a, b, sums, distance, add);
  else convolve(2 * ROWS, 1, steps, rows, a, b, sums, distance, add);
}

/* ---- op(A) in a patch ------------------------------------------------------------------------ */

static inline __m512bh pair_in_patch(const uint16_t *a) {
  int pair;
  memcpy(&pair, a, sizeof pair);
  return (__m512bh)_mm512_set1_epi32(pair);
}

static inline __attribute__((always_inline)) void
correlate_rows(int rows, int vectors, int64_t steps, const ac_dot_image *a, const int32_t *offset,
               const uint32_t *b, float *sums, int64_t distance, bool add) {
  __m512 sum[ROWS][2];
  const uint16_t *row[ROWS];
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++) {
    row[i] = a->at + offset[i];
    for (int v = 0; v < vectors; v++)
      sum[i][v] = add ? _mm512_load_ps(sums + i * distance + v * VECTOR) : _mm512_setzero_ps();
  }
  const int32_t *place = a->place, *end = place + steps * AC_DOT_PAIRS;
  for (; place < end; place++, b += AC_DOT_STRIP) {
    __m512bh b0 = pairs_at(b), b1 = vectors > 1 ? pairs_at(b + VECTOR) : b0;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
      __m512bh pair = pair_in_patch(row[i] + *place);
      sum[i][0] = _mm512_dpbf16_ps(sum[i][0], b0, pair);
      if (vectors > 1) sum[i][1] = _mm512_dpbf16_ps(sum[i][1], b1, pair);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < rows; i++)
    for (int v = 0; v < vectors; v++) _mm512_store_ps(sums + i * distance + v * VECTOR, sum[i][v]);
}

static inline __attribute__((always_inline)) void correlate(int vectors, int64_t steps, int rows,
                                                            const ac_dot_image *a,
                                                            const uint32_t *b, float *sums,
                                                            int64_t distance, bool add) {
  const int32_t *offset = a->offset;
  for (int i = 0, n; i < rows; i += n, offset += n, sums += n * distance) {
    int rest = rows - i;
#define ROWS_OF(count) \
  correlate_rows(n = (count), vectors, steps, a, offset, b, sums, distance, add)
    if (rest >= ROWS) ROWS_OF(ROWS);
    else if (rest >= ROWS / 2) ROWS_OF(ROWS / 2);
    else if (rest >= 2) ROWS_OF(2);
    else ROWS_OF(1);
#undef ROWS_OF
  }
}

void ac_dot_vdpbf16ps_correlate(int64_t steps, int rows, int columns, const ac_dot_image *a,
                                const uint32_t *b, float *sums, int64_t distance, bool add) {
  if (columns > VECTOR) correlate(2, steps, rows, a, b, sums, distance, add);
  else correlate(1, steps, rows, a, b, sums, distance, add);
}
