/* What a plan costs in bytes at one micro-batch size: the layout of the whole address space. */
#include "plan/plan.h"

#include "core/error.h"

static uint64_t operand_bytes(const ac_tensor *tensor, int64_t batch) {
  ac_operand x = ac_operand_of(tensor, batch);
  return (uint64_t)x.count * ac_dtype_bytes(x.dtype);
}

int ac_plan_moments(const ac_plan *plan) {
  if (plan->desc.optimizer == AC_ADAMW) return 2;
  return plan->desc.sgd_no_momentum ? 0 : 1;
}

/* Forward only, a parameter that is read in 16 bits alone needs no f32 original. */
static bool is_wanted(const ac_plan *plan, const ac_tensor *tensor) {
  bool training = plan->desc.purpose == AC_TRAIN, read = plan->reads[tensor->id];
  if (tensor->role == AC_ROLE_INPUT) return read;
  if (tensor->role == AC_ROLE_WORKING) return training || read;
  if (tensor->role != AC_ROLE_PARAMETER || training) return true;
  return read || plan->parameters[tensor->parameter].working < 0;
}

static ac_status append_tensors(ac_plan *plan, ac_address_space *space, ac_role role,
                                int64_t batch) {
  for (int i = 0; i < plan->graph->tensor_count; i++) {
    const ac_tensor *tensor = ac_tensor_at(plan->graph, i);
    if (tensor->role == role && tensor->storage == i && is_wanted(plan, tensor))
      AC_TRY(ac_layout_append(space, operand_bytes(tensor, batch), &plan->address[i]));
  }
  return AC_OK;
}

