/* Making a plan: copy and differentiate the graph, select the nodes that run, cut them into stages,
 * and leave the choice of micro-batch and recomputation to the search. */
#include "plan/plan.h"

#include "core/error.h"
#include "graph/differentiate.h"
#include "graph/precision.h"
#include "plan/stages.h"

#include <stdlib.h>
#include <string.h>

/* ---- checks ---------------------------------------------------------------------------------- */

enum { MOST_READ_AHEAD = 32 };

static ac_status check_desc(const ac_plan_desc *desc) {
  if (desc->batch < 0 || desc->micro_batch < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: batch %lld and micro-batch %lld must be positive",
                   (long long)desc->batch, (long long)desc->micro_batch);
  if (desc->batch > UINT32_MAX || desc->micro_batch > UINT32_MAX)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: a batch of %lld exceeds 2^32 - 1 samples",
                   (long long)(desc->batch ? desc->batch : desc->micro_batch));
  if (desc->micro_batch > desc->batch && desc->batch > 0)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: the micro-batch %lld is larger than the batch %lld",
                   (long long)desc->micro_batch, (long long)desc->batch);
  if ((unsigned)desc->precision > AC_PRECISION_BF16)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: unknown precision");
  if (desc->read_ahead < 0 || desc->read_ahead > MOST_READ_AHEAD)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: %d batches read ahead; it can be 0 to %d",
                   desc->read_ahead, (int)MOST_READ_AHEAD);
  if ((unsigned)desc->recompute > AC_RECOMPUTE_ALL)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: unknown recomputation policy");
  if ((unsigned)desc->purpose > AC_PREDICT)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: unknown purpose %d", (int)desc->purpose);
  if ((unsigned)desc->optimizer > AC_SGD)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: unknown optimizer %d", (int)desc->optimizer);
  return AC_OK;
}

/* The sentence about a node that cannot run, and what would help. */
static ac_status unsupported(const ac_plan *plan, const ac_node *node, int64_t batch) {
  char text[128], whole[128];
  const char *id = plan->device->info.id;
  ac_node_text(text, sizeof text, plan->graph, node);
  if (batch == 1) return ac_fail(AC_ERROR_UNSUPPORTED, "plan: device %s cannot run %s", id, text);
  if (plan->coupled < 0)
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "plan: device %s cannot run %s at a micro-batch of %lld; give a smaller one", id,
                   text, (long long)batch);
  return ac_fail(
      AC_ERROR_UNSUPPORTED,
      "plan: device %s cannot run %s on %lld samples, and %s keeps a batch whole; take a "
      "smaller batch, group norm, or accept the statistics of micro-batches "
      "(--batch-norm micro)",
      id, text, (long long)batch,
      ac_node_text(whole, sizeof whole, plan->graph, ac_node_at(plan->graph, plan->coupled)));
}

static ac_status check_support(const ac_plan *plan, const ac_sequence *sequence, int64_t batch) {
  ac_run_state run = {.training = sequence->training, .batch = batch};
  for (int i = 0; i < sequence->step_count; i++) {
    ac_op_args args;
    ac_step_arguments(&sequence->steps[i], plan->graph, &run, &args);
    if (!plan->device->backend->supports(plan->device->state, &args))
      return unsupported(plan, ac_node_at(plan->graph, sequence->steps[i].node), batch);
  }
  return AC_OK;
}

ac_status ac_plan_check_support(const ac_plan *plan, int64_t micro_batch) {
  AC_TRY(check_support(plan, &plan->main, micro_batch));
  return check_support(plan, &plan->evaluation, micro_batch);
}

/* ---- making ---------------------------------------------------------------------------------- */

/* The nodes that the target needs, each once, in creation order. */
static ac_status build_plain(ac_sequence *sequence, const ac_graph *graph, ac_target target,
                             bool *runs) {
  int *order = malloc(((size_t)graph->node_count + 1) * sizeof *order), count = 0;
  if (!order || ac_select_nodes(graph, target, runs) < 0) {
    free(order);
    return ac_fail(AC_ERROR_MEMORY, "no memory for a sequence");
  }
  for (int i = 0; i < graph->node_count; i++)
    if (runs[i]) order[count++] = i;
  ac_status status = ac_sequence_build(sequence, graph, target, false, order, count);
  free(order);
  return status;
}

