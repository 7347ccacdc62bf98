/* The end of a window. One pass over the gradients computes their norm and whether all is finite.
 * Another pass does so for what batch norms have pooled, because a variance may be too large for a
 * float when gradients are not. One small read-back brings that and the loss sums to the host, and
 * only then are parameters and moments changed. With S the factor of the loss gradient and W the
 * window's weight, the device holds S * (sum of gradients); the factor clip / (S W) is part of
 * the optimizer's kernel. S is the loss scale divided by the largest weight of a whole window,
 * rounded to a power of two; it changes between windows only. With several losses W is the number
 * of samples, S depends on that number, and each loss has a share of S (run/losses.c).
 *
 * If gradients are folded (folded.c), the state that they became part of is measured. A window that
 * is not finite cannot be skipped then, but a window without weight is.
 *
 * If they are fused, gradients were measured in the window's only micro-batch, and parameters are
 * stepped in a second pass over it (plan/passes.c); the decision and its time are the same. If they
 * are fused locally, there is one pass, which runs here and steps each parameter by itself
 * (local.c). */
#include "window/trainer.h"

#include "core/error.h"
#include "core/floats.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Before anything is changed: an update steps every trained parameter once, and no other. */
static ac_status check_update(ac_trainer *trainer) {
  ac_status status = ac_plan_check_update(trainer->instance.plan, trainer->scratch.stepped);
  return status == AC_OK ? AC_OK : ac_fail_prefix(status, "trainer: nothing was changed");
}

/* The phase `reduce`, and what it brings to the host. */
static ac_status measure_all(ac_trainer *trainer) {
  trainer->window.reduced_weight = 0;
  AC_TRY(ac_instance_run_phase(&trainer->instance, AC_PHASE_REDUCE));
  return ac_instance_fetch_control(&trainer->instance);
}

static ac_status measure_anew(ac_trainer *trainer) {
  if (ac_exchange_is_alone(&trainer->exchange)) return measure_all(trainer);
  return ac_exchange_measures(trainer);
}

/* Several ranks have measured already, each its part (exchange_sums.c). */
static ac_status reduce(ac_trainer *trainer) {
  trainer->window.reduced_weight = 0;
  if (ac_exchange_is_alone(&trainer->exchange)) AC_TRY(measure_all(trainer));
  return ac_numerics_collect(&trainer->instance);
}

static float *statistics_of(const ac_trainer *trainer, const ac_cell *cell) {
  const ac_instance *instance = &trainer->instance;
  return instance->control_copy + (cell->address - instance->plan->control) / sizeof(float);
}

/* The host's copy is what ops/update/optimizer.h says. */
double ac_trainer_squares(const ac_trainer *trainer, const ac_cell *cell) {
  const float *copy = statistics_of(trainer, cell);
  if (copy[1] == AC_SQUARES_NOT_FINITE) return INFINITY;
  return ldexp((double)copy[0], 2 * (int)copy[1]);
}

void ac_trainer_set_squares(ac_trainer *trainer, const ac_cell *cell, double squares) {
  float *copy = statistics_of(trainer, cell);
  const int exponent = squares > AC_SQUARES_MOST                    ? AC_SQUARES_EXPONENT
                       : squares != 0 && squares < AC_SQUARES_LEAST ? -AC_SQUARES_EXPONENT
                                                                    : 0;
  copy[0] = isfinite(squares) ? (float)ldexp(squares, -2 * exponent) : 0;
  copy[1] = isfinite(squares) ? (float)exponent : AC_SQUARES_NOT_FINITE;
}

/* The square of a variance may be beyond floats. Of what was folded the first moment is measured
 * alone, and the second one has taken the square of a gradient 1 / (1 - beta1) times as large. */
ac_measure ac_trainer_measure(const ac_trainer *trainer, const ac_cell *cell) {
  const bool gradient = ac_trainer_trains(trainer, cell->owner);
  const double squares = ac_trainer_squares(trainer, cell),
               part = 1 - trainer->desc.optimizer.beta1,
               most = trainer->instance.plan->way->folds ? (double)FLT_MAX * part * part : INFINITY;
  const bool elements = isfinite(squares);
  return (ac_measure){elements ? squares : statistics_of(trainer, cell)[0],
                      elements && (!gradient || squares <= most)};
}

