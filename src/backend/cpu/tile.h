/* Tiles of products: so many rows by two vectors of sums, which registers hold all along. The two
 * vectors and the factor they are multiplied with need some registers besides. */
#ifndef AC_BACKEND_CPU_TILE_H
#define AC_BACKEND_CPU_TILE_H

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

#endif
