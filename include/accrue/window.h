/** @file
 * Windows of a trainer. A window is one effective batch: samples are accumulated, and then an
 * update ends it. Micro-batches add up gradients of the *sum* of losses. The update divides once,
 * by the window's total weight.
 *
 * An update happens completely or not at all: if the loss, a gradient or a statistic of a batch
 * norm is not finite, only the report changes. There are two exceptions. With
 * AC_GRADIENTS_FUSED_LOCAL each parameter is stepped by itself, and a gradient that is not finite
 * leaves out only its own parameter. With AC_GRADIENTS_FOLDED what was folded cannot be undone.
 *
 * If the device fails within a window, discard the window. If it fails while parameters are
 * stepped, nothing can undo it. The trainer then refuses to train, evaluate and save until a state
 * is loaded. Or another trainer continues from parameters that were saved before. */
#ifndef ACCRUE_WINDOW_H
#define ACCRUE_WINDOW_H

#include <accrue/graph.h>
#include <accrue/metric.h>
#include <accrue/parameter_group.h>
#include <accrue/spike.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A plan with weights and an optimizer. */
typedef struct ac_trainer ac_trainer;

/* ---- the two-call form ----------------------------------------------------------------------- */

/** Data on the host for one input of the graph. */
typedef struct ac_feed {
  const char *name; /**< Name of the input. */
  const void
      *data; /**< The samples, one after another; of an input without the batch one tensor. */
} ac_feed;

/** Sets an input without the batch: the value for all samples until it is set or fed again. It is
 * part of no state: set it again after one is loaded. AC_ERROR_STATE in a window in which
 * parameters could not be written either (ac_trainer_set_parameter). */
AC_API ac_status ac_trainer_set_input(ac_trainer *trainer, const char *name, const void *data);

/** Tells how many samples the next window will have, and the weight of each loss over all of them,
 * in the order of ac_graph_add_loss. It is called before the first samples of the window, if the
 * plan has AC_LOSS_MEANS_GIVEN and has several losses or folds gradients.
 *
 * If the numbers turn out to be wrong, the update fails with AC_ERROR_ARGUMENT and changes nothing
 * except what was folded. Then discard the window. */
AC_API ac_status ac_trainer_begin_window(ac_trainer *trainer, int64_t samples,
                                         const double *weights, int weight_count);

/** Adds `count` samples to the window. Any number is accepted, unless the plan was made for whole
 * windows: then all samples come at once. They are split into micro-batches of the plan's size; the
 * last one may be smaller.
 *
 * Every input needs a feed, except for inputs without the batch that have a value already. Feeds
 * with other names are ignored. Integer ids are checked against the tables and classes that they
 * index. If the weights of losses are counted beforehand (ac_loss_means; also with
 * AC_GRADIENTS_FOLDED) the whole window comes at once, unless ac_trainer_begin_window gave the
 * weights. */
AC_API ac_status ac_trainer_accumulate(ac_trainer *trainer, int64_t count, const ac_feed *feeds,
                                       int feed_count);

