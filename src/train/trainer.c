/* Windows. accumulate: every micro-batch adds its gradient sums. update: one pass over the
 * gradients yields their norm and whether all is finite, one small read-back brings that and the
 * loss sums to the host, and only then are parameters and moments touched. With S the factor of the
 * loss gradient and W the window's weight, the device holds S * (sum of gradients); the factor clip
 * / (S W) is folded into the optimizer's kernel. S is the loss scale by the weight that a whole
 * window has at most, up to a power of two, and changes between windows only. With several losses
 * W is the number of samples, S goes by these, and each loss has a share of S (losses.c). */
#include "train/trainer.h"

#include "core/error.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ------------------------------------------------------------------------------------ */

static double or_default(double value, double fallback) {
  return value == 0 ? fallback : value < 0 ? 0 : value;
}

static ac_status check_schedule(const ac_schedule *s, double lr) {
  if (s->kind != AC_SCHEDULE_CONSTANT && s->kind != AC_SCHEDULE_COSINE)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: unknown kind of schedule %d", (int)s->kind);
  if (!isfinite(s->lr) || !isfinite(s->min_lr) || s->min_lr < 0 || s->warmup < 0)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: learning rates %g and %g and warm-up %lld must be "
                   "finite, and all but the first not negative",
                   s->lr, s->min_lr, (long long)s->warmup);
  if (s->kind == AC_SCHEDULE_CONSTANT) return AC_OK;
  if (s->total <= 0)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: a cosine schedule needs its number of updates");
  if (s->min_lr > lr)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: min_lr %g is above the learning rate %g", s->min_lr,
                   lr);
  return AC_OK;
}

static ac_status check_desc(ac_trainer_desc *desc, ac_optimizer_kind kind) {
  ac_optimizer_desc *o = &desc->optimizer;
  if (o->epsilon < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: epsilon %g must be positive", o->epsilon);
  o->beta1 = or_default(o->beta1, 0.9);
  o->beta2 = or_default(o->beta2, 0.999);
  o->epsilon = or_default(o->epsilon, 1e-8);
  o->momentum = or_default(o->momentum, 0.9);
  o->weight_decay = or_default(o->weight_decay, 0);
  o->clip = or_default(o->clip, 0);
  if (kind == AC_ADAMW && (!(o->beta1 < 1) || !(o->beta2 < 1)))
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: beta1 %g and beta2 %g must be below 1", o->beta1,
                   o->beta2);
  if (!isfinite(o->epsilon) || !isfinite(o->momentum) || !isfinite(o->weight_decay) ||
      isnan(o->clip))
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: an optimizer setting is not finite");
  if (desc->schedule.lr == 0 && kind == AC_SGD) desc->schedule.lr = 0.1;
  return check_schedule(&desc->schedule, or_default(desc->schedule.lr, 1e-3));
}

static float to_float(double x) {
  return x > (double)FLT_MAX ? INFINITY : (float)x;
}

/* Before a window begins. */
static void set_loss_scale(ac_trainer *trainer) {
  ac_instance *instance = &trainer->instance;
  bool one = trainer->division == AC_DIVIDE_ONE;
  int64_t per_sample = one ? instance->losses[0].rows.per_sample : 1;
  double rows = (double)(instance->plan->info.batch * per_sample);
  float scale = ac_scaler_factor(&trainer->scaler, rows);
  for (int k = 0; k < instance->plan->graph->loss_count; k++)
    trainer->loss_scales[k] = to_float((double)scale * trainer->shares[k]);
  instance->run.loss_scale = scale;
  instance->run.loss_scales = trainer->loss_scales;
}

/* For a window of these weights (NULL: of plain rows). */
static void set_shares(ac_trainer *trainer, int64_t samples, const double *weights) {
  ac_instance_loss_shares(&trainer->instance, samples, weights, trainer->shares);
  set_loss_scale(trainer);
}

/* Before anything is changed: an update steps every trained parameter once, and no other. */
static ac_status check_update(ac_trainer *trainer) {
  ac_status status = ac_plan_check_update(trainer->instance.plan, trainer->stepped);
  return status == AC_OK ? AC_OK : ac_fail_prefix(status, "trainer: nothing was changed");
}

