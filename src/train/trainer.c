/* Windows. accumulate: every micro-batch adds its gradient sums. update: one pass over the
 * gradients yields their norm and whether all is finite, one small read-back brings that and the
 * loss sums to the host, and only then are parameters and moments touched. With S the factor of the
 * loss gradient and W the window's weight, the device holds S * (sum of gradients); the factor clip
 * / (S W) is folded into the optimizer's kernel. S is the loss scale by the weight that a whole
 * window has at most, up to a power of two, and changes between windows only. */
#include "train/trainer.h"

#include "core/error.h"
#include "ops/batch_norm.h"
#include "ops/optimizer.h"

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

/* Before a window begins. */
static void set_loss_scale(ac_trainer *trainer) {
  const ac_instance *instance = &trainer->instance;
  double rows = (double)(instance->plan->info.batch * instance->loss_rows.per_sample);
  trainer->instance.run.loss_scale = ac_scaler_factor(&trainer->scaler, rows);
}

/* In the order of the parameters. */
static ac_status list_steps(ac_trainer *trainer) {
  const ac_plan *plan = trainer->instance.plan;
  size_t count = (size_t)plan->graph->parameter_count + 1;
  trainer->steps = calloc(count, sizeof *trainer->steps);
  trainer->stepped = calloc(count, sizeof *trainer->stepped);
  if (!trainer->steps || !trainer->stepped)
    return ac_fail(AC_ERROR_MEMORY, "no memory for a list of parameters");
  for (int i = 0; i < plan->graph->parameter_count; i++)
    if (plan->parameters[i].gradient >= 0) trainer->steps[trainer->step_count++] = i;
  return AC_OK;
}

/* Every trained parameter is stepped once in an update, and no other. */
static ac_status check_stepped(const ac_trainer *trainer, const char *what) {
  const ac_plan *plan = trainer->instance.plan;
  for (int i = 0; i < plan->graph->parameter_count; i++)
    if (trainer->stepped[i] != (plan->parameters[i].gradient >= 0))
      return ac_fail(AC_ERROR_INTERNAL, "trainer: %s \"%s\" %d times", what,
                     ac_tensor_at(plan->graph, plan->graph->parameters[i])->name,
                     trainer->stepped[i]);
  return AC_OK;
}

static void clear_stepped(ac_trainer *trainer) {
  size_t count = (size_t)trainer->instance.plan->graph->parameter_count;
  memset(trainer->stepped, 0, count * sizeof *trainer->stepped);
}

/* What the list says, before anything is changed. */
static ac_status check_steps(ac_trainer *trainer) {
  clear_stepped(trainer);
  for (int i = 0; i < trainer->step_count; i++) trainer->stepped[trainer->steps[i]]++;
  return check_stepped(trainer, "nothing was changed, as an update would step");
}

/* Update kernels are compiled before the first step, like all others. */
static ac_status prepare_updates(ac_trainer *trainer);

static ac_status set_up(ac_trainer *trainer, const ac_plan *plan) {
  AC_TRY(ac_instance_create(&trainer->instance, plan));
  trainer->instance.run.seed = trainer->desc.seed;
  set_loss_scale(trainer);
  AC_TRY(ac_instance_initialise(&trainer->instance, trainer->desc.seed));
  AC_TRY(list_steps(trainer));
  return prepare_updates(trainer);
}

ac_status ac_trainer_create(ac_trainer **trainer, const ac_plan *plan,
                            const ac_trainer_desc *desc) {
  AC_CREATES(trainer);
  AC_REQUIRE(plan);
  if (plan->desc.purpose != AC_TRAIN)
    return ac_fail(AC_ERROR_ARGUMENT, "trainer: the plan was not made for training");
  ac_trainer *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "no memory for a trainer");
  made->desc = AC_DESCRIBED(ac_trainer_desc, desc);
  made->nonfinite = -1;
  ac_status status = check_desc(&made->desc, plan->desc.optimizer);
  if (status == AC_OK)
    status = ac_scaler_init(&made->scaler, &made->desc.loss_scaling, plan->desc.precision);
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
  free(trainer->steps);
  free(trainer->stepped);
  free(trainer);
}

