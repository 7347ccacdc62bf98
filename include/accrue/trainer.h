/** @file
 * Training: a trainer runs a plan. All memory is allocated when the trainer is created: on the
 * device exactly the plan's total. Training itself allocates nothing.
 *
 * A window is one effective batch. Micro-batches add up gradients of the *sum* of losses. The
 * update at the end of the window divides once, by the window's total weight.
 *
 * An update happens completely or not at all: if the loss, a gradient or a statistic of a batch
 * norm is not finite, only the report changes. There are two exceptions. With
 * AC_GRADIENTS_FUSED_LOCAL each parameter is stepped by itself, and a gradient that is not finite
 * leaves out only its own parameter. With AC_GRADIENTS_FOLDED what was folded cannot be undone.
 *
 * If the device fails within a window, discard the window. If it fails while parameters are
 * stepped, nothing can undo it. The trainer then refuses to train, evaluate and save until a state
 * is loaded. Or another trainer continues from parameters that were saved before.
 *
 * The same seed, device, thread count and plan give the same bits. A plan that was chosen for a
 * budget depends on the measured speed of the device. So to repeat a run exactly, give its
 * micro-batch and recomputation. */
#ifndef ACCRUE_TRAINER_H
#define ACCRUE_TRAINER_H

#include <accrue/batches.h>
#include <accrue/dataset.h>
#include <accrue/model_file.h>
#include <accrue/plan.h>
#include <accrue/schedule.h>
#include <accrue/watch.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- rates of the caller's own --------------------------------------------------------------- */

/** A schedule of the caller's own. Returns the learning rate for `update` (the first is 0).
 * `scheduled` is what ac_trainer_desc.schedule would use, with scaling and reductions.
 *
 * If the rate is negative or not finite, as a float and times a group's rate, ac_trainer_update
 * fails with AC_ERROR_ARGUMENT and changes nothing. Each ac_trainer_update and each ac_trainer_rate
 * calls this function. What it keeps is not saved in states: a resumed run has the same bits if the
 * same updates get the same rates. AC_SPIKE_BACK also lowers the rates that it returns. A range
 * test does not use it. May still change. */
typedef double (*ac_rate_callback)(void *user, int64_t update, double scheduled);

/* ---- groups of parameters -------------------------------------------------------------------- */

/** Most groups of parameters. */
#define AC_MAX_GROUPS 8

/** Settings of a group. 0 means the default. To switch something off, give a negative value. */
typedef struct ac_group_settings {
  double rate; /**< Part of the schedule's rate. Default 1; negative: parameters stay fixed. */
  /** Weight decay of all parameters of the group, including vectors and those with
   * ac_parameter_desc.no_weight_decay. Default: the optimizer's, for matrices only. */
  double weight_decay;
  /** Largest norm of the gradients of the group's parameters together. They then do not count in
   * the norm that clips the others. Negative: they are not clipped. Default: clipped with the
   * others, by the optimizer's `clip`. With AC_GRADIENTS_FUSED_LOCAL it is the largest norm of each
   * parameter's gradient, and with another ac_optimizer_desc.clipping what that says. */
  double clip;
} ac_group_settings;

/** A group of parameters. If several groups match a parameter, it belongs to the first. May still
 * change. */
typedef struct ac_parameter_group {
  const char *patterns; /**< Shell patterns for names, with commas between. One of them matches. */
  ac_group_settings settings; /**< Its settings. */
} ac_parameter_group;

/* ---- loss scaling ---------------------------------------------------------------------------- */

/** Loss scaling: a factor on the loss keeps small gradients from becoming zero in 16 bits. The
 * update divides by it again (arXiv 1710.03740). It is the scale of the window's *mean* loss: 65536
 * means the same as in programs that compute mean losses. With powers of two, as by default, it
 * does not round gradients.
 *
 * A dynamic scale starts high. If a window overflows its update is skipped, and the scale becomes
 * smaller. After `interval` updates in a row it becomes larger. Its states are those of PyTorch's
 * GradScaler. */
typedef enum ac_loss_scaling {
  AC_LOSS_SCALING_DEFAULT = 0, /**< Dynamic if the plan's precision is f16, else none. */
  AC_LOSS_SCALING_NONE,        /**< No scale. */
  AC_LOSS_SCALING_STATIC,      /**< A constant scale. */
  AC_LOSS_SCALING_DYNAMIC      /**< A scale that adapts. */
} ac_loss_scaling;

/** Settings of loss scaling. */
typedef struct ac_loss_scaling_desc {
  ac_loss_scaling kind; /**< Which kind. */
  double scale;         /**< The constant or first scale. Default 65536. */
  double growth;        /**< Factor when the scale grows; above 1. Default 2. */
  double backoff;       /**< Factor after an overflow; between 0 and 1. Default 0.5. */
  int64_t interval;     /**< Updates in a row before the scale grows. Default 2000. */
  double floor;         /**< A dynamic scale never becomes smaller than this. Default 1. */
} ac_loss_scaling_desc;

/* ---- deciding on an update ------------------------------------------------------------------- */

/** A plan with weights and an optimizer. */
typedef struct ac_trainer ac_trainer;

