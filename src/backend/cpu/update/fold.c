/* A gradient folded into an optimizer's state (formulas in ops/update/fold.h): one pass, bound by
 * memory.
 */
#include "ops/update/fold.h"

#include "backend/cpu/update/update.h"

static void average_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_fold_attributes *a = args->attributes;
  const float *g = args->in[0].data;
  float *m = args->out[0].data, *v = args->out[1].count ? args->out[1].data : NULL;
  const float factor = a->gradient_factor, take = a->take1, take2 = a->take2;
#pragma omp simd
  for (int64_t i = first; i < last; i++) m[i] += take * (factor * g[i] - m[i]);
  if (!v) return;
#pragma omp simd
  for (int64_t i = first; i < last; i++) {
    const float gradient = factor * g[i];
    v[i] += take2 * (gradient * gradient - v[i]);
  }
}

static void fold_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_fold_attributes *a = args->attributes;
  const float *g = args->in[0].data;
  float *m = args->out[0].data, *v = args->out[1].count ? args->out[1].data : NULL;
  if (a->is_average) {
    average_range(args, first, last);
    return;
  }
  const float take = a->take1, keep = a->keep1;
  const float factor = a->gradient_factor, take2 = a->take2, keep2 = a->keep2;
  if (!v) {
#pragma omp simd
    for (int64_t i = first; i < last; i++) m[i] = keep * m[i] + take * (factor * g[i]);
    return;
  }
#pragma omp simd
  for (int64_t i = first; i < last; i++) {
    const float gradient = factor * g[i];
    m[i] = keep * m[i] + take * gradient;
    v[i] = keep2 * v[i] + take2 * (gradient * gradient);
  }
}

static void fold(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for(context, args, args->in[0].count, 1, fold_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(fold) = {.run = fold};
