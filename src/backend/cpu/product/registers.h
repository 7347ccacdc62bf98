/* What products are made of in registers: vectors of floats, and tiles of sums. */
#ifndef AC_BACKEND_CPU_PRODUCT_REGISTERS_H
#define AC_BACKEND_CPU_PRODUCT_REGISTERS_H

#include "backend/cpu/product/tile.h"

#include <string.h>

enum { VECTOR = AC_CPU_VECTOR, ROWS = AC_CPU_TILE_ROWS, COLUMNS = AC_CPU_TILE_COLUMNS };

#ifdef __GNUC__

typedef float vector __attribute__((vector_size(4 * VECTOR)));
#define INLINE static inline __attribute__((always_inline))

INLINE void add_scaled(vector *sum, vector x, float factor) {
  *sum += x * factor;
}

INLINE void add_product(vector *sum, vector x, vector y) {
  *sum += x * y;
}

#else

/* For compilers without vectors: loops that they may turn into some. */
typedef struct vector {
  float v[VECTOR];
} vector;
#define INLINE static inline

INLINE void add_scaled(vector *sum, vector x, float factor) {
  for (int l = 0; l < VECTOR; l++) sum->v[l] += x.v[l] * factor;
}

INLINE void add_product(vector *sum, vector x, vector y) {
  for (int l = 0; l < VECTOR; l++) sum->v[l] += x.v[l] * y.v[l];
}

#endif

INLINE vector load(const float *x) {
  vector v;
  memcpy(&v, x, sizeof v);
  return v;
}

INLINE void store(float *x, vector v) {
  memcpy(x, &v, sizeof v);
}

INLINE vector plus(vector a, vector b) {
  add_scaled(&a, b, 1.0f);
  return a;
}

INLINE vector minus(vector a, vector b) {
  add_scaled(&a, b, -1.0f);
  return a;
}

INLINE vector scaled(vector a, float factor) {
  vector b = {0};
  add_scaled(&b, a, factor);
  return b;
}

/* Sums of `rows` rows by one or two vectors:
 *
 *   sum[i][v] = sum over k < depth of A[i][k] times vector v of B[k]
 *
 * A and B are matrices: A[i][k] is at a + i step_row + k step_k, and B is a panel with rows that
 * are COLUMNS apart. Or they are `indirect`, A[i][k] at a + row[i] + k and B[k] at b + offset[k].
 * All but the depth and the addresses are constants where this is inlined. The inner loop is
 * multiply-adds and nothing else of weight. Sums run in the order of k and do not depend on the
 * tile.
 *
 * A column of a transposed A lies in short pieces that the hardware does not predict, so it is
 * prefetched. */
INLINE void multiply_tile(bool indirect, int rows, int vectors, int64_t depth, const float *a,
                          const int32_t *row, int64_t step_row, int64_t step_k, const float *b,
                          const int32_t *offset, vector sum[ROWS][2]) {
  const float *from[ROWS];
  for (int i = 0; i < rows; i++) {
    sum[i][0] = sum[i][1] = (vector){0};
    from[i] = a + (indirect ? row[i] : i * step_row);
  }
  for (int64_t k = 0; k < depth; k++) {
    const float *at = b + (indirect ? offset[k] : k * COLUMNS);
    vector x0 = load(at), x1 = vectors > 1 ? load(at + VECTOR) : x0;
    if (step_row == 1) __builtin_prefetch(from[0] + k * step_k + rows + AC_CPU_LINE - 1);
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
      float scalar = from[i][k * step_k];
      add_scaled(&sum[i][0], x0, scalar);
      if (vectors > 1) add_scaled(&sum[i][1], x1, scalar);
    }
  }
}

#endif
