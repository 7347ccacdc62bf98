/** @file
 * Watching a run: the noise of gradients, what updates do in each layer, and what 16 bits lose. */
#ifndef ACCRUE_WATCH_H
#define ACCRUE_WATCH_H

#include <accrue/window.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/* ---- gradient noise -------------------------------------------------------------------------- */

/** The gradient noise scale tr Sigma / |G|^2, arXiv 1812.06162, appendix A. With batches larger
 * than this, gradients agree, and a still larger batch saves hardly any updates.
 *
 * G is the true gradient. Sigma is the covariance of the gradient of a single sample. Both are
 * estimated without bias, from the norms of the gradient after the first micro-batch of a window
 * and after all of it: with norms |G_b|^2 and |G_B|^2 of the means over b and B samples,
 * |G|^2 = (B |G_B|^2 - b |G_b|^2) / (B - b) and tr Sigma = (|G_b|^2 - |G_B|^2) / (1/b - 1/B).
 * They are averaged over windows, with weights that fall by 0.5 % from each window to the one
 * before, and then divided. Means of losses are by weight, so «a sample» is one with the mean
 * weight of its window.
 *
 * With several ranks |G_b|^2 and 1/b are means over the first micro-batches of all ranks that have
 * a sample, so a window of one micro-batch a rank is measured. With one rank such a window is not.
 * Nothing is measured with exact batch norm, or if the plan keeps no gradients. */
typedef struct ac_noise_scale {
  int64_t windows;         /**< Windows measured so far. */
  double gradient_squares; /**< |G|^2. NaN before the first measurement. */
  double variance;         /**< tr Sigma, of one sample. NaN before the first measurement. */
  double batch;     /**< The scale in samples. NaN: not known, also if |G|^2 is not above 0. */
  double deviation; /**< Deviation of `batch`, from the spread over windows. NaN: not known. */
} ac_noise_scale;

/** The gradient noise scale as it is now. */
AC_API ac_status ac_trainer_noise_scale(const ac_trainer *trainer, ac_noise_scale *result);

/** With ac_trainer_desc.noise_layers: the noise scale of one parameter's gradient, from its own
 * norms. |G|^2 and tr Sigma of all parameters add up to those of the whole. If it was not asked
 * for, or the parameter is not trained, `windows` is 0. AC_ERROR_ARGUMENT if no parameter has this
 * index. It is saved in states. */
AC_API ac_status ac_trainer_noise_scale_of(const ac_trainer *trainer, int index,
                                           ac_noise_scale *result);

/* ---- layers ---------------------------------------------------------------------------------- */

/** What the measured updates say about a parameter. */
typedef enum ac_layer_hint {
  AC_LAYER_NO_HINT = 0, /**< Nothing special, or fewer than three updates were measured. */
  AC_LAYER_DEAD,        /**< Its gradient was zero each time. */
  AC_LAYER_DEAD_UNITS,  /**< Some of its outputs had no gradient: dead units of a ReLU. */
  AC_LAYER_VANISHING    /**< gradient_size is 10,000 times below that of the median parameter. */
} ac_layer_hint;

/** What updates do to a parameter. Norms are Euclidean, over all elements. If a parameter has more
 * than 65,536 elements, its weights are read in 16 blocks of 4,096, spread evenly from the first
 * element to the last. Then weight_norm and update_ratio are estimates. For a parameter that is not
 * trained `measured` is 0. */
typedef struct ac_layer_report {
  /** The last update that was measured, counted as in ac_update. 0: none since the trainer was
   * created or loaded a state; norms are then NaN. */
  int64_t update;
  /** Norm of the gradient of the mean loss, unscaled, before clipping. NaN: gradients are folded.
   */
  double gradient_norm;
  double weight_norm;  /**< Norm of the weights before the update. */
  double update_ratio; /**< Norm of the change / weight_norm. NaN if weight_norm is 0. */
  /** How many updates were measured. This and the following members are saved in states. */
  int64_t measured;
  int64_t zero; /**< How many of these had a gradient of zero. */
  /** The geometric mean of gradient_norm / sqrt(elements) over the others. NaN: there are none. */
  double gradient_size;
  /** Outputs of the layer, if the parameter is its matrix. 0: it is not a matrix, or the plan keeps
   * no gradients. */
  int64_t units;
  int64_t dead_units; /**< Outputs with gradients that were all zero each time. */
  ac_layer_hint hint; /**< What this means. */
} ac_layer_report;

/** What updates do to a parameter (ac_trainer_desc.layers_every). AC_ERROR_STATE if layers are not
 * measured. */
AC_API ac_status ac_trainer_layer(const ac_trainer *trainer, int index, ac_layer_report *result);

/* ---- numerics -------------------------------------------------------------------------------- */

/** With ac_plan_desc.debug_numerics: what one op has stored in 16 bits, from the creation of the
 * trainer to the last update. */
typedef struct ac_numerics {
  const char *op;     /**< As in ac_plan_step. */
  const char *scope;  /**< As in ac_plan_step. */
  bool backward;      /**< It is part of the backward pass. */
  int64_t values;     /**< Values stored. */
  int64_t overflowed; /**< How many of these are not finite. */
  int64_t flushed;    /**< Only f16: how many were stored as zero but are not zero. */
} ac_numerics;

/** How many ops store in 16 bits and are counted. These are all except ops that only copy values.
 */
AC_API int ac_trainer_numerics_count(const ac_trainer *trainer);

/** The counts of one of these ops. */
AC_API ac_status ac_trainer_numerics(const ac_trainer *trainer, int index, ac_numerics *result);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
