/* Lion's step (formulas in ops/lion.h): one fused pass, bound by memory. */
#include "ops/lion.h"

#include "backend/cpu/update.h"

static void lion_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_lion_attributes *a = args->attributes;
  const float *g = args->in[0].data;
  float *p = args->out[0].data, *m = args->out[1].data;
  float factor = a->gradient_factor, rate = a->rate, keep = 1.0f - a->rate * a->weight_decay;
  float beta1 = a->beta1, blend1 = 1.0f - a->beta1, blend2 = 1.0f - a->beta2;
#pragma omp simd
  for (int64_t i = first; i < last; i++) {
    float gradient = factor * g[i], momentum = m[i];
    float direction = beta1 * momentum + blend1 * gradient;
    float sign = (float)((direction > 0) - (direction < 0));
    m[i] = momentum + blend2 * (gradient - momentum);
    p[i] = p[i] * keep - rate * sign;
  }
  ac_cpu_copy_parameters(&args->out[2], p, first, last);
}

static void lion_floats(const ac_op_args *args, int64_t first, int64_t last) {
  stepped_range(args, first, last, lion_range);
}

static void lion(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_floats(context, args, args->in[0].count, 1, lion_floats);
}

const ac_cpu_kernel AC_CPU_KERNEL(lion) = {lion, NULL};
