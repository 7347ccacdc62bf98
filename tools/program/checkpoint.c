#include "program/checkpoint.h"

#include "common/message.h"
#include "common/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void checkpoint_begin(checkpoint *c, const setup *s, const run_folder *folder,
                      const run_record *record, ac_trainer *trainer) {
  *c = (checkpoint){.setup = s,
                    .folder = folder,
                    .record = record,
                    .trainer = trainer,
                    .saved_at = progress_clock(),
                    .best = INFINITY};
}

bool checkpoint_is_due(const checkpoint *c, int64_t step) {
  const train_flags *f = &c->setup->flags;
  if (!f->keep) return false;
  if (f->save_every && step - c->saved_step >= f->save_every) return true;
  return f->save_minutes > 0 && progress_clock() - c->saved_at >= 60 * f->save_minutes;
}

/* ---- saving ---------------------------------------------------------------------------------- */

static const char *device_of(const setup *s) {
  return ac_device_get_info(s->device)->driver;
}

static ac_status save(checkpoint *c, int64_t step, const metrics *m) {
  const setup *s = c->setup;
  char path[RUN_PATH_BYTES];
  model_metadata metadata = {0};
  model_metadata_add(&metadata, "format", "pt");
  s->kind->describe(s->model, &metadata);
  model_metadata_add(&metadata, "accrue.steps", "%" PRId64, step);
  model_metadata_add(&metadata, "accrue.run", "%s", run_record_id(c->record));
  model_metadata_add(&metadata, "accrue.data", "%s", run_record_data(c->record));
  model_metadata_add(&metadata, "accrue.device", "%s", device_of(s));
  model_metadata_add(&metadata, "accrue.best_loss", "%.17g", c->best);
  model_metadata_add(&metadata, "accrue.metrics_bytes", "%" PRId64, metrics_bytes(m));
  run_folder_state(c->folder, step, path);
  return ac_trainer_save_state(c->trainer, path, metadata.entries, metadata.count);
}

/* Whether a state is of this run, or of one that left no name. */
static bool is_own(const checkpoint *c, const char *path) {
  ac_model_file *file;
  if (ac_model_file_open(&file, path) != AC_OK) return false;
  const char *run = ac_model_file_metadata(file, "accrue.run");
  const bool own = run && !strcmp(run, run_record_id(c->record));
  ac_model_file_close(file);
  return own;
}

/* All but the newest of this run: those of others would be taken for it. */
static void prune(const checkpoint *c) {
  size_t count;
  int64_t *steps = run_folder_states(c->folder, &count), left = c->setup->flags.keep;
  for (size_t i = 0; i < count; i++) {
    char path[RUN_PATH_BYTES];
    run_folder_state(c->folder, steps[i], path);
    if (left > 0 && is_own(c, path)) left--;
    else unlink(path);
  }
  free(steps);
}

void checkpoint_save(checkpoint *c, int64_t step, const metrics *m) {
  if (!c->setup->flags.keep) return;
  const bool good = save(c, step, m) == AC_OK;
  c->saved_at = progress_clock();
  c->saved_step = step;
  if (good) prune(c);
  else if (!c->failing)
    say("no state could be saved at step %" PRId64 ", and training goes on: %s", step,
        ac_last_error());
  c->failing = !good;
}

/* ---- going on -------------------------------------------------------------------------------- */

static double number_of(const ac_model_file *file, const char *key, double fallback) {
  const char *text = ac_model_file_metadata(file, key);
  return text ? strtod(text, NULL) : fallback;
}

static void take_metadata(checkpoint *c, const char *path, int64_t *metrics_bytes) {
  ac_model_file *file;
  if (ac_model_file_open(&file, path) != AC_OK) return;
  const char *device = ac_model_file_metadata(file, "accrue.device");
  if (device && strcmp(device, device_of(c->setup)) != 0)
    say("the state was saved on another device (%s): results agree to rounding, not to the bit",
        device);
  c->best = number_of(file, "accrue.best_loss", (double)INFINITY);
  *metrics_bytes = (int64_t)number_of(file, "accrue.metrics_bytes", -1);
  ac_model_file_close(file);
}

/* False, with a warning: the state at a path cannot be gone on with. *other: it is one of other
 * data, as older ones will be. */
static bool load(checkpoint *c, bool known, const char *path, bool *other) {
  ac_model_file *file;
  if (ac_model_file_open(&file, path) != AC_OK) {
    say("%s", ac_last_error());
    return false;
  }
  const char *run = ac_model_file_metadata(file, "accrue.run");
  const char *data = ac_model_file_metadata(file, "accrue.data");
  const bool own = !known || (run && !strcmp(run, run_record_id(c->record)));
  *other = own && data && strcmp(data, run_record_data(c->record)) != 0;
  ac_model_file_close(file);
  if (!own) say("%s is of another run", path);
  else if (*other) say("%s is of a run on other data", path);
  else if (ac_trainer_load_state(c->trainer, path) != AC_OK) say("%s", ac_last_error());
  else return true;
  return false;
}

int checkpoint_resume(checkpoint *c, bool known, int64_t *step, int64_t *metrics_bytes) {
  size_t count, whole = 0;
  bool other = false;
  int64_t *steps = run_folder_states(c->folder, &count);
  *step = *metrics_bytes = -1;
  for (; whole < count && !other; whole++) {
    char path[RUN_PATH_BYTES];
    run_folder_state(c->folder, steps[whole], path);
    if (!load(c, known, path, &other)) continue;
    take_metadata(c, path, metrics_bytes);
    break;
  }
  if (whole < count && !other) *step = c->saved_step = steps[whole];
  const bool none = count && *step < 0;
  free(steps);
  if (none)
    return fail("no state in %s can be gone on with; without --resume the run begins anew",
                c->folder->path);
  return STATUS_CONTINUE;
}
