/* Products whose right operand is not a matrix but floats at given offsets (indirect ones, as in
 * Dukhan, arXiv 1907.02129).
 *
 * Columns are neighbours there: a product can run over an image as it lies, shifted for each tap of
 * a convolution's kernel, with nothing copied in between. A tile of C, ROWS by two vectors, lives
 * in registers. Sums run in the order of k and do not depend on the tile. */
#include "backend/cpu/product/indirect.h"

#include "backend/cpu/product/registers.h"

enum { WIDE = AC_CPU_TILE_WIDE };

INLINE void store_sum(float *c, vector v, bool add) {
  if (add) add_scaled(&v, load(c), 1.0f);
  store(c, v);
}

/* `rows` and `vectors` are constants where this is inlined; C is then held in registers. */
INLINE void multiply(int rows, int vectors, int64_t depth, const float *a, const int32_t *row,
                     const float *b, const int32_t *offset, float *c, int64_t ldc, bool add) {
  vector sum[ROWS][2];
  multiply_tile(true, rows, vectors, depth, a, row, 0, 1, b, offset, sum);
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++) {
    store_sum(c + i * ldc, sum[i][0], add);
    if (vectors > 1) store_sum(c + i * ldc + VECTOR, sum[i][1], add);
  }
}

#define TILE(rows)                                                             \
  case rows:                                                                   \
    if (vectors > 1) multiply(rows, 2, depth, a, row, b, offset, c, ldc, add); \
    else multiply(rows, 1, depth, a, row, b, offset, c, ldc, add);             \
    break;

void ac_cpu_multiply_tile(int rows, int vectors, int64_t depth, const float *a, const int32_t *row,
                          const float *b, const int32_t *offset, float *c, int64_t ldc, bool add) {
  switch (rows) { AC_CPU_TILE_HEIGHTS(TILE) }
}

/* One row leaves no sums to hide an addition's latency behind but those of further columns. */
INLINE void multiply_row(int vectors, int64_t depth, const float *row, const float *b,
                         const int32_t *offset, float *c, bool add) {
  vector sum[8];
  for (int v = 0; v < vectors; v++) sum[v] = (vector){0};
  for (int64_t k = 0; k < depth; k++) {
    const float *at = b + offset[k];
    float scalar = row[k];
#pragma GCC unroll 8
    for (int v = 0; v < vectors; v++) add_scaled(&sum[v], load(at + v * VECTOR), scalar);
  }
#pragma GCC unroll 8
  for (int v = 0; v < vectors; v++) store_sum(c + v * VECTOR, sum[v], add);
}

void ac_cpu_multiply_row(int64_t columns, int64_t depth, const float *row, const float *b,
                         const int32_t *offset, float *c, bool add) {
  int64_t j = 0;
  for (; j + WIDE - VECTOR < columns; j += WIDE)
    multiply_row(8, depth, row, b + j, offset, c + j, add);
  for (; j + COLUMNS - VECTOR < columns; j += COLUMNS)
    multiply_row(2, depth, row, b + j, offset, c + j, add);
  for (; j < columns; j += VECTOR) multiply_row(1, depth, row, b + j, offset, c + j, add);
}

INLINE float total(vector v) {
  float lanes[VECTOR];
  store(lanes, v);
  for (int half = VECTOR / 2; half > 0; half /= 2)
    for (int l = 0; l < half; l++) lanes[l] += lanes[l + half];
  return lanes[0];
}

/* The taps of a 3 x 3 kernel at once. */
enum { DOTS = 9 };

INLINE void dot(int terms, int64_t count, const float *y, const float *x, const int32_t *offset,
                float *sum, int64_t step) {
  vector lanes[DOTS];
  for (int t = 0; t < terms; t++) lanes[t] = (vector){0};
  int64_t j = 0;
  for (; j + VECTOR <= count; j += VECTOR) {
    vector v = load(y + j);
#pragma GCC unroll 9
    for (int t = 0; t < terms; t++) add_product(&lanes[t], v, load(x + offset[t] + j));
  }
  for (int t = 0; t < terms; t++) {
    float rest = 0;
    for (int64_t i = j; i < count; i++) rest += y[i] * x[offset[t] + i];
    sum[t * step] += total(lanes[t]) + rest;
  }
}

void ac_cpu_dots(int64_t terms, int64_t count, const float *y, const float *x,
                 const int32_t *offset, float *sum, int64_t step) {
  int64_t t = 0;
  for (; t + DOTS <= terms; t += DOTS) dot(DOTS, count, y, x, offset + t, sum + t * step, step);
  for (; t + 3 <= terms; t += 3) dot(3, count, y, x, offset + t, sum + t * step, step);
  for (; t < terms; t++) dot(1, count, y, x, offset + t, sum + t * step, step);
}
