/* cumulative_sum along an axis, from either end. Sums are doubles, and rounded when stored. */
#include "backend/cpu/shared/convert.h"
#include "ops/reduction/along.h"

enum { CHUNK = 1024, WIDE = 256 };

/* A line of elements as floats, in place if it is that. */
static const float *line_of(const ac_operand *x, int64_t at, int64_t count, float *buffer) {
  const void *from = ac_element(x->data, x->dtype, at);
  if (x->dtype == AC_F32) return from;
  ac_cpu_widen(x->dtype, from, buffer, count);
  return buffer;
}

static void store_line(const ac_op_args *args, int64_t at, const float *line, int64_t count) {
  const ac_operand *y = &args->out[0];
  ac_cpu_narrow(y->dtype, args->run->mark_flushed, line, ac_element(y->data, y->dtype, at), count);
}

static void sum_row(const ac_op_args *args, int64_t base, int64_t length, bool reversed) {
  float buffer[CHUNK], line[CHUNK];
  double sum = 0;
  for (int64_t done = 0; done < length;) {
    const int64_t count = ac_smaller(CHUNK, length - done);
    const int64_t at = base + (reversed ? length - done - count : done);
    const float *x = line_of(&args->in[0], at, count, buffer);
    if (reversed)
      for (int64_t j = count - 1; j >= 0; j--) line[j] = (float)(sum += (double)x[j]);
    else
      for (int64_t j = 0; j < count; j++) line[j] = (float)(sum += (double)x[j]);
    store_line(args, at, line, count);
    done += count;
  }
}

static void sum_columns(const ac_op_args *args, int64_t base, ac_along a, int64_t width,
                        bool reversed) {
  float buffer[WIDE], line[WIDE];
  double sum[WIDE];
  for (int64_t j = 0; j < width; j++) sum[j] = 0;
  for (int64_t i = 0; i < a.length; i++) {
    const int64_t at = base + (reversed ? a.length - 1 - i : i) * a.inner;
    const float *x = line_of(&args->in[0], at, width, buffer);
#pragma omp simd
    for (int64_t j = 0; j < width; j++) {
      sum[j] += (double)x[j];
      line[j] = (float)sum[j];
    }
    store_line(args, at, line, width);
  }
}

static void part(const ac_cpu_context *context, const ac_op_args *args, int thread, int team) {
  const ac_cumulative_sum_attributes *attributes = args->attributes;
  const ac_along a = ac_along_axis(&args->in[0], attributes->axis);
  const int64_t across = ac_ceil_div(a.inner, WIDE);
  int64_t first, last;
  (void)context;
  ac_cpu_share(a.outer * across, 1, thread, team, &first, &last);
  for (int64_t i = first; i < last; i++) {
    const int64_t column = i % across * WIDE;
    const int64_t base = i / across * a.length * a.inner + column;
    if (a.inner == 1) sum_row(args, base, a.length, attributes->reversed);
    else sum_columns(args, base, a, ac_smaller(WIDE, a.inner - column), attributes->reversed);
  }
}

static void cumulative_sum(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel_for(context, args, args->in[0].count, part);
}

const ac_cpu_kernel AC_CPU_KERNEL(cumulative_sum) = {.run = cumulative_sum};
