/* concat, slice and its gradient: runs of elements that are moved or added as they lie. An item of
 * work is one index of what precedes the axis. */
#include "backend/cpu/kernels.h"
#include "ops/concat.h"

#include <string.h>

/* Elements [at, at + count) of y become, or are increased by, those of x from `from` on. */
static void move(const ac_operand *x, int64_t from, const ac_operand *y, int64_t at, int64_t count,
                 bool add) {
  const float *source = (const float *)x->data + from;
  float *target = (float *)y->data + at;
  if (!add) {
    memcpy(target, source, (size_t)count * sizeof *target);
    return;
  }
#pragma omp simd
  for (int64_t i = 0; i < count; i++) target[i] += source[i];
}

static void clear(const ac_operand *y, int64_t at, int64_t count) {
  memset((float *)y->data + at, 0, (size_t)count * sizeof(float));
}

static int axis_of(const ac_op_args *args) {
  return ((const ac_concat_attributes *)args->attributes)->axis;
}
static int64_t first_of(const ac_op_args *args) {
  return ((const ac_concat_attributes *)args->attributes)->first;
}

static void concat_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_operand *y = &args->out[0];
  ac_concat_view whole = ac_concat_view_of(y, axis_of(args));
  for (int64_t outer = first; outer < last; outer++) {
    int64_t at = outer * whole.length * whole.inner;
    for (int i = 0; i < AC_MAX_INPUTS && args->in[i].count; i++) {
      int64_t run = args->in[i].dim[axis_of(args)] * whole.inner;
      move(&args->in[i], outer * run, y, at, run, false);
      at += run;
    }
  }
}

static void slice_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  ac_concat_view whole = ac_concat_view_of(x, axis_of(args));
  int64_t run = y->dim[axis_of(args)] * whole.inner;
  for (int64_t outer = first; outer < last; outer++)
    move(x, (outer * whole.length + first_of(args)) * whole.inner, y, outer * run, run,
         args->add[0]);
}

static void slice_gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_operand *dy = &args->in[0], *dx = &args->out[0];
  ac_concat_view whole = ac_concat_view_of(dx, axis_of(args));
  int64_t run = dy->dim[axis_of(args)] * whole.inner, before = first_of(args) * whole.inner;
  int64_t row = whole.length * whole.inner;
  for (int64_t outer = first; outer < last; outer++) {
    if (!args->add[0]) {
      clear(dx, outer * row, before);
      clear(dx, outer * row + before + run, row - before - run);
    }
    move(dy, outer * run, dx, outer * row + before, run, args->add[0]);
  }
}

static void run_outer(const ac_cpu_context *context, const ac_op_args *args, ac_cpu_range range) {
  ac_concat_view v = ac_concat_view_of(&args->out[0], axis_of(args));
  ac_cpu_for(context, args, v.outer, ac_max(2, v.length * v.inner), range);
}

static void concat(const ac_cpu_context *context, const ac_op_args *args) {
  run_outer(context, args, concat_range);
}
static void slice(const ac_cpu_context *context, const ac_op_args *args) {
  run_outer(context, args, slice_range);
}
static void slice_gradient(const ac_cpu_context *context, const ac_op_args *args) {
  run_outer(context, args, slice_gradient_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(concat) = {concat, NULL};
const ac_cpu_kernel AC_CPU_KERNEL(slice) = {slice, NULL};
const ac_cpu_kernel AC_CPU_KERNEL(slice_gradient) = {slice_gradient, NULL};
