/** @file
 * The fit loop: trains on a dataset, window after window.
 *
 * `step` and `steps` in these types count updates, one for each window, skipped ones included. They
 * say how far the run is in its data. (Steps of a plan are something else. The members keep these
 * names because programs use them.) If a window is replayed it counts once, when it is over. The
 * learning-rate schedule counts only updates that were made, so skipped ones do not move it. */
#ifndef ACCRUE_FIT_H
#define ACCRUE_FIT_H

#include <accrue/batches.h>
#include <accrue/dataset.h>
#include <accrue/evaluation.h>
#include <accrue/model_file.h>

#ifdef __cplusplus
extern "C" {
#endif

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

  /* ---- may still change ---- */

  /** No more windows follow. Only the final evaluation remains: time to save. */
  AC_UNSTABLE(AC_FIT_TRAINED),
  /** Before a window's update, after ac_decide. ac_fit_desc.decisions asks for it. */
  AC_UNSTABLE(AC_FIT_DECISION),
  /** An epoch has ended, right after the step that ended it. ac_fit_desc.epochs_end asks for it. */
  AC_UNSTABLE(AC_FIT_EPOCH)
} ac_fit_event_kind;

/** What a callback of ac_fit is told. */
typedef struct ac_fit_event {
  ac_fit_event_kind kind; /**< What it is about. */
  int64_t step;           /**< Updates so far, this one and skipped ones included. */
  int64_t epoch;          /**< The epoch, from 0 on. AC_FIT_EPOCH: the one that has ended. */
  /** The window was skipped and begins again. Another event with the same `step` follows. */
  bool replayed;
  int64_t samples; /**< Samples in this window. AC_FIT_EPOCH: in the windows of the epoch. */
  /** Seconds since the previous window ended, without evaluation and callbacks. */
  double seconds;
  double data_wait_seconds; /**< How many of these it waited for samples. */
  ac_update update;         /**< AC_FIT_STEP: the update. */
  /** AC_FIT_EVALUATION: the result. AC_FIT_EPOCH: the same over the windows that began in the
   * epoch, as they were trained, without those that were not finite. If a window ends several
   * epochs, there is one event, for the last of them. After ac_fit has gone on within an epoch:
   * over the windows since. */
  ac_evaluation evaluation;

  /* ---- may still change ---- */

  /** AC_FIT_STEP: the batch that follows, if the batch has grown; else 0. */
  int64_t AC_UNSTABLE(grown);
  bool AC_UNSTABLE(epoch_ended); /**< AC_FIT_STEP: with this window the epoch before has ended. */
  /** With AC_SPIKE_BACK: this window was a spike. After it the trainer is as it was after update
   * `back_to`, except for its rate. */
  bool AC_UNSTABLE(went_back);
  int64_t AC_UNSTABLE(back_to); /**< With `went_back`: `step` of the good state. */
  /** A good state could not be written; ac_last_error says why. Training continues with the one
   * before. The next one is due after good_every windows. */
  bool AC_UNSTABLE(good_state_failed);
  /** AC_FIT_DECISION: to look at and to change; otherwise NULL. */
  AC_UNSTABLE(ac_decision) *AC_UNSTABLE(decision);
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
  int64_t eval_samples;     /**< Samples of each evaluation except the last. 0: all. */
  bool no_final_evaluation; /**< Do not evaluate at the end. */
  bool no_shuffle;          /**< Do not shuffle samples. */
  uint64_t seed;            /**< Seed of the order of samples. */
  /** Threads that read samples ahead, if the plan has `read_ahead`. 0: 1. */
  int loader_threads;
  ac_last_window last_window; /**< What to do with the last window of an epoch. */
  /** If a window overflows with a dynamic loss scale, run it again at the lower scale, with the
   * same samples and random numbers, instead of skipping it. */
  bool replay;
  ac_fit_callback callback; /**< Receives events. May be NULL. */
  void *user;               /**< Passed to both functions. */

  /* ---- may still change ---- */

  /** Early stopping: stop after this many regular evaluations in a row without an improvement of
   * more than patience_gain. Regular evaluations are those every eval_every windows. The fit then
   * ends as usual, with `ended_early`. 0: do not stop early. The count is saved in states. It does
   * not keep the best parameters; the callback may save them. */
  int64_t AC_UNSTABLE(patience);
  double AC_UNSTABLE(patience_gain); /**< An improvement must be larger than this loss. */
  /** Continue where the trainer's last ac_fit ended, or the one of the loaded state. `steps` and
   * `epochs` count from the beginning of the run, and so do the results. A window in progress is
   * completed.
   *
   * If there are more updates than before, and an evaluation was due after the last window, it
   * comes first, as in a run that had them from the beginning. It is left out if the final one had
   * the same samples. The data and the order must be the same. If the library sees that they are
   * not, it fails with AC_ERROR_ARGUMENT. */
  bool AC_UNSTABLE(resume);
  /** Which data `train` is, in the caller's words, such as a hash or a version. The library cannot
   * know it for callbacks and memory. Printable ASCII, at most AC_MAX_FINGERPRINT; copied. It is
   * saved in states. A resumed fit with another one fails with AC_ERROR_ARGUMENT. NULL or "": not
   * known. If either run has none, nothing is compared. */
  const char *AC_UNSTABLE(fingerprint);
  /** If `stop` stops within a window, keep the window in progress, so that a state can save it. Not
   * possible if the plan keeps its gradients in the arena. A plan that folds gradients always keeps
   * it. */
  bool AC_UNSTABLE(keep_window);
  /** Pause after this many updates, counted like `steps`. 0: do not. A paused call ends as usual,
   * with AC_FIT_TRAINED, the final evaluation, and `paused`. Order and rates are those of the whole
   * run. A fit with `resume` continues it, with the bits of a run without a pause. */
  int64_t AC_UNSTABLE(pause_step);
  /** Pause after the window in which the run's total sample count reaches this. 0: do not. */
  int64_t AC_UNSTABLE(pause_samples);
  /** Pause after the window in which this call has taken so many seconds. 0: do not. */
  double AC_UNSTABLE(pause_seconds);
  /** A schedule of the effective batch, of at most AC_MAX_BATCH_STAGES rows. NULL: all windows have
   * the plan's batch. The plan is for the largest batch. Its memory and micro-batch stay; a smaller
   * window has fewer micro-batches. A resumed run may have other rows from where it is now on. A
   * window in progress must keep the batch that it began with. AC_ERROR_ARGUMENT if rows are wrong.
   */
  const ac_batch_stage *AC_UNSTABLE(batches);
  int AC_UNSTABLE(batch_count); /**< How many rows there are. */
  /** Instead of `batches`: batches that grow with the noise scale, up to the plan's batch. How they
   * have grown is saved in states, and a resumed run continues with it. A run that gets it as
   * `batches` (ac_trainer_get_growth) has the same bits. AC_ERROR_ARGUMENT if the noise scale
   * cannot be known: the trainer has no noise_every, the plan keeps no gradients or has exact batch
   * norm, or `from` is not more than a micro-batch (with several ranks: than 1). */
  AC_UNSTABLE(ac_batch_growth) AC_UNSTABLE(growth);
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
   * moments and everything else are the good state's. Not used with other policies. */
  const char *AC_UNSTABLE(good_state);
  int64_t AC_UNSTABLE(good_every); /**< Windows between good states. Default 100. */
  /** Entries for that file, as in ac_trainer_save_state. */
  const ac_metadata *AC_UNSTABLE(good_metadata);
  int AC_UNSTABLE(good_metadata_count); /**< How many entries there are. */
  /** Send AC_FIT_DECISION before each update, also for windows that are skipped and run again. The
   * callback may then do what ac_decide may do, such as reading gradients. AC_ERROR_ARGUMENT with
   * AC_GRADIENTS_FUSED_LOCAL. */
  bool AC_UNSTABLE(decisions);
  /** Send AC_FIT_EPOCH at the end of each epoch. */
  bool AC_UNSTABLE(epochs_end);
  /** Asked before each micro-batch, of training and of evaluations, in the thread that called
   * ac_fit. If it returns true the fit returns AC_OK with `stopped`, and the parameters are those
   * of the last update: a window or evaluation in progress is discarded. It may look at the
   * trainer, evaluate and save it. Calls that would change the window, or the trainer within an
   * evaluation, are refused with AC_ERROR_STATE. NULL: never stop. */
  bool (*AC_UNSTABLE(stop))(void *user);
} ac_fit_desc;

