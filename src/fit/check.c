/* What a fit is asked for: what of it is refused, and how its windows are laid. */
#include "core/error.h"
#include "fit/fit.h"
#include "fit/good_state.h"

#include <string.h>

static const ac_epoch_end epoch_ends[] = {[AC_LAST_UPDATE] = AC_EPOCH_END_SHORT,
                                          [AC_LAST_CARRY] = AC_EPOCH_END_CARRY,
                                          [AC_LAST_DROP] = AC_EPOCH_END_DROP};

static ac_status refuse_dropping(int64_t count, int64_t batch) {
  return ac_fail(AC_ERROR_ARGUMENT,
                 "fit: the dataset's %lld samples never fill a batch of %lld, and incomplete "
                 "windows are dropped",
                 (long long)count, (long long)batch);
}

/* ---- the description ------------------------------------------------------------------------- */

/* What losses weigh has to be known before a window begins, where it matters then. */
static ac_status check_losses(const ac_trainer *trainer) {
  const ac_plan *plan = trainer->instance.plan;
  if (!ac_trainer_knows_weights(trainer)) return AC_OK;
  if (plan->problem.desc.loss_means == AC_LOSS_MEANS_GIVEN)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "fit: the plan was made for weights of losses that are given window by window");
  if (plan->info.read_ahead || ac_plan_piece(plan) == plan->info.share ||
      !ac_instance_weighs_inputs(&trainer->instance))
    return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "fit: what the losses weigh has to be counted before a window begins: plan with "
                 "batches read ahead (read_ahead)%s",
                 trainer->division == AC_DIVIDE_WEIGHTS ? ", or for means per sample" : "");
}

/* If batches grow, the largest is the plan's. */
static int64_t largest_batch(const ac_trainer *trainer, const ac_fit_desc *desc) {
  const ac_windows windows = {.batch = trainer->instance.plan->info.batch,
                              .stages = desc->batches,
                              .stage_count = desc->batch_count};
  return ac_windows_largest(&windows);
}

/* Refuses stages with a batch in which an op always sees too few samples, as plans do. */
static ac_status check_stages(const ac_trainer *trainer, const ac_fit_desc *desc) {
  const ac_plan *plan = trainer->instance.plan;
  const ac_plan_info *info = &plan->info;
  AC_TRY(ac_batch_stages_check(desc->batches, desc->batch_count, info->batch));
  for (int i = 0; i < desc->batch_count; i++)
    if (!ac_problem_allows(&plan->problem, desc->batches[i].batch, info->micro_batch))
      return ac_fail(AC_ERROR_ARGUMENT,
                     "fit: batch norm needs at least %lld samples, but batches of %lld in "
                     "micro-batches of %lld have a smaller micro-batch; give other batches",
                     (long long)plan->problem.least, (long long)desc->batches[i].batch,
                     (long long)info->micro_batch);
  return AC_OK;
}

ac_status ac_fit_check(const ac_trainer *trainer, const ac_fit_desc *desc) {
  if (!desc->train || ac_dataset_count(desc->train) < 1)
    return ac_fail(AC_ERROR_ARGUMENT, "fit: there is nothing to train on");
  AC_TRY(check_stages(trainer, desc));
  const ac_watch_setup setup = ac_trainer_setup(trainer);
  AC_TRY(ac_watchers_check_fit(&setup, desc));
  if (desc->steps < 0 || desc->epochs < 0 || (desc->steps == 0) == (desc->epochs == 0))
    return ac_fail(
        AC_ERROR_ARGUMENT,
        "fit: there are %lld steps and %lld epochs; give one of the two, and make it positive",
        (long long)desc->steps, (long long)desc->epochs);
  if (desc->pause_step < 0 || desc->pause_samples < 0 || !(desc->pause_seconds >= 0))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "fit: pause_step, pause_samples and pause_seconds must not be negative");
  const int64_t batch = largest_batch(trainer, desc);
  if ((unsigned)desc->last_window > AC_LAST_DROP)
    return ac_fail(AC_ERROR_ARGUMENT, "fit: unknown policy for the last window");
  if (desc->last_window == AC_LAST_DROP && ac_dataset_count(desc->train) < batch)
    return refuse_dropping(ac_dataset_count(desc->train), batch);
  if (ac_fit_goes_by_validation(trainer) && !(desc->validation && desc->eval_every > 0))
    return ac_fail(
        AC_ERROR_ARGUMENT,
        "fit: the learning rate depends on validation: give data for it, and eval_every");
  if (desc->fingerprint && !ac_fingerprint_may_be(desc->fingerprint))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "fit: the fingerprint is longer than %d bytes, or not printable ASCII",
                   AC_MAX_FINGERPRINT);
  AC_TRY(ac_good_state_check(trainer, desc));
  if (desc->decisions) AC_TRY(ac_trainer_check_decidable(trainer->instance.plan, "fit"));
  AC_TRY(check_losses(trainer));
  if (trainer->run.samples > 0 && !(desc->resume && trainer->run.fit.begun))
    return ac_fail(AC_ERROR_STATE, "fit: a window is in progress; update or discard it first");
  const ac_problem *problem = &trainer->instance.plan->problem;
  if ((problem->desc.whole_windows || problem->in_sections) && desc->last_window == AC_LAST_CARRY)
    return ac_fail(AC_ERROR_ARGUMENT, "fit: a window that is carried over comes in two pieces, but "
                                      "the plan was made for whole windows");
  return AC_OK;
}

