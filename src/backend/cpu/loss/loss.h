/* The sums of a loss op: reduced in double, kept as an unevaluated sum of two floats. And losses of
 * samples: their operands are predictions [B,...], targets and weights[B]?. */
#ifndef AC_BACKEND_CPU_LOSS_H
#define AC_BACKEND_CPU_LOSS_H

#include "backend/cpu/shared/kernels.h"

/* sums = {loss, weight, right, unused}, each high + low; added to what is there if `add`. */
static inline void store_loss_sums(float *sums, bool add, double loss, double weight,
                                   double right) {
  double totals[AC_LOSS_SUMS / 2] = {loss, weight, right, 0};
  for (int i = 0; i < AC_LOSS_SUMS / 2; i++) {
    if (add) totals[i] += (double)sums[2 * i] + (double)sums[2 * i + 1];
    float high = (float)totals[i], low = (float)(totals[i] - (double)high);
    sums[2 * i] = high;
    /* An infinite or NaN total has no low part. */
    sums[2 * i + 1] = low == low ? low : 0.0f;
  }
}

static inline int64_t sample_count(const ac_op_args *args) {
  return args->in[0].rank ? args->in[0].dim[0] : 1;
}

static inline double sample_weight(const ac_op_args *args, int64_t sample) {
  const float *weights = args->in[2].data;
  return args->in[2].count ? (double)weights[sample] : 1.0;
}

/* Gradients of a sample's elements, each times `factor`; of a factor of 0 they are 0. */
typedef void (*sample_gradient)(const float *prediction, const float *target, float *gradient,
                                int64_t count, float factor);

/* Elements [first, last), so that a sample of any size goes through in blocks. A sample's factor is
 * `factor` times its weight over the number of its elements. `gradient` is a constant where this is
 * inlined. */
static inline __attribute__((always_inline)) void sample_gradients(const ac_op_args *args,
                                                                   int64_t first, int64_t last,
                                                                   double factor,
                                                                   sample_gradient gradient) {
  int64_t size = args->in[0].count / sample_count(args);
  const float *p = args->in[0].data, *t = args->in[1].data;
  float *d = args->out[0].data;
  for (int64_t begin = first; begin < last;) {
    int64_t sample = begin / size, end = ac_smaller(last, (sample + 1) * size);
    double weight = sample_weight(args, sample);
    float own = (float)(weight * (double)ac_loss_scale(args) * factor / (double)size);
    gradient(p + begin, t + begin, d + begin, end - begin, own);
    begin = end;
  }
}

#endif
