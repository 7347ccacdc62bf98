/* Making a plan: check what is asked for, derive the problem, let the search lay down a choice; and
 * reading what came of it. */
#include "plan/shards.h"

#include "core/error.h"
#include "core/platform/patterns.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- checks ---------------------------------------------------------------------------------- */

enum { MOST_READ_AHEAD = 32 };

/* What changes gradients one by one takes them as floats. */
static ac_status check_clipping(const ac_plan_desc *desc) {
  if ((unsigned)desc->optimizer.clipping > AC_CLIP_ADAPTIVE)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: unknown clipping %d", (int)desc->optimizer.clipping);
  if (desc->optimizer.clipping < AC_CLIP_VALUE || desc->purpose != AC_TRAIN) return AC_OK;
  if (ac_gradient_way_of(desc->gradients)->has_norm && desc->weights == AC_WEIGHTS_F32 &&
      desc->gradient_storage == AC_GRADIENT_F32)
    return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT, "plan: clipping by value or adaptively needs weights and "
                                    "gradients in f32, and gradients that are not folded");
}

static ac_status check_average(const ac_plan_desc *desc) {
  if (!desc->average || desc->weights == AC_WEIGHTS_F32) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT, "plan: averages need weights that have an original in f32");
}

/* What gradients can be folded into, and from where. */
static ac_status check_folded(const ac_plan_desc *desc) {
  if (!ac_gradient_way_of(desc->gradients)->folds || desc->purpose != AC_TRAIN) return AC_OK;
  const ac_optimizer_row *row = ac_optimizer_row_of(desc->optimizer.kind);
  char words[AC_OPTIMIZER_WORDS];
  if (!row->fold)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: only %s take folded gradients",
                   ac_optimizer_words(words, ac_optimizer_folds));
  const char *why = row->fold->refuses ? row->fold->refuses(&desc->optimizer) : NULL;
  if (why) return ac_fail(AC_ERROR_ARGUMENT, "plan: %s", why);
  if (desc->optimizer.state != AC_STATE_F32 || desc->weights != AC_WEIGHTS_F32 ||
      desc->gradient_storage != AC_GRADIENT_F32)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: folded gradients need weights, gradients and "
                                      "optimizer state in f32");
  return AC_OK;
}

static ac_status check_callback(const ac_plan_desc *desc) {
  if (desc->optimizer.callback_states < 0 ||
      desc->optimizer.callback_states > AC_MAX_CALLBACK_STATES || desc->optimizer.callback_part < 0)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "plan: a callback has 0 to %d states and takes parts of at least 1 element, not "
                   "%d and %lld",
                   AC_MAX_CALLBACK_STATES, desc->optimizer.callback_states,
                   (long long)desc->optimizer.callback_part);
  if (ac_optimizer_row_of(desc->optimizer.kind)->hands_over ||
      (!desc->optimizer.callback_states && !desc->optimizer.callback_part))
    return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "plan: states and parts of a callback have no meaning for another optimizer than "
                 "AC_OPTIMIZER_CALLBACK");
}

/* What cannot be shared out. */
static ac_status check_ranks(const ac_plan_desc *desc) {
  if (desc->ranks < 0 || desc->ranks > AC_MAX_RANKS || desc->rank < 0 ||
      desc->rank >= (desc->ranks ? desc->ranks : 1))
    return ac_fail(AC_ERROR_ARGUMENT, "plan: rank %d of %d; there can be 1 to %d ranks", desc->rank,
                   desc->ranks, AC_MAX_RANKS);
  if (desc->ranks < 2) return AC_OK;
  const ac_gradient_way *way = ac_gradient_way_of(desc->gradients);
  if (desc->purpose != AC_TRAIN)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: only training is shared out among ranks");
  if (!way->between_ranks)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "plan: gradients that are %s cannot be summed over ranks; take "
                   "AC_GRADIENTS_BUFFER or AC_GRADIENTS_AUTO",
                   way->words);
  if (way->shards && desc->gradient_storage == AC_GRADIENT_BF16)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "plan: gradients that are %s add up in f32, and exclude AC_GRADIENT_BF16",
                   way->words);
  if (desc->debug_numerics)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "plan: overflows of 16 bits are not counted over ranks; watch them with one");
  if (desc->loss_means == AC_LOSS_MEANS_GIVEN)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "plan: weights of losses that are given window by window cannot be shared out "
                   "among ranks; take AC_LOSS_MEANS_PER_SAMPLE");
  if (desc->state_space == AC_STATE_ON_HOST)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: optimizer state that ranks share out stays on the "
                                      "device; leave out AC_STATE_ON_HOST");
  if (ac_optimizer_row_of(desc->optimizer.kind)->hands_over)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: a caller's own optimizer runs on one rank only");
  return AC_OK;
}