ac_status ac_fit_check_position(const ac_trainer *trainer, const ac_fit_desc *desc) {
  const ac_fit_position *at = &trainer->run.fit;
  const char *had = trainer->run.fingerprint, *has = desc->fingerprint ? desc->fingerprint : "";
  const int64_t count = ac_dataset_count(desc->train);
  if (at->count != count)
    return ac_fail(
        AC_ERROR_ARGUMENT,
        "fit: the run that this continues trained on %lld samples, but now there are %lld",
        (long long)at->count, (long long)count);
  if (at->no_shuffle != desc->no_shuffle || (!desc->no_shuffle && at->seed != desc->seed))
    return ac_fail(
        AC_ERROR_ARGUMENT,
        "fit: the run that this continues took its samples in another order (seed %llu%s)",
        (unsigned long long)at->seed, at->no_shuffle ? ", not shuffled" : "");
  if (*had && *has && strcmp(had, has) != 0)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "fit: the run that this continues trained on data of fingerprint \"%s\", but "
                   "these have \"%s\"",
                   had, has);
  return AC_OK;
}

/* ---- its windows ----------------------------------------------------------------------------- */

ac_loader_desc ac_fit_loader(const ac_trainer *trainer, const ac_fit_desc *desc,
                             const ac_gathering *gather) {
  const ac_plan *plan = trainer->instance.plan;
  ac_loader_desc loader = {.batch = plan->info.batch,
                           .epochs = desc->epochs,
                           .batches = desc->steps,
                           .threads = desc->loader_threads ? desc->loader_threads : 1,
                           .depth = 1 + plan->info.read_ahead,
                           .no_shuffle = desc->no_shuffle,
                           .seed = desc->seed,
                           .epoch_end = epoch_ends[desc->last_window],
                           .stages = desc->batches,
                           .stage_count = desc->batch_count,
                           .rank = plan->info.rank,
                           .ranks = plan->info.ranks,
                           .owner = &trainer->instance,
                           .meanwhile = trainer->instance.meanwhile.call,
                           .user = trainer->instance.meanwhile.user};
  const ac_growth *growth = AC_WATCHED(&trainer->run, growth);
  if (growth->count) {
    loader.stages = growth->stages;
    loader.stage_count = growth->count;
  }
  for (int k = 0; k < ac_dataset_field_count(desc->train); k++)
    loader.unused[k] = gather->input[k] < 0;
  return loader;
}

/* Depends only on how windows are laid. */
ac_status ac_fit_windows(const ac_fit_desc *desc, int64_t batch, int64_t *windows) {
  AC_REQUIRE(desc, windows);
  const int64_t count = desc->train ? ac_dataset_count(desc->train) : 0;
  *windows = 0;
  AC_TRY(ac_batch_stages_check(desc->batches, desc->batch_count, batch));
  if (count < 1 || batch < 1 || (unsigned)desc->last_window > AC_LAST_DROP || desc->epochs < 0 ||
      desc->epochs > INT64_MAX / 2 / count)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "fit: windows of %lld samples in %lld epochs of %lld cannot be counted: a "
                   "number is negative, zero or too large",
                   (long long)batch, (long long)desc->epochs, (long long)count);
  const ac_windows laid = {.count = count,
                           .batch = desc->growth.from > 0 ? desc->growth.from : batch,
                           .epochs = desc->epochs,
                           .epoch_end = epoch_ends[desc->last_window],
                           .stages = desc->batches,
                           .stage_count = desc->batch_count};
  const int64_t largest = desc->growth.from > 0 ? batch : ac_windows_largest(&laid);
  if (desc->last_window == AC_LAST_DROP && count < largest) return refuse_dropping(count, largest);
  *windows = desc->epochs ? ac_windows_total(&laid) : desc->steps;
  return AC_OK;
}

ac_status ac_trainer_get_progress(const ac_trainer *trainer, ac_progress *progress) {
  AC_REQUIRE(trainer, progress);
  const ac_fit_position *at = &trainer->run.fit;
  *progress = (ac_progress){.updates = trainer->run.updates,
                            .steps = at->steps,
                            .skipped = at->skipped,
                            .samples = at->samples,
                            .epoch = at->next.epoch,
                            .position = at->next.position,
                            .window_samples = trainer->run.samples};
  return AC_OK;
}
