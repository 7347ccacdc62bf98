/* y = gamma (x - mean) / sqrt(var + epsilon) + beta over rows of C columns; mean and 1/std of each
 * row are kept.
 *
 * With xhat = (x - mean) / std and g = dy gamma:
 *   dx = (g - mean(g) - xhat mean(g xhat)) / std;  dgamma = sum dy xhat;  dbeta = sum dy
 * The variance is taken from the centred row, a second pass over what lies in the nearest cache. */
#include "backend/cpu/convert.h"
#include "backend/cpu/reduce.h"
#include "ops/layer_norm.h"

#include <math.h>
#include <string.h>

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  float epsilon = ((const ac_layer_norm_attributes *)args->attributes)->epsilon;
  const float *gamma = args->in[1].data, *beta = args->in[2].count ? args->in[2].data : NULL;
  float *statistics = args->out[1].data;
  int64_t columns = ac_columns(&args->in[0]);
  for (int64_t i = first; i < last; i++) {
    const float *x = (const float *)args->in[0].data + i * columns;
    float *y = (float *)args->out[0].data + i * columns;
    float mean = row_sum(x, columns) / (float)columns;
    float variance = row_centred_squares(x, mean, columns) / (float)columns;
    float inverse = 1.0f / sqrtf(variance + epsilon);
    statistics[2 * i] = mean;
    statistics[2 * i + 1] = inverse;
    if (beta) {
#pragma omp simd
      for (int64_t j = 0; j < columns; j++) y[j] = (x[j] - mean) * inverse * gamma[j] + beta[j];
    } else {
#pragma omp simd
      for (int64_t j = 0; j < columns; j++) y[j] = (x[j] - mean) * inverse * gamma[j];
    }
  }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_floats(context, args, ac_rows(&args->in[0]), ac_columns(&args->in[0]), forward_range);
}

static void row_input_gradient(const float *dy, const float *x, const float *gamma, float mean,
                               float inverse, float *dx, int64_t columns, bool add) {
  double total = 0, total_hat = 0;
  for (int64_t j = 0; j < columns;) {
    int64_t end = ac_min(columns, j + AC_CPU_CHUNK);
    lanes sum = {{0}}, sum_hat = {{0}};
    for (; j + AC_CPU_LANES <= end; j += AC_CPU_LANES) {
#pragma omp simd
      for (int l = 0; l < AC_CPU_LANES; l++) {
        float g = dy[j + l] * gamma[j + l];
        sum.v[l] += g;
        sum_hat.v[l] += g * ((x[j + l] - mean) * inverse);
      }
    }
    for (int l = 0; j < end; j++, l++) {
      float g = dy[j] * gamma[j];
      sum.v[l] += g;
      sum_hat.v[l] += g * ((x[j] - mean) * inverse);
    }
    total += (double)lanes_sum(sum);
    total_hat += (double)lanes_sum(sum_hat);
  }
  float mean_g = (float)(total / (double)columns), mean_hat = (float)(total_hat / (double)columns);
  if (add) {
#pragma omp simd
    for (int64_t j = 0; j < columns; j++)
      dx[j] += inverse * (dy[j] * gamma[j] - mean_g - (x[j] - mean) * inverse * mean_hat);
  } else {
#pragma omp simd
    for (int64_t j = 0; j < columns; j++)
      dx[j] = inverse * (dy[j] * gamma[j] - mean_g - (x[j] - mean) * inverse * mean_hat);
  }
}

static void input_gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *statistics = args->in[2].data;
  int64_t columns = ac_columns(&args->in[0]);
  for (int64_t i = first; i < last; i++)
    row_input_gradient((const float *)args->in[0].data + i * columns,
                       (const float *)args->in[1].data + i * columns, args->in[3].data,
                       statistics[2 * i], statistics[2 * i + 1],
                       (float *)args->out[0].data + i * columns, columns, args->add[0]);
}

static void input_gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_floats(context, args, ac_rows(&args->in[0]), ac_columns(&args->in[0]),
                    input_gradient_range);
}

/* Strips of columns as in add.c: each has one owner and is summed in the order of rows. */
enum { STRIP = 128, GROUP = 4 };

static void add_group(int64_t rows, int64_t stride, int64_t width, const float *dy, const float *x,
                      const float *s, float *gamma, float *beta) {
  if (rows == GROUP) {
    const float *d0 = dy, *d1 = d0 + stride, *d2 = d1 + stride, *d3 = d2 + stride;
    const float *x0 = x, *x1 = x0 + stride, *x2 = x1 + stride, *x3 = x2 + stride;
#pragma omp simd
    for (int64_t j = 0; j < width; j++) {
      beta[j] += (d0[j] + d1[j]) + (d2[j] + d3[j]);
      gamma[j] += (d0[j] * ((x0[j] - s[0]) * s[1]) + d1[j] * ((x1[j] - s[2]) * s[3])) +
                  (d2[j] * ((x2[j] - s[4]) * s[5]) + d3[j] * ((x3[j] - s[6]) * s[7]));
    }
    return;
  }
  for (int64_t i = 0; i < rows; i++) {
    const float *d = dy + i * stride, *r = x + i * stride;
    float mean = s[2 * i], inverse = s[2 * i + 1];
#pragma omp simd
    for (int64_t j = 0; j < width; j++) {
      beta[j] += d[j];
      gamma[j] += d[j] * ((r[j] - mean) * inverse);
    }
  }
}

static void parameter_strip(const ac_op_args *args, int64_t begin, int64_t width) {
  const float *statistics = args->in[2].data;
  ac_dtype dtype = args->in[0].dtype;
  int64_t rows = ac_rows(&args->in[0]), columns = ac_columns(&args->in[0]);
  float gamma[STRIP], beta[STRIP], group[2][GROUP * STRIP];
  memset(gamma, 0, sizeof gamma);
  memset(beta, 0, sizeof beta);
  for (int64_t i = 0; i < rows; i += GROUP) {
    const void *dy = ac_element(args->in[0].data, dtype, i * columns + begin),
               *x = ac_element(args->in[1].data, dtype, i * columns + begin);
    int64_t count = ac_min(GROUP, rows - i);
    if (dtype == AC_F32) {
      add_group(count, columns, width, dy, x, statistics + 2 * i, gamma, beta);
      continue;
    }
    ac_cpu_widen_rows(dtype, dy, columns, group[0], STRIP, count, width);
    ac_cpu_widen_rows(dtype, x, columns, group[1], STRIP, count, width);
    add_group(count, STRIP, width, group[0], group[1], statistics + 2 * i, gamma, beta);
  }
  float *sums[2] = {gamma, beta};
  for (int k = 0; k < 2; k++) {
    if (!args->out[k].count) continue;
    float *out = (float *)args->out[k].data + begin;
    for (int64_t j = 0; j < width; j++) out[j] = args->add[k] ? out[j] + sums[k][j] : sums[k][j];
  }
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

const ac_cpu_kernel AC_CPU_KERNEL(layer_norm) = {forward, workspace};
const ac_cpu_kernel AC_CPU_KERNEL(layer_norm_input_gradient) = {input_gradient, workspace};
const ac_cpu_kernel AC_CPU_KERNEL(layer_norm_parameter_gradient) = {parameter_gradient, NULL};