static ac_status set_up(ac_trainer *trainer, const ac_plan *plan) {
  AC_TRY(ac_instance_create(&trainer->instance, plan));
  trainer->instance.run.seed = trainer->desc.seed;
  trainer->division = ac_instance_division(&trainer->instance);
  set_shares(trainer, 1, NULL);
  size_t parameters = (size_t)plan->graph->parameter_count + 1;
  trainer->stepped = calloc(parameters, sizeof *trainer->stepped);
  if (!trainer->stepped) return ac_fail(AC_ERROR_MEMORY, "no memory for a list of parameters");
  return ac_instance_initialise(&trainer->instance, trainer->desc.seed);
}

ac_status ac_trainer_create(ac_trainer **trainer, const ac_plan *plan,
                            const ac_trainer_desc *desc) {
  AC_CREATES(trainer);
  AC_REQUIRE(plan);
  if (plan->problem.desc.purpose != AC_TRAIN)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: the plan was not made for training");
  ac_trainer *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "no memory for a trainer");
  made->desc = AC_DESCRIBED(ac_trainer_desc, desc);
  made->nonfinite = -1;
  ac_status status = check_desc(&made->desc, plan->problem.desc.optimizer);
  if (status == AC_OK)
    status = ac_scaler_init(&made->scaler, &made->desc.loss_scaling, plan->problem.desc.precision);
  if (status == AC_OK) {
    const ac_wait wait = ac_instance_announce(plan);
    status = ac_wait_end(&wait, set_up(made, plan));
  }
  if (status != AC_OK) {
    ac_trainer_free(made);
    return status;
  }
  *trainer = made;
  return AC_OK;
}

void ac_trainer_free(ac_trainer *trainer) {
  if (!trainer) return;
  ac_instance_free(&trainer->instance);
  free(trainer->stepped);
  free(trainer);
}

/* ---- accumulate ------------------------------------------------------------------------------ */

/* What a callback that decides on an update may not do. */
ac_status ac_trainer_check_deciding(const ac_trainer *trainer) {
  if (!trainer->deciding) return AC_OK;
  return ac_fail(AC_ERROR_STATE, "trainer: the update of this window is being decided");
}

ac_status ac_trainer_check_usable(const ac_trainer *trainer) {
  AC_TRY(ac_trainer_check_deciding(trainer));
  AC_TRY(ac_instance_check_usable(&trainer->instance, "trainer"));
  if (!trainer->broken) return AC_OK;
  return ac_fail(AC_ERROR_STATE, "trainer: the window failed half way; discard it first");
}

void ac_trainer_set_window_scale(ac_trainer *trainer) {
  set_shares(trainer, trainer->whole_samples,
             trainer->division == AC_DIVIDE_WEIGHTS ? trainer->whole_weight : NULL);
}

static void begin_window(ac_trainer *trainer) {
  memset(trainer->fed_weight, 0, sizeof trainer->fed_weight);
  ac_trainer_set_window_scale(trainer);
}

/* Several losses of unequal weight come in a window that is known whole. */
static ac_status check_known(const ac_trainer *trainer, int64_t count) {
  if (trainer->division != AC_DIVIDE_WEIGHTS) return AC_OK;
  if (trainer->whole_samples && trainer->window_samples + count <= trainer->whole_samples)
    return AC_OK;
  if (trainer->instance.plan->problem.desc.loss_means == AC_LOSS_MEANS_GIVEN)
    return ac_fail(AC_ERROR_STATE,
                   "trainer: what the losses weigh in this window was not given for %lld samples "
                   "(ac_trainer_begin_window)",
                   (long long)(trainer->window_samples + count));
  return ac_fail(AC_ERROR_STATE,
                 "trainer: what the losses weigh was counted for a window of %lld samples; give "
                 "windows in one call, or their weights (ac_trainer_begin_window), or plan for "
                 "means per sample",
                 (long long)trainer->whole_samples);
}

