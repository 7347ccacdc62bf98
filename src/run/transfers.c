/* Transfers optimizer state from host memory to the device for its step, and back (the plan's
 * transfers.c says which state, and when). At the point of the k-th step that transfers state
 *
 *   the step waits for its own way in, which began one point before;
 *   the way in of the next begins, once all is done that was queued before this step;
 *   the step is queued;
 *   what follows waits for the way out of the one before, because its memory may then be reused;
 *   its own way out begins, once it is done. */
#include "run/instance.h"

#include "core/error.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory ---------------------------------------------------------------------------------- */

static bool is_transferred(const ac_cell *cell) {
  return cell->role == AC_ROLE_STATE && cell->space == AC_SPACE_HOST;
}

ac_status ac_transfers_allocate(ac_instance *instance) {
  const ac_plan *plan = instance->plan;
  instance->transferred =
      calloc((size_t)plan->graph->tensor_count + 1, sizeof *instance->transferred);
  if (!instance->transferred)
    return ac_fail(AC_ERROR_MEMORY, "no memory for a list of what is transferred");
  for (int i = 0; i < plan->cell_count; i++) {
    const ac_cell *cell = &plan->cells[i];
    if (is_transferred(cell))
      AC_TRY(ac_device_allocate_host(instance->device, cell->bytes,
                                     &instance->transferred[cell->tensor]));
  }
  return AC_OK;
}

void ac_transfers_release(ac_instance *instance) {
  for (int i = 0; instance->transferred && i < instance->plan->graph->tensor_count; i++)
    ac_device_release_host(instance->device, &instance->transferred[i]);
  free(instance->transferred);
}

ac_status ac_instance_read_cell(const ac_instance *instance, const ac_cell *cell, uint64_t offset,
                                void *data, uint64_t bytes) {
  const ac_device *device = instance->device;
  if (!bytes) return AC_OK;
  AC_TRY(ac_instance_settle(instance));
  if (!is_transferred(cell))
    return device->backend->download(device->state, instance->persistent[cell->tensor], offset,
                                     data, bytes);
  AC_TRY(device->backend->finish(device->state));
  memcpy(data, (char *)instance->transferred[cell->tensor].data + offset, bytes);
  return AC_OK;
}

