/* y = gamma (x - mean) / sqrt(var + epsilon) + beta over rows of C columns; mean and 1/std of each
 * row are kept.
 *
 * With xhat = (x - mean) / std and g = dy gamma:
 *   dx = (g - mean(g) - xhat mean(g xhat)) / std;  dgamma = sum dy xhat;  dbeta = sum dy */
#include "backend/cpu/norm/norm.h"
#include "ops/norm/layer_norm.h"

static inline __attribute__((always_inline)) void normalise(const float *x, const float *gamma,
                                                            const float *beta, row_scale s,
                                                            float *y, int64_t n, bool weighted,
                                                            bool shifted) {
#pragma omp simd
  for (int64_t j = 0; j < n; j++)
    y[j] =
        weighted_by(gamma, j, weighted, (x[j] - s.mean) * s.inverse) + (shifted ? beta[j] : 0.0f);
}

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  float epsilon = ((const ac_layer_norm_attributes *)args->attributes)->epsilon;
  const float *gamma = ac_cpu_data(&args->in[1]), *beta = ac_cpu_data(&args->in[2]);
  float *statistics = args->out[1].data;
  int64_t columns = ac_columns(&args->in[0]);
  for (int64_t i = first; i < last; i++) {
    const float *x = (const float *)args->in[0].data + i * columns;
    float *y = (float *)args->out[0].data + i * columns;
    row_scale s = row_statistics(x, columns, epsilon, statistics + 2 * i);
    if (gamma && beta) normalise(x, gamma, beta, s, y, columns, true, true);
    else if (gamma) normalise(x, gamma, beta, s, y, columns, true, false);
    else if (beta) normalise(x, gamma, beta, s, y, columns, false, true);
    else normalise(x, gamma, beta, s, y, columns, false, false);
  }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_rows(context, args, forward_range);
}

static inline __attribute__((always_inline)) void
row_input_gradient(const float *dy, const float *x, const float *gamma, float mean, float inverse,
                   float *dx, int64_t columns, bool add, bool weighted) {
  double total = 0, total_hat = 0;
  for (int64_t j = 0; j < columns;) {
    int64_t end = ac_smaller(columns, j + AC_CPU_CHUNK);
    lanes sum = {{0}}, sum_hat = {{0}};
    for (; j + AC_CPU_LANES <= end; j += AC_CPU_LANES) {
#pragma omp simd
      for (int l = 0; l < AC_CPU_LANES; l++) {
        float g = weighted_by(gamma, j + l, weighted, dy[j + l]);
        sum.v[l] += g;
        sum_hat.v[l] += g * ((x[j + l] - mean) * inverse);
      }
    }
    for (int l = 0; j < end; j++, l++) {
      float g = weighted_by(gamma, j, weighted, dy[j]);
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
      dx[j] += inverse * (weighted_by(gamma, j, weighted, dy[j]) - mean_g -
                          (x[j] - mean) * inverse * mean_hat);
  } else {
#pragma omp simd
    for (int64_t j = 0; j < columns; j++)
      dx[j] = inverse * (weighted_by(gamma, j, weighted, dy[j]) - mean_g -
                         (x[j] - mean) * inverse * mean_hat);
  }
}

static void input_gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *statistics = args->in[2].data, *gamma = ac_cpu_data(&args->in[3]);
  int64_t columns = ac_columns(&args->in[0]);
  for (int64_t i = first; i < last; i++) {
    const float *dy = (const float *)args->in[0].data + i * columns;
    const float *x = (const float *)args->in[1].data + i * columns;
    float *dx = (float *)args->out[0].data + i * columns;
    float mean = statistics[2 * i], inverse = statistics[2 * i + 1];
    if (gamma) row_input_gradient(dy, x, gamma, mean, inverse, dx, columns, args->add[0], true);
    else row_input_gradient(dy, x, NULL, mean, inverse, dx, columns, args->add[0], false);
  }
}

static void input_gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_rows(context, args, input_gradient_range);
}

static void add_group(int64_t rows, int64_t stride, int64_t width, const float *dy, const float *x,
                      const float *s, float (*sums)[STRIP]) {
  float *gamma = sums[0], *beta = sums[1];
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

static void parameter_gradient_part(const ac_cpu_context *context, const ac_op_args *args,
                                    int thread, int team) {
  (void)context;
  sum_strips(args, 2, 2, add_group, thread, team);
}

static void parameter_gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_parallel_for(context, args, args->in[0].count, parameter_gradient_part);
}

const ac_cpu_kernel AC_CPU_KERNEL(layer_norm) = {.run = forward, .workspace = ac_cpu_row_scratch};
const ac_cpu_kernel AC_CPU_KERNEL(layer_norm_input_gradient) = {.run = input_gradient,
                                                                .workspace = ac_cpu_row_scratch};
const ac_cpu_kernel AC_CPU_KERNEL(layer_norm_parameter_gradient) = {.run = parameter_gradient};
