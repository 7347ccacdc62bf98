/* Counts bad numbers: after each op of training that stores its results in 16 bits, the op
 * `numerics` counts the stored values that are not finite and, for f16, those that were flushed to
 * zero (ac_run_state.mark_flushed). The device counts over a window, and the host adds up the
 * counts at its end. */
#include "core/error.h"
#include "window/trainer.h"

#include <stdlib.h>
#include <string.h>

static bool is_half(const ac_operand *x) {
  return x->count > 0 && (x->dtype == AC_F16 || x->dtype == AC_BF16);
}

/* The cell of all counts; NULL: numbers are not watched. */
static const ac_cell *counters(const ac_instance *instance) {
  return ac_plan_cell(instance->plan, AC_ROLE_COUNTER, -1, 0);
}

static int watched_steps(const ac_instance *instance) {
  return ac_sequence_end(&instance->plan->main);
}

/* Where step `step`'s counts lie in the cell. */
static uint64_t offset_of(const ac_instance *instance, const ac_cell *cell, int step) {
  return (uint64_t)step * (cell->bytes / (uint64_t)watched_steps(instance));
}

ac_status ac_numerics_create(ac_instance *instance) {
  const ac_cell *cell = counters(instance);
  ac_numerics_totals *totals = &instance->numerics;
  if (!cell) return AC_OK;
  size_t steps = (size_t)watched_steps(instance);
  totals->counts = calloc(steps, sizeof *totals->counts);
  totals->views = calloc(steps, sizeof *totals->views);
  totals->copy = calloc(1, cell->bytes);
  if (!totals->counts || !totals->views || !totals->copy)
    return ac_fail(AC_ERROR_MEMORY, "no memory to watch numbers");
  for (size_t i = 0; i < steps; i++)
    AC_TRY(ac_instance_view(instance, cell->address + offset_of(instance, cell, (int)i),
                            2 * sizeof(int32_t), &totals->views[i]));
  const ac_backend *backend = instance->device->backend;
  for (int i = 0; i < (int)steps; i++) {
    ac_op_args args;
    for (int j = 0; ac_numerics_arguments(instance, i, j, &args); j++)
      AC_TRY(backend->prepare(instance->device->state, &args));
  }
  return AC_OK;
}

void ac_numerics_free(ac_instance *instance) {
  ac_numerics_totals *totals = &instance->numerics;
  for (int i = 0; totals->views && i < watched_steps(instance); i++)
    ac_instance_drop_view(instance, totals->views[i]);
  free(totals->counts);
  free(totals->views);
  free(totals->copy);
}

/* The update of a parameter may be among the steps of a micro-batch. */
static bool in_micro_batch(const ac_instance *instance, const ac_step *step) {
  return ac_node_at(instance->plan->graph, step->node)->phase == AC_PHASE_MICRO_BATCH;
}

/* The n-th output that a step stores in 16 bits. Values that are recomputed or only copied are not
 * counted again; a value that is copied and added to something is a new one. */
bool ac_numerics_arguments(const ac_instance *instance, int step, int n, ac_op_args *args) {
  const ac_op_args *done = &instance->main.args[step];
  const ac_step *planned = &instance->main.sequence->steps[step];
  const bool copies = ac_op_describe(done->op)->copies_values;
  if (planned->recomputed || !in_micro_batch(instance, planned)) return false;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    const bool computed = !copies || planned->write[j] != AC_OVERWRITE;
    if (!is_half(&done->out[j]) || !computed || n-- > 0) continue;
    *args = (ac_op_args){.op = AC_OP_numerics, .run = &instance->run};
    args->in[0] = done->out[j];
    args->out[0] = (ac_operand){
        .data = instance->numerics.views[step], .dtype = AC_I32, .rank = 1, .dim = {2}, .count = 2};
    args->add[0] = true;
    return true;
  }
  return false;
}

ac_status ac_numerics_watch(ac_instance *instance, int step) {
  ac_op_args args;
  for (int n = 0; ac_numerics_arguments(instance, step, n, &args); n++) {
    AC_TRY(instance->device->backend->run(instance->device->state, &args));
    instance->numerics.counts[step].values += args.in[0].count;
  }
  return AC_OK;
}

ac_status ac_numerics_collect(ac_instance *instance) {
  const ac_cell *cell = counters(instance);
  const ac_backend *backend = instance->device->backend;
  ac_numerics_totals *totals = &instance->numerics;
  if (!cell) return AC_OK;
  void *block = instance->views[cell - instance->plan->cells];
  AC_TRY(backend->download(instance->device->state, block, 0, totals->copy, cell->bytes));
  AC_TRY(backend->zero(instance->device->state, block, cell->bytes));
  for (int i = 0; i < watched_steps(instance); i++) {
    int32_t counts[2];
    memcpy(counts, (const char *)totals->copy + offset_of(instance, cell, i), sizeof counts);
    totals->counts[i].overflowed += counts[0];
    totals->counts[i].flushed += counts[1];
  }
  return AC_OK;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The step of the index-th watched op; -1: there are no more. */
static int find_watched(const ac_trainer *trainer, int index) {
  const ac_instance *instance = &trainer->instance;
  ac_op_args ignored;
  for (int i = 0; instance->numerics.counts && i < watched_steps(instance); i++)
    if (ac_numerics_arguments(instance, i, 0, &ignored) && index-- == 0) return i;
  return -1;
}

int ac_trainer_numerics_count(const ac_trainer *trainer) {
  int count = 0;
  while (trainer && find_watched(trainer, count) >= 0) count++;
  return count;
}

ac_status ac_trainer_numerics(const ac_trainer *trainer, int index, ac_numerics *result) {
  AC_REQUIRE(trainer, result);
  int step = index < 0 ? -1 : find_watched(trainer, index);
  if (step < 0) return ac_fail(AC_ERROR_ARGUMENT, "trainer: no op %d is watched", index);
  const ac_plan *plan = trainer->instance.plan;
  const ac_node *node = ac_node_at(plan->graph, plan->main.steps[step].node);
  const ac_numerics_totals *totals = &trainer->instance.numerics;
  *result = (ac_numerics){.op = ac_op_title(node->op, node->attributes),
                          .scope = plan->graph->scopes[node->scope],
                          .backward = node->backward,
                          .values = totals->counts[step].values,
                          .overflowed = totals->counts[step].overflowed,
                          .flushed = totals->counts[step].flushed};
  return AC_OK;
}