ac_gradient_report ac_trainer_read_statistics(ac_trainer *trainer) {
  const ac_plan *plan = trainer->instance.plan;
  const ac_groups *groups = &trainer->run.groups;
  ac_gradient_report report = {.finite = true};
  trainer->window.nonfinite = -1;
  for (int i = 0; i < plan->cell_count; i++) {
    const ac_cell *cell = &plan->cells[i];
    if (cell->role != AC_ROLE_STATISTICS) continue;
    const ac_measure measure = ac_trainer_measure(trainer, cell);
    if (ac_trainer_trains(trainer, cell->owner)) {
      report.norm += measure.squares;
      report.clipped[ac_groups_clipping(groups, cell->owner)] += measure.squares;
      if (groups->of[cell->owner] >= 0) report.groups[groups->of[cell->owner]] += measure.squares;
    }
    if (measure.finite) continue;
    report.finite = false;
    if (trainer->window.nonfinite < 0) trainer->window.nonfinite = cell->owner;
  }
  report.norm = sqrt(report.norm);
  for (int g = 0; g < AC_MAX_GROUPS; g++) report.groups[g] = sqrt(report.groups[g]);
  for (int g = 0; g <= AC_MAX_GROUPS; g++) report.clipped[g] = sqrt(report.clipped[g]);
  return report;
}

/* The phase `update`, or the pass that it is a part of, which sums up the same as the first. Of
 * several ranks each steps its part of the parameters, and gets the rest from the others. */
static ac_status run_update(ac_trainer *trainer) {
  ac_instance *instance = &trainer->instance;
  if (!ac_exchange_is_alone(&trainer->exchange)) {
    AC_TRY(ac_instance_run_steps_of_update(instance));
    return ac_exchange_weights(trainer);
  }
  if (instance->plan->way->passes > 1) return ac_instance_run(instance, &instance->stepping, true);
  return ac_instance_run_phase(instance, AC_PHASE_UPDATE);
}

/* What is left of a gradient that is clipped by its own norm. */
static double clip_each(const ac_trainer *trainer, int index) {
  if (trainer->instance.plan->problem.desc.optimizer.clipping != AC_CLIP_EACH) return 1;
  return ac_trainer_clip(ac_trainer_clip_of(trainer, index),
                         ac_trainer_gradient_norm(trainer, index));
}

/* `factors`: of those that are clipped by one norm. */
static ac_status step_parameters(ac_trainer *trainer, const double factors[AC_MAX_GROUPS + 1],
                                 double rate) {
  ac_instance *instance = &trainer->instance;
  instance->run.update = (uint32_t)trainer->run.updates; /* a state may have been loaded since */
  ac_trainer_set_averages(trainer);
  for (int i = 0; i < instance->plan->graph->parameter_count; i++)
    if (ac_trainer_trains(trainer, i))
      ac_trainer_set_step(
          trainer, i, factors[ac_groups_clipping(&trainer->run.groups, i)] * clip_each(trainer, i),
          rate);
  AC_TRY(run_update(trainer));
  AC_TRY(instance->device->backend->finish(instance->device->state));
  trainer->has_stepped = true;
  return AC_OK;
}

int ac_trainer_light_loss(const ac_trainer *trainer) {
  for (int k = 0; k < trainer->instance.plan->graph->loss_count; k++)
    if (!isfinite(trainer->window.loss_scales[k]) &&
        !isfinite(ac_to_float(trainer->window.shares[k])))
      return k;
  return -1;
}

bool ac_trainer_holds_squares(const ac_trainer *trainer, int index, double squares, double factor) {
  const ac_plan *plan = trainer->instance.plan;
  const bool limited = plan->problem.desc.optimizer.clipping >= AC_CLIP_VALUE &&
                       ac_trainer_clip_of(trainer, index) > 0;
  return limited || !plan->problem.parameters[index].optimizer->keeps_squares ||
         squares * factor * factor <= (double)FLT_MAX;
}

/* False if a step would make the state of a parameter infinite for good; marks the first such
 * parameter. */
