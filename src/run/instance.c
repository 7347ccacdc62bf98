#include "run/instance.h"

#include "core/error.h"

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

/* Makes a view of every cell on the device. */
static ac_status view_cells(ac_instance *instance) {
  const ac_plan *plan = instance->plan;
  for (int i = 0; i < plan->cell_count; i++) {
    const ac_cell *cell = &plan->cells[i];
    if (cell->space != AC_SPACE_DEVICE || !cell->bytes) continue;
    AC_TRY(ac_instance_view(instance, cell->address, cell->bytes, &instance->views[i]));
    if (cell->tensor >= 0) instance->persistent[cell->tensor] = instance->views[i];
  }
  if (!plan->control_bytes) return AC_OK;
  return ac_instance_view(instance, plan->control, plan->control_bytes, &instance->control);
}

/* Optimizer state and caches start from zero; so does everything that a first step does not
 * overwrite. */
static ac_status clear_cells(ac_instance *instance) {
  const ac_plan *plan = instance->plan;
  const ac_backend *backend = instance->device->backend;
  for (int i = 0; i < plan->cell_count; i++) {
    ac_role role = plan->cells[i].role;
    bool cleared = role == AC_ROLE_STATE || role == AC_ROLE_AVERAGE || role == AC_ROLE_CACHE ||
                   role == AC_ROLE_COUNTER;
    if (cleared && instance->views[i])
      AC_TRY(backend->zero(instance->device->state, instance->views[i], plan->cells[i].bytes));
  }
  if (!instance->control) return AC_OK;
  return backend->zero(instance->device->state, instance->control, plan->control_bytes);
}

static ac_status upload_constants(ac_instance *instance) {
  const ac_plan *plan = instance->plan;
  for (int i = 0; i < plan->cell_count; i++) {
    const ac_cell *cell = &plan->cells[i];
    if (cell->role != AC_ROLE_CONSTANT || !instance->views[i]) continue;
    const void *values = ac_tensor_at(plan->graph, cell->tensor)->values->data;
    AC_TRY(cell->dtype == AC_I32
               ? ac_instance_write_cell(instance, cell, 0, values, cell->bytes)
               : ac_instance_write_floats(instance, cell->tensor, 0, cell->count, values));
  }
  return AC_OK;
}

/* ---- sequences ------------------------------------------------------------------------------- */

void *ac_instance_handle(const ac_instance *instance, const ac_prepared *prepared, ac_slot slot) {
  if (slot.tensor < 0) return NULL;
  void *place = ac_sections_place(instance, prepared, slot);
  if (place) return place;
  if (slot.value >= 0) return prepared->handles[ac_sequence_root(prepared->sequence, slot.value)];
  return instance->persistent[ac_tensor_at(instance->plan->graph, slot.tensor)->storage];
}

/* Attributes from the run state, for ops that depend on the current window. */
static const void *window_attributes(const ac_instance *instance, const ac_step *step) {
  const ac_node *node = ac_node_at(instance->plan->graph, step->node);
  const ac_tensor *gradient = ac_tensor_at(instance->plan->graph, node->in[0]);
  const ac_update_attributes *own = &instance->updates[gradient->parameter];
  if (node->phase == AC_PHASE_FOLD) return &own->fold;
  if (gradient->role == AC_ROLE_PARAMETER) return &own->average;
  if (ac_op_describe(node->op)->rewrites) return &own->clip;
  return node->phase == AC_PHASE_REDUCE ? (const void *)&own->statistics : &own->step;
}

void ac_instance_fill_arguments(ac_instance *instance, ac_prepared *prepared, int index) {
  const ac_step *step = &prepared->sequence->steps[index];
  ac_op_args *args = &prepared->args[index];
  ac_step_arguments(step, instance->plan->graph, &instance->run, args);
  if (ac_op_describe(args->op)->by_window) args->attributes = window_attributes(instance, step);
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    args->in[i].data = ac_instance_handle(instance, prepared, step->in[i]);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    args->out[j].data = ac_instance_handle(instance, prepared, step->out[j]);
  ac_transfers_cut(prepared, index, args);
  if (step->workspace >= 0) {
    args->workspace = prepared->handles[step->workspace];
    args->workspace_bytes = prepared->sequence->values[step->workspace].bytes;
  }
}