/** The mean of one of the losses of a graph, over a window or a dataset. May still change. */
typedef struct ac_loss_mean {
  const char *name; /**< As given to ac_graph_add_loss. "" with ac_graph_set_loss. */
  double loss;      /**< Per unit of weight, in nats or the loss's own unit. NaN without weight. */
  /** Weighted share of rows that are classified right. 0 for losses without classes. NaN without
   * weight. */
  double accuracy;
  double weight; /**< Its weight; with AC_LOSS_MEANS_PER_SAMPLE the samples. */
} ac_loss_mean;

/** The result of a window, before anything changes. May still change. */
typedef struct ac_decision {
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
} ac_decision;

/** Called in ac_trainer_update after gradients are reduced, to decide on the update.
 *
 * It may read gradients and parameters (ac_trainer_get_mean_gradient, ac_trainer_gradient_norm,
 * ac_trainer_get_parameter), for example for histograms. It may write gradients
 * (ac_trainer_set_gradient), for example to clip them in its own way. It may not change anything
 * else: such calls are refused with AC_ERROR_STATE, and ac_trainer_discard does nothing.
 *
 * If it writes gradients, norms, spikes and finiteness are measured again. `factor` and `skip` are
 * then computed again, unless it changed them. With AC_GRADIENTS_FUSED_LOCAL there is no such
 * moment, and a trainer with this callback is refused. May still change. */
typedef void (*ac_decide)(void *user, ac_trainer *trainer, ac_decision *decision);

/** What a trainer should be. */
typedef struct ac_trainer_desc {
  uint64_t seed; /**< Seed of initial parameters and dropout. */
  /** Settings of the optimizer that differ from those of the plan. A member that is 0 is as in
   * ac_plan_desc.optimizer. Members that plans depend on are 0 or the same. */
  ac_optimizer_desc optimizer;
  ac_schedule schedule;              /**< Learning rates. */
  ac_loss_scaling_desc loss_scaling; /**< Loss scaling. */
  /** With ac_plan_desc.average: decay of the average. An update sets average = decay * average +
   * (1 - decay) * parameter. The first one copies the parameter. In [0, 1); default 0.999,
   * negative: 0. */
  double average_decay;
  /** Updates between measurements of the gradient noise scale (ac_trainer_noise_scale). 0: do not
   * measure. -1: chosen from the plan so that the cost stays near 1 %. It is computed, not timed,
   * so a run repeats. May still change. */
  int64_t noise_every;
  /** Measure the noise scale of each parameter as well (ac_trainer_noise_scale_of). May still
   * change. */
  bool noise_layers;
  ac_spike_desc spikes; /**< How to watch for spikes. May still change. */
  /** Updates between measurements of layers (ac_trainer_layer). The first update is measured. 0: do
   * not measure. It takes 4 bytes of host memory for each weight that is read. May still change. */
  int64_t layers_every;
  ac_parameter_group groups[AC_MAX_GROUPS]; /**< Groups of parameters. Only settings are kept. */
  int group_count;                          /**< How many groups there are. */
  ac_decide decide;                         /**< Decides on updates. May be NULL. */
  ac_rate_callback rate;                    /**< Gives learning rates. NULL: the schedule does. */
  void *user; /**< Passed to these functions and ac_optimizer_desc.step. */
} ac_trainer_desc;

/* ---- the two-call form ----------------------------------------------------------------------- */

/** Creates a trainer: allocates the plan's total and initialises the parameters. The plan must
 * outlive the trainer.
 *
 * A function that reads samples for a trainer (ac_read_sample) may not change or run it: such calls
 * are refused with AC_ERROR_STATE, and ac_trainer_discard does nothing. */
AC_API ac_status ac_trainer_create(ac_trainer **trainer, const ac_plan *plan,
                                   const ac_trainer_desc *desc);
/** Frees a trainer. */
AC_API void ac_trainer_free(ac_trainer *trainer);

/** Data on the host for one input of the graph. */
typedef struct ac_feed {
  const char *name; /**< Name of the input. */
  const void *data; /**< The samples, one after another. */
} ac_feed;

/** Adds `count` samples to the window. Any number is accepted, unless the plan was made for whole
 * windows: then all samples come at once. They are split into micro-batches of the plan's size; the
 * last one may be smaller.
 *
 * Every input needs a feed. Feeds with other names are ignored. Integer ids are checked against the
 * tables and classes that they index. If the weights of losses are counted beforehand
 * (ac_loss_means; also with AC_GRADIENTS_FOLDED) the whole window comes at once, unless
 * ac_trainer_begin_window gave the weights. */
AC_API ac_status ac_trainer_accumulate(ac_trainer *trainer, int64_t count, const ac_feed *feeds,
                                       int feed_count);

/** Tells how many samples the next window will have, and the weight of each loss over all of them,
 * in the order of ac_graph_add_loss. It is called before the first samples of the window, if the
 * plan has AC_LOSS_MEANS_GIVEN and has several losses or folds gradients.
 *
 * If the numbers turn out to be wrong, the update fails with AC_ERROR_ARGUMENT and changes nothing
 * except what was folded. Then discard the window. */
