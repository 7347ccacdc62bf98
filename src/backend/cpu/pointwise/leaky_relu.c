/* y = x where x > 0, else slope x, NaN kept;  dx = dy where y > 0, else slope dy. */
#include "backend/cpu/shared/kernels.h"
#include "backend/cpu/shared/stream.h"
#include "ops/pointwise/leaky_relu.h"

static float slope_of(const ac_op_args *args) {
  return ((const ac_leaky_relu_attributes *)args->attributes)->slope;
}

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *x = args->in[0].data;
  float *y = args->out[0].data, slope = slope_of(args);
#pragma omp simd
  for (int64_t i = first; i < last; i++) y[i] = x[i] > 0.0f ? x[i] : slope * x[i];
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *dy = args->in[0].data, *y = args->in[1].data;
  float *dx = args->out[0].data, slope = slope_of(args);
#pragma omp simd
  for (int64_t i = first; i < last; i++) dx[i] = dy[i] * (y[i] > 0.0f ? 1.0f : slope);
}

AC_CPU_ELEMENTWISE(leaky_relu, forward_range, 1)
AC_CPU_ELEMENTWISE(leaky_relu_gradient, gradient_range, 2)