ac_status ac_trainer_count_window(ac_trainer *trainer, const void *const *data, int64_t first,
                                  int64_t count) {
  if (trainer->division != AC_DIVIDE_WEIGHTS || trainer->window_samples > 0) return AC_OK;
  if (trainer->instance.plan->problem.desc.loss_means == AC_LOSS_MEANS_GIVEN) return AC_OK;
  double weights[AC_MAX_LOSSES] = {0};
  ac_instance_add_fed_weights(&trainer->instance, data, first, count, weights);
  memcpy(trainer->whole_weight, weights, sizeof weights);
  trainer->whole_samples = count;
  return AC_OK;
}

ac_status ac_trainer_begin_window(ac_trainer *trainer, int64_t samples, const double *weights,
                                  int weight_count) {
  AC_REQUIRE(trainer, weights);
  const ac_plan *plan = trainer->instance.plan;
  AC_TRY(ac_trainer_check_usable(trainer));
  if (trainer->window_samples > 0)
    return ac_fail(AC_ERROR_STATE, "trainer: a window is in progress");
  if (trainer->division != AC_DIVIDE_WEIGHTS ||
      plan->problem.desc.loss_means != AC_LOSS_MEANS_GIVEN)
    return ac_fail(AC_ERROR_STATE, "trainer: the plan was not made for weights that are given");
  if (samples < 1 || weight_count != plan->graph->loss_count)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: %d weights of %lld samples, but %d losses",
                   weight_count, (long long)samples, plan->graph->loss_count);
  for (int k = 0; k < weight_count; k++)
    if (!(weights[k] >= 0) || isinf(weights[k]))
      return ac_fail(AC_ERROR_ARGUMENT, "trainer: loss %s cannot weigh %g",
                     plan->graph->losses[k].name, weights[k]);
  memcpy(trainer->whole_weight, weights, (size_t)weight_count * sizeof *weights);
  trainer->whole_samples = samples;
  return AC_OK;
}

static ac_status accumulate_piece(ac_trainer *trainer, const void *const *data, int64_t first,
                                  int64_t count) {
  ac_instance *instance = &trainer->instance;
  instance->run.batch = count;
  instance->run.sample = (uint32_t)trainer->window_samples;
  instance->run.update = (uint32_t)trainer->updates;
  if (trainer->window_samples == 0) begin_window(trainer);
  ac_instance_add_fed_weights(instance, data, first, count, trainer->fed_weight);
  ac_status status = ac_instance_upload(instance, data, first, count);
  if (status == AC_OK)
    status = ac_instance_run(instance, &instance->main, trainer->window_samples == 0);
  if (status == AC_OK) trainer->window_samples += count;
  else trainer->broken = true;
  return status;
}

/* A plan that keeps batches or windows whole takes a window in one piece. */
static ac_status check_pieces(const ac_trainer *trainer, int64_t count) {
  const ac_plan *plan = trainer->instance.plan;
  int node = plan->problem.coupled;
  bool whole = trainer->window_samples == 0 && count <= plan->info.micro_batch;
  if (whole) return AC_OK;
  if (plan->main.whole_window)
    return ac_fail(AC_ERROR_STATE,
                   "trainer: the plan was made for whole windows of at most %lld samples, each in "
                   "one piece",
                   (long long)plan->info.micro_batch);
  if (node < 0) return AC_OK;
  char text[128];
  return ac_fail(AC_ERROR_STATE,
                 "trainer: %s takes a window of at most %lld samples in one piece, as the plan was "
                 "made to keep batches whole",
                 ac_node_text(text, sizeof text, plan->graph, ac_node_at(plan->graph, node)),
                 (long long)plan->info.micro_batch);
}

ac_status ac_trainer_accumulate(ac_trainer *trainer, int64_t count, const ac_feed *feeds,
                                int feed_count) {
  AC_REQUIRE(trainer);
  if (feed_count > 0) AC_REQUIRE(feeds);
  const void *data[AC_MAX_GRAPH_INPUTS];
  AC_TRY(ac_trainer_check_usable(trainer));
  AC_TRY(ac_instance_match_feeds(&trainer->instance, count, feeds, feed_count, data));
  AC_TRY(check_pieces(trainer, count));
  AC_TRY(ac_trainer_count_window(trainer, data, 0, count));
  AC_TRY(check_known(trainer, count));
  int64_t micro_batch = trainer->instance.plan->info.micro_batch;
  for (int64_t first = 0; first < count; first += micro_batch) {
    int64_t piece = count - first < micro_batch ? count - first : micro_batch;
    AC_TRY(accumulate_piece(trainer, data, first, piece));
  }
  return AC_OK;
}