AC_API ac_status ac_trainer_begin_window(ac_trainer *trainer, int64_t samples,
                                         const double *weights, int weight_count);

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
  double loss_scale;  /**< Loss scale of this window. 1 without loss scaling. */
  double noise_scale; /**< ac_noise_scale.batch as it is now. NaN: not known. May still change. */
  /** Nothing changed: something was not finite, the weight was zero, or `decide` asked for it. */
  bool skipped;
  bool finite_loss; /**< The loss is finite. */
  /** The gradients are finite. So are the means and variances of batch norms, and the squares of
   * clipped gradients that optimizers other than SGD and Lion keep; for these the norm must be
   * below 1.8e19. If one of them is not finite, grad_norm is infinite. */
  bool finite_gradient;
  /** AC_GRADIENTS_FUSED_LOCAL: how many parameters were not stepped because their gradients were
   * not finite. The others were stepped unless `skipped`. May still change. */
  int left_out;
  /** The window was skipped, and a lower loss scale cannot help: the scale is at its floor, a
   * static scale has failed in ten windows in a row, or there is no scaling. Or parameters were
   * left out with the scale at its floor, or in ten windows in a row. The model diverges, its data
   * are not finite, or a loss has so little weight that no scale helps. */
  bool stuck;
  /** The part of grad_norm of each group. The squares of the parts add up. May still change. */
  double group_norms[AC_MAX_GROUPS];
  int group_count;                    /**< How many groups there are. */
  ac_loss_mean losses[AC_MAX_LOSSES]; /**< Each loss. `loss` is the sum of factor x mean. */
  int loss_count;                     /**< How many losses there are. */
  ac_spike spike;                     /**< As ac_trainer_desc.spikes asks. May still change. */
  bool layers; /**< Layers were measured (ac_trainer_desc.layers_every). May still change. */
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

/** Changes the settings of a group from the next update on. `group` is its place in the
 * description. Changed settings are saved in states. AC_ERROR_ARGUMENT as for ac_trainer_create.
 * May still change. */
AC_API ac_status ac_trainer_set_group(ac_trainer *trainer, int group,
                                      const ac_group_settings *settings);
/** The settings of a group, with defaults filled in. A weight decay or clip that is the optimizer's
 * stays 0. May still change. */
AC_API ac_status ac_trainer_get_group(const ac_trainer *trainer, int group,
                                      ac_group_settings *settings);

/** With ac_plan_desc.average: exchanges averages and trained parameters, in their own memory. While
 * averages are in use, evaluation, saving a model and reading parameters use them. Training,
 * changing parameters, and states are then AC_ERROR_STATE.
 *
 * Running statistics and frozen parameters have no average and stay as they are. Before the first
 * update averages are zero and cannot be used. AC_ERROR_STATE with a window in progress. When
 * averages are no longer in use, everything is as before, to the bit. If that fails the trainer
 * cannot be used until a state is loaded. May still change. */
AC_API ac_status ac_trainer_use_average(ac_trainer *trainer, bool average);

/** With AC_SCHEDULE_PLATEAU: tells the loss of a validation. ac_fit does the same with its
 * validations every eval_every windows. AC_ERROR_STATE with another schedule. May still change. */
AC_API ac_status ac_trainer_observe_validation(ac_trainer *trainer, double loss);

/** The learning rate of the next update, with scaling and reductions, or that of
 * ac_trainer_desc.rate. May still change. */
AC_API double ac_trainer_rate(const ac_trainer *trainer);

/** Sets the effective batch of the following windows, from 1 to the plan's: the samples of a whole
 * window. Scaled learning rates and the loss scale depend on it. Without this call it is the
 * plan's. ac_fit sets it, from its schedule of batches or to the plan's. AC_ERROR_STATE within a
 * window. May still change. */
AC_API ac_status ac_trainer_set_batch(ac_trainer *trainer, int64_t batch);
/** The effective batch of the next window: as set, or by the schedule of ac_fit. 0 for NULL. May
 * still change. */
AC_API int64_t ac_trainer_batch(const ac_trainer *trainer);

/** The gradient noise scale tr Sigma / |G|^2, arXiv 1812.06162, appendix A. With batches larger
 * than this, gradients agree, and a still larger batch saves hardly any updates.
 *
 * G is the true gradient. Sigma is the covariance of the gradient of a single sample. Both are
 * estimated without bias, from the norms of the gradient after the first micro-batch of a window
 * and after all of it. They are averaged over windows, with weights that fall by 0.5 % from each
 * window to the one before, and then divided. Means of losses are by weight, so «a sample» is one
 * with the mean weight of its window. Windows of one micro-batch are not measured. Nothing is
 * measured unless gradients are added up in a buffer. May still change. */
typedef struct ac_noise_scale {
  int64_t windows;         /**< Windows measured so far. */
  double gradient_squares; /**< |G|^2. NaN before the first measurement. */
  double variance;         /**< tr Sigma, of one sample. NaN before the first measurement. */
  double batch;     /**< The scale in samples. NaN: not known, also if |G|^2 is not above 0. */
  double deviation; /**< Deviation of `batch`, from the spread over windows. NaN: not known. */
} ac_noise_scale;
/** The gradient noise scale as it is now. May still change. */
AC_API ac_status ac_trainer_noise_scale(const ac_trainer *trainer, ac_noise_scale *result);

/** With ac_trainer_desc.noise_layers: the noise scale of one parameter's gradient, from its own
 * norms. |G|^2 and tr Sigma of all parameters add up to those of the whole. If it was not asked
 * for, or the parameter is not trained, `windows` is 0. AC_ERROR_ARGUMENT if there is no parameter
 * with this index. It is saved in states. May still change. */
AC_API ac_status ac_trainer_noise_scale_of(const ac_trainer *trainer, int index,
                                           ac_noise_scale *result);

