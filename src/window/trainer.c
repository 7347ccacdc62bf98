/* A trainer's life, and the windows that it gathers: every micro-batch adds its gradient sums
 * (update.c ends a window). Where parameters are stepped in the window's only pass it is for the
 * update to run it (local.c), and samples alone are gathered here. */
#include "window/trainer.h"

#include "core/error.h"
#include "core/floats.h"
#include "core/share.h"
#include "data/dataset.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ------------------------------------------------------------------------------------ */

static ac_status check_desc(ac_trainer_desc *desc, const ac_optimizer_desc *planned) {
  AC_TRY(ac_optimizer_settle(&desc->optimizer, planned, &desc->schedule.lr));
  desc->average_decay = ac_or_default(desc->average_decay, 0.999);
  if (!(desc->average_decay < 1))
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: the decay %g of averages must be below 1",
                   desc->average_decay);
  return ac_schedule_check(&desc->schedule);
}

void ac_trainer_set_loss_scale(ac_trainer *trainer) {
  ac_instance *instance = &trainer->instance;
  bool one = trainer->division == AC_DIVIDE_ONE;
  int64_t per_sample = one ? instance->losses[0].rows.per_sample : 1;
  double rows = (double)(trainer->run.batch * per_sample);
  float scale = ac_scaler_factor(AC_WATCHED(&trainer->run, scaler), rows);
  for (int k = 0; k < instance->plan->graph->loss_count; k++)
    trainer->window.loss_scales[k] = ac_to_float((double)scale * trainer->window.shares[k]);
  for (int i = 0; i < instance->plan->graph->parameter_count; i++)
    instance->updates[i].statistics.scale = instance->plan->way->folds ? 1 : 1 / scale;
  instance->run.loss_scale = scale;
  instance->run.loss_scales = trainer->window.loss_scales;
}

/* For a window of these weights (NULL: of plain rows). */
static void set_shares(ac_trainer *trainer, int64_t samples, const double *weights) {
  ac_instance_loss_shares(&trainer->instance, samples, weights, trainer->window.shares);
  ac_trainer_set_loss_scale(trainer);
}

ac_watch_setup ac_trainer_setup(const ac_trainer *trainer) {
  return (ac_watch_setup){
      .plan = trainer->window.view.plan, .desc = &trainer->desc, .run = &trainer->run};
}

static ac_status begin_run(ac_trainer *trainer, const ac_plan *plan) {
  ac_run *run = &trainer->run;
  run->plan = (ac_run_plan){.version = AC_STATE_VERSION,
                            .optimizer = plan->problem.desc.optimizer.kind,
                            .precision = plan->info.precision,
                            .loss_means = plan->problem.desc.loss_means,
                            .batch = plan->info.batch,
                            .micro_batch = plan->info.micro_batch};
  run->seed = trainer->desc.seed;
  run->batch = plan->info.batch;
  trainer->window.view = (ac_window_view){.source = trainer, .plan = plan, .run = run};
  const ac_watch_setup setup = ac_trainer_setup(trainer);
  return ac_watchers_begin(run, &setup);
}

static ac_status set_up(ac_trainer *trainer, const ac_plan *plan) {
  const ac_trainer *share = trainer->desc.share;
  AC_TRY(ac_instance_create(&trainer->instance, plan, share ? &share->instance : NULL));
  trainer->instance.run.seed = trainer->run.seed;
  trainer->division = ac_instance_division(&trainer->instance);
  set_shares(trainer, 1, NULL);
  size_t parameters = (size_t)plan->graph->parameter_count + 1;
  trainer->scratch.stepped = calloc(parameters, sizeof *trainer->scratch.stepped);
  trainer->scratch.decided = calloc(parameters, sizeof *trainer->scratch.decided);
  if (!trainer->scratch.stepped || !trainer->scratch.decided)
    return ac_fail(AC_ERROR_MEMORY, "no memory for a list of parameters");
  AC_TRY(ac_callback_begin(trainer));
  AC_TRY(ac_instance_initialise(&trainer->instance, trainer->desc.seed));
  return ac_exchange_begin(trainer);
}

ac_status ac_trainer_check_decidable(const ac_plan *plan, const char *who) {
  if (plan->way->can_decide) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "%s: decisions are not available with %s, which steps each parameter as soon as "
                 "its gradient is known",
                 who, plan->way->constant);
}

