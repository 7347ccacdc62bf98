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

#include <accrue/schedule.h>
#include <accrue/loss_scaling.h>
#include <accrue/parameter_group.h>
#include <accrue/spike.h>
#include <accrue/plan.h>
#include <accrue/window.h>
#include <accrue/parameter.h>
#include <accrue/watch.h>
#include <accrue/evaluation.h>
#include <accrue/fit.h>
#include <accrue/state_file.h>
#include <accrue/range_test.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- optimizers ------------------------------------------------------------------------------ */

/** How large Muon's updates are. Its update X of a matrix [out, in] has singular values of about
 * one.
 */
typedef enum ac_muon_scale {
  /** 0.2 sqrt(max(out, in)) X, as large as AdamW's updates (arXiv 2502.16982). AdamW's rates and
   * weight decay suit both. */
  AC_MUON_MATCH_ADAMW = 0,
  AC_MUON_ORIGINAL /**< sqrt(max(1, out / in)) X, as its author does; the rate is about 0.02. */
} ac_muon_scale;

/** Settings of the optimizer. 0 means the default. To switch something off, give a negative value.
 *
 * Muon is PyTorch's, with Newton-Schulz iterations in f32. They are in bf16 with AC_PRECISION_BF16
 * on a device that multiplies it (ac_device_info.bf16_products). A filter is a matrix of its first
 * dimension by the rest.
 *
 * Adafactor (arXiv 1804.04235) is PyTorch's, with its constants and without momentum: t^-0.8 for
 * the decay of its second moments; updates clipped at a root mean square of 1; an update relative
 * to the root mean square of the parameter, at least 1e-3; and a rate of at most 1 / sqrt(t) at
 * update t. In a tensor of higher rank the first dimension is rows, and the rest is columns. */
typedef struct ac_optimizer_desc {
  /** AdamW, arXiv 1711.05101, and Adam-mini, arXiv 2406.16793: default 0.9. Lion, arXiv 2302.06675:
   * 0.9. */
  double beta1;
  double beta2;          /**< AdamW and Adam-mini: default 0.999. Lion: 0.99. */
  double epsilon;        /**< Default 1e-8. */
  double weight_decay;   /**< Added to the gradient in SGD, decoupled in the others. Default 0. */
  double momentum;       /**< SGD as in PyTorch, no dampening: default 0.9. Muon: 0.95. */
  bool nesterov;         /**< Nesterov's momentum for SGD. */
  bool muon_no_nesterov; /**< Muon without Nesterov's momentum. */
  ac_muon_scale muon_scale; /**< How large Muon's updates are. */
  /** Learning rate of parameters that Muon leaves to AdamW, as a part of the schedule's rate.
   * Default 1; with AC_MUON_ORIGINAL 0.015. */
  double adamw_rate;
  /** Largest norm of all gradients together, or what ac_plan_desc.clipping says. 0 or negative: no
   * clipping. With AC_GRADIENTS_FUSED_LOCAL: the largest norm of each parameter's gradient. */
  double clip;
} ac_optimizer_desc;

/** What an optimizer of the caller's own (AC_OPTIMIZER_CALLBACK) gets: elements [first, first +
 * count) of a trained parameter, on the host. In each update every trained parameter comes once,
 * whole or part by part (ac_plan_desc.callback_part), in an order that depends on the plan.
 *
 * The optimizer changes weights and states in place. What it writes is not checked. If the device
 * is the host, the pointers are to the memory itself. Afterwards the trainer updates copies of
 * weights in 16 bits, and averages. May still change. */
typedef struct ac_parameter_step {
  int parameter;              /**< Index of the parameter, as in ac_trainer_parameter_info. */
  const char *name;           /**< Its name. */
  int rank;                   /**< Its number of dimensions. */
  int64_t shape[AC_MAX_RANK]; /**< Its dimensions. */
  int64_t first;              /**< The first element. */
  int64_t count;              /**< How many elements. */
  int64_t update;             /**< Which update, from 1 on. */
  double
      rate; /**< The schedule's rate times the group's. 0 if the group's parameters stay fixed. */
  /** The group's weight decay. Else the optimizer's, for matrices that decay. */
  double weight_decay;
  /** The trainer's settings, with AdamW's defaults. Momentum and beta1 are the schedule's, if it
   * moves them. Clipping (`clip`) is already done. */
  ac_optimizer_desc optimizer;
  const float *gradient;                /**< Gradient of the mean loss, unscaled and clipped. */
  float *weights;                       /**< The weights, to change. */
  float *state[AC_MAX_CALLBACK_STATES]; /**< The states, to change. Zero before the first update. */
  int state_count;                      /**< How many states there are. */
} ac_parameter_step;

/** An optimizer of the caller's own. Returns NULL, or a sentence that says why it cannot continue.
 * ac_trainer_update then fails with this sentence and AC_ERROR_STOPPED, as if the device had failed
 * while parameters were stepped. Calls that would change the trainer are refused with
 * AC_ERROR_STATE. What the optimizer keeps elsewhere is not saved in states. May still change. */
typedef const char *(*ac_step_callback)(void *user, const ac_parameter_step *step);

/* ---- trainers -------------------------------------------------------------------------------- */

/** What a trainer should be. */
typedef struct ac_trainer_desc {
  uint64_t seed;                     /**< Seed of initial parameters and dropout. */
  ac_optimizer_desc optimizer;       /**< Settings of the optimizer; the plan says which one. */
  ac_schedule schedule;              /**< Learning rates. */
  ac_loss_scaling_desc loss_scaling; /**< Loss scaling. */
  /** With ac_plan_desc.average: decay of the average. An update sets average = decay * average +
   * (1 - decay) * parameter. The first one copies the parameter. In [0, 1); default 0.999,
   * negative: 0. */
  double average_decay;
  ac_step_callback step; /**< For AC_OPTIMIZER_CALLBACK. NULL with any other optimizer. */

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
  void *AC_UNSTABLE(user); /**< Passed to all three functions. */
} ac_trainer_desc;

/** Creates a trainer: allocates the plan's total and initialises the parameters. The plan must
 * outlive the trainer.
 *
 * A function that reads samples for a trainer (ac_read_sample) may not change or run it: such calls
 * are refused with AC_ERROR_STATE, and ac_trainer_discard does nothing. */
AC_API ac_status ac_trainer_create(ac_trainer **trainer, const ac_plan *plan,
                                   const ac_trainer_desc *desc);

/** Frees a trainer. */
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