static bool all_squares_held(ac_trainer *trainer, const double factors[AC_MAX_GROUPS + 1]) {
  const ac_plan *plan = trainer->instance.plan;
  for (int i = 0; i < plan->cell_count; i++) {
    const ac_cell *cell = &plan->cells[i];
    if (cell->role != AC_ROLE_STATISTICS || !ac_trainer_trains(trainer, cell->owner)) continue;
    const double factor = factors[ac_groups_clipping(&trainer->run.groups, cell->owner)] *
                          clip_each(trainer, cell->owner);
    if (ac_trainer_holds_squares(trainer, cell->owner, ac_trainer_measure(trainer, cell).squares,
                                 factor))
      continue;
    trainer->window.nonfinite = cell->owner;
    return false;
  }
  return true;
}

static ac_status refuse_factor(double factor) {
  return ac_fail(AC_ERROR_ARGUMENT,
                 "trainer: nothing was changed, because gradients would be multiplied by %g",
                 factor);
}

/* Gradients are written by all ranks, or by none; where each writes its own part, by some. */
static ac_status agree_on_writing(ac_trainer *trainer) {
  double written = trainer->window.rewritten;
  const int ranks = trainer->exchange.ranks;
  if (ac_exchange_is_alone(&trainer->exchange)) return AC_OK;
  AC_TRY(ac_exchange_sum(trainer, AC_MEET_DECISION, AC_OK, &written, 1));
  if (trainer->instance.plan->way->shards) {
    trainer->window.rewritten = written > 0;
    return AC_OK;
  }
  if (written == 0 || written == ranks) return AC_OK;
  return ac_fail(AC_ERROR_STATE,
                 "trainer: %g of %d ranks have written gradients; all must write the same, or none",
                 written, ranks);
}

/* Lets the caller decide. It may read everything and write gradients, but change nothing else. */
static ac_status ask_caller(ac_trainer *trainer, ac_decision *decision) {
  trainer->window.rewritten = false;
  trainer->busy.deciding = true;
  if (trainer->desc.decide) trainer->desc.decide(trainer->desc.user, trainer, decision);
  if (trainer->busy.fit_decide) trainer->busy.fit_decide(trainer->busy.fit_user, trainer, decision);
  trainer->busy.deciding = false;
  if (trainer->desc.decide || trainer->busy.fit_decide) {
    AC_TRY(ac_exchange_decision(trainer, decision));
    AC_TRY(agree_on_writing(trainer));
  }
  if (trainer->window.broken)
    return ac_fail(AC_ERROR_STATE, "trainer: a gradient was written in part only; nothing was "
                                   "changed but gradients");
  if (isfinite(decision->factor) && decision->factor >= 0) return AC_OK;
  return refuse_factor(decision->factor);
}

/* What was known before must have come true. */
static ac_status check_whole(const ac_trainer *trainer) {
  const ac_instance *instance = &trainer->instance;
  const ac_graph *graph = instance->plan->graph;
  const double tolerance = 1e-6;
  if (!ac_trainer_knows_weights(trainer) || instance->device->backend->computes_nothing)
    return AC_OK;
  if (trainer->run.samples != trainer->run.whole_samples)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: the window has %lld samples, but the weights of its losses were given "
                   "for %lld; nothing was changed",
                   (long long)trainer->run.samples, (long long)trainer->run.whole_samples);
  for (int k = 0; k < graph->loss_count; k++) {
    double weight = ac_instance_loss_sums(instance, k).weight, given = trainer->run.whole_weight[k];
    if (isfinite(weight) && fabs(weight - given) > tolerance * given)
      return ac_fail(
          AC_ERROR_ARGUMENT,
          "trainer: loss %s has the weight %.9g, but %.9g was given; nothing was changed",
          graph->losses[k].name, weight, given);
  }
  return AC_OK;
}

ac_status ac_trainer_check_losses(const ac_trainer *trainer) {
  AC_TRY(ac_instance_check_weights(&trainer->instance, trainer->run.fed_weight));
  return check_whole(trainer);
}

static ac_status reduce_and_check(ac_trainer *trainer) {
  ac_status status = reduce(trainer);
  if (status == AC_OK) status = check_update(trainer);
  if (status == AC_OK) status = ac_trainer_check_losses(trainer);
  trainer->window.broken = status != AC_OK; /* of a step of the window, perhaps, that fails late */
  return status;
}