ac_status ac_trainer_accumulate_data(ac_trainer *trainer, const void *const *data, int64_t first,
                                     int64_t count) {
  AC_TRY(ac_trainer_check_usable(trainer));
  AC_TRY(ac_instance_check(&trainer->instance, data, first, count));
  AC_TRY(check_pieces(trainer, count));
  AC_TRY(check_known(trainer, count));
  return accumulate_piece(trainer, data, first, count);
}

ac_status ac_trainer_check_arena(const ac_trainer *trainer) {
  AC_TRY(ac_trainer_check_deciding(trainer));
  if (!trainer->instance.plan->main.whole_window || trainer->window_samples == 0) return AC_OK;
  return ac_fail(AC_ERROR_STATE,
                 "trainer: the window's gradients are where this would compute, as the plan was "
                 "made for whole windows; update or discard it first");
}

void ac_trainer_discard(ac_trainer *trainer) {
  if (!trainer || trainer->deciding) return;
  trainer->window_samples = trainer->whole_samples = 0;
  trainer->broken = false;
}

/* ---- update ---------------------------------------------------------------------------------- */

/* What one pass over the gradients yields. */
typedef struct gradient_report {
  double norm; /* of the sum of gradients, unscaled */
  bool finite;
} gradient_report;

static bool is_trained(const ac_trainer *trainer, int parameter) {
  return trainer->instance.plan->problem.parameters[parameter].gradient >= 0;
}

/* The phase `reduce`, and what it brings to the host. */
static ac_status reduce(ac_trainer *trainer) {
  ac_instance *instance = &trainer->instance;
  trainer->reduced_weight = 0;
  for (int i = 0; i < instance->plan->graph->parameter_count; i++)
    instance->updates[i].statistics.scale = 1 / instance->run.loss_scale;
  AC_TRY(ac_instance_run_phase(instance, AC_PHASE_REDUCE));
  AC_TRY(ac_numerics_collect(instance));
  return ac_instance_fetch_control(instance);
}

/* The host's copy of (sum of squares, whether something is not finite). */
static const float *statistics_of(const ac_trainer *trainer, const ac_cell *cell) {
  const ac_instance *instance = &trainer->instance;
  return instance->control_copy + (cell->address - instance->plan->control) / sizeof(float);
}

static gradient_report read_statistics(ac_trainer *trainer) {
  const ac_plan *plan = trainer->instance.plan;
  gradient_report report = {0, true};
  trainer->nonfinite = -1;
  for (int i = 0; i < plan->cell_count; i++) {
    const ac_cell *cell = &plan->cells[i];
    if (cell->role != AC_ROLE_STATISTICS) continue;
    const float *statistics = statistics_of(trainer, cell);
    report.norm += (double)statistics[0];
    if (statistics[1] == 0 && isfinite(statistics[0])) continue;
    report.finite = false;
    if (trainer->nonfinite < 0) trainer->nonfinite = cell->owner;
  }
  report.norm = sqrt(report.norm);
  return report;
}

/* Rank decides on weight decay. */
static void set_step(const ac_trainer *trainer, const ac_tensor *parameter, double factor,
                     double rate, ac_update_attributes *attributes) {
  const ac_optimizer_desc *o = &trainer->desc.optimizer;
  bool decays = parameter->shape.rank >= 2 && !parameter->desc.no_weight_decay;
  float decay = decays ? (float)o->weight_decay : 0;
  double t = (double)trainer->updates + 1;
  if (trainer->instance.plan->problem.desc.optimizer == AC_SGD)
    attributes->step.sgd = (ac_sgd_attributes){.gradient_factor = (float)factor,
                                               .rate = (float)rate,
                                               .weight_decay = decay,
                                               .momentum = (float)o->momentum,
                                               .nesterov = o->nesterov,
                                               .first = trainer->updates == 0};
  else
    attributes->step.adamw =
        (ac_adamw_attributes){.gradient_factor = (float)factor,
                              .rate = (float)rate,
                              .weight_decay = decay,
                              .beta1 = (float)o->beta1,
                              .beta2 = (float)o->beta2,
                              .epsilon = (float)o->epsilon,
                              .correction1 = (float)(1 - pow(o->beta1, t)),
                              .sqrt_correction2 = (float)sqrt(1 - pow(o->beta2, t))};
}