/** What a fit did. */
typedef struct ac_fit_result {
  int64_t steps;   /**< Updates, skipped ones included: one for each window. */
  int64_t epochs;  /**< Epochs completed. */
  int64_t samples; /**< Samples of these windows. */
  int64_t updates; /**< Updates that were made: not skipped, and not of a window without weight. */
  int64_t skipped; /**< Windows that were not finite. Each replay counts again. */
  bool stopped;    /**< `callback` or `stop` stopped it. */
  bool paused;     /**< More windows are to come. */
  bool evaluated;  /**< `final` is about the parameters as they are now. */
  ac_evaluation final;      /**< The final evaluation. */
  double seconds;           /**< Seconds of training, without evaluation. */
  double data_wait_seconds; /**< How many of these it waited for samples. */

  /* ---- may still change ---- */

  bool AC_UNSTABLE(ended_early); /**< Early stopping ended it (ac_fit_desc.patience). */
  /** Alarms for spikes; with `resume` over the whole run. */
  int64_t AC_UNSTABLE(spikes);
  /** How often training went back; with `resume` over the whole run. */
  int64_t AC_UNSTABLE(went_back);
} ac_fit_result;

/** Trains on a dataset. `result` may be NULL.
 *
 * If a window is not finite, and `ac_update.stuck` says that no loss scale helps, the fit ends with
 * AC_ERROR_NOT_FINITE. The error names the update and the first op, and the parameters are those of
 * the last good update. When no more windows follow, the parameters are read once, and
 * AC_ERROR_NOT_FINITE names the first one that is not finite after the last update. */