ac_status ac_plan_check_desc(const ac_plan_desc *desc) {
  if (desc->batch < 0 || desc->micro_batch < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: the %s is %lld; it cannot be negative",
                   desc->batch < 0 ? "batch" : "micro-batch",
                   (long long)(desc->batch < 0 ? desc->batch : desc->micro_batch));
  if (desc->batch > UINT32_MAX || desc->micro_batch > UINT32_MAX)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: a batch of %lld exceeds 2^32 - 1 samples",
                   (long long)(desc->batch > UINT32_MAX ? desc->batch : desc->micro_batch));
  if (desc->micro_batch > desc->batch && desc->batch > 0)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: the micro-batch %lld is larger than the batch %lld",
                   (long long)desc->micro_batch, (long long)desc->batch);
  if ((unsigned)desc->precision > AC_PRECISION_BF16)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: unknown precision %d", (int)desc->precision);
  if (desc->read_ahead < 0 || desc->read_ahead > MOST_READ_AHEAD)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: %d batches read ahead; it can be 0 to %d",
                   desc->read_ahead, (int)MOST_READ_AHEAD);
  if ((unsigned)desc->recompute > AC_RECOMPUTE_ALL)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: unknown recomputation policy");
  if ((unsigned)desc->purpose > AC_PREDICT)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: unknown purpose %d", (int)desc->purpose);
  if ((unsigned)desc->loss_means > AC_LOSS_MEANS_PER_SAMPLE)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: unknown means of losses %d", (int)desc->loss_means);
  if (!ac_gradient_way_of(desc->gradients))
    return ac_fail(AC_ERROR_ARGUMENT, "plan: unknown way of gradients %d", (int)desc->gradients);
  const ac_optimizer_row *row = ac_optimizer_row_of(desc->optimizer.kind);
  char words[AC_OPTIMIZER_WORDS];
  if (!row)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: unknown optimizer %d", (int)desc->optimizer.kind);
  if ((unsigned)desc->optimizer.state > AC_STATE_8BIT)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: unknown storage of optimizer state %d",
                   (int)desc->optimizer.state);
  if (desc->optimizer.state == AC_STATE_8BIT && !row->eight_bit)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: only %s keep their state in 8 bits",
                   ac_optimizer_words(words, ac_optimizer_eight_bit));
  if ((unsigned)desc->state_space > AC_STATE_ON_HOST)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: unknown place of optimizer state %d",
                   (int)desc->state_space);
  if (desc->state_space == AC_STATE_ON_DEVICE && desc->host_memory)
    return ac_fail(
        AC_ERROR_ARGUMENT,
        "plan: a budget of host memory has no meaning with optimizer state on the device");
  if ((unsigned)desc->weights > AC_WEIGHTS_BF16)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: unknown storage of weights %d", (int)desc->weights);
  if ((unsigned)desc->working_copies > AC_WORKING_COPIES_NONE)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: unknown way of working copies %d",
                   (int)desc->working_copies);
  if ((unsigned)desc->gradient_storage > AC_GRADIENT_BF16)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: unknown storage of gradients %d",
                   (int)desc->gradient_storage);
  const bool called = desc->purpose == AC_TRAIN && row->hands_over;
  if (desc->gradient_storage == AC_GRADIENT_BF16 && called)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: a callback takes no gradients in bf16");
  AC_TRY(check_ranks(desc));
  AC_TRY(check_callback(desc));
  AC_TRY(check_clipping(desc));
  AC_TRY(check_average(desc));
  AC_TRY(check_folded(desc));
  if (desc->weights == AC_WEIGHTS_F32) return AC_OK;
  if (desc->precision != AC_PRECISION_BF16)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: weights in bf16 need the precision bf16");
  if (called) return ac_fail(AC_ERROR_ARGUMENT, "plan: a callback steps no weights in bf16");
  return AC_OK;
}

