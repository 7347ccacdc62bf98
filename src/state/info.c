/* What a state file says of its run. */
#include "core/error.h"
#include "core/integers.h"
#include "io/safetensors.h"
#include "state/cells.h"
#include <accrue/state_file.h>

#include <string.h>

/* Whether there is a tensor with a name that begins so; of one dtype, or AC_DTYPE_COUNT: of any. */
static bool has_tensor(const ac_model_file *file, const char *begins, ac_dtype dtype) {
  for (int i = 0; i < ac_model_file_tensor_count(file); i++) {
    const ac_model_tensor *tensor = ac_model_file_tensor(file, i);
    if (!strncmp(tensor->name, begins, strlen(begins)) &&
        (dtype == AC_DTYPE_COUNT || tensor->dtype == dtype))
      return true;
  }
  return false;
}

static void describe(const ac_model_file *file, const ac_run *run, ac_state_info *info) {
  const ac_run_plan *plan = &run->plan;
  const ac_scaler *scaler = AC_WATCHED(run, scaler);
  const ac_spikes *spikes = AC_WATCHED(run, spikes);
  const char *fingerprint = ac_model_file_metadata(file, ac_record_fingerprint.fields[0].key);
  const bool small = has_tensor(file, "accrue/state.", AC_U8);
  *info = (ac_state_info){.progress = {.updates = run->updates,
                                       .steps = run->fit.steps,
                                       .skipped = run->fit.skipped,
                                       .samples = run->fit.samples,
                                       .epoch = run->fit.next.epoch,
                                       .position = run->fit.next.position,
                                       .window_samples = run->samples},
                          .seed = run->seed,
                          .optimizer = (ac_optimizer_kind)plan->optimizer,
                          .optimizer_state = small ? AC_STATE_8BIT : AC_STATE_F32,
                          .precision = (ac_precision)plan->precision,
                          .loss_means = (ac_loss_means)plan->loss_means,
                          .batch = plan->batch,
                          .micro_batch = plan->micro_batch,
                          .window_batch = ac_smaller(run->batch, plan->batch),
                          .averages = has_tensor(file, "accrue/average/", AC_DTYPE_COUNT),
                          .loss_scaling = scaler->desc.kind,
                          .loss_scale = (double)scaler->scale,
                          .fitted = run->fit.begun,
                          .train_samples = run->fit.count,
                          .fit_seed = run->fit.seed,
                          .no_shuffle = run->fit.no_shuffle,
                          .fingerprint = fingerprint ? fingerprint : "",
                          .spikes = spikes->alarms,
                          .went_back = spikes->went_back,
                          .spike_rate = spikes->rate,
                          .reductions = AC_WATCHED(run, plateau)->reductions};
}

ac_status ac_state_get_info(const ac_model_file *file, ac_state_info *info) {
  AC_REQUIRE(file, info);
  ac_run run;
  AC_TRY(ac_state_check_file(file, ac_model_file_path(file)));
  ac_status status = ac_run_create(&run);
  if (status == AC_OK) status = ac_state_get_run(file, &run, false);
  if (status == AC_OK) describe(file, &run, info);
  ac_run_drop(&run);
  return status;
}