/* A weight near zero would blow a factor up beyond floats, at whatever loss scale. */
ac_window_sum ac_trainer_window_sum(const ac_trainer *trainer) {
  const ac_instance *instance = &trainer->instance;
  ac_window_sum sum = {.total = ac_instance_total_loss(instance, trainer->run.samples),
                       .light = ac_trainer_light_loss(trainer) >= 0};
  sum.factor = 1 / ((double)instance->run.loss_scale * sum.total.weight);
  sum.divides = !sum.light && sum.total.weighs && isfinite(ac_to_float(sum.factor)) &&
                !ac_folded_is_left_out(trainer);
  return sum;
}

double ac_trainer_clip(double clip, double norm) {
  return clip > 0 && norm > clip ? clip / norm : 1;
}

static bool clips_together(const ac_trainer *trainer) {
  return trainer->instance.plan->problem.desc.optimizer.clipping == AC_CLIP_NORM;
}

/* A folded gradient is part of the state, so it has no norm of its own. */
static ac_decision propose(const ac_trainer *trainer, const ac_total_loss *total,
                           const ac_gradient_report *report) {
  double norm = total->weighs ? report->norm / total->weight : (double)NAN,
         others = total->weighs ? report->clipped[AC_MAX_GROUPS] / total->weight : (double)NAN;
  if (!trainer->instance.plan->way->has_norm) norm = others = (double)NAN;
  return (ac_decision){.loss = total->loss,
                       .weight = total->weight,
                       .grad_norm = report->finite ? norm : (double)INFINITY,
                       .finite = total->finite && report->finite,
                       .factor = clips_together(trainer)
                                     ? ac_trainer_clip(trainer->desc.optimizer.clip, others)
                                     : 1};
}

/* What gradients are multiplied by, for those that are clipped by one norm. */
static void set_factors(const ac_trainer *trainer, const ac_window_sum *sum,
                        const ac_gradient_report *report, const ac_decision *decision,
                        double factors[AC_MAX_GROUPS + 1]) {
  const double others = decision->factor != 1 ? sum->factor * decision->factor : sum->factor;
  for (int g = 0; g <= AC_MAX_GROUPS; g++) factors[g] = others;
  for (int g = 0; g < AC_MAX_GROUPS && clips_together(trainer); g++)
    factors[g] = sum->factor * ac_trainer_clip(trainer->run.groups.settings[g].clip,
                                               report->clipped[g] / sum->total.weight);
}

/* What watchers see of it. */
static void show(ac_trainer *trainer, const ac_window_sum *sum, const ac_gradient_report *report,
                 const ac_decision *decision) {
  ac_window_view *view = &trainer->window.view;
  view->loss = sum->total.loss;
  view->weight = sum->total.weight;
  view->norm = decision->grad_norm;
  view->finite_loss = sum->total.finite;
  view->finite_gradient = report->finite;
  view->weighs = sum->total.weighs;
  view->divides = sum->divides;
  view->light = sum->light;
}

/* What the window has come to, with all that was measured on the host. */
static ac_decision begin_report(ac_trainer *trainer, const ac_window_sum *sum,
                                ac_gradient_report *report, ac_update *update) {
  const ac_total_loss *total = &sum->total;
  *report = ac_trainer_read_statistics(trainer);
  ac_decision decision = propose(trainer, total, report);
  trainer->window.reduced_weight = total->weight;
  *update = (ac_update){.loss = total->loss,
                        .weight = total->weight,
                        .lr = trainer->window.view.rate,
                        .momentum = ac_trainer_momentum(trainer),
                        .grad_norm = decision.grad_norm,
                        .loss_scale = (double)AC_WATCHED(&trainer->run, scaler)->scale,
                        .finite_loss = total->finite,
                        .finite_gradient = report->finite,
                        .group_count = trainer->run.groups.count,
                        .loss_count = trainer->instance.plan->graph->loss_count,
                        .metric_count = trainer->instance.plan->graph->metric_count};
  ac_instance_metrics(&trainer->instance, update->metrics);
  memcpy(update->losses, total->losses, sizeof update->losses);
  show(trainer, sum, report, &decision);
  const ac_proposal proposal = ac_watchers_judge(&trainer->window.view);
  trainer->window.proposal = proposal;
  update->spike = proposal.spike;
  for (int g = 0; g < update->group_count; g++) {
    update->group_norms[g] = total->weighs ? report->groups[g] / total->weight : (double)NAN;
    if (!isfinite(decision.grad_norm)) update->group_norms[g] = decision.grad_norm;
  }
  decision.spike = proposal.spike.alarm;
  decision.skip = proposal.skip;
  if (proposal.factor != 1) decision.factor *= proposal.factor;
  return decision;
}

