/** @file
 * Losses: what training minimises. A loss yields three sums: of the weighted losses, of the
 * weights, and of the weights of rows that were classified right. The division happens once a
 * window, so that unequal micro-batches give the right result.
 *
 * graph.h includes this header. In the shapes below B is the batch, T a position, C a channel, V a
 * class, and `...` any dimensions. Losses, like other builders, return NULL once the graph has
 * failed. Weights are f32, finite and >= 0; NULL: ones. */
#ifndef ACCRUE_LOSS_H
#define ACCRUE_LOSS_H

#include <accrue/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- losses of rows and samples -------------------------------------------------------------- */

/** Settings of a cross-entropy. */
typedef struct ac_cross_entropy_desc {
  bool ignore;          /**< Rows with the target `ignore_index` have no weight. */
  int32_t ignore_index; /**< Such as -100 or -1. */
  /** Label smoothing s in [0, 1). While training the target is (1 - s) onehot + s / V; arXiv
   * 1512.00567. In evaluation it is onehot. */
  float smoothing;
} ac_cross_entropy_desc;

/** Softmax cross-entropy in nats. logits are [..., V], targets i32 [...], weights f32 [...]
 * (finite, >= 0) or NULL for ones. `desc` may be NULL. */
AC_API ac_tensor *ac_cross_entropy(ac_tensor *logits, ac_tensor *targets, ac_tensor *weights,
                                   const ac_cross_entropy_desc *desc);

/** ac_cross_entropy(ac_linear(x, weight, NULL, layout), targets, weights, desc) for large
 * vocabularies. x is [..., C], weight [V, C] or [C, V]. The logits are computed a few rows at a
 * time, in at most 64 MiB (or one row), and never stored as a whole. Loss and gradients come out of
 * one pass over them, so training costs no more arithmetic than with separate ops. */
AC_API ac_tensor *ac_linear_cross_entropy(ac_tensor *x, ac_tensor *weight, ac_layout layout,
                                          ac_tensor *targets, ac_tensor *weights,
                                          const ac_cross_entropy_desc *desc);

/** The mean of (prediction - target)^2 over each sample's elements. Both are [B, ...] f32; weights
 * are [B] or NULL. Target and weights must not depend on trained parameters. Otherwise a plan fails
 * with AC_ERROR_UNSUPPORTED. */
AC_API ac_tensor *ac_mean_squared_error(ac_tensor *prediction, ac_tensor *target,
                                        ac_tensor *weights);

/** The mean over each sample's elements of the cross-entropy, in nats, between a target in [0, 1]
 * and the probability 1 / (1 + exp(-logit)). Both are [B, ...] f32; weights are [B] or NULL. A
 * sample is classified right if each logit is >= 0 where the target is >= 1/2, and < 0 elsewhere.
 */
AC_API ac_tensor *ac_binary_cross_entropy(ac_tensor *logits, ac_tensor *targets,
                                          ac_tensor *weights);

/* ---- losses of one's own --------------------------------------------------------------------- */

/** A loss of one's own. `per_row` [B, ...] f32 holds a row's loss in each element, of any sign. Its
 * sum is what training minimises, divided once a window like every loss: by the rows, or by the
 * weights. Weights are f32, finite and >= 0: of the shape of `per_row`, or of its first dimensions
 * ([B], or [B, 1], for [B, T]), so that the rows of a sample share one; NULL: ones. A row of weight
 * 0 counts for nothing, but what it is computed from must have finite gradients. Nothing is
 * classified right. Weights must not depend on trained parameters: multiply `per_row` with such
 * factors. */
AC_API ac_tensor *ac_loss(ac_tensor *per_row, ac_tensor *weights);

/* ---- the losses of a graph ------------------------------------------------------------------- */

/** Sets what training minimises: the only loss of a graph. */
AC_API void ac_graph_set_loss(ac_graph *graph, ac_tensor *loss);

/** Limit of ac_graph_add_loss. */
enum {
  AC_MAX_LOSSES = 8 /**< Most losses of a graph. */
};

/* ---- may still change ------------------------------------------------------------------------ */

/** The mean of one of the losses of a graph, over a window or a dataset. */
typedef struct AC_UNSTABLE(ac_loss_mean) {
  const char *name; /**< As given to ac_graph_add_loss. "" with ac_graph_set_loss. */
  double loss;      /**< Per unit of weight, in nats or the loss's own unit. NaN without weight. */
  /** Weighted share of rows that are classified right. 0 for losses without classes. NaN without
   * weight. */
  double accuracy;
  double weight; /**< Its weight; with AC_LOSS_MEANS_PER_SAMPLE the samples. */
} AC_UNSTABLE(ac_loss_mean);

#ifndef AC_STABLE_ONLY

/** Adds one of several losses. Training minimises the sum of factor x mean. The mean of a loss is
 * its own sum divided by its own weight, and it is reported under its name. A factor is positive
 * and fits into a float. Names are UTF-8, of at most AC_MAX_NAME bytes.
 *
 * The gradient of each loss is divided by the loss's weight before it is added to the others. If
 * rows are weighted or ignored, the weights of a window must be known before its first micro-batch:
 * see ac_plan_desc.loss_means. Build a loss right after the tensors that it reads. What is built in
 * between may have to be kept for it. */
AC_API void ac_graph_add_loss(ac_graph *graph, const char *name, ac_tensor *loss, double factor);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
