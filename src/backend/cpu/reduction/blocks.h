/* Blocks of elements that are reduced in the first cache, and how what came out of them is joined.
 *
 * A state is what the elements of one result make so far. Blocks are reduced in floats, at most
 * AC_CPU_BLOCK elements for each result, and joined in doubles in the order of the elements, so
 * that rounding does not grow with their number. */
#ifndef AC_BACKEND_CPU_BLOCKS_H
#define AC_BACKEND_CPU_BLOCKS_H

#include "backend/cpu/shared/reduce.h"
#include "ops/reduction/reduce.h"

enum { STRIP = 512, ROWS = 16, BLOCK = STRIP * ROWS };

typedef struct state {
  double a; /* sum */
} state;

/* Of neighbouring results. */
typedef struct strip {
  double a[STRIP];
} strip;

static inline void state_begin(state *s) {
  s->a = 0;
}

static inline void strip_begin(strip *s, int64_t width) {
  for (int64_t j = 0; j < width; j++) s->a[j] = 0;
}

static inline void state_join(state *s, state other) {
  s->a += other.a;
}

static inline void strip_join(strip *s, const strip *other, int64_t width) {
#pragma omp simd
  for (int64_t j = 0; j < width; j++) s->a[j] += other->a[j];
}

/* Neighbouring elements of one result. */
static inline void state_add(state *s, const float *x, int64_t count) {
  s->a += (double)row_sum(x, count);
}

/* sum[j] = the sum of rows of elements of neighbouring results, eight rows at a time. */
static inline void sum_rows(const float *const *row, int64_t rows, int64_t width, float *sum) {
  int64_t i = 0;
#pragma omp simd
  for (int64_t j = 0; j < width; j++) sum[j] = 0;
  for (; i + 8 <= rows; i += 8) {
    const float *const *r = row + i;
    const float *r0 = r[0], *r1 = r[1], *r2 = r[2], *r3 = r[3];
    const float *r4 = r[4], *r5 = r[5], *r6 = r[6], *r7 = r[7];
#pragma omp simd
    for (int64_t j = 0; j < width; j++)
      sum[j] += ((r0[j] + r1[j]) + (r2[j] + r3[j])) + ((r4[j] + r5[j]) + (r6[j] + r7[j]));
  }
  for (; i < rows; i++) {
    const float *r0 = row[i];
#pragma omp simd
    for (int64_t j = 0; j < width; j++) sum[j] += r0[j];
  }
}

static inline void strip_add(strip *s, const float *const *row, int64_t rows, int64_t width) {
  float sum[STRIP];
  sum_rows(row, rows, width, sum);
#pragma omp simd
  for (int64_t j = 0; j < width; j++) s->a[j] += (double)sum[j];
}

static inline float state_result(const state *s, const ac_reduce_attributes *a) {
  return (float)(s->a / (double)a->divisor);
}

#endif
