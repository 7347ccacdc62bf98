#include "program/checkpoint.h"

#include "common/message.h"
#include "common/progress.h"
#include "program/follow.h"
#include "program/good_state.h"
#include "program/run_owner.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void checkpoint_begin(checkpoint *c, const setup *s, const run_folder *folder, run_record *record,
                      ac_trainer *trainer) {
  *c = (checkpoint){.setup = s,
                    .folder = folder,
                    .record = record,
                    .trainer = trainer,
                    .saved_step = -1,
                    .evaluated_step = -1,
                    .saved_at = progress_clock(),
                    .began = progress_clock(),
                    .best = INFINITY};
}

double checkpoint_seconds(const checkpoint *c) {
  return c->before + progress_clock() - c->began;
}

/* Whether the state after an update would replace a state of another run, while the folder still
 * has the record of that run. */
static bool is_taken(const checkpoint *c, int64_t step) {
  char path[RUN_PATH_BYTES];
  struct stat info;
  run_folder_state(c->folder, step, path);
  return stat(path, &info) == 0;
}

bool checkpoint_is_due(const checkpoint *c, int64_t step) {
  const train_flags *f = &c->setup->flags;
  if (!f->keep) return false;
  if (!c->record->written && is_taken(c, step)) return false;
  if (f->save_every && step - c->tried_step >= f->save_every) return true;
  return f->save_minutes > 0 && progress_clock() - c->saved_at >= 60 * f->save_minutes;
}

/* ---- saving ---------------------------------------------------------------------------------- */

/* What of the device can change rounding: name, precision and number of units. */
static void describe_device(const setup *s, const char *precision, unsigned units, char *text,
                            size_t size) {
  const ac_device_info *device = ac_device_get_info(s->device);
  const bool bf16 = !strcmp(precision, ac_precision_name(AC_PRECISION_BF16)) &&
                    strcmp(device->bf16_products, "as floats") != 0;
  snprintf(text, size, "%s, %s, %s%s%u units", device->name, device->driver,
           bf16 ? device->bf16_products : "", bf16 ? ", " : "", units);
}

static const char *precision_of(const setup *s) {
  return ac_precision_name((ac_precision)s->flags.precision);
}

static unsigned units_of(const setup *s) {
  return (unsigned)ac_device_get_info(s->device)->compute_units;
}

static int ranks_of(const setup *s) {
  return s->words.ranks ? ac_ranks_size(s->words.ranks) : 1;
}

/* Whether the file in the place of a state may be replaced: it is this run's own, or the replaced
 * run's, or no longer a state. */
static bool may_replace(checkpoint *c, int64_t step, const char *path) {
  const char *other = run_record_replaces(c->record);
  if (!is_taken(c, step)) return true;
  if (run_owner_of_state(c->folder, step, run_record_id(c->record)) != OWNER_ANOTHER ||
      run_owner_of_state(c->folder, step, other) == OWNER_OWN)
    return true;
  snprintf(c->problem, sizeof c->problem, "%.900s is not this run's; move it away", path);
  return false;
}

static bool save(checkpoint *c, int64_t step, metrics *m) {
  const setup *s = c->setup;
  char path[RUN_PATH_BYTES], device[320];
  model_metadata metadata = {0};
  describe_device(s, precision_of(s), units_of(s), device, sizeof device);
  model_metadata_add(&metadata, "format", "pt");
  s->kind->describe(s->model, &metadata);
  model_metadata_add(&metadata, "accrue.steps", "%" PRId64, step);
  model_metadata_add(&metadata, "accrue.run", "%s", run_record_id(c->record));
  model_metadata_add(&metadata, "accrue.data", "%s", run_record_data(c->record));
  model_metadata_add(&metadata, "accrue.device", "%s", device);
  model_metadata_add(&metadata, "accrue.precision", "%s", precision_of(s));
  model_metadata_add(&metadata, "accrue.units", "%u", units_of(s));
  model_metadata_add(&metadata, "accrue.ranks", "%d", ranks_of(s));
  model_metadata_add(&metadata, "accrue.best_loss", "%.17g", c->best);
  if (c->average_due) model_metadata_add(&metadata, "accrue.average_due", "1");
  model_metadata_add(&metadata, "accrue.evaluated_step", "%" PRId64, c->evaluated_step);
  model_metadata_add(&metadata, "accrue.seconds", "%.3f", checkpoint_seconds(c));
  model_metadata_add(&metadata, "accrue.metrics_bytes", "%" PRId64, metrics_sync(m));
  run_folder_state(c->folder, step, path);
  if (!may_replace(c, step, path)) return false;
  const bool goes_back = s->flags.watch.on_spike == AC_SPIKE_BACK;
  if (goes_back && !good_state_keep(c->folder, step))
    say("the good state cannot be kept with the state of step %" PRId64
        ", so --on-spike back cannot resume from that step: %s",
        step, strerror(errno));
  const bool good =
      !metadata.incomplete &&
      ranks_order(s->words.ranks, ORDER_SAVE, path, step) == STATUS_CONTINUE &&
      ac_trainer_save_state(c->trainer, path, metadata.entries, metadata.count) == AC_OK;
  if (!good && !is_taken(c, step)) run_folder_remove_state(c->folder, step);
  if (!good)
    snprintf(c->problem, sizeof c->problem, "%s",
             metadata.incomplete ? "what describes the run does not fit" : ac_last_error());
  return good;
}