/** Throws away what the window has accumulated, and its failure. A failed update that has begun to
 * step parameters cannot be thrown away. Nor can what was folded (AC_GRADIENTS_FOLDED): the trainer
 * then cannot be used until a state is loaded. */
AC_API void ac_trainer_discard(ac_trainer *trainer);

/** Runs one micro-batch (count <= micro_batch) op by op, and finds the first op with a result that
 * is not finite. `text` receives "input images", "parameter w", "parameter w, too large for f16",
 * "op layer_norm (h.0.ln_1)", or "" if all is finite. The window is not changed. AC_ERROR_STATE if
 * a window is in progress that a plan for whole windows takes as one micro-batch. May still change.
 */
AC_API ac_status ac_trainer_locate_nonfinite(ac_trainer *trainer, int64_t count,
                                             const ac_feed *feeds, int feed_count, char *text,
                                             size_t size);

/** With ac_plan_desc.debug_numerics: what one op has stored in 16 bits, from the creation of the
 * trainer to the last update. May still change. */
typedef struct ac_numerics {
  const char *op;     /**< As in ac_plan_step. */
  const char *scope;  /**< As in ac_plan_step. */
  bool backward;      /**< It is part of the backward pass. */
  int64_t values;     /**< Values stored. */
  int64_t overflowed; /**< How many of these are not finite. */
  int64_t flushed;    /**< Only f16: how many were stored as zero but are not zero. */
} ac_numerics;

/** How many ops store in 16 bits and are counted. These are all except ops that only copy values.
 * May still change. */
AC_API int ac_trainer_numerics_count(const ac_trainer *trainer);
/** The counts of one of these ops. May still change. */
AC_API ac_status ac_trainer_numerics(const ac_trainer *trainer, int index, ac_numerics *result);

/** How many parameters the graph has. */
AC_API int ac_trainer_parameter_count(const ac_trainer *trainer);
/** Describes a parameter. Indices are in the graph's order. */
AC_API ac_status ac_trainer_parameter_info(const ac_trainer *trainer, int index,
                                           ac_tensor_info *info);
/** The index of the parameter with this name. -1 if there is none. */
AC_API int ac_trainer_find_parameter(const ac_trainer *trainer, const char *name);
/** Reads elements [first, first + count) of a parameter. */
AC_API ac_status ac_trainer_get_parameter(ac_trainer *trainer, int index, int64_t first,
                                          int64_t count, float *data);
/** Writes elements [first, first + count) of a parameter. AC_ERROR_STATE during a decision. Also,
 * as for ac_trainer_load, in a window with an update that computes its gradients again, or that
 * folds them (AC_GRADIENTS_FUSED, AC_GRADIENTS_FOLDED). */
AC_API ac_status ac_trainer_set_parameter(ac_trainer *trainer, int index, int64_t first,
                                          int64_t count, const float *data);
/** Reads elements of a gradient: the gradient of the *sum* of losses over what the window has
 * accumulated so far, times the loss's factor, without the loss scale. The update divides it by
 * ac_update.weight. With several losses it is the sum over losses of factor x samples / weight x
 * gradient of the loss's sum, and the update divides by samples.
 *
 * AC_ERROR_STATE in an empty window, and if the plan keeps no gradients (any other way than
 * AC_GRADIENTS_BUFFER). AC_ERROR_ARGUMENT if the parameter is frozen. May still change. */
AC_API ac_status ac_trainer_get_gradient(ac_trainer *trainer, int index, int64_t first,
                                         int64_t count, float *data);
/** Writes elements of a gradient, with the units and errors of ac_trainer_get_gradient: within a
 * window, where further samples add to it, or while its update is decided (ac_decide). Values are
 * multiplied by the loss scale, and rounded to nearest with AC_GRADIENT_BF16. A value that does not
 * fit then is infinite, and the window is skipped. Such a window does not count for the gradient
 * noise scale. May still change. */
AC_API ac_status ac_trainer_set_gradient(ac_trainer *trainer, int index, int64_t first,
                                         int64_t count, const float *data);
/** While an update is decided: reads elements of the gradient of the mean loss, divided and
 * unscaled, before clipping. Its norm is ac_trainer_gradient_norm. AC_ERROR_STATE at any other
 * time, in a window without weight, and if the plan keeps no gradients. May still change. */
AC_API ac_status ac_trainer_get_mean_gradient(ac_trainer *trainer, int index, int64_t first,
                                              int64_t count, float *data);
/** The norm of one parameter's gradient of the mean loss, unscaled, before clipping. It is that of
 * the window with the update that is being decided (ac_decide), or of the last window. 0 if the
 * parameter is not trained, before the first update, and within a window that measures noise. NaN
 * if the plan folds gradients. May still change. */
AC_API double ac_trainer_gradient_norm(const ac_trainer *trainer, int index);

/** What updates do to a parameter (ac_trainer_desc.layers_every). AC_ERROR_STATE if layers are not
 * measured. May still change. */
AC_API ac_status ac_trainer_layer(const ac_trainer *trainer, int index, ac_layer_report *result);

/** How many states the optimizer keeps for each trained parameter, in f32. AdamW: the first and the
 * second moment. SGD and Lion: the momentum. Adafactor: second moments of a matrix's rows and of
 * its columns, or of a vector's elements. Muon: the momentum of a matrix, and AdamW's for other
 * parameters. Adam-mini: the first moment, and the second moment of each block.
 * AC_OPTIMIZER_CALLBACK: its own. May still change. */