/* The phase `update`. */
static ac_status step_parameters(ac_trainer *trainer, double factor, double rate) {
  ac_instance *instance = &trainer->instance;
  const ac_graph *graph = instance->plan->graph;
  for (int i = 0; i < graph->parameter_count; i++)
    if (is_trained(trainer, i))
      set_step(trainer, ac_tensor_at(graph, graph->parameters[i]), factor, rate,
               &instance->updates[i]);
  AC_TRY(ac_instance_run_phase(instance, AC_PHASE_UPDATE));
  AC_TRY(instance->device->backend->finish(instance->device->state));
  trainer->has_stepped = true;
  return AC_OK;
}

/* Whether no loss weighs so little that its gradient's factor is beyond floats. */
static bool scales_are_finite(const ac_trainer *trainer) {
  for (int k = 0; k < trainer->instance.plan->graph->loss_count; k++)
    if (!isfinite(trainer->loss_scales[k])) return false;
  return true;
}

static ac_status refuse_factor(double factor) {
  return ac_fail(AC_ERROR_ARGUMENT,
                 "trainer: nothing was changed, as gradients would be multiplied by %g", factor);
}

/* What the caller makes of it, who may look at everything but change nothing else. */
static ac_status ask_caller(ac_trainer *trainer, ac_decision *decision) {
  if (!trainer->desc.decide) return AC_OK;
  trainer->deciding = true;
  trainer->desc.decide(trainer->desc.user, trainer, decision);
  trainer->deciding = false;
  if (isfinite(decision->factor) && decision->factor >= 0) return AC_OK;
  return refuse_factor(decision->factor);
}

/* What was known before must have come true. */
static ac_status check_whole(const ac_trainer *trainer) {
  const ac_instance *instance = &trainer->instance;
  const ac_graph *graph = instance->plan->graph;
  const double tolerance = 1e-6;
  if (trainer->division != AC_DIVIDE_WEIGHTS || instance->device->backend->computes_nothing)
    return AC_OK;
  if (trainer->window_samples != trainer->whole_samples)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: the window has %lld samples, and what its losses weigh was given for "
                   "%lld; nothing was changed",
                   (long long)trainer->window_samples, (long long)trainer->whole_samples);
  for (int k = 0; k < graph->loss_count; k++) {
    double weight = ac_instance_loss_sums(instance, k).weight, given = trainer->whole_weight[k];
    if (isfinite(weight) && fabs(weight - given) > tolerance * given)
      return ac_fail(AC_ERROR_ARGUMENT,
                     "trainer: loss %s weighs %.9g, and %.9g was given; nothing was changed",
                     graph->losses[k].name, weight, given);
  }
  return AC_OK;
}

static ac_status reduce_and_check(ac_trainer *trainer) {
  ac_status status = reduce(trainer);
  if (status == AC_OK) status = check_update(trainer);
  if (status == AC_OK) status = ac_instance_check_weights(&trainer->instance, trainer->fed_weight);
  if (status == AC_OK) status = check_whole(trainer);
  trainer->broken = status != AC_OK; /* of a step of the window, perhaps, that fails late */
  return status;
}

static ac_decision propose(const ac_trainer *trainer, const ac_total_loss *total,
                           const gradient_report *report) {
  double norm = total->weighs ? report->norm / total->weight : 0;
  double clip = trainer->desc.optimizer.clip;
  return (ac_decision){.loss = total->loss,
                       .weight = total->weight,
                       .grad_norm = report->finite ? norm : (double)INFINITY,
                       .finite = total->finite && report->finite,
                       .factor = clip > 0 && norm > clip ? clip / norm : 1};
}

