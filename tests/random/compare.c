/* What a trial left, held against the reference.
 *
 * How far a right result may be off is not guessed: the reference runs again with all that is
 * stored off by up to one rounding of the precision, and what that does to a number is the number's
 * spread. A library's result may differ by FACTOR times the largest of its own spread and the root
 * mean square of its tensor's. Its kernels also round sums and functions of floats, in f32 as often
 * as what they store: FACTOR includes that. */
#include "random.h"

#include "core/hash.h"
#include "observe/scaler.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* A result that is out of bounds is looked at again with the spread of many runs: a few miss what
 * happens seldom. */
enum { FEW_RUNS = 4, MANY_RUNS = 64 };
static const double factor = 12;
/* Of a sum over a whole array, in which roundings average out. */
static const double length_factor = 8;

/* f16 holds this easily. A model with steps that make it larger is not looked at. */
static const double too_large = 2e4;

/* Losses take probabilities from one another, which leaves an error of this for a weight of 1,
 * however small the difference; what it is multiplied by on its way may be as large as anything in
 * the graph. */
static const double loss_unit = 0x1p-21;

static void fail(random_verdict *v, const char *format, ...) {
  va_list list;
  if (v->text[0]) return;
  va_start(list, format);
  vsnprintf(v->text, sizeof v->text, format, list);
  va_end(list);
}

/* ---- references with their spread ------------------------------------------------------------ */

typedef struct spread {
  int runs;
  random_reference exact, noisy[MANY_RUNS];
} spread;

static double unit_of(ac_dtype storage) {
  return storage == AC_F16 ? 0x1p-11 : storage == AC_BF16 ? 0x1p-8 : 0x1p-24;
}

static void evaluate(spread *s, const random_graph *g, random_run run, ac_dtype storage,
                     const ac_loss_scaling_desc *scaling, float *const *parameters, int runs) {
  s->runs = runs;
  run.noise = 0;
  run.unit = unit_of(storage);
  random_evaluate(&s->exact, g, &run, parameters);
  if (storage == AC_F16) run.smallest = 0x1p-25;
  ac_scaler scaler;
  ac_scaler_init(&scaler, scaling, AC_PRECISION_F16);
  double backed_off = scaler.desc.kind == AC_LOSS_SCALING_DYNAMIC ? 8 : 1;
  if (storage == AC_F16)
    run.smallest_gradient =
        0x1p-25 * backed_off / (double)ac_scaler_factor(&scaler, s->exact.weight + 1);
  for (int k = 0; k < s->runs; k++) {
    run.noise = op_draw_hash(g->recipe.key, 1000 + (uint64_t)k);
    random_evaluate(&s->noisy[k], g, &run, parameters);
  }
}

static void spread_free(spread *s) {
  random_reference_free(&s->exact);
  for (int k = 0; k < s->runs; k++) random_reference_free(&s->noisy[k]);
}

static const ac_loss_scaling_desc default_scaling = {.scale = 0};

/* Whether some noisy run comes near enough to a tie that a right one might have crossed it. */
static bool is_tied(const spread *s) {
  const random_reference *r = &s->exact;
  for (int i = 0; i < r->ties.count; i++) {
    double widest = 0;
    for (int k = 0; k < s->runs; k++)
      widest = fmax(widest, fabs(s->noisy[k].ties.distances[i] - r->ties.distances[i]));
    if (r->ties.distances[i] != 0 && fabs(r->ties.distances[i]) < 4 * widest) return true;
  }
  return false;
}

/* Whether a right run may find other ids, which results jump with. */
static bool may_find_others(const spread *s, op_call_kind kind) {
  for (int i = 0; i < s->exact.ties.call_count; i++) {
    const op_call *call = &s->exact.ties.calls[i];
    bool open = call->close;
    for (int k = 0; k < s->runs && !open; k++)
      open = s->noisy[k].ties.calls[i].chosen != call->chosen;
    if (open && call->kind == kind) return true;
  }
  return false;
}

