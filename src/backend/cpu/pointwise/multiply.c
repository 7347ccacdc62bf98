/* c = a * b with b repeated along leading dimensions. */
#include "backend/cpu/pointwise/repeat.h"

static inline void multiply_run(const ac_op_args *args, const float *a, const float *b, float *c,
                                int64_t count) {
  if (args->add[0]) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) c[i] += a[i] * b[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) c[i] = a[i] * b[i];
  }
}

static void range(const ac_op_args *args, int64_t first, int64_t last) {
  ac_cpu_for_runs(args, first, last, multiply_run);
}

static void run(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_floats(context, args, args->out[0].count, 1, range);
}

const ac_cpu_kernel AC_CPU_KERNEL(multiply) = {.run = run};