const char *ac_precision_name(ac_precision precision) {
  static const char *const names[] = {"f32", "f16", "bf16"};
  return (unsigned)precision <= AC_PRECISION_BF16 ? names[precision] : "unknown";
}

/* ---- making ---------------------------------------------------------------------------------- */

static ac_cost step_cost(const ac_plan *plan, const ac_step *step) {
  ac_run_state run = {.training = plan->main.training, .batch = plan->info.micro_batch};
  ac_op_args args;
  ac_step_arguments(step, plan->graph, &run, &args);
  return ac_op_cost(&args);
}

/* The bytes of views, if they are copies: those of the largest part. States in host memory need
 * none. */
static uint64_t callback_bytes(const ac_plan *plan) {
  const ac_problem *problem = &plan->problem;
  uint64_t most = 0;
  if (!ac_optimizer_row_of(problem->desc.optimizer.kind)->hands_over ||
      plan->device->backend->is_host)
    return 0;
  for (int i = 0; i < plan->graph->parameter_count; i++) {
    if (problem->parameters[i].gradient < 0) continue;
    uint64_t views = 2;
    for (int k = 0; k < problem->desc.optimizer.callback_states; k++)
      views += ac_plan_cell(plan, AC_ROLE_STATE, i, k)->space == AC_SPACE_DEVICE;
    const uint64_t bytes = views * sizeof(float) * (uint64_t)ac_problem_callback_part(problem, i);
    if (bytes > most) most = bytes;
  }
  return most;
}

/* Of results that are not stored, in a micro-batch. */
static uint64_t fused_bytes(const ac_plan *plan) {
  const ac_fused *fused = &plan->problem.fused;
  return (uint64_t)(fused->per_sample * plan->info.micro_batch + fused->fixed) *
         ac_dtype_bytes(ac_plan_storage(&plan->problem.desc));
}

static void fill_info(ac_plan *plan) {
  ac_plan_info *info = &plan->info;
  info->purpose = plan->problem.desc.purpose;
  info->precision = plan->problem.desc.precision;
  info->weights = plan->problem.desc.weights;
  info->gradient_storage = plan->problem.desc.gradient_storage;
  info->rounds_anew =
      !plan->problem.copies && info->purpose == AC_TRAIN && info->precision != AC_PRECISION_F32;
  info->optimizer_state = plan->problem.desc.optimizer.state;
  info->fused_ops = plan->problem.fused.nodes;
  info->fused_bytes = fused_bytes(plan);
  info->batch = plan->problem.asked.batch;
  info->ranks = plan->problem.desc.ranks;
  info->rank = plan->problem.desc.rank;
  info->share = plan->problem.desc.batch;
  info->transfer_bytes = ac_shards_bytes(&plan->problem);
  info->accumulation_steps = (info->share + info->micro_batch - 1) / info->micro_batch;
  info->sections = plan->main.section_count;
  info->steps = ac_sequence_end(&plan->main);
  info->update_steps = plan->main.step_count - info->steps + plan->stepping.step_count;
  info->state_space = plan->main.host_state ? AC_STATE_ON_HOST : AC_STATE_ON_DEVICE;
  info->host_bytes = plan->main.host_state ? plan->problem.host_bytes : 0;
  info->callback_bytes = callback_bytes(plan);
  info->budget_bytes = plan->problem.desc.memory;
  for (int i = 0; i < plan->cell_count; i++) {
    const bool working = plan->cells[i].role == AC_ROLE_WORKING;
    if (working && plan->cells[i].dtype == AC_U8) info->blocks_bytes += plan->cells[i].bytes;
    else if (working) info->working_bytes += plan->cells[i].bytes;
    if (plan->cells[i].role == AC_ROLE_CONSTANT) info->constant_bytes += plan->cells[i].bytes;
    if (plan->cells[i].role == AC_ROLE_AVERAGE) info->average_bytes += plan->cells[i].bytes;
  }
  for (int i = 0; i < plan->graph->parameter_count; i++) {
    const ac_tensor *parameter = ac_tensor_at(plan->graph, plan->graph->parameters[i]);
    const int64_t count = ac_shape_count(&parameter->shape);
    if (plan->problem.parameters[i].gradient >= 0) info->parameter_count += count;
    const bool frozen =
        parameter->desc.frozen || ac_patterns_match(plan->problem.desc.frozen, parameter->name);
    if (frozen) info->frozen_count += count;
  }
  info->library_bytes = plan->device->backend->library_bytes(plan->device->state);
  for (int i = 0; i < info->steps; i++) {
    info->flops += step_cost(plan, &plan->main.steps[i]).flops;
    info->recomputed_ops += plan->main.steps[i].recomputed;
  }
}

