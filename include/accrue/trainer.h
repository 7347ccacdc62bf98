/* Training: a plan brought to life. Everything is allocated when a trainer is created: exactly the
 * plan's total on the device, and nothing on the step path after it.
 *
 * A window is one effective batch. Micro-batches add gradients of the *sum* of losses; the update
 * at the end of the window divides by the window's total weight, once. An update is a transaction:
 * if the loss, any gradient or what a batch norm pools is not finite, nothing changes but the
 * report; but where each parameter is stepped by itself (AC_GRADIENTS_FUSED_LOCAL) a gradient that
 * is not finite holds back its own parameter alone, and what was folded (AC_GRADIENTS_FOLDED)
 * cannot be undone. A failure of the device itself in a window is undone by discarding the window.
 * In the middle of the steps of parameters it cannot be undone: the trainer then refuses to train,
 * evaluate and save, until a state is loaded; or training is taken up by another one from
 * parameters that were saved before.
 *
 * The same seed, device, thread count and plan give the same bits. A plan that was chosen under a
 * budget depends on the device's measured speed, so to repeat a run exactly give its micro-batch
 * and recomputation. */
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

/* ---- optimizers ------------------------------------------------------------------------------ */

/* How far Muon's steps go, whose update X of a matrix [out, in] has singular values of about one.
 */
typedef enum ac_muon_scale {
  AC_MUON_MATCH_ADAMW = 0, /* 0.2 sqrt(max(out, in)) X, as large as AdamW's steps (arXiv
                              2502.16982): AdamW's rates and weight decay serve both */
  AC_MUON_ORIGINAL         /* sqrt(max(1, out / in)) X, its author's: the rate is some 0.02 */
} ac_muon_scale;

/* Zero means default, so to switch something off give a negative value. Muon is PyTorch's, with
 * Newton-Schulz iterations in f32, but in bf16 with AC_PRECISION_BF16 on a device that multiplies
 * it (ac_device_info.bf16_products); filters are matrices of their first dimension by the rest.
 * Adafactor (arXiv 1804.04235) is PyTorch's for matrices and vectors, with its constants and
 * without momentum (of higher ranks the first dimension is rows and the rest columns): t^-0.8 for
 * the decay of its second moments, updates clipped at a root mean square of 1, a step relative to
 * that of the parameter, at least 1e-3, and a rate of at most 1 / sqrt(t) at update t. */
typedef struct ac_optimizer_desc {
  /* AdamW, arXiv 1711.05101, and Adam-mini, arXiv 2406.16793: default 0.9, 0.999. Lion, arXiv
   * 2302.06675: 0.9, 0.99. */
  double beta1, beta2;
  double epsilon;      /* default 1e-8 */
  double weight_decay; /* added to the gradient in SGD, decoupled in the others; default 0 */
  double momentum;     /* SGD as PyTorch's, no dampening; default 0.9, for Muon 0.95 */
  bool nesterov;       /* of SGD */
  bool muon_no_nesterov;
  ac_muon_scale muon_scale;
  /* AdamW's learning rate for what Muon leaves to it, as a part of the schedule's; default 1, with
   * AC_MUON_ORIGINAL 0.015. */
  double adamw_rate;
  /* Largest global gradient norm, or what else ac_plan_desc.clipping says; 0 or negative: no
   * clipping. With AC_GRADIENTS_FUSED_LOCAL the largest norm of each parameter's gradient. */
  double clip;
} ac_optimizer_desc;

/* An optimizer of the caller's own (AC_OPTIMIZER_CALLBACK) is handed each parameter that is
 * trained, once in an update, whole or part by part (ac_plan_desc.callback_part), in an order that
 * depends on the plan: elements [first, first + count) on the host. It changes weights and states
 * in place; what it writes is not checked. Where the device is the host they are the memory itself.
 * Copies of weights in 16 bits and averages follow behind it. May still change. */
typedef struct ac_parameter_step {
  int parameter; /* as in ac_trainer_parameter_info */
  const char *name;
  int rank;
  int64_t shape[AC_MAX_RANK];
  int64_t first, count;
  int64_t update;      /* from 1 on */
  double rate;         /* of the schedule, times the group's: 0 of one that stays as it is */
  double weight_decay; /* its group's; else the optimizer's, of matrices that decay */
  ac_optimizer_desc optimizer; /* the trainer's, with AdamW's defaults; momentum and beta1 are the
                                  schedule's, if it moves them. `clip` has been done */
  const float *gradient;       /* of the mean loss, unscaled, clipped */
  float *weights;
  float *state[AC_MAX_CALLBACK_STATES]; /* zero before the first update */
  int state_count;
} ac_parameter_step;

/* Returns NULL, or a sentence that says why it cannot go on: ac_trainer_update then fails with that
 * and AC_ERROR_STOPPED, in the middle of the steps of parameters, as if the device had failed
 * there. A trainer that it calls refuses with AC_ERROR_STATE what would change anything. What it
 * keeps elsewhere is no part of states. May still change. */
typedef const char *(*ac_step_callback)(void *user, const ac_parameter_step *step);

/* ---- rates of the caller's own --------------------------------------------------------------- */

/* A schedule of the caller's own, or the rate set on the way: returns the learning rate of update
 * `update`, counted from 0, whose rate by ac_trainer_desc.schedule, with scaling and reductions, is
 * `scheduled`. One that is negative or not finite, as a float and times what a group makes of it,
 * is AC_ERROR_ARGUMENT of ac_trainer_update, which then changes nothing. It is called by each
 * ac_trainer_update and by ac_trainer_rate, and what it keeps is no part of states: a run that goes
 * on has the same bits where the same updates get the same rates. AC_SPIKE_BACK lowers what it
 * returns, too; a range test leaves it out. May still change. */
