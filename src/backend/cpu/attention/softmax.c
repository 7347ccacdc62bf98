/* y = e^(x - max) / sum over the last dimension;  dx = y (dy - sum(dy y)). */
#include "backend/cpu/shared/kernels.h"
#include "backend/cpu/shared/reduce.h"
#include "backend/cpu/shared/vector_math.h"

static void forward_range(const ac_op_args *args, int64_t first, int64_t last) {
  int64_t columns = ac_columns(&args->in[0]);
  for (int64_t i = first; i < last; i++) {
    const float *x = (const float *)args->in[0].data + i * columns;
    float *y = (float *)args->out[0].data + i * columns;
    float max = row_max(x, columns);
#pragma omp simd
    for (int64_t j = 0; j < columns; j++) y[j] = exponential(x[j] - max);
    float inverse = 1.0f / row_sum(y, columns);
#pragma omp simd
    for (int64_t j = 0; j < columns; j++) y[j] *= inverse;
  }
}

static void gradient_range(const ac_op_args *args, int64_t first, int64_t last) {
  int64_t columns = ac_columns(&args->in[0]);
  for (int64_t i = first; i < last; i++) {
    const float *dy = (const float *)args->in[0].data + i * columns;
    const float *y = (const float *)args->in[1].data + i * columns;
    float *dx = (float *)args->out[0].data + i * columns;
    float dot = row_dot(dy, y, columns);
#pragma omp simd
    for (int64_t j = 0; j < columns; j++) dx[j] = y[j] * (dy[j] - dot);
  }
}

static void forward(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_rows(context, args, forward_range);
}

static void gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_rows(context, args, gradient_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(softmax) = {.run = forward, .workspace = ac_cpu_row_scratch};
const ac_cpu_kernel AC_CPU_KERNEL(softmax_gradient) = {.run = gradient,
                                                       .workspace = ac_cpu_row_scratch};
