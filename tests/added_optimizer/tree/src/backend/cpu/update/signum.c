/* Signum's step (formulas in ops/update/signum.h): one fused pass, bound by memory. */
#include "ops/update/signum.h"

#include "backend/cpu/update/update.h"

static void signum_step(const ac_op_args *args, int64_t first, int64_t count, float *m,
                        float *none) {
  const ac_signum_attributes *a = args->attributes;
  const float *g = (const float *)args->in[0].data + first;
  float *p = (float *)args->out[0].data + first;
  float factor = a->gradient_factor, rate = a->rate, keep = 1.0f - a->rate * a->weight_decay;
  float take = a->take;
  (void)none;
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    float momentum = m[i] + take * (factor * g[i] - m[i]);
    m[i] = momentum;
    p[i] = p[i] * keep - rate * (float)((momentum > 0) - (momentum < 0));
  }
}
AC_CPU_OPTIMIZER(signum, 1, signum_step, NULL)
