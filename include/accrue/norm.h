/** @file
 * Norms: what brings values to mean 0 and variance 1, or to squares of mean 1. */
#ifndef ACCRUE_NORM_H
#define ACCRUE_NORM_H

#include <accrue/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Layer norm over the last dimension: gamma * (x - mean) / sqrt(var + epsilon) + beta; arXiv
 * 1607.06450. gamma and beta are [C]; either may be NULL. epsilon 0: 1e-5. */
AC_API ac_tensor *ac_layer_norm(ac_tensor *x, ac_tensor *gamma, ac_tensor *beta, float epsilon);

/** Layer norm over the axes of a list such as AC_AXES(-3, -2, -1): gamma and beta have the shape of
 * these axes, in x's order; either may be NULL. AC_ALL_AXES are all but the batch, which cannot be
 * among them. Over the last axes, as PyTorch's normalized_shape names them, it is as fast as
 * ac_layer_norm. Other axes, such as the channels of images, are moved to the end and back, which
 * are copies. */
AC_API ac_tensor *ac_layer_norm_over(ac_tensor *x, ac_tensor *gamma, ac_tensor *beta, int count,
                                     const int *axes, float epsilon);

/** Root-mean-square norm over the last dimension: gamma * x / sqrt(mean(x^2) + epsilon); arXiv
 * 1910.07467. gamma is [C], and may be NULL. epsilon 0: 1e-5. */
AC_API ac_tensor *ac_rms_norm(ac_tensor *x, ac_tensor *gamma, float epsilon);

/** The same over the axes of a list, as ac_layer_norm_over. */
AC_API ac_tensor *ac_rms_norm_over(ac_tensor *x, ac_tensor *gamma, int count, const int *axes,
                                   float epsilon);

/** Group norm of images x [B, C, ...], such as [B, C, H, W]: gamma[c] * (x - mean) / sqrt(var +
 * epsilon) + beta[c]. Mean and variance are over a group of C / groups neighbouring channels of a
 * sample, with all their positions; arXiv 1803.08494. `groups` divides C. gamma and beta are [C];
 * either may be NULL. epsilon 0: 1e-5. */
AC_API ac_tensor *ac_group_norm(ac_tensor *x, ac_tensor *gamma, ac_tensor *beta, int groups,
                                float epsilon);
/** Like ac_group_norm, but mean and variance are over each channel of a sample; arXiv 1607.08022.
 */
AC_API ac_tensor *ac_instance_norm(ac_tensor *x, ac_tensor *gamma, ac_tensor *beta, float epsilon);
/** Like ac_group_norm, but mean and variance are over all channels and positions of a sample. This
 * is the layer norm of image models; ac_layer_norm is over the last dimension alone. */
AC_API ac_tensor *ac_sample_norm(ac_tensor *x, ac_tensor *gamma, ac_tensor *beta, float epsilon);

/** Settings of a batch norm. */
typedef struct ac_batch_norm_desc {
  float epsilon; /**< Added to the variance. 0: 1e-5. */
  /** How far an update moves the running statistics: running = (1 - momentum) running + momentum
   * measured. 0: 0.1. */
  float momentum;
  /** Training too uses the running statistics, as constants, and no update moves them: for
   * fine-tuning. Then no sample depends on another, so a batch may be split. gamma and beta are
   * trained, unless they are frozen parameters. */
  bool frozen_statistics;
} ac_batch_norm_desc;

/** Batch norm of x [B, C, ...]: like ac_group_norm, but mean and variance are over all samples of
 * the micro-batch and all positions of each channel; arXiv 1502.03167. x must have the batch as
 * first dimension. `desc` may be NULL.
 *
 * So the result for a sample depends on the rest of its micro-batch, and splitting a batch changes
 * it. A plan does not split the batch unless ac_plan_desc.batch_norm says otherwise.
 *
 * In evaluation mean and variance are running_mean and running_variance. These are frozen
 * parameters [C], which should start from 0 and 1. Each update moves them towards the mean and the
 * (unbiased) variance of all samples of its window. A skipped update does not.
 *
 * A single value of a channel has no variance. Plans, and batches of ac_fit_desc, are refused if
 * they would always have such a micro-batch: one sample of [B, C]. If only a short last window has
 * one, the result there is beta, x gets no gradient, and the running variance stays as it is. */
AC_API ac_tensor *ac_batch_norm(ac_tensor *x, ac_tensor *gamma, ac_tensor *beta,
                                ac_tensor *running_mean, ac_tensor *running_variance,
                                const ac_batch_norm_desc *desc);

/** Standardises the weight of a linear or convolutional layer, [O, ...]. The row of each output
 * gets mean 0 and variance 1: (w - mean) / sqrt(var + epsilon); arXiv 1903.10520. epsilon 0: 1e-5.
 */
AC_API ac_tensor *ac_weight_standardisation(ac_tensor *weight, float epsilon);

/** Settings of a local response norm. */
typedef struct ac_local_response_norm_desc {
  int size;    /**< Neighbouring channels. 0: 5. */
  float alpha; /**< Factor of the mean of their squares. 0: 1e-4. */
  float beta;  /**< The power. 0: 0.75. */
  float k;     /**< What is added before the power. 0: 1. */
} ac_local_response_norm_desc;

/** Each element of x [B, C, ...] by its neighbours in other channels at the same position:
 * x / (k + alpha m)^beta, where m is the sum of the squares of `size` channels around its own,
 * divided by `size`; Krizhevsky, Sutskever, Hinton 2012, as PyTorch's LocalResponseNorm. Of an even
 * size one channel more comes before it than after it. Channels that do not exist count as 0. It is
 * made of other ops. `desc` may be NULL. */
AC_API ac_tensor *ac_local_response_norm(ac_tensor *x, const ac_local_response_norm_desc *desc);

#ifdef __cplusplus
}
#endif
#endif