typedef double (*ac_rate_callback)(void *user, int64_t update, double scheduled);

/* ---- groups of parameters -------------------------------------------------------------------- */

#define AC_MAX_GROUPS 8

/* What a group has of its own. Zero means default, so to switch something off give a negative
 * value. */
typedef struct ac_group_settings {
  double rate; /* part of the schedule's rate; default 1, negative: parameters stay as they are */
  /* Of all parameters of the group, vectors too, and those that ac_parameter_desc exempts; default:
   * the optimizer's, of matrices. */
  double weight_decay;
  /* Largest norm of the gradients of the group's parameters together, which then do not count in
   * the norm that others are clipped by; negative: they are not clipped. Default: with the others,
   * by the optimizer's. With AC_GRADIENTS_FUSED_LOCAL the largest norm of each one's gradient, and
   * with another ac_plan_desc.clipping what that says. */
  double clip;
} ac_group_settings;

/* Parameters whose names match one of these shell patterns, with commas between. Of several groups
 * that match a parameter is of the first. May still change. */
typedef struct ac_parameter_group {
  const char *patterns;
  ac_group_settings settings;
} ac_parameter_group;

/* ---- loss scaling ---------------------------------------------------------------------------- */

/* Gradients too small for 16 bits are saved by a factor on the loss, which the update divides out
 * again (arXiv 1710.03740). The scale is that of the window's *mean* loss: 65536 means what it
 * means where losses are means. With powers of two, as by default, no gradient is rounded by it.
 *
 * A dynamic scale starts high, backs off when a window overflows, whose update is skipped, and
 * grows after `interval` updates in a row; its states are those of PyTorch's GradScaler. */
typedef enum ac_loss_scaling {
  AC_LOSS_SCALING_DEFAULT = 0, /* dynamic if the plan's precision is f16, else none */
  AC_LOSS_SCALING_NONE,
  AC_LOSS_SCALING_STATIC,
  AC_LOSS_SCALING_DYNAMIC
} ac_loss_scaling;

typedef struct ac_loss_scaling_desc {
  ac_loss_scaling kind;
  double scale;     /* constant or initial; default 65536 */
  double growth;    /* above 1; default 2 */
  double backoff;   /* within (0, 1); default 0.5 */
  int64_t interval; /* updates; default 2000 */
  double floor;     /* a dynamic scale never backs off below it; default 1 */
} ac_loss_scaling_desc;

/* ---- deciding on an update ------------------------------------------------------------------- */

typedef struct ac_trainer ac_trainer;

/* One of the losses of a graph, over a window or a dataset. May still change. */
typedef struct ac_loss_mean {
  const char *name; /* as given to ac_graph_add_loss; "" of a loss that was set */
  double loss;      /* nats, or what it is in, per unit of weight; NaN of nothing */
  double accuracy;  /* weighted share of rows classified right; 0 for losses that do not say; NaN of
                       nothing */
  double weight;    /* with AC_LOSS_MEANS_PER_SAMPLE the samples, else its own */
} ac_loss_mean;

/* What a window has come to, before anything is changed. May still change. */
typedef struct ac_decision {
  double loss, weight, grad_norm; /* as in ac_update */
  bool finite;   /* loss, gradients and the means and variances that batch norms pool; if not, the
                    window is skipped in any case, unless gradients are written that are */
  double factor; /* what the update multiplies gradients of the mean loss by: that of clipping,
                    or 1. May be set to another that is finite and not negative. Of groups with a
                    clip of their own theirs stays. AC_CLIP_EACH multiplies by its own behind it;
                    by value and adaptively what it leaves is clipped */
  bool skip;     /* may be set: nothing is changed, as if the window were not finite, but a dynamic
                    loss scale stays. AC_SPIKE_SKIP and AC_SPIKE_BACK set it, which may be undone:
                    then ac_fit does not go back either */
  bool spike;    /* ac_spike.alarm */
} ac_decision;

/* Called in ac_trainer_update once gradients are reduced. It may read gradients and parameters
 * (ac_trainer_get_mean_gradient, ac_trainer_gradient_norm, ac_trainer_get_parameter), for
 * histograms or a clipping of its own, and write gradients (ac_trainer_set_gradient), but not
 * change anything else: what would is refused with AC_ERROR_STATE, and ac_trainer_discard does
 * nothing. Where it has written gradients all are measured once more behind it: what the update
 * says of norms and spikes, and whether all is finite, is of what was written, and `factor` and
 * `skip`, where they were left as proposed, are proposed anew. With AC_GRADIENTS_FUSED_LOCAL there
 * is no such moment, and a trainer that asks for one is refused. May still change. */
typedef void (*ac_decide)(void *user, ac_trainer *trainer, ac_decision *decision);

