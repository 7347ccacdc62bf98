#include "train/instance.h"

#include "core/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory ---------------------------------------------------------------------------------- */

static ac_status allocate_chunks(ac_instance *instance) {
  const ac_plan *plan = instance->plan;
  uint64_t total = plan->info.bytes.total;
  uint64_t size = plan->chunk_bytes ? plan->chunk_bytes : total;
  int count = total ? (int)((total + size - 1) / size) : 0;
  instance->chunks = calloc((size_t)count + 1, sizeof *instance->chunks);
  if (!instance->chunks) return ac_fail(AC_ERROR_MEMORY, "no memory for a list of chunks");
  for (uint64_t begin = 0; begin < total; begin += size) {
    uint64_t bytes = total - begin < size ? total - begin : size;
    AC_TRY(ac_device_allocate(instance->device, bytes, &instance->chunks[instance->chunk_count]));
    instance->chunk_count++;
  }
  return AC_OK;
}

static void release_chunks(ac_instance *instance) {
  const ac_plan *plan = instance->plan;
  uint64_t left = plan->info.bytes.total;
  uint64_t size = plan->chunk_bytes ? plan->chunk_bytes : left;
  for (int i = 0; i < instance->chunk_count; i++, left -= size)
    ac_device_release(instance->device, instance->chunks[i], left < size ? left : size);
}

ac_status ac_instance_view(ac_instance *instance, uint64_t address, uint64_t bytes, void **handle) {
  uint64_t size = instance->plan->chunk_bytes;
  uint64_t chunk = size ? address / size : 0, offset = size ? address % size : address;
  return instance->device->backend->view(instance->device->state, instance->chunks[chunk], offset,
                                         bytes, handle);
}

void ac_instance_drop_view(ac_instance *instance, void *handle) {
  if (handle) instance->device->backend->release_view(instance->device->state, handle);
}

static uint64_t tensor_bytes(const ac_instance *instance, int tensor) {
  ac_operand x =
      ac_operand_of(ac_tensor_at(instance->plan->graph, tensor), instance->plan->info.micro_batch);
  return (uint64_t)x.count * ac_dtype_bytes(x.dtype);
}

static ac_status view_persistent(ac_instance *instance) {
  const ac_plan *plan = instance->plan;
  const ac_graph *graph = plan->graph;
  for (int i = 0; i < graph->tensor_count; i++)
    if (plan->address[i] != AC_NO_ADDRESS)
      AC_TRY(ac_instance_view(instance, plan->address[i], tensor_bytes(instance, i),
                              &instance->persistent[i]));
  for (int i = 0; i < graph->parameter_count; i++) {
    const ac_parameter_memory *parameter = &plan->parameters[i];
    for (int m = 0; m < 2; m++)
      if (parameter->moment[m] != AC_NO_ADDRESS)
        AC_TRY(ac_instance_view(instance, parameter->moment[m],
                                tensor_bytes(instance, parameter->tensor),
                                &instance->moments[i][m]));
    if (parameter->gradient >= 0)
      AC_TRY(ac_instance_view(instance, parameter->statistics, 2 * sizeof(float),
                              &instance->statistics[i]));
  }
  if (plan->control_bytes)
    AC_TRY(ac_instance_view(instance, plan->control, plan->control_bytes, &instance->control));
  return AC_OK;
}

/* Moments start from zero; so does everything that a first step does not overwrite. */
static ac_status clear_persistent(ac_instance *instance) {
  const ac_plan *plan = instance->plan;
  const ac_backend *backend = instance->device->backend;
  for (int i = 0; i < plan->graph->parameter_count; i++)
    for (int m = 0; m < 2; m++)
      if (instance->moments[i][m])
        AC_TRY(backend->zero(instance->device->state, instance->moments[i][m],
                             tensor_bytes(instance, plan->parameters[i].tensor)));
  if (instance->control)
    AC_TRY(backend->zero(instance->device->state, instance->control, plan->control_bytes));
  return AC_OK;
}

/* ---- sequences ------------------------------------------------------------------------------- */

static void *handle_of(const ac_instance *instance, const ac_prepared *prepared, ac_slot slot) {
  if (slot.tensor < 0) return NULL;
  if (slot.value >= 0) return prepared->handles[ac_sequence_root(prepared->sequence, slot.value)];
  return instance->persistent[ac_tensor_at(instance->plan->graph, slot.tensor)->storage];
}