/** What an update did. */
typedef struct ac_update {
  int64_t update; /**< Updates made so far. Includes this one unless it was skipped. */
  double loss;    /**< Nats per unit of weight, over the window. NaN if the window has no weight. */
  double weight;  /**< Samples, or tokens that count. With several losses: samples. */
  double lr;      /**< Learning rate. */
  double momentum; /**< Momentum or beta1. 0 if the optimizer has none. */
  /** Norm of the gradient of the mean loss, unscaled, before clipping. NaN if gradients are folded
   * or the window has no weight. */
  double grad_norm;
  double loss_scale; /**< Loss scale of this window. 1 without loss scaling. */
  /** Nothing changed: something was not finite, the weight was zero, or `decide` asked for it. */
  bool skipped;
  bool finite_loss; /**< The loss is finite. */
  /** The gradients are finite. So are the means and variances of batch norms, and the squares of
   * clipped gradients that optimizers other than SGD and Lion keep; for these the norm must be
   * below 1.8e19. If one of them is not finite, grad_norm is infinite. */
  bool finite_gradient;
  /** The window was skipped, and a lower loss scale cannot help: the scale is at its floor, a
   * static scale has failed in ten windows in a row, or there is no scaling. Or parameters were
   * left out with the scale at its floor, or in ten windows in a row. The model diverges, its data
   * are not finite, or a loss has so little weight that no scale helps. */
  bool stuck;

  /* ---- may still change ---- */

  double AC_UNSTABLE(noise_scale); /**< ac_noise_scale.batch as it is now. NaN: not known. */
  /** AC_GRADIENTS_FUSED_LOCAL: how many parameters were not stepped because their gradients were
   * not finite. The others were stepped unless `skipped`. */
  int AC_UNSTABLE(left_out);
  /** The part of grad_norm of each group. The squares of the parts add up. */
  double AC_UNSTABLE(group_norms)[AC_MAX_GROUPS];
  int AC_UNSTABLE(group_count); /**< How many groups there are. */
  /** Each loss. `loss` is the sum of factor x mean. */
  AC_UNSTABLE(ac_loss_mean) AC_UNSTABLE(losses)[AC_MAX_LOSSES];
  int AC_UNSTABLE(loss_count); /**< How many losses there are. */
  /** As ac_trainer_desc.spikes asks. */
  AC_UNSTABLE(ac_spike) AC_UNSTABLE(spike);
  /** Each metric (ac_graph_add_metric). */
  ac_metric AC_UNSTABLE(metrics)[AC_MAX_METRICS];
  int AC_UNSTABLE(metric_count); /**< How many metrics there are. */
  bool AC_UNSTABLE(layers);      /**< Layers were measured (ac_trainer_desc.layers_every). */
} ac_update;

/** Ends the window: checks, unscales, clips, divides, and steps. `result` may be NULL. An empty
 * window is AC_ERROR_STATE.
 *
 * If the window is not finite it returns AC_OK with `skipped`. Parameters, moments, updates made,
 * schedule and random numbers are as before; only a dynamic loss scale is lower. The same samples
 * may then be accumulated again, or others. A window without weight is skipped in the same way.
 *
 * With AC_GRADIENTS_FOLDED a window that is not finite is AC_ERROR_NOT_FINITE. A window without
 * weight, with weights that the graph computes, is AC_ERROR_ARGUMENT. Both spoil optimizer state:
 * the trainer cannot be used until a state is loaded. A decision that skips or scales is
 * AC_ERROR_STATE. */
AC_API ac_status ac_trainer_update(ac_trainer *trainer, ac_update *result);

/** Throws away what the window has accumulated, and its failure. A failed update that has begun to
 * step parameters cannot be thrown away. Nor can what was folded (AC_GRADIENTS_FOLDED): the trainer
 * then cannot be used until a state is loaded. With AC_GRADIENTS_SHARDED all ranks call it, also
 * those that had no sample of the window. */
AC_API void ac_trainer_discard(ac_trainer *trainer);

/* ---- may still change ------------------------------------------------------------------------ */

/** The result of a window, before anything changes. */
typedef struct AC_UNSTABLE(ac_decision) {
  double loss;      /**< As in ac_update. */
  double weight;    /**< As in ac_update. */
  double grad_norm; /**< As in ac_update. */
  /** Loss, gradients, and the means and variances of batch norms are finite. If not, the window is
   * skipped, unless finite gradients are written. */
  bool finite;
  /** The update multiplies gradients of the mean loss by this: the factor of clipping, or 1. May be
   * set to another number that is finite and not negative. Groups with their own clip keep theirs.
   * With AC_CLIP_EACH the factor of each parameter is applied after this one. With AC_CLIP_VALUE
   * and AC_CLIP_ADAPTIVE the gradients are multiplied by this and then clipped. */
  double factor;
  /** May be set: nothing changes, as if the window were not finite, but a dynamic loss scale stays.
   * AC_SPIKE_SKIP and AC_SPIKE_BACK set it. It may be reset; then ac_fit does not go back either.
   */
  bool skip;
  bool spike; /**< As ac_spike.alarm. */
} AC_UNSTABLE(ac_decision);

