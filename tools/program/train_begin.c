/* How `accrue train` begins: the trainer, the record of the run, the state that is resumed,
 * metrics.
 */
#include "program/training.h"

#include "common/message.h"
#include "program/follow.h"
#include "program/hyperparameters.h"
#include "program/plan_table.h"
#include "program/run_owner.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int load_init(run *r) {
  if (!r->setup.flags.init) return STATUS_CONTINUE;
  int status = setup_check_init(&r->setup, r->trainer);
  if (status == STATUS_CONTINUE) status = ranks_order(r->wish->ranks, ORDER_INIT, NULL, 0);
  if (status != STATUS_CONTINUE) return status;
  return setup_take_init(&r->setup, r->trainer) == AC_OK ? STATUS_CONTINUE : fail_library();
}

/* Without further windows, a run that is resumed would only forget its length. */
static int check_length(const run *r, const ac_progress *made) {
  const int64_t steps = r->setup.flags.steps, epochs = r->setup.flags.epochs;
  if (epochs && (made->epoch > epochs || (made->epoch == epochs && made->position > 0)))
    return fail_usage("--epochs %" PRId64
                      " is less than the run in %s has trained for; give more, or "
                      "leave the flag out",
                      epochs, r->folder.path);
  if (!steps || r->step <= steps) return STATUS_CONTINUE;
  return fail_usage("--steps %" PRId64 " is less than the %" PRId64 " that the run in %s has made; "
                    "give more, or leave the flag out",
                    steps, r->step, r->folder.path);
}

/* Of the run so far. */
static int take_progress(run *r) {
  ac_progress progress;
  ac_trainer_get_progress(r->trainer, &progress);
  r->step = progress.steps;
  r->updates = progress.updates;
  const int status = check_length(r, &progress);
  if (status != STATUS_CONTINUE) return status;
  if (!is_quiet(r)) say("going on after step %" PRId64, r->step);
  return STATUS_CONTINUE;
}

static void on_decision(void *user, ac_trainer *trainer, ac_decision *decision) {
  tensorboard_decide(((run *)user)->metrics.tensorboard, trainer, decision);
}

/* TensorBoard gets the settings once. */
static int open_metrics(run *r) {
  const train_flags *f = &r->setup.flags;
  const metrics_desc desc = {
      .path = run_owner_metrics(f, r->metrics_path),
      .run = run_record_id(&r->record),
      .overwrite = f->overwrite,
      .events = {.folder = f->tensorboard, .done = r->step, .histograms = f->histograms}};
  int status = metrics_open(&r->metrics, &desc);
  if (status != STATUS_CONTINUE || !f->tensorboard) return status;
  char *settings = options_settings(&r->setup.options);
  if (settings) tensorboard_text(r->metrics.tensorboard, "settings", settings);
  free(settings);
  json_t *table = hyperparameters(r->record.root, ac_plan_get_info(r->setup.plan));
  tensorboard_settings(r->metrics.tensorboard, table, json_object_get(r->record.root, "given"));
  json_decref(table);
  return status;
}

/* The id of the run in the folder, not of --config, which only lends its flags. A damaged record
 * says nothing about a run that is replaced. */
static int read_before(run *r, json_t **record) {
  char path[RUN_PATH_BYTES];
  run_folder_path(&r->folder, "run.json", path);
  const bool was = message_silence(!r->setup.flags.resume);
  const int status = run_record_read(record, path);
  message_silence(was);
  return r->setup.flags.resume ? status : STATUS_CONTINUE;
}

/* A run that is resumed keeps its id. If the record is lost, its states have it. */
static int find_origin(run *r, run_origin *origin, char id[RUN_ID_BYTES]) {
  const train_wish *wish = r->wish;
  size_t count;
  int64_t *steps;
  int status = run_folder_states(&r->folder, &steps, &count);
  free(steps);
  if (status == STATUS_CONTINUE) status = read_before(r, &r->before);
  if (status != STATUS_CONTINUE) return status;
  run_owner_id(&r->folder, r->before, id);
  if (r->before && !*id)
    return fail_usage("%s/run.json does not have a valid id of the run; "
                      "--overwrite instead of --resume begins the run anew",
                      r->folder.path);
  if (count && !*id)
    return fail("no state in %s names its run, so none can be resumed", r->folder.path);
  if (wish->pilot && (r->before || count) &&
      !run_record_is_of(r->before, wish->pilot, wish->pilot_run))
    return fail_usage("%s holds a run that is not this pilot's; give another folder with --out",
                      r->folder.path);
  if (!wish->pilot && json_object_get(r->before, "pilot"))
    return fail_usage(
        "%s holds a run of a pilot; resume it with the pilot's command, or begin one with "
        "the same flags with --config %s/run.json and another --out",
        r->folder.path, r->folder.path);
  origin->before = r->before;
  origin->id = id;
  return STATUS_CONTINUE;
}