AC_API int ac_trainer_state_count(const ac_trainer *trainer);
/** Reads elements [first, first + count) of a parameter's state. May still change. */
AC_API ac_status ac_trainer_get_state(ac_trainer *trainer, int index, int state, int64_t first,
                                      int64_t count, float *data);
/** Writes elements [first, first + count) of a parameter's state. State in 8 bits is rounded,
 * together with the other elements of its blocks of 256. May still change. */
AC_API ac_status ac_trainer_set_state(ac_trainer *trainer, int index, int state, int64_t first,
                                      int64_t count, const float *data);

/** Sets how many updates were made so far (ac_progress.updates). The learning rate of the next
 * update, its random numbers, and the bias correction of AdamW and Adam-mini depend on it. So set
 * it if you set moments of another run. Otherwise they are corrected as in a first update, which is
 * far too large or too small.
 *
 * If no update was made before, averages (ac_plan_desc.average) begin as copies of the parameters;
 * so set parameters first. AC_ERROR_ARGUMENT: below 0, or above INT64_MAX / 2. AC_ERROR_STATE with
 * a window in progress, during a decision, and while averages are in use. May still change. */
AC_API ac_status ac_trainer_set_updates(ac_trainer *trainer, int64_t updates);

/** Saves all parameters under their names. ac_model_file_write says what may be at the path, for
 * this and the other functions that save. If a parameter is not finite nothing is written: the old
 * file stays, and AC_ERROR_NOT_FINITE names the parameter. */
AC_API ac_status ac_trainer_save(ac_trainer *trainer, const char *path, const ac_metadata *metadata,
                                 int metadata_count);
/** Loads all parameters. The file must have each one with its exact shape (but see
 * ac_parameter_desc.first_rows), under its own name or its name without `optional_prefix` (NULL:
 * none). Other tensors in the file are ignored. This is checked before the first parameter changes.
 * If reading fails afterwards, the trainer cannot be used until all parameters or a state are
 * loaded. */
AC_API ac_status ac_trainer_load(ac_trainer *trainer, const char *path,
                                 const char *optional_prefix);

/** Like ac_trainer_save, but only parameters with names that match `pattern`, as in a shell: `*`
 * any characters, `?` one, `[...]` one of these. AC_ERROR_ARGUMENT if none matches. May still
 * change. */
AC_API ac_status ac_trainer_save_part(ac_trainer *trainer, const char *path, const char *pattern,
                                      const ac_metadata *metadata, int metadata_count);
/** Like ac_trainer_load, but only parameters with names that match `pattern`. May still change. */
AC_API ac_status ac_trainer_load_part(ac_trainer *trainer, const char *path, const char *pattern,
                                      const char *optional_prefix);

/* ---- state files ----------------------------------------------------------------------------- */

/** Saves a state: everything that a run is, in one safetensors file. Parameters are under their own
 * names, so a state is also a model file. Optimizer state is under `accrue/state.K/NAME`, averages
 * under `accrue/average/NAME`. Updates made, the loss scale, seeds, and how far ac_fit has come are
 * metadata `accrue.state.*` (ac_state_get_info reads them). A window in progress is part of it,
 * with its sums under `accrue/gradient/NAME` and so on.
 *
 * A run that loads the state has the bits of a run that never stopped, on the same device and with
 * the same plan. Other micro-batches, budgets and devices agree to rounding.
 *
 * A file is written in blocks of less than 1 MiB, past the system's cache, next to its target. Then
 * it is synced and renamed. It has checksums of everything. `metadata` are the caller's own
 * entries; their keys must not be those of a state.
 *
 * AC_ERROR_NOT_FINITE if a parameter, an average or optimizer state is not finite (states of a
 * callback are not checked); the old file stays. AC_ERROR_STATE during a decision, after a failure,
 * within an evaluation in the middle of a window, and in a window of a plan for whole windows that
 * keeps gradients in the arena or computes them again. May be called in the callback of ac_fit. May
 * still change. */
AC_API ac_status ac_trainer_save_state(ac_trainer *trainer, const char *path,
                                       const ac_metadata *metadata, int metadata_count);

/** Loads a state. It checks the whole file before it changes the trainer: checksums, every tensor
 * by name, dtype and shape, no other tensors, and the optimizer. AC_ERROR_FORMAT, or
 * AC_ERROR_UNSUPPORTED for another version, says what does not fit. A window in progress is
 * discarded. If reading fails afterwards, the trainer cannot be used until another state is loaded.
 * The settings of the trainer's description stay as they are, except its seed. May still change. */
AC_API ac_status ac_trainer_load_state(ac_trainer *trainer, const char *path);

/** How far ac_fit has come, over this trainer and those that its state was saved from. May still
 * change. */
typedef struct ac_progress {
  int64_t updates;        /**< Updates made, those of ac_trainer_update included. */
  int64_t steps;          /**< As in ac_fit_result: updates, skipped ones included. */
  int64_t skipped;        /**< As in ac_fit_result. */
  int64_t samples;        /**< As in ac_fit_result. */
  int64_t epoch;          /**< Epoch of the window that comes next, or is in progress. */
  int64_t position;       /**< Position in the epoch of the first sample of that window. */
  int64_t window_samples; /**< Samples accumulated in a window in progress. */
} ac_progress;
/** How far ac_fit has come. May still change. */
AC_API ac_status ac_trainer_get_progress(const ac_trainer *trainer, ac_progress *progress);