static void fill_parameters(ac_plan *plan) {
  const ac_graph *graph = plan->graph;
  for (int i = 0; i < graph->parameter_count; i++)
    plan->parameters[i] = (ac_parameter_memory){
        graph->parameters[i], -1, -1, {AC_NO_ADDRESS, AC_NO_ADDRESS}, AC_NO_ADDRESS};
  for (int i = 0; i < graph->tensor_count; i++) {
    const ac_tensor *tensor = ac_tensor_at(graph, i);
    plan->address[i] = AC_NO_ADDRESS;
    if (tensor->storage != i) continue;
    if (tensor->role == AC_ROLE_WORKING) plan->parameters[tensor->parameter].working = i;
    if (tensor->role != AC_ROLE_GRADIENT) continue;
    plan->parameters[tensor->parameter].gradient = i;
    plan->info.parameter_count += ac_shape_count(&tensor->shape);
  }
}

static void mark_reads(ac_plan *plan, const ac_sequence *sequence) {
  for (int s = 0; s < sequence->step_count; s++)
    for (int i = 0; i < AC_MAX_INPUTS; i++)
      if (sequence->steps[s].in[i].tensor >= 0)
        plan->reads[ac_tensor_at(plan->graph, sequence->steps[s].in[i].tensor)->storage] = true;
}

static ac_status build_sequences(ac_plan *plan, bool *runs) {
  ac_purpose purpose = plan->desc.purpose;
  const ac_graph *graph = plan->graph;
  ac_target target = purpose == AC_TRAIN      ? AC_TARGET_GRADIENTS
                     : purpose == AC_EVALUATE ? AC_TARGET_LOSS
                                              : AC_TARGET_OUTPUTS;
  AC_TRY(build_plain(&plan->main, graph, target, runs));
  AC_TRY(check_support(plan, &plan->main, 1));
  mark_reads(plan, &plan->main);
  if (purpose != AC_TRAIN) return AC_OK;
  plan->stages = calloc(1, sizeof *plan->stages);
  if (!plan->stages) return ac_fail(AC_ERROR_MEMORY, "no memory for a plan");
  AC_TRY(ac_stages_cut(plan->stages, graph, runs));
  AC_TRY(build_plain(&plan->evaluation, graph, AC_TARGET_LOSS, runs));
  return check_support(plan, &plan->evaluation, 1);
}

/* Byte counts of whole tensors, and sums of a few thousand of them, must fit 64 bits. */
static ac_status check_sizes(const ac_plan *plan) {
  for (int i = 0; i < plan->graph->tensor_count; i++) {
    const ac_shape *shape = &ac_tensor_at(plan->graph, i)->shape;
    int64_t batch = shape->batched ? plan->desc.batch : 1;
    char text[AC_SHAPE_TEXT];
    if (ac_shape_count(shape) > AC_MAX_ELEMENTS / batch)
      return ac_fail(AC_ERROR_BUDGET,
                     "plan: a tensor of %s at a batch of %lld is beyond any device",
                     ac_shape_text(text, shape), (long long)plan->desc.batch);
  }
  return AC_OK;
}

const char *ac_precision_name(ac_precision precision) {
  static const char *const names[] = {"f32", "f16", "bf16"};
  return (unsigned)precision <= AC_PRECISION_BF16 ? names[precision] : "unknown";
}

ac_dtype ac_plan_storage(const ac_plan_desc *desc) {
  static const ac_dtype storage[] = {AC_F32, AC_F16, AC_BF16};
  return storage[desc->precision];
}

/* The bytes are what ac_loader_bytes says for the inputs that are read, their batches rounded up
 * alike, but for one sample of other fields a thread. */
