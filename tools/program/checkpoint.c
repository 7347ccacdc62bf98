#include "program/checkpoint.h"

#include "common/message.h"
#include "common/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void checkpoint_begin(checkpoint *c, const setup *s, const run_folder *folder, const char *run,
                      ac_trainer *trainer) {
  *c = (checkpoint){.setup = s,
                    .folder = folder,
                    .run = run,
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
  model_metadata_add(&metadata, "accrue.run", "%s", c->run);
  model_metadata_add(&metadata, "accrue.device", "%s", device_of(s));
  model_metadata_add(&metadata, "accrue.best_loss", "%.17g", c->best);
  model_metadata_add(&metadata, "accrue.metrics_bytes", "%" PRId64, metrics_bytes(m));
  run_folder_state(c->folder, step, path);
  return ac_trainer_save_state(c->trainer, path, metadata.entries, metadata.count);
}

/* Whose a state is. */
typedef enum owner { OWN, ANOTHER, DAMAGED, UNREADABLE } owner;

static owner owner_of(const checkpoint *c, const char *path) {
  ac_model_file *file;
  const ac_status status = ac_model_file_open(&file, path);
  if (status != AC_OK) return status == AC_ERROR_FORMAT ? DAMAGED : UNREADABLE;
  const char *run = ac_model_file_metadata(file, "accrue.run");
  const bool own = run && !strcmp(run, c->run);
  ac_model_file_close(file);
  return own ? OWN : ANOTHER;
}

/* All but the newest of this run: those of others would be taken for it. What cannot be read now
 * may be good. */
static void prune(const checkpoint *c) {
  size_t count;
  int64_t *steps, left = c->setup->flags.keep;
  if (run_folder_states(c->folder, &steps, &count) != STATUS_CONTINUE) return;
  for (size_t i = 0; i < count; i++) {
    char path[RUN_PATH_BYTES];
    run_folder_state(c->folder, steps[i], path);
    const owner whose = left > 0 ? owner_of(c, path) : ANOTHER;
    if (whose == OWN) left--;
    else if (whose != UNREADABLE) unlink(path);
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

static int take_metadata(checkpoint *c, const char *path, int64_t *metrics_bytes) {
  ac_model_file *file;
  if (ac_model_file_open(&file, path) != AC_OK) return fail_library();
  const char *device = ac_model_file_metadata(file, "accrue.device");
  if (device && strcmp(device, device_of(c->setup)) != 0)
    say("the state was saved on another device (%s): results agree to rounding, not to the bit",
        device);
  c->best = number_of(file, "accrue.best_loss", (double)INFINITY);
  *metrics_bytes = (int64_t)number_of(file, "accrue.metrics_bytes", -1);
  ac_model_file_close(file);
  return STATUS_CONTINUE;
}

/* Whether that is the state to go on with. */
static bool load(const checkpoint *c, const char *path) {
  const owner whose = *c->run ? owner_of(c, path) : OWN;
  if (whose == ANOTHER) say("%s is of another run; an older state is tried", path);
  else if (whose != OWN || ac_trainer_load_state(c->trainer, path) != AC_OK)
    say("%s; an older state is tried", ac_last_error());
  else return true;
  return false;
}

int checkpoint_resume(checkpoint *c, int64_t *step, int64_t *metrics_bytes) {
  char path[RUN_PATH_BYTES];
  size_t count, whole = 0;
  int64_t *steps;
  *step = *metrics_bytes = -1;
  int status = run_folder_states(c->folder, &steps, &count);
  for (; whole < count; whole++) {
    run_folder_state(c->folder, steps[whole], path);
    if (load(c, path)) break;
  }
  if (whole < count) {
    *step = c->saved_step = steps[whole];
    status = take_metadata(c, path, metrics_bytes);
  } else if (count)
    status = fail("no state in %s can be gone on with; without --resume the run begins anew",
                  c->folder->path);
  free(steps);
  return status;
}

/* Of a state of this batch; 0: it is of another. */
static int64_t read_micro_batch(const ac_model_file *file, int64_t batch) {
  if ((int64_t)number_of(file, "accrue.state.batch", 0) != batch) return 0;
  return (int64_t)number_of(file, "accrue.state.micro_batch", 0);
}

int checkpoint_micro_batch(const run_folder *folder, int64_t batch, int64_t *micro_batch) {
  size_t count;
  int64_t *steps;
  *micro_batch = 0;
  int status = run_folder_states(folder, &steps, &count);
  for (size_t i = 0; i < count && !*micro_batch && status == STATUS_CONTINUE; i++) {
    char path[RUN_PATH_BYTES];
    ac_model_file *file;
    run_folder_state(folder, steps[i], path);
    const ac_status opened = ac_model_file_open(&file, path);
    if (opened == AC_OK) *micro_batch = read_micro_batch(file, batch);
    else if (opened != AC_ERROR_FORMAT) status = fail_library();
    ac_model_file_close(file);
  }
  free(steps);
  return status;
}
