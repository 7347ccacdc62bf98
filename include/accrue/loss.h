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
  /** The axis of the classes. 0: the last one; negative: counted from the end. Another than the
   * last is brought to the end by a transposition, which is a part of the plan. 1 suits logits of
   * images, [B, V, H, W] with targets [B, H, W]. ac_linear_cross_entropy has no other than the
   * last. */
  int axis;

  /* ---- may still change ---- */

  /** Bounds the logits, for ac_linear_cross_entropy alone: cap tanh(z / cap), as in Gemma 2. 0:
   * none. */
  float AC_UNSTABLE(soft_cap);
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

/** Settings of ac_ctc_loss. */
typedef struct ac_ctc_loss_desc {
  int blank;          /**< The class of the blank. */
  bool zero_infinity; /**< A target that is too long for its sample has the loss 0, not infinity. */
} ac_ctc_loss_desc;

/** Connectionist temporal classification: -log of the sum of the probabilities of all paths that
 * become the target when repetitions and then blanks are left out; Graves et al. 2006, in the log
 * domain. Logits are [B, T, V] f32 (softmax is a part of the loss), targets i32 [B, S] in [0, V),
 * without blanks. Of sample b the first input_lengths[b] positions count, i32 [B] in [0, T], and
 * the first target_lengths[b] targets, in [0, S]; NULL: all. Weights are [B] or NULL. `desc` may be
 * NULL.
 *
 * The loss of a sample is a sum over its positions, PyTorch's with reduction "none". If no path has
 * the target, it is infinite, and the gradient NaN, or both are 0 (zero_infinity). */
AC_API ac_tensor *ac_ctc_loss(ac_tensor *logits, ac_tensor *targets, ac_tensor *input_lengths,
                              ac_tensor *target_lengths, ac_tensor *weights,
                              const ac_ctc_loss_desc *desc);

/* ---- losses of one's own --------------------------------------------------------------------- */

/** A loss of one's own. `per_row` [B, ...] f32 holds a row's loss in each element, of any sign. Its
 * sum is what training minimises, divided once a window like every loss: by the rows, or by the
 * weights. Weights are f32, finite and >= 0: of the shape of `per_row`, or of its first dimensions
 * ([B], or [B, 1], for [B, T]), so that the rows of a sample share one; NULL: ones. A row of weight
 * 0 counts for nothing, but what it is computed from must have finite gradients. Nothing is
 * classified right. Weights must not depend on trained parameters: multiply `per_row` with such
 * factors. */
AC_API ac_tensor *ac_loss(ac_tensor *per_row, ac_tensor *weights);

/* ---- losses that are made of other ops --------------------------------------------------------
 */

/* All that they take may be trained but weights: predictions and targets get a gradient alike. A
 * sample's loss is the mean over its elements, and weights are [B], or a loss belongs to a row and
 * weights are like ac_loss's. What a derivative is where there is none follows PyTorch. */

/** The mean of |prediction - target| over each sample's elements. Both are [B, ...] f32. */
AC_API ac_tensor *ac_l1_loss(ac_tensor *prediction, ac_tensor *target, ac_tensor *weights);

/** The mean over each sample's elements of e^2 / 2 where |e| <= delta, else delta (|e| - delta /
 * 2), e = prediction - target; Huber 1964. Both are [B, ...] f32. 0 < delta < infinity. */
AC_API ac_tensor *ac_huber_loss(ac_tensor *prediction, ac_tensor *target, ac_tensor *weights,
                                float delta);

/** The mean over each sample's elements of alpha_t (1 - p_t)^gamma times the binary cross-entropy,
 * where p_t is the probability of the target: p t + (1 - p)(1 - t), p = 1 / (1 + exp(-logit)), and
 * alpha_t = alpha t + (1 - alpha)(1 - t), or 1 if alpha is negative; arXiv 1708.02002, and
 * torchvision's sigmoid_focal_loss. Both are [B, ...] f32, targets in [0, 1]. alpha <= 1. 0 <=
 * gamma < infinity; the paper has alpha 0.25 and gamma 2. */
AC_API ac_tensor *ac_focal_loss(ac_tensor *logits, ac_tensor *targets, ac_tensor *weights,
                                float alpha, float gamma);

/** The mean of max(0, margin - target prediction) over each sample's elements, for targets -1
 * and 1. Both are [B, ...] f32. 0 <= margin < infinity; 1 is usual. */
AC_API ac_tensor *ac_hinge_loss(ac_tensor *prediction, ac_tensor *target, ac_tensor *weights,
                                float margin);

/** The mean over each sample's elements of (log v + (mean - target)^2 / v) / 2, v = max(variance,
 * 1e-6): the negative log-likelihood of a normal distribution, less a constant. All are [B, ...]
 * f32.
 */
AC_API ac_tensor *ac_gaussian_nll(ac_tensor *mean, ac_tensor *target, ac_tensor *variance,
                                  ac_tensor *weights);

/** The mean over each sample's elements of exp(log_rate) - target log_rate: the negative
 * log-likelihood of a Poisson distribution, less log(target!). Both are [B, ...] f32. */
