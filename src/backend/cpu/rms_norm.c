/* y = gamma h, h = x r, r = 1 / sqrt(mean(x^2) + epsilon) over rows of C columns; r of each row is
 * kept.
 *
 * With g = dy gamma:  dx = r (g - h mean(g h));  dgamma = sum dy h */
#include "backend/cpu/convert.h"
#include "backend/cpu/reduce.h"
#include "ops/rms_norm.h"

#include <math.h>
#include <string.h>

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  float epsilon = ((const ac_rms_norm_attributes *)args->attributes)->epsilon;
  const float *gamma = args->in[1].data;
  float *statistics = args->out[1].data;
  int64_t columns = ac_columns(&args->in[0]);
  for (int64_t i = first; i < last; i++) {
    const float *x = (const float *)args->in[0].data + i * columns;
    float *y = (float *)args->out[0].data + i * columns;
    float inverse = 1.0f / sqrtf(row_dot(x, x, columns) / (float)columns + epsilon);
    statistics[i] = inverse;
#pragma omp simd
    for (int64_t j = 0; j < columns; j++) y[j] = x[j] * inverse * gamma[j];
  }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_floats(context, args, ac_rows(&args->in[0]), ac_columns(&args->in[0]), forward_range);
}

static float row_dot_of_three(const float *a, const float *b, const float *c, int64_t n) {
  double total = 0;
  for (int64_t j = 0; j < n;) {
    int64_t end = ac_min(n, j + AC_CPU_CHUNK);
    lanes sum = {{0}};
    for (; j + AC_CPU_LANES <= end; j += AC_CPU_LANES) {
#pragma omp simd
      for (int l = 0; l < AC_CPU_LANES; l++) sum.v[l] += a[j + l] * b[j + l] * c[j + l];
    }
    for (int l = 0; j < end; j++, l++) sum.v[l] += a[j] * b[j] * c[j];
    total += (double)lanes_sum(sum);
  }
  return (float)total;
}

static void row_input_gradient(const float *dy, const float *x, const float *gamma, float inverse,
                               float *dx, int64_t columns, bool add) {
  float mean = row_dot_of_three(dy, gamma, x, columns) * inverse / (float)columns;
  float share = inverse * mean;
  if (add) {
#pragma omp simd
    for (int64_t j = 0; j < columns; j++) dx[j] += inverse * (dy[j] * gamma[j] - x[j] * share);
  } else {
#pragma omp simd
    for (int64_t j = 0; j < columns; j++) dx[j] = inverse * (dy[j] * gamma[j] - x[j] * share);
  }
}

static void input_gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *statistics = args->in[2].data;
  int64_t columns = ac_columns(&args->in[0]);
  for (int64_t i = first; i < last; i++)
    row_input_gradient((const float *)args->in[0].data + i * columns,
                       (const float *)args->in[1].data + i * columns, args->in[3].data,
                       statistics[i], (float *)args->out[0].data + i * columns, columns,
                       args->add[0]);
}

static void input_gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_floats(context, args, ac_rows(&args->in[0]), ac_columns(&args->in[0]),
                    input_gradient_range);
}

/* Strips of columns as in add.c: each has one owner and is summed in the order of rows. */
enum { STRIP = 128, GROUP = 4 };

static void add_group(int64_t rows, int64_t stride, int64_t width, const float *dy, const float *x,
                      const float *s, float *sum) {
  if (rows == GROUP) {
    const float *d0 = dy, *d1 = d0 + stride, *d2 = d1 + stride, *d3 = d2 + stride;
    const float *x0 = x, *x1 = x0 + stride, *x2 = x1 + stride, *x3 = x2 + stride;
#pragma omp simd
    for (int64_t j = 0; j < width; j++)
      sum[j] += (d0[j] * (x0[j] * s[0]) + d1[j] * (x1[j] * s[1])) +
                (d2[j] * (x2[j] * s[2]) + d3[j] * (x3[j] * s[3]));
    return;
  }
  for (int64_t i = 0; i < rows; i++) {
    const float *d = dy + i * stride, *row = x + i * stride;
    float inverse = s[i];
#pragma omp simd
    for (int64_t j = 0; j < width; j++) sum[j] += d[j] * (row[j] * inverse);
  }
}

static void parameter_strip(const ac_op_args *args, int64_t begin, int64_t width) {
  const float *statistics = args->in[2].data;
  ac_dtype dtype = args->in[0].dtype;
  int64_t rows = ac_rows(&args->in[0]), columns = ac_columns(&args->in[0]);
  float sum[STRIP], group[2][GROUP * STRIP];
  memset(sum, 0, sizeof sum);
  for (int64_t i = 0; i < rows; i += GROUP) {
    const void *dy = ac_element(args->in[0].data, dtype, i * columns + begin),
               *x = ac_element(args->in[1].data, dtype, i * columns + begin);
    int64_t count = ac_min(GROUP, rows - i);
    if (dtype == AC_F32) {
      add_group(count, columns, width, dy, x, statistics + i, sum);
      continue;
    }
    ac_cpu_widen_rows(dtype, dy, columns, group[0], STRIP, count, width);
    ac_cpu_widen_rows(dtype, x, columns, group[1], STRIP, count, width);
    add_group(count, STRIP, width, group[0], group[1], statistics + i, sum);
  }
  float *out = (float *)args->out[0].data + begin;
  for (int64_t j = 0; j < width; j++) out[j] = args->add[0] ? out[j] + sum[j] : sum[j];
}

static void parameter_gradient_part(const ac_cpu_context *context, const ac_op_args *args,
                                    int thread, int team) {
  (void)context;
  int64_t columns = ac_columns(&args->in[0]), strip = ac_cpu_strip(columns, team, STRIP);
  for (int64_t begin = thread * strip; begin < columns; begin += team * strip)
    parameter_strip(args, begin, ac_min(strip, columns - begin));
}

static void parameter_gradient(const ac_cpu_context *context, const ac_op_args *args) {
  if (args->in[0].count <= context->serial) parameter_gradient_part(context, args, 0, 1);
  else ac_cpu_parallel(context, args, parameter_gradient_part);
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  return ac_cpu_staging(context, args, ac_columns(&args->in[0]));
}

const ac_cpu_kernel AC_CPU_KERNEL(rms_norm) = {forward, workspace};
const ac_cpu_kernel AC_CPU_KERNEL(rms_norm_input_gradient) = {input_gradient, workspace};
const ac_cpu_kernel AC_CPU_KERNEL(rms_norm_parameter_gradient) = {parameter_gradient, NULL};