static void fill_arguments(ac_instance *instance, ac_prepared *prepared, int index) {
  const ac_step *step = &prepared->sequence->steps[index];
  ac_op_args *args = &prepared->args[index];
  ac_step_arguments(step, instance->plan->graph, &instance->run, args);
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    args->in[i].data = handle_of(instance, prepared, step->in[i]);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    args->out[j].data = handle_of(instance, prepared, step->out[j]);
  if (step->workspace >= 0) {
    args->workspace = prepared->handles[step->workspace];
    args->workspace_bytes = prepared->sequence->values[step->workspace].bytes;
  }
}

void ac_instance_resize(ac_instance *instance, ac_prepared *prepared) {
  if (prepared->batch == instance->run.batch) return;
  for (int i = 0; i < prepared->sequence->step_count; i++) fill_arguments(instance, prepared, i);
  prepared->batch = instance->run.batch;
}

static ac_status prepare(ac_instance *instance, ac_prepared *prepared,
                         const ac_sequence *sequence) {
  prepared->sequence = sequence;
  prepared->args = calloc((size_t)sequence->step_count + 1, sizeof *prepared->args);
  prepared->handles = calloc((size_t)sequence->value_count + 1, sizeof *prepared->handles);
  if (!prepared->args || !prepared->handles)
    return ac_fail(AC_ERROR_MEMORY, "no memory for a sequence");
  for (int i = 0; i < sequence->value_count; i++) {
    const ac_value *value = &sequence->values[i];
    if (value->shares == i)
      AC_TRY(ac_instance_view(instance, value->address, value->bytes, &prepared->handles[i]));
  }
  instance->run.batch = instance->plan->info.micro_batch;
  ac_instance_resize(instance, prepared);
  for (int i = 0; i < sequence->step_count; i++)
    AC_TRY(instance->device->backend->prepare(instance->device->state, &prepared->args[i]));
  return AC_OK;
}

/* Whether persistent or values of the main sequence, which owns the handles. */
static void find_gradients(ac_instance *instance) {
  const ac_plan *plan = instance->plan;
  const ac_sequence *sequence = &plan->main;
  for (int i = 0; i < plan->graph->parameter_count; i++)
    if (plan->parameters[i].gradient >= 0)
      instance->gradients[i] = instance->persistent[plan->parameters[i].gradient];
  for (int i = 0; i < sequence->value_count; i++) {
    if (sequence->values[i].tensor < 0) continue;
    const ac_tensor *tensor = ac_tensor_at(plan->graph, sequence->values[i].tensor);
    if (tensor->role == AC_ROLE_GRADIENT)
      instance->gradients[tensor->parameter] =
          instance->main.handles[ac_sequence_root(sequence, i)];
  }
}

/* What is prepared without handles of memory. A backend may look for its fastest kernels then, with
 * memory of its own: before the plan's is allocated. The backend says what it compiles. */
static ac_status prepare_early(ac_instance *instance, const ac_sequence *sequence) {
  instance->run.batch = instance->plan->info.micro_batch;
  for (int i = 0; i < sequence->step_count; i++) {
    ac_op_args args;
    ac_step_arguments(&sequence->steps[i], instance->plan->graph, &instance->run, &args);
    AC_TRY(instance->device->backend->prepare(instance->device->state, &args));
  }
  return AC_OK;
}

static void discard(ac_instance *instance, ac_prepared *prepared) {
  for (int i = 0; prepared->handles && i < prepared->sequence->value_count; i++)
    ac_instance_drop_view(instance, prepared->handles[i]);
  free(prepared->handles);
  free(prepared->args);
}

/* ---- inputs ---------------------------------------------------------------------------------- */

/* The input whose elements a node's operand holds; -1: none. */
static int input_of(const ac_graph *graph, const ac_node *node, int operand) {
  const ac_tensor *tensor = operand < 0 ? NULL : ac_tensor_at(graph, node->in[operand]);
  for (int i = 0; tensor && i < graph->input_count; i++)
    if (tensor->storage == graph->inputs[i]) return i;
  return -1;
}

/* The integers of an input must be below `limit`; `loss`: or be what it ignores. */
static void limit_ids(ac_instance *instance, int input, int64_t limit, const ac_loss_rows *loss) {
  if (input < 0) return;
  ac_input_check *check = &instance->checks[input];
  if (!check->limit || limit < check->limit) check->limit = limit;
  if (!loss) check->ignore = false;
  else if (loss->ignore) check->ignore = true, check->ignore_index = loss->ignore_index;
}