/* Adds to, or takes from, what is alive from a point on. */
static void change_live(const ac_plan *plan, const ac_value *value, ac_live_bytes *live,
                        bool begins) {
  const uint64_t change = begins ? value->bytes : -value->bytes;
  const ac_tensor *tensor = ac_tensor_at(plan->graph, value->tensor);
  live->all += change;
  if (!tensor || tensor->role == AC_ROLE_STATE) live->workspace += change;
  else if (tensor->role == AC_ROLE_GRADIENT) live->gradients += change;
}

/* Bytes by step of a sequence, in time linear in its steps and values. */
static ac_status find_live(const ac_plan *plan, const ac_sequence *sequence, ac_live_bytes *live) {
  const int points = ac_sequence_last_point(sequence) + 1;
  ac_live_bytes *changes = calloc((size_t)points + 1, sizeof *changes);
  if (!changes) return ac_fail(AC_ERROR_MEMORY, "no memory for a plan");
  for (int i = 0; i < sequence->value_count; i++) {
    const ac_value *value = &sequence->values[i];
    change_live(plan, value, &changes[value->first], true);
    change_live(plan, value, &changes[value->last + 1], false);
  }
  for (int i = 1; i < points; i++) {
    changes[i].all += changes[i - 1].all;
    changes[i].workspace += changes[i - 1].workspace;
    changes[i].gradients += changes[i - 1].gradients;
  }
  for (int i = 0; i < sequence->step_count; i++) live[i] = changes[ac_sequence_point(sequence, i)];
  free(changes);
  return AC_OK;
}

static ac_status find_all_live(ac_plan *plan) {
  const int first = plan->main.step_count;
  plan->live = calloc((size_t)(first + plan->stepping.step_count) + 1, sizeof *plan->live);
  if (!plan->live) return ac_fail(AC_ERROR_MEMORY, "no memory for a plan");
  AC_TRY(find_live(plan, &plan->main, plan->live));
  return find_live(plan, &plan->stepping, plan->live + first);
}

/* One sample an update is never meant where nothing is said. */
static ac_status check_batch(const ac_plan_desc *desc) {
  if (desc->purpose != AC_TRAIN || desc->batch) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "plan: the batch of a training plan is 0; give the samples of an update");
}

static ac_status check_budget(const ac_plan_desc *desc, const ac_device *device) {
  uint64_t has = device->info.memory_bytes;
  if (!has || desc->memory <= has || desc->beyond_device) return AC_OK;
  char budget[32], memory[32];
  return ac_fail(AC_ERROR_BUDGET, "plan: the budget of %s is larger than the memory of %s, %s",
                 ac_format_bytes(budget, sizeof budget, desc->memory), device->info.id,
                 ac_format_bytes(memory, sizeof memory, has));
}

