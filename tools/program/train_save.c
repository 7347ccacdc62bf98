/* What `accrue train` saves: weights with their description, averages of weights. */
#include "program/training.h"

#include "common/message.h"
#include "common/replacement.h"
#include "common/text.h"
#include "program/carry.h"
#include "program/follow.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- files ----------------------------------------------------------------------------------- */

ac_status training_save_weights(run *r, const char *path) {
  const setup *s = &r->setup;
  model_metadata metadata = {0};
  model_metadata_add(&metadata, "format", "pt");
  s->kind->describe(s->model, &metadata);
  model_metadata_add(&metadata, "accrue.steps", "%" PRId64, r->step);
  if (s->kind->save)
    return s->kind->save(s->model, r->trainer, path, metadata.entries, metadata.count);
  return ac_trainer_save(r->trainer, path, metadata.entries, metadata.count);
}

static int save_weights_to(run *r, const char *path) {
  return training_save_weights(r, path) == AC_OK ? STATUS_CONTINUE : fail_library();
}

/* The config.json is complete under another name before the weights are replaced, so a full disk
 * leaves the old pair. */
static int save_pair(run *r, const char *weights, const char *json) {
  char config[RUN_PATH_BYTES];
  replacement file;
  run_folder_path(&r->folder, setup_files(&r->setup).config, config);
  if (!replacement_open(&file, config)) return fail("cannot write %s: %s", config, strerror(errno));
  int status = STATUS_CONTINUE;
  if (!replacement_write(&file, json))
    status = fail("cannot write %s: %s", config, strerror(errno));
  if (status == STATUS_CONTINUE) status = save_weights_to(r, weights);
  if (status != STATUS_CONTINUE) replacement_abandon(&file);
  else if (!replacement_commit(&file))
    status = fail("cannot write %s: %s", config, strerror(errno));
  return status;
}

static int save_weights_and_config(run *r) {
  const setup *s = &r->setup;
  char weights[RUN_PATH_BYTES];
  run_folder_path(&r->folder, setup_files(s).weights, weights);
  if (!s->kind->config_json) return save_weights_to(r, weights);
  char *json = s->kind->config_json(s->model, r->trainer);
  const int status = json ? save_pair(r, weights, json) : STATUS_FAILED;
  free(json);
  return status;
}

/* ---- averages of weights --------------------------------------------------------------------- */

/* Calls a function while averages replace the weights. Without averages it does nothing. */
static int with_average(run *r, int (*what)(run *r)) {
  if (!(r->setup.flags.ema > 0) || !r->updates) return STATUS_CONTINUE;
  if (ac_trainer_use_average(r->trainer, true) != AC_OK) return fail_library();
  const int status = what(r);
  if (ac_trainer_use_average(r->trainer, false) != AC_OK) return fail_library();
  return status;
}

/* Validates averages on the samples of the last validation. If a signal ends it, it is made when
 * the run is resumed. */
static int validate_average(run *r) {
  const setup *s = &r->setup;
  const int64_t samples = r->trained ? 0 : s->flags.eval_samples;
  ac_evaluation evaluation;
  const int ordered = ranks_order(r->wish->ranks, ORDER_AVERAGE, NULL, samples);
  if (ordered != STATUS_CONTINUE) return ordered;
  if (ac_trainer_evaluate_until(r->trainer, s->data.validation, samples, training_on_micro_batch, r,
                                &evaluation, &r->checkpoint.average_due) != AC_OK)
    return fail_library();
  if (r->checkpoint.average_due) return STATUS_CONTINUE;
  metrics_average(&r->metrics, r->step, &evaluation);
  r->average_worthless = evaluation.weight != 0 && !isfinite(evaluation.loss);
  if (is_quiet(r)) return STATUS_CONTINUE;
  progress_clear(&r->progress);
  say("step %" PRId64 "  validation loss of averaged weights %s", r->step,
      text_fixed(evaluation.loss, 4).text);
  return STATUS_CONTINUE;
}

int training_validate_average(run *r) {
  return with_average(r, validate_average);
}

int training_make_up_average(run *r) {
  const bool due = r->checkpoint.average_due && r->setup.data.validation;
  r->checkpoint.average_due = false;
  return due ? training_validate_average(r) : STATUS_CONTINUE;
}

/* An average without a finite last validation loss does not replace another one. */
static int save_average(run *r) {
  char path[RUN_PATH_BYTES];
  run_folder_path(&r->folder, "average.safetensors", path);
  if (r->average_worthless)
    return fail("the validation loss of averaged weights is not finite; %s is not written", path);
  return save_weights_to(r, path);
}

/* Without an update there is nothing new, and a model of an earlier run must not be lost. During a
 * window the average cannot be saved; the state has it. */
int training_save_model(run *r) {
  ac_progress progress;
  if (!r->updates) return STATUS_CONTINUE;
  const int status = save_weights_and_config(r);
  /* Without states, the record of a run that is replaced is still there. */
  if (status == STATUS_CONTINUE && !r->record.written) run_record_write(&r->record);
  ac_trainer_get_progress(r->trainer, &progress);
  if (status == STATUS_CONTINUE && r->setup.flags.init && r->setup.kind->carried)
    carry_files(r->setup.kind->carried, r->setup.flags.init, &r->folder, r->setup.flags.overwrite);
  if (status == STATUS_CONTINUE && r->setup.kind->carry)
    r->setup.kind->carry(r->setup.model, &r->folder, r->setup.flags.overwrite);
  if (status != STATUS_CONTINUE || progress.window_samples) return status;
  return with_average(r, save_average);
}
