/* Tiles of products: so many rows by two vectors of sums, which stay in registers. The two vectors
 * that are multiplied, and their factor, need a few more registers. */
#ifndef AC_BACKEND_CPU_PRODUCT_TILE_H
#define AC_BACKEND_CPU_PRODUCT_TILE_H

#include "backend/cpu/shared/kernels.h"

#if defined(__AVX512F__) || (defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS == 512)
#define AC_CPU_VECTOR 16 /* floats */
#define AC_CPU_TILE_ROWS 12
#elif defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS == 256
#define AC_CPU_VECTOR 8
#define AC_CPU_TILE_ROWS 12
#elif defined(__AVX2__) && defined(__FMA__)
#define AC_CPU_VECTOR 8
#define AC_CPU_TILE_ROWS 6
#elif defined(__aarch64__)
#define AC_CPU_VECTOR 4
#define AC_CPU_TILE_ROWS 8
#else
#define AC_CPU_VECTOR 4
#define AC_CPU_TILE_ROWS 6
#endif

enum { AC_CPU_TILE_COLUMNS = 2 * AC_CPU_VECTOR };

/* Calls X for every number of rows that a tile can have. */
#if AC_CPU_TILE_ROWS > 8
#define AC_CPU_TILE_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#elif AC_CPU_TILE_ROWS > 6
#define AC_CPU_TILE_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#else
#define AC_CPU_TILE_HEIGHTS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#endif

/* Rows in tiles of equal height as far as possible: a low last tile would leave the multipliers
 * waiting. */
typedef struct ac_cpu_tiles {
  int64_t count, low, higher; /* the first `higher` have one row more than `low` */
} ac_cpu_tiles;

static inline ac_cpu_tiles ac_cpu_tiles_of(int64_t rows, int64_t most) {
  int64_t count = ac_ceil_div(rows, most);
  return (ac_cpu_tiles){count, count ? rows / count : 0, count ? rows % count : 0};
}

static inline int ac_cpu_tile_height(const ac_cpu_tiles *tiles, int64_t index) {
  return (int)(tiles->low + (index < tiles->higher));
}

#endif
