/* `accrue train`: plans, trains, validates, saves.
 *
 * The model is written once: before the final evaluation; or after it, if it replaces another
 * model; or when the run is interrupted. A run without an update writes none. If a run diverges, or
 * has no finite validation loss at the end, the model that is there stays: the run's last finite
 * parameters, if it has any, go to diverged.safetensors in the same folder. */
#include "program/commands.h"
#include "common/message.h"
#include "program/carry.h"
#include "program/checkpoint.h"
#include "program/good_state.h"
#include "program/hyperparameters.h"
#include "program/layer_words.h"
#include "program/metrics.h"
#include "program/noise_words.h"
#include "program/numerics_table.h"
#include "program/plan_table.h"
#include "common/progress.h"
#include "common/replacement.h"
#include "program/run_owner.h"
#include "program/run_record.h"
#include "program/setup.h"
#include "program/train_json.h"
#include "program/train_run.h"
#include "common/text.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct { bool json; } flags;

static void more_flags(options *o) {
  const option rows[] = {FLAG("json", OPTION_SWITCH, &flags.json)};
  OPTIONS_ADD(o, rows);
}

typedef struct run {
  const train_wish *wish;
  setup setup;
  metrics metrics;
  char metrics_path[RUN_PATH_BYTES]; /* the default */
  progress progress;
  run_folder folder;
  json_t *before; /* record of the run that is resumed; NULL: none */
  run_record record;
  char replaced[RUN_ID_BYTES]; /* the run that this one replaces; "": none that is known */
  bool after_another;          /* it replaces one; that record stays until there is a state */
  bool model_is_best;          /* but it could not be saved again under its own name */
  double lost_best;            /* least validation loss of a model that could not be saved */
  bool trained;                /* no window follows */
  bool saved_early;            /* the model, before the final evaluation */
  bool diverged;
  bool average_worthless; /* its last validation loss is not finite */
  bool stopping;          /* and a message has said so */
  checkpoint checkpoint;
  ac_trainer *trainer;
  ac_fit_result result;
  double began;
  int64_t step;          /* the last update that is done, or skipped */
  int64_t updates;       /* updates that were not skipped */
  int64_t validated;     /* samples of the last validation */
  double window_seconds; /* the last window's */
  double loss;           /* of the last update; NAN: there is none yet */
  int save_status;       /* of saving models; STATUS_DONE: the last one is not saved yet */
  int state_status;      /* of the last state */
  int policy_status;     /* of the last window */
} run;

/* Whether only problems are reported: with --quiet, or because the command reports results itself.
 */
static bool is_quiet(const run *r) {
  return r->wish->quiet || r->setup.flags.quiet;
}

/* ---- interruption ---------------------------------------------------------------------------- */

/* The time of the first signal, in milliseconds of a clock that starts anywhere; 0: none came. And
 * the signal. */
static atomic_ulong stop_requested;
static atomic_int stop_signal;

static unsigned long milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (unsigned long)now.tv_sec * 1000 + (unsigned long)now.tv_nsec / 1000000;
}

/* The first signal ends the run after the current micro-batch, a later one ends the program at
 * once. Signals within one second count as one: `timeout` sends it to the program and then to the
 * program's group. */
static void on_signal(int number) {
  enum { SAME = 1000 };
  unsigned long none = 0, now = milliseconds();
  if (atomic_compare_exchange_strong(&stop_requested, &none, now ? now : 1)) {
    stop_signal = number;
    return;
  }
  if (now < none + SAME) return; /* a signal that came in between may have stored a later time */
  signal(number, SIG_DFL);
  raise(number);
}

/* If a signal was ignored when the program started, it stays ignored. */
static void watch_signals(void) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, before;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    sigaddset(&action.sa_mask, numbers[i]);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
      sigaction(numbers[i], &action, NULL);
}

/* The last validation may take long, and no window shows progress in it. */
static void show_validation(run *r) {
  const int64_t samples = r->setup.data.validation ? ac_dataset_count(r->setup.data.validation) : 0;
  progress_evaluation(&r->progress, r->validated, samples);
  r->validated += ac_plan_get_info(r->setup.plan)->micro_batch;
}