/* Without a budget: what the device has, except for a quarter on the host, which other programs and
 * the system live on. */
static uint64_t memory_limit(const ac_plan_desc *desc, const ac_device *device) {
  uint64_t has = device->info.memory_bytes;
  const uint64_t most = UINT64_MAX - 1; /* a total beyond it says that nothing would fit */
  if (desc->memory) return desc->memory < most ? desc->memory : most;
  if (!has || desc->beyond_device) return most;
  return device->info.gpu ? has : has - has / 4;
}

/* A plan, or why there is none. */
typedef struct attempt {
  ac_plan *plan; /* to be freed whatever the status; NULL: no memory */
  ac_status status;
  char sentence[1024];
} attempt;

static ac_status make(ac_plan *plan, const ac_graph *graph, const ac_plan_desc *desc, bool copies) {
  AC_TRY(ac_problem_create(&plan->problem, graph, plan->device, desc, copies));
  plan->graph = plan->problem.graph;
  AC_TRY(ac_plan_search(plan, memory_limit(desc, plan->device)));
  AC_TRY(ac_plan_check(plan));
  fill_info(plan);
  return find_all_live(plan);
}

static void try_to_make(attempt *t, const ac_graph *graph, ac_device *device,
                        const ac_plan_desc *desc, bool copies) {
  t->plan = calloc(1, sizeof *t->plan);
  if (t->plan) t->plan->device = device;
  t->status = t->plan ? make(t->plan, graph, desc, copies)
                      : ac_fail(AC_ERROR_MEMORY, "no memory for a plan");
  snprintf(t->sentence, sizeof t->sentence, "%s", ac_last_error());
}

/* Whether something was given up for working copies, so that a plan without them may be better. */
static bool copies_cost(const attempt *t) {
  const ac_plan *plan = t->plan;
  if (t->status == AC_OK && plan->info.predicted_seconds <= plan->fastest_seconds) return false;
  if (t->status != AC_OK && t->status != AC_ERROR_BUDGET) return false;
  for (int i = 0; i < plan->problem.cell_count; i++)
    if (plan->problem.cells[i].role == AC_ROLE_WORKING && plan->problem.cells[i].dtype != AC_U8)
      return true;
  return false;
}

/* Whether the plan without working copies is the better one: it fits and the other does not, or is
 * faster; or both are refused, and it would need less. Any other failure is final. */
static bool is_better(const attempt *without, const attempt *with) {
  if (without->status != with->status) return without->status != AC_ERROR_BUDGET;
  return with->status == AC_OK
             ? without->plan->info.predicted_seconds < with->plan->info.predicted_seconds
             : without->plan->least < with->plan->least;
}

static void try_without_copies(attempt *with, const ac_graph *graph, ac_device *device,
                               const ac_plan_desc *desc) {
  attempt without, worse;
  try_to_make(&without, graph, device, desc, false);
  /* To round weights anew does not count as faster than the fastest way with copies. */
  if (without.status == AC_OK)
    without.plan->info.predicted_seconds =
        fmax(without.plan->info.predicted_seconds, with->plan->fastest_seconds);
  worse = without;
  if (is_better(&without, with)) worse = *with, *with = without;
  ac_plan_free(worse.plan);
}

ac_status ac_plan_create(ac_plan **plan, const ac_graph *graph, ac_device *device,
                         const ac_plan_desc *desc) {
  AC_CREATES(plan);
  AC_REQUIRE(graph, device);
  const ac_plan_desc described = AC_DESCRIBED(ac_plan_desc, desc);
  const ac_kept_error kept = ac_error_keep();
  attempt made;
  AC_TRY(ac_plan_check_desc(&described));
  if (graph->status == AC_OK) AC_TRY(check_batch(&described)); /* else the graph's failure */
  AC_TRY(check_budget(&described, device));
  try_to_make(&made, graph, device, &described, described.working_copies != AC_WORKING_COPIES_NONE);
  if (ac_plan_copies_are_open(&described) && copies_cost(&made))
    try_without_copies(&made, graph, device, &described);
  if (made.status == AC_OK) { /* other attempts may have failed */
    *plan = made.plan;
    ac_error_restore(&kept);
    return AC_OK;
  }
  ac_plan_free(made.plan);
  return ac_fail(made.status, "%s", made.sentence);
}

