/* argmax: the first of the largest along an axis; a NaN is larger than any number. */
#include "backend/cpu/shared/convert.h"
#include "ops/reduction/along.h"

#include <math.h>

enum { CHUNK = 2048, WIDE = 256 };

static bool is_above(float x, float best) {
  return x > best || (x != x && best == best);
}

/* The largest of a chunk is found first, and then its place, where it is a new one. */
static int32_t of_row(const ac_operand *x, int64_t base, int64_t length) {
  float buffer[CHUNK], best = -INFINITY;
  int64_t place = 0;
  for (int64_t at = 0; at < length; at += CHUNK) {
    const int64_t count = ac_smaller(CHUNK, length - at);
    const float *row = ac_element(x->data, x->dtype, base + at);
    if (x->dtype != AC_F32) {
      ac_cpu_widen(x->dtype, row, buffer, count);
      row = buffer;
    }
    int above = 0;
#pragma omp simd reduction(| : above)
    for (int64_t j = 0; j < count; j++) above |= !(row[j] <= best);
    if (!above || best != best) continue;
    for (int64_t j = 0; j < count; j++)
      if (is_above(row[j], best)) best = row[j], place = at + j;
  }
  return (int32_t)place;
}

static void of_columns(const ac_operand *x, int64_t base, ac_along a, int64_t width, int32_t *ids) {
  float buffer[WIDE], best[WIDE];
  for (int64_t i = 0; i < a.length; i++) {
    const float *row = ac_element(x->data, x->dtype, base + i * a.inner);
    if (x->dtype != AC_F32) {
      ac_cpu_widen(x->dtype, row, buffer, width);
      row = buffer;
    }
#pragma omp simd
    for (int64_t j = 0; j < width; j++) {
      const bool above = i == 0 || row[j] > best[j] || (row[j] != row[j] && best[j] == best[j]);
      best[j] = above ? row[j] : best[j];
      ids[j] = above ? (int32_t)i : ids[j];
    }
  }
}

static void part(const ac_cpu_context *context, const ac_op_args *args, int thread, int team) {
  const ac_argmax_attributes *attributes = args->attributes;
  const ac_operand *x = &args->in[0];
  const ac_along a = ac_along_axis(x, attributes->axis);
  const int64_t across = ac_ceil_div(a.inner, WIDE);
  int32_t *ids = args->out[0].data;
  int64_t first, last;
  (void)context;
  ac_cpu_share(a.outer * across, 1, thread, team, &first, &last);
  for (int64_t i = first; i < last; i++) {
    const int64_t outer = i / across, column = i % across * WIDE;
    const int64_t base = outer * a.length * a.inner + column;
    if (a.inner == 1) ids[outer] = of_row(x, base, a.length);
    else of_columns(x, base, a, ac_smaller(WIDE, a.inner - column), ids + outer * a.inner + column);
  }
}

static void argmax(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel_for(context, args, args->in[0].count, part);
}

const ac_cpu_kernel AC_CPU_KERNEL(argmax) = {.run = argmax};
