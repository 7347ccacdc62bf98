/* Products; an item keeps their sums in registers.
 *
 * UNROLL_SUMS and UNROLL_SUMS_2 are before loops over these, also on a CPU: PoCL then keeps sums in
 * registers while it multiplies. */
#ifndef AC_CL_PRODUCTS_H
#define AC_CL_PRODUCTS_H

#include "common.h"

#define UNROLL_SUMS _Pragma("unroll")
#define UNROLL_SUMS_2 _Pragma("unroll 2")

/* Tiles of products C = A B. Work-group TX x TY has the sums of a tile of TILE_M x TILE_N elements,
 * ROWS x COLUMNS vectors a work-item in registers, and walks the inner dimension in steps of DEPTH
 * through local memory. An item's rows are neighbours, which it reads as vectors; its own vectors
 * of columns lie TX apart, so that neighbours read neighbouring words of local memory and write
 * neighbouring elements of C. */
#ifdef VECTOR
#define JOIN_NAMES(a, b) a##b
#define JOIN(a, b) JOIN_NAMES(a, b)
typedef JOIN(float, VECTOR) vector;

#define TILE_M (TY * ROWS)
#define TILE_N (TX * COLUMNS * VECTOR)
/* Of rows of the tiles of A and B, in floats: a vector more than their length, so that they begin
 * in different banks. */
#define STRIDE_A (TILE_M + 4)
#define STRIDE_B (TILE_N + VECTOR)
#define TILE_A local float tile_a[DEPTH][STRIDE_A] ALIGNED
#define TILE_B local vector tile_b[DEPTH * STRIDE_B / VECTOR]

INLINED void clear_sums(vector sum[ROWS][COLUMNS]) {
  UNROLL_SUMS
  for (int i = 0; i < ROWS; i++) {
    UNROLL_SUMS
    for (int j = 0; j < COLUMNS; j++) sum[i][j] = 0;
  }
}

/* Adds what one step contributes. */
INLINED void multiply_tiles(vector sum[ROWS][COLUMNS], local float (*tile_a)[STRIDE_A],
                            const local vector *tile_b) {
  const int tx = get_local_id(0), ty = get_local_id(1);
  UNROLL_SUMS_2
  for (int p = 0; p < DEPTH; p++) {
    vector y[COLUMNS];
    UNROLL_SUMS
    for (int j = 0; j < COLUMNS; j++) y[j] = tile_b[p * (STRIDE_B / VECTOR) + tx + TX * j];
    UNROLL_SUMS
    for (int i = 0; i < ROWS; i++) {
      const float x = tile_a[p][ty * ROWS + i];
      UNROLL_SUMS
      for (int j = 0; j < COLUMNS; j++) sum[i][j] = fma((vector)x, y[j], sum[i][j]);
    }
  }
}
#endif

/* Sums that are final, under another name. Loops that are not written out go over these: sums that
 * a loop indexes by its variable would lie in memory from the beginning, and written out, with all
 * that they store, such loops take PoCL minutes to compile. */
#ifdef CPU
#define RESULTS(type, columns, results, sum)                           \
  type results[ROWS][columns];                                         \
  UNROLL_SUMS                                                          \
  for (int i = 0; i < ROWS; i++) {                                     \
    UNROLL_SUMS                                                        \
    for (int j = 0; j < (columns); j++) (results)[i][j] = (sum)[i][j]; \
  }
#else
#define RESULTS(type, columns, results, sum) type(*results)[columns] = sum;
#endif

#endif
