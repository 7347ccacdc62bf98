/** @file
 * Optimizers: how weights are updated, and what is kept for it. One description says everything: a
 * plan reserves memory by it, and a trainer steps parameters by it. */
#ifndef ACCRUE_OPTIMIZER_H
#define ACCRUE_OPTIMIZER_H

#include <accrue/clipping.h>
#include <accrue/graph.h>
#include <accrue/storage.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Which optimizer, and the state that a plan reserves for it. A matrix of Adafactor and Muon is
 * the first dimension by the rest. */
typedef enum ac_optimizer_kind {
  AC_ADAMW = 0, /**< Two floats for each element. */
  AC_SGD,       /**< One float for each element; without momentum none. */
  AC_LION,      /**< One float for each element. */
  /** One float for each row and each column of a matrix, and for each element of a vector. */
  AC_ADAFACTOR,
  /** One float for each weight of linear layers and convolutions. Two for parameters that AdamW
   * steps: vectors, tables of embeddings, and the last layer before a loss. */
  AC_MUON,
  /** One float for each element, and one for each output of a layer, row of a table, or vector. */
  AC_ADAM_MINI,

  /* ---- may still change ---- */

  /** The caller's own: a function that gets gradients, weights and states on the host
   * (ac_optimizer_desc.step). ac_optimizer_desc.callback_states floats for each element. */
  AC_UNSTABLE(AC_OPTIMIZER_CALLBACK),
  AC_UNSTABLE(AC_OPTIMIZER_COUNT) /**< How many kinds there are. */
} ac_optimizer_kind;

/** How large Muon's updates are. Its update X of a matrix [out, in] has singular values of about
 * one. */
typedef enum ac_muon_scale {
  /** 0.2 sqrt(max(out, in)) X, as large as AdamW's updates (arXiv 2502.16982). AdamW's rates and
   * weight decay suit both. */
  AC_MUON_MATCH_ADAMW = 0,
  AC_MUON_ORIGINAL /**< sqrt(max(1, out / in)) X, as its author does; the rate is about 0.02. */
} ac_muon_scale;

struct ac_parameter_step;

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
  /* What a plan depends on. */
  ac_optimizer_kind kind; /**< Which optimizer. */
  bool sgd_no_momentum;   /**< SGD without a momentum buffer. */

  /* What a trainer may change. */
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
  /** Largest norm of all gradients together, or what `clipping` says. 0 or negative: no
   * clipping. With AC_GRADIENTS_FUSED_LOCAL: the largest norm of each parameter's gradient. */
  double clip;

  /* ---- may still change ---- */

  /* A plan depends on these as well. */
  /** How state is stored. 8 bits are for AdamW, SGD and Lion. */
  AC_UNSTABLE(ac_optimizer_state) AC_UNSTABLE(state);
  /** With AC_STATE_8BIT: parameters with names that match this shell pattern keep their state in
   * f32. NULL: embeddings, because each of their rows is rarely used. "": none. Parameters of fewer
   * than 4096 elements always keep it in f32. */
  const char *AC_UNSTABLE(state_f32);
  /** AC_OPTIMIZER_CALLBACK: how many states each parameter has, with the parameter's shape; 0 to
   * AC_MAX_CALLBACK_STATES. Its weights, gradients and states are f32. If the device is not the
   * host, they are copied to and from staging memory there (ac_plan_info.callback_bytes). Predicted
   * seconds do not include these copies or the callback. */
  int AC_UNSTABLE(callback_states);
  /** AC_OPTIMIZER_CALLBACK: most elements that one call gets. 0: whole parameters. */
  int64_t AC_UNSTABLE(callback_part);
  /** What `clip` limits. */
  AC_UNSTABLE(ac_clipping) AC_UNSTABLE(clipping);
  /* What a trainer may change. */
  /** ac_step_callback, for AC_OPTIMIZER_CALLBACK. NULL with any other optimizer. */
  const char *(*AC_UNSTABLE(step))(void *user, const struct ac_parameter_step *step);
} ac_optimizer_desc;

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/** The name that the program knows it by: "adamw", "sgd", "lion", "adafactor", "muon", "adam-mini".
 * "callback": the caller's own. "unknown": there is none. */
AC_API const char *ac_optimizer_name(ac_optimizer_kind kind);
/** Whether it can keep its state in 8 bits (AC_STATE_8BIT). */
AC_API bool ac_optimizer_has_8bit(ac_optimizer_kind kind);

/** Most states of AC_OPTIMIZER_CALLBACK. */
#define AC_MAX_CALLBACK_STATES 4

/** What an optimizer of the caller's own (AC_OPTIMIZER_CALLBACK) gets: elements [first, first +
 * count) of a trained parameter, on the host. In each update every trained parameter comes once,
 * whole or part by part (ac_optimizer_desc.callback_part), in an order that depends on the plan.
 *
 * The optimizer changes weights and states in place. What it writes is not checked. If the device
 * is the host, the pointers are to the memory itself. Afterwards the trainer updates copies of
 * weights in 16 bits, and averages. */
typedef struct ac_parameter_step {
  int parameter;              /**< Index of the parameter, as in ac_trainer_parameter_info. */
  const char *name;           /**< Its name. */
  int rank;                   /**< Its number of dimensions. */
  int64_t shape[AC_MAX_RANK]; /**< Its dimensions. */
  int64_t first;              /**< The first element. */
  int64_t count;              /**< How many elements. */
  int64_t update;             /**< Which update, from 1 on. */
  /** The schedule's rate times the group's. 0 if the group's parameters stay fixed. */
  double rate;
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

/** An optimizer of the caller's own. `user` is ac_trainer_desc.user. Returns NULL, or a sentence
 * that says why it cannot continue. ac_trainer_update then fails with this sentence and
 * AC_ERROR_STOPPED, as if the device had failed while parameters were stepped. Calls that would
 * change the trainer are refused with AC_ERROR_STATE. What the optimizer keeps elsewhere is not
 * saved in states. */
typedef const char *(*ac_step_callback)(void *user, const ac_parameter_step *step);

#endif /* AC_STABLE_ONLY */

#ifdef __cplusplus
}
#endif
#endif
