/* Swaps two axes. The tensor is seen as [outer, A, middle, B, inner] and written as
 * [outer, B, middle, A, inner]; an item of work is 16 indices of B, a cache line of the source
 * where inner is 1. */
#include "backend/cpu/shared/kernels.h"
#include "ops/movement/transpose.h"

#include <string.h>

enum { TILE = 16 };

typedef struct view {
  int64_t outer, a, middle, b, inner;
} view;

static view describe(const ac_op_args *args) {
  const ac_transpose_attributes *attributes = args->attributes;
  const ac_operand *x = &args->in[0];
  view v = {1, x->dim[attributes->axis_a], 1, x->dim[attributes->axis_b], 1};
  for (int i = 0; i < x->rank; i++) {
    if (i < attributes->axis_a) v.outer *= x->dim[i];
    else if (i > attributes->axis_a && i < attributes->axis_b) v.middle *= x->dim[i];
    else if (i > attributes->axis_b) v.inner *= x->dim[i];
  }
  return v;
}

#define TILE_OF_ELEMENTS(name, type)                                                 \
  static void name(const view *v, const type *x, type *y, int64_t width) {           \
    int64_t x_stride = v->middle * v->b, y_stride = v->middle * v->a;                \
    for (int64_t a = 0; a < v->a; a++)                                               \
      for (int64_t b = 0; b < width; b++) y[b * y_stride + a] = x[a * x_stride + b]; \
  }

TILE_OF_ELEMENTS(tile_of_floats, float)
TILE_OF_ELEMENTS(tile_of_halves, uint16_t)

static void tile_of_rows(const view *v, const void *x, void *y, ac_dtype dtype, int64_t width) {
  for (int64_t b = 0; b < width; b++)
    for (int64_t a = 0; a < v->a; a++)
      memcpy(ac_element(y, dtype, (b * v->middle * v->a + a) * v->inner),
             ac_element(x, dtype, (a * v->middle * v->b + b) * v->inner),
             (size_t)v->inner * ac_element_bytes(dtype));
}

static void range(const ac_op_args *args, int64_t first, int64_t last) {
  view v = describe(args);
  int64_t tiles = ac_ceil_div(v.b, TILE);
  ac_dtype dtype = args->in[0].dtype;
  for (int64_t item = first; item < last; item++) {
    int64_t b = item % tiles * TILE, middle = item / tiles % v.middle,
            outer = item / tiles / v.middle;
    int64_t width = ac_smaller(TILE, v.b - b);
    const void *x = ac_element(args->in[0].data, dtype,
                               ((outer * v.a * v.middle + middle) * v.b + b) * v.inner);
    void *y = ac_element(args->out[0].data, dtype,
                         ((outer * v.b + b) * v.middle + middle) * v.a * v.inner);
    if (v.inner > 1) tile_of_rows(&v, x, y, dtype, width);
    else if (dtype == AC_F32) tile_of_floats(&v, x, y, width);
    else tile_of_halves(&v, x, y, width);
  }
}

static void run(const ac_cpu_context *context, const ac_op_args *args) {
  view v = describe(args);
  int64_t items = v.outer * v.middle * ac_ceil_div(v.b, TILE);
  ac_cpu_for(context, args, items, ac_larger(2, args->out[0].count / ac_larger(1, items)), range);
}

const ac_cpu_kernel AC_CPU_KERNEL(transpose) = {.run = run};
