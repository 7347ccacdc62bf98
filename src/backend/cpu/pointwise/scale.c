/* y = factor x */
#include "backend/cpu/shared/kernels.h"
#include "backend/cpu/shared/stream.h"
#include "ops/pointwise/scale.h"

static void range(const ac_op_args *args, int64_t first, int64_t last) {
  float factor = ((const ac_scale_attributes *)args->attributes)->factor;
  const float *x = args->in[0].data;
  float *y = args->out[0].data;
  if (args->add[0]) {
#pragma omp simd
    for (int64_t i = first; i < last; i++) y[i] += factor * x[i];
  } else {
#pragma omp simd
    for (int64_t i = first; i < last; i++) y[i] = factor * x[i];
  }
}

AC_CPU_ELEMENTWISE(scale, range, 1)