/* Asked until it says so. */
static bool on_micro_batch(void *user) {
  run *r = user;
  if (r->trained && !stop_requested) show_validation(r);
  if (!stop_requested) return false;
  if (r->stopping) return true;
  r->stopping = true;
  progress_clear(&r->progress);
  if (r->setup.flags.quiet) return true;
  if (r->updates)
    say("stopping after update %" PRId64 " and saving; a second signal ends the run at once",
        r->step);
  else say("stopping before the first update");
  return true;
}

/* ---- files ----------------------------------------------------------------------------------- */

static ac_status save_weights(run *r, const char *path) {
  const setup *s = &r->setup;
  model_metadata metadata = {0};
  model_metadata_add(&metadata, "format", "pt");
  s->kind->describe(s->model, &metadata);
  model_metadata_add(&metadata, "accrue.steps", "%" PRId64, r->step);
  return ac_trainer_save(r->trainer, path, metadata.entries, metadata.count);
}

static int save_weights_to(run *r, const char *path) {
  return save_weights(r, path) == AC_OK ? STATUS_CONTINUE : fail_library();
}

/* The config.json is complete under another name before the weights are replaced, so a full disk
 * leaves the old pair. */
static int save_pair(run *r, const char *weights, const char *json) {
  char config[RUN_PATH_BYTES];
  replacement file;
  run_folder_path(&r->folder, "config.json", config);
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
  run_folder_path(&r->folder, "model.safetensors", weights);
  if (!s->kind->config_json) return save_weights_to(r, weights);
  char *json = s->kind->config_json(s->model);
  int status = json ? save_pair(r, weights, json) : fail("out of memory");
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
  if (ac_trainer_evaluate_until(r->trainer, s->data.validation, samples, on_micro_batch, r,
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

/* Makes the missing validation of averages, if the run was stopped before it. */
static int make_up_average(run *r) {
  const bool due = r->checkpoint.average_due && r->setup.data.validation;
  r->checkpoint.average_due = false;
  return due ? with_average(r, validate_average) : STATUS_CONTINUE;
}

/* An average without a finite last validation loss does not replace another one. */
static int save_average(run *r) {
  char path[RUN_PATH_BYTES];
  run_folder_path(&r->folder, "average.safetensors", path);
  if (r->average_worthless)
    return fail("the validation loss of averaged weights is not finite; %s is not written", path);
  return save_weights_to(r, path);
}

/* Saves average and model. Without an update there is nothing new, and a model of an earlier run
 * must not be lost. During a window the average cannot be saved; the state has it. */
static int save_model(run *r) {
  ac_progress progress;
  if (!r->updates) return STATUS_CONTINUE;
  const int status = save_weights_and_config(r);
  /* Without states, the record of a run that is replaced is still there. */
  if (status == STATUS_CONTINUE && !r->record.written) run_record_write(&r->record);
  ac_trainer_get_progress(r->trainer, &progress);
  if (status == STATUS_CONTINUE && r->setup.flags.init && r->setup.kind->carried)
    carry_files(r->setup.kind->carried, r->setup.flags.init, &r->folder, r->setup.flags.overwrite);
  if (status != STATUS_CONTINUE || progress.window_samples) return status;
  return with_average(r, save_average);
}

/* ---- the run --------------------------------------------------------------------------------- */

static bool save_state(run *r) {
  progress_clear(&r->progress);
  return checkpoint_save(&r->checkpoint, r->step, &r->metrics);
}

/* Saves the state of a run that ends, unless it is saved already. */
static void save_last_state(run *r) {
  const checkpoint *c = &r->checkpoint;
  const bool saved = c->saved_step == r->step && r->step && !c->failing && !r->result.stopped;
  if (saved || save_state(r)) return;
  r->state_status =
      fail("no state could be saved at step %" PRId64 ": %s", r->step, r->checkpoint.problem);
}

/* Whether the next evaluation may replace the best model of an unfinished run by this run's: first
 * the folder must be this run's. */
static bool may_replace_best(const run *r) {
  const train_flags *f = &r->setup.flags;
  return r->after_another && !r->record.written && f->keep_best && f->eval_every > 0 &&
         r->step % f->eval_every == 0;
}

/* False, if the policy does not allow the window: the run ends. */
static bool keeps_policy(run *r, const ac_fit_event *event) {
  const policy *p = &r->setup.policy;
  if (!p->path) return true;
  progress_clear(&r->progress);
  r->policy_status =
      policy_check_step(p, event, &r->setup.trainer, checkpoint_seconds(&r->checkpoint));
  return r->policy_status == STATUS_CONTINUE;
}

static void on_growth(run *r, const ac_fit_event *event) {
  if (!event->grown) return;
  metrics_growth(&r->metrics, event);
  if (is_quiet(r)) return;
  progress_clear(&r->progress);
  say("step %" PRId64 "  batches of %" PRId64 " from here on; the gradient noise scale is %.4g",
      event->step, event->grown, event->update.noise_scale);
}

static void on_step(run *r, const ac_fit_event *event) {
  const bool failing = r->checkpoint.failing;
  if (event->update.spike.alarm && !is_quiet(r)) {
    progress_clear(&r->progress);
    watch_say_spike(&r->setup.flags.watch, event);
  }
  if (event->good_state_failed) {
    progress_clear(&r->progress);
    say("no good state could be saved at step %" PRId64 ", and training keeps the one "
        "before it: %s",
        event->step, ac_last_error());
  }
  r->updates += !event->update.skipped;
  if (!event->update.skipped) r->loss = event->update.loss;
  r->window_seconds = event->seconds;
  on_growth(r, event);
  const int64_t every = r->setup.flags.noise_layers;
  if (every && !event->replayed && r->step % every == 0)
    metrics_noise_layers(&r->metrics, r->step, r->trainer);
  if (event->replayed || !(checkpoint_is_due(&r->checkpoint, r->step) || may_replace_best(r)))
    return;
  if (!save_state(r) && !failing)
    say("no state could be saved at step %" PRId64 ", and training goes on: %s", r->step,
        r->checkpoint.problem);
}

/* The last evaluation uses all samples: it can only be compared with others of all samples. */
static void keep_best(run *r, const ac_fit_event *event) {
  char path[RUN_PATH_BYTES];
  const train_flags *f = &r->setup.flags;
  const bool other = r->trained && f->eval_samples && !isinf(r->checkpoint.best);
  if (!f->keep_best || other || !(event->evaluation.loss < r->checkpoint.best)) return;
  run_folder_path(&r->folder, "best.safetensors", path);
  progress_clear(&r->progress);
  if (save_weights(r, path) == AC_OK) {
    r->checkpoint.best = event->evaluation.loss;
    return;
  }
  r->model_is_best = r->trained && event->evaluation.loss < r->lost_best;
  if (r->model_is_best) r->lost_best = INFINITY;
  else if (isinf(r->lost_best))
    say("the best model, of step %" PRId64 ", could not be saved, and training goes on: %s",
        event->step, ac_last_error());
  if (!r->model_is_best) r->lost_best = fmin(r->lost_best, event->evaluation.loss);
}

/* Whether the metrics have it already: --patience ends a run after a validation, and a run that is
 * resumed there makes this validation once more. */
static bool is_repeated(const run *r, const ac_fit_event *event) {
  return event->kind == AC_FIT_EVALUATION && r->trained &&
         r->checkpoint.evaluated_step == event->step;
}

static bool on_evaluation(run *r, const ac_fit_event *event) {
  if (is_repeated(r, event)) return true;
  const int64_t samples = r->setup.flags.eval_samples;
  if (r->trained || !samples || samples >= ac_dataset_count(r->setup.data.validation))
    r->checkpoint.evaluated_step = event->step;
  const int status = with_average(r, validate_average);
  if (status != STATUS_CONTINUE) r->save_status = status;
  keep_best(r, event);
  return status == STATUS_CONTINUE && !r->checkpoint.average_due;
}

/* Whether the model is saved only after the final evaluation, which may show that it is worthless:
 * if it would replace another model. Otherwise it is saved before, as the evaluation may take long.
 */
static bool model_waits(const run *r) {
  char path[RUN_PATH_BYTES];
  struct stat info;
  run_folder_path(&r->folder, "model.safetensors", path);
  return stat(path, &info) == 0;
}

static bool on_event(void *user, const ac_fit_event *event) {
  run *r = user;
  if (!is_repeated(r, event)) metrics_fit(&r->metrics, event);
  if (event->kind == AC_FIT_STEP && event->update.layers)
    metrics_layers(&r->metrics, event->step, r->trainer);
  if (!is_quiet(r) || r->progress.terminal) progress_fit(&r->progress, event);
  if (!event->replayed) r->step = event->step;
  if (event->kind == AC_FIT_STEP) {
    on_step(r, event);
    return keeps_policy(r, event);
  }
  if (event->kind == AC_FIT_EVALUATION) return on_evaluation(r, event);
  if (event->kind != AC_FIT_TRAINED) return true;
  r->trained = true;
  save_last_state(r);
  if (!model_waits(r)) {
    r->save_status = save_model(r);
    r->saved_early = r->save_status == STATUS_CONTINUE;
    if (!r->saved_early) return false;
  }
  progress_show(&r->progress, r->step);
  return true;
}

static int load_init(run *r) {
  const setup *s = &r->setup;
  if (!s->flags.init) return STATUS_CONTINUE;
  ac_status status = ac_trainer_load(r->trainer, s->flags.init, s->kind->optional_prefix);
  return status == AC_OK ? STATUS_CONTINUE : fail_library();
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

static int prepare(run *r) {
  setup *s = &r->setup;
  if (s->flags.histograms) s->trainer.decide = on_decision, s->trainer.user = r;
  watch_describe(&s->flags.watch, &s->trainer);
  const ac_status created = ac_trainer_create(&r->trainer, s->plan, &s->trainer);
  if (created != AC_OK) return fail_setup(created);
  int64_t step = -1, bytes = -1;
  int status = check_description(s);
  if (status == STATUS_CONTINUE) status = begin_record(r);
  if (status != STATUS_CONTINUE) return status;
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
  if (!is_quiet(r)) plan_table(device, plan);
  metrics_plan(&r->metrics, s->device, plan);
  return STATUS_CONTINUE;
}

/* Parameters that are not finite are not saved. The model that is there stays, unless it is the one
 * that turned out to be worthless. */
static int diverged(run *r, const char *reason) {
  char path[RUN_PATH_BYTES], state[64] = "";
  r->diverged = true;
  for (int i = 0; r->saved_early && i < (r->setup.flags.ema > 0 ? 2 : 1); i++) {
    run_folder_path(&r->folder, i ? "average.safetensors" : "model.safetensors", path);
    remove(path);
  }
  if (r->wish->quiet) {
    say("%s", reason);
    return STATUS_FAILED;
  }
  run_folder_path(&r->folder, "diverged.safetensors", path);
  const ac_status status = save_weights(r, path);
  if (status == AC_OK) return fail("%s; the last finite parameters are in %s", reason, path);
  if (status != AC_ERROR_NOT_FINITE) return fail("%s", reason);
  if (r->checkpoint.saved_step >= 0)
    snprintf(state, sizeof state, "; the last state is of step %" PRId64, r->checkpoint.saved_step);
  return fail("%s; these parameters are not saved%s", reason, state);
}

/* Data without weight have no loss, which says nothing about the model. */
static bool is_worthless(const ac_fit_result *fit) {
  return fit->evaluated && fit->final.weight != 0 && !isfinite(fit->final.loss);
}

/* A window in progress is saved if doing it again would take long; but not at the cost of the
 * states of an unfinished run. */
static void save_stopped(run *r) {
  ac_progress progress;
  if (r->save_status != STATUS_CONTINUE && r->save_status != STATUS_DONE) return;
  if (r->window_seconds <= r->setup.flags.grace) ac_trainer_discard(r->trainer);
  ac_trainer_get_progress(r->trainer, &progress);
  if (progress.steps || (progress.window_samples && !r->after_another)) save_last_state(r);
}

/* A better model than the one that remains could not be saved. */
static int miss_best(const run *r) {
  if (!(r->lost_best < r->checkpoint.best)) return STATUS_CONTINUE;
  return fail("the best model, with a validation loss of %.4f, could not be saved; another one is "
              "left in %s",
              r->lost_best, r->folder.path);
}

/* Makes the best model the model, for --keep-best. The file also keeps its own name: a run that is
 * resumed may find no better model. */
static int leave_best(run *r) {
  char best[RUN_PATH_BYTES], model[RUN_PATH_BYTES];
  replacement file;
  if (!r->setup.flags.keep_best || r->model_is_best) return STATUS_CONTINUE;
  if (isinf(r->checkpoint.best)) return miss_best(r);
  run_folder_path(&r->folder, "best.safetensors", best);
  run_folder_path(&r->folder, "model.safetensors", model);
  bool good = replacement_open(&file, model);
  if (good && !replacement_copy(&file, best)) {
    replacement_abandon(&file);
    good = false;
  } else if (good) good = replacement_commit(&file);
  return good ? miss_best(r)
              : fail("cannot put %s in the place of %s: %s", best, model, strerror(errno));
}

static int fit(run *r) {
  setup *s = &r->setup;
  const train_flags *f = &s->flags;
  int64_t tokens = s->data.tokens_per_sample;
  const double seconds = r->wish->pause_seconds;
  char good[RUN_PATH_BYTES], reason[1024];
  run_folder_path(&r->folder, GOOD_STATE, good);
  const ac_metadata good_of[] = {{"accrue.run", run_record_id(&r->record)}, {"accrue.good", "1"}};
  progress_begin(&r->progress, s->steps, tokens ? s->data.unit : "image", tokens ? tokens : 1,
                 f->quiet);
  watch_signals();
  const ac_fit_desc desc = {.train = s->data.train,
                            .validation = s->data.validation,
                            .steps = f->steps,
                            .epochs = f->epochs,
                            .eval_every = f->eval_every,
                            .eval_samples = f->eval_samples,
                            .patience = f->patience,
                            .patience_gain = f->patience_gain,
                            .seed = (uint64_t)f->seed,
                            .loader_threads = (int)f->loader_threads,
                            .last_window = (ac_last_window)f->last_window,
                            .batches = f->batches.stages,
                            .batch_count = f->batches.count,
                            .growth = {.from = f->batches.grow_from},
                            .replay = f->loss_scale.replay,
                            .good_state = good,
                            .good_every = f->watch.good_every,
                            .good_metadata = good_of,
                            .good_metadata_count = 2,
                            .resume = f->resume,
                            .keep_window = f->keep > 0,
                            .pause_step = r->wish->pause_step,
                            .pause_samples = f->max_samples,
                            .pause_seconds = seconds > 0 ? seconds : 60 * f->max_minutes,
                            .callback = on_event,
                            .stop = on_micro_batch,
                            .user = r};
  r->began = progress_clock();
  const int made_up = make_up_average(r);
  if (made_up != STATUS_CONTINUE) return made_up;
  ac_status status = ac_fit(r->trainer, &desc, &r->result);
  /* Even if the last update was evaluated, perhaps only on a part of the data. */
  if (r->result.stopped) r->result.evaluated = false;
  progress_clear(&r->progress);
  if (r->result.stopped && !r->trained) save_stopped(r);
  if (f->debug_numerics) numerics_table(r->trainer);
  /* A rate may grow so large that no update is possible: for a pilot's run that is a result. */
  const bool unusable = status == AC_ERROR_ARGUMENT && r->wish->pilot;
  if (status == AC_ERROR_NOT_FINITE || unusable) {
    snprintf(reason, sizeof reason, "%s", ac_last_error());
    return diverged(r, reason);
  }
  if (status != AC_OK) return fail_library();
  if (is_worthless(&r->result)) {
    snprintf(reason, sizeof reason, "step %" PRId64 ": the validation loss is not finite", r->step);
    return diverged(r, reason);
  }
  if (is_quiet(r)) return STATUS_CONTINUE;
  char batches[BATCH_FLAG_TEXT];
  if (batch_flag_grown(r->trainer, batches))
    say("batches have %s --batch %s",
        strchr(batches, ',') ? "grown as with" : "not grown:", batches);
  noise_words(r->trainer, ac_plan_get_info(s->plan), ac_trainer_batch(r->trainer), tokens,
              f->noise_scale);
  if (f->watch.layers_every) layer_words(r->trainer);
  return STATUS_CONTINUE;
}

/* The run has used all tokens of --max-tokens, whether it would end for other reasons or not. */
static bool is_out_of_tokens(const run *r) {
  const int64_t most = r->setup.flags.max_samples;
  return r->result.paused && most && r->result.samples >= most;
}

static const char *outcome_of(const run *r) {
  const ac_fit_result *fit = &r->result;
  return r->diverged           ? "diverged"
         : fit->stopped        ? "stopped"
         : is_out_of_tokens(r) ? "out of tokens"
         : fit->paused         ? "paused"
         : fit->ended_early    ? "out of patience"
                               : "done";
}

/* The outcome in one line on stdout. */
static void print_result(const run *r) {
  const ac_fit_result *fit = &r->result;
  const char *end = outcome_of(r);
  printf("%s after %s update%s", end, text_count(fit->updates).text, fit->updates == 1 ? "" : "s");
  if (fit->skipped)
    printf(", %s window%s overflowed", text_count(fit->skipped).text, fit->skipped == 1 ? "" : "s");
  if (fit->evaluated) {
    printf(", validation loss %s nats per %s, accuracy %s %%", text_fixed(fit->final.loss, 4).text,
           r->setup.data.unit, text_fixed(100 * fit->final.accuracy, 2).text);
  }
  printf(", %s; ", text_time(progress_clock() - r->began).text);
  if (r->updates) message_put(stdout, "model in %s/model.safetensors\n", r->setup.flags.out);
  else if (r->checkpoint.saved_step >= 0)
    message_put(stdout, "a state is in %s\n", r->setup.flags.out);
  else printf("nothing is saved\n");
}

/* Removes what the replaced run has left, now that there is a new model. */
static void remove_replaced(run *r) {
  const train_flags *f = &r->setup.flags;
  const char *replaced = run_record_replaces(&r->record);
  char kept[128];
  if (!*replaced || !r->updates) return;
  snprintf(kept, sizeof kept, "%s %s %s", f->ema > 0 ? "average.safetensors" : "",
           f->keep_best ? "best.safetensors" : "", r->setup.kind->config_json ? "config.json" : "");
  run_owner_remove_states(&r->folder, replaced);
  run_owner_remove_models(&r->folder, replaced, kept);
  run_record_has_replaced(&r->record);
}

static int finish(run *r) {
  const setup *s = &r->setup;
  char batches[BATCH_FLAG_TEXT];
  const metrics_end end = {.fit = &r->result,
                           .trainer = r->trainer,
                           .batches = batch_flag_grown(r->trainer, batches),
                           .tokens_per_sample = s->data.tokens_per_sample,
                           .planned_bytes = ac_plan_get_info(s->plan)->bytes.total,
                           .peak_bytes = ac_device_peak_bytes(s->device),
                           .seconds = progress_clock() - r->began};
  int status = r->save_status == STATUS_DONE ? save_model(r) : r->save_status;
  if (status == STATUS_CONTINUE) status = leave_best(r);
  if (status == STATUS_CONTINUE) remove_replaced(r);
  metrics_finish(&r->metrics, &end);
  if (status != STATUS_CONTINUE) r->save_status = status;
  if (status == STATUS_CONTINUE && !is_quiet(r) && !flags.json) print_result(r);
  if (status == STATUS_CONTINUE) status = r->state_status;
  return status == STATUS_CONTINUE ? r->policy_status : status;
}

/* Of a run that has begun to train. What could not be saved, or anything else that failed, makes
 * it "failed". */
static int put_json(const run *r, int status) {
  char state[RUN_PATH_BYTES], weights[RUN_PATH_BYTES];
  const bool saved = r->updates && r->save_status == STATUS_CONTINUE && !r->diverged;
  run_folder_state(&r->folder, r->checkpoint.saved_step, state);
  run_folder_path(&r->folder, "model.safetensors", weights);
  const bool failed = status != STATUS_DONE && !r->diverged;
  const train_end end = {.setup = &r->setup,
                         .fit = &r->result,
                         .outcome = failed ? "failed" : outcome_of(r),
                         .folder = r->folder.path,
                         .run = run_record_id(&r->record),
                         .weights = saved ? weights : NULL,
                         .state = r->checkpoint.saved_step >= 0 ? state : NULL,
                         .step = r->step,
                         .loss = r->loss,
                         .seconds = progress_clock() - r->began};
  const int put = train_json_put(&end);
  return status == STATUS_DONE && put != STATUS_CONTINUE ? put : status;
}

int train_run(int argc, char **argv, const train_wish *wish, train_summary *summary) {
  run r = {.wish = wish,
           .save_status = STATUS_DONE,
           .state_status = STATUS_CONTINUE,
           .policy_status = STATUS_CONTINUE,
           .window_seconds = INFINITY,
           .loss = NAN,
           .lost_best = INFINITY,
           .folder = {.lock = -1}};
  flags.json = false;
  const setup_words words = {"train", !wish->cache, argc, argv, wish->cache ? NULL : more_flags};
  int status = setup_open(&r.setup, &words, wish->cache, run_owner_check);
  /* Ctrl-C may end the reader of a pipe first: that must not cost the model. */
  if (status == STATUS_CONTINUE) signal(SIGPIPE, SIG_IGN);
  if (status == STATUS_CONTINUE) status = run_folder_open(&r.folder, r.setup.flags.out);
  if (status == STATUS_CONTINUE) status = prepare(&r);
  if (status == STATUS_CONTINUE) status = fit(&r);
  if (status == STATUS_CONTINUE) status = finish(&r);
  int metrics_status = metrics_close(&r.metrics);
  if (status == STATUS_CONTINUE)
    status = metrics_status == STATUS_CONTINUE ? STATUS_DONE : metrics_status;
  if (flags.json && r.began > 0) status = put_json(&r, status);
  const bool stopped = r.result.stopped || r.result.paused;
  const bool whole = status == STATUS_DONE && r.trainer && !stopped;
  if (r.record.written || whole)
    run_record_end(&r.record, status != STATUS_DONE ? "failed" : stopped ? "stopped" : "done");
  char id[RUN_ID_BYTES];
  snprintf(id, sizeof id, "%s", run_record_id(&r.record));
  run_record_close(&r.record);
  json_decref(r.before);
  run_folder_close(&r.folder);
  ac_trainer_free(r.trainer);
  *summary = (train_summary){.interrupted = r.result.stopped,
                             .signal = r.result.stopped ? stop_signal : 0,
                             .paused = r.result.paused,
                             .out_of_tokens = is_out_of_tokens(&r),
                             .diverged = r.diverged ||
                                         (r.result.evaluated && !isfinite(r.result.final.loss)),
                             .steps = r.result.steps,
                             .tokens_per_sample = r.setup.data.tokens_per_sample};
  memcpy(summary->run, id, sizeof id);
  setup_close(&r.setup);
  return status;
}

int train_main(int argc, char **argv) {
  static const train_wish nothing;
  train_summary summary;
  const help_form help = setup_wants_help(argc, argv);
  if (help) return setup_help("train", help);
  const int status = train_run(argc, argv, &nothing, &summary);
  return status == STATUS_DONE && summary.signal ? 128 + summary.signal : status;
}
