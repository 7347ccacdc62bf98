/* The fit loop: draws samples in the order of the epoch, fills windows micro-batch by micro-batch,
 * ends them, evaluates, and reports. data/windows.h says which samples form a window.
 *
 * If the plan has room for batches read ahead, a loader's threads read whole windows while the
 * device works, and a window stays in memory until it is over. Otherwise each micro-batch is read
 * into staging buffers when it is needed, and a window that runs again is read again. The samples
 * and their order are the same in both cases. */
#include "core/error.h"
#include "core/platform/clock.h"
#include "fit/fit.h"
#include "fit/good_state.h"
#include "window/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct fit {
  ac_trainer *trainer;
  const ac_fit_desc *desc;
  ac_fit_result result;
  ac_gathering gather;
  ac_windows windows;
  ac_loader *loader; /* NULL: nothing is read ahead */
  ac_batch batch;    /* the current one; without a loader it has no fields */
  bool again;        /* that window runs once more */
  double waited;     /* for samples of this window */
  ac_place next;     /* where the window after it begins */
  int64_t done;      /* samples of the window that are accumulated when it is taken up */
  ac_stop stop;      /* by the caller; also set where the callback says so */
  double resumed;    /* when the clock for the current window was started */
  double began;      /* and that of the whole call */
  struct {
    ac_all_sums sums;
    int64_t samples;
    double seconds;
  } epoch; /* what its windows have come to since it, or the fit, began */
} fit;

/* ---- samples --------------------------------------------------------------------------------- */

/* The window that comes next, unless the current one runs again. */
static ac_status take_window(fit *f) {
  const bool again = f->again;
  f->again = false;
  if (again) return AC_OK;
  if (f->loader) {
    AC_TRY(ac_loader_next(f->loader, &f->batch));
    f->waited += f->batch.wait_seconds;
    return AC_OK;
  }
  f->batch = (ac_batch){.window = ac_windows_lay(&f->windows, f->next)};
  return AC_OK;
}

/* Reads samples of the window that are this rank's, from number `first` of them on, into the
 * staging buffers. */
static ac_status read_samples(fit *f, int64_t first, int64_t count) {
  const double start = ac_clock();
  for (int64_t i = 0; i < count; i++) {
    const ac_sample_key key =
        ac_windows_key(&f->windows, f->batch.window.begin, f->batch.window.first + first + i);
    AC_TRY(ac_gather_read(&f->gather, &f->trainer->instance, &key, i));
  }
  f->waited += ac_clock() - start;
  return AC_OK;
}

/* Samples on the host, by input: [first, first + count). */
typedef struct piece {
  const void *data[AC_MAX_GRAPH_INPUTS];
  int64_t first, count;
} piece;

/* This rank's samples of the window from number `done` on, as many as a micro-batch takes. */
static ac_status next_piece(fit *f, int64_t done, piece *p) {
  const ac_instance *instance = &f->trainer->instance;
  const int64_t most = ac_plan_piece(instance->plan), left = f->batch.window.share - done;
  p->count = left < most ? left : most;
  p->first = f->loader ? done : 0;
  memset(p->data, 0, sizeof p->data);
  if (!f->loader) {
    for (int i = 0; i < instance->plan->graph->input_count; i++) p->data[i] = instance->staging[i];
    return read_samples(f, done, p->count);
  }
  for (int k = 0; k < ac_dataset_field_count(f->desc->train); k++)
    if (f->gather.input[k] >= 0) p->data[f->gather.input[k]] = f->batch.fields[k];
  return AC_OK;
}

/* ---- a window that failed -------------------------------------------------------------------- */

/* Whether what a batch norm has pooled was found not finite, when no gradient was. */
static bool pools_badly(const ac_trainer *trainer) {
  const int parameter = trainer->window.nonfinite;
  return parameter >= 0 && trainer->instance.plan->problem.parameters[parameter].gradient < 0;
}

