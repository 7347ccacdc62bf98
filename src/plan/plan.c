/* Making a plan: copy and differentiate the graph, build the sequences once, then price micro-batch
 * sizes until the largest that fits the budget is found. Pricing a size is one layout; the number
 * of sizes tried is logarithmic in the batch. */
#include "plan/plan.h"

#include "core/error.h"
#include "graph/differentiate.h"

#include <stdlib.h>
#include <string.h>

/* ---- one size ---------------------------------------------------------------------------------
 */

static uint64_t operand_bytes(const ac_tensor *tensor, int64_t batch) {
  ac_operand x = ac_operand_of(tensor, batch);
  return (uint64_t)x.count * ac_dtype_bytes(x.dtype);
}

static int moments(const ac_plan *plan) {
  if (plan->desc.optimizer == AC_ADAMW) return 2;
  return plan->desc.sgd_no_momentum ? 0 : 1;
}

static ac_status append_tensors(ac_plan *plan, ac_address_space *space, ac_role role,
                                int64_t batch) {
  for (int i = 0; i < plan->graph->tensor_count; i++) {
    const ac_tensor *tensor = plan->graph->tensors[i];
    if (tensor->role == role && tensor->storage == i)
      AC_TRY(ac_layout_append(space, operand_bytes(tensor, batch), &plan->address[i]));
  }
  return AC_OK;
}

static ac_status append_moments(ac_plan *plan, ac_address_space *space) {
  for (int i = 0; i < plan->graph->parameter_count; i++) {
    ac_parameter_memory *parameter = &plan->parameters[i];
    uint64_t bytes = operand_bytes(plan->graph->tensors[parameter->tensor], 1);
    for (int m = 0; m < moments(plan) && parameter->gradient >= 0; m++)
      AC_TRY(ac_layout_append(space, bytes, &parameter->moment[m]));
  }
  return AC_OK;
}

/* Loss sums and gradient statistics form one block, so that one read-back fetches all of them. */
static ac_status append_control(ac_plan *plan, ac_address_space *space) {
  uint64_t slot = ac_align(space, 1), offset = ac_align(space, AC_LOSS_SUMS * sizeof(float));
  bool training = plan->desc.purpose == AC_TRAIN;
  uint64_t slots = training ? (uint64_t)plan->graph->parameter_count : 0;
  plan->control_bytes = plan->graph->loss >= 0 ? offset + slots * slot : 0;
  AC_TRY(ac_layout_append(space, plan->control_bytes, &plan->control));
  if (plan->graph->loss < 0) return AC_OK;
  for (int i = 0; i < plan->graph->tensor_count; i++)
    if (plan->graph->tensors[i]->role == AC_ROLE_LOSS) plan->address[i] = plan->control;
  for (int i = 0; training && i < plan->graph->parameter_count; i++)
    plan->parameters[i].statistics = plan->control + offset + (uint64_t)i * slot;
  return AC_OK;
}

/* The most scratch space that any op of an update asks for. */
static uint64_t update_workspace(const ac_plan *plan) {
  static const ac_run_state run = {.batch = 1};
  static const unsigned char attributes[AC_MAX_ATTRIBUTE_BYTES];
  const ac_backend *backend = plan->device->backend;
  uint64_t most = 0;
  for (int i = 0; i < plan->graph->parameter_count; i++) {
    if (plan->parameters[i].gradient < 0) continue;
    ac_operand x = ac_operand_of(plan->graph->tensors[plan->parameters[i].tensor], 1);
    ac_op_args args = {.attributes = attributes, .run = &run, .in = {x}};
    args.op = AC_OP_gradient_statistics;
    args.out[0] = (ac_operand){.rank = 1, .dim = {2}, .count = 2};
    uint64_t statistics = backend->workspace(plan->device->state, &args);
    args.op = plan->desc.optimizer == AC_ADAMW ? AC_OP_adamw : AC_OP_sgd;
    for (int j = 0; j <= moments(plan); j++) args.out[j] = x;
    uint64_t step = backend->workspace(plan->device->state, &args);
    if (statistics > most) most = statistics;
    if (step > most) most = step;
  }
  return most;
}