ac_status ac_trainer_create(ac_trainer **trainer, const ac_plan *plan,
                            const ac_trainer_desc *desc) {
  AC_CREATES(trainer);
  AC_REQUIRE(plan);
  if (plan->problem.desc.purpose != AC_TRAIN)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: the plan was not made for training");
  if (desc && desc->decide) AC_TRY(ac_trainer_check_decidable(plan, "trainer"));
  ac_trainer *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "no memory for a trainer");
  made->desc = AC_DESCRIBED(ac_trainer_desc, desc);
  made->window.nonfinite = -1;
  ac_status status = check_desc(&made->desc, &plan->problem.desc.optimizer);
  if (status == AC_OK) status = ac_callback_check_desc(&made->desc);
  if (status == AC_OK) status = ac_groups_begin(&made->run.groups, plan->graph, &made->desc);
  if (status == AC_OK) status = begin_run(made, plan);
  if (status == AC_OK) status = ac_folded_check_desc(made, plan);
  if (status == AC_OK) {
    const ac_wait wait = ac_instance_announce(plan);
    status = ac_wait_end(&wait, set_up(made, plan));
  }
  if (status != AC_OK) {
    ac_trainer_free(made);
    return status;
  }
  *trainer = made;
  return AC_OK;
}

void ac_trainer_free(ac_trainer *trainer) {
  if (!trainer) return;
  ac_exchange_release(trainer);
  ac_instance_free(&trainer->instance);
  ac_groups_release(&trainer->run.groups);
  ac_watchers_release(&trainer->run);
  free(trainer->scratch.stepped);
  free(trainer->scratch.decided);
  free(trainer->scratch.views);
  free(trainer);
}

/* ---- accumulate ------------------------------------------------------------------------------ */

/* Refuses calls from a function that the trainer calls during an update or while it reads. */
static ac_status check_at_work(const ac_trainer *trainer) {
  AC_TRY(ac_instance_check_reading(&trainer->instance, "trainer"));
  if (trainer->instance.hands_out)
    return ac_fail(AC_ERROR_STATE,
                   "trainer: a window is being computed and hands out a tensor that is watched");
  if (trainer->busy.handing_over)
    return ac_fail(AC_ERROR_STATE, "trainer: its optimizer is at work in an update");
  if (!trainer->busy.deciding) return AC_OK;
  return ac_fail(AC_ERROR_STATE, "trainer: the update of this window is being decided");
}

ac_status ac_trainer_check_deciding(const ac_trainer *trainer) {
  AC_TRY(check_at_work(trainer));
  if (!trainer->busy.evaluating) return AC_OK;
  return ac_fail(AC_ERROR_STATE,
                 "trainer: an evaluation is in progress; change the trainer once it has returned");
}

ac_status ac_trainer_check_asking(const ac_trainer *trainer) {
  if (!trainer->busy.asking) return AC_OK;
  return ac_fail(AC_ERROR_STATE,
                 "trainer: a fit is within a window and asks whether to stop; change the trainer "
                 "in the fit's callback or once it has returned");
}

ac_status ac_trainer_check_whole(const ac_trainer *trainer) {
  AC_TRY(check_at_work(trainer));
  AC_TRY(ac_instance_check_usable(&trainer->instance, "trainer"));
  AC_TRY(ac_trainer_check_averaged(trainer));
  if (!trainer->window.broken) return AC_OK;
  return ac_fail(AC_ERROR_STATE, "trainer: the window failed half way; discard it first");
}

ac_status ac_trainer_check_usable(const ac_trainer *trainer) {
  AC_TRY(ac_trainer_check_deciding(trainer));
  AC_TRY(ac_trainer_check_asking(trainer));
  return ac_trainer_check_whole(trainer);
}

void ac_trainer_set_window_scale(ac_trainer *trainer) {
  set_shares(trainer, trainer->run.whole_samples,
             trainer->division == AC_DIVIDE_WEIGHTS ? trainer->run.whole_weight : NULL);
}

void ac_trainer_begin(ac_trainer *trainer) {
  memset(trainer->run.fed_weight, 0, sizeof trainer->run.fed_weight);
  ac_trainer_set_window_scale(trainer);
}

bool ac_trainer_knows_weights(const ac_trainer *trainer) {
  return trainer->division == AC_DIVIDE_WEIGHTS || trainer->instance.plan->way->needs_weights;
}

