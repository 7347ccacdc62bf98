/* Lion's step (formulas in ops/update/lion.h): one fused pass, bound by memory. */
#include "ops/update/lion.h"

#include "backend/cpu/update/update.h"

static void lion_step(const ac_op_args *args, int64_t first, int64_t count, float *m, float *none) {
  const ac_lion_attributes *a = args->attributes;
  const float *g = (const float *)args->in[0].data + first;
  float *p = (float *)args->out[0].data + first;
  float factor = a->gradient_factor, rate = a->rate, keep = 1.0f - a->rate * a->weight_decay;
  float beta1 = a->beta1, blend1 = a->take1, blend2 = a->take2;
  (void)none;
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    float gradient = factor * g[i], momentum = m[i];
    float direction = beta1 * momentum + blend1 * gradient;
    float sign = (float)((direction > 0) - (direction < 0));
    m[i] = momentum + blend2 * (gradient - momentum);
    p[i] = p[i] * keep - rate * sign;
  }
}
AC_CPU_OPTIMIZER(lion, 1, lion_step, NULL)
