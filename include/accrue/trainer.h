/* Training: a plan brought to life. Everything is allocated when a trainer is created: exactly the
 * plan's total on the device, and nothing on the step path after it.
 *
 * A window is one effective batch. Micro-batches add gradients of the *sum* of losses; the update
 * at the end of the window divides by the window's total weight, once. An update is a transaction:
 * if the loss or any gradient is not finite, nothing changes but the report. (A failure of the
 * device itself in the middle of an update cannot be undone: the trainer then refuses to go on
 * until its window is discarded.)
 *
 * The same seed, device, thread count and plan give the same bits. A plan that was chosen under a
 * budget depends on the device's measured speed, so to repeat a run exactly give its micro-batch
 * and recomputation. */
#ifndef ACCRUE_TRAINER_H
#define ACCRUE_TRAINER_H

#include <accrue/dataset.h>
#include <accrue/model_file.h>
#include <accrue/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- learning-rate schedules ----------------------------------------------------------------- */

typedef enum ac_schedule_kind {
  AC_SCHEDULE_CONSTANT = 0, /* lr, after warm-up */
  AC_SCHEDULE_COSINE /* then half a cosine from lr to min_lr at update `total`, constant after it */
} ac_schedule_kind;

typedef struct ac_schedule {
  ac_schedule_kind kind;
  double lr, min_lr;
  int64_t warmup; /* updates of linear warm-up: update u (from 0) gets lr (u + 1) / (warmup + 1) */
  int64_t total;  /* updates, for AC_SCHEDULE_COSINE */
} ac_schedule;

/* The learning rate of update `update`, counted from 0. */
AC_API double ac_schedule_rate(const ac_schedule *schedule, int64_t update);

/* ---- optimizers ------------------------------------------------------------------------------ */

/* Zero means default, so to switch something off give a negative value. */
typedef struct ac_optimizer_desc {
  double beta1, beta2; /* AdamW, arXiv 1711.05101; default 0.9, 0.999 */
  double epsilon;      /* default 1e-8 */
  double weight_decay; /* decoupled in AdamW, added to the gradient in SGD; default 0 */
  double momentum;     /* SGD as PyTorch's, no dampening; default 0.9 */
  bool nesterov;
  double clip; /* largest global gradient norm; 0 or negative: no clipping */
} ac_optimizer_desc;

typedef struct ac_trainer_desc {
  uint64_t seed;               /* of initial parameters and dropout */
  ac_optimizer_desc optimizer; /* its kind is the plan's */
  ac_schedule schedule;
} ac_trainer_desc;

/* ---- the two-call form ----------------------------------------------------------------------- */

typedef struct ac_trainer ac_trainer;

/* Allocates the plan's total and initialises the parameters. The plan must outlive the trainer. */
AC_API ac_status ac_trainer_create(ac_trainer **trainer, const ac_plan *plan,
                                   const ac_trainer_desc *desc);
AC_API void ac_trainer_free(ac_trainer *trainer);

/* Host data for one graph input: `count` samples one after another. */
typedef struct ac_feed {
  const char *name;
  const void *data;
} ac_feed;

/* Adds `count` samples to the window: any number, split into micro-batches of the plan's size, the
 * last one smaller. Every input needs a feed; feeds that name no input are ignored. Integer ids are
 * checked against the tables and classes they index. */
AC_API ac_status ac_trainer_accumulate(ac_trainer *trainer, int64_t count, const ac_feed *feeds,
                                       int feed_count);

typedef struct ac_update {
  int64_t update; /* updates made so far, this one included unless skipped */
  double loss;    /* nats per unit of weight, over the window */
  double weight;  /* samples, or tokens that count */
  double lr;
  double grad_norm; /* of the mean loss's gradient, before clipping */
  double loss_scale;
  bool skipped; /* something was not finite, or the weight was zero: nothing was changed */
  bool finite_loss;
} ac_update;

/* Ends the window: checks, clips, divides, steps. `result` may be NULL. An empty window is
 * AC_ERROR_STATE; a window that is not finite is AC_OK with `skipped`. */
AC_API ac_status ac_trainer_update(ac_trainer *trainer, ac_update *result);

/* Throws away what the window has accumulated. */
AC_API void ac_trainer_discard(ac_trainer *trainer);

/* Runs one micro-batch (count <= micro_batch) op by op and finds the first op whose result is not
 * finite; `text` receives "input images", "parameter w", "op layer_norm (h.0.ln_1)", or "" if all
 * is finite. Does not touch the window. */