void ac_plan_free(ac_plan *plan) {
  if (!plan) return;
  ac_plan_clear(plan);
  ac_problem_free(&plan->problem);
  free(plan->live);
  free(plan);
}

/* ---- reading --------------------------------------------------------------------------------- */

const ac_plan_info *ac_plan_get_info(const ac_plan *plan) {
  return plan ? &plan->info : NULL;
}

static void list_dtypes(const ac_graph *graph, const int *tensor, int most, ac_dtype *list,
                        int *count) {
  for (int i = 0; i < most; i++) {
    list[i] = tensor[i] < 0 ? AC_DTYPE_COUNT : ac_tensor_at(graph, tensor[i])->dtype;
    if (tensor[i] >= 0) *count = i + 1;
  }
}

/* In the first pass of two, measuring belongs to the micro-batch; the second pass is the update. If
 * gradients are fused locally, all phases are in the only pass. */
static ac_plan_phase phase_of(const ac_plan *plan, int64_t index, const ac_node *node) {
  if (node->phase == AC_PHASE_FOLD) return AC_PLAN_MICRO_BATCH;
  if (plan->way->passes < 2) return (ac_plan_phase)node->phase;
  return index < plan->main.step_count ? AC_PLAN_MICRO_BATCH : AC_PLAN_UPDATE;
}

ac_status ac_plan_get_step(const ac_plan *plan, int64_t index, ac_plan_step *result) {
  AC_REQUIRE(plan, result);
  const int first = plan->main.step_count, all = first + plan->stepping.step_count;
  if (index < 0 || index >= all)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: step %lld of %d", (long long)index, all);
  const ac_sequence *sequence = index < first ? &plan->main : &plan->stepping;
  const int at = (int)(index < first ? index : index - first);
  const ac_step *step = &sequence->steps[at];
  const ac_node *node = ac_node_at(plan->graph, step->node);
  ac_cost cost = step_cost(plan, step);
  *result = (ac_plan_step){.op = ac_op_title(node->op, node->attributes),
                           .scope = plan->graph->scopes[node->scope],
                           .phase = phase_of(plan, index, node),
                           .backward = node->backward,
                           .recomputed = step->recomputed,
                           .couples_samples = ac_op_couples_samples(node->op, node->attributes),
                           .flops = cost.flops,
                           .bytes = cost.bytes,
                           .live_bytes = plan->live[index].all,
                           .workspace_bytes = plan->live[index].workspace,
                           .gradient_bytes = plan->live[index].gradients};
  list_dtypes(plan->graph, node->in, AC_MAX_INPUTS, result->input, &result->inputs);
  list_dtypes(plan->graph, node->out, AC_MAX_OUTPUTS, result->output, &result->outputs);
  return AC_OK;
}

ac_status ac_plan_get_parameter(const ac_plan *plan, int index, ac_plan_parameter *result) {
  AC_REQUIRE(plan, result);
  ac_tensor_info info;
  AC_TRY(ac_graph_parameter(plan->graph, index, &info));
  const ac_tensor *tensor = ac_tensor_at(plan->graph, plan->graph->parameters[index]);
  const ac_parameter_tensors *own = &plan->problem.parameters[index];
  const bool trained = own->gradient >= 0;
  *result = (ac_plan_parameter){.tensor = info,
                                .frozen = tensor->desc.frozen,
                                .trained = trained,
                                .step = trained ? ac_op_name(own->optimizer->step) : "",
                                .state = AC_F32,
                                .blocks = tensor->desc.blocks};
  const ac_cell *original = ac_plan_cell(plan, AC_ROLE_PARAMETER, index, 0),
                *working = ac_plan_cell(plan, AC_ROLE_WORKING, index, 0), *state;
  if (original || working) result->tensor.dtype = original ? original->dtype : working->dtype;
  result->bytes = (original ? original->bytes : 0) + (working ? working->bytes : 0);
  for (int k = 0; (state = ac_plan_cell(plan, AC_ROLE_STATE, index, k)) != NULL; k++) {
    result->state_bytes += state->bytes;
    if (state->dtype == AC_U8) result->state = AC_U8;
  }
  return AC_OK;
}

