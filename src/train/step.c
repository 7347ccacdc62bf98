/* What each parameter's step uses in the current update. All of it is computed in double and
 * rounded to a float once: a difference such as 1 - beta of two floats would have few correct
 * digits, or none. A value that would not be finite as a float is refused before anything is
 * changed. */
#include "train/trainer.h"

#include "core/error.h"
#include "core/floats.h"
#include "ops/update/update.h"

#include <math.h>

/* ---- factors, in double ---------------------------------------------------------------------- */

/* What Muon's steps are multiplied with in addition to the rate. */
static double muon_scale(const ac_optimizer_desc *o, const ac_tensor *parameter) {
  const double first = (double)parameter->shape.dim[0],
               rest = (double)ac_shape_count(&parameter->shape) / first;
  if (o->muon_scale == AC_MUON_MATCH_ADAMW) return 0.2 * sqrt(fmax(first, rest));
  return sqrt(fmax(1, parameter->matrix == AC_MATRIX_IN_OUT ? rest / first : first / rest));
}

/* The decay of its group, or else by its rank. */
static double weight_decay(const ac_trainer *trainer, const ac_tensor *parameter) {
  const ac_group_settings *own = ac_groups_of(&trainer->run.groups, parameter->parameter);
  if (own && own->weight_decay != 0) return fmax(0, own->weight_decay);
  const bool decays = parameter->shape.rank >= 2 && !parameter->desc.no_weight_decay;
  return decays ? trainer->desc.optimizer.weight_decay : 0;
}

/* The rate of the current update, with the factor of its group, and of AdamW for what Muon leaves
 * to it. */
static double rate_of(const ac_trainer *trainer, int index, double rate) {
  const ac_plan *plan = trainer->instance.plan;
  const ac_group_settings *own = ac_groups_of(&trainer->run.groups, index);
  const bool left = plan->problem.desc.optimizer.kind == AC_MUON &&
                    plan->problem.parameters[index].step == AC_OP_adamw;
  if (own) rate *= own->rate;
  return left ? rate * trainer->desc.optimizer.adamw_rate : rate;
}

/* 1 - beta^t, with all digits where beta is near 1. */
static double correction(double beta, double t) {
  return -expm1(t * log1p(beta - 1));
}

/* ---- as floats ------------------------------------------------------------------------------- */

