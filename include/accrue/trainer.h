/** @file
 * Training: a trainer runs a plan. All memory is allocated when the trainer is created: on the
 * device exactly the plan's total. Training itself allocates nothing.
 *
 * The same seed, device, thread count and plan give the same bits. A plan that was chosen for a
 * budget depends on the measured speed of the device. So to repeat a run exactly, give its
 * micro-batch and recomputation.
 *
 * This header includes all that a trainer can do: windows, parameters, evaluation, the fit loop and
 * so on have headers of their own. */
#ifndef ACCRUE_TRAINER_H
#define ACCRUE_TRAINER_H

#include <accrue/optimizer.h>
#include <accrue/schedule.h>
#include <accrue/loss_scaling.h>
#include <accrue/parameter_group.h>
#include <accrue/spike.h>
#include <accrue/plan.h>
#include <accrue/ranks.h>
#include <accrue/window.h>
#include <accrue/parameter.h>
#include <accrue/watch.h>
#include <accrue/evaluation.h>
#include <accrue/results.h>
#include <accrue/fit.h>
#include <accrue/state_file.h>
#include <accrue/range_test.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a trainer should be. */
typedef struct ac_trainer_desc {
  uint64_t seed; /**< Seed of initial parameters and dropout. */
  /** Settings of the optimizer that differ from those of the plan. A member that is 0 is as in
   * ac_plan_desc.optimizer: a trainer can set `nesterov`, `muon_no_nesterov` and `muon_scale`, but
   * not reset them. Members that plans depend on are 0 or the same. */
  ac_optimizer_desc optimizer;
  ac_schedule schedule;              /**< Learning rates. */
  ac_loss_scaling_desc loss_scaling; /**< Loss scaling. */
  /** With ac_plan_desc.average: decay of the average. An update sets average = decay * average +
   * (1 - decay) * parameter. The first one copies the parameter. In [0, 1); default 0.999,
   * negative: 0. */
  double average_decay;

  /* ---- may still change ---- */

  /** Updates between measurements of the gradient noise scale (ac_trainer_noise_scale). 0: do not
   * measure. -1: chosen from the plan so that the cost stays near 1 %. It is computed, not timed,
   * so a run repeats. */
  int64_t AC_UNSTABLE(noise_every);
  /** Measure the noise scale of each parameter as well (ac_trainer_noise_scale_of). */
  bool AC_UNSTABLE(noise_layers);
  /** How to watch for spikes. */
  AC_UNSTABLE(ac_spike_desc) AC_UNSTABLE(spikes);
  /** Updates between measurements of layers (ac_trainer_layer). The first update is measured. 0: do
   * not measure. It takes 4 bytes of host memory for each weight that is read. */
  int64_t AC_UNSTABLE(layers_every);
  /** Groups of parameters. Only settings are kept. */
  AC_UNSTABLE(ac_parameter_group) AC_UNSTABLE(groups)[AC_MAX_GROUPS];
  int AC_UNSTABLE(group_count); /**< How many groups there are. */
  /** Decides on updates. May be NULL. */
  AC_UNSTABLE(ac_decide) AC_UNSTABLE(decide);
  /** Gives learning rates. NULL: the schedule does. */
  AC_UNSTABLE(ac_rate_callback) AC_UNSTABLE(rate);
  void *AC_UNSTABLE(user); /**< Passed to these functions and ac_optimizer_desc.step. */
  /** States (ac_trainer_save_state) leave out the parameters that training does not change, such as
   * a frozen base that is in a file of its own. Load these before a state is loaded. A state loads
   * only where this is set as it was when the state was saved. */
  bool AC_UNSTABLE(states_without_frozen);
  /** The trainer with the parameters of ac_plan_desc.shared. Each is found there by its name, and
   * has the same shape and storage there. Both plans are for the same device. The other trainer
   * must outlive this one.
   *
   * There is one copy of these parameters: what one trainer changes, the other one uses from then
   * on. Both may train them, each with gradients and optimizer state of its own. If only one does,
   * the other one freezes them (ac_plan_desc.frozen). Change them between the windows of both.
   * Their initial values are those of the other trainer; loading changes them in both. NULL: the
   * plan shares none. */
  ac_trainer *AC_UNSTABLE(share);
  /** This rank, one of those that share out each window. It must outlive the trainer. The plan is
   * for so many ranks (ac_plan_desc.ranks), and so is that of each other rank, for the same graph.
   *
   * All ranks then make the same calls of ac_trainer_create, ac_trainer_update, ac_trainer_evaluate
   * and ac_fit, in the same order: these wait for each other. The samples of a window are shared
   * out: rank r of R takes those after the ones of rank r - 1, and the first ranks one more where
   * they do not come out even. ac_fit does so. A caller of ac_trainer_accumulate gives each trainer
   * its own samples, possibly none, and dropout takes them for those of a whole window, unless
   * ac_trainer_begin_share has said which they are.
   *
   * Within a window of ac_fit a thread of the trainer's uses the rank. What is called there, such
   * as a function that is handed a tensor, must not use it; the fit's callback may.
   *
   * An update adds up the sums of all ranks, in the order of ranks, and divides once: all trainers
   * take the same decision and have the same weights. Results depend on the number of ranks by
   * rounding alone. What `decide` of rank 0 decides counts for all. AC_ERROR_ARGUMENT if something
   * that the plan or this description asks for cannot be shared out; AC_ERROR_STATE if ranks differ
   * in what they train. NULL: one rank. */
  ac_ranks *AC_UNSTABLE(ranks);
} ac_trainer_desc;