static ac_status add_alternative(const ac_plan *plan, const ac_plan_desc *desc,
                                 ac_plan_alternative *list, int capacity, int *count,
                                 uint64_t *total) {
  const ac_kept_error kept = ac_error_keep();
  ac_plan *other;
  ac_status status = ac_plan_create(&other, plan->problem.source, plan->device, desc);
  /* A tensor of this size exceeds the largest allocation, or what an op can count. */
  if (status == AC_ERROR_BUDGET || status == AC_ERROR_UNSUPPORTED) {
    *total = UINT64_MAX;
    ac_error_restore(&kept);
    return AC_OK;
  }
  AC_TRY(status);
  const ac_plan_info *info = &other->info;
  if (list && *count < capacity)
    list[*count] = (ac_plan_alternative){.micro_batch = info->micro_batch,
                                         .accumulation_steps = info->accumulation_steps,
                                         .recomputed_ops = info->recomputed_ops,
                                         .recompute = desc->recompute,
                                         .gradients = info->gradients,
                                         .total_bytes = info->bytes.total,
                                         .seconds = info->predicted_seconds};
  ++*count;
  *total = info->bytes.total;
  ac_plan_free(other);
  return AC_OK;
}

ac_status ac_plan_alternatives(const ac_plan *plan, ac_plan_alternative *list, int capacity,
                               int *count) {
  AC_REQUIRE(plan, count);
  if (capacity < 0 || (capacity > 0 && !list))
    return ac_fail(AC_ERROR_ARGUMENT, "ac_plan_alternatives: there is no list of %d", capacity);
  *count = 0;
  if (plan->problem.desc.purpose != AC_TRAIN)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: only plans for training have alternatives");
  int64_t sizes[AC_SEARCH_SIZES];
  int size_count = ac_plan_search_sizes(plan->problem.desc.batch, sizes);
  for (int i = 0; i < size_count; i++) {
    ac_plan_desc desc = plan->problem.desc;
    uint64_t most, least, ignored;
    const bool splits = plan->problem.coupled < 0 && !plan->problem.way->one_micro_batch;
    if (!splits && sizes[i] < desc.batch) continue;
    if (!ac_problem_allows(&plan->problem, plan->problem.asked.batch, sizes[i])) continue;
    desc.batch = plan->problem.asked.batch;
    desc.micro_batch = sizes[i];
    desc.memory = 0;
    desc.beyond_device = true;
    desc.read_ahead = 0;
    desc.state_space = plan->info.state_space;
    desc.working_copies = plan->problem.copies ? AC_WORKING_COPIES_KEPT : AC_WORKING_COPIES_NONE;
    desc.host_memory = 0;
    desc.offers = NULL;
    desc.recompute = AC_RECOMPUTE_NONE;
    AC_TRY(add_alternative(plan, &desc, list, capacity, count, &most));
    desc.recompute = AC_RECOMPUTE_ALL;
    AC_TRY(add_alternative(plan, &desc, list, capacity, count, &least));
    desc.recompute = AC_RECOMPUTE_AUTO;
    desc.memory = least + (most > least ? (most - least) / 2 : 0);
    if (most <= least || most == UINT64_MAX) continue;
    AC_TRY(add_alternative(plan, &desc, list, capacity, count, &ignored));
  }
  return AC_OK;
}
