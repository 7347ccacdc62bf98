/* Rows of ones, as many as an integer says, and then zeros. */
#include "backend/cpu/shared/kernels.h"

static void range(const ac_op_args *args, int64_t first, int64_t last) {
  const int32_t *lengths = args->in[0].data;
  const int64_t columns = ac_columns(&args->out[0]);
  float *y = args->out[0].data;
  for (int64_t i = first; i < last; i++) {
    const int32_t length = lengths[i];
    float *row = y + i * columns;
#pragma omp simd
    for (int64_t t = 0; t < columns; t++) row[t] = t < length ? 1.0f : 0.0f;
  }
}

static void length_mask(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for(context, args, args->in[0].count, ac_columns(&args->out[0]), range);
}

const ac_cpu_kernel AC_CPU_KERNEL(length_mask) = {.run = length_mask};