static ac_update begin_report(const ac_trainer *trainer, const ac_total_loss *total,
                              const gradient_report *report, const ac_decision *decision) {
  ac_update update = {.loss = total->loss,
                      .weight = total->weight,
                      .lr = ac_schedule_rate(&trainer->desc.schedule, trainer->updates),
                      .grad_norm = decision->grad_norm,
                      .loss_scale = (double)trainer->scaler.scale,
                      .finite_loss = total->finite,
                      .finite_gradient = report->finite,
                      .loss_count = trainer->instance.plan->graph->loss_count};
  memcpy(update.losses, total->losses, sizeof update.losses);
  return update;
}

static ac_status update_parameters(ac_trainer *trainer, ac_update *result) {
  AC_TRY(reduce_and_check(trainer));
  const ac_total_loss total = ac_instance_total_loss(&trainer->instance, trainer->window_samples);
  gradient_report report = read_statistics(trainer);
  trainer->reduced_weight = total.weight;
  ac_decision decision = propose(trainer, &total, &report);
  ac_update update = begin_report(trainer, &total, &report, &decision);
  AC_TRY(ask_caller(trainer, &decision));
  double factor = 1 / ((double)trainer->instance.run.loss_scale * total.weight);
  /* A weight near zero would blow a factor up beyond floats, at whatever loss scale. */
  bool scaled = scales_are_finite(trainer);
  bool overflow = scaled && (!update.finite_loss || !update.finite_gradient);
  bool hopeless = overflow || !scaled || !total.weighs || !isfinite(to_float(factor));
  if (decision.factor != 1) factor *= decision.factor;
  if (!hopeless && !isfinite(to_float(factor))) return refuse_factor(factor);
  update.skipped = hopeless || decision.skip;
  if (!update.skipped) {
    ac_status status = step_parameters(trainer, factor, update.lr);
    if (status != AC_OK)
      trainer->instance.unusable =
          "an update failed when only some parameters were stepped; load a state, or go on from "
          "saved parameters with another trainer";
    AC_TRY(status);
    trainer->updates++;
  }
  if (overflow || !update.skipped) ac_scaler_update(&trainer->scaler, overflow);
  set_loss_scale(trainer);
  trainer->window_samples = trainer->whole_samples = 0;
  update.update = trainer->updates;
  update.stuck = overflow ? trainer->scaler.stuck : hopeless && total.weighs;
  if (result) *result = update;
  return AC_OK;
}

double ac_trainer_gradient_norm(const ac_trainer *trainer, int index) {
  const ac_plan *plan = trainer ? trainer->instance.plan : NULL;
  const ac_cell *cell = plan ? ac_plan_cell(plan, AC_ROLE_STATISTICS, index, 0) : NULL;
  if (!cell || !(trainer->reduced_weight > 0)) return 0;
  return sqrt((double)statistics_of(trainer, cell)[0]) / trainer->reduced_weight;
}

ac_status ac_trainer_update(ac_trainer *trainer, ac_update *result) {
  AC_REQUIRE(trainer);
  AC_TRY(ac_trainer_check_usable(trainer));
  if (trainer->window_samples == 0)
    return ac_fail(AC_ERROR_STATE, "trainer: nothing was accumulated since the last update");
  if (trainer->has_stepped) return update_parameters(trainer, result);
  const ac_wait wait = ac_wait_begin(trainer->instance.device, "first update");
  return ac_wait_end(&wait, update_parameters(trainer, result));
}

/* ---- parameters and evaluation --------------------------------------------------------------- */

int ac_trainer_parameter_count(const ac_trainer *trainer) {
  return trainer ? trainer->instance.plan->graph->parameter_count : 0;
}

ac_status ac_trainer_parameter_info(const ac_trainer *trainer, int index, ac_tensor_info *info) {
  AC_REQUIRE(trainer, info);
  return ac_graph_parameter(trainer->instance.plan->graph, index, info);
}

int ac_trainer_find_parameter(const ac_trainer *trainer, const char *name) {
  return trainer && name ? ac_instance_find_parameter(&trainer->instance, name) : -1;
}

ac_status ac_trainer_get_parameter(ac_trainer *trainer, int index, int64_t first, int64_t count,
                                   float *data) {
  AC_REQUIRE(trainer);
  if (count > 0) AC_REQUIRE(data);
  AC_TRY(ac_instance_check_range(&trainer->instance, index, first, count));
  return ac_instance_read_parameter(&trainer->instance, index, first, count, data);
}