/* Several losses of unequal weight come in a window that is known whole, and so does what folds. */
static ac_status check_known(const ac_trainer *trainer, int64_t count) {
  if (!ac_trainer_knows_weights(trainer)) return AC_OK;
  if (trainer->run.whole_samples && trainer->run.samples + count <= trainer->run.whole_samples)
    return ac_folded_check_window(trainer);
  if (trainer->instance.plan->problem.desc.loss_means == AC_LOSS_MEANS_GIVEN)
    return ac_fail(AC_ERROR_STATE,
                   "trainer: give the weights of the losses for this window of %lld samples first "
                   "(ac_trainer_begin_window)",
                   (long long)(trainer->run.samples + count));
  return ac_fail(AC_ERROR_STATE,
                 "trainer: what the losses weigh was counted for a window of %lld samples; give "
                 "windows in one call, or their weights (ac_trainer_begin_window)%s",
                 (long long)trainer->run.whole_samples,
                 trainer->division == AC_DIVIDE_WEIGHTS ? ", or plan for means per sample" : "");
}

ac_status ac_trainer_count_window(ac_trainer *trainer, const void *const *data, int64_t first,
                                  int64_t count) {
  if (!ac_trainer_knows_weights(trainer) || trainer->run.samples > 0) return AC_OK;
  if (trainer->instance.plan->problem.desc.loss_means == AC_LOSS_MEANS_GIVEN) return AC_OK;
  double weights[AC_MAX_LOSSES] = {0};
  ac_instance_add_fed_weights(&trainer->instance, data, first, count, weights);
  memcpy(trainer->run.whole_weight, weights, sizeof weights);
  trainer->run.whole_samples = count;
  return AC_OK;
}

ac_status ac_trainer_begin_window(ac_trainer *trainer, int64_t samples, const double *weights,
                                  int weight_count) {
  AC_REQUIRE(trainer, weights);
  const ac_plan *plan = trainer->instance.plan;
  AC_TRY(ac_trainer_check_usable(trainer));
  if (trainer->run.samples > 0) return ac_fail(AC_ERROR_STATE, "trainer: a window is in progress");
  if (!ac_trainer_knows_weights(trainer) || plan->problem.desc.loss_means != AC_LOSS_MEANS_GIVEN)
    return ac_fail(AC_ERROR_STATE, "trainer: the plan was not made for weights that are given");
  if (samples > AC_MOST_COUNT)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: a window of %lld samples is too large for a state file",
                   (long long)samples);
  if (samples < 1 || weight_count != plan->graph->loss_count)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: %d weights of %lld samples, but %d losses",
                   weight_count, (long long)samples, plan->graph->loss_count);
  for (int k = 0; k < weight_count; k++)
    if (!(weights[k] >= 0) || isinf(weights[k]))
      return ac_fail(AC_ERROR_ARGUMENT, "trainer: loss %s cannot weigh %g",
                     plan->graph->losses[k].name, weights[k]);
  memcpy(trainer->run.whole_weight, weights, (size_t)weight_count * sizeof *weights);
  trainer->run.whole_samples = samples;
  return AC_OK;
}

void ac_trainer_show_first(ac_trainer *trainer) {
  ac_window_view *view = &trainer->window.view;
  trainer->window.reduced_weight = 0; /* what the last window left goes */
  view->weight = ac_instance_total_loss(&trainer->instance, trainer->run.samples).weight;
  const ac_gradient_report report = ac_trainer_read_statistics(trainer);
  if (!report.finite || !(view->weight > 0)) return;
  view->norm = report.norm / view->weight;
  ac_watchers_first(&trainer->run, view);
}

/* Measures what a window's first micro-batch has come to, where a watcher asks for it. If it is
 * known to be the only one of a rank, the exchange does. */
static ac_status measure_first(ac_trainer *trainer) {
  ac_exchange *e = &trainer->exchange;
  ac_watchers_leave(&trainer->run);
  if (e->measures && ac_sharded_is_on(&e->sharded)) {
    e->measures = false;
    return ac_exchange_show_first(trainer);
  }
  if (e->measures || !ac_watchers_want_first(&trainer->window.view)) return AC_OK;
  e->measures = trainer->instance.plan->main.whole_window;
  if (e->measures) return AC_OK;
  AC_TRY(ac_instance_run_phase(&trainer->instance, AC_PHASE_REDUCE));
  AC_TRY(ac_instance_fetch_control(&trainer->instance));
  ac_trainer_show_first(trainer);
  return AC_OK;
}

