/* y = 1 / (1 + e^-x);  dx = dy y (1 - y). */
#include "backend/cpu/kernels.h"
#include "backend/cpu/stream.h"
#include "backend/cpu/vector_math.h"

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *x = args->in[0].data;
  float *y = args->out[0].data;
#pragma omp simd
  for (int64_t i = first; i < last; i++) {
    float complement;
    y[i] = sigmoid(x[i], &complement);
  }
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *dy = args->in[0].data, *y = args->in[1].data;
  float *dx = args->out[0].data;
#pragma omp simd
  for (int64_t i = first; i < last; i++) dx[i] = dy[i] * (y[i] * (1.0f - y[i]));
}

AC_CPU_STREAMED(forward_streamed, forward_range, 1)
AC_CPU_STREAMED(gradient_streamed, gradient_range, 2)

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_elements(context, args, forward_range, forward_streamed);
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_elements(context, args, gradient_range, gradient_streamed);
}

const ac_cpu_kernel AC_CPU_KERNEL(sigmoid) = {forward, NULL};
const ac_cpu_kernel AC_CPU_KERNEL(sigmoid_gradient) = {gradient, NULL};
