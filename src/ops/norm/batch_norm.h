/* Batch norm, and how its running statistics are computed. The running mean and variance are those
 * of whole windows, but batch_norm sees one micro-batch at a time. So each micro-batch's statistics
 * are pooled over the window, as (count, mean, sum of squared differences from the mean) of each
 * channel, by the parallel formula of Chan, Golub and LeVeque (1979):
 *   d = mean2 - mean1,  n = n1 + n2,  mean = mean1 + d n2 / n,  M = M1 + M2 + d^2 n1 n2 / n
 * and once an update the result moves the running ones:
 *   running mean     += momentum (mean - running mean)
 *   running variance += momentum (M / (n - 1) - running variance)
 * For that the variance is kept in addition to 1/std: a float that holds 1 / sqrt(variance +
 * epsilon) has lost the digits of a variance far below epsilon.
 *
 * If a window's batch norm is exact (graph/window_norms.h), its micro-batches go through the ops
 * between two batch norms one after another, and the op batch_norm is not used:
 *   batch_norm_moments     x of each micro-batch, pooled as above, into (n, mean, M)
 *   batch_norm_statistics  (mean, r) of the window: r = 1 / sqrt(M / n + epsilon)
 *   batch_norm_apply       y = gamma h + beta, h = (x - mean) r
 *   batch_norm_sums        of each micro-batch, added up: sum of dy, sum of dy h
 *   batch_norm_input_gradient       dx = gamma r (dy - (sum of dy) / n - h (sum of dy h) / n)
 *   batch_norm_parameter_gradient   dgamma = sum of dy h,  dbeta = sum of dy
 *
 * Frozen statistics are constants. Then no sample depends on another, and with s = gamma r
 *   y = s (x - mean) + beta,  dx = s dy */
#ifndef AC_OPS_BATCH_NORM_H
#define AC_OPS_BATCH_NORM_H

#include "ops/arguments.h"

typedef struct ac_batch_norm_attributes {
  float epsilon;
  float momentum; /* of the running statistics, for whoever updates them */
  int32_t frozen; /* the running statistics are also used in training, and stay as they are */
} ac_batch_norm_attributes;

typedef struct ac_batch_norm_pool_attributes {
  int64_t per_sample; /* elements of a channel in one sample */
} ac_batch_norm_pool_attributes;

typedef struct ac_batch_norm_update_attributes {
  float momentum;
} ac_batch_norm_update_attributes;

#endif
