/* Moving averages: how they begin, and how they take the place of trained parameters: each pair of
 * cells changes places, by way of two pieces of host memory. Copies in 16 bits follow. */
#include "core/error.h"
#include "window/trainer.h"

#include <stdlib.h>

enum { PIECE = 1 << 16 }; /* elements */

ac_status ac_trainer_check_averaged(const ac_trainer *trainer) {
  if (!trainer->busy.averaged) return AC_OK;
  return ac_fail(AC_ERROR_STATE,
                 "trainer: averages are in the place of parameters (ac_trainer_use_average)");
}

/* `pieces`: room for two. */
static ac_status exchange(ac_instance *instance, const ac_cell *average, float *pieces) {
  const ac_cell *parameter = ac_plan_cell(instance->plan, AC_ROLE_PARAMETER, average->owner, 0);
  float *other = pieces + PIECE;
  for (int64_t first = 0; first < average->count; first += PIECE) {
    const int64_t rest = average->count - first, count = rest < PIECE ? rest : PIECE;
    AC_TRY(ac_instance_read_elements(instance, parameter, first, count, pieces));
    AC_TRY(ac_instance_read_elements(instance, average, first, count, other));
    AC_TRY(ac_instance_write_elements(instance, parameter, first, count, other));
    AC_TRY(ac_instance_write_elements(instance, average, first, count, pieces));
  }
  return AC_OK;
}

static ac_status exchange_all(ac_instance *instance, float *pieces) {
  ac_status status = AC_OK;
  for (int i = 0; i < instance->plan->cell_count && status == AC_OK; i++)
    if (instance->plan->cells[i].role == AC_ROLE_AVERAGE)
      status = exchange(instance, &instance->plan->cells[i], pieces);
  if (status != AC_OK)
    instance->unusable = "averages and parameters have changed places in part only; load a state";
  return status;
}

/* Copies through a piece of host memory. */
static ac_status copy_all(ac_instance *instance, float *piece) {
  for (int i = 0; i < instance->plan->cell_count; i++) {
    const ac_cell *average = &instance->plan->cells[i];
    if (average->role != AC_ROLE_AVERAGE) continue;
    const ac_cell *parameter = ac_plan_cell(instance->plan, AC_ROLE_PARAMETER, average->owner, 0);
    for (int64_t first = 0; first < average->count; first += PIECE) {
      const int64_t rest = average->count - first, count = rest < PIECE ? rest : PIECE;
      AC_TRY(ac_instance_read_elements(instance, parameter, first, count, piece));
      AC_TRY(ac_instance_write_elements(instance, average, first, count, piece));
    }
  }
  return AC_OK;
}

ac_status ac_trainer_begin_average(ac_trainer *trainer) {
  if (!trainer->instance.plan->problem.desc.average) return AC_OK;
  float *piece = malloc(PIECE * sizeof *piece);
  if (!piece) return ac_fail(AC_ERROR_MEMORY, "trainer: no memory to begin averages");
  const ac_status status = copy_all(&trainer->instance, piece);
  free(piece);
  return status;
}

ac_status ac_trainer_use_average(ac_trainer *trainer, bool average) {
  AC_REQUIRE(trainer);
  AC_TRY(ac_trainer_check_deciding(trainer));
  AC_TRY(ac_instance_check_usable(&trainer->instance, "trainer"));
  if (!trainer->instance.plan->problem.desc.average)
    return ac_fail(AC_ERROR_STATE, "trainer: the plan keeps no averages (ac_plan_desc.average)");
  if (average == trainer->busy.averaged) return AC_OK;
  if (trainer->run.samples > 0) return ac_fail(AC_ERROR_STATE, "trainer: a window is in progress");
  if (average && !trainer->run.updates)
    return ac_fail(AC_ERROR_STATE, "trainer: there is no average before the first update");
  float *pieces = malloc(2 * PIECE * sizeof *pieces);
  if (!pieces) return ac_fail(AC_ERROR_MEMORY, "trainer: no memory to exchange averages");
  ac_status status = exchange_all(&trainer->instance, pieces);
  trainer->busy.averaged = average && status == AC_OK;
  free(pieces);
  return status;
}