/* For somebody who reads gradients, which may be of any parameter. */
static ac_status gather_gradients(ac_trainer *trainer) {
  const ac_status status = ac_exchange_gather_gradients(trainer);
  trainer->window.broken = status != AC_OK;
  return status;
}

/* Gradients that the caller has written are measured anew, and what follows from them is proposed
 * anew where the caller has left what was. */
static ac_status decide(ac_trainer *trainer, const ac_window_sum *sum, ac_gradient_report *report,
                        ac_update *update, ac_decision *decision) {
  *decision = begin_report(trainer, sum, report, update);
  const ac_decision proposed = *decision;
  if (trainer->desc.decide || trainer->busy.fit_decide) AC_TRY(gather_gradients(trainer));
  AC_TRY(ask_caller(trainer, decision));
  if (!trainer->window.rewritten) return AC_OK;
  const ac_decision asked = *decision;
  const ac_status status = measure_anew(trainer);
  trainer->window.broken = status != AC_OK;
  AC_TRY(status);
  *decision = begin_report(trainer, sum, report, update);
  if (asked.skip != proposed.skip) decision->skip = asked.skip;
  if (asked.factor != proposed.factor) decision->factor = asked.factor;
  return AC_OK;
}

/* What the next window begins with. */
static void end_window(ac_trainer *trainer, ac_update *update) {
  ac_run *run = &trainer->run;
  ac_watchers_after(run, &trainer->window.view, update);
  if (!update->skipped) run->updates++;
  update->update = run->updates;
  ac_trainer_set_loss_scale(trainer);
  ac_run_leave_window(run);
  ac_watchers_leave(run);
  ac_exchange_leave(&trainer->exchange);
}

void ac_trainer_give_up(ac_trainer *trainer) {
  trainer->instance.unusable =
      "an update failed when only some parameters were stepped; load a state, or go on from "
      "saved parameters with another trainer";
}

static ac_status look_before(ac_trainer *trainer) {
  AC_TRY(gather_gradients(trainer));
  const ac_status status = ac_watchers_before_step(&trainer->run, &trainer->window.view);
  trainer->window.broken = status != AC_OK;
  return status;
}

/* Steps, and lets watchers look before and after, if that is due. Other ranks wait for the weights
 * of one that fails here. */
static ac_status step_and_look(ac_trainer *trainer, const double factors[AC_MAX_GROUPS + 1],
                               const ac_update *update) {
  const ac_window_view *view = &trainer->window.view;
  const bool look = ac_watchers_look(view);
  ac_status status = look ? look_before(trainer) : AC_OK;
  if (status != AC_OK) return ac_exchange_end_transfers(&trainer->exchange, status);
  status = step_parameters(trainer, factors, update->lr);
  if (status == AC_OK && look) status = ac_watchers_after_step(&trainer->run, view);
  if (status != AC_OK) ac_trainer_give_up(trainer);
  return ac_exchange_end_transfers(&trainer->exchange, status);
}

static void report_not_finite(ac_update *update) {
  update->finite_gradient = false;
  update->grad_norm = (double)INFINITY;
  for (int g = 0; g < update->group_count; g++) update->group_norms[g] = (double)INFINITY;
}