/* Whether only the squares that the optimizer would have kept of a gradient are not finite. */
static bool squares_badly(const ac_trainer *trainer) {
  const ac_plan *plan = trainer->instance.plan;
  const ac_cell *cell = ac_plan_cell(plan, AC_ROLE_STATISTICS, trainer->window.nonfinite, 0);
  return cell && ac_trainer_measure(trainer, cell).finite;
}

/* The rank that has it among its samples tells the others, unless all have met there. */
static ac_status hear_where(fit *f, char *where, size_t size) {
  ac_exchange *e = &f->trainer->exchange;
  if (ac_exchange_is_alone(e) || e->told) return AC_OK;
  ac_status found = AC_OK;
  if (where[0]) found = ac_fail(AC_ERROR_NOT_FINITE, "%s (rank %d)", where, e->rank);
  found = ac_exchange_sum(f->trainer, AC_MEET_TURN, found, NULL, 0);
  if (found != AC_ERROR_NOT_FINITE) return found;
  ac_exchange_copy_sentence(where, size);
  return AC_OK;
}

/* Runs the window again and names the first op that yields something not finite. */
static ac_status locate(fit *f, char *where, size_t size) {
  const bool idle = !f->batch.window.share && f->trainer->instance.plan->problem.in_sections;
  piece p;
  if (idle) AC_TRY(ac_trainer_locate_data(f->trainer, NULL, 0, 0, 0, where, size));
  for (int64_t done = 0; done < f->batch.window.share && !where[0]; done += p.count) {
    AC_TRY(next_piece(f, done, &p));
    AC_TRY(ac_trainer_locate_data(f->trainer, p.data, p.first, f->batch.window.first + done,
                                  p.count, where, size));
  }
  AC_TRY(hear_where(f, where, size));
  const ac_graph *graph = f->trainer->instance.plan->graph;
  int parameter = f->trainer->window.nonfinite;
  if (!where[0] && parameter >= 0)
    snprintf(where, size, "the %s of parameter %s",
             pools_badly(f->trainer)     ? "pooled statistics"
             : squares_badly(f->trainer) ? "squares of the gradient"
                                         : "gradient",
             ac_tensor_at(graph, graph->parameters[parameter])->name);
  if (!where[0]) snprintf(where, size, "the sum over the window");
  return AC_OK;
}