typedef struct ac_trainer_desc {
  uint64_t seed;               /* of initial parameters and dropout */
  ac_optimizer_desc optimizer; /* its kind is the plan's */
  ac_schedule schedule;
  ac_loss_scaling_desc loss_scaling;
  /* With ac_plan_desc.average: what an update leaves of the average a, which becomes
   * decay a + (1 - decay) p of the parameter p; the first one sets it to p. In [0, 1); default
   * 0.999, negative: 0. */
  double average_decay;
  /* Updates between measurements of the gradient noise scale (ac_trainer_noise_scale); 0: it is not
   * measured; -1: as many that it costs at most 1 % of the time, by a fixed model of a middling
   * device, so that a run repeats. May still change. */
  int64_t noise_every;
  bool noise_layers; /* of each parameter apart, too (ac_trainer_noise_scale_of). May still change.
                      */
  ac_spike_desc spikes; /* may still change */
  /* Updates between measurements of layers (ac_trainer_layer), of which the first is the first
   * update; 0: none. It takes host memory: 4 bytes for each weight that is looked at. May still
   * change. */
  int64_t layers_every;
  ac_parameter_group groups[AC_MAX_GROUPS]; /* nothing of them is kept but their settings */
  int group_count;
  ac_step_callback step; /* of AC_OPTIMIZER_CALLBACK, and NULL with any other optimizer */
  ac_decide decide;      /* may be NULL */
  ac_rate_callback rate; /* NULL: the rate is the schedule's */
  void *user;            /* for all of these */
} ac_trainer_desc;

/* ---- the two-call form ----------------------------------------------------------------------- */

/* Allocates the plan's total and initialises the parameters. The plan must outlive the trainer.
 *
 * A trainer that is called by a function that reads samples for it (ac_read_sample) refuses with
 * AC_ERROR_STATE what would change or run it, and ac_trainer_discard does nothing there. */
AC_API ac_status ac_trainer_create(ac_trainer **trainer, const ac_plan *plan,
                                   const ac_trainer_desc *desc);
AC_API void ac_trainer_free(ac_trainer *trainer);

/* Host data for one graph input: `count` samples one after another. */
typedef struct ac_feed {
  const char *name;
  const void *data;
} ac_feed;

/* Adds `count` samples to the window: any number, split into micro-batches of the plan's size, the
 * last one smaller; all at once where the plan was made for whole windows. Every input needs a
 * feed; feeds that name no input are ignored. Integer ids are checked against the tables and
 * classes they index. A window whose losses' weights are counted beforehand (ac_loss_means; with
 * AC_GRADIENTS_FOLDED, too) comes all at once, unless ac_trainer_begin_window gave them. */
AC_API ac_status ac_trainer_accumulate(ac_trainer *trainer, int64_t count, const ac_feed *feeds,
                                       int feed_count);

/* Before the first samples of a window whose plan says AC_LOSS_MEANS_GIVEN, and has several losses
 * or folds gradients: how many samples it will have, and what each loss will weigh over all of
 * them, in the order of ac_graph_add_loss. The update fails with AC_ERROR_ARGUMENT, and changes
 * nothing but what was folded, if that was not so; the window is then to be discarded. */
AC_API ac_status ac_trainer_begin_window(ac_trainer *trainer, int64_t samples,
                                         const double *weights, int weight_count);

typedef struct ac_update {
  int64_t update; /* updates made so far, this one included unless skipped */
  double loss;    /* nats per unit of weight, over the window; NaN if that weighs nothing */
  double weight;  /* samples, or tokens that count; with several losses samples */
  double lr;
  double momentum;    /* or beta1; 0 of an optimizer that has none */
  double grad_norm;   /* of the mean loss's gradient, unscaled, before clipping; NaN: folded, or of
                         a window that weighs nothing */
  double loss_scale;  /* of this window; 1 without loss scaling */
  double noise_scale; /* ac_noise_scale.batch as it is now; NaN: not known. May still change. */
  bool skipped;       /* something was not finite, the weight was zero, or `decide` said so: nothing
                         was changed */
  /* finite_gradient: and the means and variances that batch norms pool, and the squares that
   * optimizers other than SGD and Lion keep of a clipped gradient, whose norm must therefore be
   * below 1.8e19. If one of these is not finite, grad_norm is infinite. */
  bool finite_loss, finite_gradient;
  /* AC_GRADIENTS_FUSED_LOCAL: parameters whose gradients were not finite, and which were not
   * stepped; others were unless `skipped`. May still change. */
  int left_out;
  /* Skipped, and no lower loss scale is left to try: the scale is at its floor, a static one has
   * failed in ten windows in a row, or there is no scaling. Or parameters were left out with the
   * scale at its floor, or in ten windows in a row. The model diverges, its data are not finite, or
   * a loss weighs so little that no scale helps. */
  bool stuck;
  /* Of each group, the part of grad_norm; norms add up by their squares. May still change. */
  double group_norms[AC_MAX_GROUPS];
  int group_count;
  /* Each loss; `loss` above is the sum of factor x mean. */
  ac_loss_mean losses[AC_MAX_LOSSES];
  int loss_count;
  ac_spike spike; /* by ac_trainer_desc.spikes. May still change. */
  bool layers;    /* layers were measured, by ac_trainer_desc.layers_every. May still change. */
} ac_update;

/* Ends the window: checks, unscales, clips, divides, steps. `result` may be NULL. An empty window
 * is AC_ERROR_STATE; a window that is not finite is AC_OK with `skipped`: parameters, moments,
 * updates made, schedule and random numbers are what they were, and only a dynamic loss scale is
 * lower. The same samples may then be accumulated again, or others. So it is with a window that
 * weighs nothing. With AC_GRADIENTS_FOLDED one that is not finite is AC_ERROR_NOT_FINITE and spoils
 * optimizer state, so that the trainer is of no use until a state is loaded; one whose weights the
 * graph computes and that weighs nothing is AC_ERROR_ARGUMENT and spoils it, too; and a decision
 * that skips or scales is AC_ERROR_STATE. */
