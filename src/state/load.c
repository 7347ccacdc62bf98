/* Loading states. The file is read twice: to check all of it, and to bring it to the device. Only a
 * failure of the second reading can leave a trainer half loaded; then every use of it fails and
 * says so. */
#include "core/error.h"
#include "io/safetensors.h"
#include "state/cells.h"
#include <accrue/state_file.h>

#include <inttypes.h>
#include <stdlib.h>

enum { PIECE_BYTES = 1 << 20 };

/* Whether a run goes on from what another remembered. */
static ac_status check_run(const ac_trainer *trainer, const char *path, const ac_run *r) {
  const ac_run_plan *theirs = &r->plan, *own = &trainer->run.plan;
  if (theirs->optimizer != own->optimizer)
    return ac_fail(AC_ERROR_FORMAT, "%s is of a run with %s, and the plan is for %s", path,
                   ac_optimizer_row_of((ac_optimizer_kind)theirs->optimizer)->words,
                   ac_optimizer_row_of((ac_optimizer_kind)own->optimizer)->words);
  if (!r->samples) return AC_OK;
  if (!ac_exchange_is_alone(&trainer->exchange))
    return ac_fail(AC_ERROR_FORMAT,
                   "%s holds a window in progress, which only one rank can go on with", path);
  const ac_scaler *scaler = AC_WATCHED(r, scaler), *own_scaler = AC_WATCHED(&trainer->run, scaler);
  const ac_loss_scaling kind = scaler->desc.kind;
  if (theirs->batch != own->batch || theirs->precision != own->precision ||
      theirs->loss_means != own->loss_means || kind != own_scaler->desc.kind ||
      (kind == AC_LOSS_SCALING_STATIC && scaler->scale != own_scaler->scale))
    return ac_fail(AC_ERROR_FORMAT,
                   "%s holds a window in progress, which goes on only with its batch of %" PRId64
                   ", its precision, its means of losses and its loss scaling",
                   path, theirs->batch);
  if (!ac_plan_takes_whole_windows(trainer->instance.plan)) return AC_OK;
  return ac_fail(AC_ERROR_FORMAT,
                 "%s holds a window in progress, and the plan was made for whole windows", path);
}

static ac_status read_contents(const ac_state_contents *c, ac_model_file *file, void *piece) {
  for (int i = 0; i < c->count; i++) {
    const ac_cell *cell = c->tensors[i].cell;
    const int found = ac_model_file_find(file, c->tensors[i].name);
    const int64_t most = PIECE_BYTES / (int64_t)ac_dtype_bytes(cell->dtype);
    for (int64_t first = 0; first < cell->count; first += most) {
      const int64_t count = cell->count - first < most ? cell->count - first : most;
      AC_TRY(ac_model_file_read_stored(file, found, cell->first + first, count, piece));
      AC_TRY(ac_instance_write_elements(&c->trainer->instance, cell, first, count, piece));
    }
  }
  return AC_OK;
}

/* Other ranks would wait for this one's part of the rest of it. */
static ac_status check_window(const ac_trainer *trainer) {
  const ac_exchange *e = &trainer->exchange;
  if (!ac_sharded_is_on(&e->sharded) || !trainer->run.samples || e->reduced ||
      trainer->window.broken)
    return AC_OK;
  return ac_fail(AC_ERROR_STATE, "trainer: a window with gradients that are divided among ranks is "
                                 "in progress; update or discard it first");
}

static ac_status load_cells(ac_state_contents *c, ac_model_file *file, ac_run *read, void *piece) {
  ac_trainer *trainer = c->trainer;
  const char *path = ac_model_file_path(file);
  AC_TRY(ac_state_check_frozen(trainer, file, path));
  AC_TRY(ac_state_check_tensors(c, file, path));
  AC_TRY(ac_state_get_run(file, read, true));
  AC_TRY(check_window(trainer));
  ac_trainer_leave_window(trainer);
  const ac_status status = read_contents(c, file, piece);
  trainer->instance.unusable =
      status == AC_OK ? NULL : "a state was loaded in part only; load another";
  return status;
}

/* What is read is a copy of what the trainer remembers, until all of it is known to be good. */
static ac_status load_into(ac_trainer *trainer, ac_model_file *file, ac_run *read, void *piece) {
  const char *path = ac_model_file_path(file);
  ac_state_contents c;
  AC_TRY(ac_state_check_file(file, path));
  AC_TRY(ac_model_file_verify(file));
  AC_TRY(ac_state_get_run(file, read, false));
  AC_TRY(check_run(trainer, path, read));
  AC_TRY(ac_state_list(&c, trainer, read->samples > 0, path));
  const ac_status status = load_cells(&c, file, read, piece);
  ac_state_contents_free(&c);
  if (status != AC_OK) return status;
  ac_run_take(&trainer->run, read);
  trainer->instance.run.seed = trainer->run.seed;
  ac_trainer_set_window_scale(trainer);
  return AC_OK;
}

static ac_status load_from(ac_trainer *trainer, ac_model_file *file, void *piece) {
  ac_run read;
  AC_TRY(ac_run_copy(&read, &trainer->run));
  const ac_status status = load_into(trainer, file, &read, piece);
  ac_run_drop(&read);
  return status;
}

ac_status ac_trainer_load_state(ac_trainer *trainer, const char *path) {
  AC_REQUIRE(trainer, path);
  AC_TRY(ac_trainer_check_deciding(trainer));
  AC_TRY(ac_trainer_check_asking(trainer));
  AC_TRY(ac_trainer_check_averaged(trainer));
  ac_model_file *file;
  AC_TRY(ac_model_file_open(&file, path));
  void *piece = malloc(PIECE_BYTES);
  ac_status status = piece ? load_from(trainer, file, piece)
                           : ac_fail(AC_ERROR_MEMORY, "no memory to load %s", path);
  free(piece);
  ac_model_file_close(file);
  return status;
}