bool random_is_far_from_ties(random_graph *g, ac_dtype storage) {
  spread s;
  bool far = true;
  g->rate = 0.03;
  for (int w = 0; w < RANDOM_WINDOWS && far; w++) {
    random_run run = {.first = w * g->recipe.batch,
                      .count = g->recipe.batch,
                      .micro_batch = g->recipe.batch,
                      .update = (uint32_t)w,
                      .training = true};
    evaluate(&s, g, run, storage, &default_scaling, NULL, FEW_RUNS);
    far = !is_tied(&s) && !may_find_others(&s, OP_CALL_ID) && s.exact.weight > 0.1 &&
          s.exact.largest < 1e3 && s.exact.norm > 1e-6;
    double norm = s.exact.norm / s.exact.weight;
    if (norm > 5) g->rate = fmin(g->rate, 0.75 / (norm * norm));
    spread_free(&s);
  }
  return far;
}

/* ---- numbers --------------------------------------------------------------------------------- */

typedef struct comparison {
  random_verdict *verdict;
  random_counts *counts;
  int precision, window, runs;
} comparison;

static void judge(comparison *c, const char *what, const char *name, int64_t element, double got,
                  double want, double allowed) {
  double ratio = fabs(got - want) / allowed;
  if (!(ratio <= c->counts->worst[c->precision]) && ratio > 0) {
    c->counts->worst[c->precision] = ratio;
    snprintf(c->counts->worst_text[c->precision], sizeof c->counts->worst_text[0],
             "%s %s[%lld]: %g, not %g", what, name, (long long)element, got, want);
  }
  if (!(fabs(got - want) <= allowed))
    fail(c->verdict, "window %d: %s %s[%lld] is %.9g, not %.9g; it may be off by %.3g", c->window,
         what, name, (long long)element, got, want, allowed);
}

/* `noisy` are as many arrays as there are runs. */
static void judge_array(comparison *c, const char *what, const char *name, int64_t count,
                        const float *got, const double *want, double *const *noisy, double floor) {
  double squares = 0;
  for (int64_t e = 0; e < count; e++)
    for (int k = 0; k < c->runs; k++) squares += pow(noisy[k][e] - want[e], 2) / c->runs;
  double rms = sqrt(squares / (double)count);
  for (int64_t e = 0; e < count; e++) {
    double widest = rms;
    for (int k = 0; k < c->runs; k++) widest = fmax(widest, fabs(noisy[k][e] - want[e]));
    double allowed = factor * widest + 0x1p-23 * fabs(want[e]) + floor;
    judge(c, what, name, e, (double)got[e], want[e], allowed);
  }
}

static void judge_scalar(comparison *c, const char *what, double got, double want,
                         const double noisy[MANY_RUNS], double floor) {
  double widest = 0;
  for (int k = 0; k < c->runs; k++) widest = fmax(widest, fabs(noisy[k] - want));
  judge(c, what, "", 0, got, want, factor * widest + 1e-6 * fabs(want) + floor);
}

/* How long an array is along the right one, in units of that: errors of elements that cancel leave
 * little of themselves there, but one of a factor stays. */
static void judge_length(comparison *c, const char *name, int64_t count, const float *got,
                         const double *want, double *const *noisy, double floor, double more) {
  double square = 0, sum = 0, along = 0, noisy_along[MANY_RUNS] = {0};
  for (int64_t e = 0; e < count; e++) {
    square += want[e] * want[e];
    sum += fabs(want[e]);
    along += (double)got[e] * want[e];
    for (int k = 0; k < c->runs; k++) noisy_along[k] += noisy[k][e] * want[e];
  }
  if (square == 0) return;
  double widest = 0;
  for (int k = 0; k < c->runs; k++) widest = fmax(widest, fabs(noisy_along[k] / square - 1));
  judge(c, "the length of gradient", name, 0, along / square, 1,
        length_factor * widest + 1e-6 + floor * sum / square + more);
}

/* ---- a window -------------------------------------------------------------------------------- */

static void compare_sums(comparison *c, const ac_update *u, const spread *s) {
  double loss[MANY_RUNS], weight = s->exact.weight;
  for (int k = 0; k < s->runs; k++) loss[k] = s->noisy[k].loss / weight;
  judge(c, "weight", "", 0, u->weight, weight, 1e-6 * weight);
  judge_scalar(c, "loss", u->loss, s->exact.loss / weight, loss, 1e-7 * s->exact.largest);
}