AC_API ac_status ac_trainer_update(ac_trainer *trainer, ac_update *result);

/* Other settings of a group, by its place in the description, from the next update on. Those that
 * were changed become part of states. AC_ERROR_ARGUMENT as for ac_trainer_create. May still change.
 */
AC_API ac_status ac_trainer_set_group(ac_trainer *trainer, int group,
                                      const ac_group_settings *settings);
/* With defaults filled in, but for a weight decay or clip that is the optimizer's. */
AC_API ac_status ac_trainer_get_group(const ac_trainer *trainer, int group,
                                      ac_group_settings *settings);

/* With ac_plan_desc.average: exchanges averages and trained parameters, in their own memory. While
 * averages are in use evaluation, saving a model and reading parameters find them; training,
 * changing parameters and states are AC_ERROR_STATE. Running statistics and frozen parameters have
 * no average and stay as they are. Before the first update averages are zero, and refused. To the
 * bit, all is what it was once they are no longer in use; if that fails the trainer is of no use
 * until a state is loaded. AC_ERROR_STATE with a window in progress. May still change. */
AC_API ac_status ac_trainer_use_average(ac_trainer *trainer, bool average);

/* With AC_SCHEDULE_PLATEAU: the loss of a validation, as ac_fit tells it, too, of those that it
 * makes every eval_every windows. AC_ERROR_STATE with another schedule. May still change. */
AC_API ac_status ac_trainer_observe_validation(ac_trainer *trainer, double loss);

/* The learning rate of the update that comes next, with scaling and reductions, or that of
 * ac_trainer_desc.rate. May still change.
 */
AC_API double ac_trainer_rate(const ac_trainer *trainer);

/* The effective batch of the windows that follow, from 1 to the plan's: samples of a whole window,
 * which scaled learning rates and the loss scale go by. Without this it is the plan's. ac_fit sets
 * it, by its schedule of batches or to the plan's. AC_ERROR_STATE within a window. May still
 * change. */
AC_API ac_status ac_trainer_set_batch(ac_trainer *trainer, int64_t batch);
/* What was set, or what the schedule of ac_fit says of the window that comes next. 0 of NULL. May
 * still change. */
AC_API int64_t ac_trainer_batch(const ac_trainer *trainer);

/* The gradient noise scale tr Sigma / |G|^2, arXiv 1812.06162, appendix A: the batch from which on
 * a larger one saves hardly any updates, as gradients agree. G is the true gradient, Sigma the
 * covariance of a single sample's. Each is estimated without a bias from the norms of the gradient
 * after the first micro-batch of a window and after all of it, averaged over windows with weights
 * that fall by 0.5 % from one to the one before, and then divided. Losses' means are by weight, so
 * a sample is one of the mean weight of its window. Windows of one micro-batch are not measured,
 * nor is anything where gradients are not added up in a buffer. May still change. */
typedef struct ac_noise_scale {
  int64_t windows;         /* measured so far */
  double gradient_squares; /* |G|^2; NaN before the first */
  double variance;         /* tr Sigma, of one sample; NaN before the first */
  double batch;     /* samples; NaN: not known, as before the first, or as |G|^2 is not above 0 */
  double deviation; /* of `batch`, from the spread over windows; NaN: not known */
} ac_noise_scale;
AC_API ac_status ac_trainer_noise_scale(const ac_trainer *trainer, ac_noise_scale *result);

/* With ac_trainer_desc.noise_layers: the same of one parameter's gradient alone, by its own norms.
 * Over all parameters |G|^2 and tr Sigma add up to those of the whole. Without windows where it was
 * not asked for, and of a parameter that is not trained; AC_ERROR_ARGUMENT: there is none of that
 * index. What was measured is part of states. May still change. */
AC_API ac_status ac_trainer_noise_scale_of(const ac_trainer *trainer, int index,
                                           ac_noise_scale *result);

/* Throws away what the window has accumulated, and its failure; not that of an update that had
 * begun to step parameters. What was folded (AC_GRADIENTS_FOLDED) cannot be thrown away: the
 * trainer is then of no use until a state is loaded. */
AC_API void ac_trainer_discard(ac_trainer *trainer);

/* Runs one micro-batch (count <= micro_batch) op by op and finds the first op whose result is not
 * finite; `text` receives "input images", "parameter w", "parameter w, too large for f16", "op
 * layer_norm (h.0.ln_1)", or "" if all is finite. Does not touch the window; AC_ERROR_STATE if one
 * is in progress that a plan for whole windows takes as one micro-batch. May still change. */
AC_API ac_status ac_trainer_locate_nonfinite(ac_trainer *trainer, int64_t count,
                                             const ac_feed *feeds, int feed_count, char *text,
                                             size_t size);

/* With ac_plan_desc.debug_numerics: what one op has stored in 16 bits since the trainer was made,
 * up to the last update. May still change. */
typedef struct ac_numerics {
  const char *op, *scope; /* as in ac_plan_step */
  bool backward;
  int64_t values;     /* stored */
  int64_t overflowed; /* of these, not finite */
  int64_t flushed;    /* f16 only: not zero, but stored as zero */
} ac_numerics;

/* How many ops store in 16 bits and are watched, which is all but those that only move values; the
 * index-th of them. May still change. */
AC_API int ac_trainer_numerics_count(const ac_trainer *trainer);
AC_API ac_status ac_trainer_numerics(const ac_trainer *trainer, int index, ac_numerics *result);

