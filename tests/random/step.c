/* The optimizers in double, from their papers: SGD as PyTorch's, AdamW as arXiv 1711.05101, Lion
 * as arXiv 2302.06675, an element at a time; Adafactor, Muon and Adam-mini, which look at a whole
 * parameter, by the references of their ops (tests/ops). And the learning rates of two updates. */
#include "random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double momentum = 0.8, beta1 = 0.85, beta2 = 0.98, epsilon = 1e-6, decay = 0.07;
static const double clips[] = {
    [AC_CLIP_NORM] = 0.2, [AC_CLIP_EACH] = 0.1, [AC_CLIP_VALUE] = 0.01, [AC_CLIP_ADAPTIVE] = 0.05};
/* Of the cosine; a third of it is over at the second update. */
enum { TOTAL = 3 };
static const double lowest = 0.1;

/* AdamW, as a caller writes it. */
enum { PART = 7 };
static const char *own_step(void *user, const ac_parameter_step *s) {
  const double t = (double)s->update;
  (void)user;
  for (int64_t i = 0; i < s->count; i++) {
    const double g = (double)s->gradient[i], m = beta1 * (double)s->state[0][i] + (1 - beta1) * g,
                 v = beta2 * (double)s->state[1][i] + (1 - beta2) * g * g,
                 w = (double)s->weights[i] * (1 - s->rate * s->weight_decay);
    s->state[0][i] = (float)m;
    s->state[1][i] = (float)v;
    s->weights[i] =
        (float)(w - s->rate / (1 - pow(beta1, t)) * m / (sqrt(v / (1 - pow(beta2, t))) + epsilon));
  }
  return NULL;
}

double random_decay(const ac_trainer_desc *trainer, const ac_tensor *parameter) {
  const bool decays = parameter->shape.rank >= 2 && !parameter->desc.no_weight_decay;
  return decays ? trainer->optimizer.weight_decay : 0;
}

void random_optimizer(const random_choice *choice, double rate, ac_plan_desc *plan,
                      ac_trainer_desc *trainer) {
  int optimizer = choice->level[RANDOM_optimizer], schedule = choice->level[RANDOM_schedule];
  int scaling = choice->level[RANDOM_scaling];
  static const ac_optimizer_kind kinds[] = {[OPTIMIZER_SGD] = AC_SGD,
                                            [OPTIMIZER_MOMENTUM] = AC_SGD,
                                            [OPTIMIZER_NESTEROV] = AC_SGD,
                                            [OPTIMIZER_ADAMW] = AC_ADAMW,
                                            [OPTIMIZER_CLIPPED] = AC_ADAMW,
                                            [OPTIMIZER_LION] = AC_LION,
                                            [OPTIMIZER_ADAFACTOR] = AC_ADAFACTOR,
                                            [OPTIMIZER_MUON] = AC_MUON,
                                            [OPTIMIZER_ADAM_MINI] = AC_ADAM_MINI,
                                            [OPTIMIZER_CALLBACK] = AC_OPTIMIZER_CALLBACK};
  plan->optimizer.kind = kinds[optimizer];
  plan->optimizer.sgd_no_momentum = optimizer == OPTIMIZER_SGD;
  if (optimizer == OPTIMIZER_CALLBACK) {
    plan->optimizer.callback_states = 2;
    plan->optimizer.callback_part = PART;
  }
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
  if (optimizer == OPTIMIZER_CALLBACK) trainer->optimizer.step = own_step;
  if (optimizer == OPTIMIZER_NESTEROV || optimizer >= OPTIMIZER_CLIPPED)
    trainer->optimizer.weight_decay = decay;
  if (optimizer != OPTIMIZER_CLIPPED && choice->level[RANDOM_clipping] == (int)AC_CLIP_NORM) return;
  plan->optimizer.clipping = (ac_clipping)choice->level[RANDOM_clipping];
  trainer->optimizer.clip = clips[plan->optimizer.clipping];
}

/* By arXiv 2102.06171, a unit of elements `stride` apart. */
static void clip_unit(const float *weights, float *gradient, int64_t stride, int64_t count,
                      double most, double factor) {
  double of_g = 0, of_p = 0;
  for (int64_t i = 0; i < count; i++) {
    of_g += pow((double)gradient[i * stride], 2);
    of_p += pow((double)weights[i * stride], 2);
  }
  const double norm = factor * sqrt(of_g), limit = most * fmax(sqrt(of_p), 1e-3),
               left = norm < limit ? factor : factor * limit / fmax(norm, 1e-6);
  for (int64_t i = 0; i < count; i++)
    gradient[i * stride] = (float)(left * (double)gradient[i * stride]);
}

