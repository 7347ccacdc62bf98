/* What each parameter's step uses in the current update. All of it is computed in double and
 * rounded to a float once: a difference such as 1 - beta of two floats would have few correct
 * digits, or none. A value that would not be finite as a float is refused before anything is
 * changed. */
#include "window/trainer.h"

#include "core/error.h"
#include "core/floats.h"
#include "optimizer/nodes.h"

#include <math.h>

/* ---- factors, in double ---------------------------------------------------------------------- */

/* The decay of its group, or else by its rank. */
static double weight_decay(const ac_trainer *trainer, const ac_tensor *parameter) {
  const ac_group_settings *own = ac_groups_of(&trainer->run.groups, parameter->parameter);
  if (own && own->weight_decay != 0) return fmax(0, own->weight_decay);
  const bool decays = parameter->shape.rank >= 2 && !parameter->desc.no_weight_decay;
  return decays ? trainer->desc.optimizer.weight_decay : 0;
}

/* The rate of the current update, with the factors of the parameter and of its group, and of AdamW
 * for what an optimizer leaves to it. */
static double rate_of(const ac_trainer *trainer, int index, double rate) {
  const ac_plan *plan = trainer->instance.plan;
  const ac_group_settings *own = ac_groups_of(&trainer->run.groups, index);
  const bool left = plan->problem.parameters[index].optimizer !=
                    ac_optimizer_row_of(plan->problem.desc.optimizer.kind);
  const double part = ac_tensor_at(plan->graph, plan->graph->parameters[index])->desc.rate;
  if (own) rate *= own->rate;
  if (part > 0) rate *= part;
  return left ? rate * trainer->desc.optimizer.adamw_rate : rate;
}

static ac_step_numbers numbers_of(const ac_trainer *trainer, const ac_optimizer_desc *o, int index,
                                  double factor, double rate) {
  const ac_plan *plan = trainer->instance.plan;
  const ac_tensor *parameter = ac_tensor_at(plan->graph, plan->graph->parameters[index]);
  return (ac_step_numbers){.optimizer = o,
                           .parameter = parameter,
                           .precision = plan->problem.desc.precision,
                           .update = (double)trainer->run.updates + 1,
                           .factor = factor,
                           .rate = rate_of(trainer, index, rate),
                           .weight_decay = weight_decay(trainer, parameter)};
}

/* ---- as floats ------------------------------------------------------------------------------- */

double ac_trainer_clip_of(const ac_trainer *trainer, int index) {
  const ac_group_settings *own = ac_groups_of(&trainer->run.groups, index);
  return own && own->clip != 0 ? own->clip : trainer->desc.optimizer.clip;
}

/* The op that clips takes the factor, and leaves the step 1. */
static double set_clip(const ac_trainer *trainer, int index, double factor,
                       ac_clip_attributes *attributes) {
  const ac_plan *plan = trainer->instance.plan;
  const ac_clipping kind = plan->problem.desc.optimizer.clipping;
  const ac_tensor *parameter = ac_tensor_at(plan->graph, plan->graph->parameters[index]);
  const double limit = kind < AC_CLIP_VALUE ? 0 : ac_trainer_clip_of(trainer, index);
  if (kind < AC_CLIP_VALUE && !plan->problem.parameters[index].optimizer->hands_over) return factor;
  *attributes = (ac_clip_attributes){.gradient_factor = (float)factor,
                                     .limit = limit > 0 ? (float)limit : INFINITY,
                                     .adaptive = kind == AC_CLIP_ADAPTIVE,
                                     .by_column = ac_optimizer_by_column(parameter)};
  return 1;
}

void ac_trainer_set_averages(ac_trainer *trainer) {
  const double decay = trainer->run.updates ? trainer->desc.average_decay : 0;
  for (int i = 0; i < trainer->instance.plan->graph->parameter_count; i++)
    trainer->instance.updates[i].average = (ac_fold_attributes){
        .gradient_factor = 1, .take1 = (float)(1 - decay), .is_average = decay > 0};
}

void ac_trainer_set_step(ac_trainer *trainer, int index, double factor, double rate) {
  const ac_plan *plan = trainer->instance.plan;
  const ac_parameter_tensors *tensors = &plan->problem.parameters[index];
  ac_update_attributes *attributes = &trainer->instance.updates[index];
  factor = set_clip(trainer, index, factor, &attributes->clip);
  const ac_step_numbers numbers =
      numbers_of(trainer, &trainer->window.optimizer, index, factor, rate);
  tensors->optimizer->arguments(&numbers, &attributes->step);
  if (ac_tensor_at(plan->graph, tensors->gradient)->folded)
    tensors->optimizer->fold->step(&attributes->step);
}

/* ---- refused --------------------------------------------------------------------------------- */

static ac_status refuse(const ac_trainer *trainer, const ac_tensor *parameter, const char *what,
                        double value) {
  return ac_fail(AC_ERROR_ARGUMENT,
                 "trainer: nothing was changed, because in update %lld the %s of parameter %s "
                 "would be %g, too large for a float",
                 (long long)trainer->run.updates, what, parameter->name, value);
}

static ac_status check_step(const ac_trainer *trainer, const ac_optimizer_desc *now, int index) {
  const ac_optimizer_row *row = trainer->instance.plan->problem.parameters[index].optimizer;
  const ac_step_numbers n = numbers_of(trainer, now, index, 1, trainer->window.view.rate);
  double value = 0;
  if (row->hands_over) return AC_OK; /* it gets doubles */
  if (!ac_is_float(n.rate)) return refuse(trainer, n.parameter, "learning rate", n.rate);
  if (!ac_is_float(n.weight_decay))
    return refuse(trainer, n.parameter, "weight decay", n.weight_decay);
  const char *beyond = row->beyond ? row->beyond(&n, &value) : NULL;
  return beyond ? refuse(trainer, n.parameter, beyond, value) : AC_OK;
}

ac_status ac_trainer_check_steps(const ac_trainer *trainer) {
  const ac_optimizer_desc now = ac_trainer_optimizer(trainer);
  for (int i = 0; i < trainer->instance.plan->graph->parameter_count; i++)
    if (ac_trainer_trains(trainer, i)) AC_TRY(check_step(trainer, &now, i));
  return AC_OK;
}
