/* y = factor x^2;  dx = 2 factor x dy. */
#include "ops/pointwise/scaled_square.h"

#include "backend/cpu/shared/kernels.h"

static float factor_of(const ac_op_args *args) {
  return ((const ac_scaled_square_attributes *)args->attributes)->factor;
}

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *x = args->in[0].data;
  float *y = args->out[0].data, factor = factor_of(args);
  for (int64_t i = first; i < last; i++) y[i] = factor * x[i] * x[i];
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *dy = args->in[0].data, *x = args->in[1].data;
  float *dx = args->out[0].data, factor = factor_of(args);
  for (int64_t i = first; i < last; i++) dx[i] = 2 * factor * x[i] * dy[i];
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_floats(context, args, args->out[0].count, 1, forward_range);
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_floats(context, args, args->out[0].count, 1, gradient_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(scaled_square) = {.run = forward};
const ac_cpu_kernel AC_CPU_KERNEL(scaled_square_gradient) = {.run = gradient};
