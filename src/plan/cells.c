/* The table of what persists. A problem lists its cells once, in the order in which they lie on the
 * device. Placing them for a micro-batch sets the sizes of those that grow with it, and the
 * addresses.
 *
 *   parameters, working copies, constants | gradients, pooled statistics | optimizer state,
 * averages | caches | control: loss sums, gradients' statistics | counts | inputs       and inputs
 * again, on the host
 *
 * Optimizer state that is transferred is on the host instead. Parameters and caches that another
 * trainer or session has take no bytes.
 *
 * The control block is one range, so that one read-back brings all of it to the host. */
#include "plan/shards.h"

#include "core/align.h"
#include "core/error.h"
#include "core/integers.h"

#include <stdlib.h>

/* A parameter that no update steps and that is read, but in 16 bits alone, needs no f32 original,
 * and one in blocks has none.
 * Sums are there only if something adds to them. */
static bool is_wanted(const ac_problem *problem, const ac_tensor *tensor) {
  const bool read = problem->reads[tensor->id];
  const ac_parameter_tensors *own =
      tensor->parameter < 0 ? NULL : &problem->parameters[tensor->parameter];
  switch (tensor->role) {
  case AC_ROLE_INPUT:
  case AC_ROLE_CONSTANT:
  case AC_ROLE_CACHE:
    return read;
  case AC_ROLE_WORKING:
    return own->gradient >= 0 || read || tensor->blocks;
  case AC_ROLE_PARAMETER:
    if (tensor->desc.blocks) return false;
    return own->gradient >= 0 || read || own->working < 0 || !problem->reads[own->working];
  case AC_ROLE_GRADIENT:
    return !tensor->folded;
  case AC_ROLE_LOSS:
    return ac_graph_sum_index(problem->graph, tensor->id) >= 0;
  default:
    return true;
  }
}

/* Samples are gathered on the host; an input without the batch is not. */
static bool has_space(const ac_tensor *tensor, ac_space space) {
  return tensor->role != AC_ROLE_INPUT || space != AC_SPACE_HOST || tensor->shape.batched;
}

static ac_cell cell_of(const ac_tensor *tensor, ac_space space) {
  return (ac_cell){.role = tensor->role,
                   .tensor = tensor->id,
                   .owner = tensor->parameter,
                   .space = space,
                   .dtype = tensor->dtype,
                   .shape = tensor->shape,
                   .address = AC_NO_ADDRESS};
}

static void add_role(ac_problem *problem, ac_role role, ac_space space) {
  const ac_graph *graph = problem->graph;
  for (int i = 0; i < graph->tensor_count; i++) {
    const ac_tensor *tensor = ac_tensor_at(graph, i);
    if (tensor->role != role || tensor->storage != i || !has_space(tensor, space) ||
        !is_wanted(problem, tensor))
      continue;
    ac_cell *cell = &problem->cells[problem->cell_count++];
    *cell = cell_of(tensor, space);
    const bool weights = role == AC_ROLE_PARAMETER || role == AC_ROLE_WORKING;
    if ((weights && ac_problem_shares(problem, tensor->parameter)) ||
        (role == AC_ROLE_CACHE && ac_problem_shares_cache(problem, tensor)))
      cell->space = AC_SPACE_SHARED;
    if (role == AC_ROLE_LOSS) cell->owner = ac_graph_sum_index(graph, i);
    for (int k = 0; role == AC_ROLE_INPUT && k < graph->input_count; k++)
      if (graph->inputs[k] == i) cell->owner = k;
  }
}

/* Counts of what is stored in 16 bits, where these are watched. */
static void add_counters(ac_problem *problem) {
  const ac_plan_desc *desc = &problem->desc;
  if (!desc->debug_numerics || desc->precision == AC_PRECISION_F32) return;
  problem->cells[problem->cell_count++] = (ac_cell){.role = AC_ROLE_COUNTER,
                                                    .tensor = -1,
                                                    .owner = -1,
                                                    .dtype = AC_I32,
                                                    .shape = {.rank = 1},
                                                    .address = AC_NO_ADDRESS};
}

/* Which of its owner's states a cell holds. */
static int state_of(const ac_problem *problem, const ac_cell *cell) {
  return cell->tensor < 0 ? 0 : ac_tensor_at(problem->graph, cell->tensor)->state;
}

/* What is sorted to find cells. */
typedef struct entry {
  int role, owner, state, cell;
} entry;