/** Called in ac_trainer_update after gradients are reduced, to decide on the update. With several
 * ranks each has all gradients then, which costs 4 more bytes of exchange a parameter.
 *
 * It may read gradients and parameters (ac_trainer_get_mean_gradient, ac_trainer_gradient_norm,
 * ac_trainer_get_parameter), for example for histograms. It may write gradients
 * (ac_trainer_set_gradient), for example to clip them in its own way. It may not change anything
 * else: such calls are refused with AC_ERROR_STATE, and ac_trainer_discard does nothing.
 *
 * If it writes gradients, norms, spikes and finiteness are measured again. `factor` and `skip` are
 * then computed again, unless it changed them. With AC_GRADIENTS_FUSED_LOCAL there is no such
 * moment, and a trainer with this callback is refused. */
typedef void (*AC_UNSTABLE(ac_decide))(void *user, ac_trainer *trainer,
                                       AC_UNSTABLE(ac_decision) *decision);

#ifndef AC_STABLE_ONLY

/** Runs one micro-batch (count <= micro_batch; with exact batch norm a window, count <= batch) op
 * by op, and finds the first op with a result that is not finite. `text` receives "input images",
 * "parameter w", "parameter w, too large for f16", "op layer_norm (h.0.ln_1)", or "" if all is
 * finite. The window is not changed. AC_ERROR_STATE if a window is in progress that a plan for
 * whole windows takes as one micro-batch, or with exact batch norm. Also with exact batch norm over
 * several ranks, where the statistics are those of all ranks: ac_fit finds it there, and its error
 * names the rank. */
AC_API ac_status ac_trainer_locate_nonfinite(ac_trainer *trainer, int64_t count,
                                             const ac_feed *feeds, int feed_count, char *text,
                                             size_t size);

/** Reads elements of a gradient: the gradient of the *sum* of losses over what the window has
 * accumulated so far, times the loss's factor, without the loss scale. The update divides it by
 * ac_update.weight. With several losses it is the sum over losses of factor x samples / weight x
 * gradient of the loss's sum, and the update divides by samples.
 *
 * AC_ERROR_STATE in an empty window, and if the plan keeps no gradients (any other way than
 * AC_GRADIENTS_BUFFER and AC_GRADIENTS_SHARDED, and of that one at any time but while an update is
 * decided). AC_ERROR_ARGUMENT if the parameter is frozen, or elements are beyond
 * ac_trainer_gradient_part. With several ranks these are the gradients of this rank's samples;
 * after an update that has failed, when each rank has its part of the sum of all, AC_ERROR_STATE.
 */
AC_API ac_status ac_trainer_get_gradient(ac_trainer *trainer, int index, int64_t first,
                                         int64_t count, float *data);

/** Which elements of a parameter's gradient this rank keeps: *count of them from *first on. With
 * AC_GRADIENTS_SHARDED these are its part of the sum of all ranks, perhaps none, and only they can
 * be read and written here. Else all. 0 of a parameter that is frozen. */
AC_API ac_status ac_trainer_gradient_part(const ac_trainer *trainer, int index, int64_t *first,
                                          int64_t *count);

/** Writes elements of a gradient, with the units and errors of ac_trainer_get_gradient: within a
 * window, where further samples add to it, or while its update is decided (ac_decide). Values are
 * multiplied by the loss scale, and rounded to nearest with AC_GRADIENT_BF16. A value that does not
 * fit then is infinite, and the window is skipped. Such a window does not count for the gradient
 * noise scale. With several ranks only while the update is decided, when each has the sum of all:
 * all of them write the same, or none does, or the update fails with AC_ERROR_STATE. With
 * AC_GRADIENTS_SHARDED each writes in its own part, or not. */
AC_API ac_status ac_trainer_set_gradient(ac_trainer *trainer, int index, int64_t first,
                                         int64_t count, const float *data);

/** While an update is decided: reads elements of the gradient of the mean loss, divided and
 * unscaled, before clipping. Its norm is ac_trainer_gradient_norm. AC_ERROR_STATE at any other
 * time, in a window without weight, and if the plan keeps no gradients. */
AC_API ac_status ac_trainer_get_mean_gradient(ac_trainer *trainer, int index, int64_t first,
                                              int64_t count, float *data);

/** The norm of one parameter's gradient of the mean loss, unscaled, before clipping. It is that of
 * the window with the update that is being decided (ac_decide), or of the last window. 0 if the
 * parameter is not trained, before the first update, and within a window that measures noise. NaN
 * if the plan folds gradients. */
AC_API double ac_trainer_gradient_norm(const ac_trainer *trainer, int index);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