/* At the arena's first place where it straddles no two chunks. */
static ac_status place_update_workspace(ac_plan *plan, ac_address_space space, uint64_t *end) {
  plan->update_workspace_bytes = plan->desc.purpose == AC_TRAIN ? update_workspace(plan) : 0;
  AC_TRY(ac_layout_append(&space, plan->update_workspace_bytes, &plan->update_workspace));
  if (space.end > *end) *end = space.end;
  return AC_OK;
}

/* Lays out everything for one micro-batch size; fills in info.bytes. */
static ac_status price(ac_plan *plan, int64_t micro_batch) {
  const ac_device_info *device = &plan->device->info;
  ac_plan_bytes *bytes = &plan->info.bytes;
  uint64_t chunk = device->max_allocation / device->alignment * device->alignment;
  ac_address_space space = {.alignment = device->alignment, .chunk_bytes = chunk};
  AC_TRY(append_tensors(plan, &space, AC_ROLE_PARAMETER, 1));
  bytes->parameters = space.end;
  AC_TRY(append_tensors(plan, &space, AC_ROLE_GRADIENT, 1));
  bytes->gradients = space.end - bytes->parameters;
  uint64_t begin = space.end;
  if (plan->desc.purpose == AC_TRAIN) AC_TRY(append_moments(plan, &space));
  bytes->optimizer = space.end - begin;
  begin = space.end;
  AC_TRY(append_control(plan, &space));
  AC_TRY(append_tensors(plan, &space, AC_ROLE_INPUT, micro_batch));
  bytes->io = space.end - begin;

  uint64_t end, activations_end, evaluation_end = 0;
  AC_TRY(ac_sequence_size(&plan->main, plan->graph, plan->device, micro_batch));
  AC_TRY(ac_layout_arena(&space, &plan->main, space.end, &end, &activations_end));
  if (plan->desc.purpose == AC_TRAIN) {
    uint64_t ignored;
    AC_TRY(ac_sequence_size(&plan->evaluation, plan->graph, plan->device, micro_batch));
    AC_TRY(ac_layout_arena(&space, &plan->evaluation, space.end, &evaluation_end, &ignored));
  }
  if (evaluation_end > end) end = evaluation_end;
  AC_TRY(place_update_workspace(plan, space, &end));
  bytes->activations = activations_end - space.end;
  bytes->workspace = end - activations_end;
  bytes->total = end;
  plan->chunk_bytes = chunk && end > chunk ? chunk : 0;
  plan->info.micro_batch = micro_batch;
  return AC_OK;
}

/* ---- the search -------------------------------------------------------------------------------
 */

static int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

static ac_status refuse(ac_plan *plan, uint64_t limit, int64_t micro_batch) {
  char need[32], have[32];
  ac_format_bytes(need, sizeof need, plan->info.bytes.total);
  ac_format_bytes(have, sizeof have, limit);
  return ac_fail(AC_ERROR_BUDGET,
                 "plan: needs at least %s (%llu bytes, at a micro-batch of %lld), %s is %s", need,
                 (unsigned long long)plan->info.bytes.total, (long long)micro_batch,
                 plan->desc.memory ? "the budget" : "the device's memory", have);
}

/* The fewest accumulation steps whose micro-batch fits: bytes grow with the micro-batch, so bisect
 * on the steps. */
static ac_status search(ac_plan *plan, uint64_t limit) {
  int64_t batch = plan->desc.batch;
  if (plan->desc.micro_batch) {
    AC_TRY(price(plan, plan->desc.micro_batch));
    if (plan->info.bytes.total <= limit) return AC_OK;
    return refuse(plan, limit, plan->desc.micro_batch);
  }
  AC_TRY(price(plan, batch));
  if (plan->info.bytes.total <= limit) return AC_OK;
  int64_t too_few = 1, enough = batch;
  AC_TRY(price(plan, 1));
  if (plan->info.bytes.total > limit) return refuse(plan, limit, 1);
  while (enough - too_few > 1) {
    int64_t middle = too_few + (enough - too_few) / 2;
    AC_TRY(price(plan, divide_up(batch, middle)));
    if (plan->info.bytes.total <= limit) enough = middle;
    else too_few = middle;
  }
  return price(plan, divide_up(batch, enough));
}