/* Why training cannot go on after a window that is stuck. */
static ac_status explain(fit *f, const ac_update *update) {
  const ac_scaler *scaler = AC_WATCHED(&f->trainer->run, scaler);
  const int light = ac_trainer_light_loss(f->trainer);
  long long step = (long long)f->result.steps;
  if (light >= 0)
    return ac_fail(AC_ERROR_NOT_FINITE,
                   "step %lld: the weight %g of loss %s is too small to divide its factor %g by",
                   step, update->losses[light].weight, update->losses[light].name,
                   f->trainer->instance.plan->graph->losses[light].factor);
  if (update->finite_loss && update->finite_gradient)
    return ac_fail(AC_ERROR_NOT_FINITE, "step %lld: the weight %g is too small to divide by", step,
                   update->weight);
  char where[192] = "", scale[64] = "";
  AC_TRY(locate(f, where, sizeof where));
  if (scaler->desc.kind == AC_LOSS_SCALING_DYNAMIC)
    snprintf(scale, sizeof scale, " even at the lowest loss scale, %g", update->loss_scale);
  else if (scaler->desc.kind == AC_LOSS_SCALING_STATIC)
    snprintf(scale, sizeof scale, " in %lld windows in a row", (long long)scaler->overflows);
  const char *cause = "", *bad = update->finite_loss ? "gradient" : "loss";
  if (update->finite_loss && pools_badly(f->trainer)) bad = "pooled mean or variance";
  if (scale[0] && strncmp(where, "input ", strlen("input ")) != 0)
    cause = scaler->desc.kind == AC_LOSS_SCALING_STATIC && update->finite_loss
                ? "the model diverges or the loss scale is too high: "
                : "the model diverges: ";
  return ac_fail(AC_ERROR_NOT_FINITE, "step %lld: %sthe %s is not finite%s; it first appears in %s",
                 step, cause, bad, scale, where);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void report(fit *f, ac_fit_event *event) {
  if (event->kind != AC_FIT_EPOCH) event->epoch = f->next.epoch;
  if (f->desc->callback && !f->desc->callback(f->desc->user, event)) f->stop.stopped = true;
  f->resumed = ac_clock();
}

/* Runs before an update. If the callback asks to stop, the fit stops after the update. */
static void report_decision(void *user, ac_trainer *trainer, ac_decision *decision) {
  fit *f = user;
  ac_fit_event event = {.kind = AC_FIT_DECISION,
                        .step = f->result.steps + 1,
                        .samples = f->batch.window.count,
                        .decision = decision};
  const double resumed = f->resumed, began = ac_clock();
  (void)trainer;
  report(f, &event);
  f->resumed += resumed - began;
}

/* What a state that is saved in a callback goes on from. */
static void keep_position(fit *f, bool evaluation_due) {
  const ac_fit_desc *desc = f->desc;
  f->trainer->run.fit = (ac_fit_position){.begun = true,
                                          .steps = f->result.steps,
                                          .updates = f->result.updates,
                                          .skipped = f->result.skipped,
                                          .samples = f->result.samples,
                                          .next = f->next,
                                          .evaluation_due = evaluation_due,
                                          .count = ac_dataset_count(desc->train),
                                          .seed = desc->seed,
                                          .no_shuffle = desc->no_shuffle};
}

static bool is_out_of_patience(const fit *f) {
  return ac_patience_is_over(AC_WATCHED(&f->trainer->run, patience));
}

/* Whether any loss has a mean. Data that weigh nothing say nothing about the model. */
static bool weighs(const ac_evaluation *evaluation) {
  bool any = false;
  for (int k = 0; k < evaluation->loss_count; k++) any |= !isnan(evaluation->losses[k].accuracy);
  return any;
}

/* Where one rank was told to stop or pauses, all do: after whatever may have told it. */
static ac_status agree_to_end(fit *f) {
  ac_exchange *e = &f->trainer->exchange;
  if (ac_exchange_is_alone(e)) return AC_OK;
  ac_stop_asked(&f->stop);
  double values[] = {f->stop.stopped, f->result.paused};
  AC_TRY(ac_exchange_sum(f->trainer, AC_MEET_TURN, AC_OK, values, 2));
  f->stop.stopped = values[0] != 0;
  f->result.paused = values[1] != 0;
  return AC_OK;
}

/* `due`: another one is, if windows follow. `regular`: it is one of those every so many windows, by
 * which a schedule and patience go. */
static ac_status evaluate(fit *f, int64_t limit, bool due, bool regular) {
  ac_fit_event event = {.kind = AC_FIT_EVALUATION, .step = f->result.steps};
  AC_TRY(ac_trainer_evaluate_asking(f->trainer, f->desc->validation, limit, &f->stop,
                                    &event.evaluation));
  if (f->stop.stopped) return AC_OK;
  regular &= weighs(&event.evaluation);
  if (regular) ac_watchers_validated(&f->trainer->run, event.evaluation.loss);
  f->result.final = event.evaluation;
  f->result.evaluated = true;
  keep_position(f, due);
  report(f, &event);
  return agree_to_end(f);
}

/* A window that is to run again counts when it is over. */
static void count_window(fit *f, ac_fit_event *event) {
  const ac_update *update = &event->update;
  bool overflow = !update->finite_loss || !update->finite_gradient;
  bool lower =
      AC_WATCHED(&f->trainer->run, scaler)->desc.kind == AC_LOSS_SCALING_DYNAMIC && !update->stuck;
  event->replayed = f->desc->replay && overflow && update->skipped && lower;
  event->step = f->result.steps + 1;
  f->result.skipped += overflow && update->skipped;
  f->result.updates += !update->skipped;
  f->result.spikes += update->spike.alarm;
  f->result.evaluated = false;
  f->result.seconds += event->seconds;
  f->again = event->replayed;
  if (event->replayed) {
    f->next = f->batch.window.begin;
    return;
  }
  f->result.steps++;
  f->result.samples += event->samples;
}

/* Goes back after a spike. The next windows are those after the spike: of its place in the data the
 * state says only how many updates it had. */
static ac_status go_back(fit *f, ac_fit_event *event) {
  ac_trainer *trainer = f->trainer;
  event->went_back = true;
  event->back_to = AC_WATCHED(&trainer->run, spikes)->good_step;
  event->update.layers = false;
  AC_TRY(ac_good_state_load(trainer, f->desc, f->result.steps));
  f->result.went_back++;
  f->result.updates = trainer->run.fit.updates;
  return AC_OK;
}

static bool is_whole(const fit *f) {
  if (is_out_of_patience(f)) return true;
  if (f->desc->steps) return f->result.steps >= f->desc->steps;
  return f->next.epoch >= f->desc->epochs;
}

/* Between windows, where one that is to run again is not over. */
static void pause_if_due(fit *f, double seconds) {
  const ac_fit_desc *desc = f->desc;
  if (f->again || is_whole(f)) return;
  f->result.paused = (desc->pause_step && f->result.steps >= desc->pause_step) ||
                     (desc->pause_samples && f->result.samples >= desc->pause_samples) ||
                     (desc->pause_seconds > 0 && seconds >= desc->pause_seconds);
}

static bool finished(const fit *f) {
  if (f->stop.stopped) return true;
  if (f->again) return false;
  return f->result.paused || is_whole(f);
}

/* Sets the batch size of the next window, which may begin in the next epoch. */
static void set_batch(fit *f) {
  const ac_place begin = ac_windows_lay(&f->windows, f->next).begin;
  f->trainer->run.batch = ac_windows_batch(&f->windows, begin);
}

/* The final evaluation. It replaces one that is due after the last window, if both use all samples.
 * If the last evaluation ended training, it is not repeated. */
static ac_status evaluate_finally(fit *f) {
  const int64_t limit = f->desc->eval_samples;
  const bool partial = limit > 0 && limit < ac_dataset_count(f->desc->validation);
  const bool due = f->trainer->run.fit.evaluation_due;
  if (f->result.evaluated && !partial) return AC_OK;
  return evaluate(f, 0, due && partial, due && !partial);
}

/* When a batch grows, windows are laid anew from the next one on: those that were read ahead are
 * read again. */
static ac_status grow(fit *f, ac_fit_event *event) {
  const ac_fit_desc *desc = f->desc;
  if (!desc->growth.from || event->update.skipped) return AC_OK;
  ac_trainer *trainer = f->trainer;
  event->grown = ac_growth_take(&trainer->run, &desc->growth, trainer->instance.plan->info.batch,
                                f->result.steps);
  if (!event->grown) return AC_OK;
  f->windows.stage_count = AC_WATCHED(&trainer->run, growth)->count;
  f->next = ac_windows_lay(&f->windows, f->next).begin;
  if (!f->loader || is_whole(f)) return AC_OK;
  return ac_loader_lay(f->loader, f->next, f->windows.stages, f->windows.stage_count,
                       desc->steps ? desc->steps - f->result.steps : 0);
}

/* Adds what a window has come to. */
static void count_in_epoch(fit *f, const ac_fit_event *event) {
  const ac_all_sums sums = ac_instance_all_sums(&f->trainer->instance);
  f->epoch.seconds += event->seconds;
  if (event->replayed || !event->update.finite_loss) return;
  f->epoch.samples += event->samples;
  for (int k = 0; k < AC_MAX_SUMS; k++) {
    f->epoch.sums.of[k].loss += sums.of[k].loss;
    f->epoch.sums.of[k].weight += sums.of[k].weight;
    f->epoch.sums.of[k].correct += sums.of[k].correct;
  }
}

static void report_epoch(fit *f, int64_t epoch) {
  const ac_instance *instance = &f->trainer->instance;
  ac_fit_event event = {.kind = AC_FIT_EPOCH,
                        .step = f->result.steps,
                        .epoch = epoch,
                        .samples = f->epoch.samples,
                        .seconds = f->epoch.seconds,
                        .evaluation =
                            ac_instance_means(instance, &f->epoch.sums, f->epoch.samples)};
  memset(&f->epoch, 0, sizeof f->epoch);
  if (f->desc->epochs_end && !f->stop.stopped) report(f, &event);
}

/* After the last window no evaluation follows but the final one. A fit that goes on from there with
 * more windows begins with the one that was due. */
static ac_status end_window(fit *f) {
  ac_fit_event event = {.kind = AC_FIT_STEP, .samples = f->batch.window.count};
  AC_TRY(ac_trainer_update(f->trainer, &event.update));
  event.seconds = ac_clock() - f->resumed;
  event.data_wait_seconds = f->waited;
  f->result.data_wait_seconds += f->waited;
  f->waited = 0;
  count_window(f, &event);
  count_in_epoch(f, &event);
  const bool wanted = ac_good_state_is_wanted(f->trainer, &event.update),
             spent = wanted && ac_good_state_is_spent(f->trainer);
  if (wanted && !spent) AC_TRY(go_back(f, &event));
  AC_TRY(grow(f, &event));
  set_batch(f);
  const int64_t every = f->desc->eval_every;
  const bool due = every && f->desc->validation && !event.replayed && f->result.steps % every == 0;
  keep_position(f, due);
  AC_TRY(ac_good_state_keep(f->trainer, f->desc, f->result.steps, &event.good_state_failed));
  event.epoch_ended = !f->again && f->next.epoch > f->batch.window.begin.epoch;
  report(f, &event);
  if (event.epoch_ended && f->desc->epochs_end)
    AC_TRY(agree_to_end(f)); /* all report it, or none */
  if (event.epoch_ended) report_epoch(f, f->next.epoch - 1);
  if (event.update.stuck) return explain(f, &event.update);
  if (spent) return ac_good_state_give_up(f->trainer, f->result.steps, &event.update);
  pause_if_due(f, ac_clock() - f->began);
  AC_TRY(agree_to_end(f));
  return due && !finished(f) ? evaluate(f, f->desc->eval_samples, false, true) : AC_OK;
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Within a window, which must stay as it is meanwhile. Ranks are asked between windows alone. */
static bool is_stopped(fit *f) {
  if (!ac_exchange_is_alone(&f->trainer->exchange)) return false;
  const bool outer = f->trainer->busy.asking;
  f->trainer->busy.asking = true;
  const bool stopped = ac_stop_asked(&f->stop);
  f->trainer->busy.asking = outer;
  return stopped;
}

/* Reads the first piece, and counts what the window's losses weigh if that has to be known. A rank
 * may have no sample of it. */
static ac_status count_window_ahead(fit *f, piece *p) {
  ac_trainer *trainer = f->trainer;
  const int64_t share = f->batch.window.share;
  if (!ac_trainer_knows_weights(trainer) || is_stopped(f)) return AC_OK;
  if (share > 0) AC_TRY(next_piece(f, 0, p));
  const bool whole = f->loader || !ac_instance_weighs_inputs(&trainer->instance);
  AC_TRY(ac_trainer_count_window(trainer, p->data, p->first, whole ? share : p->count));
  return ac_exchange_counts(trainer);
}

static ac_status run_window(fit *f) {
  AC_TRY(take_window(f));
  piece p = {.count = 0};
  const int64_t begin = f->done;
  f->done = 0;
  ac_exchange_lay(&f->trainer->exchange, f->batch.window.first);
  if (begin == 0) AC_TRY(count_window_ahead(f, &p));
  for (int64_t done = begin; done < f->batch.window.share; done += p.count) {
    if (is_stopped(f)) return AC_OK;
    if (done > 0 || !p.count) AC_TRY(next_piece(f, done, &p));
    const bool last = done + p.count == f->batch.window.share;
    AC_TRY(ac_trainer_accumulate_data(f->trainer, p.data, p.first, p.count, last));
  }
  f->next = f->batch.window.next;
  return end_window(f);
}

/* A window that was stopped in its middle is thrown away, unless it can be gone on with; what was
 * folded can only be gone on with. */
static void leave_window(fit *f) {
  const ac_plan *plan = f->trainer->instance.plan;
  const bool keeps =
      (f->desc->keep_window || !plan->way->can_discard) && !ac_plan_takes_whole_windows(plan);
  if (!keeps || !f->stop.stopped) ac_trainer_leave_window(f->trainer);
}

/* The last update is followed by no window that would show what it has made of the parameters. */
static ac_status check_parameters(const fit *f, int64_t updates) {
  char who[64];
  if (f->result.updates == updates) return AC_OK;
  snprintf(who, sizeof who, "step %lld: the update overflowed", (long long)f->result.steps);
  return ac_instance_check_finite(&f->trainer->instance, who);
}

static ac_status run(fit *f) {
  const int64_t updates = f->result.updates;
  f->began = f->resumed = ac_clock();
  bool failed = false;
  AC_TRY(ac_good_state_keep(f->trainer, f->desc, f->result.steps, &failed));
  pause_if_due(f, 0);
  AC_TRY(agree_to_end(f));
  if (f->trainer->run.fit.evaluation_due && f->desc->validation && !finished(f))
    AC_TRY(evaluate(f, f->desc->eval_samples, false, true));
  while (!finished(f)) AC_TRY(run_window(f));
  leave_window(f);
  AC_TRY(check_parameters(f, updates));
  f->result.epochs = f->next.epoch;
  f->result.ended_early = is_out_of_patience(f) && !f->stop.stopped;
  if (!f->desc->validation || f->desc->no_final_evaluation || f->stop.stopped) return AC_OK;
  ac_fit_event trained = {.kind = AC_FIT_TRAINED, .step = f->result.steps};
  report(f, &trained);
  AC_TRY(agree_to_end(f));
  return f->stop.stopped ? AC_OK : evaluate_finally(f);
}

/* What a window in progress has of its samples. */
static ac_status check_window(const fit *f) {
  const int64_t count = ac_windows_lay(&f->windows, f->next).count,
                batch = ac_windows_batch(&f->windows, f->next);
  if (f->done && f->trainer->run.batch != batch)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "fit: the window in progress has a batch of %lld, but a batch of %lld begins "
                   "here; give the batches that the run had",
                   (long long)f->trainer->run.batch, (long long)batch);
  if (f->done <= count) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "fit: the window in progress has %lld samples, but with these ends of epochs and "
                 "of the run it would have %lld",
                 (long long)f->done, (long long)count);
}