/* A run that is replaced stays until there is something in its place. */
static void find_replaced(run *r) {
  char path[RUN_PATH_BYTES];
  json_t *record = NULL;
  read_before(r, &record);
  run_owner_id(&r->folder, record, r->replaced);
  json_decref(record);
  run_folder_path(&r->folder, "run.json", path);
  r->after_another = *r->replaced || access(path, F_OK) == 0;
}

/* Checks again under the lock: whether the folder is free, or holds the run to resume. */
static int begin_record(run *r) {
  const setup *s = &r->setup;
  char id[RUN_ID_BYTES] = "";
  run_origin origin = {
      .id = "", .replaces = "", .pilot = r->wish->pilot, .pilot_run = r->wish->pilot_run};
  int status = run_owner_check(&s->flags);
  if (status == STATUS_CONTINUE && s->flags.resume) status = find_origin(r, &origin, id);
  if (status != STATUS_CONTINUE) return status;
  if (!s->flags.resume) find_replaced(r);
  origin.replaces = r->replaced;
  status = run_record_begin(&r->record, &r->folder, s, &origin);
  if (status != STATUS_CONTINUE || !r->wish->data) return status;
  const char *data = run_record_data(&r->record);
  if (!strncmp(data, r->wish->data, strlen(data))) return STATUS_CONTINUE;
  return fail("the data have changed since the pilot began; give another folder with --out");
}

/* Of a run that is resumed. The record may name a model that is gone; then there is none. */
static void find_best(run *r) {
  char path[RUN_PATH_BYTES];
  struct stat info;
  if (!r->setup.flags.keep_best || isinf(r->checkpoint.best)) return;
  run_folder_path(&r->folder, "best.safetensors", path);
  if (stat(path, &info) == 0 && S_ISREG(info.st_mode)) return;
  say("%s, the best model so far, with a validation loss of %.4f, is gone; the best one from here "
      "on replaces it",
      path, r->checkpoint.best);
  r->checkpoint.best = INFINITY;
}

/* Refuses flags that do not fit into the model file, before training. */
static int check_description(const setup *s) {
  model_metadata metadata = {0};
  s->kind->describe(s->model, &metadata);
  return metadata.incomplete ? fail_usage("the model's flags are too long for the model file")
                             : STATUS_CONTINUE;
}

int training_begin(run *r) {
  setup *s = &r->setup;
  if (s->flags.histograms) s->trainer.decide = on_decision, s->trainer.user = r;
  watch_describe(&s->flags.watch, &s->trainer);
  const ac_status created = ac_trainer_create(&r->trainer, s->plan, &s->trainer);
  if (created != AC_OK) return fail_setup(created);
  int64_t step = -1, bytes = -1;
  int status = check_description(s);
  if (status == STATUS_CONTINUE) status = begin_record(r);
  if (status != STATUS_CONTINUE) return status;
  if ((status = setup_load(s, r->trainer)) != STATUS_CONTINUE) return status;
  checkpoint_begin(&r->checkpoint, s, &r->folder, &r->record, r->trainer);
  if (s->flags.resume) status = checkpoint_resume(&r->checkpoint, &step, &bytes);
  if (status == STATUS_CONTINUE && step < 0) status = load_init(r);
  if (status != STATUS_CONTINUE) return status;
  if (step >= 0 && (status = take_progress(r)) != STATUS_CONTINUE) return status;
  if (step >= 0) find_best(r);
  /* From here on a refused run would leave traces, so all that may refuse it comes first. The
   * record of an unfinished run stays until this one has a state of its own. */
  status = open_metrics(r);
  if (status == STATUS_CONTINUE) status = metrics_begin(&r->metrics, bytes);
  if (status == STATUS_CONTINUE && !r->after_another) status = run_record_write(&r->record);
  if (status != STATUS_CONTINUE) metrics_abandon(&r->metrics);
  if (status != STATUS_CONTINUE) return status;

  const ac_device_info *device = ac_device_get_info(s->device);
  const ac_plan_info *plan = ac_plan_get_info(s->plan);
  if (!is_quiet(r) && s->kind->introduce) s->kind->introduce(s->model, s->plan);
  if (!is_quiet(r)) plan_table(device, plan);
  metrics_plan(&r->metrics, s->device, plan);
  return STATUS_CONTINUE;
}
