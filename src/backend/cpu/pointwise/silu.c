/* y = x s with s = 1 / (1 + e^-x);  dy/dx = s + x s (1 - s). */
#include "backend/cpu/shared/kernels.h"
#include "backend/cpu/shared/stream.h"
#include "backend/cpu/shared/vector_math.h"

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *x = args->in[0].data;
  float *y = args->out[0].data;
#pragma omp simd
  for (int64_t i = first; i < last; i++) {
    float complement;
    y[i] = x[i] * sigmoid(x[i], &complement);
  }
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *dy = args->in[0].data, *x = args->in[1].data;
  float *dx = args->out[0].data;
#pragma omp simd
  for (int64_t i = first; i < last; i++) {
    float complement, s = sigmoid(x[i], &complement);
    dx[i] = dy[i] * (s + x[i] * s * complement);
  }
}

AC_CPU_ELEMENTWISE(silu, forward_range, 1)
AC_CPU_ELEMENTWISE(silu_gradient, gradient_range, 2)