static ac_status open_loader(fit *f) {
  ac_loader_desc loader = ac_fit_loader(f->trainer, f->desc, &f->gather);
  f->windows = ac_loader_windows(f->desc->train, &loader);
  AC_TRY(check_window(f));
  set_batch(f);
  if (!f->trainer->instance.plan->info.read_ahead || finished(f)) return AC_OK;
  if (f->desc->steps) loader.batches = f->desc->steps - f->result.steps;
  AC_TRY(ac_loader_create(&f->loader, f->desc->train, &loader));
  return f->next.epoch || f->next.position ? ac_loader_seek(f->loader, f->next) : AC_OK;
}

/* A run that continues keeps its fingerprint, unless another is given. */
static void keep_fingerprint(ac_trainer *trainer, const ac_fit_desc *desc, bool goes_on) {
  if (!goes_on) trainer->run.fingerprint[0] = 0;
  if (desc->fingerprint && *desc->fingerprint) strcpy(trainer->run.fingerprint, desc->fingerprint);
}

/* Finds where the run begins or continues. */
static ac_status find_begin(fit *f) {
  ac_trainer *trainer = f->trainer;
  const ac_fit_position *at = &trainer->run.fit;
  const ac_watch_setup setup = ac_trainer_setup(trainer);
  if (!f->desc->resume || !at->begun) {
    keep_fingerprint(trainer, f->desc, false);
    keep_position(f, false);
    return ac_watchers_begin_fit(&trainer->run, &setup, f->desc, false);
  }
  AC_TRY(ac_fit_check_position(trainer, f->desc));
  keep_fingerprint(trainer, f->desc, true);
  f->next = at->next;
  f->next.windows = at->steps;
  f->next.samples = at->samples;
  f->done = trainer->run.samples;
  const ac_spikes *spikes = AC_WATCHED(&trainer->run, spikes);
  f->result = (ac_fit_result){.steps = at->steps,
                              .updates = at->updates,
                              .skipped = at->skipped,
                              .samples = at->samples,
                              .spikes = spikes->alarms,
                              .went_back = spikes->went_back};
  AC_TRY(ac_watchers_begin_fit(&trainer->run, &setup, f->desc, true));
  return ac_good_state_find(trainer, f->desc);
}