/* ---- accumulate ------------------------------------------------------------------------------ */

static ac_status accumulate_piece(ac_trainer *trainer, const void *const *data, int64_t first,
                                  int64_t count) {
  ac_instance *instance = &trainer->instance;
  instance->run.batch = count;
  instance->run.sample = (uint32_t)trainer->window_samples;
  instance->run.update = (uint32_t)trainer->updates;
  if (trainer->window_samples == 0) trainer->fed_weight = 0;
  trainer->fed_weight += ac_instance_fed_weight(instance, data, first, count);
  ac_status status = ac_instance_upload(instance, data, first, count);
  if (status == AC_OK)
    status = ac_instance_run(instance, &instance->main, trainer->window_samples == 0);
  if (status == AC_OK) trainer->window_samples += count;
  else trainer->broken = true;
  return status;
}

static ac_status check_window(const ac_trainer *trainer) {
  if (trainer->half_stepped)
    return ac_fail(AC_ERROR_STATE,
                   "trainer: an update failed when only some parameters were stepped; go on from "
                   "saved ones with another trainer");
  if (!trainer->broken) return AC_OK;
  return ac_fail(AC_ERROR_STATE, "trainer: the window failed half way; discard it first");
}

/* A plan that keeps batches or windows whole takes a window in one piece. */
static ac_status check_pieces(const ac_trainer *trainer, int64_t count) {
  const ac_plan *plan = trainer->instance.plan;
  int node = plan->coupled;
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
  AC_TRY(check_window(trainer));
  AC_TRY(ac_instance_match_feeds(&trainer->instance, count, feeds, feed_count, data));
  AC_TRY(check_pieces(trainer, count));
  int64_t micro_batch = trainer->instance.plan->info.micro_batch;
  for (int64_t first = 0; first < count; first += micro_batch) {
    int64_t piece = count - first < micro_batch ? count - first : micro_batch;
    AC_TRY(accumulate_piece(trainer, data, first, piece));
  }
  return AC_OK;
}

ac_status ac_trainer_accumulate_data(ac_trainer *trainer, const void *const *data, int64_t first,
                                     int64_t count) {
  AC_TRY(check_window(trainer));
  AC_TRY(ac_instance_check(&trainer->instance, data, first, count));
  AC_TRY(check_pieces(trainer, count));
  return accumulate_piece(trainer, data, first, count);
}

ac_status ac_trainer_check_arena(const ac_trainer *trainer) {
  if (!trainer->instance.plan->main.whole_window || trainer->window_samples == 0) return AC_OK;
  return ac_fail(AC_ERROR_STATE,
                 "trainer: the window's gradients are where this would compute, as the plan was "
                 "made for whole windows; update or discard it first");
}

void ac_trainer_discard(ac_trainer *trainer) {
  if (!trainer) return;
  trainer->window_samples = 0;
  trainer->broken = false;
}

/* ---- update ---------------------------------------------------------------------------------- */

/* What one pass over the gradients yields. */
typedef struct gradient_report {
  double norm; /* of the sum of gradients, unscaled */
  bool finite;
} gradient_report;

static void operand_from(ac_operand *operand, const ac_instance *instance, int tensor,
                         void *handle) {
  *operand = ac_operand_of(ac_tensor_at(instance->plan->graph, tensor), 1);
  operand->data = handle;
}

static ac_op_args update_op(const ac_instance *instance, ac_op op, const void *attributes) {
  return (ac_op_args){.op = op,
                      .attributes = attributes,
                      .workspace = instance->update_workspace,
                      .workspace_bytes = instance->plan->update_workspace_bytes,
                      .run = &instance->run};
}