/* The graph's parameters, in its order; the elements [first, first + count) of one. */
AC_API int ac_trainer_parameter_count(const ac_trainer *trainer);
AC_API ac_status ac_trainer_parameter_info(const ac_trainer *trainer, int index,
                                           ac_tensor_info *info);
AC_API int ac_trainer_find_parameter(const ac_trainer *trainer, const char *name); /* -1: none */
AC_API ac_status ac_trainer_get_parameter(ac_trainer *trainer, int index, int64_t first,
                                          int64_t count, float *data);
/* AC_ERROR_STATE during a decision, and in a window whose update computes its gradients again or
 * that folds them (AC_GRADIENTS_FUSED, AC_GRADIENTS_FOLDED), as for ac_trainer_load. */
AC_API ac_status ac_trainer_set_parameter(ac_trainer *trainer, int index, int64_t first,
                                          int64_t count, const float *data);
/* The gradient of the *sum* of losses over what the window has accumulated so far, times the loss's
 * factor: the update divides it by ac_update.weight. The loss scale is not in it. With several
 * losses it is the sum over losses of factor x samples / weight x gradient of the loss's sum, and
 * the update divides by samples. AC_ERROR_STATE in an empty window and where the plan keeps no
 * gradients (any other way than AC_GRADIENTS_BUFFER); AC_ERROR_ARGUMENT of a parameter that is
 * frozen. May still change. */
AC_API ac_status ac_trainer_get_gradient(ac_trainer *trainer, int index, int64_t first,
                                         int64_t count, float *data);
/* Writes elements of it, in the same units and with the same errors: within a window, whose further
 * samples add to it, or while its update is decided (ac_decide). Values are multiplied by the loss
 * scale and, with AC_GRADIENT_BF16, rounded to nearest; one that does not fit then is infinite, and
 * the window is skipped as any that is not finite. Such a window does not count for the gradient
 * noise scale. May still change. */
AC_API ac_status ac_trainer_set_gradient(ac_trainer *trainer, int index, int64_t first,
                                         int64_t count, const float *data);
/* While an update is decided: the gradient of the mean loss, divided and unscaled, before clipping,
 * so that its norm is ac_trainer_gradient_norm. AC_ERROR_STATE at any other time, in a window that
 * weighs nothing, and where the plan keeps no gradients. May still change. */
AC_API ac_status ac_trainer_get_mean_gradient(ac_trainer *trainer, int index, int64_t first,
                                              int64_t count, float *data);
/* The norm of the gradient of the mean loss by one parameter, unscaled, before clipping: of the
 * window whose update is being decided (ac_decide), or the last one. 0 if it is not trained, before
 * the first update, and within a window whose noise is measured; NaN of a plan that folds
 * gradients. May still change. */
AC_API double ac_trainer_gradient_norm(const ac_trainer *trainer, int index);

/* What is known of a parameter by ac_trainer_desc.layers_every; without it AC_ERROR_STATE. May
 * still change. */
AC_API ac_status ac_trainer_layer(const ac_trainer *trainer, int index, ac_layer_report *result);

/* What the optimizer keeps for each parameter that is trained, in f32: AdamW the first and the
 * second moment of its gradients, SGD and Lion the momentum, Adafactor second moments of a matrix's
 * rows and of its columns, or of a vector's elements, Muon the momentum of a matrix and for other
 * parameters what AdamW does, Adam-mini the first moment and for each
 * block the second one, AC_OPTIMIZER_CALLBACK its states. What is kept in 8 bits is rounded when it
 * is set, with the others of its block of 256. May still change. */
AC_API int ac_trainer_state_count(const ac_trainer *trainer);
AC_API ac_status ac_trainer_get_state(ac_trainer *trainer, int index, int state, int64_t first,
                                      int64_t count, float *data);
AC_API ac_status ac_trainer_set_state(ac_trainer *trainer, int index, int state, int64_t first,
                                      int64_t count, const float *data);

/* Sets how many updates were made so far (ac_progress.updates). The learning rate of the next
 * update, its random numbers and the bias correction of AdamW and Adam-mini follow from it, so it
 * has to be set where moments of another run are set: without it they are corrected as those of a
 * first update, which makes its step far too large or too small. Averages (ac_plan_desc.average)
 * begin as copies of the parameters where none was made before; so set parameters first.
 * AC_ERROR_ARGUMENT: below 0, or beyond INT64_MAX / 2. AC_ERROR_STATE with a window in progress,
 * during a decision, and while averages are in use. May still change. */
AC_API ac_status ac_trainer_set_updates(ac_trainer *trainer, int64_t updates);

/* All parameters under their names. What may be at the path is as ac_model_file_write says, for
 * this and the other functions that save. Where a parameter is not finite nothing is written: what
 * was at `path` stays, and AC_ERROR_NOT_FINITE names it. `ac_trainer_load` needs every parameter in
 * the file with its exact shape (see ac_parameter_desc.first_rows), under its own name or one that
 * lacks `optional_prefix` (NULL: none); others in the file are ignored. That is checked before the
 * first parameter changes. If reading fails afterwards, the trainer is of no use until all
 * parameters or a state are loaded. */
AC_API ac_status ac_trainer_save(ac_trainer *trainer, const char *path, const ac_metadata *metadata,
                                 int metadata_count);
AC_API ac_status ac_trainer_load(ac_trainer *trainer, const char *path,
                                 const char *optional_prefix);

/* The same for the parameters whose names match `pattern`, as a shell's do: `*` any characters, `?`
 * one, `[...]` one of these. AC_ERROR_ARGUMENT if none does. May still change. */
