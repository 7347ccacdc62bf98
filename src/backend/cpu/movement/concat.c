/* Tensors side by side: runs of elements that are copied as they lie. An item of work is one index
 * of what precedes the axis. */
#include "backend/cpu/shared/kernels.h"
#include "ops/movement/concat.h"

#include <string.h>

static char *at_element(const ac_operand *x, int64_t index) {
  return (char *)x->data + (size_t)index * ac_element_bytes(x->dtype);
}

static void copy(const ac_operand *x, int64_t from, const ac_operand *y, int64_t to,
                 int64_t count) {
  memcpy(at_element(y, to), at_element(x, from), (size_t)count * ac_element_bytes(y->dtype));
}

/* Of the parts from operand number `from` on; returns where they end in the row of y. */
static int64_t copy_parts(const ac_op_args *args, int from, int64_t outer) {
  const ac_concat_attributes *a = args->attributes;
  const ac_operand *y = &args->out[0];
  const ac_concat_view whole = ac_concat_view_of(y, a->axis);
  const int64_t row = outer * whole.length * whole.inner;
  int64_t at = a->first * whole.inner;
  for (int i = from; i < AC_MAX_INPUTS && args->in[i].count; i++) {
    const int64_t run = args->in[i].dim[a->axis] * whole.inner;
    copy(&args->in[i], outer * run, y, row + at, run);
    at += run;
  }
  return at;
}

static void concat_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_concat_attributes *a = args->attributes;
  const ac_operand *y = &args->out[0];
  const ac_concat_view whole = ac_concat_view_of(y, a->axis);
  const int64_t row = whole.length * whole.inner;
  for (int64_t outer = first; outer < last; outer++) {
    const int64_t end = copy_parts(args, 0, outer);
    memset(at_element(y, outer * row + end), 0, (size_t)(row - end) * ac_element_bytes(y->dtype));
  }
}

static void concat_more_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_concat_attributes *a = args->attributes;
  const ac_operand *y = &args->out[0];
  const ac_concat_view whole = ac_concat_view_of(y, a->axis);
  const int64_t row = whole.length * whole.inner;
  if (args->in[0].data != y->data)
    copy(&args->in[0], first * row, y, first * row, (last - first) * row);
  for (int64_t outer = first; outer < last; outer++) copy_parts(args, 1, outer);
}

static void run_outer(const ac_cpu_context *context, const ac_op_args *args, ac_cpu_range range) {
  const ac_concat_attributes *a = args->attributes;
  const ac_concat_view v = ac_concat_view_of(&args->out[0], a->axis);
  ac_cpu_for(context, args, v.outer, ac_larger(2, v.length * v.inner), range);
}

static void concat(const ac_cpu_context *context, const ac_op_args *args) {
  run_outer(context, args, concat_range);
}
static void concat_more(const ac_cpu_context *context, const ac_op_args *args) {
  run_outer(context, args, concat_more_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(concat) = {.run = concat};
const ac_cpu_kernel AC_CPU_KERNEL(concat_more) = {.run = concat_more};