void ac_instance_resize(ac_instance *instance, ac_prepared *prepared) {
  if (prepared->batch == instance->run.batch) return;
  for (int i = 0; i < ac_sequence_end(prepared->sequence); i++)
    ac_instance_fill_arguments(instance, prepared, i);
  prepared->batch = instance->run.batch;
}

static ac_status prepare(ac_instance *instance, ac_prepared *prepared, const ac_sequence *sequence,
                         int64_t batch) {
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
  AC_TRY(ac_transfers_prepare(instance, prepared));
  AC_TRY(ac_sections_prepare(instance, prepared));
  instance->run.batch = batch;
  ac_instance_resize(instance, prepared);
  for (int i = ac_sequence_end(sequence); i < sequence->step_count; i++)
    ac_instance_fill_arguments(instance, prepared, i);
  for (int i = 0; i < sequence->step_count; i++)
    AC_TRY(instance->device->backend->prepare(instance->device->state, &prepared->args[i]));
  return AC_OK;
}

/* Cells of the arena have the handles of their values, which the main sequence owns; fused, of
 * none.
 */
static void view_arena_cells(ac_instance *instance) {
  const ac_sequence *sequence = &instance->plan->main;
  if (!instance->plan->way->keeps) return;
  for (int i = 0; i < sequence->value_count; i++) {
    int tensor = sequence->values[i].tensor;
    if (tensor < 0 || ac_tensor_at(instance->plan->graph, tensor)->role != AC_ROLE_GRADIENT)
      continue;
    instance->persistent[tensor] = instance->main.handles[ac_sequence_root(sequence, i)];
  }
}

/* What is prepared without handles of memory. A backend may look for its fastest kernels then, with
 * memory of its own: before the plan's is allocated. The backend says what it compiles. */
static ac_status prepare_early(ac_instance *instance, const ac_sequence *sequence, int64_t batch) {
  instance->run.batch = batch;
  for (int i = 0; i < ac_sequence_end(sequence); i++) {
    ac_op_args args;
    ac_step_arguments(&sequence->steps[i], instance->plan->graph, &instance->run, &args);
    AC_TRY(instance->device->backend->prepare(instance->device->state, &args));
  }
  return AC_OK;
}

static void discard(ac_instance *instance, ac_prepared *prepared) {
  for (int i = 0; prepared->handles && i < prepared->sequence->value_count; i++)
    ac_instance_drop_view(instance, prepared->handles[i]);
  ac_transfers_discard(instance, prepared);
  ac_sections_discard(instance, prepared);
  free(prepared->handles);
  free(prepared->args);
}

/* ---- running --------------------------------------------------------------------------------- */

static ac_status hand_over(const ac_instance *instance, int index, const ac_op_args *args) {
  const ac_plan *plan = instance->plan;
  const ac_node *node = ac_node_at(plan->graph, index);
  const ac_hand_over *to = &instance->hand_over;
  if (!to->step || !ac_problem_hands_over(&plan->problem, node)) return AC_OK;
  return to->step(to->user, ac_tensor_at(plan->graph, node->in[0])->parameter, args->out[0].data);
}

static void set_adds(ac_prepared *prepared, int index, bool fresh) {
  const ac_step *step = &prepared->sequence->steps[index];
  bool *add = prepared->args[index].add;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    add[j] = step->write[j] == AC_ADD || (step->write[j] == AC_ADD_UNLESS_FIRST && !fresh);
}

ac_status ac_instance_settle(const ac_instance *instance) {
  for (; instance; instance = instance->shares)
    if (instance->arrival.all) AC_TRY(instance->arrival.all(instance->arrival.user));
  return AC_OK;
}

/* Before a step: a micro-batch may begin when the parameters of its first steps are there. */
static ac_status await_parameters(const ac_instance *instance, const ac_prepared *prepared,
                                  int step) {
  const ac_arrival *arrival = &instance->arrival;
  const bool alone = prepared == &instance->main && step < ac_sequence_end(prepared->sequence);
  if (!arrival->step || !alone || instance->shares) return ac_instance_settle(instance);
  return arrival->step(arrival->user, step);
}

