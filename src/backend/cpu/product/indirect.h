/* Products with a right operand that is found through offsets. */
#ifndef AC_BACKEND_CPU_PRODUCT_INDIRECT_H
#define AC_BACKEND_CPU_PRODUCT_INDIRECT_H

#include "backend/cpu/product/dot.h"
#include "backend/cpu/product/tile.h"

#define ac_cpu_multiply_tile AC_CPU_NAME(ac_cpu_multiply_tile)
#define ac_cpu_convolve AC_CPU_NAME(ac_cpu_convolve)
#define ac_cpu_multiply_row AC_CPU_NAME(ac_cpu_multiply_row)
#define ac_cpu_dots AC_CPU_NAME(ac_cpu_dots)

/* c[i][j] (+)= sum over k < depth of a[row[i] + k] b[offset[k] + j], for up to AC_CPU_TILE_ROWS
 * rows and one or two vectors of columns; rows of c are ldc apart. */
void ac_cpu_multiply_tile(int rows, int vectors, int64_t depth, const float *a, const int32_t *row,
                          const float *b, const int32_t *offset, float *c, int64_t ldc, bool add);

/* What dot.h says of a convolution's products, with floats in place of pairs. */
ac_dot_convolve ac_cpu_convolve;

/* c[j] (+)= what ac_cpu_multiply_tile adds, for one row and any number of columns; whole vectors
 * are written.
 */
void ac_cpu_multiply_row(int64_t columns, int64_t depth, const float *row, const float *b,
                         const int32_t *offset, float *c, bool add);

/* Floats past the last value that these may read. */
enum { AC_CPU_TILE_WIDE = 8 * AC_CPU_VECTOR };

/* sum[t * step] += sum over j < count of y[j] x[offset[t] + j], for t < terms. */
void ac_cpu_dots(int64_t terms, int64_t count, const float *y, const float *x,
                 const int32_t *offset, float *sum, int64_t step);

#endif