static int by_owner(const void *a, const void *b) {
  const entry *x = a, *y = b;
  if (x->role != y->role) return x->role - y->role;
  if (x->owner != y->owner) return x->owner < y->owner ? -1 : 1;
  return x->state != y->state ? x->state - y->state : x->cell - y->cell;
}

static ac_status sort_cells(ac_problem *problem) {
  const size_t room = (size_t)problem->cell_count + 1;
  entry *list = malloc(room * sizeof *list);
  problem->cells_by_owner = malloc(room * sizeof *problem->cells_by_owner);
  int count = 0;
  for (int i = 0; list && i < problem->cell_count; i++) {
    const ac_cell *cell = &problem->cells[i];
    if (cell->role == AC_ROLE_INPUT && cell->space == AC_SPACE_HOST) continue;
    list[count++] = (entry){(int)cell->role, cell->owner, state_of(problem, cell), i};
  }
  const bool good = list && problem->cells_by_owner;
  if (good) qsort(list, (size_t)count, sizeof *list, by_owner);
  for (int i = 0; good && i < count; i++) problem->cells_by_owner[i] = list[i].cell;
  problem->found_cells = good ? count : 0;
  free(list);
  return good ? AC_OK : ac_fail(AC_ERROR_MEMORY, "no memory for a table of cells");
}

ac_status ac_cells_list(ac_problem *problem) {
  static const ac_role before[] = {AC_ROLE_PARAMETER, AC_ROLE_WORKING,   AC_ROLE_CONSTANT,
                                   AC_ROLE_GRADIENT,  AC_ROLE_POOLED,    AC_ROLE_GATHERED,
                                   AC_ROLE_STATE,     AC_ROLE_AVERAGE,   AC_ROLE_CACHE,
                                   AC_ROLE_LOSS,      AC_ROLE_STATISTICS};
  const ac_graph *graph = problem->graph;
  size_t most = (size_t)graph->tensor_count + (size_t)graph->input_count + 1;
  problem->cells = calloc(most, sizeof *problem->cells);
  if (!problem->cells) return ac_fail(AC_ERROR_MEMORY, "no memory for a table of cells");
  for (size_t i = 0; i < sizeof before / sizeof *before; i++)
    add_role(problem, before[i], AC_SPACE_DEVICE);
  add_counters(problem);
  add_role(problem, AC_ROLE_INPUT, AC_SPACE_DEVICE);
  add_role(problem, AC_ROLE_INPUT, AC_SPACE_HOST);
  return sort_cells(problem);
}

/* ---- places ---------------------------------------------------------------------------------- */

static uint64_t *class_of(ac_plan_bytes *bytes, ac_role role) {
  switch (role) {
  case AC_ROLE_CONSTANT:
  case AC_ROLE_PARAMETER:
  case AC_ROLE_WORKING:
    return &bytes->parameters;
  case AC_ROLE_GRADIENT:
  case AC_ROLE_POOLED:
  case AC_ROLE_GATHERED:
    return &bytes->gradients;
  case AC_ROLE_STATE:
  case AC_ROLE_AVERAGE:
    return &bytes->optimizer;
  case AC_ROLE_CACHE:
    return &bytes->caches;
  default:
    return &bytes->io;
  }
}

static bool is_control(const ac_cell *cell) {
  return cell->role == AC_ROLE_LOSS || cell->role == AC_ROLE_STATISTICS;
}

/* Of optimizer state, and of gradients that are divided, what belongs to the part of a parameter
 * that this rank steps: of state with other elements than its parameter all or nothing. */
static void take_shard(const ac_problem *problem, ac_cell *cell) {
  int64_t first, count;
  const bool divided = cell->role == AC_ROLE_GRADIENT && problem->way->shards;
  if (problem->desc.ranks < 2 || (cell->role != AC_ROLE_STATE && !divided)) return;
  ac_shards_own(problem, cell->owner, &first, &count);
  const ac_tensor *owner = ac_tensor_at(problem->graph, problem->graph->parameters[cell->owner]);
  if (count == ac_shape_count(&owner->shape)) return;
  const ac_part range = ac_transfers_range(cell->dtype, (ac_part){first, count});
  cell->first = count ? range.first : 0;
  cell->count = count ? range.count : 0;
}

static void set_size(const ac_problem *problem, ac_cell *cell, int64_t micro_batch,
                     uint64_t counters) {
  if (cell->role == AC_ROLE_COUNTER) cell->shape.dim[0] = (int64_t)(counters / sizeof(int32_t));
  cell->first = 0;
  cell->count = ac_shape_count(&cell->shape) * (cell->shape.batched ? micro_batch : 1);
  take_shard(problem, cell);
  cell->bytes = (uint64_t)cell->count * ac_dtype_bytes(cell->dtype);
}