/** The schedule of batches so far, if batches grow (ac_batch_growth), in rows by updates. *count is
 * 0 for other runs. May still change. */
AC_API ac_status ac_trainer_get_growth(const ac_trainer *trainer,
                                       ac_batch_stage stages[AC_MAX_BATCH_STAGES], int *count);

/** The result of an evaluation. Over data without weight, loss and accuracy are NaN. The schedule
 * and early stopping then ignore the evaluation. With several losses only those with a weight are
 * summed. */
typedef struct ac_evaluation {
  double loss; /**< Nats per unit of weight. With several losses: the sum of factor x mean. */
  /** Weighted share of rows that are classified right. 0 for losses without classes. With several
   * losses: that of the first one. */
  double accuracy;
  double weight;                      /**< The weight. With several losses: samples. */
  ac_loss_mean losses[AC_MAX_LOSSES]; /**< Each loss. */
  int loss_count;                     /**< How many losses there are. */
} ac_evaluation;

/** Evaluates at most `limit` samples (0: all), from the first on. It runs forward only, without
 * dropout, in the trainer's own memory. A window in progress is left as it is, or the evaluation is
 * refused as by ac_trainer_locate_nonfinite. */
AC_API ac_status ac_trainer_evaluate(ac_trainer *trainer, ac_dataset *dataset, int64_t limit,
                                     ac_evaluation *result);
/** Returns true to stop. May still change. */
typedef bool (*ac_stop_callback)(void *user);
/** Like ac_trainer_evaluate. `stop` (may be NULL) is asked before each micro-batch. If it returns
 * true there is no result, and *stopped is true. Calls that would change the trainer meanwhile are
 * refused with AC_ERROR_STATE. May still change. */
AC_API ac_status ac_trainer_evaluate_until(ac_trainer *trainer, ac_dataset *dataset, int64_t limit,
                                           ac_stop_callback stop, void *user, ac_evaluation *result,
                                           bool *stopped);

/* ---- the fit loop ---------------------------------------------------------------------------- */

/** What to do with the last window of an epoch if it is not full. */
typedef enum ac_last_window {
  AC_LAST_UPDATE = 0, /**< Update with the samples that there are, divided by their true weight. */
  AC_LAST_CARRY,      /**< Fill it from the next epoch. */
  AC_LAST_DROP        /**< Throw its samples away. */
} ac_last_window;

/** What an event of ac_fit is about. */
typedef enum ac_fit_event_kind {
  AC_FIT_STEP = 0,   /**< A window has ended: an update was made or skipped. */
  AC_FIT_EVALUATION, /**< An evaluation has ended. */
  /** No more windows follow. Only the final evaluation remains: time to save. May still change. */
  AC_FIT_TRAINED,
  /** Before a window's update, after ac_decide. ac_fit_desc.decisions asks for it. May still
   * change. */
  AC_FIT_DECISION
} ac_fit_event_kind;

/** What a callback of ac_fit is told. */
typedef struct ac_fit_event {
  ac_fit_event_kind kind; /**< What it is about. */
  int64_t step;           /**< Updates so far, this one and skipped ones included. */
  int64_t epoch;          /**< The epoch, from 0 on. */
  /** The window was skipped and begins again. Another event with the same `step` follows. */
  bool replayed;
  int64_t samples; /**< Samples in this window. */
  /** AC_FIT_STEP: the batch that follows, if the batch has grown; else 0. May still change. */
  int64_t grown;
  /** Seconds since the previous window ended, without evaluation and callbacks. */
  double seconds;
  double data_wait_seconds; /**< How many of these it waited for samples. */
  ac_update update;         /**< AC_FIT_STEP: the update. */
  /** With AC_SPIKE_BACK: this window was a spike. After it the trainer is as it was after update
   * `back_to`, except for its rate. May still change. */
  bool went_back;
  int64_t back_to; /**< With `went_back`: `step` of the good state. May still change. */
  /** A good state could not be written; ac_last_error says why. Training continues with the one
   * before. The next one is due after good_every windows. May still change. */
  bool good_state_failed;
  ac_evaluation evaluation; /**< AC_FIT_EVALUATION: the result. */
  /** AC_FIT_DECISION: to look at and to change; otherwise NULL. May still change. */
  ac_decision *decision;
} ac_fit_event;

/** Receives events of ac_fit. It may look at the trainer, evaluate and save it. If it makes
 * windows, updates or loads states itself, the trainer keeps them, and they become part of the
 * following window. The loop does not count them.
 *
 * Return false to stop after this event. The fit then evaluates nothing more, and returns AC_OK
 * with `stopped`. After AC_FIT_DECISION the window's update and its AC_FIT_STEP still come first.
 */
typedef bool (*ac_fit_callback)(void *user, const ac_fit_event *event);

/** Most bytes of a fingerprint. */
#define AC_MAX_FINGERPRINT 96

