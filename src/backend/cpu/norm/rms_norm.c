/* y = gamma h, h = x r, r = 1 / sqrt(mean(x^2) + epsilon) over rows of C columns; r of each row is
 * kept.
 *
 * With g = dy gamma:  dx = r (g - h mean(g h));  dgamma = sum dy h */
#include "backend/cpu/norm/norm.h"
#include "ops/norm/rms_norm.h"

/* For a row with squares that are too large for a float. */
static float large_row_inverse(const float *x, int64_t n) {
  double squares = 0;
  for (int64_t j = 0; j < n; j++) squares += (double)x[j] * (double)x[j];
  return (float)(1.0 / sqrt(squares / (double)n));
}

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  float epsilon = ((const ac_rms_norm_attributes *)args->attributes)->epsilon;
  const float *gamma = ac_cpu_data(&args->in[1]);
  float *statistics = args->out[1].data;
  int64_t columns = ac_columns(&args->in[0]);
  for (int64_t i = first; i < last; i++) {
    const float *x = (const float *)args->in[0].data + i * columns;
    float *y = (float *)args->out[0].data + i * columns;
    float squares = row_dot(x, x, columns);
    float inverse = 1.0f / sqrtf(squares / (float)columns + epsilon);
    if (!(squares <= FLT_MAX)) inverse = large_row_inverse(x, columns);
    statistics[i] = inverse;
    if (gamma) {
#pragma omp simd
      for (int64_t j = 0; j < columns; j++) y[j] = x[j] * inverse * gamma[j];
    } else {
#pragma omp simd
      for (int64_t j = 0; j < columns; j++) y[j] = x[j] * inverse;
    }
  }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_rows(context, args, forward_range);
}

static float row_dot_of_three(const float *a, const float *b, const float *c, int64_t n) {
  double total = 0;
  for (int64_t j = 0; j < n;) {
    int64_t end = ac_smaller(n, j + AC_CPU_CHUNK);
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

static inline __attribute__((always_inline)) void
row_input_gradient(const float *dy, const float *x, const float *gamma, float inverse, float *dx,
                   int64_t columns, bool add, bool weighted) {
  float dot = weighted ? row_dot_of_three(dy, gamma, x, columns) : row_dot(dy, x, columns);
  float mean = dot * inverse / (float)columns;
  float share = inverse * mean;
  if (add) {
#pragma omp simd
    for (int64_t j = 0; j < columns; j++)
      dx[j] += inverse * (weighted_by(gamma, j, weighted, dy[j]) - x[j] * share);
  } else {
#pragma omp simd
    for (int64_t j = 0; j < columns; j++)
      dx[j] = inverse * (weighted_by(gamma, j, weighted, dy[j]) - x[j] * share);
  }
}

static void input_gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *statistics = args->in[2].data, *gamma = ac_cpu_data(&args->in[3]);
  int64_t columns = ac_columns(&args->in[0]);
  for (int64_t i = first; i < last; i++) {
    const float *dy = (const float *)args->in[0].data + i * columns;
    const float *x = (const float *)args->in[1].data + i * columns;
    float *dx = (float *)args->out[0].data + i * columns;
    if (gamma) row_input_gradient(dy, x, gamma, statistics[i], dx, columns, args->add[0], true);
    else row_input_gradient(dy, x, NULL, statistics[i], dx, columns, args->add[0], false);
  }
}

static void input_gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_rows(context, args, input_gradient_range);
}

static void add_group(int64_t rows, int64_t stride, int64_t width, const float *dy, const float *x,
                      const float *s, float (*sums)[STRIP]) {
  float *sum = sums[0];
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

static void parameter_gradient_part(const ac_cpu_context *context, const ac_op_args *args,
                                    int thread, int team) {
  (void)context;
  sum_strips(args, 1, 1, add_group, thread, team);
}

static void parameter_gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel_for(context, args, args->in[0].count, parameter_gradient_part);
}

const ac_cpu_kernel AC_CPU_KERNEL(rms_norm) = {.run = forward, .workspace = ac_cpu_row_scratch};
const ac_cpu_kernel AC_CPU_KERNEL(rms_norm_input_gradient) = {.run = input_gradient,
                                                              .workspace = ac_cpu_row_scratch};
const ac_cpu_kernel AC_CPU_KERNEL(rms_norm_parameter_gradient) = {.run = parameter_gradient};