ac_status ac_instance_write_cell(const ac_instance *instance, const ac_cell *cell, uint64_t offset,
                                 const void *data, uint64_t bytes) {
  const ac_device *device = instance->device;
  if (!bytes) return AC_OK;
  AC_TRY(ac_instance_settle(instance));
  if (!is_transferred(cell))
    return device->backend->upload(device->state, instance->persistent[cell->tensor], offset, data,
                                   bytes);
  AC_TRY(device->backend->finish(device->state));
  memcpy((char *)instance->transferred[cell->tensor].data + offset, data, bytes);
  return AC_OK;
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* Operands of a step: the gradient, and what is written. */
enum { OPERANDS = 1 + AC_MAX_OUTPUTS };

static ac_slot slot_of(const ac_step *step, int operand) {
  return operand ? step->out[operand - 1] : step->in[0];
}

/* Where an operand that is not in a value of the step's own begins, or would with all its elements:
 * a cell, or a gradient in the arena. */
static uint64_t address_of(const ac_plan *plan, const ac_sequence *sequence, ac_slot slot) {
  if (slot.value >= 0) return sequence->values[ac_sequence_root(sequence, slot.value)].address;
  const int storage = ac_tensor_at(plan->graph, slot.tensor)->storage;
  for (int i = 0; i < plan->cell_count; i++)
    if (plan->cells[i].tensor == storage && plan->cells[i].space == AC_SPACE_DEVICE)
      return plan->cells[i].address -
             (uint64_t)plan->cells[i].first * ac_dtype_bytes(plan->cells[i].dtype);
  return AC_NO_ADDRESS;
}

ac_status ac_transfers_view(ac_instance *instance, const ac_sequence *sequence, ac_slot slot,
                            ac_part part, void **handle) {
  const ac_tensor *tensor = ac_tensor_at(instance->plan->graph, slot.tensor);
  const ac_part range = ac_transfers_range(tensor->dtype, part);
  const uint64_t size = ac_dtype_bytes(tensor->dtype);
  return ac_instance_view(instance,
                          address_of(instance->plan, sequence, slot) + (uint64_t)range.first * size,
                          (uint64_t)range.count * size, handle);
}

ac_status ac_transfers_prepare(ac_instance *instance, ac_prepared *prepared) {
  const ac_sequence *sequence = prepared->sequence;
  const ac_graph *graph = instance->plan->graph;
  prepared->arriving = -1;
  if (!sequence->host_state && !sequence->shards) return AC_OK;
  prepared->parts = calloc((size_t)sequence->step_count * OPERANDS + 1, sizeof *prepared->parts);
  if (!prepared->parts) return ac_fail(AC_ERROR_MEMORY, "no memory for parts of parameters");
  for (int i = 0; i < sequence->step_count; i++)
    for (int k = 0; k < OPERANDS && sequence->steps[i].part.count; k++) {
      const ac_slot slot = slot_of(&sequence->steps[i], k);
      if (slot.tensor < 0) continue;
      const bool own = ac_tensor_at(graph, slot.tensor)->role == AC_ROLE_STATE &&
                       (slot.value >= 0 || sequence->shards);
      if (!own)
        AC_TRY(ac_transfers_view(instance, sequence, slot, sequence->steps[i].part,
                                 &prepared->parts[i * OPERANDS + k]));
    }
  return AC_OK;
}

void ac_transfers_discard(ac_instance *instance, ac_prepared *prepared) {
  for (int i = 0; prepared->parts && i < prepared->sequence->step_count * OPERANDS; i++)
    ac_instance_drop_view(instance, prepared->parts[i]);
  free(prepared->parts);
}

void ac_transfers_cut(const ac_prepared *prepared, int step, ac_op_args *args) {
  if (!prepared->sequence->steps[step].part.count) return;
  void *const *parts = prepared->parts + step * OPERANDS;
  if (parts[0]) args->in[0].data = parts[0];
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    if (parts[1 + j]) args->out[j].data = parts[1 + j];
}

/* ---- transfers ------------------------------------------------------------------------------- */

static ac_status order(const ac_instance *instance, ac_queue first, ac_queue then) {
  return instance->device->backend->order(instance->device->state, first, then);
}

/* All that a step keeps, in this direction. */
static ac_status move(const ac_instance *instance, const ac_prepared *prepared, int index,
                      ac_queue direction) {
  const ac_plan *plan = instance->plan;
  const ac_backend *backend = instance->device->backend;
  const ac_step *step = &prepared->sequence->steps[index];
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    if (step->out[j].value < 0) continue;
    const ac_tensor *tensor = ac_tensor_at(plan->graph, step->out[j].tensor);
    if (tensor->role != AC_ROLE_STATE) continue;
    const ac_host_memory *memory = &instance->transferred[tensor->id];
    const ac_part range = ac_transfers_range(tensor->dtype, step->part);
    const uint64_t size = ac_dtype_bytes(tensor->dtype);
    const uint64_t bytes = range.count ? (uint64_t)range.count * size : memory->bytes;
    char *data = (char *)memory->data + (uint64_t)range.first * size;
    void *handle = prepared->handles[step->out[j].value];
    if (direction == AC_QUEUE_IN)
      AC_TRY(backend->transfer_in(instance->device->state, handle, data, bytes));
    else AC_TRY(backend->transfer_out(instance->device->state, handle, data, bytes));
  }
  return AC_OK;
}

static ac_status bring(ac_instance *instance, ac_prepared *prepared, int index) {
  AC_TRY(order(instance, AC_QUEUE_RUN, AC_QUEUE_IN));
  AC_TRY(move(instance, prepared, index, AC_QUEUE_IN));
  prepared->arriving = index;
  return AC_OK;
}

ac_status ac_transfers_begin(ac_instance *instance, ac_prepared *prepared, int index) {
  const int next = ac_transfers_next(prepared->sequence, index);
  if (prepared->arriving != index) AC_TRY(bring(instance, prepared, index));
  prepared->arriving = -1;
  AC_TRY(order(instance, AC_QUEUE_IN, AC_QUEUE_RUN));
  return next < 0 ? AC_OK : bring(instance, prepared, next);
}

ac_status ac_transfers_end(ac_instance *instance, ac_prepared *prepared, int index) {
  AC_TRY(order(instance, AC_QUEUE_OUT, AC_QUEUE_RUN));
  AC_TRY(order(instance, AC_QUEUE_RUN, AC_QUEUE_OUT));
  AC_TRY(move(instance, prepared, index, AC_QUEUE_OUT));
  if (ac_transfers_next(prepared->sequence, index) >= 0) return AC_OK;
  return order(instance, AC_QUEUE_OUT, AC_QUEUE_RUN);
}
