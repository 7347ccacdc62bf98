/* The sums of a loss op: reduced in double, kept as an unevaluated sum of two floats. */
#ifndef AC_BACKEND_CPU_LOSS_H
#define AC_BACKEND_CPU_LOSS_H

#include "backend/cpu/kernels.h"

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

#endif