/* A callback may call a fit of its own in between, or a range test: each asks for itself, and has a
 * patience of its own. */
static ac_status run_deciding(fit *f) {
  ac_trainer *trainer = f->trainer;
  const ac_decide outer = trainer->busy.fit_decide;
  void *outer_user = trainer->busy.fit_user;
  trainer->busy.fit_decide = f->desc->decisions ? report_decision : NULL;
  trainer->busy.fit_user = f;
  const ac_status status = run(f);
  trainer->busy.fit_decide = outer;
  trainer->busy.fit_user = outer_user;
  return status;
}

ac_status ac_fit(ac_trainer *trainer, const ac_fit_desc *desc, ac_fit_result *result) {
  static const ac_fit_desc nothing = {0};
  AC_REQUIRE(trainer);
  AC_TRY(ac_trainer_check_deciding(trainer));
  AC_TRY(ac_trainer_check_asking(trainer));
  if (!desc) desc = &nothing;
  AC_TRY(ac_fit_check(trainer, desc));
  ac_patience *patience = AC_WATCHED(&trainer->run, patience);
  const ac_patience outer = *patience;
  trainer->busy.fits++;
  trainer->exchange.told = false;
  fit f = {.trainer = trainer, .desc = desc, .stop = {.ask = desc->stop, .user = desc->user}};
  ac_status status = ac_gather_open(&f.gather, &trainer->instance, desc->train);
  /* Opened here for what it allocates, which stays: later evaluations allocate nothing. */
  ac_gathering validation;
  if (status == AC_OK && desc->validation)
    status = ac_gather_open(&validation, &trainer->instance, desc->validation);
  if (status == AC_OK) status = find_begin(&f);
  if (status == AC_OK) status = open_loader(&f);
  const bool ready = status == AC_OK;
  if (ready) status = run_deciding(&f);
  ac_exchange_fail(trainer, status);
  ac_loader_free(f.loader);
  if (ready && status != AC_OK) ac_trainer_leave_window(trainer);
  f.result.stopped = f.stop.stopped;
  if (--trainer->busy.fits) *patience = outer;
  if (result) *result = f.result;
  return status;
}
