/* The gradient of a mean over B samples has the expected squared norm |G|^2 + tr(Sigma) / B, with G
 * the true gradient and Sigma the covariance of a single sample's. A window has two means: over its
 * first micro-batch of b samples, and over all B samples. Two equations give estimates without a
 * bias:
 *
 *   |G|^2     = (B |G_B|^2 - b |G_b|^2) / (B - b)
 *   tr(Sigma) = (|G_b|^2 - |G_B|^2) / (1/b - 1/B)
 *
 * Both are averaged over windows first and then divided, because the ratio of two noisy numbers has
 * a bias. Means are weighted, so b and B are also weights, in units of the window's mean weight of
 * a sample.
 *
 * A measurement costs one more pass over the gradients, like the one at the end of a window. The
 * time of that pass and of a window is computed by a fixed model of an average device, not measured
 * by a clock, so that a run repeats. Windows are measured so seldom that this costs at most 1 % of
 * the time. */
#include "train/noise.h"

#include "core/error.h"
#include "plan/cost.h"
#include "train/trainer.h"

#include <math.h>

/* Each window keeps this part of an average. The latest 200 windows weigh most. */
static const double stays = 0.995;
static const double most_share = 0.01;
/* Bringing a few numbers to the host lets the device run dry: about ten launches' time. */
static const double read_back = 20e-6;

/* ---- when ------------------------------------------------------------------------------------ */

static double phase_seconds(const ac_plan *plan, const ac_cost_model *model, ac_phase phase) {
  const ac_sequence *main = &plan->main;
  double seconds = 0;
  for (int i = main->begin[phase]; i < main->begin[phase + 1]; i++)
    seconds += ac_cost_step_seconds(model, plan->graph, &main->steps[i], plan->info.micro_batch);
  return seconds;
}

ac_status ac_noise_begin(ac_trainer *trainer) {
  const ac_plan *plan = trainer->instance.plan;
  ac_noise *noise = &trainer->noise;
  ac_cost_model model;
  const int64_t every = trainer->desc.noise_every;
  noise->possible = every != 0 && plan->way->keeps && !plan->main.whole_window;
  AC_TRY(ac_noise_layers_begin(trainer));
  if (!noise->possible) return AC_OK;
  noise->every = every > 0 ? every : 0;
  ac_cost_guess(&model);
  noise->pass_seconds = phase_seconds(plan, &model, AC_PHASE_MICRO_BATCH);
  noise->measure_seconds = phase_seconds(plan, &model, AC_PHASE_REDUCE) + read_back;
  noise->end_seconds = noise->measure_seconds + phase_seconds(plan, &model, AC_PHASE_UPDATE);
  return AC_OK;
}

/* How many updates are between two measurements, with the current batch. */
static int64_t updates_between(const ac_trainer *trainer) {
  const ac_noise *noise = &trainer->noise;
  if (noise->every) return noise->every;
  const double passes = (double)trainer->batch / (double)trainer->instance.plan->info.micro_batch;
  const double window = ceil(passes) * noise->pass_seconds + noise->end_seconds;
  return (int64_t)ceil(noise->measure_seconds / (most_share * window));
}

static bool is_due(const ac_trainer *trainer) {
  return trainer->noise.possible && trainer->window_samples < trainer->batch &&
         trainer->updates % updates_between(trainer) == 0;
}

/* ---- a window -------------------------------------------------------------------------------- */

