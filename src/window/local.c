/* Windows with one pass, in which parameters are stepped one by one (AC_GRADIENTS_FUSED_LOCAL). The
 * step of a parameter comes after the losses and after its own gradient, when nothing is added to
 * that any more (plan/passes.c). Before the step the host reads the losses, once, and the two
 * numbers that were measured of the gradient. Then it sets the factor clip / (loss scale x weight),
 * or leaves the step out. If a loss is not finite, or the weight is too small to divide by, no step
 * is taken. Running statistics come last; they move if they are finite and a parameter was stepped.
 *
 * Each read waits for the device, once for each parameter. That is the price of one pass. */
#include "window/trainer.h"

#include "core/error.h"

#include <math.h>
#include <string.h>

typedef struct pass {
  ac_trainer *trainer;
  ac_local_steps *steps;
  bool known; /* the losses are, and so is */
  ac_window_sum sum;
  double rate;
} pass;

static ac_status learn_losses(pass *p) {
  ac_instance *instance = &p->trainer->instance;
  for (int k = 0; k < instance->plan->graph->loss_count; k++)
    AC_TRY(ac_instance_fetch_cell(instance, ac_plan_cell(instance->plan, AC_ROLE_LOSS, k, 0)));
  AC_TRY(ac_trainer_check_losses(p->trainer));
  p->sum = ac_trainer_window_sum(p->trainer);
  p->known = true;
  return AC_OK;
}

/* What was measured of a parameter: of its gradient, or of all pools that its running statistics
 * follow. */
static ac_status measure(ac_trainer *trainer, int parameter, ac_measure *all) {
  const ac_plan *plan = trainer->instance.plan;
  *all = (ac_measure){0, true};
  for (int i = 0; i < plan->cell_count; i++) {
    const ac_cell *cell = &plan->cells[i];
    if (cell->role != AC_ROLE_STATISTICS || cell->owner != parameter) continue;
    AC_TRY(ac_instance_fetch_cell(&trainer->instance, cell));
    const ac_measure one = ac_trainer_measure(trainer, cell);
    all->squares += one.squares;
    all->finite &= one.finite;
  }
  return AC_OK;
}

/* Whether the step of a parameter is taken, or the running statistics of one that is not trained
 * move. */
static ac_status decide_anew(pass *p, int parameter, bool *runs) {
  ac_trainer *trainer = p->trainer;
  const bool by_norm = trainer->instance.plan->problem.desc.optimizer.clipping < AC_CLIP_VALUE;
  ac_measure measured;
  if (!p->known) AC_TRY(learn_losses(p));
  AC_TRY(measure(trainer, parameter, &measured));
  const bool trained = ac_trainer_trains(trainer, parameter);
  *runs = measured.finite && p->sum.total.finite && p->sum.divides;
  if (!trained) *runs &= p->steps->taken > 0;
  p->steps->left_out += trained && !measured.finite;
  if (!trained || !*runs) return AC_OK;
  const double norm = sqrt(measured.squares) / p->sum.total.weight;
  const double clip = by_norm ? ac_trainer_clip_of(trainer, parameter) : 0,
               factor = p->sum.factor * ac_trainer_clip(clip, norm);
  *runs = ac_trainer_holds_squares(trainer, parameter, measured.squares, factor);
  p->steps->left_out += !*runs;
  if (!*runs) return AC_OK;
  ac_trainer_set_step(trainer, parameter, factor, p->rate);
  p->steps->taken++;
  return AC_OK;
}

/* The op that clips a gradient comes before its step; this is called for both. */
static ac_status decide(void *user, int parameter, bool *runs) {
  pass *p = user;
  if (parameter < 0) {
    *runs = p->steps->taken > 0;
    return AC_OK;
  }
  ac_local_decision *known = &p->trainer->scratch.decided[parameter];
  if (!ac_trainer_trains(p->trainer, parameter)) return decide_anew(p, parameter, runs);
  if (*known == AC_LOCAL_UNDECIDED) {
    AC_TRY(decide_anew(p, parameter, runs));
    *known = *runs ? AC_LOCAL_RUNS : AC_LOCAL_LEFT_OUT;
  }
  *runs = *known == AC_LOCAL_RUNS;
  return AC_OK;
}

ac_status ac_trainer_step_locally(ac_trainer *trainer, ac_local_steps *steps) {
  ac_instance *instance = &trainer->instance;
  pass p = {.trainer = trainer, .steps = steps, .rate = trainer->window.view.rate};
  *steps = (ac_local_steps){0};
  trainer->window.reduced_weight = 0;
  ac_trainer_set_averages(trainer);
  memset(trainer->scratch.decided, 0,
         (size_t)instance->plan->graph->parameter_count * sizeof *trainer->scratch.decided);
  instance->gate = (ac_gate){decide, &p};
  ac_status status = ac_instance_run(instance, &instance->main, true);
  instance->gate = (ac_gate){0};
  AC_TRY(status);
  AC_TRY(ac_numerics_collect(instance));
  AC_TRY(ac_instance_fetch_control(instance));
  trainer->has_stepped = true;
  return AC_OK;
}
