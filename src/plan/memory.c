/* The memory model: what a choice takes in bytes, at least or exactly, and the laying down of one.
 * Candidates of the search are bounded, which is linear in values; the chosen one is laid out. */
#include "plan/plan.h"

#include "core/align.h"
#include "core/error.h"
#include "core/integers.h"

#include <stdlib.h>
#include <string.h>

static ac_address_space new_space(const ac_problem *problem) {
  const ac_device_info *device = &problem->device->info;
  uint64_t chunk = device->max_allocation / device->alignment * device->alignment;
  return (ac_address_space){.alignment = device->alignment, .chunk_bytes = chunk};
}

/* Two counts for each step of the micro-batch, each where a device's view may begin. */
static uint64_t counter_bytes(const ac_address_space *space, const ac_sequence *sequence) {
  return (uint64_t)ac_sequence_end(sequence) * ac_align(2 * sizeof(int32_t), space->alignment);
}

/* The workspace of the steps after the micro-batch, if there are any. */
static uint64_t after_workspace(const ac_problem *problem, const ac_sequence *sequence) {
  return sequence->step_count > ac_sequence_end(sequence) ? problem->after_workspace : 0;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static ac_status arena_bound(const ac_problem *problem, int64_t micro_batch, ac_sequence *sequence,
                             uint64_t after, uint64_t *bytes) {
  const ac_address_space space = new_space(problem);
  ac_layout_sums sums;
  AC_TRY(ac_sequence_size(sequence, problem->graph, problem->works, problem->device->info.alignment,
                          micro_batch, after));
  AC_TRY(ac_layout_bound(sequence, problem->graph, &sums));
  *bytes = sums.all;
  return ac_layout_check(&space, sequence);
}

static ac_status unlimited(ac_status status, uint64_t *bytes) {
  if (status != AC_ERROR_BUDGET) return status;
  *bytes = UINT64_MAX;
  return AC_OK;
}

ac_status ac_memory_forward(const ac_problem *problem, int64_t micro_batch, ac_sequence *sequence,
                            uint64_t *bytes) {
  return unlimited(arena_bound(problem, micro_batch, sequence, 0, bytes), bytes);
}

static ac_status total_bound(const ac_problem *problem, int64_t micro_batch, ac_sequence *main,
                             ac_sequence *stepping, uint64_t evaluation, uint64_t *bytes) {
  ac_address_space space = new_space(problem);
  ac_control_block control;
  ac_plan_bytes classes = {0};
  uint64_t arena, second;
  const ac_placing how = {micro_batch, counter_bytes(&space, main), main->host_state};
  AC_TRY(ac_cells_place(problem, &how, &space, NULL, &control, &classes));
  AC_TRY(arena_bound(problem, micro_batch, main, after_workspace(problem, main), &arena));
  AC_TRY(arena_bound(problem, micro_batch, stepping, 0, &second));
  arena = ac_larger_bytes(ac_larger_bytes(arena, second), evaluation);
  *bytes = arena == UINT64_MAX ? arena : space.end + arena;
  return AC_OK;
}

ac_status ac_memory_bound(const ac_problem *problem, int64_t micro_batch, ac_sequence *main,
                          ac_sequence *stepping, uint64_t evaluation, uint64_t *bytes) {
  return unlimited(total_bound(problem, micro_batch, main, stepping, evaluation, bytes), bytes);
}

ac_status ac_memory_cells(const ac_problem *problem, int64_t micro_batch, uint64_t *bytes) {
  ac_status status = AC_OK;
  *bytes = UINT64_MAX;
  for (int moved = 0; moved < 2 && status == AC_OK; moved++) {
    ac_address_space space = new_space(problem);
    ac_control_block control;
    ac_plan_bytes classes = {0};
    const ac_placing how = {micro_batch, 0, moved && ac_problem_may_transfer(problem)};
    status = ac_cells_place(problem, &how, &space, NULL, &control, &classes);
    if (status == AC_OK && space.end < *bytes) *bytes = space.end;
  }
  return unlimited(status, bytes);
}

/* ---- laying down ----------------------------------------------------------------------------- */

/* What a sequence's values take: where they end, and the bounds. */
typedef struct arena {
  uint64_t end;
  ac_layout_sums sums;
} arena;

static ac_status lay_arena(const ac_problem *problem, int64_t micro_batch,
                           const ac_address_space *space, ac_sequence *sequence, uint64_t after,
                           uint64_t limit, arena *a) {
  AC_TRY(ac_sequence_size(sequence, problem->graph, problem->works, problem->device->info.alignment,
                          micro_batch, after));
  AC_TRY(ac_layout_bound(sequence, problem->graph, &a->sums));
  return ac_layout_arena(space, sequence, space->end, a->sums.all, limit, &a->end);
}

/* Cells of the arena lie where their values do, if these are kept. */
static ac_status find_in_arena(ac_plan *plan) {
  if (!plan->main.whole_window || !plan->way->keeps) return AC_OK;
  const size_t tensors = (size_t)plan->graph->tensor_count + 1;
  uint64_t *address = malloc(tensors * sizeof *address);
  if (!address) return ac_fail(AC_ERROR_MEMORY, "no memory for a table of cells");
  for (size_t i = 0; i < tensors; i++) address[i] = AC_NO_ADDRESS;
  for (int v = 0; v < plan->main.value_count; v++)
    if (plan->main.values[v].tensor >= 0)
      address[plan->main.values[v].tensor] = plan->main.values[v].address;
  for (int i = 0; i < plan->cell_count; i++) {
    ac_cell *cell = &plan->cells[i];
    if (cell->space == AC_SPACE_ARENA && address[cell->tensor] != AC_NO_ADDRESS)
      cell->address = address[cell->tensor];
  }
  free(address);
  return AC_OK;
}

/* Outputs are computed in the memory that a window has: as many samples at once as fit there, and
 * one of them in any case. */
static ac_status lay_prediction(ac_plan *plan, const ac_address_space *space, uint64_t window,
                                uint64_t limit, arena *a) {
  const ac_problem *problem = &plan->problem;
  int64_t count = plan->info.micro_batch;
  *a = (arena){0};
  for (plan->predicted = 0; problem->prediction.count && !plan->predicted;
       count = (count + 1) / 2) {
    if (count > 1 && !ac_problem_supports_prediction(problem, count)) continue;
    const uint64_t most = count > 1 && window < UINT64_MAX ? window + 1 : limit;
    const ac_status status = lay_arena(problem, count, space, &plan->prediction, 0, most, a);
    if (status != AC_OK && (count == 1 || status != AC_ERROR_BUDGET)) return status;
    if (count == 1 || (status == AC_OK && a->end <= window)) plan->predicted = count;
  }
  return AC_OK;
}

static ac_status lay_memory(ac_plan *plan, uint64_t limit) {
  const ac_problem *problem = &plan->problem;
  const int64_t micro_batch = plan->info.micro_batch;
  ac_plan_bytes *bytes = &plan->info.bytes;
  ac_address_space space = new_space(problem);
  ac_control_block control;
  arena main, stepping, prediction, evaluation = {0};
  *bytes = (ac_plan_bytes){0};
  const ac_placing how = {micro_batch, counter_bytes(&space, &plan->main), plan->main.host_state};
  AC_TRY(ac_cells_place(problem, &how, &space, plan->cells, &control, bytes));
  plan->control = control.address;
  plan->control_bytes = control.bytes;
  AC_TRY(lay_arena(problem, micro_batch, &space, &plan->main, after_workspace(problem, &plan->main),
                   limit, &main));
  AC_TRY(lay_arena(problem, micro_batch, &space, &plan->stepping, 0, limit, &stepping));
  if (problem->desc.purpose == AC_TRAIN)
    AC_TRY(lay_arena(problem, micro_batch, &space, &plan->evaluation, 0, limit, &evaluation));
  AC_TRY(find_in_arena(plan));
  const uint64_t end = ac_larger_bytes(ac_larger_bytes(main.end, stepping.end), evaluation.end);
  AC_TRY(lay_prediction(plan, &space, end, limit, &prediction));
  const ac_layout_sums window = {ac_larger_bytes(main.sums.all, stepping.sums.all),
                                 ac_larger_bytes(main.sums.tensors, stepping.sums.tensors),
                                 ac_larger_bytes(main.sums.activations, stepping.sums.activations)};
  if (prediction.end <= end) prediction.sums = (ac_layout_sums){0};
  const uint64_t tensors = ac_larger_bytes(
      window.tensors, ac_larger_bytes(evaluation.sums.tensors, prediction.sums.tensors));
  plan->info.live_bytes = window.all;
  bytes->activations =
      ac_larger_bytes(window.activations,
                      ac_larger_bytes(evaluation.sums.activations, prediction.sums.activations));
  bytes->gradients += tensors - bytes->activations;
  bytes->total = ac_larger_bytes(end, prediction.end);
  bytes->workspace = bytes->total - space.end - tensors;
  plan->chunk_bytes = space.chunk_bytes && bytes->total > space.chunk_bytes ? space.chunk_bytes : 0;
  return AC_OK;
}

static ac_status lay_sequences(ac_plan *plan, const ac_choice *choice) {
  const ac_problem *problem = &plan->problem;
  ac_sequence_free(&plan->main);
  ac_sequence_free(&plan->stepping);
  AC_TRY(ac_passes_build(problem, choice, &plan->main, &plan->stepping));
  if (problem->desc.purpose != AC_TRAIN || plan->evaluation.steps) return AC_OK;
  if (problem->prediction.count)
    AC_TRY(ac_sequence_build(&plan->prediction, plan->graph, AC_TARGET_OUTPUTS,
                             (ac_storage){.one_output = true}, &problem->prediction, NULL));
  return ac_sequence_build(&plan->evaluation, plan->graph, AC_TARGET_LOSS, (ac_storage){0},
                           &problem->evaluation, NULL);
}

ac_status ac_plan_lay(ac_plan *plan, const ac_choice *choice) {
  const ac_problem *problem = &plan->problem;
  plan->info.micro_batch = choice->micro_batch;
  plan->way = choice->way;
  plan->info.gradients = choice->way->gradients;
  if (!plan->cells) {
    plan->cell_count = problem->cell_count;
    plan->cells = calloc((size_t)plan->cell_count + 1, sizeof *plan->cells);
    if (!plan->cells) return ac_fail(AC_ERROR_MEMORY, "no memory for a table of cells");
  }
  AC_TRY(lay_sequences(plan, choice));
  const uint64_t limit = choice->limit ? choice->limit : UINT64_MAX;
  return unlimited(lay_memory(plan, limit), &plan->info.bytes.total);
}

void ac_plan_clear(ac_plan *plan) {
  ac_sequence_free(&plan->main);
  ac_sequence_free(&plan->stepping);
  ac_sequence_free(&plan->evaluation);
  ac_sequence_free(&plan->prediction);
  free(plan->cells);
  plan->cells = NULL;
}