/* All parameters are stepped, or none. */
static ac_status update_whole(ac_trainer *trainer, ac_update *update) {
  AC_TRY(reduce_and_check(trainer));
  trainer->window.optimizer = ac_trainer_optimizer(trainer);
  const ac_window_sum sum = ac_trainer_window_sum(trainer);
  ac_gradient_report report;
  ac_decision decision;
  AC_TRY(decide(trainer, &sum, &report, update, &decision));
  const bool can_skip = trainer->instance.plan->way->can_skip;
  bool possible = update->finite_loss && update->finite_gradient && sum.divides;
  if (!possible && !can_skip && !ac_folded_is_left_out(trainer))
    return ac_folded_fail(trainer, update->finite_loss && update->finite_gradient);
  AC_TRY(ac_folded_check_decision(trainer, &decision));
  double factors[AC_MAX_GROUPS + 1];
  set_factors(trainer, &sum, &report, &decision, factors);
  const double factor = factors[AC_MAX_GROUPS];
  if (possible && !isfinite(ac_to_float(factor))) return refuse_factor(factor);
  if (possible && !decision.skip && can_skip && !all_squares_held(trainer, factors)) {
    possible = false;
    report_not_finite(update);
  }
  update->skipped = !possible || decision.skip;
  if (!update->skipped) AC_TRY(step_and_look(trainer, factors, update));
  end_window(trainer, update);
  return AC_OK;
}

/* Each parameter is stepped, or is not, by its own gradient. */
static ac_status update_locally(ac_trainer *trainer, ac_update *update) {
  AC_TRY(check_update(trainer));
  trainer->window.optimizer = ac_trainer_optimizer(trainer);
  ac_local_steps steps;
  const bool look = ac_watchers_look(&trainer->window.view);
  if (look) AC_TRY(look_before(trainer));
  ac_status status = ac_trainer_step_locally(trainer, &steps);
  if (status != AC_OK && steps.taken) ac_trainer_give_up(trainer);
  trainer->window.broken = status != AC_OK;
  AC_TRY(status);
  const ac_window_sum sum = ac_trainer_window_sum(trainer);
  ac_gradient_report report;
  begin_report(trainer, &sum, &report, update);
  if (steps.left_out) report_not_finite(update);
  update->skipped = !steps.taken;
  update->left_out = steps.left_out;
  if (look && steps.taken) status = ac_watchers_after_step(&trainer->run, &trainer->window.view);
  if (status != AC_OK) ac_trainer_give_up(trainer);
  AC_TRY(status);
  end_window(trainer, update);
  return AC_OK;
}

/* Which the caller may say. */
static ac_status set_rate(ac_trainer *trainer) {
  trainer->window.view.rate = ac_trainer_rate(trainer);
  if (ac_is_float(trainer->window.view.rate) && trainer->window.view.rate >= 0) return AC_OK;
  return ac_fail(
      AC_ERROR_ARGUMENT,
      "trainer: nothing was changed, because the learning rate of update %lld would be %g",
      (long long)trainer->run.updates, trainer->window.view.rate);
}

static ac_status update_parameters(ac_trainer *trainer, ac_update *result) {
  ac_update update;
  AC_TRY(set_rate(trainer));
  AC_TRY(ac_trainer_check_steps(trainer));
  if (trainer->instance.plan->way->steps_alone) AC_TRY(update_locally(trainer, &update));
  else AC_TRY(update_whole(trainer, &update));
  if (result) *result = update;
  return AC_OK;
}

double ac_trainer_gradient_norm(const ac_trainer *trainer, int index) {
  const ac_plan *plan = trainer ? trainer->instance.plan : NULL;
  const ac_cell *cell = plan ? ac_plan_cell(plan, AC_ROLE_STATISTICS, index, 0) : NULL;
  if (plan && !plan->way->has_norm) return (double)NAN;
  if (!cell || !ac_trainer_trains(trainer, index) || !(trainer->window.reduced_weight > 0))
    return 0;
  return sqrt(ac_trainer_measure(trainer, cell).squares) / trainer->window.reduced_weight;
}

ac_status ac_trainer_update(ac_trainer *trainer, ac_update *result) {
  AC_REQUIRE(trainer);
  AC_TRY(ac_trainer_check_usable(trainer));
  AC_TRY(ac_exchange_window(trainer));
  if (trainer->run.samples == 0)
    return ac_fail(AC_ERROR_STATE, "trainer: nothing was accumulated since the last update");
  if (trainer->has_stepped) return update_parameters(trainer, result);
  const ac_wait wait = ac_wait_begin(trainer->instance.device, "first update");
  return ac_wait_end(&wait, update_parameters(trainer, result));
}
