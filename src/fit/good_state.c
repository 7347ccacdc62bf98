/* A good state is a state file of its own, saved every so many windows where none of the last ones
 * was a spike. Which one a run would go back to is part of all its states: one that goes on finds
 * it by its update, or is refused. */
#include "fit/good_state.h"

#include "core/error.h"
#include "window/trainer.h"

#include <accrue/state_file.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static ac_spikes *spikes_of(const ac_trainer *trainer) {
  return AC_WATCHED(&trainer->run, spikes);
}

static bool goes_back(const ac_trainer *trainer) {
  return spikes_of(trainer)->desc.policy == AC_SPIKE_BACK;
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

ac_status ac_good_state_find(const ac_trainer *trainer, const ac_fit_desc *desc) {
  const ac_spikes *spikes = spikes_of(trainer);
  return spikes->has_good ? check_file(desc->good_state, spikes->good_step) : AC_OK;
}

/* A window in progress is not part of one. Where a disk is full the last one still serves. */
ac_status ac_good_state_keep(ac_trainer *trainer, const ac_fit_desc *desc, int64_t step,
                             bool *failed) {
  ac_spikes *spikes = spikes_of(trainer);
  const ac_spikes before = *spikes;
  const int64_t every = desc->good_every ? desc->good_every : 100;
  if (!goes_back(trainer) || trainer->run.samples || !ac_spikes_good_is_due(spikes, step, every))
    return AC_OK;
  ac_spikes_good_is_here(spikes, step);
  const ac_status status = ac_trainer_save_state(trainer, desc->good_state, desc->good_metadata,
                                                 desc->good_metadata_count);
  *failed = status == AC_ERROR_IO && before.has_good;
  if (!*failed) return status;
  *spikes = before;
  ac_spikes_good_failed(spikes, step);
  return AC_OK;
}

bool ac_good_state_is_spent(const ac_trainer *trainer) {
  return spikes_of(trainer)->again >= spikes_of(trainer)->desc.most_back;
}

/* A window that could be skipped and was not is one that the caller has let pass. */
bool ac_good_state_is_wanted(const ac_trainer *trainer, const ac_update *update) {
  const bool passes = trainer->instance.plan->way->can_skip && !update->skipped;
  return trainer->window.proposal.back && !passes;
}

ac_status ac_good_state_give_up(const ac_trainer *trainer, int64_t step, const ac_update *update) {
  const ac_spikes *spikes = spikes_of(trainer);
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
  ac_run before;
  AC_TRY(check_file(desc->good_state, spikes_of(trainer)->good_step));
  AC_TRY(ac_run_copy(&before, &trainer->run));
  const ac_status status = ac_trainer_load_state(trainer, desc->good_state);
  if (status == AC_OK) ac_watchers_go_back(&trainer->run, &before, step);
  ac_run_drop(&before);
  return status;
}
