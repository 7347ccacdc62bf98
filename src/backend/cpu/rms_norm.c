/* y = gamma h, h = x r, r = 1 / sqrt(mean(x^2) + epsilon) over rows of C columns; r of each row is
 * kept.
 *
 * With g = dy gamma:  dx = r (g - h mean(g h));  dgamma = sum dy h */
#include "backend/cpu/kernels.h"
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
  ac_cpu_for(context, args, ac_rows(&args->in[0]), ac_columns(&args->in[0]), forward_range);
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
  ac_cpu_for(context, args, ac_rows(&args->in[0]), ac_columns(&args->in[0]), input_gradient_range);
}

/* Strips of columns as in add.c: each has one owner and is summed in the order of rows. */
enum { STRIP = 128 };

static void parameter_strip(const ac_op_args *args, int64_t begin, int64_t width) {
  const float *dy = (const float *)args->in[0].data + begin,
              *x = (const float *)args->in[1].data + begin, *statistics = args->in[2].data;
  int64_t rows = ac_rows(&args->in[0]), columns = ac_columns(&args->in[0]);
  float sum[STRIP];
  memset(sum, 0, sizeof sum);
  int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    const float *d0 = dy + i * columns, *d1 = d0 + columns, *d2 = d1 + columns, *d3 = d2 + columns;
    const float *x0 = x + i * columns, *x1 = x0 + columns, *x2 = x1 + columns, *x3 = x2 + columns;
    const float *s = statistics + i;
#pragma omp simd
    for (int64_t j = 0; j < width; j++)
      sum[j] += (d0[j] * (x0[j] * s[0]) + d1[j] * (x1[j] * s[1])) +
                (d2[j] * (x2[j] * s[2]) + d3[j] * (x3[j] * s[3]));
  }
  for (; i < rows; i++) {
    const float *d = dy + i * columns, *row = x + i * columns;
    float inverse = statistics[i];
#pragma omp simd
    for (int64_t j = 0; j < width; j++) sum[j] += d[j] * (row[j] * inverse);
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
  if (args->in[0].count <= AC_CPU_SERIAL) parameter_gradient_part(context, args, 0, 1);
  else ac_cpu_parallel(context, args, parameter_gradient_part);
}

const ac_cpu_kernel AC_CPU_KERNEL(rms_norm) = {forward, NULL};
const ac_cpu_kernel AC_CPU_KERNEL(rms_norm_input_gradient) = {input_gradient, NULL};
const ac_cpu_kernel AC_CPU_KERNEL(rms_norm_parameter_gradient) = {parameter_gradient, NULL};
