/* The gradient of a mean over B samples has the expected squared norm |G|^2 + tr(Sigma) / B, with G
 * the true gradient and Sigma the covariance of a single sample's. A window has two means: over its
 * first micro-batch of b samples, and over all B samples. Two equations give estimates without a
 * bias (arXiv 1812.06162, appendix A.1, with b and B for B_small and B_big):
 *
 *   |G|^2     = (B |G_B|^2 - b |G_b|^2) / (B - b)
 *   tr(Sigma) = (|G_b|^2 - |G_B|^2) / (1/b - 1/B)
 *
 * Each of N ranks has a first micro-batch of its own, so a window of one micro-batch a rank has two
 * means as well. The expected mean of their squared norms is |G|^2 + tr(Sigma) mean(1/b_r). So with
 *
 *   |G_b|^2 = sum_r |G_{b_r}|^2 / N,   1/b = sum_r (1/b_r) / N
 *
 * over the N ranks that have a sample, the two equations hold for shares of any sizes.
 *
 * Both are averaged over windows first and then divided, because the ratio of two noisy numbers has
 * a bias. Means are weighted, so b and B are also weights, in units of the window's mean weight of
 * a sample.
 *
 * A measurement costs one more pass over the gradients, like the one at the end of a window. The
 * time of that pass and of a window is computed by a fixed model of an average device, not measured
 * by a clock, so that a run repeats. Windows are measured so seldom that this costs at most 1 % of
 * the time. */
#include "observe/noise.h"

#include "core/share.h"
#include "plan/cost.h"

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

/* A window in one piece has only one on a rank. Of one that goes through sections no gradient of a
 * part is known alone. */
static bool has_two_means(const ac_plan *plan) {
  if (plan->problem.in_sections) return false;
  return plan->info.ranks > 1 || !plan->main.whole_window;
}

static ac_status begin(void *record, const ac_watch_setup *setup) {
  const ac_plan *plan = setup->plan;
  ac_noise *noise = record;
  ac_cost_model model;
  const int64_t every = setup->desc->noise_every;
  noise->possible = every != 0 && plan->way->has_noise && has_two_means(plan);
  if (!noise->possible) return AC_OK;
  noise->every = every > 0 ? every : 0;
  ac_cost_guess(&model);
  noise->pass_seconds = phase_seconds(plan, &model, AC_PHASE_MICRO_BATCH);
  noise->measure_seconds = phase_seconds(plan, &model, AC_PHASE_REDUCE) + read_back;
  noise->end_seconds = noise->measure_seconds;
  /* Ranks step parts that are not alike; they are to measure the same windows. */
  if (plan->info.ranks < 2) noise->end_seconds += phase_seconds(plan, &model, AC_PHASE_UPDATE);
  return AC_OK;
}

/* How many updates are between two measurements, with the current batch. A rank computes its share
 * of it. */
static int64_t updates_between(const ac_noise *noise, const ac_window_view *view) {
  if (noise->every) return noise->every;
  const int64_t share = ac_share_most(view->run->batch, view->plan->info.ranks);
  const double passes = (double)share / (double)view->plan->info.micro_batch;
  const double window = ceil(passes) * noise->pass_seconds + noise->end_seconds;
  return (int64_t)ceil(noise->measure_seconds / (most_share * window));
}

static bool is_due(const void *record, const ac_window_view *view) {
  const ac_noise *noise = record;
  const ac_run *run = view->run;
  return noise->possible && run->samples < run->batch &&
         run->updates % updates_between(noise, view) == 0;
}

bool ac_noise_has_parts(const ac_plan *plan, int64_t batch) {
  return batch > (plan->info.ranks > 1 ? 1 : plan->info.micro_batch);
}

/* ---- a window -------------------------------------------------------------------------------- */

