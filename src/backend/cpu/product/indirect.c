/* Products with a right operand that is not a matrix but floats at given offsets (indirect
 * products, as in Dukhan, arXiv 1907.02129).
 *
 * Columns are neighbours there: a product can run directly over an image, shifted for each tap of a
 * convolution's kernel, and nothing is copied. A tile of C, ROWS by two vectors, lives in
 * registers. Sums run in the order of k and do not depend on the tile. */
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

/* ---- in steps -------------------------------------------------------------------------------- */

/* A tile with vectors of columns that lie `second` apart in the patch. What the next step reads is
 * prefetched, because it may lie anywhere. */
INLINE void convolve_tile(int rows, int vectors, int64_t steps, const float *a,
                          const ac_dot_patch *b, int64_t column, int64_t second, float *sums,
                          int64_t distance, bool add) {
  vector sum[ROWS][2];
  for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = (vector){0};
  for (int64_t step = 0; step < steps; step++) {
    const int64_t next = step + 1 < steps ? step + 1 : step;
    const float *at = (const float *)b->at + b->offset[step] + column;
    const float *next_at = (const float *)b->at + b->offset[next] + column;
    const float *from = a + ac_dot_step_of(b, step) * AC_DOT_STRIP * AC_DOT_PAIRS;
    const float *next_from = a + ac_dot_step_of(b, next) * AC_DOT_STRIP * AC_DOT_PAIRS;
    const int count = ac_dot_pairs_of(b, step, steps);
    for (int k = 0; k < count; k++, at += b->distance, next_at += b->distance) {
      vector x0 = load(at), x1 = vectors > 1 ? load(at + second) : x0;
      __builtin_prefetch(next_at);
      if (vectors > 1 && second >= AC_CPU_LINE) __builtin_prefetch(next_at + second);
      if (k < rows) __builtin_prefetch(next_from + k * AC_DOT_PAIRS);
#pragma GCC unroll 16
      for (int i = 0; i < rows; i++) {
        float scalar = from[i * AC_DOT_PAIRS + k];
        add_scaled(&sum[i][0], x0, scalar);
        if (vectors > 1) add_scaled(&sum[i][1], x1, scalar);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
    for (int v = 0; v < vectors; v++) store_sum(sums + i * distance + v * VECTOR, sum[i][v], add);
}

#define CONVOLVE(rows)                                                                  \
  case rows:                                                                            \
    if (vectors > 1)                                                                    \
      convolve_tile(rows, 2, steps, a, b, at, second, sums + column, distance, add);    \
    else convolve_tile(rows, 1, steps, a, b, at, second, sums + column, distance, add); \
    break;

void ac_cpu_convolve(int64_t steps, int rows, int columns, const uint32_t *strip,
                     const ac_dot_patch *b, float *sums, int64_t distance, bool add) {
  ac_cpu_tiles tiles = ac_cpu_tiles_of(rows, ROWS);
  const float *a = (const float *)strip;
  int whole = columns > AC_DOT_LANES ? AC_DOT_STRIP : AC_DOT_LANES;
  for (int64_t tile = 0; tile < tiles.count; tile++) {
    int height = ac_cpu_tile_height(&tiles, tile);
    for (int column = 0; column < whole; column += COLUMNS) {
      int vectors = column + VECTOR < whole ? 2 : 1;
      int64_t at = ac_dot_column_in(b, column);
      int64_t second = ac_dot_column_in(b, column + VECTOR) - at;
      switch (height) { AC_CPU_TILE_HEIGHTS(CONVOLVE) }
    }
    a += height * AC_DOT_PAIRS;
    sums += height * distance;
  }
}

/* ---- one row --------------------------------------------------------------------------------- */

/* With one row, only the sums of other columns can hide an addition's latency. */
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