static void clip_units(const ac_tensor *parameter, const float *weights, float *gradient,
                       double most, double factor) {
  const ac_shape *shape = &parameter->shape;
  const int64_t count = ac_shape_count(shape), first = shape->rank > 1 ? shape->dim[0] : 1,
                rest = count / first;
  const bool columns = ac_optimizer_by_column(parameter);
  for (int64_t u = 0; u < (columns ? rest : first); u++) {
    const int64_t at = columns ? u : u * rest;
    clip_unit(weights + at, gradient + at, columns ? rest : 1, columns ? first : rest, most,
              factor);
  }
}

void random_clip(const ac_plan_desc *plan, double limit, const ac_tensor *parameter,
                 const float *weights, float *gradient, double *factor) {
  const int64_t count = ac_shape_count(&parameter->shape);
  double squares = 0;
  if (plan->optimizer.clipping == AC_CLIP_NORM || !(limit > 0)) return;
  for (int64_t e = 0; e < count; e++) squares += pow((double)gradient[e], 2);
  const double norm = *factor * sqrt(squares);
  if (plan->optimizer.clipping == AC_CLIP_EACH) {
    if (norm > limit) *factor *= limit / norm;
    return;
  }
  for (int64_t e = 0; plan->optimizer.clipping == AC_CLIP_VALUE && e < count; e++)
    gradient[e] = (float)fmin(fmax(*factor * (double)gradient[e], -limit), limit);
  if (plan->optimizer.clipping == AC_CLIP_ADAPTIVE)
    clip_units(parameter, weights, gradient, limit, *factor);
  *factor = 1;
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
  w -= rate * s->decay * w;
  return w - scale * state[0];
}

static double sgd(const random_stepping *s, double rate, double w, double g, double state[2],
                  double *terms) {
  double old = momentum * state[0];
  g += s->decay * w;
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
  w -= rate * s->decay * w;
  return w - (direction > 0 ? rate : direction < 0 ? -rate : 0);
}

/* A float step: a few roundings of the weight and of what the step is summed of, and of the step
 * what its factors lose. */
static double float_error(double before, double after, double terms) {
  return 3 * 0x1p-24 * (fabs(before) + fabs(after)) + 2e-6 * fabs(after - before) +
         0x1p-21 * terms + 1e-12;
}

/* The weight after the step. */
static double step_weight(const random_stepping *s, double weight, double gradient, double state[2],
                          double *tolerance) {
  const bool is_adamw = s->kind.row->step == AC_OP_adamw || s->kind.row->step == AC_OP_clip;
  double rate = s->rate, g = gradient * s->factor, terms = 0, doubt = 0;
  double after = s->kind.row->step == AC_OP_lion ? lion(s, rate, weight, g, state, &doubt)
                 : is_adamw                      ? adamw(s, rate, weight, g, state, &terms)
                                                 : sgd(s, rate, weight, g, state, &terms);
  *tolerance = doubt + float_error(weight, after, terms);
  /* Below about 1e-18 the square of a gradient is not a normal float. */
  if (is_adamw && fabs(g) < 1e-12 && state[1] < 1e-24) *tolerance += rate * fabs(g) / epsilon;
  return after;
}

/* ---- whole parameters ------------------------------------------------------------------------ */

static double muon_scale(const ac_shape *shape) {
  const double first = (double)shape->dim[0];
  return 0.2 * sqrt(fmax(first, (double)ac_shape_count(shape) / first));
}

static op_attributes attributes_of(const random_stepping *s, const ac_shape *shape) {
  const float factor = (float)s->factor, rate = (float)s->rate, t = (float)(s->update + 1),
              decays = (float)s->decay;
  op_attributes a = {0};
  if (s->kind.row->step == AC_OP_muon)
    a.muon = (ac_muon_attributes){factor,
                                  rate,
                                  decays,
                                  (float)momentum,
                                  (float)(1 - momentum),
                                  (float)muon_scale(shape),
                                  !s->folded,
                                  s->factors};
  else if (s->kind.row->step == AC_OP_adam_mini)
    a.adam_mini = (ac_adam_mini_attributes){factor,
                                            rate,
                                            decays,
                                            (float)(1 - beta1),
                                            (float)(1 - beta2),
                                            (float)epsilon,
                                            (float)(1 - pow(beta1, (double)t)),
                                            (float)sqrt(1 - pow(beta2, (double)t))};
  else
    a.adafactor = (ac_adafactor_attributes){.gradient_factor = factor,
                                            .rate = rate,
                                            .weight_decay = decays,
                                            .relative = fminf(rate, 1 / sqrtf(t)),
                                            .blend = powf(t, -0.8f),
                                            .epsilon1 = 0x1p-23f,
                                            .epsilon2 = 1e-3f,
                                            .threshold = 1};
  return a;
}

