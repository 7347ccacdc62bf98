/* softmax and its logarithm over an axis, and their gradients. Over the last axis a row is one's
 * own. Over another one a strip of neighbouring columns is gone through row by row, so narrow that
 * it stays in a cache from one pass to the next. */
#include "ops/attention/softmax.h"

#include "backend/cpu/shared/convert.h"
#include "backend/cpu/shared/reduce.h"
#include "backend/cpu/shared/vector_math.h"

enum { CHUNK = 256 };

static float finite_or_zero(float x) {
  return x > -INFINITY && x < INFINITY ? x : 0;
}

/* ---- over the last axis ---------------------------------------------------------------------- */

static void softmax_row(const float *x, float *y, int64_t columns) {
  float max = row_max(x, columns);
#pragma omp simd
  for (int64_t j = 0; j < columns; j++) y[j] = exponential(x[j] - max);
  float inverse = 1.0f / row_sum(y, columns);
#pragma omp simd
  for (int64_t j = 0; j < columns; j++) y[j] *= inverse;
}

static void logarithm_row(const float *x, float *y, int64_t columns) {
  const float max = row_max(x, columns), top = finite_or_zero(max);
  float part[CHUNK];
  double sum = 0;
  for (int64_t j = 0; j < columns; j += CHUNK) {
    const int64_t count = ac_smaller(CHUNK, columns - j);
#pragma omp simd
    for (int64_t k = 0; k < count; k++) part[k] = exponential(x[j + k] - top);
    sum += (double)row_sum(part, count);
  }
  const float log_sum = logf((float)sum);
#pragma omp simd
  for (int64_t j = 0; j < columns; j++) y[j] = x[j] - max - log_sum;
}

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_softmax_attributes *a = args->attributes;
  int64_t columns = ac_columns(&args->in[0]);
  for (int64_t i = first; i < last; i++) {
    const float *x = (const float *)args->in[0].data + i * columns;
    float *y = (float *)args->out[0].data + i * columns;
    if (a->logarithm) logarithm_row(x, y, columns);
    else softmax_row(x, y, columns);
  }
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_softmax_attributes *a = args->attributes;
  int64_t columns = ac_columns(&args->in[0]);
  for (int64_t i = first; i < last; i++) {
    const float *dy = (const float *)args->in[0].data + i * columns;
    const float *y = (const float *)args->in[1].data + i * columns;
    float *dx = (float *)args->out[0].data + i * columns;
    if (a->logarithm) {
      const float sum = row_sum(dy, columns);
#pragma omp simd
      for (int64_t j = 0; j < columns; j++) dx[j] = dy[j] - exponential(y[j]) * sum;
    } else {
      float dot = row_dot(dy, y, columns);
#pragma omp simd
      for (int64_t j = 0; j < columns; j++) dx[j] = y[j] * (dy[j] - dot);
    }
  }
}

/* ---- over another axis ----------------------------------------------------------------------- */

/* So many rows are summed in floats, and these sums in doubles. */
enum { MOST_WIDE = 256, IN_CACHE = 1 << 15, FEW_ROWS = 64 };

/* x as [outer, length, inner], in strips of so many columns. */
typedef struct strips {
  int64_t outer, length, inner, width;
} strips;

static strips strips_of(const ac_op_args *args) {
  const ac_softmax_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0];
  strips s = {.outer = 1, .length = x->dim[a->axis], .inner = 1};
  for (int d = 0; d < a->axis; d++) s.outer *= x->dim[d];
  for (int d = a->axis + 1; d < x->rank; d++) s.inner *= x->dim[d];
  s.width = ac_larger(64, ac_smaller(MOST_WIDE, IN_CACHE / s.length / 16 * 16));
  return s;
}

static bool is_over_last(const ac_op_args *args) {
  return strips_of(args).inner == 1;
}

/* A part of a row as floats, in place if it is that. */
static const float *line_of(const ac_operand *x, int64_t at, int64_t width, float *buffer) {
  const void *from = ac_element(x->data, x->dtype, at);
  if (x->dtype == AC_F32) return from;
  ac_cpu_widen(x->dtype, from, buffer, width);
  return buffer;
}

static void store_line(const ac_op_args *args, int64_t at, const float *line, int64_t width) {
  const ac_operand *y = &args->out[0];
  ac_cpu_narrow(y->dtype, args->run->mark_flushed, line, ac_element(y->data, y->dtype, at), width);
}

/* Adds what rows have summed up to the sums of the strip, and begins anew. */
static void add_rows(double *total, float *sum, int64_t width) {
#pragma omp simd
  for (int64_t j = 0; j < width; j++) total[j] += (double)sum[j], sum[j] = 0;
}

static void forward_strip(const ac_op_args *args, int64_t base, int64_t width, const strips *s) {
  const ac_softmax_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0];
  float max[MOST_WIDE], sum[MOST_WIDE], line[MOST_WIDE], buffer[MOST_WIDE];
  double total[MOST_WIDE];
