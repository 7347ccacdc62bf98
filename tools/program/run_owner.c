#include "program/run_owner.h"

#include "common/message.h"
#include "common/option_record.h"

#include <accrue/model_file.h>
#include <accrue/state_file.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- before a run begins --------------------------------------------------------------------- */

static bool is_there(const run_folder *folder, const char *name) {
  char path[RUN_PATH_BYTES];
  struct stat info;
  run_folder_path(folder, name, path);
  return lstat(path, &info) == 0;
}

/* What a run would lose if another began in its folder. */
static const char *const losses[] = {
    "model.safetensors", "best.safetensors", "average.safetensors", "diverged.safetensors",
    "good.safetensors",  "config.json",      "pilot.json",          "adapter_model.safetensors"};

static const char *first_loss(const run_folder *folder, const char *but) {
  for (size_t i = 0; i < sizeof losses / sizeof *losses; i++)
    if (strcmp(losses[i], but) != 0 && is_there(folder, losses[i])) return losses[i];
  return NULL;
}

/* Some folders may be written to and not be read. */
static bool can_be_listed(const char *path) {
  return access(path, R_OK) == 0 || errno != EACCES;
}

/* If a folder cannot be listed, writing to it will say so. */
const char *run_owner_finds_but(const char *path, const char *name) {
  run_folder folder = {.lock = -1};
  size_t count;
  int64_t *steps;
  snprintf(folder.path, sizeof folder.path, "%s", path);
  if (is_there(&folder, "run.json")) return "run.json";
  const char *found = first_loss(&folder, name);
  if (found || !can_be_listed(path)) return found;
  if (run_folder_states(&folder, &steps, &count) != STATUS_CONTINUE) return found;
  free(steps);
  return count ? "its states" : NULL;
}

const char *run_owner_finds(const char *path) {
  return run_owner_finds_but(path, "");
}

const char *run_owner_metrics(const train_flags *f, char path[RUN_PATH_BYTES]) {
  if (f->metrics) return strcmp(f->metrics, "none") ? f->metrics : NULL;
  snprintf(path, RUN_PATH_BYTES, "%s/metrics.jsonl", f->out);
  return path;
}

static int check_metrics(const train_flags *f) {
  char room[RUN_PATH_BYTES], id[RUN_ID_BYTES];
  const char *path = run_owner_metrics(f, room);
  const metrics_owner owner = path ? metrics_owner_of(path, id) : METRICS_NONE;
  if (owner == METRICS_NONE) return STATUS_CONTINUE;
  if (owner == METRICS_STRANGE)
    return fail_usage("%s holds something else than metrics; name another file with --metrics",
                      path);
  if (f->overwrite) return STATUS_CONTINUE;
  return fail_usage("%s holds the metrics of another run; name another file with --metrics, or "
                    "replace them with --overwrite",
                    path);
}

static int check_new(const run_folder *folder, const train_flags *f, bool has_states) {
  const char *found = run_owner_finds(folder->path);
  if (is_there(folder, "pilot.json"))
    return fail_usage("%s is the folder of a pilot; name another one with --out", f->out);
  if (f->overwrite || !found) return check_metrics(f);
  return fail_usage("%s holds a run already (%s): %sname another folder with --out, or replace it "
                    "with --overwrite",
                    f->out, found, has_states ? "resume it with --resume, " : "");
}

/* A run that has ended before its first state may have a good state already, of before its first
 * update. */
static bool good_is_of_beginning(const run_folder *folder) {
  char path[RUN_PATH_BYTES];
  ac_model_file *file;
  ac_state_info info;
  run_folder_path(folder, "good.safetensors", path);
  if (ac_model_file_open(&file, path) != AC_OK) return false;
  const bool begins = ac_state_get_info(file, &info) == AC_OK && info.progress.samples == 0 &&
                      info.progress.window_samples == 0;
  ac_model_file_close(file);
  return begins;
}

static int check_resumed(const run_folder *folder, const train_flags *f, bool has_states) {
  if (has_states) return STATUS_CONTINUE;
  const char *found = first_loss(folder, "");
  if (f->resume_or_start && found && good_is_of_beginning(folder))
    found = first_loss(folder, "good.safetensors");
  if (f->resume_or_start && !found) return STATUS_CONTINUE;
  if (found)
    return fail_usage("%s has no state to resume, but %s; name another folder with --out, or "
                      "replace the run with --overwrite instead of --resume",
                      f->out, found);
  return fail_usage("%s has no state to resume; --resume-or-start would begin the run", f->out);
}

int run_owner_check(const train_flags *f) {
  run_folder folder = {.lock = -1};
  size_t count;
  int64_t *steps;
  if (!f->out || strlen(f->out) >= sizeof folder.path - FOLDER_NAME_BYTES)
    return STATUS_CONTINUE; /* refused later, when the folder is made */
  strcpy(folder.path, f->out);
  if (!f->resume && !can_be_listed(folder.path)) return check_new(&folder, f, false);
  const int status = run_folder_states(&folder, &steps, &count);
  free(steps);
  if (status != STATUS_CONTINUE) return status;
  return f->resume ? check_resumed(&folder, f, count > 0) : check_new(&folder, f, count > 0);
}