static void check_loss(ac_instance *instance, int index) {
  const ac_graph *graph = instance->plan->graph;
  const ac_node *node = ac_node_at(graph, index);
  ac_loss_rows rows;
  if (!ac_loss_rows_of(graph, node, &rows)) return;
  int targets = input_of(graph, node, rows.targets), weights = input_of(graph, node, rows.weights);
  limit_ids(instance, targets, rows.classes, &rows);
  if (weights >= 0) instance->checks[weights].weights = true;
  if (graph->loss < 0 || ac_tensor_at(graph, graph->loss)->producer != index) return;
  instance->loss_rows = rows;
  instance->loss_targets = targets;
  instance->loss_weights = weights;
}

static void find_checks(ac_instance *instance) {
  const ac_graph *graph = instance->plan->graph;
  for (int n = 0; n < graph->node_count; n++) check_loss(instance, n);
  for (int n = 0; n < graph->node_count; n++) {
    const ac_node *node = ac_node_at(graph, n);
    if (node->op == AC_OP_embedding)
      limit_ids(instance, input_of(graph, node, 1), ac_tensor_at(graph, node->in[0])->shape.dim[0],
                NULL);
  }
}

static ac_status check_data(const ac_input_check *check, const char *name, const void *data,
                            int64_t count) {
  const int32_t *ids = data;
  const float *weights = data;
  for (int64_t i = 0; check->limit && i < count; i++)
    if ((uint64_t)(int64_t)ids[i] >= (uint64_t)check->limit &&
        !(check->ignore && ids[i] == check->ignore_index))
      return ac_fail(AC_ERROR_ARGUMENT, "input \"%s\" holds %d at position %lld, outside [0, %lld)",
                     name, (int)ids[i], (long long)i, (long long)check->limit);
  for (int64_t i = 0; check->weights && i < count; i++)
    if (!(weights[i] >= 0) || isinf(weights[i]))
      return ac_fail(AC_ERROR_ARGUMENT,
                     "input \"%s\" holds the weight %g at position %lld; weights are finite and "
                     "not negative",
                     name, (double)weights[i], (long long)i);
  return AC_OK;
}

ac_status ac_instance_match_feeds(const ac_instance *instance, int64_t count, const ac_feed *feeds,
                                  int feed_count, const void *data[AC_MAX_GRAPH_INPUTS]) {
  const ac_graph *graph = instance->plan->graph;
  if (count < 1) return ac_fail(AC_ERROR_ARGUMENT, "%lld samples were fed", (long long)count);
  for (int i = 0; i < graph->input_count; i++) {
    const ac_tensor *input = ac_tensor_at(graph, graph->inputs[i]);
    data[i] = NULL;
    if (!instance->persistent[input->id]) continue; /* nothing reads it */
    for (int f = 0; f < feed_count; f++)
      if (feeds[f].name && !strcmp(feeds[f].name, input->name)) data[i] = feeds[f].data;
    if (!data[i]) return ac_fail(AC_ERROR_ARGUMENT, "input \"%s\" was not fed", input->name);
  }
  return ac_instance_check(instance, data, 0, count);
}

ac_status ac_instance_check(const ac_instance *instance, const void *const *data, int64_t first,
                            int64_t count) {
  const ac_graph *graph = instance->plan->graph;
  for (int i = 0; i < graph->input_count; i++) {
    const ac_tensor *input = ac_tensor_at(graph, graph->inputs[i]);
    if (!instance->persistent[input->id]) continue;
    int64_t elements = ac_shape_count(&input->shape);
    const char *from =
        (const char *)data[i] + first * elements * (int64_t)ac_dtype_bytes(input->dtype);
    AC_TRY(check_data(&instance->checks[i], input->name, from, count * elements));
  }
  return AC_OK;
}