AC_API ac_tensor *ac_poisson_nll(ac_tensor *log_rate, ac_tensor *target, ac_tensor *weights);

/** -sum p log softmax(logits) over the last dimension, for targets that are probabilities p:
 * distillation, mixup. Both are [B, ..., V] f32, weights like those of ac_loss for rows [B, ...].
 */
AC_API ac_tensor *ac_soft_cross_entropy(ac_tensor *logits, ac_tensor *probabilities,
                                        ac_tensor *weights);

/** temperature^2 sum p (log p - log q) over the last dimension, with p = softmax(target_logits /
 * temperature) and q = softmax(logits / temperature). The factor keeps the size of gradients;
 * arXiv 1503.02531. Both are [B, ..., V] f32, weights like those of ac_loss for rows [B, ...].
 * 0 < temperature < infinity. */
AC_API ac_tensor *ac_kl_divergence(ac_tensor *logits, ac_tensor *target_logits, ac_tensor *weights,
                                   float temperature);

/** max(0, |anchor - positive| - |anchor - negative| + margin) with Euclidean distances over the
 * last dimension; 1e-6 is added to each difference, as in PyTorch. All are [B, ..., D] f32, weights
 * like those of ac_loss for rows [B, ...]. 0 <= margin < infinity; arXiv 1503.03832. */
AC_API ac_tensor *ac_triplet_loss(ac_tensor *anchor, ac_tensor *positive, ac_tensor *negative,
                                  ac_tensor *weights, float margin);

/** 1 - cos(a, b) where label is 1, max(0, cos(a, b) - margin) where it is -1, over the last
 * dimension. a and b are [B, ..., D] f32, label is [B, ...] f32, weights like those of ac_loss for
 * rows [B, ...]. -1 <= margin <= 1. */
AC_API ac_tensor *ac_cosine_embedding_loss(ac_tensor *a, ac_tensor *b, ac_tensor *label,
                                           ac_tensor *weights, float margin);

/** In-batch contrastive loss (InfoNCE both ways, as in CLIP; arXiv 2103.00020). A sample is a
 * group: a and b are [B, N, D] f32, N pairs. With unit vectors a and b over D and s[i, j] = a[i]
 * b[j] / temperature, the loss of pair i is
 *
 *     (log sum over j of exp(s[i, j]) + log sum over j of exp(s[j, i])) / 2 - s[i, i]
 *
 * Weights are [B], [B, N] or NULL. 0 < temperature < infinity. */
AC_API ac_tensor *ac_contrastive_loss(ac_tensor *a, ac_tensor *b, ac_tensor *weights,
                                      float temperature);

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

/** weights * log softmax(ac_linear(x, weight, NULL, layout))[target] - less, for each row: the
 * logarithm of the probability, in nats, that a head gives to the target. x is f32 [..., C], weight
 * [V, C] or [C, V], targets i32 [...] in [0, V), weights f32 [...] or NULL for ones, less f32 [...]
 * or NULL for zeros. A soft_cap that is not 0 bounds the logits as that of ac_cross_entropy_desc
 * does. The result is [...], and may be used like any other; it is f32 in every precision.
 *
 * The logits are computed a few rows at a time, in at most 64 MiB (or one row), and never stored as
 * a whole; the backward pass computes them again. `less` is for the same number of another model,
 * such as the reference of ac_dpo_loss: the difference is taken before anything is rounded to 16
 * bits. Targets, weights and `less` must not depend on trained parameters (ac_stop_gradient). */
AC_API ac_tensor *ac_linear_log_probability(ac_tensor *x, ac_tensor *weight, ac_layout layout,
                                            ac_tensor *targets, ac_tensor *weights, ac_tensor *less,
                                            float soft_cap);

/** Settings of ac_dpo_loss. */
typedef struct ac_dpo_desc {
  float beta;            /**< How strongly the policy is held near the reference. 0: 0.1. */
  float label_smoothing; /**< The share of pairs that are the wrong way round, in [0, 0.5]. */
} ac_dpo_desc;

/** Direct preference optimisation, arXiv 2305.18290, with label smoothing as in its conservative
 * form. All are f32 [B, ...]: the logarithms of the probabilities that the trained model (policy)
 * and the one before (reference) give to the answer that was chosen and to the one that was
 * rejected, each the sum over its tokens (ac_linear_log_probability, ac_sum). With
 *
 *     z = beta ((policy_chosen - reference_chosen) - (policy_rejected - reference_rejected))
 *
 * the loss of a pair is -(1 - s) log sigmoid(z) - s log sigmoid(-z). Both references may be NULL:
 * then the policy's numbers are already differences, which a plan in 16 bits needs, since it would
 * round the numbers themselves before it subtracts them. Weights are those of ac_loss. */
AC_API ac_tensor *ac_dpo_loss(ac_tensor *policy_chosen, ac_tensor *policy_rejected,
                              ac_tensor *reference_chosen, ac_tensor *reference_rejected,
                              ac_tensor *weights, const ac_dpo_desc *desc);

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
