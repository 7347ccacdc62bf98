/* Windows that fold their gradients into the optimizer's state, micro-batch by micro-batch
 * (ops/update/fold.h). With S the loss scale, W the window's weight, which is known before the
 * window, and g a micro-batch's gradient of S times the sum of losses,
 *
 *   SGD     m = momentum m + sum of g / (S W)
 *   Muon    m = momentum m + (1 - momentum) sum of g / (S W)
 *   AdamW   m = beta1 m + (1 - beta1) sum of g / (S W)
 *           v = beta2 v + (1 - beta2) sum of (g / (S W))^2
 *
 * where the first micro-batch multiplies the state, and all of them add to it. The update then
 * steps by m as it is; SGD adds its weight decay. A window cannot be undone. If W is too small to
 * divide by, which is also known before the window, nothing is folded and the window is skipped. */
#include "core/error.h"
#include "window/trainer.h"

/* ---- refusing -------------------------------------------------------------------------------- */

ac_status ac_folded_check_desc(const ac_trainer *trainer, const ac_plan *plan) {
  const ac_optimizer_desc *o = &trainer->desc.optimizer;
  if (!plan->way->folds) return AC_OK;
  const ac_fold_rule *rule = ac_optimizer_row_of(o->kind)->fold;
  if (o->clip > 0 || ac_groups_clip(&trainer->run.groups))
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: the plan folds gradients as they come, so they "
                                      "cannot be clipped by the norm of all");
  if (rule->looks_ahead && rule->looks_ahead(o))
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: the plan folds gradients into the momentum, but "
                                      "Nesterov's look-ahead needs the gradients themselves");
  return AC_OK;
}

ac_status ac_folded_check_decision(const ac_trainer *trainer, const ac_decision *decision) {
  if (!trainer->instance.plan->way->folds || ac_folded_is_left_out(trainer) ||
      (!decision->skip && decision->factor == 1))
    return AC_OK;
  return ac_fail(AC_ERROR_STATE,
                 "trainer: the window's gradients are folded into the optimizer's state, so that "
                 "a decision can neither skip nor scale the update");
}

/* ---- what is folded -------------------------------------------------------------------------- */

static double factor_of(const ac_trainer *trainer) {
  const bool several = trainer->instance.plan->graph->loss_count > 1;
  const double weight = several ? (double)trainer->run.whole_samples : trainer->run.whole_weight[0];
  return 1 / ((double)trainer->instance.run.loss_scale * weight);
}

/* Not known of losses that are divided by samples: then they may. */
static bool may_weigh(const ac_trainer *trainer) {
  bool may = false;
  for (int k = 0; k < trainer->instance.plan->graph->loss_count; k++)
    may |= !(trainer->run.whole_weight[k] <= 0);
  return may;
}

ac_status ac_folded_check_window(const ac_trainer *trainer) {
  if (!trainer->instance.plan->way->folds || !isnan(factor_of(trainer))) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "trainer: folded gradients are divided by the weight of the loss, which cannot be "
                 "counted before the window; nothing was changed");
}

bool ac_folded_is_left_out(const ac_trainer *trainer) {
  return trainer->instance.plan->way->folds &&
         (!may_weigh(trainer) || ac_trainer_light_loss(trainer) >= 0 ||
          !isfinite(ac_to_float(factor_of(trainer))));
}

static ac_fold_attributes attributes_of(const ac_trainer *trainer, const ac_optimizer_desc *o,
                                        const ac_optimizer_row *row) {
  ac_fold_attributes fold = {
      .gradient_factor = (float)factor_of(trainer), .keep1 = 1, .take1 = 1, .keep2 = 1};
  row->fold->fold(o, trainer->run.samples == 0, &fold);
  return fold;
}

void ac_folded_set(ac_trainer *trainer) {
  ac_instance *instance = &trainer->instance;
  const ac_plan *plan = instance->plan;
  const ac_optimizer_desc optimizer = ac_trainer_optimizer(trainer);
  instance->folds_nothing = ac_folded_is_left_out(trainer);
  for (int i = 0; i < plan->graph->parameter_count; i++)
    if (ac_trainer_trains(trainer, i))
      instance->updates[i].fold =
          attributes_of(trainer, &optimizer, plan->problem.parameters[i].optimizer);
}

/* ---- what cannot be taken back --------------------------------------------------------------- */

static void spoil(ac_trainer *trainer, const char *why) {
  if (!trainer->instance.unusable) trainer->instance.unusable = why;
}

void ac_folded_leave(ac_trainer *trainer) {
  const bool begun = trainer->run.samples > 0 || trainer->window.broken;
  if (!trainer->instance.plan->way->can_discard && begun && !ac_folded_is_left_out(trainer))
    spoil(trainer, "a window was left half way, and a part of its gradients is in the optimizer's "
                   "state; load a state");
}

ac_status ac_folded_fail(ac_trainer *trainer, bool finite) {
  const ac_graph *graph = trainer->instance.plan->graph;
  const int parameter = trainer->window.nonfinite;
  if (finite) {
    spoil(trainer,
          "a window that weighs nothing was folded into the optimizer's state; load a state");
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: the losses of the window weigh nothing, or too little to divide by, "
                   "which was not known before it was folded into the optimizer's state");
  }
  spoil(trainer, "a window that is not finite was folded into the optimizer's state; load a state");
  return ac_fail(AC_ERROR_NOT_FINITE,
                 "trainer: %s%s%s not finite, and the window was folded into the optimizer's "
                 "state; parameters are those of the last update, and training can go on once a "
                 "state is loaded",
                 parameter < 0 ? "the loss is" : "the gradient of parameter ",
                 parameter < 0 ? "" : ac_tensor_at(graph, graph->parameters[parameter])->name,
                 parameter < 0 ? "" : " is");
}