AC_API ac_status ac_trainer_locate_nonfinite(ac_trainer *trainer, int64_t count,
                                             const ac_feed *feeds, int feed_count, char *text,
                                             size_t size);

/* Parameters by the plan's order; see ac_trainer_parameter_count. Elements [first, first + count).
 */
AC_API int ac_trainer_parameter_count(const ac_trainer *trainer);
AC_API ac_status ac_trainer_parameter_info(const ac_trainer *trainer, int index,
                                           ac_tensor_info *info);
AC_API int ac_trainer_find_parameter(const ac_trainer *trainer, const char *name); /* -1: none */
AC_API ac_status ac_trainer_get_parameter(ac_trainer *trainer, int index, int64_t first,
                                          int64_t count, float *data);
AC_API ac_status ac_trainer_set_parameter(ac_trainer *trainer, int index, int64_t first,
                                          int64_t count, const float *data);
/* The window's gradient sum so far (not divided). */
AC_API ac_status ac_trainer_get_gradient(ac_trainer *trainer, int index, int64_t first,
                                         int64_t count, float *data);

/* All parameters under their names. `ac_trainer_load` needs every parameter in the file with its
 * exact shape, under its own name or one that lacks `optional_prefix` (NULL: none); others in the
 * file are ignored. */
AC_API ac_status ac_trainer_save(ac_trainer *trainer, const char *path, const ac_metadata *metadata,
                                 int metadata_count);
AC_API ac_status ac_trainer_load(ac_trainer *trainer, const char *path,
                                 const char *optional_prefix);

typedef struct ac_evaluation {
  double loss; /* nats per unit of weight */
  double
      accuracy; /* weighted share of rows whose largest logit is the target; 0 for other losses */
  double weight;
} ac_evaluation;

/* Forward only, without dropout, in the trainer's own memory; a window in progress is left as it
 * is. At most `limit` samples (0: all), from the first on. */
AC_API ac_status ac_trainer_evaluate(ac_trainer *trainer, ac_dataset *dataset, int64_t limit,
                                     ac_evaluation *result);

/* ---- the fit loop ---------------------------------------------------------------------------- */

/* What happens to a window that the end of an epoch leaves incomplete. */
typedef enum ac_last_window {
  AC_LAST_UPDATE = 0, /* update with the samples there are, divided by their true weight */
  AC_LAST_CARRY,      /* fill it up from the next epoch */
  AC_LAST_DROP        /* throw its samples away */
} ac_last_window;

typedef struct ac_fit_event {
  enum { AC_FIT_STEP, AC_FIT_EVALUATION } kind;
  int64_t step; /* windows ended so far, skipped ones included */
  int64_t epoch;
  int64_t samples;          /* in this window */
  double seconds;           /* since the previous window ended, evaluation and callbacks excluded */
  ac_update update;         /* AC_FIT_STEP */
  ac_evaluation evaluation; /* AC_FIT_EVALUATION */
} ac_fit_event;

/* Return false to stop after this event; the fit loop then returns AC_OK with `stopped`. */
typedef bool (*ac_fit_callback)(void *user, const ac_fit_event *event);

typedef struct ac_fit_desc {
  ac_dataset *train;
  ac_dataset *validation; /* may be NULL */
  int64_t steps;          /* windows; 0: by epochs */
  int64_t epochs;         /* 0: by steps; one of the two is needed */
  int64_t eval_every;     /* windows; 0: only at the end */
  int64_t eval_samples;   /* per evaluation but the last; 0: all */
  bool no_final_evaluation;
  bool no_shuffle;
  uint64_t seed; /* of the order of samples */
  ac_last_window last_window;
  ac_fit_callback callback;
  void *user;
} ac_fit_desc;

typedef struct ac_fit_result {
  int64_t steps, epochs, samples;
  bool stopped;   /* by the callback */
  bool evaluated; /* `final` holds an evaluation */
  ac_evaluation final;
  double seconds; /* in steps, without evaluation */
} ac_fit_result;

/* A window that is not finite ends the loop with AC_ERROR_NOT_FINITE; the error names the step and
 * the first op, and the parameters are those of the last good update. `result` may be NULL. */
AC_API ac_status ac_fit(ac_trainer *trainer, const ac_fit_desc *desc, ac_fit_result *result);

#ifdef __cplusplus
}
#endif
#endif