/** What to train, and how long. */
typedef struct ac_fit_desc {
  ac_dataset *train;      /**< Training data. */
  ac_dataset *validation; /**< Validation data. May be NULL. */
  int64_t steps;          /**< Updates, skipped ones included. 0: use `epochs`. */
  int64_t epochs;         /**< Epochs. 0: use `steps`. One of the two is needed. */
  /** Windows between evaluations. 0: only at the end. AC_SCHEDULE_PLATEAU uses these evaluations.
   */
  int64_t eval_every;
  int64_t eval_samples; /**< Samples of each evaluation except the last. 0: all. */
  /** Early stopping: stop after this many regular evaluations in a row without an improvement of
   * more than patience_gain. Regular evaluations are those every eval_every windows. The fit then
   * ends as usual, with `ended_early`. 0: do not stop early. The count is saved in states. It does
   * not keep the best parameters; the callback may save them. May still change. */
  int64_t patience;
  double patience_gain;     /**< An improvement must be larger than this loss. May still change. */
  bool no_final_evaluation; /**< Do not evaluate at the end. */
  /** Continue where the trainer's last ac_fit ended, or the one of the loaded state. `steps` and
   * `epochs` count from the beginning of the run, and so do the results. A window in progress is
   * completed.
   *
   * If there are more updates than before, and an evaluation was due after the last window, it
   * comes first, as in a run that had them from the beginning. It is left out if the final one had
   * the same samples. The data and the order must be the same. If the library sees that they are
   * not, it fails with AC_ERROR_ARGUMENT. May still change. */
  bool resume;
  /** Which data `train` is, in the caller's words, such as a hash or a version. The library cannot
   * know it for callbacks and memory. Printable ASCII, at most AC_MAX_FINGERPRINT; copied. It is
   * saved in states. A resumed fit with another one fails with AC_ERROR_ARGUMENT. NULL or "": not
   * known. If either run has none, nothing is compared. May still change. */
  const char *fingerprint;
  /** If `stop` stops within a window, keep the window in progress, so that a state can save it. Not
   * possible if the plan keeps its gradients in the arena. A plan that folds gradients always keeps
   * it. May still change. */
  bool keep_window;
  /** Pause after this many updates, counted like `steps`. 0: do not. A paused call ends as usual,
   * with AC_FIT_TRAINED, the final evaluation, and `paused`. Order and rates are those of the whole
   * run. A fit with `resume` continues it, with the bits of a run without a pause. May still
   * change. */
  int64_t pause_step;
  /** Pause after the window in which the run's total sample count reaches this. 0: do not. May
   * still change. */
  int64_t pause_samples;
  /** Pause after the window in which this call has taken so many seconds. 0: do not. May still
   * change. */
  double pause_seconds;
  bool no_shuffle; /**< Do not shuffle samples. */
  uint64_t seed;   /**< Seed of the order of samples. */
  /** Threads that read samples ahead, if the plan has `read_ahead`. 0: 1. */
  int loader_threads;
  ac_last_window last_window; /**< What to do with the last window of an epoch. */
  /** A schedule of the effective batch, of at most AC_MAX_BATCH_STAGES rows. NULL: all windows have
   * the plan's batch. The plan is for the largest batch. Its memory and micro-batch stay; a smaller
   * window has fewer micro-batches. A resumed run may have other rows from where it is now on. A
   * window in progress must keep the batch that it began with. AC_ERROR_ARGUMENT if rows are wrong.
   * May still change. */
  const ac_batch_stage *batches;
  int batch_count; /**< How many rows there are. */
  /** Instead of `batches`: batches that grow with the noise scale, up to the plan's batch. How they
   * have grown is saved in states, and a resumed run continues with it. A run that gets it as
   * `batches` (ac_trainer_get_growth) has the same bits. AC_ERROR_ARGUMENT if the noise scale
   * cannot be known: the trainer has no noise_every, the plan keeps no gradients, or `from` is not
   * more than a micro-batch. May still change. */
  ac_batch_growth growth;
  /** If a window overflows with a dynamic loss scale, run it again at the lower scale, with the
   * same samples and random numbers, instead of skipping it. */
  bool replay;
  /** With AC_SPIKE_BACK: path of the good state that training goes back to. The file appears whole
   * or not at all.
   *
   * It is saved when a fit begins, and then every good_every windows after the last one or after
   * going back. Early in a run the distance is shorter: as many windows as the run had before the
   * last one, at least 8. Each time it waits until 8 windows in a row had no alarm.
   *
   * A fit with `resume` needs the file that was there when its state was saved; so keep a copy next
   * to the state. AC_ERROR_IO if there is none, AC_ERROR_ARGUMENT if it is another one. After going
   * back, progress stays as it is, because windows are not repeated. Updates made, schedule,
   * moments and everything else are the good state's. Not used with other policies. May still
   * change. */
  const char *good_state;
  int64_t good_every; /**< Windows between good states. Default 100. May still change. */
  /** Entries for that file, as in ac_trainer_save_state. May still change. */
  const ac_metadata *good_metadata;
  int good_metadata_count; /**< How many entries there are. May still change. */
  /** Send AC_FIT_DECISION before each update, also for windows that are skipped and run again. The
   * callback may then do what ac_decide may do, such as reading gradients. AC_ERROR_ARGUMENT with
   * AC_GRADIENTS_FUSED_LOCAL. May still change. */
  bool decisions;
  ac_fit_callback callback; /**< Receives events. May be NULL. */
  /** Asked before each micro-batch, of training and of evaluations, in the thread that called
   * ac_fit. If it returns true the fit returns AC_OK with `stopped`, and the parameters are those
   * of the last update: a window or evaluation in progress is discarded. It may look at the
   * trainer, evaluate and save it. Calls that would change the window, or the trainer within an
   * evaluation, are refused with AC_ERROR_STATE. NULL: never stop. May still change. */
  bool (*stop)(void *user);
  void *user; /**< Passed to both functions. */
} ac_fit_desc;