ac_status ac_noise_measure(ac_trainer *trainer) {
  ac_noise *noise = &trainer->noise;
  ac_instance *instance = &trainer->instance;
  ac_noise_leave(trainer);
  if (!is_due(trainer)) return AC_OK;
  trainer->reduced_weight = 0; /* what the last window left goes */
  AC_TRY(ac_instance_run_phase(instance, AC_PHASE_REDUCE));
  AC_TRY(ac_instance_fetch_control(instance));
  const double weight = ac_instance_total_loss(instance, trainer->window_samples).weight;
  const ac_gradient_report report = ac_trainer_read_statistics(trainer);
  if (!report.finite || !(weight > 0)) return AC_OK;
  noise->first_samples = trainer->window_samples;
  noise->first_weight = weight;
  noise->first_squares = report.norm / weight * (report.norm / weight);
  if (!isfinite(noise->first_squares)) { /* too large for a double, and for states */
    ac_noise_leave(trainer);
    return AC_OK;
  }
  ac_noise_layers_measure(trainer, weight);
  return AC_OK;
}

static double average(double before, double now) {
  return stays * before + (1 - stays) * now;
}

bool ac_noise_add(ac_noise_averages *a, double b_squares, double B_squares, double b, double B) {
  const double g = (B * B_squares - b * b_squares) / (B - b),
               s = (b_squares - B_squares) / (1 / b - 1 / B);
  if (!isfinite(g * g) || !isfinite(s * s)) return false;
  *a = (ac_noise_averages){.g = average(a->g, g),
                           .s = average(a->s, s),
                           .gg = average(a->gg, g * g),
                           .gs = average(a->gs, g * s),
                           .ss = average(a->ss, s * s)};
  return true;
}

void ac_noise_leave(ac_trainer *trainer) {
  ac_noise *noise = &trainer->noise;
  noise->first_samples = 0;
  noise->first_weight = noise->first_squares = 0;
  ac_noise_layers_leave(trainer);
}

void ac_noise_take(ac_trainer *trainer, const ac_update *update) {
  ac_noise *noise = &trainer->noise;
  const double all = (double)trainer->window_samples,
               squares = update->grad_norm * update->grad_norm;
  const double first = noise->first_weight * all / update->weight;
  /* A window without weight after its first micro-batch tells nothing. */
  if (!noise->first_samples || !(all - first > 1e-6 * all) || !isfinite(squares)) return;
  if (!ac_noise_add(&noise->averages, noise->first_squares, squares, first, all)) return;
  noise->count++;
  ac_noise_layers_take(trainer, first, all);
}

/* ---- what has come of it --------------------------------------------------------------------- */

/* The variance of a ratio of means to first order, from the spread of what went into them. An
 * average is worth as many windows as 1 / (sum of squared weights). */
static double deviation_of(const ac_noise_averages *a, double ratio, double corrected,
                           double last) {
  const double weights = (1 - stays) / (1 + stays) * (1 - last * last) / (corrected * corrected);
  const double gg = a->gg / corrected - a->g / corrected * (a->g / corrected),
               gs = a->gs / corrected - a->g / corrected * (a->s / corrected),
               ss = a->ss / corrected - a->s / corrected * (a->s / corrected);
  const double spread = (ss - 2 * ratio * gs + ratio * ratio * gg) / (1 - weights);
  return sqrt(fmax(spread, 0) * weights) / (a->g / corrected);
}

ac_noise_scale ac_noise_scale_of(const ac_noise_averages *a, int64_t windows) {
  ac_noise_scale result = {.windows = windows,
                           .gradient_squares = (double)NAN,
                           .variance = (double)NAN,
                           .batch = (double)NAN,
                           .deviation = (double)NAN};
  if (!windows) return result;
  const double last = pow(stays, (double)windows), corrected = 1 - last;
  result.gradient_squares = a->g / corrected;
  result.variance = a->s / corrected;
  if (!(a->g > 0)) return result;
  result.batch = fmax(a->s, 0) / a->g;
  if (windows > 1) result.deviation = deviation_of(a, result.batch, corrected, last);
  return result;
}

ac_status ac_trainer_noise_scale(const ac_trainer *trainer, ac_noise_scale *result) {
  AC_REQUIRE(trainer, result);
  *result = ac_noise_scale_of(&trainer->noise.averages, trainer->noise.count);
  return AC_OK;
}