/** Creates a trainer: allocates the plan's total and initialises the parameters. The plan must
 * outlive the trainer.
 *
 * A function that reads samples for a trainer (ac_read_sample) may not change or run it: such calls
 * are refused with AC_ERROR_STATE, and ac_trainer_discard does nothing. */
AC_API ac_status ac_trainer_create(ac_trainer **trainer, const ac_plan *plan,
                                   const ac_trainer_desc *desc);

/** Frees a trainer. Those that share its parameters are freed before. */
AC_API void ac_trainer_free(ac_trainer *trainer);

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/** The learning rate of the next update, with scaling and reductions, or that of
 * ac_trainer_desc.rate. */
AC_API double ac_trainer_rate(const ac_trainer *trainer);

/** With AC_SCHEDULE_PLATEAU: tells the loss of a validation. ac_fit does the same with its
 * validations every eval_every windows. AC_ERROR_STATE with another schedule. */
AC_API ac_status ac_trainer_observe_validation(ac_trainer *trainer, double loss);

/** Sets the effective batch of the following windows, from 1 to the plan's: the samples of a whole
 * window. Scaled learning rates and the loss scale depend on it. Without this call it is the
 * plan's. ac_fit sets it, from its schedule of batches or to the plan's. AC_ERROR_STATE within a
 * window. */
AC_API ac_status ac_trainer_set_batch(ac_trainer *trainer, int64_t batch);

/** Before a window, with ranks: says that the first sample which this rank accumulates is this one
 * of the window, counted from 0, so that dropout draws what it would draw for it with one rank.
 * Without this call it is the first one of the rank's share of a whole window. */
AC_API ac_status ac_trainer_begin_share(ac_trainer *trainer, int64_t first);

/** What a rank has done for the others, since its trainer was created and up to the last window. */
typedef struct ac_rank_report {
  uint64_t bytes; /**< Bytes that it has sent. */
  double waited;  /**< Seconds that it has waited for others. */
} ac_rank_report;
/** Describes a rank, from 0 on. All ranks know it of all. AC_ERROR_ARGUMENT if there is no such
 * rank. */
AC_API ac_status ac_trainer_rank_report(const ac_trainer *trainer, int rank,
                                        ac_rank_report *result);

/** The effective batch of the next window: as set, or by the schedule of ac_fit. 0 for NULL. */
AC_API int64_t ac_trainer_batch(const ac_trainer *trainer);

/** Changes the settings of a group from the next update on. `group` is its place in the
 * description. Changed settings are saved in states. AC_ERROR_ARGUMENT as for ac_trainer_create. */
AC_API ac_status ac_trainer_set_group(ac_trainer *trainer, int group,
                                      const ac_group_settings *settings);

/** The settings of a group, with defaults filled in. A weight decay or clip that is the optimizer's
 * stays 0. */
AC_API ac_status ac_trainer_get_group(const ac_trainer *trainer, int group,
                                      ac_group_settings *settings);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