/* ---- checks -----------------------------------------------------------------------------------
 */

static ac_status check_desc(const ac_plan_desc *desc) {
  if (desc->batch < 0 || desc->micro_batch < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: batch %lld and micro-batch %lld must be positive",
                   (long long)desc->batch, (long long)desc->micro_batch);
  if (desc->batch > UINT32_MAX)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: a batch of %lld exceeds 2^32 - 1 samples",
                   (long long)desc->batch);
  if (desc->micro_batch > desc->batch && desc->batch > 0)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: the micro-batch %lld is larger than the batch %lld",
                   (long long)desc->micro_batch, (long long)desc->batch);
  if (desc->precision != AC_PRECISION_F32)
    return ac_fail(AC_ERROR_UNSUPPORTED, "plan: this version trains in f32 only");
  if (desc->recompute == AC_RECOMPUTE_ALL)
    return ac_fail(AC_ERROR_UNSUPPORTED, "plan: this version cannot recompute activations");
  if ((unsigned)desc->purpose > AC_PREDICT || (unsigned)desc->optimizer > AC_SGD)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: unknown purpose or optimizer");
  return AC_OK;
}

static ac_status check_support(ac_plan *plan, const ac_sequence *sequence) {
  ac_run_state run = {.training = sequence->training, .batch = 1};
  for (int i = 0; i < sequence->step_count; i++) {
    ac_op_args args;
    ac_step_arguments(&sequence->steps[i], plan->graph, &run, &args);
    if (plan->device->backend->supports(plan->device->state, &args)) continue;
    char text[128];
    const ac_node *node = &plan->graph->nodes[sequence->steps[i].node];
    return ac_fail(AC_ERROR_UNSUPPORTED, "plan: device %s cannot run %s", plan->device->info.id,
                   ac_node_text(text, sizeof text, plan->graph, node));
  }
  return AC_OK;
}

/* ---- making -----------------------------------------------------------------------------------
 */

/* The nodes that the target needs, each once, in creation order. */
static ac_status build_plain(ac_sequence *sequence, const ac_graph *graph, ac_target target) {
  size_t nodes = (size_t)graph->node_count + 1;
  bool *runs = calloc(nodes, sizeof *runs);
  int *order = malloc(nodes * sizeof *order), count = 0;
  ac_status status = AC_OK;
  if (!runs || !order || ac_select_nodes(graph, target, runs) < 0)
    status = ac_fail(AC_ERROR_MEMORY, "no memory for a sequence");
  for (int i = 0; status == AC_OK && i < graph->node_count; i++)
    if (runs[i]) order[count++] = i;
  if (status == AC_OK) status = ac_sequence_build(sequence, graph, target, order, count);
  free(runs);
  free(order);
  return status;
}

static void fill_parameters(ac_plan *plan) {
  const ac_graph *graph = plan->graph;
  for (int i = 0; i < graph->parameter_count; i++)
    plan->parameters[i] = (ac_parameter_memory){
        graph->parameters[i], -1, {AC_NO_ADDRESS, AC_NO_ADDRESS}, AC_NO_ADDRESS};
  for (int i = 0; i < graph->tensor_count; i++) {
    const ac_tensor *tensor = graph->tensors[i];
    plan->address[i] = AC_NO_ADDRESS;
    if (tensor->role != AC_ROLE_GRADIENT) continue;
    plan->parameters[tensor->parameter].gradient = i;
    plan->info.parameter_count += ac_shape_count(&tensor->shape);
  }
}