static void statistics_arguments(ac_trainer *trainer, int index, ac_op_args *args,
                                 const ac_gradient_statistics_attributes *attributes) {
  const ac_instance *instance = &trainer->instance;
  int gradient = instance->plan->parameters[index].gradient;
  *args = update_op(instance, AC_OP_gradient_statistics, attributes);
  operand_from(&args->in[0], instance, gradient, instance->gradients[index]);
  args->out[0] = (ac_operand){instance->statistics[index], AC_F32, 1, {2}, 2};
}

static ac_status gather_statistics(ac_trainer *trainer) {
  ac_instance *instance = &trainer->instance;
  ac_gradient_statistics_attributes attributes = {1 / instance->run.loss_scale};
  for (int i = 0; i < trainer->step_count; i++) {
    ac_op_args args;
    statistics_arguments(trainer, trainer->steps[i], &args, &attributes);
    AC_TRY(instance->device->backend->run(instance->device->state, &args));
  }
  AC_TRY(ac_numerics_collect(instance));
  return ac_instance_fetch_control(instance);
}

static gradient_report read_statistics(ac_trainer *trainer) {
  const ac_instance *instance = &trainer->instance;
  const ac_plan *plan = instance->plan;
  gradient_report report = {0, true};
  trainer->nonfinite = -1;
  for (int i = 0; i < trainer->step_count; i++) {
    uint64_t offset = plan->parameters[trainer->steps[i]].statistics - plan->control;
    const float *statistics = instance->control_copy + offset / sizeof(float);
    report.norm += (double)statistics[0];
    if (statistics[1] == 0 && isfinite(statistics[0])) continue;
    report.finite = false;
    if (trainer->nonfinite < 0) trainer->nonfinite = trainer->steps[i];
  }
  report.norm = sqrt(report.norm);
  return report;
}

/* Attributes of either optimizer; rank decides on weight decay. */
typedef union update_attributes {
  ac_adamw_attributes adamw;
  ac_sgd_attributes sgd;
} update_attributes;

static update_attributes attributes_for(const ac_trainer *trainer, const ac_tensor *parameter,
                                        double factor, double rate) {
  const ac_optimizer_desc *o = &trainer->desc.optimizer;
  bool decays = parameter->shape.rank >= 2 && !parameter->desc.no_weight_decay;
  float decay = decays ? (float)o->weight_decay : 0;
  double t = (double)trainer->updates + 1;
  if (trainer->instance.plan->desc.optimizer == AC_SGD)
    return (update_attributes){.sgd = {.gradient_factor = (float)factor,
                                       .rate = (float)rate,
                                       .weight_decay = decay,
                                       .momentum = (float)o->momentum,
                                       .nesterov = o->nesterov,
                                       .first = trainer->updates == 0}};
  return (update_attributes){.adamw = {.gradient_factor = (float)factor,
                                       .rate = (float)rate,
                                       .weight_decay = decay,
                                       .beta1 = (float)o->beta1,
                                       .beta2 = (float)o->beta2,
                                       .epsilon = (float)o->epsilon,
                                       .correction1 = (float)(1 - pow(o->beta1, t)),
                                       .sqrt_correction2 = (float)sqrt(1 - pow(o->beta2, t))}};
}

static void update_arguments(const ac_trainer *trainer, int index, ac_op_args *args,
                             const update_attributes *attributes) {
  const ac_instance *instance = &trainer->instance;
  const ac_parameter_memory *memory = &instance->plan->parameters[index];
  int working = ac_plan_working_output(instance->plan);
  ac_plan_update_arguments(instance->plan, index, attributes, &instance->run, args);
  args->workspace = instance->update_workspace;
  args->workspace_bytes = instance->plan->update_workspace_bytes;
  args->in[0].data = instance->gradients[index];
  args->out[0].data = instance->persistent[memory->tensor];
  for (int m = 0; m < ac_plan_moments(instance->plan); m++)
    args->out[1 + m].data = instance->moments[index][m];
  if (memory->working >= 0) args->out[working].data = instance->persistent[memory->working];
}