static const char *parameter_name(const random_graph *g, int p) {
  return ac_tensor_at(g->graph, g->graph->parameters[p])->name;
}

static double loss_floor(const spread *s) {
  return loss_unit * fmax(1, s->exact.largest);
}

/* Of a gradient that is added up in bf16: each of `additions` roundings is off by less than a unit
 * in the last place of a sum, which may be larger than what it ends with. */
static double sum_floor(const double *want, int64_t count, double additions) {
  double largest = 0;
  for (int64_t e = 0; e < count; e++) largest = fmax(largest, fabs(want[e]));
  return 0x1p-6 * largest * additions;
}

static void compare_gradients(comparison *c, const random_graph *g, const random_trial *t,
                              const random_window *w, const spread *s) {
  /* A parameter that several ops read has as many additions. */
  const double additions = 4 * ceil((double)g->recipe.batch / (double)t->micro_batch),
               /* Their errors are as often up as down, in thousands of elements. */
      together = 4e-3 * sqrt(additions);
  bool any_summed = false;
  double squares = 0, noisy_norm[MANY_RUNS] = {0}, exact = 0, elements = 0;
  for (int p = 0; p < s->exact.parameters; p++) {
    const double *want = s->exact.gradient[p];
    double *noisy[MANY_RUNS];
    if (!w->gradient[p]) continue;
    if (!want) {
      fail(c->verdict, "%s has a gradient, but the loss does not depend on it",
           parameter_name(g, p));
      return;
    }
    for (int k = 0; k < s->runs; k++) noisy[k] = s->noisy[k].gradient[p];
    double floor = 1e-9 * s->exact.norm + loss_floor(s) * s->exact.weight;
    const bool summed = t->summed[p];
    any_summed |= summed;
    judge_array(c, "gradient", parameter_name(g, p), s->exact.count[p], w->gradient[p], want, noisy,
                floor + (summed ? sum_floor(want, s->exact.count[p], additions) : 0));
    judge_length(c, parameter_name(g, p), s->exact.count[p], w->gradient[p], want, noisy, floor,
                 summed ? together : 0);
    elements += (double)s->exact.count[p];
    for (int64_t e = 0; e < s->exact.count[p]; e++) {
      squares += (double)w->gradient[p][e] * (double)w->gradient[p][e];
      exact += want[e] * want[e];
      for (int k = 0; k < s->runs; k++) noisy_norm[k] += noisy[k][e] * noisy[k][e];
    }
  }
  double weight = s->exact.weight;
  for (int k = 0; k < s->runs; k++) noisy_norm[k] = sqrt(noisy_norm[k]) / weight;
  judge_scalar(c, "grad_norm", w->update.grad_norm, sqrt(exact) / weight, noisy_norm,
               loss_floor(s) * sqrt(elements) + (any_summed ? together * sqrt(exact) / weight : 0));
  judge(c, "grad_norm of the gradients", "", 0, w->update.grad_norm, sqrt(squares) / weight,
        1e-5 * sqrt(squares) / weight + 1e-12);
}

/* Every parameter that the loss depends on has a gradient unless it is frozen. */
static void compare_presence(comparison *c, const random_graph *g, const random_trial *t,
                             const random_window *w, const spread *s) {
  for (int p = 0; p < s->exact.parameters; p++) {
    bool frozen = t->frozen[p] || ac_tensor_at(g->graph, g->graph->parameters[p])->desc.frozen;
    if (s->exact.gradient[p] && !frozen && !w->gradient[p])
      fail(c->verdict, "%s has no gradient, but the loss depends on it", parameter_name(g, p));
    if (frozen && w->gradient[p])
      fail(c->verdict, "%s has a gradient, but is frozen", parameter_name(g, p));
  }
}

static void compare_running(comparison *c, const random_graph *g, const random_window *w,
                            const spread *s) {
  for (int p = 0; p < s->exact.parameters; p++) {
    double *noisy[MANY_RUNS];
    if (!s->exact.running[p]) continue;
    for (int k = 0; k < s->runs; k++) noisy[k] = s->noisy[k].running[p];
    judge_array(c, "running statistics", parameter_name(g, p), s->exact.count[p], w->weights[p],
                s->exact.running[p], noisy, 1e-9);
  }
}