/** What a fit did. */
typedef struct ac_fit_result {
  int64_t steps;    /**< Updates, skipped ones included: one for each window. */
  int64_t epochs;   /**< Epochs completed. */
  int64_t samples;  /**< Samples of these windows. */
  int64_t updates;  /**< Updates that were made: not skipped, and not of a window without weight. */
  int64_t skipped;  /**< Windows that were not finite. Each replay counts again. */
  bool stopped;     /**< `callback` or `stop` stopped it. */
  bool paused;      /**< More windows are to come. */
  bool ended_early; /**< Early stopping ended it (ac_fit_desc.patience). May still change. */
  /** Alarms for spikes; with `resume` over the whole run. May still change. */
  int64_t spikes;
  /** How often training went back; with `resume` over the whole run. May still change. */
  int64_t went_back;
  bool evaluated;           /**< `final` is about the parameters as they are now. */
  ac_evaluation final;      /**< The final evaluation. */
  double seconds;           /**< Seconds of training, without evaluation. */
  double data_wait_seconds; /**< How many of these it waited for samples. */
} ac_fit_result;

/** Trains on a dataset. `result` may be NULL.
 *
 * `step` and `steps` in these types count updates, one for each window, skipped ones included. They
 * say how far the run is in its data. (Steps of a plan are something else. The members keep these
 * names because programs use them.) If a window is replayed it counts once, when it is over. The
 * learning-rate schedule counts only updates that were made, so skipped ones do not move it.
 *
 * If a window is not finite, and `ac_update.stuck` says that no loss scale helps, the fit ends with
 * AC_ERROR_NOT_FINITE. The error names the update and the first op, and the parameters are those of
 * the last good update. When no more windows follow, the parameters are read once, and
 * AC_ERROR_NOT_FINITE names the first one that is not finite after the last update. */
AC_API ac_status ac_fit(ac_trainer *trainer, const ac_fit_desc *desc, ac_fit_result *result);

/** How many windows such a fit has, with a plan of this batch: `steps`, or as many as fill the
 * epochs of `train`. It reads these members of the description: train, steps, epochs, last_window,
 * batches, growth. If batches grow, it counts as if they never did, which is the most that there
 * can be. AC_ERROR_ARGUMENT as for ac_fit, or if they cannot be counted. May still change. */
AC_API ac_status ac_fit_windows(const ac_fit_desc *desc, int64_t batch, int64_t *windows);

/* ---- a range test of the learning rate ------------------------------------------------------- */

/** A range test: trains for a short time with a rate that grows by the same factor in each update,
 * and looks at the loss; arXiv 1506.01186. It takes the plan's memory, and host memory for
 * parameters and optimizer state. Afterwards the trainer is exactly as before. May still change. */
typedef struct ac_rate_test_desc {
  ac_dataset *train; /**< Training data. */
  double least;      /**< First rate. Default 1e-7. */
  double most;       /**< Last rate. Default 10. */
  int64_t updates;   /**< At least 10. Default 100. */
  int64_t batch;     /**< Samples of a window, at most the plan's. 0: the plan's. */
  /** The test ends if the mean of the latest losses is above its least value times this. Default 4.
   */
  double divergence;
  uint64_t seed;            /**< Seed of the order of samples. */
  int loader_threads;       /**< As in ac_fit_desc. */
  ac_fit_callback callback; /**< Called after each window. May be NULL. */
  bool (*stop)(void *user); /**< As in ac_fit_desc. May be NULL. */
  void *user;               /**< Passed to both functions. */
} ac_rate_test_desc;

/** One window of a range test. */
typedef struct ac_rate_point {
  double rate;     /**< Its learning rate. */
  double loss;     /**< Its loss, before the update at this rate. */
  double smoothed; /**< Mean of the losses around it: a tenth of the test's updates. */
} ac_rate_point;

/** The result of a range test. */
typedef struct ac_rate_test {
  int64_t count;  /**< Points: one for each update. */
  bool diverged;  /**< It ended early because the loss diverged. */
  bool stopped;   /**< It ended early because a callback stopped it. */
  int64_t lowest; /**< The point with the least smoothed loss. -1: there is no point. */
  /** The suggested rate: the point before `lowest` where the loss falls fastest by the logarithm of
   * the rate. The slope is that of a line through the points that smoothed losses are means of. -1:
   * no suggestion, because the loss falls by at most twice the deviation of losses from the
   * smoothed ones. */
  int64_t steepest;
} ac_rate_test;

/** Runs a range test. `points` has room for desc->updates. A loss that is NaN ends the test like
 * one that diverges. AC_ERROR_NOT_FINITE if it is the first loss. AC_ERROR_STATE with a window in
 * progress. May still change. */
AC_API ac_status ac_trainer_test_rates(ac_trainer *trainer, const ac_rate_test_desc *desc,
                                       ac_rate_point *points, ac_rate_test *result);

/** Whether a name matches one of a group's patterns. May still change. */
AC_API bool ac_parameter_group_matches(const ac_parameter_group *group, const char *name);

#ifdef __cplusplus
}
#endif
#endif