/* Batch norm's running statistics follow those that `node` has pooled over the window. */
static void running_arguments(const ac_trainer *trainer, const ac_node *node,
                              const ac_batch_norm_update_attributes *attributes, ac_op_args *args) {
  const ac_instance *instance = &trainer->instance;
  const ac_node *norm = ac_node_at(instance->plan->graph, node->forward);
  *args = update_op(instance, AC_OP_batch_norm_update, attributes);
  operand_from(&args->in[0], instance, node->out[0], instance->persistent[node->out[0]]);
  for (int j = 0; j < 2; j++)
    operand_from(&args->out[j], instance, norm->in[3 + j], instance->persistent[norm->in[3 + j]]);
}

static ac_status for_running(ac_trainer *trainer,
                             ac_status (*call)(void *state, const ac_op_args *args)) {
  const ac_instance *instance = &trainer->instance;
  const ac_graph *graph = instance->plan->graph;
  const ac_sequence *steps = &instance->plan->main;
  for (int i = 0; i < steps->step_count; i++) {
    const ac_node *node = ac_node_at(graph, steps->steps[i].node);
    if (node->op != AC_OP_batch_norm_pool) continue;
    const ac_batch_norm_attributes *norm =
        (const void *)ac_node_at(graph, node->forward)->attributes;
    ac_batch_norm_update_attributes attributes = {norm->momentum};
    ac_op_args args;
    running_arguments(trainer, node, &attributes, &args);
    AC_TRY(call(instance->device->state, &args));
  }
  return AC_OK;
}

static ac_status step_parameters(ac_trainer *trainer, double factor, double rate) {
  ac_instance *instance = &trainer->instance;
  const ac_graph *graph = instance->plan->graph;
  clear_stepped(trainer);
  for (int i = 0; i < trainer->step_count; i++) {
    int index = trainer->steps[i];
    trainer->stepped[index]++;
    update_attributes attributes =
        attributes_for(trainer, ac_tensor_at(graph, graph->parameters[index]), factor, rate);
    ac_op_args args;
    update_arguments(trainer, index, &args, &attributes);
    AC_TRY(instance->device->backend->run(instance->device->state, &args));
  }
  AC_TRY(check_stepped(trainer, "an update has stepped"));
  AC_TRY(for_running(trainer, instance->device->backend->run));
  AC_TRY(instance->device->backend->finish(instance->device->state));
  trainer->has_stepped = true;
  return AC_OK;
}

static ac_status prepare_updates(ac_trainer *trainer) {
  ac_instance *instance = &trainer->instance;
  const ac_backend *backend = instance->device->backend;
  ac_gradient_statistics_attributes statistics = {1};
  for (int i = 0; i < trainer->step_count; i++) {
    update_attributes attributes = {{0}};
    ac_op_args args;
    statistics_arguments(trainer, trainer->steps[i], &args, &statistics);
    AC_TRY(backend->prepare(instance->device->state, &args));
    update_arguments(trainer, trainer->steps[i], &args, &attributes);
    AC_TRY(backend->prepare(instance->device->state, &args));
  }
  return for_running(trainer, backend->prepare);
}

static ac_status update_parameters(ac_trainer *trainer, ac_update *result) {
  ac_status gathered = gather_statistics(trainer);
  ac_loss_sums sums = ac_instance_loss_sums(&trainer->instance);
  if (gathered == AC_OK) gathered = check_steps(trainer);
  if (gathered == AC_OK)
    gathered = ac_instance_check_weight(&trainer->instance, sums.weight, trainer->fed_weight);
  trainer->broken = gathered != AC_OK; /* of a step of the window, perhaps, that fails late */
  AC_TRY(gathered);
  gradient_report report = read_statistics(trainer);
  bool weighs = sums.weight > 0;
  double norm = weighs ? report.norm / sums.weight : 0;
  ac_update update = {.loss = weighs ? sums.loss / sums.weight : 0,
                      .weight = sums.weight,
                      .lr = ac_schedule_rate(&trainer->desc.schedule, trainer->updates),
                      .grad_norm = report.finite ? norm : (double)INFINITY,
                      .loss_scale = (double)trainer->scaler.scale,
                      .finite_loss = isfinite(sums.loss) && isfinite(sums.weight),
                      .finite_gradient = report.finite};
  double clip = trainer->desc.optimizer.clip;
  double factor = 1 / ((double)trainer->instance.run.loss_scale * sums.weight);
  if (clip > 0 && norm > clip) factor *= clip / norm;
  bool overflow = !update.finite_loss || !update.finite_gradient;
  /* A weight near zero would blow the factor up beyond floats. */
  update.skipped = overflow || !weighs || !isfinite((float)factor);
  if (!update.skipped) {
    ac_status status = step_parameters(trainer, factor, update.lr);
    trainer->half_stepped = status != AC_OK;
    AC_TRY(status);
    trainer->updates++;
  }
  if (overflow || !update.skipped) ac_scaler_update(&trainer->scaler, overflow);
  set_loss_scale(trainer);
  trainer->window_samples = 0;
  update.update = trainer->updates;
  update.stuck = overflow ? trainer->scaler.stuck : update.skipped && weighs;
  if (result) *result = update;
  return AC_OK;
}