/* Which sample of the window is the first one of this rank. */
static int64_t first_sample(const ac_trainer *trainer) {
  const ac_exchange *e = &trainer->exchange;
  return e->laid ? e->first : ac_share_begin(trainer->run.batch, e->rank, e->ranks);
}

/* With the exchange between ranks where it is the last one. */
static ac_status run_piece(ac_trainer *trainer, bool last) {
  ac_instance *instance = &trainer->instance;
  const bool fresh = trainer->run.samples == 0;
  if (ac_sharded_is_on(&trainer->exchange.sharded)) return ac_sharded_run(trainer, fresh);
  if (last) ac_exchange_begin_last(trainer, fresh && ac_watchers_want_first(&trainer->window.view));
  ac_status status = ac_instance_run(instance, &instance->main, fresh);
  if (status == AC_OK) status = ac_exchange_settle(trainer);
  if (status != AC_OK) ac_exchange_leave_last(trainer);
  return status;
}

static ac_status accumulate_piece(ac_trainer *trainer, const void *const *data, int64_t first,
                                  int64_t count, bool last) {
  ac_instance *instance = &trainer->instance;
  instance->run.batch = count;
  instance->run.sample = (uint32_t)(first_sample(trainer) + trainer->run.samples);
  instance->run.update = (uint32_t)trainer->run.updates;
  if (trainer->run.samples == 0) ac_trainer_begin(trainer);
  if (instance->plan->way->folds) ac_folded_set(trainer);
  ac_instance_add_fed_weights(instance, data, first, count, trainer->run.fed_weight);
  ac_status status = ac_instance_upload(instance, data, first, count);
  if (status == AC_OK && !instance->plan->way->steps_alone) status = run_piece(trainer, last);
  if (status == AC_OK) trainer->run.samples += count;
  if (status == AC_OK && trainer->run.samples == count) status = measure_first(trainer);
  trainer->window.broken = status != AC_OK;
  return status;
}

/* A plan that keeps batches or windows whole takes a window in one piece. */
static ac_status check_pieces(const ac_trainer *trainer, int64_t count) {
  const ac_plan *plan = trainer->instance.plan;
  if (trainer->exchange.summed)
    return ac_fail(AC_ERROR_STATE, "trainer: the window in progress was summed over ranks already; "
                                   "update or discard it first");
  int node = plan->problem.coupled;
  bool whole = trainer->run.samples == 0 && count <= ac_plan_piece(plan);
  if (whole) return AC_OK;
  if (plan->problem.in_sections)
    return ac_fail(AC_ERROR_STATE,
                   "trainer: with exact batch norm a window of at most %lld samples comes in one "
                   "piece",
                   (long long)ac_plan_piece(plan));
  if (plan->main.whole_window)
    return ac_fail(AC_ERROR_STATE,
                   "trainer: the plan was made for whole windows of at most %lld samples, each in "
                   "one piece",
                   (long long)plan->info.micro_batch);
  if (node < 0) return AC_OK;
  char text[128];
  return ac_fail(AC_ERROR_STATE,
                 "trainer: %s takes a window of at most %lld samples in one piece, because the "
                 "plan was made to keep batches whole",
                 ac_node_text(text, sizeof text, plan->graph, ac_node_at(plan->graph, node)),
                 (long long)plan->info.micro_batch);
}

ac_status ac_trainer_accumulate(ac_trainer *trainer, int64_t count, const ac_feed *feeds,
                                int feed_count) {
  AC_REQUIRE(trainer);
  if (feed_count > 0) AC_REQUIRE(feeds);
  const void *data[AC_MAX_GRAPH_INPUTS];
  AC_TRY(ac_trainer_check_usable(trainer));
  if (count > AC_MOST_COUNT - trainer->run.samples)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: %lld samples are more than a window counts",
                   (long long)count);
  AC_TRY(ac_instance_match_feeds(&trainer->instance, NULL, count, feeds, feed_count, data));
  AC_TRY(check_pieces(trainer, count));
  if (ac_trainer_knows_weights(trainer) && !ac_exchange_is_alone(&trainer->exchange))
    return ac_fail(AC_ERROR_STATE, "trainer: what the losses of all ranks weigh is counted by "
                                   "ac_fit alone; use it, or plan for means per sample "
                                   "(AC_LOSS_MEANS_PER_SAMPLE)");
  AC_TRY(ac_trainer_count_window(trainer, data, 0, count));
  AC_TRY(check_known(trainer, count));
  const int64_t micro_batch = ac_plan_piece(trainer->instance.plan);
  for (int64_t first = 0; first < count; first += micro_batch) {
    int64_t piece = count - first < micro_batch ? count - first : micro_batch;
    AC_TRY(accumulate_piece(trainer, data, first, piece, false));
  }
  return AC_OK;
}