AC_API ac_status ac_trainer_save_part(ac_trainer *trainer, const char *path, const char *pattern,
                                      const ac_metadata *metadata, int metadata_count);
AC_API ac_status ac_trainer_load_part(ac_trainer *trainer, const char *path, const char *pattern,
                                      const char *optional_prefix);

/* ---- state files ----------------------------------------------------------------------------- */

/* All that a run is, in one safetensors file: parameters under their own names, so that it is a
 * model file as well; what the optimizer keeps as `accrue/state.K/NAME`, averages as
 * `accrue/average/NAME`; updates made, loss scale,
 * seeds and the way of ac_fit through its data as metadata `accrue.*`. A window in progress is part
 * of it, with its sums as `accrue/gradient/NAME` and so on. What is loaded goes on with the bits of
 * a run that never stopped, on the same device and with the same plan; other micro-batches, budgets
 * and devices give results that agree to rounding.
 *
 * A file is written in blocks of less than 1 MiB, past the system's cache, beside its place,
 * synced, renamed; it holds checksums of everything. `metadata` is the caller's, with other keys
 * than `accrue.*` of a state. AC_ERROR_NOT_FINITE: a parameter, an average or what the optimizer
 * keeps is not finite (of a callback's states nobody asks), and what was at `path` stays.
 * AC_ERROR_STATE during a decision, after a failure, in a window whose gradients a plan for whole
 * windows keeps in the arena or computes again, and within an evaluation in the middle of a window.
 * May be called in the callback of ac_fit. May still change. */
AC_API ac_status ac_trainer_save_state(ac_trainer *trainer, const char *path,
                                       const ac_metadata *metadata, int metadata_count);

/* Checks the whole file before it changes the trainer: checksums, every tensor by name, dtype and
 * shape, no tensor too many, the optimizer; AC_ERROR_FORMAT, or AC_ERROR_UNSUPPORTED of another
 * version, says what does not fit. A window in progress is discarded. If reading fails afterwards
 * the trainer is of no use until another state is loaded. The settings of the trainer's description
 * stay as they are, but for its seed. May still change. */
AC_API ac_status ac_trainer_load_state(ac_trainer *trainer, const char *path);

/* How far ac_fit has come, in the trainer's life and in those that its state was saved from. May
 * still change. */
typedef struct ac_progress {
  int64_t updates;                 /* of ac_trainer_update too */
  int64_t steps, skipped, samples; /* as in ac_fit_result */
  int64_t epoch, position; /* of the window that comes next, or is in progress: its first sample */
  int64_t window_samples;  /* accumulated in a window in progress */
} ac_progress;
AC_API ac_status ac_trainer_get_progress(const ac_trainer *trainer, ac_progress *progress);

/* The schedule of batches so far of a run whose batches grow (ac_batch_growth), in rows by steps;
 * *count is 0 of others. May still change. */
AC_API ac_status ac_trainer_get_growth(const ac_trainer *trainer,
                                       ac_batch_stage stages[AC_MAX_BATCH_STAGES], int *count);

/* Of data that weigh nothing loss and accuracy are NaN, and neither the schedule nor patience takes
 * them for a validation. Of several losses only those that weigh something are summed. */
typedef struct ac_evaluation {
  double loss;     /* nats per unit of weight */
  double accuracy; /* weighted share of rows classified right, as the loss says what that is; 0 for
                      losses that do not */
  double weight;
  ac_loss_mean losses[AC_MAX_LOSSES]; /* with several, `loss` is the sum of factor x mean, `weight`
                                         samples, and `accuracy` the first one's */
  int loss_count;
} ac_evaluation;

/* Forward only, without dropout, in the trainer's own memory; a window in progress is left as it
 * is, or refused as by ac_trainer_locate_nonfinite. At most `limit` samples (0: all), from the
 * first on. */
AC_API ac_status ac_trainer_evaluate(ac_trainer *trainer, ac_dataset *dataset, int64_t limit,
                                     ac_evaluation *result);
/* The same; `stop` (may be NULL) is asked before each micro-batch, and once it returns true there
 * is no result, and *stopped. What would change the trainer is refused meanwhile with
 * AC_ERROR_STATE. May still change. */
typedef bool (*ac_stop_callback)(void *user);
AC_API ac_status ac_trainer_evaluate_until(ac_trainer *trainer, ac_dataset *dataset, int64_t limit,
                                           ac_stop_callback stop, void *user, ac_evaluation *result,
                                           bool *stopped);

/* ---- the fit loop ---------------------------------------------------------------------------- */

/* What happens to a window that the end of an epoch leaves incomplete. */
typedef enum ac_last_window {
  AC_LAST_UPDATE = 0, /* update with the samples there are, divided by their true weight */
  AC_LAST_CARRY,      /* fill it up from the next epoch */
  AC_LAST_DROP        /* throw its samples away */
} ac_last_window;

typedef enum ac_fit_event_kind {
  AC_FIT_STEP = 0,
  AC_FIT_EVALUATION,
  AC_FIT_TRAINED, /* no window follows, and what remains is the final evaluation: time to save. May
                     still change. */
  AC_FIT_DECISION /* before a window's update, as for ac_decide and behind it; ac_fit_desc.decisions
                     asks for it. May still change. */
} ac_fit_event_kind;