/* ---- updates --------------------------------------------------------------------------------- */

/* To the values that those within the tolerance are rounded to. */
static void widen_by_chance(double *want, double *tolerance, const char *name, uint32_t update,
                            int64_t e) {
  const double chance = op_chance(RANDOM_SEED ^ ac_hash_text(name), 0, update, 1, e);
  const double low = op_round_by_chance(*want - *tolerance, chance),
               high = op_round_by_chance(*want + *tolerance, chance);
  *want = (low + high) / 2;
  *tolerance = high - low; /* less than to the next */
}

/* `want` becomes the weights after the step and `tolerance` how far off these may be. */
static void step_reference(const random_stepping *step, const ac_tensor *tensor,
                           const random_trial *t, int p, const float *gradient, double *want,
                           double *const state[2], double *tolerance) {
  random_step_parameter(step, tensor, gradient, want, state, tolerance);
  for (int64_t e = 0; t->rounded[p] && e < t->count[p]; e++)
    widen_by_chance(&want[e], &tolerance[e], tensor->name, (uint32_t)step->update, e);
}

/* What clipping by one norm leaves of the gradients of a group with a clip of its own, and of all
 * others (last). */
static void clip_together(const random_choice *choice, const random_graph *g, const random_trial *t,
                          const random_window *w, double clip, double weight,
                          double left[RANDOM_GROUPS + 1]) {
  double squares[RANDOM_GROUPS + 1] = {0};
  for (int p = 0; p < t->parameters; p++) {
    const int group = random_group_of(choice, g, p);
    const int by =
        group >= 0 && random_group_settings(group, clip).clip > 0 ? group : RANDOM_GROUPS;
    for (int64_t e = 0; w->gradient[p] && e < t->count[p]; e++)
      squares[by] += pow((double)w->gradient[p][e], 2);
  }
  for (int k = 0; k <= RANDOM_GROUPS; k++) {
    const double own = k < RANDOM_GROUPS ? random_group_settings(k, clip).clip : clip,
                 norm = sqrt(squares[k]) / weight;
    left[k] = own > 0 && norm > own ? own / norm : 1;
  }
}

/* Steps from the library's own gradients; `state` goes on from window to window. */
static void compare_weights(comparison *c, const random_graph *g, const random_choice *choice,
                            const random_trial *t, const random_window *w, float *const *before,
                            double *const state[2], const spread *s) {
  ac_plan_desc plan = {0};
  ac_trainer_desc trainer = {0};
  random_stepping step = {.optimizer = choice->level[RANDOM_optimizer],
                          .rate = random_rate(choice, g->rate, c->window),
                          .folded = t->gradients == AC_GRADIENTS_FOLDED,
                          .factors = t->factors,
                          .update = c->window};
  random_optimizer(choice, g->rate, &plan, &trainer);
  const double all_clip = trainer.optimizer.clip, rate = step.rate;
  const bool together = plan.optimizer.clipping == AC_CLIP_NORM;
  double left[RANDOM_GROUPS + 1];
  int64_t at = 0;
  clip_together(choice, g, t, w, together ? all_clip : 0, s->exact.weight, left);
  for (int p = 0; p < s->exact.parameters; at += s->exact.count[p++]) {
    const ac_tensor *tensor = ac_tensor_at(g->graph, g->graph->parameters[p]);
    const int group = random_group_of(choice, g, p);
    const ac_group_settings own = random_group_settings(group, all_clip);
    const double clip = own.clip > 0 ? own.clip : all_clip;
    step.decay = own.weight_decay > 0 ? own.weight_decay : random_decay(&trainer, tensor);
    step.rate = rate * fmax(0, own.rate);
    step.kind = t->stepping[p];
    if (!w->gradient[p] && s->exact.running[p]) continue;
    const int64_t count = s->exact.count[p];
    double *want = calloc((size_t)count, sizeof *want),
           *moments[2] = {state[0] + at, state[1] + at},
           *tolerance = calloc((size_t)count, sizeof *tolerance);
    for (int64_t e = 0; e < count; e++) want[e] = (double)before[p][e];
    if (w->gradient[p]) {
      float *gradient = malloc((size_t)count * sizeof *gradient);
      memcpy(gradient, w->gradient[p], (size_t)count * sizeof *gradient);
      step.factor = left[own.clip > 0 ? group : RANDOM_GROUPS] / s->exact.weight;
      random_clip(&plan, clip, tensor, before[p], gradient, &step.factor);
      step_reference(&step, tensor, t, p, gradient, want, moments, tolerance);
      free(gradient);
    }
    for (int64_t e = 0; e < count; e++)
      judge(c, "weight", tensor->name, e, (double)w->weights[p][e], want[e], tolerance[e] + 1e-30);
    free(want), free(tolerance);
  }
}