static ac_status build(ac_plan *plan) {
  ac_graph *graph = plan->graph;
  ac_purpose purpose = plan->desc.purpose;
  if (purpose == AC_TRAIN) AC_TRY(ac_graph_differentiate(graph));
  if (purpose == AC_EVALUATE && graph->loss < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: the graph has no loss to evaluate");
  if (purpose == AC_PREDICT && graph->output_count == 0)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: the graph has no output to predict");
  plan->address = calloc((size_t)graph->tensor_count + 1, sizeof *plan->address);
  plan->parameters = calloc((size_t)graph->parameter_count + 1, sizeof *plan->parameters);
  if (!plan->address || !plan->parameters) return ac_fail(AC_ERROR_MEMORY, "no memory for a plan");
  fill_parameters(plan);
  ac_target target = purpose == AC_TRAIN      ? AC_TARGET_GRADIENTS
                     : purpose == AC_EVALUATE ? AC_TARGET_LOSS
                                              : AC_TARGET_OUTPUTS;
  AC_TRY(build_plain(&plan->main, graph, target));
  AC_TRY(check_support(plan, &plan->main));
  if (purpose != AC_TRAIN) return AC_OK;
  AC_TRY(build_plain(&plan->evaluation, graph, AC_TARGET_LOSS));
  return check_support(plan, &plan->evaluation);
}

static ac_cost step_cost(const ac_plan *plan, const ac_step *step) {
  ac_run_state run = {.batch = plan->info.micro_batch};
  ac_op_args args;
  ac_step_arguments(step, plan->graph, &run, &args);
  return ac_op_cost(&args);
}

static void fill_info(ac_plan *plan) {
  ac_plan_info *info = &plan->info;
  info->purpose = plan->desc.purpose;
  info->precision = plan->desc.precision;
  info->batch = plan->desc.batch;
  info->accumulation_steps = divide_up(info->batch, info->micro_batch);
  info->steps = plan->main.step_count;
  info->budget_bytes = plan->desc.memory;
  info->live_bytes = ac_layout_bound(&plan->main);
  info->library_bytes = plan->device->backend->library_bytes(plan->device->state);
  for (int i = 0; i < plan->main.step_count; i++)
    info->flops += step_cost(plan, &plan->main.steps[i]).flops;
}

ac_status ac_plan_create(ac_plan **result, const ac_graph *graph, ac_device *device,
                         const ac_plan_desc *desc) {
  *result = NULL;
  AC_TRY(check_desc(desc));
  ac_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return ac_fail(AC_ERROR_MEMORY, "no memory for a plan");
  plan->device = device;
  plan->desc = *desc;
  if (!plan->desc.batch) plan->desc.batch = desc->micro_batch ? desc->micro_batch : 1;
  uint64_t limit = desc->memory                ? desc->memory
                   : device->info.memory_bytes ? device->info.memory_bytes
                                               : UINT64_MAX;
  ac_status status = ac_graph_clone(&plan->graph, graph);
  if (status == AC_OK) status = build(plan);
  if (status == AC_OK) status = search(plan, limit);
  if (status != AC_OK) {
    ac_plan_free(plan);
    return status;
  }
  fill_info(plan);
  *result = plan;
  return AC_OK;
}

void ac_plan_free(ac_plan *plan) {
  if (!plan) return;
  ac_sequence_free(&plan->main);
  ac_sequence_free(&plan->evaluation);
  ac_graph_free(plan->graph);
  free(plan->address);
  free(plan->parameters);
  free(plan);
}

/* ---- reading ----------------------------------------------------------------------------------
 */

const ac_plan_info *ac_plan_get_info(const ac_plan *plan) {
  return &plan->info;
}

ac_status ac_plan_get_step(const ac_plan *plan, int64_t index, ac_plan_step *result) {
  if (index < 0 || index >= plan->main.step_count)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: step %lld of %d", (long long)index,
                   plan->main.step_count);
  const ac_step *step = &plan->main.steps[index];
  const ac_node *node = &plan->graph->nodes[step->node];
  ac_cost cost = step_cost(plan, step);
  *result = (ac_plan_step){.op = ac_op_name(node->op),
                           .scope = plan->graph->scopes[node->scope],
                           .backward = node->backward,
                           .recomputed = step->recomputed,
                           .flops = cost.flops,
                           .bytes = cost.bytes};
  for (int i = 0; i < plan->main.value_count; i++) {
    const ac_value *value = &plan->main.values[i];
    if (value->first <= index && index <= value->last) result->live_bytes += value->bytes;
  }
  return AC_OK;
}
