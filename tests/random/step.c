/* The optimizers in double, from their papers: SGD as PyTorch's, AdamW as arXiv 1711.05101, Lion
 * as arXiv 2302.06675; and the learning rates of two updates. */
#include "random.h"

#include <math.h>

static const double momentum = 0.8, beta1 = 0.85, beta2 = 0.98, epsilon = 1e-6, decay = 0.07,
                    clip = 0.2;
/* Of the cosine; a third of it is over at the second update. */
enum { TOTAL = 3 };
static const double lowest = 0.1;

void random_optimizer(const random_choice *choice, double rate, ac_plan_desc *plan,
                      ac_trainer_desc *trainer) {
  int optimizer = choice->level[RANDOM_optimizer], schedule = choice->level[RANDOM_schedule];
  int scaling = choice->level[RANDOM_scaling];
  static const ac_optimizer_kind kinds[] = {
      [OPTIMIZER_SGD] = AC_SGD,     [OPTIMIZER_MOMENTUM] = AC_SGD,  [OPTIMIZER_NESTEROV] = AC_SGD,
      [OPTIMIZER_ADAMW] = AC_ADAMW, [OPTIMIZER_CLIPPED] = AC_ADAMW, [OPTIMIZER_LION] = AC_LION};
  plan->optimizer = kinds[optimizer];
  plan->sgd_no_momentum = optimizer == OPTIMIZER_SGD;
  trainer->schedule = (ac_schedule){.lr = rate, .warmup = schedule == SCHEDULE_WARM_UP};
  if (schedule == SCHEDULE_COSINE) {
    trainer->schedule.kind = AC_SCHEDULE_COSINE;
    trainer->schedule.min_lr = lowest * rate;
    trainer->schedule.total = TOTAL;
  }
  /* Low enough that no gradient overflows in f16. */
  if (scaling == SCALING_STATIC)
    trainer->loss_scaling = (ac_loss_scaling_desc){.kind = AC_LOSS_SCALING_STATIC, .scale = 8};
  if (scaling == SCALING_NONE) trainer->loss_scaling.kind = AC_LOSS_SCALING_NONE;
  trainer->optimizer = (ac_optimizer_desc){.beta1 = beta1,
                                           .beta2 = beta2,
                                           .epsilon = epsilon,
                                           .momentum = momentum,
                                           .nesterov = optimizer == OPTIMIZER_NESTEROV};
  if (optimizer == OPTIMIZER_NESTEROV || optimizer == OPTIMIZER_CLIPPED ||
      optimizer == OPTIMIZER_LION)
    trainer->optimizer.weight_decay = decay;
  if (optimizer == OPTIMIZER_CLIPPED) trainer->optimizer.clip = clip;
}

double random_rate(const random_choice *choice, double rate, int update) {
  int schedule = choice->level[RANDOM_schedule];
  double pi = acos(-1.0);
  if (schedule == SCHEDULE_WARM_UP) return update == 0 ? rate / 2 : rate;
  if (schedule == SCHEDULE_CONSTANT) return rate;
  return rate * (lowest + (1 - lowest) * (1 + cos(pi * update / TOTAL)) / 2);
}

/* `terms`: the size of what the step is a sum of, which may cancel. */
static double adamw(const random_stepping *s, double rate, double w, double g, double state[2],
                    double *terms) {
  double t = s->update + 1, scale;
  *terms = fabs(beta1 * state[0]) + fabs((1 - beta1) * g);
  state[0] = beta1 * state[0] + (1 - beta1) * g;
  state[1] = beta2 * state[1] + (1 - beta2) * g * g;
  scale = rate / (1 - pow(beta1, t)) / (sqrt(state[1] / (1 - pow(beta2, t))) + epsilon);
  *terms *= scale;
  if (s->decays) w -= rate * decay * w;
  return w - scale * state[0];
}

static double sgd(const random_stepping *s, double rate, double w, double g, double state[2],
                  double *terms) {
  double old = momentum * state[0];
  if (s->decays) g += decay * w;
  *terms = rate * (fabs(g) + fabs(old));
  if (s->optimizer == OPTIMIZER_SGD) return w - rate * g;
  state[0] = s->update == 0 ? g : old + g;
  return w - rate * (s->optimizer == OPTIMIZER_NESTEROV ? g + momentum * state[0] : state[0]);
}

/* The sign of what a float cannot tell from zero may be any. */
static double lion(const random_stepping *s, double rate, double w, double g, double state[2],
                   double *doubt) {
  double direction = beta1 * state[0] + (1 - beta1) * g;
  double terms = fabs(beta1 * state[0]) + fabs((1 - beta1) * g);
  *doubt = fabs(direction) <= 0x1p-20 * terms + 1e-36 && terms > 0 ? 2 * rate : 0;
  state[0] = beta2 * state[0] + (1 - beta2) * g;
  if (s->decays) w -= rate * decay * w;
  return w - (direction > 0 ? rate : direction < 0 ? -rate : 0);
}

/* A float step: a few roundings of the weight and of what the step is summed of, and of the step
 * what its factors lose; 1 - beta2 in floats is off by 3e-6. */
double random_step_weight(const random_stepping *s, double weight, double gradient, double state[2],
                          double *tolerance) {
  bool is_adamw = s->optimizer == OPTIMIZER_ADAMW || s->optimizer == OPTIMIZER_CLIPPED;
  double rate = s->rate, g = gradient * s->factor, terms = 0, doubt = 0;
  double after = s->optimizer == OPTIMIZER_LION ? lion(s, rate, weight, g, state, &doubt)
                 : is_adamw                     ? adamw(s, rate, weight, g, state, &terms)
                                                : sgd(s, rate, weight, g, state, &terms);
  *tolerance = doubt + 3 * 0x1p-24 * (fabs(weight) + fabs(after)) + 2e-5 * fabs(after - weight) +
               0x1p-21 * terms + 1e-12;
  /* Below about 1e-18 the square of a gradient is no normal float. */
  if (is_adamw && fabs(g) < 1e-12 && state[1] < 1e-24) *tolerance += rate * fabs(g) / epsilon;
  return after;
}