AC_API ac_status ac_fit(ac_trainer *trainer, const ac_fit_desc *desc, ac_fit_result *result);

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/** How many windows such a fit has, with a plan of this batch: `steps`, or as many as fill the
 * epochs of `train`. It reads these members of the description: train, steps, epochs, last_window,
 * batches, growth. If batches grow, it counts as if they never did, which is the most that there
 * can be. AC_ERROR_ARGUMENT as for ac_fit, or if they cannot be counted. */
AC_API ac_status ac_fit_windows(const ac_fit_desc *desc, int64_t batch, int64_t *windows);

/** How far ac_fit has come, over this trainer and those that its state was saved from. */
typedef struct ac_progress {
  int64_t updates;        /**< Updates made, those of ac_trainer_update included. */
  int64_t steps;          /**< As in ac_fit_result: updates, skipped ones included. */
  int64_t skipped;        /**< As in ac_fit_result. */
  int64_t samples;        /**< As in ac_fit_result. */
  int64_t epoch;          /**< Epoch of the window that comes next, or is in progress. */
  int64_t position;       /**< Position in the epoch of the first sample of that window. */
  int64_t window_samples; /**< Samples accumulated in a window in progress. */
} ac_progress;

/** How far ac_fit has come. */
AC_API ac_status ac_trainer_get_progress(const ac_trainer *trainer, ac_progress *progress);

/** The schedule of batches so far, if batches grow (ac_batch_growth), in rows by updates. *count is
 * 0 for other runs. */
AC_API ac_status ac_trainer_get_growth(const ac_trainer *trainer,
                                       ac_batch_stage stages[AC_MAX_BATCH_STAGES], int *count);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
