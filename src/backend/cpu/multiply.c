/* c = a * b with b repeated along leading dimensions. */
#include "backend/cpu/kernels.h"

static void range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *a = args->in[0].data, *b = args->in[1].data;
  float *c = args->out[0].data;
  int64_t period = args->in[1].count;
  for (int64_t begin = first; begin < last;) {
    int64_t offset = begin % period, end = ac_min(last, begin - offset + period);
    int64_t count = end - begin;
    const float *x = a + begin, *repeated = b + offset;
    float *y = c + begin;
    if (args->add[0]) {
#pragma omp simd
      for (int64_t i = 0; i < count; i++) y[i] += x[i] * repeated[i];
    } else {
#pragma omp simd
      for (int64_t i = 0; i < count; i++) y[i] = x[i] * repeated[i];
    }
    begin = end;
  }
}

static void run(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_floats(context, args, args->out[0].count, 1, range);
}

const ac_cpu_kernel AC_CPU_KERNEL(multiply) = {run, NULL};