ac_status ac_instance_run_step(ac_instance *instance, ac_prepared *prepared, int index,
                               bool fresh) {
  const ac_step *step = &prepared->sequence->steps[index];
  ac_op_args *args = &prepared->args[index];
  const ac_backend *backend = instance->device->backend;
  AC_TRY(ac_instance_meanwhile(instance));
  AC_TRY(await_parameters(instance, prepared, index));
  set_adds(prepared, index, fresh);
  if (step->copy.tensor >= 0)
    AC_TRY(backend->copy(instance->device->state, args->out[0].data,
                         ac_instance_handle(instance, prepared, step->copy),
                         (uint64_t)args->out[0].count * ac_dtype_bytes(args->out[0].dtype)));
  if (step->transfers) AC_TRY(ac_transfers_begin(instance, prepared, index));
  ac_status status = backend->run(instance->device->state, args);
  if (status == AC_OK && step->transfers) status = ac_transfers_end(instance, prepared, index);
  if (status == AC_OK) return hand_over(instance, step->node, args);
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

/* The values that end with this step; -1: all. `last`: no other micro-batch runs it. */
static ac_status poison_after(ac_instance *instance, const ac_prepared *prepared, int step,
                              bool last) {
  const ac_sequence *sequence = prepared->sequence;
  for (int i = 0; i < sequence->value_count; i++)
    if (prepared->handles[i] && (last || !sequence->values[i].lasts) &&
        (step < 0 || sequence->values[i].last == step))
      AC_TRY(poison(instance, prepared, i));
  return AC_OK;
}
#else
static ac_status poison_after(ac_instance *instance, const ac_prepared *prepared, int step,
                              bool last) {
  (void)instance, (void)prepared, (void)step, (void)last;
  return AC_OK;
}
#endif

/* Announces a step in a first run, after the steps before it are done: a driver may compile an op
 * when it is queued or when it begins. */
static ac_status announce_step(const ac_instance *instance, const ac_prepared *prepared, int step) {
  const ac_device *device = instance->device;
  if (prepared->has_run || !device->backend->compiles) return AC_OK;
  AC_TRY(device->backend->finish(device->state));
  ac_device_log(device, AC_LOG_INFO, "%s: first run: %s (%d of %d)...", device->info.id,
                ac_op_name(prepared->args[step].op), step + 1, ac_sequence_end(prepared->sequence));
  return AC_OK;
}

/* Whether a step runs: all do, except for those that fold where nothing is folded, and those of an
 * update that the gate is asked about. */
static ac_status ask_gate(const ac_instance *instance, const ac_step *step, bool *runs) {
  const ac_graph *graph = instance->plan->graph;
  const ac_node *node = ac_node_at(graph, step->node);
  *runs = node->op != AC_OP_fold || !instance->folds_nothing;
  if (!instance->gate.ask || node->phase != AC_PHASE_UPDATE) return AC_OK;
  const ac_tensor *by = ac_tensor_at(graph, node->in[0]);
  const int parameter = by->role == AC_ROLE_PARAMETER ? -1 : by->parameter;
  return instance->gate.ask(instance->gate.user, parameter, runs);
}

ac_status ac_instance_do_step(ac_instance *instance, ac_prepared *prepared, int i, bool fresh,
                              bool last) {
  bool runs;
  AC_TRY(announce_step(instance, prepared, i));
  AC_TRY(ask_gate(instance, &prepared->sequence->steps[i], &runs));
  if (runs) AC_TRY(ac_instance_run_step(instance, prepared, i, fresh));
  if (prepared == &instance->main && instance->numerics.counts)
    AC_TRY(ac_numerics_watch(instance, i));
  if (prepared == &instance->main && instance->watched_count) AC_TRY(ac_watched_after(instance, i));
  if (prepared == &instance->main && instance->follower.call)
    AC_TRY(instance->follower.call(instance->follower.user, i + 1));
  return poison_after(instance, prepared, i, last);
}

static ac_status run_steps(ac_instance *instance, ac_prepared *prepared, bool fresh) {
  instance->run.training = prepared->sequence->training;
  AC_TRY(poison_after(instance, prepared, -1, true));
  if (prepared->sequence->section_count) return ac_sections_run(instance, prepared);
  ac_instance_resize(instance, prepared);
  for (int i = 0; i < ac_sequence_end(prepared->sequence); i++)
    AC_TRY(ac_instance_do_step(instance, prepared, i, fresh, true));
  return AC_OK;
}

ac_status ac_instance_run_needed(ac_instance *instance, ac_prepared *prepared,
                                 const ac_needed *needed) {
  instance->run.training = prepared->sequence->training;
  ac_instance_resize(instance, prepared);
  AC_TRY(poison_after(instance, prepared, -1, true));
  for (int i = 0; i <= needed->last; i++) {
    if (needed->steps[i]) AC_TRY(ac_instance_run_step(instance, prepared, i, true));
    if (i < needed->last) AC_TRY(poison_after(instance, prepared, i, true));
  }
  return AC_OK;
}

ac_status ac_instance_run(ac_instance *instance, ac_prepared *prepared, bool fresh) {
  const ac_device *device = instance->device;
  if (prepared->has_run || !device->backend->compiles) return run_steps(instance, prepared, fresh);
  const ac_wait wait =
      ac_wait_begin(device, "first run of %d ops", ac_sequence_end(prepared->sequence));
  ac_status status = run_steps(instance, prepared, fresh);
  if (status == AC_OK) status = device->backend->finish(device->state);
  prepared->has_run = status == AC_OK;
  return ac_wait_end(&wait, status);
}

/* The main sequence's steps from `begin` on, which may run in any order. */
static ac_status run_together(ac_instance *instance, int begin, int count) {
  const ac_device *device = instance->device;
  for (int i = begin; i < begin + count; i++) set_adds(&instance->main, i, false);
  const ac_status status =
      device->backend->run_all(device->state, &instance->main.args[begin], count);
  if (status == AC_OK) return AC_OK;
  char text[128];
  const ac_graph *graph = instance->plan->graph;
  const ac_node *first = ac_node_at(graph, instance->main.sequence->steps[begin].node);
  return ac_fail_prefix(status, "%s or one of %d steps after it",
                        ac_node_text(text, sizeof text, graph, first), count - 1);
}

/* Steps [begin, end) of the main sequence after its micro-batch; a row may begin before. */
static ac_status run_range(ac_instance *instance, int begin, int end) {
  const bool in_any_order = instance->device->backend->run_all != NULL;
  if (begin < end) AC_TRY(ac_instance_settle(instance));
  for (int i = begin, count; i < end; i += count) {
    count = in_any_order && instance->together[i] ? instance->together[i] : 1;
    if (count > end - i) count = end - i;
    AC_TRY(count > 1 ? run_together(instance, i, count)
                     : ac_instance_run_step(instance, &instance->main, i, false));
  }
  return AC_OK;
}

ac_status ac_instance_run_phase(ac_instance *instance, ac_phase phase) {
  const ac_sequence *sequence = instance->main.sequence;
  return run_range(instance, sequence->begin[phase], sequence->begin[phase + 1]);
}

/* The first step of an update that reads what others have stepped. */
static int first_of_averages(const ac_instance *instance) {
  const ac_sequence *sequence = instance->main.sequence;
  const ac_graph *graph = instance->plan->graph;
  int i = sequence->begin[AC_PHASE_UPDATE];
  while (i < sequence->step_count &&
         ac_tensor_at(graph, sequence->steps[i].in[0].tensor)->role != AC_ROLE_PARAMETER)
    i++;
  return i;
}

ac_status ac_instance_run_steps_of_update(ac_instance *instance) {
  return run_range(instance, instance->main.sequence->begin[AC_PHASE_UPDATE],
                   first_of_averages(instance));
}

ac_status ac_instance_run_averages(ac_instance *instance) {
  return run_range(instance, first_of_averages(instance), instance->main.sequence->step_count);
}

ac_status ac_instance_fetch_control(ac_instance *instance) {
  return instance->device->backend->download(instance->device->state, instance->control, 0,
                                             instance->control_copy, instance->plan->control_bytes);
}

ac_status ac_instance_fetch_cell(ac_instance *instance, const ac_cell *cell) {
  const uint64_t offset = cell->address - instance->plan->control;
  return instance->device->backend->download(instance->device->state, instance->control, offset,
                                             instance->control_copy + offset / sizeof(float),
                                             cell->bytes);
}

ac_loss_sums ac_instance_loss_sums(const ac_instance *instance, int loss) {
  const ac_cell *cell = ac_plan_cell(instance->plan, AC_ROLE_LOSS, loss, 0);
  const float *s =
      instance->control_copy + (cell->address - instance->plan->control) / sizeof(float);
  return (ac_loss_sums){(double)s[0] + (double)s[1], (double)s[2] + (double)s[3],
                        (double)s[4] + (double)s[5]};
}

/* The sums of a loss or a metric; NULL: there are none, or another one has them. */
static void *sums_of(const ac_instance *instance, int index) {
  const ac_graph *graph = instance->plan->graph;
  const int metric = index - AC_MAX_LOSSES;
  if (metric < 0)
    return index < graph->loss_count ? instance->persistent[graph->losses[index].tensor] : NULL;
  if (metric >= graph->metric_count) return NULL;
  const int tensor = graph->metrics[metric].tensor;
  return ac_graph_sum_index(graph, tensor) == index ? instance->persistent[tensor] : NULL;
}

ac_status ac_instance_keep_sums(const ac_instance *instance, ac_kept_sums *kept) {
  const ac_device *device = instance->device;
  for (int k = 0; k < AC_MAX_SUMS; k++)
    if (sums_of(instance, k))
      AC_TRY(device->backend->download(device->state, sums_of(instance, k), 0, kept->of[k],
                                       sizeof kept->of[k]));
  return AC_OK;
}

ac_status ac_instance_restore_sums(const ac_instance *instance, const ac_kept_sums *kept) {
  const ac_device *device = instance->device;
  for (int k = 0; k < AC_MAX_SUMS; k++)
    if (sums_of(instance, k))
      AC_TRY(device->backend->upload(device->state, sums_of(instance, k), 0, kept->of[k],
                                     sizeof kept->of[k]));
  return AC_OK;
}

/* ---- life ------------------------------------------------------------------------------------ */

static ac_status allocate_host(ac_instance *instance) {
  const ac_plan *plan = instance->plan;
  const ac_graph *graph = plan->graph;
  size_t tensors = (size_t)graph->tensor_count + 1, inputs = (size_t)graph->input_count + 1;
  size_t parameters = (size_t)graph->parameter_count + 1;
  instance->persistent = calloc(tensors, sizeof *instance->persistent);
  instance->views = calloc((size_t)plan->cell_count + 1, sizeof *instance->views);
  instance->updates = calloc(parameters, sizeof *instance->updates);
  instance->checks = calloc(inputs, sizeof *instance->checks);
  instance->given = calloc(inputs, sizeof *instance->given);
  instance->staging = calloc(inputs, sizeof *instance->staging);
  instance->control_copy = calloc(plan->control_bytes + 1, 1);
  const ac_sequence *outputs = plan->prediction.steps ? &plan->prediction : &plan->main;
  instance->needed.steps = calloc((size_t)outputs->step_count + 1, 1);
  instance->needed.values = calloc((size_t)outputs->value_count + 1, 1);
  if (!instance->persistent || !instance->views || !instance->updates || !instance->checks ||
      !instance->given || !instance->staging || !instance->control_copy ||
      !instance->needed.steps || !instance->needed.values)
    return ac_fail(AC_ERROR_MEMORY, "no memory on the host for the plan");
  for (int i = 0; i < plan->cell_count; i++) {
    const ac_cell *cell = &plan->cells[i];
    if (cell->space != AC_SPACE_HOST || cell->role != AC_ROLE_INPUT) continue;
    if (!plan->problem.fed[cell->owner]) continue;
    if (!(instance->staging[cell->owner] = malloc(cell->bytes)))
      return ac_fail(AC_ERROR_MEMORY, "no memory to stage the inputs");
  }
  return AC_OK;
}

static ac_status bring_to_life(ac_instance *instance, const ac_instance *from) {
  const ac_plan *plan = instance->plan;
  if (plan->graph->input_count > AC_MAX_GRAPH_INPUTS)
    return ac_fail(AC_ERROR_ARGUMENT, "the graph has %d inputs; at most %d are supported",
                   plan->graph->input_count, AC_MAX_GRAPH_INPUTS);
  AC_TRY(allocate_host(instance));
  ac_instance_find_checks(instance);
  const int64_t batch = plan->info.micro_batch;
  AC_TRY(prepare_early(instance, &plan->main, batch));
  AC_TRY(prepare_early(instance, &plan->stepping, batch));
  AC_TRY(prepare_early(instance, &plan->evaluation, batch));
  AC_TRY(prepare_early(instance, &plan->prediction, plan->predicted));
  AC_TRY(allocate_chunks(instance));
  AC_TRY(ac_transfers_allocate(instance));
  AC_TRY(view_cells(instance));
  AC_TRY(ac_shared_find(instance, from));
  AC_TRY(clear_cells(instance));
  AC_TRY(upload_constants(instance));
  AC_TRY(prepare(instance, &instance->main, &plan->main, batch));
  view_arena_cells(instance);
  AC_TRY(ac_instance_prepare_shards(instance));
  if (plan->way->passes > 1) AC_TRY(prepare(instance, &instance->stepping, &plan->stepping, batch));
  if (plan->evaluation.steps)
    AC_TRY(prepare(instance, &instance->evaluation, &plan->evaluation, batch));
  if (plan->prediction.steps)
    AC_TRY(prepare(instance, &instance->prediction, &plan->prediction, plan->predicted));
  AC_TRY(ac_together_find(plan, &instance->together));
  AC_TRY(ac_numerics_create(instance));
  return AC_OK;
}

ac_wait ac_instance_announce(const ac_plan *plan) {
  return ac_wait_begin(plan->device, "preparing %d ops",
                       plan->main.step_count + plan->stepping.step_count +
                           plan->evaluation.step_count + plan->prediction.step_count);
}

ac_status ac_instance_create(ac_instance *instance, const ac_plan *plan, const ac_instance *from) {
  memset(instance, 0, sizeof *instance);
  instance->plan = plan;
  instance->device = plan->device;
  instance->run.loss_scale = 1;
  /* Kernels are compiled for it. */
  instance->run.mark_flushed = ac_plan_cell(plan, AC_ROLE_COUNTER, -1, 0) != NULL;
  ac_status status = bring_to_life(instance, from);
  if (status != AC_OK) ac_instance_free(instance);
  return status;
}

void ac_instance_free(ac_instance *instance) {
  if (!instance->plan) return;
  const ac_graph *graph = instance->plan->graph;
  ac_numerics_free(instance);
  ac_watched_free(instance);
  ac_instance_discard_shards(instance);
  discard(instance, &instance->main);
  discard(instance, &instance->stepping);
  discard(instance, &instance->evaluation);
  discard(instance, &instance->prediction);
  for (int i = 0; instance->views && i < instance->plan->cell_count; i++)
    ac_instance_drop_view(instance, instance->views[i]);
  ac_instance_drop_view(instance, instance->control);
  ac_transfers_release(instance);
  if (instance->chunks) release_chunks(instance);
  for (int i = 0; instance->staging && i < graph->input_count; i++) free(instance->staging[i]);
  free(instance->unused);
  free(instance->needed.steps);
  free(instance->needed.values);
  free(instance->together);
  free(instance->chunks);
  free(instance->persistent);
  free(instance->views);
  free(instance->updates);
  free(instance->checks);
  free(instance->given);
  free(instance->staging);
  free(instance->control_copy);
  memset(instance, 0, sizeof *instance);
}