typedef struct ac_fit_event {
  ac_fit_event_kind kind;
  int64_t step; /* windows ended so far, skipped ones included, this one too */
  int64_t epoch;
  bool replayed;   /* the window was skipped and begins again: an event of the same step follows */
  int64_t samples; /* in this window */
  int64_t grown;  /* AC_FIT_STEP: the batch that follows, if it has grown; else 0. May still change.
                   */
  double seconds; /* since the previous window ended, evaluation and callbacks excluded */
  double data_wait_seconds; /* of these, spent waiting for samples */
  ac_update update;         /* AC_FIT_STEP */
  /* With AC_SPIKE_BACK, where this window was a spike: after it the trainer is what it was behind
   * step `back_to`, but for its rate. May still change. */
  bool went_back;
  int64_t back_to;
  /* A good state was due and could not be written, as ac_last_error says: training goes on with the
   * one before, and another is due good_every windows later. May still change. */
  bool good_state_failed;
  ac_evaluation evaluation; /* AC_FIT_EVALUATION */
  ac_decision *decision;    /* AC_FIT_DECISION, to look at and to change; otherwise NULL. May still
                               change. */
} ac_fit_event;

/* It may look at the trainer, evaluate and save it. Windows, updates and states that it brings
 * itself become the trainer's, and part of the window that follows; the loop counts none of them.
 *
 * Return false to stop after this event; the fit loop then evaluates nothing more and returns AC_OK
 * with `stopped`. Behind AC_FIT_DECISION the window's update and its AC_FIT_STEP come before. */
typedef bool (*ac_fit_callback)(void *user, const ac_fit_event *event);

#define AC_MAX_FINGERPRINT 96 /* bytes */

typedef struct ac_fit_desc {
  ac_dataset *train;
  ac_dataset *validation; /* may be NULL */
  int64_t steps;          /* windows, skipped ones included; 0: by epochs */
  int64_t epochs;         /* 0: by steps; one of the two is needed */
  int64_t eval_every;     /* windows; 0: only at the end; AC_SCHEDULE_PLATEAU goes by these */
  int64_t eval_samples;   /* per evaluation but the last; 0: all */
  /* Early stopping: so many evaluations in a row, of those made every eval_every windows, may have
   * a loss that is not below the least one so far by more than patience_gain. With the last of them
   * training is over, as at the end of all, with `ended_early`; 0: they do not matter. The count is
   * part of states. What the parameters were at the least loss is up to the callback. May still
   * change. */
  int64_t patience;
  double patience_gain;
  bool no_final_evaluation;
  /* Goes on where the trainer's last ac_fit ended, or that of the state that was loaded: `steps`
   * and `epochs` count from the beginning of all, as do the results, and a window in progress is
   * completed. With more steps than before, an evaluation that was due after the last window comes
   * first, as in a run that had them from the beginning, unless the final one was of the same
   * samples. The data and the order must be the same, which fails with AC_ERROR_ARGUMENT as far as
   * it can be seen. May still change. */
  bool resume;
  /* Which data `train` is, in the caller's words: a hash or a version, say, as the library cannot
   * know it of callbacks and memory. Printable ASCII, at most AC_MAX_FINGERPRINT; copied. It
   * becomes part of states, as metadata `accrue.state.fit.fingerprint`, and a fit that goes on with
   * another one fails with AC_ERROR_ARGUMENT. NULL or "": not known; then, or where the run to go
   * on with had none, nothing is compared. May still change. */
  const char *fingerprint;
  /* Where `stop` says so within a window, the window stays in progress, so that a state can hold
   * it; unless the plan keeps its gradients in the arena. One that folds gradients does so in any
   * case. May still change. */
  bool keep_window;
  /* Where this call pauses: after that many steps, counted as `steps` are, after the window with
   * which there are so many samples, counted from the beginning of all, too, or after the one in
   * which so many seconds of the call are over; 0: nowhere. It then ends as at the end of all, with
   * AC_FIT_TRAINED and the final evaluation, and `paused`. Order and rates go by the whole run,
   * which a fit with `resume` goes on with: its bits are those of one without a pause. May still
   * change.
   */
  int64_t pause_step, pause_samples;
  double pause_seconds;
  bool no_shuffle;
  uint64_t seed;      /* of the order of samples */
  int loader_threads; /* that read ahead, where the plan has `read_ahead`; 0: 1 */
  ac_last_window last_window;
  /* A schedule of the effective batch, in at most AC_MAX_BATCH_STAGES rows; none: all windows are
   * of the plan's batch. The plan is for the largest, and its memory and micro-batch stay: a
   * smaller window is fewer micro-batches. A run that goes on may bring other rows: windows are
   * laid from where it stands, and one in progress must be of the batch that it began with.
   * AC_ERROR_ARGUMENT of rows that make no sense. May still change. */
  const ac_batch_stage *batches;
  int batch_count;
  /* Instead of these: batches that grow by the noise scale up to the plan's. What has grown is part
   * of states, and a run that goes on does so with it; a run that is given it as `batches`
   * (ac_trainer_get_growth) has the same bits. AC_ERROR_ARGUMENT where the noise scale cannot be
   * known: if the trainer has no noise_every, of plans that keep no gradients, and where `from` is
   * no more than a micro-batch. May still change. */
  ac_batch_growth growth;
  /* A window that overflows under a dynamic loss scale runs again at the lower scale, with the same
   * samples and random numbers, instead of being thrown away. */
  bool replay;
  /* With AC_SPIKE_BACK: where the good state is that training goes back to, a file that appears
   * whole or not at all. It is saved as a fit begins, and from then on good_every windows (default
   * 100) after the last one or after going back, in the beginning as many as lie before these, if
   * at least 8; as soon as 8 in a row had no alarm. A fit with
   * `resume` needs the one that was there when the state it goes on from was saved: keep a copy
   * beside it; AC_ERROR_IO if there is none, AC_ERROR_ARGUMENT if it is another. Going back,
   * progress stays what it is, as windows are not repeated; updates made, schedule, moments and all
   * else are the good state's. Not looked at with other policies. May still change. */
  const char *good_state;
  int64_t good_every;
  const ac_metadata *good_metadata; /* entries of that file, as of ac_trainer_save_state */
  int good_metadata_count;
  /* Events AC_FIT_DECISION: before each update, of windows that are skipped and run again, too.
   * What ac_decide may do the callback may then, such as reading each layer's gradient; with
   * AC_GRADIENTS_FUSED_LOCAL it is AC_ERROR_ARGUMENT. May still change. */
  bool decisions;
  ac_fit_callback callback;
  /* Asked before each micro-batch, of training and of evaluations, in the thread that called
   * ac_fit. Where it returns true the loop returns AC_OK with `stopped`, and the parameters are
   * those of the last update: a window or evaluation in progress is discarded. It may look at the
   * trainer, evaluate and save it; what would change the window, or the trainer within an
   * evaluation, is refused with AC_ERROR_STATE. NULL: never. May still change. */
  bool (*stop)(void *user);
  void *user; /* for both */
} ac_fit_desc;