/* The inputs of a whole window: on the device each micro-batch's begin where a view may. */
static void take_window(const ac_problem *problem, ac_cell *cell, int64_t micro_batch,
                        uint64_t alignment) {
  const int64_t batch = problem->desc.batch, places = ac_ceil_div(batch, micro_batch);
  if (!problem->in_sections || cell->role != AC_ROLE_INPUT || !cell->shape.batched) return;
  const uint64_t piece = ac_align(cell->bytes, alignment);
  cell->count = cell->count / micro_batch * batch;
  cell->bytes = cell->space == AC_SPACE_HOST ? (uint64_t)cell->count * ac_dtype_bytes(cell->dtype)
                                             : piece * (uint64_t)places;
}

static uint64_t control_bytes(const ac_problem *problem, const ac_address_space *space) {
  uint64_t bytes = 0;
  for (int i = 0; i < problem->cell_count; i++) {
    ac_cell cell = problem->cells[i];
    if (!is_control(&cell)) continue;
    set_size(problem, &cell, 1, 0);
    bytes += ac_align(cell.bytes, space->alignment);
  }
  return bytes;
}

/* Cells of the control block come one after another, so the first makes room for all. */
static ac_status place(const ac_problem *problem, ac_address_space *space, ac_cell *cell,
                       ac_control_block *control, uint64_t *used) {
  if (!is_control(cell)) return ac_layout_append(space, cell->bytes, &cell->address);
  if (!control->bytes) {
    control->bytes = control_bytes(problem, space);
    AC_TRY(ac_layout_append(space, control->bytes, &control->address));
  }
  cell->address = control->address + *used;
  *used += ac_align(cell->bytes, space->alignment);
  return AC_OK;
}

static bool may_move(const ac_problem *problem, const ac_cell *cell) {
  return cell->tensor >= 0 &&
         ac_transfers_tensor(problem->graph, ac_tensor_at(problem->graph, cell->tensor));
}

uint64_t ac_cells_host_bytes(const ac_problem *problem) {
  uint64_t bytes = 0;
  for (int i = 0; i < problem->cell_count; i++) {
    ac_cell cell = problem->cells[i];
    if (!may_move(problem, &cell)) continue;
    set_size(problem, &cell, 1, 0);
    bytes += cell.bytes;
  }
  return bytes;
}

ac_status ac_cells_place(const ac_problem *problem, const ac_placing *how, ac_address_space *space,
                         ac_cell *cells, ac_control_block *control, ac_plan_bytes *bytes) {
  bool whole = ac_problem_whole_window(problem, how->micro_batch);
  uint64_t used = 0;
  *control = (ac_control_block){0};
  for (int i = 0; i < problem->cell_count; i++) {
    ac_cell cell = problem->cells[i];
    uint64_t begin = space->end;
    set_size(problem, &cell, how->micro_batch, how->counters);
    take_window(problem, &cell, how->micro_batch, space->alignment);
    if (cell.role == AC_ROLE_GRADIENT && whole) cell.space = AC_SPACE_ARENA;
    if (how->host_state && may_move(problem, &cell)) cell.space = AC_SPACE_HOST;
    if (cell.space == AC_SPACE_DEVICE) AC_TRY(place(problem, space, &cell, control, &used));
    *class_of(bytes, cell.role) += space->end - begin;
    if (cells) cells[i] = cell;
  }
  return AC_OK;
}

/* ---------------------------------------------------------------------------------------------- */

static bool is_before(const ac_problem *problem, const ac_cell *cell, ac_role role, int owner,
                      int state) {
  if (cell->role != role) return cell->role < role;
  return cell->owner != owner ? cell->owner < owner : state_of(problem, cell) < state;
}

const ac_cell *ac_plan_cell(const ac_plan *plan, ac_role role, int owner, int state) {
  const ac_problem *problem = &plan->problem;
  int low = 0, high = problem->found_cells;
  while (low < high) {
    const int middle = low + (high - low) / 2;
    const ac_cell *cell = &problem->cells[problem->cells_by_owner[middle]];
    if (is_before(problem, cell, role, owner, state)) low = middle + 1;
    else high = middle;
  }
  if (low == problem->found_cells || !plan->cells) return NULL;
  const int found = problem->cells_by_owner[low];
  const ac_cell *cell = &problem->cells[found];
  const bool same = cell->role == role && cell->owner == owner && state_of(problem, cell) == state;
  return same ? &plan->cells[found] : NULL;
}