ac_status ac_trainer_set_parameter(ac_trainer *trainer, int index, int64_t first, int64_t count,
                                   const float *data) {
  AC_REQUIRE(trainer);
  if (count > 0) AC_REQUIRE(data);
  ac_instance *instance = &trainer->instance;
  AC_TRY(ac_trainer_check_deciding(trainer));
  AC_TRY(ac_instance_check_range(instance, index, first, count));
  return ac_instance_write_parameter(instance, index, first, count, data);
}

ac_status ac_trainer_get_gradient(ac_trainer *trainer, int index, int64_t first, int64_t count,
                                  float *data) {
  AC_REQUIRE(trainer);
  if (count > 0) AC_REQUIRE(data);
  AC_TRY(ac_instance_check_range(&trainer->instance, index, first, count));
  int gradient = trainer->instance.plan->problem.parameters[index].gradient;
  if (gradient < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "parameter %d is frozen or the loss does not depend on it",
                   index);
  if (trainer->window_samples == 0)
    return ac_fail(AC_ERROR_STATE, "trainer: nothing was accumulated since the last update");
  AC_TRY(ac_instance_read_floats(&trainer->instance, trainer->instance.persistent[gradient], AC_F32,
                                 first, count, data));
  float scale = trainer->instance.run.loss_scale;
  for (int64_t i = 0; scale != 1 && i < count; i++) data[i] /= scale;
  return AC_OK;
}

ac_status ac_trainer_save(ac_trainer *trainer, const char *path, const ac_metadata *metadata,
                          int metadata_count) {
  AC_REQUIRE(trainer, path);
  if (metadata_count > 0) AC_REQUIRE(metadata);
  AC_TRY(ac_instance_check_usable(&trainer->instance, "trainer"));
  return ac_instance_save(&trainer->instance, path, NULL, metadata, metadata_count);
}

ac_status ac_trainer_save_part(ac_trainer *trainer, const char *path, const char *pattern,
                               const ac_metadata *metadata, int metadata_count) {
  AC_REQUIRE(trainer, path, pattern);
  if (metadata_count > 0) AC_REQUIRE(metadata);
  AC_TRY(ac_instance_check_usable(&trainer->instance, "trainer"));
  return ac_instance_save(&trainer->instance, path, pattern, metadata, metadata_count);
}

static ac_status load(ac_trainer *trainer, const char *path, const char *pattern,
                      const char *optional_prefix) {
  AC_TRY(ac_trainer_check_deciding(trainer));
  return ac_instance_load(&trainer->instance, path, pattern, optional_prefix);
}

ac_status ac_trainer_load(ac_trainer *trainer, const char *path, const char *optional_prefix) {
  AC_REQUIRE(trainer, path);
  return load(trainer, path, NULL, optional_prefix);
}

ac_status ac_trainer_load_part(ac_trainer *trainer, const char *path, const char *pattern,
                               const char *optional_prefix) {
  AC_REQUIRE(trainer, path, pattern);
  return load(trainer, path, pattern, optional_prefix);
}

/* The loss sums of a window in progress share their memory with the evaluation's. */
ac_status ac_trainer_evaluate_until(ac_trainer *trainer, ac_dataset *dataset, int64_t limit,
                                    ac_stop *stop, ac_evaluation *result) {
  ac_instance *instance = &trainer->instance;
  ac_kept_sums sums;
  AC_TRY(ac_instance_check_usable(instance, "trainer"));
  AC_TRY(ac_trainer_check_arena(trainer));
  AC_TRY(ac_instance_keep_sums(instance, &sums));
  ac_status status =
      ac_instance_evaluate(instance, &instance->evaluation, dataset, limit, stop, result);
  ac_status restored = ac_instance_restore_sums(instance, &sums);
  if (restored != AC_OK) trainer->broken = true;
  return status != AC_OK ? status : restored;
}

ac_status ac_trainer_evaluate(ac_trainer *trainer, ac_dataset *dataset, int64_t limit,
                              ac_evaluation *result) {
  AC_REQUIRE(trainer, dataset, result);
  ac_stop never = {0};
  return ac_trainer_evaluate_until(trainer, dataset, limit, &never, result);
}
