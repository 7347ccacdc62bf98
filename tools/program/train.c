/* One run of `accrue train`: plans, trains, validates, saves.
 *
 * The model is written once: before the final evaluation; or after it, if it replaces another
 * model; or when the run is interrupted. A run without an update writes none. If a run diverges, or
 * has no finite validation loss at the end, the model that is there stays: the run's last finite
 * parameters, if it has any, go to diverged.safetensors in the same folder. */
#include "common/accuracy.h"
#include "common/message.h"
#include "common/replacement.h"
#include "common/text.h"
#include "program/follow.h"
#include "program/good_state.h"
#include "program/layer_words.h"
#include "program/noise_words.h"
#include "program/numerics_table.h"
#include "program/run_owner.h"
#include "program/stop.h"
#include "program/train_json.h"
#include "program/training.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static struct { bool json; } flags;

static void more_flags(options *o) {
  const option rows[] = {FLAG("json", OPTION_SWITCH, &flags.json)};
  OPTIONS_ADD(o, rows);
}

/* ---- interruption ---------------------------------------------------------------------------- */

/* The last validation may take long, and no window shows progress in it. */
static void show_validation(run *r) {
  const int64_t samples = r->setup.data.validation ? ac_dataset_count(r->setup.data.validation) : 0;
  progress_evaluation(&r->progress, r->validated, samples);
  r->validated += ac_plan_get_info(r->setup.plan)->micro_batch;
}

/* Asked until it says so. */
bool training_on_micro_batch(void *user) {
  run *r = user;
  if (r->trained && !stop_signal()) show_validation(r);
  if (!stop_signal()) return false;
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
  r->state_missed = !save_state(r) && !failing;
}

/* The last evaluation uses all samples: it can only be compared with others of all samples. */
static void keep_best(run *r, const ac_fit_event *event) {
  char path[RUN_PATH_BYTES];
  const train_flags *f = &r->setup.flags;
  const bool other = r->trained && f->eval_samples && !isinf(r->checkpoint.best);
  if (!f->keep_best || other || !(event->evaluation.loss < r->checkpoint.best)) return;
  run_folder_path(&r->folder, "best.safetensors", path);
  progress_clear(&r->progress);
  if (training_save_weights(r, path) == AC_OK) {
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
  if (r->wish->ranks) metrics_ranks(&r->metrics, event->step, r->trainer);
  const int64_t samples = r->setup.flags.eval_samples;
  if (r->trained || !samples || samples >= ac_dataset_count(r->setup.data.validation))
    r->checkpoint.evaluated_step = event->step;
  const int status = training_validate_average(r);
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
  run_folder_path(&r->folder, setup_files(&r->setup).weights, path);
  return stat(path, &info) == 0;
}

static bool handle(run *r, const ac_fit_event *event) {
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
    ac_ranks_begin_absence(r->wish->ranks);
    r->save_status = training_save_model(r);
    ac_ranks_end_absence(r->wish->ranks);
    r->saved_early = r->save_status == STATUS_CONTINUE;
    if (!r->saved_early) return false;
  }
  progress_show(&r->progress, r->step);
  return true;
}

/* Other ranks wait until all that this one makes of the event is done. If one of them was the
 * reason that no state could be saved, training does not go on. */
static bool on_event(void *user, const ac_fit_event *event) {
  run *r = user;
  r->state_missed = false;
  const bool more = handle(r, event);
  const int ordered = ranks_order(r->wish->ranks, ORDER_GO_ON, NULL, 0);
  if (ordered != STATUS_CONTINUE) {
    r->save_status = ordered;
    return false;
  }
  if (r->state_missed)
    say("no state could be saved at step %" PRId64 ", and training goes on: %s", r->step,
        r->checkpoint.problem);
  return more;
}

/* Parameters that are not finite are not saved. The model that is there stays, unless it is the one
 * that turned out to be worthless. */
static int diverged(run *r, const char *reason) {
  char path[RUN_PATH_BYTES], state[64] = "";
  r->diverged = true;
  for (int i = 0; r->saved_early && i < (r->setup.flags.ema > 0 ? 2 : 1); i++) {
    run_folder_path(&r->folder, i ? "average.safetensors" : setup_files(&r->setup).weights, path);
    remove(path);
  }
  if (r->wish->quiet) {
    say("%s", reason);
    return STATUS_FAILED;
  }
  run_folder_path(&r->folder, "diverged.safetensors", path);
  const ac_status status = training_save_weights(r, path);
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
  ac_trainer_get_progress(r->trainer, &progress);
  if (progress.window_samples && r->window_seconds <= r->setup.flags.grace) {
    ac_trainer_discard(r->trainer);
    progress.window_samples = 0;
  }
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
  run_folder_path(&r->folder, setup_files(&r->setup).weights, model);
  bool good = replacement_open(&file, model);
  if (good && !replacement_copy(&file, best)) {
    replacement_abandon(&file);
    good = false;
  } else if (good) good = replacement_commit(&file);
  return good ? miss_best(r)
              : fail("cannot put %s in the place of %s: %s", best, model, strerror(errno));
}

