/* y = x where x > 0, else slope x, NaN kept;  dx = dy where y > 0, else slope dy. */
#include "backend/cpu/kernels.h"
#include "backend/cpu/stream.h"
#include "ops/leaky_relu.h"

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

AC_CPU_STREAMED(forward_streamed, forward_range, 1)
AC_CPU_STREAMED(gradient_streamed, gradient_range, 2)

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_elements(context, args, forward_range, forward_streamed);
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_elements(context, args, gradient_range, gradient_streamed);
}

const ac_cpu_kernel AC_CPU_KERNEL(leaky_relu) = {forward, NULL};
const ac_cpu_kernel AC_CPU_KERNEL(leaky_relu_gradient) = {gradient, NULL};
