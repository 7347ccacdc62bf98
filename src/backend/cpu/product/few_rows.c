/* If op(B) lies along k, each element of C is a product of two rows:
 *
 *   for each COLUMNS of C
 *     for each DEPTH of k
 *       rows of A to floats
 *       for each of the columns: a row of B to floats; sums[i] += its product with row i of A
 *     C = sums (+ bias or C), rounded once
 *
 * If it lies across k, rows of B are added up:
 *
 *   for each COLUMNS of C
 *     for each k: a row of B to floats; sums[i] += A[i][k] times it
 *
 * Rows that are converted stay in the first-level cache. */
#include "backend/cpu/product/few_rows.h"

#include "backend/cpu/product/registers.h"
#include "backend/cpu/shared/convert.h"
#include "backend/cpu/shared/decode.h"
#include "core/half.h"

#include <string.h>

enum { MOST = AC_CPU_FEW_ROWS, DEPTH = 1024, WIDTH = 256 };

/* As a copy in bf16 would have them. */
static const float *rounded(const float *x, int64_t count, float *buffer) {
#pragma omp simd
  for (int64_t i = 0; i < count; i++) buffer[i] = ac_bf16_to_float(ac_bf16_from_float(x[i]));
  return buffer;
}

/* Elements [column, column + count) of a row of B as stored: there, or in the buffer. */
static inline const float *row_of(const ac_gemm *g, int64_t row, int64_t column, int64_t count,
                                  float *buffer) {
  const int64_t first = row * g->ldb + column;
  if (g->b_blocks) {
    ac_cpu_decode_from(g->b_blocks, g->b, g->b_first + first, count, buffer);
    return buffer;
  }
  if (g->round_b) return rounded((const float *)g->b + first, count, buffer);
  if (g->b_dtype == AC_F32) return (const float *)g->b + first;
  ac_cpu_widen(g->b_dtype, ac_element(g->b, g->b_dtype, first), buffer, count);
  return buffer;
}

/* sums[i] += a[i] b, with `rows` constant where this is inlined. */
INLINE void add_products(int rows, const float *a, const float *b, int64_t count, float *sums,
                         int64_t apart) {
  for (int first = 0; first < rows; first += 4) {
    const int some = rows - first < 4 ? rows - first : 4;
    vector sum[4][2];
    for (int i = 0; i < some; i++) sum[i][0] = sum[i][1] = (vector){0};
    int64_t k = 0;
    for (; k + 2 * VECTOR <= count; k += 2 * VECTOR) {
      const vector x = load(b + k), y = load(b + k + VECTOR);
#pragma GCC unroll 4
      for (int i = 0; i < some; i++) {
        const float *row = a + (first + i) * DEPTH + k;
        add_product(&sum[i][0], load(row), x);
        add_product(&sum[i][1], load(row + VECTOR), y);
      }
    }
    for (int i = 0; i < some; i++) {
      float lanes[VECTOR], all = 0;
      store(lanes, plus(sum[i][0], sum[i][1]));
      for (int l = 0; l < VECTOR; l++) all += lanes[l];
      for (int64_t rest = k; rest < count; rest++) all += a[(first + i) * DEPTH + rest] * b[rest];
      sums[(first + i) * apart] += all;
    }
  }
}

/* sums[i] += factors[i] b */
INLINE void add_rows(int rows, const float *factors, const float *b, int64_t count, float *sums) {
  for (int i = 0; i < rows; i++) {
    const float factor = factors[i * DEPTH];
    float *to = sums + i * WIDTH;
#pragma omp simd
    for (int64_t j = 0; j < count; j++) to[j] += factor * b[j];
  }
}

/* Rows of A at [k, k + depth). */
static void load_rows(const ac_gemm *g, int64_t k, int64_t depth, float *a) {
  ac_cpu_widen_rows(g->a_dtype, ac_element(g->a, g->a_dtype, k), g->lda, a, DEPTH, g->m, depth);
}

INLINE void add_depth(int rows, const ac_gemm *g, int64_t column, int64_t columns, int64_t k,
                      int64_t depth, const float *a, float *buffer, float *sums) {
  if (g->transpose_b)
    for (int64_t j = 0; j < columns; j++)
      add_products(rows, a, row_of(g, column + j, k, depth, buffer), depth, sums + j, WIDTH);
  else
    for (int64_t d = 0; d < depth; d++)
      add_rows(rows, a + d, row_of(g, k + d, column, columns, buffer), columns, sums);
}

static void add_all(const ac_gemm *g, int64_t column, int64_t columns, int64_t k, int64_t depth,
                    const float *a, float *buffer, float *sums) {
  switch (g->m) {
  case 1:
    add_depth(1, g, column, columns, k, depth, a, buffer, sums);
    break;
  case 2:
    add_depth(2, g, column, columns, k, depth, a, buffer, sums);
    break;
  case 4:
    add_depth(4, g, column, columns, k, depth, a, buffer, sums);
    break;
  default:
    add_depth((int)g->m, g, column, columns, k, depth, a, buffer, sums);
    break;
  }
}

/* C's columns from their sums. */
static void finish(const ac_gemm *g, int64_t column, int64_t columns, const float *bias,
                   float *sums) {
  float old[WIDTH];
  for (int64_t i = 0; i < g->m; i++) {
    float *row = sums + i * WIDTH;
    void *c = ac_element(g->c, g->c_dtype, i * g->ldc + column);
    if (g->beta != 0) {
      ac_cpu_widen(g->c_dtype, c, old, columns);
      for (int64_t j = 0; j < columns; j++) row[j] += g->beta * old[j];
    } else if (bias) {
      for (int64_t j = 0; j < columns; j++) row[j] += bias[column + j];
    }
    ac_cpu_narrow(g->c_dtype, g->mark, row, c, columns);
  }
}

void ac_cpu_few_rows(const ac_gemm *g, const float *bias) {
  _Alignas(64) float a[MOST * DEPTH], sums[MOST * WIDTH], buffer[DEPTH];
  for (int64_t column = 0; column < g->n; column += WIDTH) {
    const int64_t columns = ac_smaller(WIDTH, g->n - column);
    memset(sums, 0, sizeof sums);
    for (int64_t k = 0; k < g->k; k += DEPTH) {
      const int64_t depth = ac_smaller(DEPTH, g->k - k);
      load_rows(g, k, depth, a);
      add_all(g, column, columns, k, depth, a, buffer, sums);
    }
    finish(g, column, columns, bias, sums);
  }
}