/* A window may be skipped where f16 can overflow; its weights are those before it. */
static void compare_skipped(comparison *c, const random_choice *choice, const random_trial *t,
                            const random_window *w, float *const *before, const spread *s) {
  const double half_of_f16 = 0x1p15;
  bool overflows = random_storage(choice) == AC_F16 &&
                   !(s->exact.largest * fmax(1, w->update.loss_scale) < half_of_f16);
  if (!overflows) fail(c->verdict, "window %d was skipped", c->window);
  for (int p = 0; p < t->parameters; p++)
    if (memcmp(w->weights[p], before[p], (size_t)t->count[p] * sizeof **before))
      fail(c->verdict, "window %d was skipped but moved parameter %d", c->window, p);
}

/* The weight of rows that a right run may classify otherwise: their largest logits are close, or
 * some noisy run does. Logits that are all one small value times weights come near no tie, but may
 * all round to 0. */
static double undecided(const spread *s) {
  const op_ties *exact = &s->exact.ties;
  double weight = 0;
  for (int i = 0; i < exact->call_count; i++) {
    bool open = exact->calls[i].close;
    for (int k = 0; k < s->runs && !open; k++)
      open = s->noisy[k].ties.calls[i].chosen != exact->calls[i].chosen;
    if (open && exact->calls[i].kind == OP_CALL_CLASS) weight += exact->calls[i].weight;
  }
  return weight;
}

/* The graph's metric, if it has one. */
static void compare_metric(comparison *c, const ac_metric *metrics, int count, const spread *s) {
  if (!count || may_find_others(s, OP_CALL_HIT)) return;
  if (s->exact.hits_of > 0)
    judge(c, "metric", "hits", 0, metrics->value, s->exact.hits / s->exact.hits_of, 1e-6);
}

static void compare_evaluation(comparison *c, const random_graph *g, const random_trial *t) {
  spread s;
  random_run run = {.count = RANDOM_WINDOWS * g->recipe.batch,
                    .micro_batch = RANDOM_WINDOWS * g->recipe.batch};
  evaluate(&s, g, run,
           c->precision == 0   ? AC_F32
           : c->precision == 1 ? AC_F16
                               : AC_BF16,
           &default_scaling, t->windows[RANDOM_WINDOWS - 1].weights, c->runs);
  double loss[MANY_RUNS], weight = s.exact.weight;
  for (int k = 0; k < s.runs; k++) loss[k] = s.noisy[k].loss / weight;
  if (!(s.exact.largest < too_large) || may_find_others(&s, OP_CALL_ID)) {
    c->counts->near_ties++;
    spread_free(&s);
    return;
  }
  c->window = -1;
  judge(c, "evaluation's weight", "", 0, t->evaluation.weight, weight, 1e-6 * weight);
  judge_scalar(c, "evaluation's loss", t->evaluation.loss, s.exact.loss / weight, loss,
               1e-7 * s.exact.largest);
  judge(c, "accuracy", "", 0, t->evaluation.accuracy, s.exact.correct / weight,
        undecided(&s) / weight + 1e-6);
  compare_metric(c, t->evaluation.metrics, t->evaluation.metric_count, &s);
  spread_free(&s);
}

