/** @file
 * State files: everything that a run is, saved and loaded, and what such a file says about its run.
 */
#ifndef ACCRUE_STATE_FILE_H
#define ACCRUE_STATE_FILE_H

#include <accrue/fit.h>
#include <accrue/loss_scaling.h>
#include <accrue/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/* ---- saving and loading ---------------------------------------------------------------------- */

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
 * keeps gradients in the arena or computes them again, or with exact batch norm. May be called in
 * the callback of ac_fit. */
AC_API ac_status ac_trainer_save_state(ac_trainer *trainer, const char *path,
                                       const ac_metadata *metadata, int metadata_count);

/** Loads a state. It checks the whole file before it changes the trainer: checksums, every tensor
 * by name, dtype and shape, no other tensors, and the optimizer. AC_ERROR_FORMAT, or
 * AC_ERROR_UNSUPPORTED for another version, says what does not fit. A window in progress is
 * discarded. If reading fails afterwards, the trainer cannot be used until another state is loaded.
 * The settings of the trainer's description stay as they are, except its seed. */
AC_API ac_status ac_trainer_load_state(ac_trainer *trainer, const char *path);

/* ---- reading without a trainer --------------------------------------------------------------- */

/** What a state says about the run that saved it. Metadata of the caller's own are not in it
 * (ac_model_file_metadata). */
typedef struct ac_state_info {
  ac_progress progress;        /**< How far the run has come. */
  uint64_t seed;               /**< Seed of initial parameters and dropout. */
  ac_optimizer_kind optimizer; /**< The optimizer. */
  /** How optimizer state is stored. AC_STATE_8BIT: that of one parameter at least is in 8 bits. */
  ac_optimizer_state optimizer_state;
  ac_precision precision;   /**< The plan's precision. */
  ac_loss_means loss_means; /**< The plan's way to know the weights of losses. */
  int64_t batch;            /**< The plan's effective batch in samples. */
  int64_t micro_batch;      /**< Most samples of the plan's micro-batch. */
  /** Samples of the window that comes next, or is in progress. Less than `batch` if a schedule of
   * batches, or ac_trainer_set_batch, says so. */
  int64_t window_batch;
  bool averages;                /**< Averages of the parameters are saved. */
  ac_loss_scaling loss_scaling; /**< Which kind of loss scaling, never AC_LOSS_SCALING_DEFAULT. */
  double loss_scale;            /**< The loss scale. 1 without loss scaling. */
  bool fitted;                  /**< ac_fit has trained. If not, the members below are 0 or "". */
  int64_t train_samples;        /**< Samples of the training data. */
  uint64_t fit_seed;            /**< Seed of the order of samples. */
  bool no_shuffle;              /**< Samples were not shuffled. */
  /** Which data it was, as ac_fit_desc.fingerprint said. "": not known. Valid while the file is
   * open. */
  const char *fingerprint;
  int64_t spikes;     /**< Alarms for spikes. 0 if they were not watched. */
  int64_t went_back;  /**< How often training went back after an alarm. */
  double spike_rate;  /**< Factor on learning rates because training went back. 1: it did not. */
  int64_t reductions; /**< How often AC_SCHEDULE_PLATEAU has reduced the rate. */
} ac_state_info;

/** Reads what a state says. It checks these values, but not the checksums or the tensors of the
 * file; ac_trainer_load_state does. Fails with AC_ERROR_FORMAT if the file is not a state or is
 * damaged, and with AC_ERROR_UNSUPPORTED if the state has another version. */
AC_API ac_status ac_state_get_info(const ac_model_file *file, ac_state_info *info);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
