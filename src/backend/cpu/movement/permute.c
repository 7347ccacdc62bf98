/* Axes in another order. Where the last axis of y is also the last of x, runs of elements are
 * copied. Otherwise the last axis of x, A, is another one of y, and that of y, B, lies across in x:
 * each pair of indices of the other axes is a matrix to be transposed. An item of work is such a
 * pair, 16 indices of A, a cache line of x, and up to 1,024 of B; squares of 16 x 16 go through
 * memory that stays in the nearest cache, so that both sides are touched in lines. */
#include "ops/movement/permute.h"

#include "backend/cpu/shared/kernels.h"

#include <string.h>

enum { TILE = 16, LENGTH = 1024 };

/* Where item number `index` of the axes but two (-1: but one) begins in x and in y. */
static void find(const ac_permuted_axes *axes, const int64_t *stride, int but, int64_t index,
                 int64_t *x, int64_t *y) {
  *x = *y = 0;
  for (int d = axes->rank - 2; d >= 0; d--) {
    if (d == but) continue;
    const int64_t at = index % axes->dim[d];
    index /= axes->dim[d];
    *x += at * axes->stride[d];
    *y += at * stride[d];
  }
}

/* Strides in y. */
static void strides_of(const ac_permuted_axes *axes, int64_t stride[AC_MAX_RANK]) {
  int64_t next = 1;
  for (int d = axes->rank - 1; d >= 0; d--) {
    stride[d] = next;
    next *= axes->dim[d];
  }
}

/* The axis of y that is the last of x. */
static int innermost(const ac_permuted_axes *axes) {
  for (int d = 0; d < axes->rank; d++)
    if (axes->stride[d] == 1) return d;
  return axes->rank - 1;
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* A few elements: a call of memcpy would take longer than they do. */
#define FEW(type)                                                            \
  if (run <= 16) {                                                           \
    for (int64_t i = 0; i < run; i++) ((type *)y)[i] = ((const type *)x)[i]; \
    return;                                                                  \
  }
static void copy_run(const char *x, char *y, int64_t run, size_t size) {
  if (size == 4) {
    FEW(uint32_t)
  } else {
    FEW(uint16_t)
  }
  memcpy(y, x, (size_t)run * size);
}

/* Of the runs of an axis that is the last but one of y. */
static void range_of_runs(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_permuted_axes axes = ac_permuted_axes_of(args);
  int64_t stride[AC_MAX_RANK];
  strides_of(&axes, stride);
  const size_t size = ac_element_bytes(args->in[0].dtype);
  const char *x = args->in[0].data;
  char *y = args->out[0].data;
  const int64_t run = axes.dim[axes.rank - 1], rows = axes.rank > 1 ? axes.dim[axes.rank - 2] : 1,
                step = axes.rank > 1 ? axes.stride[axes.rank - 2] : 0;
  for (int64_t item = first; item < last;) {
    int64_t from, to, row = item % rows;
    find(&axes, stride, axes.rank - 2, item / rows, &from, &to);
    for (; row < rows && item < last; row++, item++)
      copy_run(x + (size_t)(from + row * step) * size, y + (size_t)(to + row * run) * size, run,
               size);
  }
}

/* ---- squares --------------------------------------------------------------------------------- */

#define SQUARES(name, type)                                                                 \
  static void name(const type *x, int64_t across, type *y, int64_t distance, int64_t width, \
                   int64_t count) {                                                         \
    type tile[TILE][TILE];                                                                  \
    int64_t b = 0;                                                                          \
    for (; width == TILE && b + TILE <= count; b += TILE) {                                 \
      for (int i = 0; i < TILE; i++) {                                                      \
        type row[TILE];                                                                     \
        memcpy(row, x + (b + i) * across, sizeof row);                                      \
        for (int k = 0; k < TILE; k++) tile[k][i] = row[k];                                 \
      }                                                                                     \
      for (int k = 0; k < TILE; k++) memcpy(y + k * distance + b, tile[k], sizeof tile[k]); \
    }                                                                                       \
    for (; b < count; b++)                                                                  \
      for (int64_t k = 0; k < width; k++) y[k * distance + b] = x[b * across + k];          \
  }

SQUARES(squares_of_words, uint32_t)
SQUARES(squares_of_halves, uint16_t)

static void range_of_squares(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_permuted_axes axes = ac_permuted_axes_of(args);
  const int a = innermost(&axes), b = axes.rank - 1;
  int64_t stride[AC_MAX_RANK];
  strides_of(&axes, stride);
  const ac_dtype dtype = args->in[0].dtype;
  const int64_t tiles = ac_ceil_div(axes.dim[a], TILE), strips = ac_ceil_div(axes.dim[b], LENGTH);
  for (int64_t item = first; item < last; item++) {
    int64_t from, to;
    const int64_t j = item % strips * LENGTH, count = ac_smaller(LENGTH, axes.dim[b] - j);
    const int64_t k = item / strips % tiles * TILE, width = ac_smaller(TILE, axes.dim[a] - k);
    find(&axes, stride, a, item / strips / tiles, &from, &to);
    const void *x = ac_element(args->in[0].data, dtype, from + k + j * axes.stride[b]);
    void *y = ac_element(args->out[0].data, dtype, to + k * stride[a] + j);
    if (ac_element_bytes(dtype) == 4)
      squares_of_words(x, axes.stride[b], y, stride[a], width, count);
    else squares_of_halves(x, axes.stride[b], y, stride[a], width, count);
  }
}

static void run(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_permuted_axes axes = ac_permuted_axes_of(args);
  const int a = innermost(&axes), b = axes.rank - 1;
  const int64_t count = args->out[0].count;
  int64_t items = count / axes.dim[b];
  if (a != b)
    items = items / axes.dim[a] * ac_ceil_div(axes.dim[a], TILE) * ac_ceil_div(axes.dim[b], LENGTH);
  ac_cpu_for(context, args, items, ac_larger(2, count / ac_larger(1, items)),
             a == b ? range_of_runs : range_of_squares);
}

const ac_cpu_kernel AC_CPU_KERNEL(permute) = {.run = run};