static ac_status append_moments(ac_plan *plan, ac_address_space *space) {
  for (int i = 0; i < plan->graph->parameter_count; i++) {
    ac_parameter_memory *parameter = &plan->parameters[i];
    uint64_t bytes = operand_bytes(ac_tensor_at(plan->graph, parameter->tensor), 1);
    for (int m = 0; m < ac_plan_moments(plan) && parameter->gradient >= 0; m++)
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
    if (ac_tensor_at(plan->graph, i)->role == AC_ROLE_LOSS) plan->address[i] = plan->control;
  for (int i = 0; training && i < plan->graph->parameter_count; i++)
    plan->parameters[i].statistics = plan->control + offset + (uint64_t)i * slot;
  return AC_OK;
}

/* Two counts for each step, each where a device's view may begin. */
static ac_status append_numerics(ac_plan *plan, ac_address_space *space) {
  bool watched = plan->desc.debug_numerics && plan->desc.precision != AC_PRECISION_F32;
  uint64_t slot = ac_align(space, 2 * sizeof(int32_t));
  plan->numerics_bytes = watched ? (uint64_t)plan->main.step_count * slot : 0;
  return ac_layout_append(space, plan->numerics_bytes, &plan->numerics);
}

void ac_plan_update_arguments(const ac_plan *plan, int parameter, const void *attributes,
                              const ac_run_state *run, ac_op_args *args) {
  const ac_parameter_memory *memory = &plan->parameters[parameter];
  ac_operand x = ac_operand_of(ac_tensor_at(plan->graph, memory->tensor), 1);
  *args = (ac_op_args){.op = plan->desc.optimizer == AC_ADAMW ? AC_OP_adamw : AC_OP_sgd,
                       .attributes = attributes,
                       .run = run,
                       .in = {x}};
  for (int j = 0; j <= ac_plan_moments(plan); j++) args->out[j] = x;
  if (memory->working >= 0)
    args->out[ac_plan_working_output(plan)] =
        ac_operand_of(ac_tensor_at(plan->graph, memory->working), 1);
}

int ac_plan_working_output(const ac_plan *plan) {
  return plan->desc.optimizer == AC_ADAMW ? 3 : 2;
}

/* The most scratch space that any op of an update asks for. */
static uint64_t update_workspace(const ac_plan *plan) {
  static const ac_run_state run = {.batch = 1};
  static const unsigned char attributes[AC_MAX_ATTRIBUTE_BYTES];
  const ac_backend *backend = plan->device->backend;
  uint64_t most = 0;
  for (int i = 0; i < plan->graph->parameter_count; i++) {
    if (plan->parameters[i].gradient < 0) continue;
    ac_operand x = ac_operand_of(ac_tensor_at(plan->graph, plan->parameters[i].tensor), 1);
    ac_op_args args = {.attributes = attributes, .run = &run, .in = {x}};
    args.op = AC_OP_gradient_statistics;
    args.out[0] = (ac_operand){.rank = 1, .dim = {2}, .count = 2};
    uint64_t statistics = backend->workspace(plan->device->state, &args);
    ac_plan_update_arguments(plan, i, attributes, &run, &args);
    uint64_t step = backend->workspace(plan->device->state, &args);
    if (statistics > most) most = statistics;
    if (step > most) most = step;
  }
  return most;
}

static uint64_t larger(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* What a sequence's values take: where they end, laid out or by the bound, and the bounds. */
typedef struct arena {
  uint64_t end;
  ac_layout_sums sums;
} arena;

/* `after`: bytes of workspace once it has run. */
static ac_status place_arena(ac_plan *plan, const ac_address_space *space, ac_sequence *sequence,
                             uint64_t after, bool exact, arena *a) {
  AC_TRY(ac_sequence_size(sequence, plan->graph, plan->device, plan->info.micro_batch, after));
  AC_TRY(ac_layout_bound(sequence, plan->graph, &a->sums));
  if (exact) return ac_layout_arena(space, sequence, space->end, &a->end);
  a->end = space->end + a->sums.all;
  return ac_layout_check(space, sequence);
}

/* Gradients among the values of the main sequence have no address of their own. */
static ac_status append_gradients(ac_plan *plan, ac_address_space *space) {
  if (!plan->main.whole_window) return append_tensors(plan, space, AC_ROLE_GRADIENT, 1);
  for (int i = 0; i < plan->graph->tensor_count; i++)
    if (ac_tensor_at(plan->graph, i)->role == AC_ROLE_GRADIENT) plan->address[i] = AC_NO_ADDRESS;
  return AC_OK;
}

static ac_status price(ac_plan *plan, int64_t micro_batch, bool exact) {
  const ac_device_info *device = &plan->device->info;
  ac_plan_bytes *bytes = &plan->info.bytes;
  uint64_t chunk = device->max_allocation / device->alignment * device->alignment;
  ac_address_space space = {.alignment = device->alignment, .chunk_bytes = chunk};
  plan->info.micro_batch = micro_batch;
  AC_TRY(append_tensors(plan, &space, AC_ROLE_PARAMETER, 1));
  AC_TRY(append_tensors(plan, &space, AC_ROLE_WORKING, 1));
  bytes->parameters = space.end;
  AC_TRY(append_gradients(plan, &space));
  AC_TRY(append_tensors(plan, &space, AC_ROLE_POOLED, 1));
  bytes->gradients = space.end - bytes->parameters;
  uint64_t begin = space.end;
  if (plan->desc.purpose == AC_TRAIN) AC_TRY(append_moments(plan, &space));
  bytes->optimizer = space.end - begin;
  begin = space.end;
  AC_TRY(append_control(plan, &space));
  AC_TRY(append_numerics(plan, &space));
  AC_TRY(append_tensors(plan, &space, AC_ROLE_INPUT, micro_batch));
  bytes->io = space.end - begin;

  arena main, evaluation = {0};
  plan->update_workspace_bytes = plan->desc.purpose == AC_TRAIN ? update_workspace(plan) : 0;
  AC_TRY(place_arena(plan, &space, &plan->main, plan->update_workspace_bytes, exact, &main));
  if (plan->desc.purpose == AC_TRAIN)
    AC_TRY(place_arena(plan, &space, &plan->evaluation, 0, exact, &evaluation));
  uint64_t end = larger(main.end, evaluation.end);
  uint64_t tensors = larger(main.sums.tensors, evaluation.sums.tensors);
  plan->info.live_bytes = main.sums.all;
  bytes->activations = larger(main.sums.activations, evaluation.sums.activations);
  bytes->gradients += tensors - bytes->activations;
  bytes->workspace = end - space.end - tensors;
  bytes->total = end;
  plan->chunk_bytes = chunk && end > chunk ? chunk : 0;
  return AC_OK;
}

ac_status ac_plan_price(ac_plan *plan, int64_t micro_batch, bool exact) {
  ac_status status = price(plan, micro_batch, exact);
  if (status != AC_ERROR_BUDGET) return status;
  plan->info.bytes.total = UINT64_MAX;
  return AC_OK;
}