/* ---- owners ---------------------------------------------------------------------------------- */

static run_owner owner_of(const char *path, const char *id, const char *key, const char *value) {
  ac_model_file *file;
  const ac_status status = ac_model_file_open(&file, path);
  if (status != AC_OK) return status == AC_ERROR_FORMAT ? OWNER_DAMAGED : OWNER_UNREADABLE;
  const char *run = ac_model_file_metadata(file, "accrue.run");
  const char *told = ac_model_file_metadata(file, key);
  const bool own = *id && run && !strcmp(run, id) && told && !strcmp(told, value);
  ac_model_file_close(file);
  return own ? OWNER_OWN : OWNER_ANOTHER;
}

run_owner run_owner_of_state(const run_folder *folder, int64_t step, const char *id) {
  char path[RUN_PATH_BYTES], text[24];
  run_folder_state(folder, step, path);
  snprintf(text, sizeof text, "%" PRId64, step);
  return owner_of(path, id, "accrue.steps", text);
}

run_owner run_owner_of_good(const char *path, const char *id) {
  return owner_of(path, id, "accrue.good", "1");
}

/* The id in the newest state that has one. */
static void id_of_states(const run_folder *folder, char id[RUN_ID_BYTES]) {
  size_t count;
  int64_t *steps;
  if (run_folder_states(folder, &steps, &count) != STATUS_CONTINUE) return;
  for (size_t i = 0; i < count && !*id; i++) {
    char path[RUN_PATH_BYTES];
    ac_model_file *file;
    run_folder_state(folder, steps[i], path);
    if (ac_model_file_open(&file, path) != AC_OK) continue;
    const char *run = ac_model_file_metadata(file, "accrue.run");
    if (run_id_is_good(run)) strcpy(id, run);
    ac_model_file_close(file);
  }
  free(steps);
}

void run_owner_id(const run_folder *folder, const json_t *record, char id[RUN_ID_BYTES]) {
  const char *told = json_string_value(json_object_get(record, "id"));
  id[0] = 0;
  if (run_id_is_good(told)) strcpy(id, told);
  else if (!record) id_of_states(folder, id);
}

/* ---- what is replaced ------------------------------------------------------------------------ */

static void remove_good_states(const run_folder *folder, const char *id, bool lone) {
  size_t count;
  int64_t *steps;
  if (!*id || run_folder_good_states(folder, &steps, &count) != STATUS_CONTINUE) return;
  for (size_t i = 0; i < count; i++) {
    char path[RUN_PATH_BYTES];
    run_folder_state(folder, steps[i], path);
    if (lone && (access(path, F_OK) == 0 || errno != ENOENT)) continue;
    run_folder_good_state(folder, steps[i], path);
    if (run_owner_of_good(path, id) == OWNER_OWN) unlink(path);
  }
  free(steps);
}

void run_owner_remove_lone(const run_folder *folder, const char *id) {
  remove_good_states(folder, id, true);
}

void run_owner_remove_states(const run_folder *folder, const char *id) {
  size_t count;
  int64_t *steps;
  if (!*id || run_folder_states(folder, &steps, &count) != STATUS_CONTINUE) return;
  for (size_t i = 0; i < count; i++)
    if (run_owner_of_state(folder, steps[i], id) == OWNER_OWN)
      run_folder_remove_state(folder, steps[i]);
  free(steps);
  remove_good_states(folder, id, false);
}

/* A file as a run of gpt writes it: other kinds of model have none. */
static bool is_own_config(const char *path) {
  json_t *json = json_load_file(path, 0, NULL);
  const char *type = json_string_value(json_object_get(json, "model_type"));
  const bool own = type && !strcmp(type, "gpt2");
  json_decref(json);
  return own;
}

void run_owner_remove_models(const run_folder *folder, const char *id, const char *kept) {
  static const char *const models[] = {"best.safetensors", "average.safetensors",
                                       "diverged.safetensors"};
  char path[RUN_PATH_BYTES], other[RUN_ID_BYTES];
  for (size_t i = 0; *id && i < sizeof models / sizeof *models; i++) {
    run_folder_path(folder, models[i], path);
    if (!options_listed(models[i], kept)) unlink(path);
  }
  run_folder_path(folder, "good.safetensors", path);
  if (run_owner_of_good(path, id) == OWNER_OWN) unlink(path);
  run_folder_path(folder, "config.json", path);
  if (!options_listed("config.json", kept) && is_own_config(path)) unlink(path);
  run_folder_path(folder, "metrics.jsonl", path);
  if (metrics_owner_of(path, other) == METRICS_NAMED && !strcmp(other, id)) unlink(path);
}