ac_status ac_instance_upload(ac_instance *instance, const void *const *data, int64_t first,
                             int64_t count) {
  const ac_graph *graph = instance->plan->graph;
  for (int i = 0; i < graph->input_count; i++) {
    const ac_tensor *input = ac_tensor_at(graph, graph->inputs[i]);
    if (!instance->persistent[input->id]) continue;
    uint64_t bytes = (uint64_t)ac_shape_count(&input->shape) * ac_dtype_bytes(input->dtype);
    const char *from = (const char *)data[i] + (uint64_t)first * bytes;
    AC_TRY(instance->device->backend->upload(instance->device->state,
                                             instance->persistent[input->id], 0, from,
                                             (uint64_t)count * bytes));
  }
  return AC_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

ac_status ac_instance_run_step(ac_instance *instance, ac_prepared *prepared, int index,
                               bool fresh) {
  const ac_step *step = &prepared->sequence->steps[index];
  ac_op_args *args = &prepared->args[index];
  const ac_backend *backend = instance->device->backend;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    args->add[j] = step->write[j] == AC_ADD || (step->write[j] == AC_ADD_UNLESS_FIRST && !fresh);
  if (step->copy.tensor >= 0)
    AC_TRY(backend->copy(instance->device->state, args->out[0].data,
                         handle_of(instance, prepared, step->copy),
                         (uint64_t)args->out[0].count * ac_dtype_bytes(args->out[0].dtype)));
  ac_status status = backend->run(instance->device->state, args);
  if (status == AC_OK) return AC_OK;
  char text[128];
  const ac_graph *graph = instance->plan->graph;
  return ac_fail_prefix(status, "%s",
                        ac_node_text(text, sizeof text, graph, ac_node_at(graph, step->node)));
}

/* With ACCRUE_POISON every dead byte of the arena is a NaN (all bits set), so that an op which
 * reads what it should not shows at once: everything before a sequence begins, and each value after
 * the last step that needs it. */
#ifdef ACCRUE_POISON
static ac_status poison(ac_instance *instance, const ac_prepared *prepared, int value) {
  static const uint64_t piece_bytes = 1 << 16;
  unsigned char piece[1 << 16];
  uint64_t bytes = prepared->sequence->values[value].bytes;
  memset(piece, 0xff, sizeof piece);
  for (uint64_t first = 0; first < bytes; first += piece_bytes) {
    uint64_t size = bytes - first < piece_bytes ? bytes - first : piece_bytes;
    AC_TRY(instance->device->backend->upload(instance->device->state, prepared->handles[value],
                                             first, piece, size));
  }
  return AC_OK;
}

/* The values that end with this step; -1: all. */
static ac_status poison_after(ac_instance *instance, const ac_prepared *prepared, int step) {
  const ac_sequence *sequence = prepared->sequence;
  for (int i = 0; i < sequence->value_count; i++)
    if (prepared->handles[i] && (step < 0 || sequence->values[i].last == step))
      AC_TRY(poison(instance, prepared, i));
  return AC_OK;
}
#else
static ac_status poison_after(ac_instance *instance, const ac_prepared *prepared, int step) {
  (void)instance, (void)prepared, (void)step;
  return AC_OK;
}
#endif

/* In a first run, once those before it are done: a driver may compile an op when it is queued or
 * when it is its turn. */
static ac_status announce_step(const ac_instance *instance, const ac_prepared *prepared, int step) {
  const ac_device *device = instance->device;
  if (prepared->has_run || !device->backend->compiles) return AC_OK;
  AC_TRY(device->backend->finish(device->state));
  ac_device_log(device, AC_LOG_INFO, "%s: first run: %s (%d of %d)...", device->info.id,
                ac_op_name(prepared->args[step].op), step + 1, prepared->sequence->step_count);
  return AC_OK;
}

static ac_status run_steps(ac_instance *instance, ac_prepared *prepared, bool fresh) {
  instance->run.training = prepared->sequence->training;
  ac_instance_resize(instance, prepared);
  AC_TRY(poison_after(instance, prepared, -1));
  for (int i = 0; i < prepared->sequence->step_count; i++) {
    AC_TRY(announce_step(instance, prepared, i));
    AC_TRY(ac_instance_run_step(instance, prepared, i, fresh));
    if (prepared == &instance->main && instance->numerics.counts)
      AC_TRY(ac_numerics_watch(instance, i));
    AC_TRY(poison_after(instance, prepared, i));
  }
  return AC_OK;
}

ac_status ac_instance_run(ac_instance *instance, ac_prepared *prepared, bool fresh) {
  const ac_device *device = instance->device;
  if (prepared->has_run || !device->backend->compiles) return run_steps(instance, prepared, fresh);
  const ac_wait wait = ac_wait_begin(device, "first run of %d ops", prepared->sequence->step_count);
  ac_status status = run_steps(instance, prepared, fresh);
  if (status == AC_OK) status = device->backend->finish(device->state);
  prepared->has_run = status == AC_OK;
  return ac_wait_end(&wait, status);
}

ac_status ac_instance_fetch_control(ac_instance *instance) {
  return instance->device->backend->download(instance->device->state, instance->control, 0,
                                             instance->control_copy, instance->plan->control_bytes);
}

ac_loss_sums ac_instance_loss_sums(const ac_instance *instance) {
  const float *s = instance->control_copy;
  return (ac_loss_sums){(double)s[0] + (double)s[1], (double)s[2] + (double)s[3],
                        (double)s[4] + (double)s[5]};
}

/* ---- life ------------------------------------------------------------------------------------ */

static ac_status allocate_host(ac_instance *instance) {
  const ac_plan *plan = instance->plan;
  const ac_graph *graph = plan->graph;
  size_t tensors = (size_t)graph->tensor_count + 1, inputs = (size_t)graph->input_count + 1;
  size_t parameters = (size_t)graph->parameter_count + 1;
  instance->persistent = calloc(tensors, sizeof *instance->persistent);
  instance->gradients = calloc(parameters, sizeof *instance->gradients);
  instance->moments = calloc(parameters, sizeof *instance->moments);
  instance->statistics = calloc(parameters, sizeof *instance->statistics);
  instance->checks = calloc(inputs, sizeof *instance->checks);
  instance->staging = calloc(inputs, sizeof *instance->staging);
  instance->control_copy = calloc(plan->control_bytes + 1, 1);
  if (!instance->persistent || !instance->gradients || !instance->moments ||
      !instance->statistics || !instance->checks || !instance->staging || !instance->control_copy)
    return ac_fail(AC_ERROR_MEMORY, "no memory on the host for the plan");
  for (int i = 0; i < graph->input_count; i++) {
    if (plan->address[graph->inputs[i]] == AC_NO_ADDRESS) continue; /* nothing reads it */
    instance->staging[i] = malloc(tensor_bytes(instance, graph->inputs[i]));
    if (!instance->staging[i]) return ac_fail(AC_ERROR_MEMORY, "no memory to stage the inputs");
  }
  return AC_OK;
}

static ac_status bring_to_life(ac_instance *instance) {
  const ac_plan *plan = instance->plan;
  if (plan->graph->input_count > AC_MAX_GRAPH_INPUTS)
    return ac_fail(AC_ERROR_ARGUMENT, "the graph has %d inputs; at most %d are supported",
                   plan->graph->input_count, AC_MAX_GRAPH_INPUTS);
  AC_TRY(allocate_host(instance));
  find_checks(instance);
  AC_TRY(prepare_early(instance, &plan->main));
  AC_TRY(prepare_early(instance, &plan->evaluation));
  AC_TRY(allocate_chunks(instance));
  AC_TRY(view_persistent(instance));
  AC_TRY(clear_persistent(instance));
  AC_TRY(prepare(instance, &instance->main, &plan->main));
  find_gradients(instance);
  if (plan->main.after >= 0) instance->update_workspace = instance->main.handles[plan->main.after];
  if (plan->evaluation.steps) AC_TRY(prepare(instance, &instance->evaluation, &plan->evaluation));
  AC_TRY(ac_numerics_create(instance));
  return AC_OK;
}

ac_wait ac_instance_announce(const ac_plan *plan) {
  return ac_wait_begin(plan->device, "preparing %d ops",
                       plan->main.step_count + plan->evaluation.step_count);
}

ac_status ac_instance_create(ac_instance *instance, const ac_plan *plan) {
  memset(instance, 0, sizeof *instance);
  instance->plan = plan;
  instance->device = plan->device;
  instance->run.loss_scale = 1;
  instance->run.mark_flushed = plan->numerics_bytes > 0; /* kernels are compiled for it */
  ac_status status = bring_to_life(instance);
  if (status != AC_OK) ac_instance_free(instance);
  return status;
}

void ac_instance_free(ac_instance *instance) {
  if (!instance->plan) return;
  const ac_graph *graph = instance->plan->graph;
  ac_numerics_free(instance);
  discard(instance, &instance->main);
  discard(instance, &instance->evaluation);
  for (int i = 0; instance->persistent && i < graph->tensor_count; i++)
    ac_instance_drop_view(instance, instance->persistent[i]);
  for (int i = 0; i < graph->parameter_count; i++) {
    for (int m = 0; instance->moments && m < 2; m++)
      ac_instance_drop_view(instance, instance->moments[i][m]);
    if (instance->statistics) ac_instance_drop_view(instance, instance->statistics[i]);
  }
  ac_instance_drop_view(instance, instance->control);
  if (instance->chunks) release_chunks(instance);
  for (int i = 0; instance->staging && i < graph->input_count; i++) free(instance->staging[i]);
  free(instance->unused);
  free(instance->chunks);
  free(instance->persistent);
  free(instance->gradients);
  free(instance->moments);
  free(instance->statistics);
  free(instance->checks);
  free(instance->staging);
  free(instance->control_copy);
  memset(instance, 0, sizeof *instance);
}