#pragma omp simd
  for (int64_t j = 0; j < width; j++) max[j] = -INFINITY, sum[j] = 0, total[j] = 0;
  for (int64_t i = 0; i < s->length; i++) {
    const float *row = line_of(x, base + i * s->inner, width, buffer);
#pragma omp simd
    for (int64_t j = 0; j < width; j++) max[j] = larger(max[j], row[j]);
  }
  for (int64_t i = 0; i < s->length; i++) {
    const float *row = line_of(x, base + i * s->inner, width, buffer);
#pragma omp simd
    for (int64_t j = 0; j < width; j++) sum[j] += exponential(row[j] - max[j]);
    if (i % FEW_ROWS == FEW_ROWS - 1) add_rows(total, sum, width);
  }
  add_rows(total, sum, width);
  if (a->logarithm)
    for (int64_t j = 0; j < width; j++) sum[j] = logf((float)total[j]);
  else
    for (int64_t j = 0; j < width; j++) sum[j] = 1.0f / (float)total[j];
  for (int64_t i = 0; i < s->length; i++) {
    const float *row = line_of(x, base + i * s->inner, width, buffer);
    if (a->logarithm) {
#pragma omp simd
      for (int64_t j = 0; j < width; j++) line[j] = row[j] - max[j] - sum[j];
    } else {
#pragma omp simd
      for (int64_t j = 0; j < width; j++) line[j] = exponential(row[j] - max[j]) * sum[j];
    }
    store_line(args, base + i * s->inner, line, width);
  }
}

static void gradient_strip(const ac_op_args *args, int64_t base, int64_t width, const strips *s) {
  const ac_softmax_attributes *a = args->attributes;
  float sum[MOST_WIDE], line[MOST_WIDE], first[MOST_WIDE], second[MOST_WIDE];
  double total[MOST_WIDE];
#pragma omp simd
  for (int64_t j = 0; j < width; j++) sum[j] = 0, total[j] = 0;
  for (int64_t i = 0; i < s->length; i++) {
    const float *dy = line_of(&args->in[0], base + i * s->inner, width, first);
    const float *y = line_of(&args->in[1], base + i * s->inner, width, second);
    if (a->logarithm) {
#pragma omp simd
      for (int64_t j = 0; j < width; j++) sum[j] += dy[j];
    } else {
#pragma omp simd
      for (int64_t j = 0; j < width; j++) sum[j] += dy[j] * y[j];
    }
    if (i % FEW_ROWS == FEW_ROWS - 1) add_rows(total, sum, width);
  }
  add_rows(total, sum, width);
  for (int64_t j = 0; j < width; j++) sum[j] = (float)total[j];
  for (int64_t i = 0; i < s->length; i++) {
    const float *dy = line_of(&args->in[0], base + i * s->inner, width, first);
    const float *y = line_of(&args->in[1], base + i * s->inner, width, second);
    if (a->logarithm) {
#pragma omp simd
      for (int64_t j = 0; j < width; j++) line[j] = dy[j] - exponential(y[j]) * sum[j];
    } else {
#pragma omp simd
      for (int64_t j = 0; j < width; j++) line[j] = y[j] * (dy[j] - sum[j]);
    }
    store_line(args, base + i * s->inner, line, width);
  }
}

typedef void (*one_strip)(const ac_op_args *args, int64_t base, int64_t width, const strips *s);

static void for_strips(const ac_op_args *args, int thread, int team, one_strip run) {
  const strips s = strips_of(args);
  const int64_t across = ac_ceil_div(s.inner, s.width);
  int64_t first, last;
  ac_cpu_share(s.outer * across, 1, thread, team, &first, &last);
  for (int64_t i = first; i < last; i++) {
    const int64_t column = i % across * s.width;
    run(args, i / across * s.length * s.inner + column, ac_smaller(s.width, s.inner - column), &s);
  }
}

static void forward_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                         int team) {
  (void)context;
  for_strips(args, thread, team, forward_strip);
}

static void gradient_part(const ac_cpu_context *context, const ac_op_args *args, int thread,
                          int team) {
  (void)context;
  for_strips(args, thread, team, gradient_strip);
}

/* ---- the ops --------------------------------------------------------------------------------- */

/* As rows: dimensions of size 1 after the axis are left out. */
static ac_op_args as_rows(const ac_op_args *args) {
  const ac_softmax_attributes *a = args->attributes;
  ac_op_args rows = *args;
  for (int i = 0; i < 2; i++) rows.in[i].rank = rows.in[i].count ? a->axis + 1 : 0;
  return rows;
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  if (!is_over_last(args)) {
    ac_cpu_parallel_for(context, args, args->in[0].count, forward_part);
    return;
  }
  const ac_op_args rows = as_rows(args);
  ac_cpu_for_rows(context, &rows, forward_range);
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  if (!is_over_last(args)) {
    ac_cpu_parallel_for(context, args, args->in[0].count, gradient_part);
    return;
  }
  const ac_op_args rows = as_rows(args);
  ac_cpu_for_rows(context, &rows, gradient_range);
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  if (!is_over_last(args)) return 0;
  const ac_op_args rows = as_rows(args);
  return ac_cpu_row_scratch(context, &rows);
}

const ac_cpu_kernel AC_CPU_KERNEL(softmax) = {.run = forward, .workspace = workspace};
const ac_cpu_kernel AC_CPU_KERNEL(softmax_gradient) = {.run = gradient, .workspace = workspace};