static ac_operand operand_of(const ac_shape *shape, double *data) {
  ac_operand x = {
      .data = data, .dtype = AC_F32, .rank = shape->rank, .count = ac_shape_count(shape)};
  memcpy(x.dim, shape->dim, sizeof x.dim);
  return x;
}

static void compute(const random_stepping *s, const ac_shape *shape, double *gradient,
                    double *weights, double *const state[2]) {
  const op_attributes attributes = attributes_of(s, shape);
  ac_op_args args = {.op = s->kind.row->step, .attributes = &attributes};
  args.in[0] = operand_of(shape, gradient);
  args.out[0] = operand_of(shape, weights);
  for (int k = 0; k < s->kind.states; k++)
    args.out[1 + k] = operand_of(&s->kind.state[k].shape, state[k]);
  op_reference_of(s->kind.row->step)->compute(&args);
}

/* What a moment is summed of may cancel: the size of a step without that, from no weight. */
static void sum_of_sizes(const random_stepping *s, const ac_shape *shape, const double *gradient,
                         double *const state[2], double *terms) {
  const int64_t count = ac_shape_count(shape);
  double *sizes[3];
  for (int k = 0; k < 3; k++) {
    const double *from = k == 2 ? gradient : state[k];
    sizes[k] = calloc((size_t)count, sizeof **sizes);
    for (int64_t e = 0; e < count; e++) sizes[k][e] = fabs(from[e]);
  }
  compute(s, shape, sizes[2], terms, sizes);
  for (int k = 0; k < 3; k++) free(sizes[k]);
}

static void step_whole(const random_stepping *s, const ac_shape *shape, const float *gradient,
                       double *weights, double *const state[2], double *tolerance) {
  const int64_t count = ac_shape_count(shape);
  const size_t bytes = (size_t)count * sizeof *weights;
  double *before = malloc(bytes), *g = malloc(bytes), *terms = calloc((size_t)count, sizeof *terms);
  for (int64_t e = 0; e < count; e++) before[e] = weights[e], g[e] = (double)gradient[e];
  if (s->kind.row->step == AC_OP_adam_mini) sum_of_sizes(s, shape, g, state, terms);
  compute(s, shape, g, weights, state);
  /* Muon's iterations multiply what its sums lose, or factors in bf16, by up to 485
   * (tests/ops/update/muon.c): of a gradient of few ranks all but these are such errors. */
  const double rounding = s->factors == AC_BF16 ? 0x1p-8 : 16 * 0x1p-24;
  const double lost =
      s->kind.row->step == AC_OP_muon ? 485 * rounding * s->rate * muon_scale(shape) : 0;
  /* Clipped gradients are equal numbers, and each addition of these to a long sum of squares loses
   * to the same side. Adafactor divides by the roots of such sums. */
  const double drift =
      s->kind.row->step == AC_OP_adafactor ? (double)ac_shape_last(shape) / 4 * 0x1p-24 : 0;
  for (int64_t e = 0; e < count; e++)
    tolerance[e] = lost + drift * fabs(weights[e] - before[e]) +
                   float_error(before[e], weights[e], fabs(terms[e])) +
                   2e-5 * s->rate * s->decay * fabs(before[e]); /* which a step may cancel */
  free(before), free(g), free(terms);
}

void random_step_parameter(const random_stepping *s, const ac_tensor *parameter,
                           const float *gradient, double *weights, double *const state[2],
                           double *tolerance) {
  const ac_op op = s->kind.row->step;
  if (op != AC_OP_adamw && op != AC_OP_sgd && op != AC_OP_lion && op != AC_OP_clip) {
    step_whole(s, &parameter->shape, gradient, weights, state, tolerance);
    return;
  }
  for (int64_t e = 0; e < ac_shape_count(&parameter->shape); e++) {
    double moments[2] = {state[0][e], state[1][e]};
    weights[e] = step_weight(s, weights[e], (double)gradient[e], moments, &tolerance[e]);
    state[0][e] = moments[0], state[1][e] = moments[1];
  }
}