typedef struct ac_fit_result {
  int64_t steps, epochs, samples;
  int64_t updates;  /* windows but those that were skipped or weighed nothing */
  int64_t skipped;  /* windows that were not finite, counted anew each time one is replayed */
  bool stopped;     /* by `callback` or `stop` */
  bool paused;      /* more windows are to come */
  bool ended_early; /* for want of patience. May still change. */
  /* Alarms for spikes, and how often training went back; with `resume` those of the whole run. May
   * still change. */
  int64_t spikes, went_back;
  bool evaluated; /* `final` is of the parameters as they are now */
  ac_evaluation final;
  double seconds;           /* in steps, without evaluation */
  double data_wait_seconds; /* of these, spent waiting for samples */
} ac_fit_result;

/* When no window follows, the parameters are read once, and AC_ERROR_NOT_FINITE names the first
 * that the last update has left not finite.
 *
 * A step is a window of samples, whether or not it led to an update: as elsewhere, it counts the
 * way through the data. A window that is not finite is skipped, and counts, unless it is replayed:
 * then it counts once, when it is over. The schedule goes by updates and so falls behind by as many
 * as were skipped.
 *
 * A window that is not finite where `ac_update.stuck` says that no loss scale helps ends the loop
 * with AC_ERROR_NOT_FINITE; the error names the step and the first op, and the parameters are those
 * of the last good update. `result` may be NULL. */
AC_API ac_status ac_fit(ac_trainer *trainer, const ac_fit_desc *desc, ac_fit_result *result);

/* How many windows such a fit has, with a plan of that batch: `steps`, or of so many epochs of
 * `train`. Of the description it reads what windows are laid by: train, steps, epochs, last_window,
 * batches, growth: of batches that grow, as if they never did, which is the most that there can be.
 * AC_ERROR_ARGUMENT as of ac_fit, or where they cannot be counted. May still change. */
AC_API ac_status ac_fit_windows(const ac_fit_desc *desc, int64_t batch, int64_t *windows);

/* ---- a range test of the learning rate ------------------------------------------------------- */

/* Trains for a short while at rates that rise from update to update by the same factor, and looks
 * at the loss, arXiv 1506.01186. It takes the plan's memory, and on the host that of parameters
 * and optimizer state, as afterwards the trainer is in all what it was. May still change. */
typedef struct ac_rate_test_desc {
  ac_dataset *train;
  double least, most; /* rates; default 1e-7 and 10 */
  int64_t updates;    /* at least 10; default 100 */
  int64_t batch;      /* samples of a window, at most the plan's; 0: these */
  /* Ends where the mean of the latest losses is above so many times its least; default 4. */
  double divergence;
  uint64_t seed;            /* of the order of samples */
  int loader_threads;       /* as in ac_fit_desc */
  ac_fit_callback callback; /* after each window, or NULL */
  bool (*stop)(void *user); /* as in ac_fit_desc, or NULL */
  void *user;               /* for both */
} ac_rate_test_desc;

typedef struct ac_rate_point {
  double rate, loss; /* of a window, before the update at this rate */
  double smoothed;   /* the mean of a tenth of the test's updates around it, as far as there are */
} ac_rate_point;

typedef struct ac_rate_test {
  int64_t count;          /* points: one for each update that was made */
  bool diverged, stopped; /* why it ended early */
  int64_t lowest;         /* the point of the least smoothed loss; -1: there is no point */
  /* The point before that at which the loss falls fastest by the logarithm of the rate, by a line
   * through the points that smoothed losses are means of; -1: it falls by no more than twice the
   * deviation of losses from the smoothed ones, and the test suggests nothing. */
  int64_t steepest;
} ac_rate_test;

/* `points` has room for desc->updates. A loss that is no number ends the test as one that diverges;
 * AC_ERROR_NOT_FINITE if it is the first, AC_ERROR_STATE with a window in progress. May still
 * change. */
AC_API ac_status ac_trainer_test_rates(ac_trainer *trainer, const ac_rate_test_desc *desc,
                                       ac_rate_point *points, ac_rate_test *result);

/** Whether a name matches one of a group's patterns. May still change. */
AC_API bool ac_parameter_group_matches(const ac_parameter_group *group, const char *name);

#ifdef __cplusplus
}
#endif
#endif
