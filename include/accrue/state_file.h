/** @file
 * State files: what the state of a run says about it, without a trainer and without reading its
 * tensors. ac_trainer_save_state writes states. May still change. */
#ifndef ACCRUE_STATE_FILE_H
#define ACCRUE_STATE_FILE_H

#include <accrue/trainer.h>

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
#endif
