/* Saving states: the cells that stay from window to window, and as text what the host counts. */
#include "core/error.h"
#include "io/safetensors.h"
#include "state/cells.h"

#include <stdlib.h>

static ac_status read_cell(void *user, int index, int64_t first, int64_t count, void *data) {
  const ac_state_contents *c = user;
  return ac_exchange_read(c->trainer, c->tensors[index].cell, first, count, data);
}

/* Sums of a window in progress may have any value, because it is judged when it is whole, and what
 * a callback keeps is its own. */
static bool has_to_be_finite(const ac_state_contents *c, const ac_cell *cell) {
  const ac_instance *instance = &c->trainer->instance;
  if (instance->device->backend->computes_nothing || ac_role_is_sum(cell->role)) return false;
  return cell->role != AC_ROLE_STATE ||
         !ac_optimizer_row_of(instance->plan->problem.desc.optimizer.kind)->hands_over;
}

static ac_status write_contents(ac_state_contents *c, const char *path, const ac_metadata *metadata,
                                int metadata_count) {
  ac_state_texts texts;
  ac_model_tensor *tensors = calloc((size_t)c->count + 1, sizeof *tensors);
  bool *finite = calloc((size_t)c->count + 1, sizeof *finite);
  const ac_write_rules rules = {.checksums = true, .finite = finite};
  ac_status status = ac_state_put_run(&texts, &c->trainer->run, metadata, metadata_count);
  for (int i = 0; tensors && finite && i < c->count; i++) {
    const ac_cell *cell = c->tensors[i].cell;
    finite[i] = has_to_be_finite(c, cell);
    tensors[i] = (ac_model_tensor){c->tensors[i].name, cell->dtype, cell->shape.rank, {0}};
    for (int d = 0; d < cell->shape.rank; d++) tensors[i].shape[d] = cell->shape.dim[d];
  }
  const bool room = tensors && finite && status == AC_OK;
  status = room ? ac_model_file_write_by(&rules, path, tensors, c->count, texts.list, texts.count,
                                         read_cell, c)
                : ac_fail(AC_ERROR_MEMORY, "no memory to save %s", path);
  free(tensors);
  free(finite);
  free(texts.list);
  free(texts.text);
  return status;
}

ac_status ac_trainer_save_state(ac_trainer *trainer, const char *path, const ac_metadata *metadata,
                                int metadata_count) {
  AC_REQUIRE(trainer, path);
  if (metadata_count > 0) AC_REQUIRE(metadata);
  if (metadata_count < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "%s: a negative number of metadata", path);
  AC_TRY(ac_trainer_check_whole(trainer));
  const bool window = trainer->run.samples > 0;
  if (window && !ac_exchange_is_alone(&trainer->exchange))
    return ac_fail(AC_ERROR_STATE,
                   "%s: a window in progress cannot be saved where ranks share it out", path);
  if (window) AC_TRY(ac_trainer_check_deciding(trainer)); /* an evaluation has its loss sums */
  if (window) AC_TRY(ac_trainer_check_arena(trainer));
  if (window && trainer->instance.plan->problem.in_sections)
    return ac_fail(AC_ERROR_STATE,
                   "%s: with exact batch norm a window in progress is whole and only waits for its "
                   "update; update or discard it first",
                   path);
  ac_state_contents c;
  AC_TRY(ac_state_list(&c, trainer, window, path));
  ac_status status = AC_OK;
  if (trainer->exchange.rank) status = ac_exchange_answer(trainer);
  else {
    ac_exchange_begin_absence(trainer);
    status = write_contents(&c, path, metadata, metadata_count);
    ac_exchange_end_absence(trainer);
    const ac_kept_error error = ac_error_keep();
    const ac_status ended = ac_exchange_end_answers(trainer);
    if (status == AC_OK) status = ended;
    else ac_error_restore(&error);
  }
  ac_state_contents_free(&c);
  return ac_exchange_sum(trainer, AC_MEET_STATE, status, NULL, 0);
}
