/* y = max(x, 0), NaN kept;  dx = dy where y > 0. */
#include "backend/cpu/shared/kernels.h"
#include "backend/cpu/shared/stream.h"

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *x = args->in[0].data;
  float *y = args->out[0].data;
#pragma omp simd
  for (int64_t i = first; i < last; i++) y[i] = x[i] < 0.0f ? 0.0f : x[i];
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *dy = args->in[0].data, *y = args->in[1].data;
  float *dx = args->out[0].data;
#pragma omp simd
  for (int64_t i = first; i < last; i++) {
    float gradient = dy[i]; /* loaded in any case, so that it is a select */
    dx[i] = y[i] > 0.0f ? gradient : 0.0f;
  }
}

AC_CPU_ELEMENTWISE(relu, forward_range, 1)
AC_CPU_ELEMENTWISE(relu_gradient, gradient_range, 2)
