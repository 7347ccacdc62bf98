/* A good state is a state file of its own, saved every so many windows where none of the last ones
 * was a spike. Which one a run would go back to is part of all its states: one that goes on finds
 * it by its update, or is refused. */
#include "train/good_state.h"

#include "core/error.h"
#include "train/trainer.h"

#include <accrue/state_file.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool goes_back(const ac_trainer *trainer) {
  return trainer->desc.spikes.policy == AC_SPIKE_BACK;
}

ac_status ac_good_state_check(const ac_trainer *trainer, const ac_fit_desc *desc) {
  if (!goes_back(trainer)) return AC_OK;
  if (!desc->good_state || !*desc->good_state || desc->good_every < 0)
    return ac_fail(
        AC_ERROR_ARGUMENT,
        "fit: to go back after a spike, give a file for the good state, and how often to save it");
  return AC_OK;
}

/* Whether the file is the state after this update. */
static ac_status check_file(const char *path, int64_t step) {
  ac_model_file *file;
  char wanted[32];
  snprintf(wanted, sizeof wanted, "%" PRId64, step);
  const ac_status status = ac_model_file_open(&file, path);
  if (status != AC_OK) {
    char why[512];
    snprintf(why, sizeof why, "%s", ac_last_error());
    return ac_fail(status,
                   "%s; without the good state of step %s the run continues only with another "
                   "policy for spikes",
                   why, wanted);
  }
  ac_state_info info;
  const bool same = ac_state_get_info(file, &info) == AC_OK && info.progress.steps == step;
  ac_model_file_close(file);
  return same ? AC_OK
              : ac_fail(AC_ERROR_ARGUMENT,
                        "fit: %s is not the good state of step %s that the run would go back to",
                        path, wanted);
}

ac_status ac_good_state_find(ac_trainer *trainer, const ac_fit_desc *desc) {
  if (!goes_back(trainer)) ac_spikes_forget_good(&trainer->spikes);
  if (!trainer->spikes.has_good) return AC_OK;
  return check_file(desc->good_state, trainer->spikes.good_step);
}

/* A window in progress is not part of one. Where a disk is full the last one still serves. */
ac_status ac_good_state_keep(ac_trainer *trainer, const ac_fit_desc *desc, int64_t step,
                             bool *failed) {
  const ac_spikes before = trainer->spikes;
  const int64_t every = desc->good_every ? desc->good_every : 100;
  if (!goes_back(trainer) || trainer->window_samples ||
      !ac_spikes_good_is_due(&trainer->spikes, step, every))
    return AC_OK;
  ac_spikes_good_is_here(&trainer->spikes, step);
  const ac_status status = ac_trainer_save_state(trainer, desc->good_state, desc->good_metadata,
                                                 desc->good_metadata_count);
  *failed = status == AC_ERROR_IO && before.has_good;
  if (!*failed) return status;
  trainer->spikes = before;
  ac_spikes_good_failed(&trainer->spikes, step);
  return AC_OK;
}

bool ac_good_state_is_spent(const ac_trainer *trainer) {
  return trainer->spikes.again >= trainer->desc.spikes.most_back;
}

/* A window that could be skipped and was not is one that the caller has let pass. */
bool ac_good_state_is_wanted(const ac_trainer *trainer, const ac_update *update) {
  const bool passes = trainer->instance.plan->way->can_skip && !update->skipped;
  return goes_back(trainer) && update->spike.alarm && trainer->spikes.has_good && !passes;
}

ac_status ac_good_state_give_up(const ac_trainer *trainer, int64_t step, const ac_update *update) {
  const ac_spikes *spikes = &trainer->spikes;
  const bool by_loss = update->loss > update->spike.loss_limit;
  return ac_fail(AC_ERROR_NOT_FINITE,
                 "step %" PRId64 ": the %s %g is above %g, and training has gone back to the state "
                 "of step %" PRId64 " %" PRId64 " times without getting further; the rate may be "
                 "too high",
                 step, by_loss ? "loss" : "gradient's norm",
                 by_loss ? update->loss : update->grad_norm,
                 by_loss ? update->spike.loss_limit : update->spike.norm_limit, spikes->good_step,
                 spikes->again);
}

ac_status ac_good_state_load(ac_trainer *trainer, const ac_fit_desc *desc, int64_t step) {
  const ac_spikes before = trainer->spikes;
  AC_TRY(check_file(desc->good_state, before.good_step));
  const ac_growth growth = trainer->growth;
  AC_TRY(ac_trainer_load_state(trainer, desc->good_state));
  ac_growth_keep(trainer, &growth);
  ac_spikes_go_back(&trainer->spikes, &before, &trainer->desc.spikes, step);
  return AC_OK;
}
