/* How many updates were made, and what the optimizer keeps for a parameter, as floats that a caller
 * reads and writes, whatever it is stored in. Of 8 bits whole blocks move: the scale of one is its
 * largest value's. */
#include "window/trainer.h"

#include "core/eight_bit.h"
#include "core/error.h"

#include <math.h>
#include <string.h>

int ac_trainer_state_count(const ac_trainer *trainer) {
  const ac_plan *plan = trainer ? trainer->instance.plan : NULL;
  int count = 0;
  for (int i = 0; plan && i < plan->cell_count; i++)
    if (plan->cells[i].role == AC_ROLE_STATE) {
      const int state = ac_tensor_at(plan->graph, plan->cells[i].tensor)->state;
      if (state >= count) count = state + 1;
    }
  return count;
}

static ac_status find_state(const ac_trainer *trainer, int index, int state, int64_t first,
                            int64_t count, const ac_cell **cell) {
  AC_TRY(ac_instance_check_range(&trainer->instance, index, first, count));
  *cell = ac_plan_cell(trainer->instance.plan, AC_ROLE_STATE, index, state);
  if (!*cell)
    return ac_fail(AC_ERROR_ARGUMENT, "the optimizer keeps no state %d for parameter %d", state,
                   index);
  if (!ac_exchange_is_alone(&trainer->exchange))
    return ac_fail(AC_ERROR_STATE,
                   "the optimizer's state is shared out among ranks; read it from a "
                   "state file (ac_trainer_save_state)");
  if ((*cell)->dtype == AC_U8 || first + count <= (*cell)->count) return AC_OK;
  return ac_fail(
      AC_ERROR_ARGUMENT, "elements [%lld, %lld) of state %d of parameter %d, which has %lld",
      (long long)first, (long long)(first + count), state, index, (long long)(*cell)->count);
}

/* ---- blocks of 8 bits ------------------------------------------------------------------------ */

/* A block, and which of its elements are asked for. */
typedef struct part {
  uint64_t address; /* in the cell */
  int64_t begin, count;
  uint8_t codes[AC_EIGHT_BIT_BYTES];
  float values[AC_EIGHT_BIT_BLOCK];
} part;

/* The first state has a sign, the second is a mean of squares. */
static bool is_signed(const ac_plan *plan, const ac_cell *cell) {
  return ac_tensor_at(plan->graph, cell->tensor)->state == 0;
}

static ac_status load_part(part *b, const ac_instance *instance, const ac_cell *cell, int64_t first,
                           int64_t count) {
  const int64_t rest = AC_EIGHT_BIT_BLOCK - first % AC_EIGHT_BIT_BLOCK;
  b->address = (uint64_t)(first / AC_EIGHT_BIT_BLOCK * AC_EIGHT_BIT_BYTES);
  b->begin = first % AC_EIGHT_BIT_BLOCK;
  b->count = count < rest ? count : rest;
  AC_TRY(ac_instance_read_cell(instance, cell, b->address, b->codes, sizeof b->codes));
  ac_eight_bit_load(b->codes, is_signed(instance->plan, cell), b->values);
  return AC_OK;
}

static ac_status read_blocks(const ac_instance *instance, const ac_cell *cell, int64_t first,
                             int64_t count, float *data) {
  part b;
  for (; count > 0; first += b.count, data += b.count, count -= b.count) {
    AC_TRY(load_part(&b, instance, cell, first, count));
    memcpy(data, b.values + b.begin, (size_t)b.count * sizeof *data);
  }
  return AC_OK;
}

/* A scale is at most 2^126, and the second state has no sign. */
static ac_status check_values(int state, int64_t count, const float *data) {
  for (int64_t i = 0; i < count; i++)
    if (!(fabsf(data[i]) <= 0x1p126f) || (state > 0 && data[i] < 0))
      return ac_fail(AC_ERROR_ARGUMENT, "state %d cannot hold %g in 8 bits", state,
                     (double)data[i]);
  return AC_OK;
}

/* In the last block, codes after the parameter's elements are zero. */
static ac_status write_blocks(const ac_instance *instance, const ac_cell *cell, int64_t first,
                              int64_t count, const float *data) {
  const ac_graph *graph = instance->plan->graph;
  const int64_t elements =
      ac_shape_count(&ac_tensor_at(graph, graph->parameters[cell->owner])->shape);
  part b;
  for (; count > 0; first += b.count, data += b.count, count -= b.count) {
    AC_TRY(load_part(&b, instance, cell, first, count));
    memcpy(b.values + b.begin, data, (size_t)b.count * sizeof *data);
    for (int64_t i = elements - (first - b.begin); i < AC_EIGHT_BIT_BLOCK; i++) b.values[i] = 0;
    ac_eight_bit_store(b.codes, is_signed(instance->plan, cell), b.values);
    AC_TRY(ac_instance_write_cell(instance, cell, b.address, b.codes, sizeof b.codes));
  }
  return AC_OK;
}

/* ---------------------------------------------------------------------------------------------- */

ac_status ac_trainer_get_state(ac_trainer *trainer, int index, int state, int64_t first,
                               int64_t count, float *data) {
  AC_REQUIRE(trainer);
  if (count > 0) AC_REQUIRE(data);
  const ac_cell *cell;
  AC_TRY(find_state(trainer, index, state, first, count, &cell));
  if (cell->dtype == AC_U8) return read_blocks(&trainer->instance, cell, first, count, data);
  return ac_instance_read_cell(&trainer->instance, cell, (uint64_t)first * sizeof *data, data,
                               (uint64_t)count * sizeof *data);
}

/* Up to half of the range, as states hold it. Averages begin with the first update, which is then
 * not to come. */
ac_status ac_trainer_set_updates(ac_trainer *trainer, int64_t updates) {
  AC_REQUIRE(trainer);
  AC_TRY(ac_trainer_check_usable(trainer));
  if (updates < 0 || updates > AC_MOST_COUNT)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "trainer: the number of updates must be from 0 to %lld; it is %lld",
                   (long long)AC_MOST_COUNT, (long long)updates);
  if (trainer->run.samples > 0)
    return ac_fail(AC_ERROR_STATE, "trainer: a window is in progress; update or discard it first");
  if (trainer->run.updates == 0 && updates > 0) AC_TRY(ac_trainer_begin_average(trainer));
  trainer->run.updates = updates;
  return AC_OK;
}

ac_status ac_trainer_set_state(ac_trainer *trainer, int index, int state, int64_t first,
                               int64_t count, const float *data) {
  AC_REQUIRE(trainer);
  if (count > 0) AC_REQUIRE(data);
  const ac_cell *cell;
  const ac_instance *instance = &trainer->instance;
  AC_TRY(ac_trainer_check_deciding(trainer));
  if (instance->plan->way->folds) AC_TRY(ac_trainer_check_writable(trainer));
  AC_TRY(find_state(trainer, index, state, first, count, &cell));
  if (cell->dtype == AC_U8) {
    AC_TRY(check_values(state, count, data));
    return write_blocks(instance, cell, first, count, data);
  }
  if (!count) return AC_OK;
  return ac_instance_write_cell(instance, cell, (uint64_t)first * sizeof *data, data,
                                (uint64_t)count * sizeof *data);
}