/* Removes all states but the newest, and states of later updates, which the run gave up when it
 * went back. States of other runs stay, but for the run that this one replaces. */
static void prune(const checkpoint *c) {
  size_t count;
  const char *id = run_record_id(c->record);
  int64_t *steps, left = c->setup->flags.keep;
  if (run_folder_states(c->folder, &steps, &count) != STATUS_CONTINUE) return;
  for (size_t i = 0; i < count; i++) {
    if (run_owner_of_state(c->folder, steps[i], id) != OWNER_OWN) continue;
    const bool kept = left > 0 && steps[i] <= c->saved_step;
    if (kept) left--;
    else run_folder_remove_state(c->folder, steps[i]);
  }
  free(steps);
  run_owner_remove_lone(c->folder, id);
  run_owner_remove_states(c->folder, run_record_replaces(c->record));
}

bool checkpoint_save(checkpoint *c, int64_t step, metrics *m) {
  if (!c->setup->flags.keep) return true;
  const bool good = save(c, step, m);
  c->saved_at = progress_clock();
  c->tried_step = step;
  c->failing = !good;
  if (!good) return false;
  c->saved_step = step;
  if (c->record->written || run_record_write(c->record) == STATUS_CONTINUE) prune(c);
  return true;
}

/* ---- going on -------------------------------------------------------------------------------- */

static double number_of(const ac_model_file *file, const char *key, double fallback) {
  const char *text = ac_model_file_metadata(file, key);
  char *end;
  const double number = text ? strtod(text, &end) : fallback;
  return text && (end == text || *end) ? fallback : number;
}

/* The same for a whole number. A number below the least, or beyond what any run has, counts as
 * missing. */
static int64_t count_of(const ac_model_file *file, const char *key, int64_t least,
                        int64_t fallback) {
  const double number = number_of(file, key, (double)fallback);
  return number >= (double)least && number <= 1e15 ? (int64_t)number : fallback;
}

/* What rounds in another way than when the state was saved: precision, device, or only its threads.
 */
static void say_what_differs(const setup *s, const ac_model_file *file) {
  const char *device = ac_model_file_metadata(file, "accrue.device");
  const char *precision = ac_model_file_metadata(file, "accrue.precision");
  const int64_t counted = count_of(file, "accrue.units", 1, units_of(s));
  const unsigned units = counted <= INT32_MAX ? (unsigned)counted : units_of(s);
  char own[320], in[48] = "", on[400] = "";
  if (!precision) precision = precision_of(s);
  describe_device(s, precision, units, own, sizeof own);
  const bool other_precision = strcmp(precision, precision_of(s)) != 0;
  if (other_precision) snprintf(in, sizeof in, " in %s, not %s", precision, precision_of(s));
  if (device && strcmp(device, own) != 0)
    snprintf(on, sizeof on, " on another device (%s)", device);
  else if (units != units_of(s))
    snprintf(on, sizeof on, " by %u %s%s, not %u", units,
             !strcmp(ac_device_get_info(s->device)->backend, "cpu") ? "thread" : "compute unit",
             units == 1 ? "" : "s", units_of(s));
  if (!*in && !*on) return;
  say("the state was saved%s%s%s: results %s", in, *in && *on ? ", and" : "", on,
      other_precision ? "are those of neither precision alone"
                      : "agree to rounding, not to the bit");
}

