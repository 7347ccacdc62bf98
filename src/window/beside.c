#include "window/beside.h"

#include <stdlib.h>

#include "core/error.h"
#include "window/trainer.h"

/* A device and an instance whose transfers are those of the second queue: `opened` is the state
 * that they get. */
struct ac_beside {
  const ac_device *own;
  void *opened; /* NULL: host memory, where a step that has returned has run */
  ac_backend backend;
  ac_device device;
  ac_instance instance;
};

static ac_status open_queue(ac_beside *b, int marks) {
  const ac_backend *backend = b->own->backend;
  if (backend->is_host) return AC_OK;
  AC_TRY(backend->open_beside(b->own->state, marks, &b->opened));
  b->backend.upload = backend->upload_beside;
  b->backend.download = backend->download_beside;
  b->device.backend = &b->backend;
  b->device.state = b->opened;
  b->instance.device = &b->device;
  return AC_OK;
}

ac_status ac_beside_create(ac_trainer *trainer, ac_beside **beside) {
  const ac_instance *instance = &trainer->instance;
  const ac_backend *backend = instance->device->backend;
  *beside = NULL;
  if (!backend->is_host && !backend->open_beside) return AC_OK;
  ac_beside *made = malloc(sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "no memory to exchange gradients");
  *made = (ac_beside){.own = instance->device,
                      .backend = *backend,
                      .device = *instance->device,
                      .instance = *instance};
  const ac_kept_error kept = ac_error_keep();
  if (open_queue(made, ac_sequence_end(&instance->plan->main) + 1) == AC_OK) {
    *beside = made;
    return AC_OK;
  }
  ac_error_restore(&kept); /* a driver with one queue: nothing overlaps */
  ac_beside_free(made);
  return AC_OK;
}

void ac_beside_free(ac_beside *b) {
  if (b && b->opened) b->own->backend->close_beside(b->opened);
  free(b);
}

const ac_instance *ac_beside_instance(const ac_beside *b) {
  return &b->instance;
}

/* Without a mark the thread would not wait: then all that was queued runs now. What has failed on
 * the device is found by the next call. */
void ac_beside_mark(ac_beside *b, int steps) {
  if (b->opened && b->own->backend->mark(b->opened, steps) != AC_OK)
    (void)b->own->backend->finish(b->own->state);
}

ac_status ac_beside_has_run(ac_beside *b, int steps, bool *has_run) {
  *has_run = true;
  return b->opened ? b->own->backend->has_passed(b->opened, steps, has_run) : AC_OK;
}
