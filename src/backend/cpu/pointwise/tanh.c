/* y = tanh x;  dx = dy (1 - y^2). */
#include "backend/cpu/shared/kernels.h"
#include "backend/cpu/shared/stream.h"
#include "backend/cpu/shared/vector_math.h"

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *x = args->in[0].data;
  float *y = args->out[0].data;
#pragma omp simd
  for (int64_t i = first; i < last; i++) y[i] = hyperbolic_tangent(x[i]);
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *dy = args->in[0].data, *y = args->in[1].data;
  float *dx = args->out[0].data;
#pragma omp simd
  for (int64_t i = first; i < last; i++) dx[i] = dy[i] * ((1.0f - y[i]) * (1.0f + y[i]));
}

AC_CPU_ELEMENTWISE(tanh, forward_range, 1)
AC_CPU_ELEMENTWISE(tanh_gradient, gradient_range, 2)