static int take_metadata(checkpoint *c, const char *path, int64_t *metrics_bytes) {
  ac_model_file *file;
  if (ac_model_file_open(&file, path) != AC_OK) return fail_library();
  ac_state_info info;
  if (ac_state_get_info(file, &info) != AC_OK) {
    ac_model_file_close(file);
    return fail_library();
  }
  say_what_differs(c->setup, file);
  if (info.micro_batch != ac_plan_get_info(c->setup->plan)->micro_batch)
    say("the run had a micro-batch of %" PRId64 ": results agree to rounding, not to the bit",
        info.micro_batch);
  const int64_t ranks = count_of(file, "accrue.ranks", 1, ranks_of(c->setup));
  if (ranks != ranks_of(c->setup))
    say("the state was saved by %" PRId64
        " rank%s, not %d: results agree to rounding, not to the bit",
        ranks, ranks == 1 ? "" : "s", ranks_of(c->setup));
  if (info.fitted && info.fit_seed != (uint64_t)c->setup->flags.seed) {
    const int status = fail("the run to resume has the seed %" PRIu64 ", not %" PRId64,
                            info.fit_seed, c->setup->flags.seed);
    ac_model_file_close(file);
    return status;
  }
  c->best = number_of(file, "accrue.best_loss", (double)INFINITY);
  c->before = number_of(file, "accrue.seconds", 0);
  c->evaluated_step = count_of(file, "accrue.evaluated_step", -1, -1);
  c->average_due = ac_model_file_metadata(file, "accrue.average_due");
  *metrics_bytes = count_of(file, "accrue.metrics_bytes", -1, -1);
  ac_model_file_close(file);
  return STATUS_CONTINUE;
}

/* The first setting of the model that differs in a state, except dropout; NULL: none. */
static const char *other_setting(const checkpoint *c, const ac_model_file *file) {
  const setup *s = c->setup;
  model_metadata metadata = {0};
  s->kind->describe(s->model, &metadata);
  for (int i = 0; i < metadata.count; i++) {
    const char *key = metadata.entries[i].key;
    const char *there = ac_model_file_metadata(file, key);
    if (strcmp(key, "accrue.dropout") != 0 && there && strcmp(there, metadata.entries[i].value))
      return key;
  }
  return NULL;
}

/* False, with a warning: the state at a path cannot be resumed. *other: it is one of other
 * data, as older ones will be. */
static bool load(checkpoint *c, int64_t step, bool *other) {
  char path[RUN_PATH_BYTES];
  ac_model_file *file;
  run_folder_state(c->folder, step, path);
  if (ac_model_file_open(&file, path) != AC_OK) {
    say("%s; an older state is tried", ac_last_error());
    return false;
  }
  const char *run = ac_model_file_metadata(file, "accrue.run");
  const char *data = ac_model_file_metadata(file, "accrue.data");
  const bool own = run && !strcmp(run, run_record_id(c->record));
  *other = own && data && strcmp(data, run_record_data(c->record)) != 0;
  const char *setting = other_setting(c, file);
  const bool copied = count_of(file, "accrue.steps", 0, -1) != step;
  ac_model_file_close(file);
  if (!own) say("%s is of another run; an older state is tried", path);
  else if (*other) say("%s is of a run on other data", path);
  else if (copied) say("%s is the state of another step; an older state is tried", path);
  else if (setting && !strcmp(setting, "accrue.base"))
    say("%s is of a run on other weights: what --model names has changed; an older state is tried",
        path);
  else if (setting)
    say("%s is of another model: its %s is not the same; an older state is tried", path, setting);
  else if (ac_trainer_load_state(c->trainer, path) != AC_OK)
    say("%s; an older state is tried", ac_last_error());
  else return ranks_order(c->setup->words.ranks, ORDER_LOAD, path, step) == STATUS_CONTINUE;
  return false;
}

int checkpoint_resume(checkpoint *c, int64_t *step, int64_t *metrics_bytes) {
  char path[RUN_PATH_BYTES];
  size_t count, whole = 0;
  int64_t *steps;
  bool other = false;
  *step = *metrics_bytes = -1;
  int status = run_folder_states(c->folder, &steps, &count);
  for (; whole < count && !other; whole++)
    if (load(c, steps[whole], &other)) break;
  if (whole < count && !other) {
    run_folder_state(c->folder, steps[whole], path);
    *step = c->saved_step = c->tried_step = steps[whole];
    status = take_metadata(c, path, metrics_bytes);
    run_owner_remove_lone(c->folder, run_record_id(c->record));
    if (!good_state_restore(c->folder, *step))
      status =
          fail("cannot bring back the good state of step %" PRId64 ": %s", *step, strerror(errno));
  } else if (count)
    status = fail("no state in %s can be resumed; --overwrite instead of --resume begins the "
                  "run anew",
                  c->folder->path);
  free(steps);
  return status;
}