ac_status ac_trainer_update(ac_trainer *trainer, ac_update *result) {
  AC_REQUIRE(trainer);
  AC_TRY(check_window(trainer));
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
  AC_TRY(ac_instance_check_range(instance, index, first, count));
  return ac_instance_write_parameter(instance, index, first, count, data);
}

ac_status ac_trainer_get_gradient(ac_trainer *trainer, int index, int64_t first, int64_t count,
                                  float *data) {
  AC_REQUIRE(trainer);
  if (count > 0) AC_REQUIRE(data);
  AC_TRY(ac_instance_check_range(&trainer->instance, index, first, count));
  int gradient = trainer->instance.plan->parameters[index].gradient;
  if (gradient < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "parameter %d is frozen or the loss does not depend on it",
                   index);
  if (trainer->window_samples == 0)
    return ac_fail(AC_ERROR_STATE, "trainer: nothing was accumulated since the last update");
  AC_TRY(ac_instance_read_floats(&trainer->instance, trainer->instance.gradients[index], AC_F32,
                                 first, count, data));
  float scale = trainer->instance.run.loss_scale;
  for (int64_t i = 0; scale != 1 && i < count; i++) data[i] /= scale;
  return AC_OK;
}

ac_status ac_trainer_save(ac_trainer *trainer, const char *path, const ac_metadata *metadata,
                          int metadata_count) {
  AC_REQUIRE(trainer, path);
  if (metadata_count > 0) AC_REQUIRE(metadata);
  return ac_instance_save(&trainer->instance, path, metadata, metadata_count);
}

ac_status ac_trainer_load(ac_trainer *trainer, const char *path, const char *optional_prefix) {
  AC_REQUIRE(trainer, path);
  return ac_instance_load(&trainer->instance, path, optional_prefix);
}

/* The loss sums of a window in progress share their memory with the evaluation's. */
ac_status ac_trainer_evaluate_until(ac_trainer *trainer, ac_dataset *dataset, int64_t limit,
                                    ac_stop *stop, ac_evaluation *result) {
  ac_instance *instance = &trainer->instance;
  const ac_backend *backend = instance->device->backend;
  float sums[AC_LOSS_SUMS];
  AC_TRY(ac_trainer_check_arena(trainer));
  AC_TRY(backend->download(instance->device->state, instance->control, 0, sums, sizeof sums));
  ac_status status =
      ac_instance_evaluate(instance, &instance->evaluation, dataset, limit, stop, result);
  ac_status restored =
      backend->upload(instance->device->state, instance->control, 0, sums, sizeof sums);
  if (restored != AC_OK) trainer->broken = true;
  return status != AC_OK ? status : restored;
}

ac_status ac_trainer_evaluate(ac_trainer *trainer, ac_dataset *dataset, int64_t limit,
                              ac_evaluation *result) {
  AC_REQUIRE(trainer, dataset, result);
  ac_stop never = {0};
  return ac_trainer_evaluate_until(trainer, dataset, limit, &never, result);
}