ac_status ac_trainer_accumulate_data(ac_trainer *trainer, const void *const *data, int64_t first,
                                     int64_t count, bool last) {
  AC_TRY(ac_trainer_check_usable(trainer));
  AC_TRY(ac_instance_check(&trainer->instance, data, first, count));
  AC_TRY(check_pieces(trainer, count));
  AC_TRY(check_known(trainer, count));
  return accumulate_piece(trainer, data, first, count, last);
}

ac_status ac_trainer_check_arena(const ac_trainer *trainer) {
  AC_TRY(check_at_work(trainer));
  if (!trainer->instance.plan->main.whole_window || trainer->run.samples == 0) return AC_OK;
  return ac_fail(AC_ERROR_STATE,
                 "trainer: this would overwrite the window's %s, because the plan was made for "
                 "whole windows; update or discard it first",
                 trainer->instance.plan->way->keeps ? "gradients" : "samples");
}

ac_status ac_trainer_check_writable(const ac_trainer *trainer) {
  const char *holds = trainer->instance.plan->way->holds_parameters;
  AC_TRY(ac_trainer_check_deciding(trainer));
  AC_TRY(ac_trainer_check_averaged(trainer));
  if (trainer->run.samples == 0 || !holds) return AC_OK;
  return ac_fail(AC_ERROR_STATE, "trainer: %s", holds);
}

ac_status ac_trainer_set_batch(ac_trainer *trainer, int64_t batch) {
  AC_REQUIRE(trainer);
  const int64_t most = trainer->instance.plan->info.batch;
  AC_TRY(ac_trainer_check_deciding(trainer));
  AC_TRY(ac_trainer_check_asking(trainer));
  if (trainer->run.samples > 0)
    return ac_fail(AC_ERROR_STATE,
                   "trainer: the batch cannot change while a window is in progress");
  if (batch < 1 || batch > most)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: the batch is %lld, but the plan is for 1 to %lld",
                   (long long)batch, (long long)most);
  trainer->run.batch = batch;
  return AC_OK;
}

ac_status ac_trainer_begin_share(ac_trainer *trainer, int64_t first) {
  AC_REQUIRE(trainer);
  AC_TRY(ac_trainer_check_usable(trainer));
  if (trainer->run.samples > 0) return ac_fail(AC_ERROR_STATE, "trainer: a window is in progress");
  if (first < 0 || first > UINT32_MAX)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: a window has no sample %lld", (long long)first);
  ac_exchange_lay(&trainer->exchange, first);
  return AC_OK;
}

int64_t ac_trainer_batch(const ac_trainer *trainer) {
  return trainer ? trainer->run.batch : 0;
}

static bool is_at_work(const ac_trainer *trainer) {
  return trainer->instance.hands_out || trainer->busy.deciding || trainer->busy.handing_over ||
         trainer->busy.evaluating || trainer->busy.asking ||
         ac_dataset_is_read_for(&trainer->instance);
}

void ac_trainer_leave_window(ac_trainer *trainer) {
  if (is_at_work(trainer)) return;
  ac_folded_leave(trainer);
  ac_run_leave_window(&trainer->run);
  ac_watchers_leave(&trainer->run);
  ac_exchange_leave(&trainer->exchange);
  trainer->window.broken = false;
}

/* Others may have more micro-batches, and this rank takes part in their exchanges. */
void ac_trainer_discard(ac_trainer *trainer) {
  if (!trainer || is_at_work(trainer)) return;
  const ac_status status = ac_sharded_discard(trainer);
  ac_trainer_leave_window(trainer);
  trainer->window.broken = status != AC_OK;
}