ac_fit_desc training_fit_desc(run *r, const char *good, ac_fit_callback callback,
                              bool (*stop)(void *user)) {
  const setup *s = &r->setup;
  const train_flags *f = &s->flags;
  const double seconds = r->wish->pause_seconds;
  return (ac_fit_desc){.train = s->data.train,
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
                       .resume = f->resume,
                       .keep_window = f->keep > 0,
                       .pause_step = r->wish->pause_step,
                       .pause_samples = f->max_samples,
                       .pause_seconds = seconds > 0 ? seconds : 60 * f->max_minutes,
                       .callback = callback,
                       .stop = stop,
                       .user = r};
}

static int fit(run *r) {
  setup *s = &r->setup;
  const train_flags *f = &s->flags;
  int64_t tokens = s->data.tokens_per_sample;
  char good[RUN_PATH_BYTES], reason[1024];
  run_folder_path(&r->folder, GOOD_STATE, good);
  const ac_metadata good_of[] = {{"accrue.run", run_record_id(&r->record)}, {"accrue.good", "1"}};
  progress_begin(&r->progress, s->steps, tokens ? s->data.unit : "image", tokens ? tokens : 1,
                 f->quiet);
  stop_watch();
  ac_fit_desc desc = training_fit_desc(r, good, on_event, training_on_micro_batch);
  desc.good_metadata = good_of;
  desc.good_metadata_count = 2;
  r->began = progress_clock();
  const int made_up = training_make_up_average(r);
  if (made_up != STATUS_CONTINUE) return made_up;
  const int ordered = ranks_order(r->wish->ranks, ORDER_GO_ON, NULL, 0);
  if (ordered != STATUS_CONTINUE) return ordered;
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
  if (status != AC_OK) return r->save_status == STATUS_FAILED ? STATUS_FAILED : fail_library();
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
    printf(", validation loss %s %s %s, accuracy %s %%", text_fixed(fit->final.loss, 4).text,
           data_loss_words(&r->setup.data), data_loss_unit(&r->setup.data),
           text_fixed(100 * accuracy_of(&fit->final), 2).text);
    if (fit->evaluated && !isnan(mean_iou_of(&fit->final)))
      printf(", mean IoU %s %%", text_fixed(100 * mean_iou_of(&fit->final), 2).text);
  }
  printf(", %s; ", text_time(progress_clock() - r->began).text);
  if (r->updates)
    message_put(stdout, "model in %s/%s\n", r->setup.flags.out, setup_files(&r->setup).weights);
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
           f->keep_best ? "best.safetensors" : "",
           r->setup.kind->config_json ? setup_files(&r->setup).config : "");
  run_owner_remove_states(&r->folder, replaced);
  run_owner_remove_models(&r->folder, replaced, kept);
  run_record_has_replaced(&r->record);
}

/* Models and what goes with them may take long to write and to copy. */
static int save_last_model(run *r) {
  ac_ranks_begin_absence(r->wish->ranks);
  int status = r->save_status == STATUS_DONE ? training_save_model(r) : r->save_status;
  if (status == STATUS_CONTINUE) status = leave_best(r);
  if (status == STATUS_CONTINUE) remove_replaced(r);
  ac_ranks_end_absence(r->wish->ranks);
  return status;
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
  int status = save_last_model(r);
  if (status == STATUS_CONTINUE) status = training_keep_examples(r);
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
  run_folder_path(&r->folder, setup_files(&r->setup).weights, weights);
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

/* A rank that does not lead has nothing to write. */
static int end_following(run *r, int status, train_summary *summary) {
  if (status == STATUS_CONTINUE) status = training_follow(r);
  ac_trainer_free(r->trainer);
  setup_close(&r->setup);
  *summary = (train_summary){.interrupted = r->result.stopped};
  return status == STATUS_CONTINUE ? STATUS_DONE : status;
}

/* Ranks of one process open theirs one after another, as not all of that is made for threads.
 * Data may take long to open, and others wait meanwhile. */
static int open_setup(run *r, int argc, char **argv) {
  static pthread_mutex_t one_by_one = PTHREAD_MUTEX_INITIALIZER;
  const train_wish *wish = r->wish;
  const setup_words words = {.verb = "train",
                             .resumes = !wish->cache,
                             .argc = argc,
                             .argv = argv,
                             .more = wish->cache ? NULL : more_flags,
                             .ranks = wish->ranks,
                             .device = wish->device,
                             .tokens = wish->tokens};
  ac_ranks_begin_absence(wish->ranks);
  pthread_mutex_lock(&one_by_one);
  flags.json = false;
  const int status =
      setup_open(&r->setup, &words, wish->cache, ranks_lead(wish->ranks) ? run_owner_check : NULL);
  pthread_mutex_unlock(&one_by_one);
  ac_ranks_end_absence(wish->ranks);
  return status;
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
  const bool leads = ranks_lead(wish->ranks);
  int status = open_setup(&r, argc, argv);
  status = ranks_meet(&r.setup, status);
  if (!leads) return end_following(&r, status, summary);
  /* Ctrl-C may end the reader of a pipe first: that must not cost the model. */
  if (status == STATUS_CONTINUE) signal(SIGPIPE, SIG_IGN);
  if (status == STATUS_CONTINUE) status = run_folder_open(&r.folder, r.setup.flags.out);
  if (status == STATUS_CONTINUE) status = training_begin(&r);
  if (status == STATUS_CONTINUE) status = fit(&r);
  if (status == STATUS_CONTINUE) status = finish(&r);
  if (status == STATUS_CONTINUE) status = ranks_order(wish->ranks, ORDER_GO_ON, NULL, 0);
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
                             .signal = r.result.stopped ? stop_signal() : 0,
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