static void measure_first(void *record, const ac_window_view *view) {
  ac_noise *noise = record;
  const double squares = view->norm * view->norm;
  if (!isfinite(squares)) return; /* too large for a double, and for states */
  noise->first_samples = view->run->samples;
  noise->first_weight = view->weight;
  noise->first_squares = squares;
  noise->first_count = 1;
  noise->first_inverse = 1 / view->weight;
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

double ac_noise_first_mean(const ac_noise *noise, double sum) {
  return noise->first_count > 1 ? sum / (double)noise->first_count : sum;
}

double ac_noise_first(const ac_noise *noise, const ac_window_view *view) {
  const double weight = noise->first_count > 1 ? (double)noise->first_count / noise->first_inverse
                                               : noise->first_weight;
  return weight * (double)view->run->samples / view->weight;
}

static void take(ac_noise *noise, const ac_window_view *view, const ac_update *update) {
  const double all = (double)view->run->samples, squares = update->grad_norm * update->grad_norm;
  const double first = ac_noise_first(noise, view),
               first_squares = ac_noise_first_mean(noise, noise->first_squares);
  noise->counted = false;
  if (update->skipped) return;
  /* A window without weight after its first micro-batch tells nothing. */
  if (!noise->first_samples || !(all - first > 1e-6 * all) || !isfinite(squares)) return;
  if (!ac_noise_add(&noise->averages, first_squares, squares, first, all)) return;
  noise->counted = true;
  noise->count++;
}

static void after(void *record, const ac_window_view *view, ac_update *update) {
  ac_noise *noise = record;
  take(noise, view, update);
  update->noise_scale = ac_noise_scale_of(&noise->averages, noise->count).batch;
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

/* ---- states ---------------------------------------------------------------------------------- */

static bool is_kept(const void *record) {
  const ac_noise *noise = record;
  return noise->possible || noise->count > 0;
}

static void anew(void *record) {
  ac_noise *noise = record;
  noise->first_samples = noise->count = 0;
  noise->first_weight = noise->first_squares = noise->first_inverse = 0;
  noise->first_count = 0;
  noise->averages = (ac_noise_averages){0};
}

static void came(void *record) {
  ac_noise *noise = record;
  noise->first_count = noise->first_samples > 0;
  noise->first_inverse = noise->first_count ? 1 / noise->first_weight : 0;
}

static const char *check(const void *record, const ac_run *run) {
  const ac_noise *noise = record;
  if (noise->first_samples > run->samples) return "noise.first_samples";
  return noise->first_samples && !(noise->first_weight > 0) ? "noise.first_weight" : NULL;
}

#define FIELD(key, kind, member, most) AC_STATE_FIELD(key, kind, ac_noise, member, most)
static const ac_state_field fields[] = {
    FIELD("noise.first_samples", AC_COUNT, first_samples, AC_MOST_COUNT),
    FIELD("noise.first_weight", AC_SQUARE, first_weight, 0),
    FIELD("noise.first_squares", AC_SQUARE, first_squares, 0),
    FIELD("noise.count", AC_COUNT, count, AC_MOST_COUNT),
    FIELD("noise.g", AC_FINITE, averages.g, 0),
    FIELD("noise.s", AC_FINITE, averages.s, 0),
    FIELD("noise.gg", AC_SQUARE, averages.gg, 0),
    FIELD("noise.gs", AC_FINITE, averages.gs, 0),
    FIELD("noise.ss", AC_SQUARE, averages.ss, 0),
    {0}};

const ac_watcher ac_watcher_noise = {
    .record = {.fields = fields, .is_kept = is_kept, .anew = anew, .came = came, .check = check},
    .bytes = sizeof(ac_noise),
    .sums = {{.number = {.kind = AC_COUNT, .offset = offsetof(ac_noise, first_samples)}},
             {.number = {.kind = AC_REAL, .offset = offsetof(ac_noise, first_weight)}},
             {.number = {.kind = AC_REAL, .offset = offsetof(ac_noise, first_squares)}},
             {.number = {.kind = AC_COUNT, .offset = offsetof(ac_noise, first_count)}},
             {.number = {.kind = AC_REAL, .offset = offsetof(ac_noise, first_inverse)}}},
    .begin = begin,
    .wants_first = is_due,
    .first = measure_first,
    .after = after};