static void set_step(const ac_trainer *trainer, const ac_parameter_tensors *tensors, double factor,
                     double rate, ac_update_attributes *attributes) {
  const ac_plan_desc *plan = &trainer->instance.plan->problem.desc;
  const ac_tensor *parameter = ac_tensor_at(trainer->instance.plan->graph, tensors->tensor);
  const ac_optimizer_desc *o = &trainer->window.optimizer;
  const float decay = (float)weight_decay(trainer, parameter);
  double t = (double)trainer->run.updates + 1;
  switch (tensors->step) {
  case AC_OP_sgd:
    attributes->step.sgd = (ac_sgd_attributes){.gradient_factor = (float)factor,
                                               .rate = (float)rate,
                                               .weight_decay = decay,
                                               .momentum = (float)o->momentum,
                                               .nesterov = o->nesterov};
    break;
  case AC_OP_lion:
    attributes->step.lion = (ac_lion_attributes){.gradient_factor = (float)factor,
                                                 .rate = (float)rate,
                                                 .weight_decay = decay,
                                                 .beta1 = (float)o->beta1,
                                                 .take1 = (float)(1 - o->beta1),
                                                 .take2 = (float)(1 - o->beta2)};
    break;
  case AC_OP_adafactor:
    attributes->step.adafactor =
        (ac_adafactor_attributes){.gradient_factor = (float)factor,
                                  .rate = (float)rate,
                                  .weight_decay = decay,
                                  .relative = (float)fmin(rate, 1 / sqrt(t)),
                                  .blend = (float)pow(t, -0.8),
                                  .epsilon1 = 0x1p-23f,
                                  .epsilon2 = 1e-3f,
                                  .threshold = 1};
    break;
  case AC_OP_muon:
    attributes->step.muon = (ac_muon_attributes){.gradient_factor = (float)factor,
                                                 .rate = (float)rate,
                                                 .weight_decay = decay,
                                                 .momentum = (float)o->momentum,
                                                 .take = (float)(1 - o->momentum),
                                                 .scale = (float)muon_scale(o, parameter),
                                                 .nesterov = !o->muon_no_nesterov,
                                                 .factors = ac_optimizer_factors(plan)};
    break;
  case AC_OP_adam_mini:
    attributes->step.adam_mini =
        (ac_adam_mini_attributes){.gradient_factor = (float)factor,
                                  .rate = (float)rate,
                                  .weight_decay = decay,
                                  .take1 = (float)(1 - o->beta1),
                                  .take2 = (float)(1 - o->beta2),
                                  .epsilon = (float)o->epsilon,
                                  .correction1 = (float)correction(o->beta1, t),
                                  .sqrt_correction2 = (float)sqrt(correction(o->beta2, t))};
    break;
  case AC_OP_clip:
    attributes->step.callback = (ac_callback_attributes){rate, weight_decay(trainer, parameter)};
    break;
  default:
    attributes->step.adamw =
        (ac_adamw_attributes){.gradient_factor = (float)factor,
                              .rate = (float)rate,
                              .weight_decay = decay,
                              .take1 = (float)(1 - o->beta1),
                              .take2 = (float)(1 - o->beta2),
                              .epsilon = (float)o->epsilon,
                              .correction1 = (float)correction(o->beta1, t),
                              .sqrt_correction2 = (float)sqrt(correction(o->beta2, t))};
  }
}

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
  if (kind < AC_CLIP_VALUE && plan->problem.desc.optimizer.kind != AC_OPTIMIZER_CALLBACK)
    return factor;
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
  set_step(trainer, tensors, factor, rate_of(trainer, index, rate), attributes);
  if (ac_tensor_at(plan->graph, tensors->gradient)->folded)
    ac_folded_set_step(tensors->step, attributes);
}

/* ---- refused --------------------------------------------------------------------------------- */

static ac_status refuse(const ac_trainer *trainer, const ac_tensor *parameter, const char *what,
                        double value) {
  return ac_fail(AC_ERROR_ARGUMENT,
                 "trainer: nothing was changed, because in update %lld the %s of parameter %s "
                 "would be %g, too large for a float",
                 (long long)trainer->run.updates, what, parameter->name, value);
}

/* Products as kernels form them, of floats. */
static ac_status check_step(const ac_trainer *trainer, int index) {
  const ac_plan *plan = trainer->instance.plan;
  const ac_op op = plan->problem.parameters[index].step;
  const ac_tensor *parameter = ac_tensor_at(plan->graph, plan->graph->parameters[index]);
  const double rate = rate_of(trainer, index, trainer->window.view.rate),
               decay = weight_decay(trainer, parameter);
  if (op == AC_OP_clip) return AC_OK; /* a callback gets doubles */
  if (!ac_is_float(rate)) return refuse(trainer, parameter, "learning rate", rate);
  if (!ac_is_float(decay)) return refuse(trainer, parameter, "weight decay", decay);
  if (op != AC_OP_sgd && !isfinite((float)rate * (float)decay))
    return refuse(trainer, parameter, "learning rate times its weight decay", rate * decay);
  const double scale = op == AC_OP_muon ? muon_scale(&trainer->desc.optimizer, parameter) : 1;
  if (!isfinite((float)rate * (float)scale))
    return refuse(trainer, parameter, "learning rate times the scale", rate * scale);
  if (op != AC_OP_adamw && op != AC_OP_adam_mini) return AC_OK;
  const ac_optimizer_desc now = ac_trainer_optimizer(trainer);
  const double corrected = rate / correction(now.beta1, (double)trainer->run.updates + 1);
  return ac_is_float(corrected)
             ? AC_OK
             : refuse(trainer, parameter, "learning rate by 1 - beta1^t", corrected);
}

ac_status ac_trainer_check_steps(const ac_trainer *trainer) {
  for (int i = 0; i < trainer->instance.plan->graph->parameter_count; i++)
    if (ac_trainer_trains(trainer, i)) AC_TRY(check_step(trainer, i));
  return AC_OK;
}