static void look(random_verdict *v, random_counts *counts, const random_graph *g,
                 const random_choice *choice, const random_trial *t, int runs) {
  comparison c = {v, counts, choice->level[RANDOM_precision], 0, runs};
  int64_t all = 0;
  for (int p = 0; p < t->parameters; p++) all += t->count[p];
  double *state[2];
  for (int k = 0; k < 2; k++) state[k] = calloc((size_t)all + 1, sizeof *state[k]);
  ac_plan_desc plan = {0};
  ac_trainer_desc trainer = {0};
  random_optimizer(choice, g->rate, &plan, &trainer);
  for (int w = 0; w < RANDOM_WINDOWS && !v->text[0]; w++) {
    float *const *before = w ? t->windows[w - 1].weights : t->start;
    random_run run = {.first = w * g->recipe.batch,
                      .count = g->recipe.batch,
                      .micro_batch = t->normalised,
                      .update = (uint32_t)w,
                      .training = true};
    spread s;
    c.window = w;
    evaluate(&s, g, run, random_storage(choice), &trainer.loss_scaling, before, c.runs);
    if (t->windows[w].update.skipped) {
      counts->near_ties++;
      compare_skipped(&c, choice, t, &t->windows[w], before, &s);
    } else {
      if (is_tied(&s) || may_find_others(&s, OP_CALL_ID) || !(s.exact.largest < too_large))
        counts->near_ties++;
      else {
        const ac_update *u = &t->windows[w].update;
        compare_sums(&c, u, &s);
        compare_metric(&c, u->metrics, u->metric_count, &s);
        compare_presence(&c, g, t, &t->windows[w], &s);
        compare_gradients(&c, g, t, &t->windows[w], &s);
        compare_running(&c, g, &t->windows[w], &s);
      }
      compare_weights(&c, g, choice, t, &t->windows[w], before, state, &s);
    }
    spread_free(&s);
  }
  if (!v->text[0]) compare_evaluation(&c, g, t);
  free(state[0]), free(state[1]);
}

void random_compare(random_verdict *v, random_counts *counts, const random_graph *g,
                    const random_choice *choice, const random_trial *t) {
  random_counts first = *counts;
  if (t->status != AC_OK) {
    fail(v, "%s: %s", ac_status_name(t->status), t->message);
    return;
  }
  look(v, counts, g, choice, t, FEW_RUNS);
  if (!v->text[0]) return;
  v->text[0] = 0;
  *counts = first;
  counts->second_looks++;
  look(v, counts, g, choice, t, MANY_RUNS);
}

/* ---- bits ------------------------------------------------------------------------------------ */

static bool same_arrays(float *const *a, float *const *b, const random_trial *t, int *parameter) {
  for (int p = 0; p < t->parameters; p++) {
    *parameter = p;
    if (!a[p] != !b[p]) return false;
    if (a[p] && memcmp(a[p], b[p], (size_t)t->count[p] * sizeof **a)) return false;
  }
  return true;
}

void random_compare_bits(random_verdict *v, const char *what, const random_graph *g,
                         const random_trial *a, const random_trial *b) {
  int p = 0;
  if (b->status != AC_OK) fail(v, "%s: %s", what, b->message);
  for (int w = 0; w < RANDOM_WINDOWS && !v->text[0]; w++) {
    const ac_update *x = &a->windows[w].update, *y = &b->windows[w].update;
    if (!same_arrays(a->windows[w].gradient, b->windows[w].gradient, a, &p))
      fail(v, "%s changes bits of window %d: the gradient of %s", what, w, parameter_name(g, p));
    if (x->loss != y->loss || x->weight != y->weight || x->grad_norm != y->grad_norm)
      fail(v,
           "%s changes bits of window %d: loss %.9g and %.9g, weight %.9g and %.9g, norm %.9g "
           "and %.9g",
           what, w, x->loss, y->loss, x->weight, y->weight, x->grad_norm, y->grad_norm);
    if (!same_arrays(a->windows[w].weights, b->windows[w].weights, a, &p))
      fail(v, "%s changes bits of window %d: %s", what, w, parameter_name(g, p));
  }
  const ac_evaluation *x = &a->evaluation, *y = &b->evaluation;
  bool same = x->loss == y->loss && x->weight == y->weight && x->accuracy == y->accuracy;
  if (!v->text[0] && !same) fail(v, "%s changes bits of the evaluation", what);
}