void ac_plan_set_read_ahead(ac_plan *plan, int batches) {
  enum { ALIGNMENT = 64 };
  const ac_graph *graph = plan->graph;
  uint64_t batch = 0;
  for (int i = 0; i < graph->input_count; i++) {
    if (!plan->reads[graph->inputs[i]]) continue;
    ac_operand x = ac_operand_of(ac_tensor_at(graph, graph->inputs[i]), plan->desc.batch);
    uint64_t bytes = (uint64_t)x.count * ac_dtype_bytes(x.dtype);
    batch += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
  bool reads = plan->desc.purpose == AC_TRAIN && batches > 0;
  plan->desc.read_ahead = plan->info.read_ahead = reads ? batches : 0;
  plan->info.read_ahead_bytes = reads ? batch * (1 + (uint64_t)batches) : 0;
}

static ac_status build(ac_plan *plan) {
  ac_graph *graph = plan->graph;
  ac_purpose purpose = plan->desc.purpose;
  if (purpose == AC_TRAIN) AC_TRY(ac_graph_differentiate(graph));
  AC_TRY(ac_graph_set_storage(graph, ac_plan_storage(&plan->desc)));
  AC_TRY(check_sizes(plan));
  if (purpose == AC_EVALUATE && graph->loss < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: the graph has no loss to evaluate");
  if (purpose == AC_PREDICT && graph->output_count == 0)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: the graph has no output to predict");
  plan->address = calloc((size_t)graph->tensor_count + 1, sizeof *plan->address);
  plan->reads = calloc((size_t)graph->tensor_count + 1, sizeof *plan->reads);
  plan->parameters = calloc((size_t)graph->parameter_count + 1, sizeof *plan->parameters);
  if (!plan->address || !plan->reads || !plan->parameters)
    return ac_fail(AC_ERROR_MEMORY, "no memory for a plan");
  fill_parameters(plan);
  bool *runs = calloc((size_t)graph->node_count + 1, sizeof *runs);
  if (!runs) return ac_fail(AC_ERROR_MEMORY, "no memory for a plan");
  ac_status status = build_sequences(plan, runs);
  ac_plan_set_read_ahead(plan, plan->desc.read_ahead);
  free(runs);
  return status;
}

/* A batch that must not be split is one micro-batch. */
static ac_status settle_micro_batch(ac_plan *plan) {
  ac_plan_desc *desc = &plan->desc;
  plan->coupled = -1;
  if (desc->purpose != AC_TRAIN || desc->micro_batch_norm) return AC_OK;
  for (int i = plan->main.step_count - 1; i >= 0; i--) {
    const ac_node *node = ac_node_at(plan->graph, plan->main.steps[i].node);
    if (!node->backward && ac_op_describe(node->op)->couples_samples)
      plan->coupled = plan->main.steps[i].node;
  }
  if (plan->coupled < 0) return AC_OK;
  if (!desc->micro_batch) desc->micro_batch = desc->batch;
  if (desc->micro_batch == desc->batch) return AC_OK;
  char text[128];
  return ac_fail(
      AC_ERROR_ARGUMENT,
      "plan: %s looks at all samples of a batch of %lld and cannot be split into "
      "micro-batches of %lld; take group norm, a micro-batch of %lld, or accept the "
      "statistics of micro-batches (--batch-norm micro)",
      ac_node_text(text, sizeof text, plan->graph, ac_node_at(plan->graph, plan->coupled)),
      (long long)desc->batch, (long long)desc->micro_batch, (long long)desc->batch);
}

static ac_cost step_cost(const ac_plan *plan, const ac_step *step) {
  ac_run_state run = {.training = plan->main.training, .batch = plan->info.micro_batch};
  ac_op_args args;
  ac_step_arguments(step, plan->graph, &run, &args);
  return ac_op_cost(&args);
}

static void fill_info(ac_plan *plan) {
  ac_plan_info *info = &plan->info;
  info->purpose = plan->desc.purpose;
  info->precision = plan->desc.precision;
  info->batch = plan->desc.batch;
  info->accumulation_steps = (info->batch + info->micro_batch - 1) / info->micro_batch;
  info->steps = plan->main.step_count;
  info->budget_bytes = plan->desc.memory;
  for (int i = 0; i < plan->graph->tensor_count; i++) {
    const ac_tensor *tensor = ac_tensor_at(plan->graph, i);
    if (tensor->role == AC_ROLE_WORKING && plan->address[i] != AC_NO_ADDRESS)
      info->working_bytes +=
          (uint64_t)ac_shape_count(&tensor->shape) * ac_dtype_bytes(tensor->dtype);
  }
  info->library_bytes = plan->device->backend->library_bytes(plan->device->state);
  for (int i = 0; i < plan->main.step_count; i++) {
    info->flops += step_cost(plan, &plan->main.steps[i]).flops;
    info->recomputed_ops += plan->main.steps[i].recomputed;
  }
}

static ac_status check_budget(const ac_plan_desc *desc, const ac_device *device) {
  uint64_t has = device->info.memory_bytes;
  if (!has || desc->memory <= has || desc->beyond_device) return AC_OK;
  char budget[32], memory[32];
  return ac_fail(AC_ERROR_BUDGET, "plan: the budget of %s is larger than the memory of %s, %s",
                 ac_format_bytes(budget, sizeof budget, desc->memory), device->info.id,
                 ac_format_bytes(memory, sizeof memory, has));
}

/* Without a budget: what the device has, but for a quarter on the host, which other programs and
 * the system live on. */
static uint64_t memory_limit(const ac_plan_desc *desc, const ac_device *device) {
  uint64_t has = device->info.memory_bytes;
  if (desc->memory) return desc->memory;
  if (!has || desc->beyond_device) return UINT64_MAX - 1;
  return device->info.gpu ? has : has - has / 4;
}

ac_status ac_plan_begin(ac_plan **result, const ac_graph *graph, ac_device *device,
                        const ac_plan_desc *desc) {
  *result = NULL;
  ac_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return ac_fail(AC_ERROR_MEMORY, "no memory for a plan");
  plan->device = device;
  plan->desc = *desc;
  if (!plan->desc.batch) plan->desc.batch = desc->micro_batch ? desc->micro_batch : 1;
  ac_status status = ac_graph_clone(&plan->source, graph);
  if (status == AC_OK) status = ac_graph_clone(&plan->graph, graph);
  if (status == AC_OK) status = build(plan);
  if (status == AC_OK) status = settle_micro_batch(plan);
  if (status == AC_OK) *result = plan;
  else ac_plan_free(plan);
  return status;
}

ac_status ac_plan_create(ac_plan **plan, const ac_graph *graph, ac_device *device,
                         const ac_plan_desc *desc) {
  AC_CREATES(plan);
  AC_REQUIRE(graph, device);
  const ac_plan_desc described = AC_DESCRIBED(ac_plan_desc, desc);
  AC_TRY(check_desc(&described));
  AC_TRY(check_budget(&described, device));
  ac_plan *made;
  AC_TRY(ac_plan_begin(&made, graph, device, &described));
  ac_status status = ac_plan_search(made, memory_limit(&described, device));
  if (status == AC_OK) status = ac_plan_check(made);
  if (status != AC_OK) {
    ac_plan_free(made);
    return status;
  }
  fill_info(made);
  *plan = made;
  return AC_OK;
}

void ac_plan_free(ac_plan *plan) {
  if (!plan) return;
  ac_sequence_free(&plan->main);
  ac_sequence_free(&plan->evaluation);
  if (plan->stages) ac_stages_free(plan->stages);
  free(plan->stages);
  ac_graph_free(plan->source);
  ac_graph_free(plan->graph);
  free(plan->address);
  free(plan->reads);
  free(plan->parameters);
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

ac_status ac_plan_get_step(const ac_plan *plan, int64_t index, ac_plan_step *result) {
  AC_REQUIRE(plan, result);
  if (index < 0 || index >= plan->main.step_count)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: step %lld of %d", (long long)index,
                   plan->main.step_count);
  const ac_step *step = &plan->main.steps[index];
  const ac_node *node = ac_node_at(plan->graph, step->node);
  ac_cost cost = step_cost(plan, step);
  *result = (ac_plan_step){.op = ac_op_name(node->op),
                           .scope = plan->graph->scopes[node->scope],
                           .backward = node->backward,
                           .recomputed = step->recomputed,
                           .couples_samples = ac_op_describe(node->op)->couples_samples,
                           .flops = cost.flops,
                           .bytes = cost.bytes};
  list_dtypes(plan->graph, node->in, AC_MAX_INPUTS, result->input, &result->inputs);
  list_dtypes(plan->graph, node->out, AC_MAX_OUTPUTS, result->output, &result->outputs);
  for (int i = 0; i < plan->main.value_count; i++) {
    const ac_value *value = &plan->main.values[i];
    if (value->first > index || value->last < index) continue;
    result->live_bytes += value->bytes;
    if (value->tensor < 0) result->workspace_bytes += value->bytes;
    else if (ac_tensor_at(plan->graph, value->tensor)->role == AC_ROLE_GRADIENT)
      result->gradient_bytes += value->bytes;
  }
  return AC_OK;
}

static ac_status add_alternative(const ac_plan *plan, const ac_plan_desc *desc,
                                 ac_plan_alternative *list, int capacity, int *count,
                                 uint64_t *total) {
  ac_plan *other;
  ac_status status = ac_plan_create(&other, plan->source, plan->device, desc);
  /* A tensor of this size exceeds the largest allocation, or what an op can count. */
  if (status == AC_ERROR_BUDGET || status == AC_ERROR_UNSUPPORTED) {
    *total = UINT64_MAX;
    return AC_OK;
  }
  AC_TRY(status);
  const ac_plan_info *info = &other->info;
  if (list && *count < capacity)
    list[*count] = (ac_plan_alternative){.micro_batch = info->micro_batch,
                                         .accumulation_steps = info->accumulation_steps,
                                         .recomputed_ops = info->recomputed_ops,
                                         .recompute = desc->recompute,
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
  *count = 0;
  if (plan->desc.purpose != AC_TRAIN)
    return ac_fail(AC_ERROR_ARGUMENT, "plan: only plans for training have alternatives");
  int64_t sizes[AC_SEARCH_SIZES];
  int size_count = ac_plan_search_sizes(plan->desc.batch, sizes);
  for (int i = 0; i < size_count; i++) {
    ac_plan_desc desc = plan->desc;
    uint64_t most, least, ignored;
    if (plan->coupled >= 0 && sizes[i] < desc.batch) continue;
    desc.micro_batch = sizes[i];
    desc.memory = 0;
    desc.beyond_device = true;
    desc.read_ahead = 0;
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
