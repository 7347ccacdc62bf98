/* concat, slice and its gradient: runs of elements that are moved or added as they lie. An item of
 * work is one index of what precedes the axis. */
#include "backend/cpu/shared/convert.h"
#include "ops/movement/concat.h"

#include <string.h>

/* Both stored in 16 bits. */
static void add_halves(ac_dtype dtype, bool mark, const uint16_t *x, uint16_t *y, int64_t count) {
  float floats[AC_CPU_RUN];
  for (int64_t i = 0, n; i < count; i += n) {
    n = ac_smaller(AC_CPU_RUN, count - i);
    ac_cpu_widen(dtype, x + i, floats, n);
    ac_cpu_accumulate(dtype, mark, floats, y + i, n);
  }
}

/* Elements [at, at + count) of y become, or are increased by, those of x from `from` on. */
static void move(const ac_op_args *args, const ac_operand *x, int64_t from, int64_t at,
                 int64_t count) {
  const ac_operand *y = &args->out[0];
  const void *source = ac_element(x->data, x->dtype, from);
  void *target = ac_element(y->data, y->dtype, at);
  if (!args->add[0]) {
    memcpy(target, source, (size_t)count * ac_element_bytes(y->dtype));
  } else if (y->dtype != AC_F32) {
    add_halves(y->dtype, args->run->mark_flushed, source, target, count);
  } else {
    ac_cpu_accumulate(AC_F32, false, source, target, count);
  }
}

static void clear(const ac_operand *y, int64_t at, int64_t count) {
  memset(ac_element(y->data, y->dtype, at), 0, (size_t)count * ac_element_bytes(y->dtype));
}

/* What an earlier op flushed and marked there is not to be counted again as this op's. */
static void unmark(const ac_op_args *args, int64_t at, int64_t count) {
  const ac_operand *y = &args->out[0];
  if (y->dtype != AC_F16 || !args->run->mark_flushed) return;
  uint16_t *bits = ac_element(y->data, y->dtype, at);
  for (int64_t i = 0; i < count; i++) bits[i] = bits[i] == 0x8000 ? 0 : bits[i];
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
      move(args, &args->in[i], outer * run, at, run);
      at += run;
    }
  }
}

static void slice_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  ac_concat_view whole = ac_concat_view_of(x, axis_of(args));
  int64_t run = y->dim[axis_of(args)] * whole.inner;
  for (int64_t outer = first; outer < last; outer++)
    move(args, x, (outer * whole.length + first_of(args)) * whole.inner, outer * run, run);
}

static void slice_gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_operand *dy = &args->in[0], *dx = &args->out[0];
  ac_concat_view whole = ac_concat_view_of(dx, axis_of(args));
  int64_t run = dy->dim[axis_of(args)] * whole.inner, before = first_of(args) * whole.inner;
  int64_t row = whole.length * whole.inner;
  for (int64_t outer = first; outer < last; outer++) {
    int64_t at = outer * row, behind = at + before + run;
    if (args->add[0]) {
      unmark(args, at, before);
      unmark(args, behind, at + row - behind);
    } else {
      clear(dx, at, before);
      clear(dx, behind, at + row - behind);
    }
    move(args, dy, outer * run, at + before, run);
  }
}

static void run_outer(const ac_cpu_context *context, const ac_op_args *args, ac_cpu_range range) {
  ac_concat_view v = ac_concat_view_of(&args->out[0], axis_of(args));
  ac_cpu_for(context, args, v.outer, ac_larger(2, v.length * v.inner), range);
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

const ac_cpu_kernel AC_CPU_KERNEL(concat) = {.run = concat};
const ac_cpu_kernel AC_CPU_KERNEL(slice) = {.run = slice};
const ac_cpu_kernel AC_CPU_KERNEL(slice_gradient) = {.run = slice_gradient};
