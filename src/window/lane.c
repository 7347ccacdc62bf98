#include "window/lane.h"

#include <stdlib.h>

#include "core/error.h"
#include "window/trainer.h"

/* A device and an instance with the transfers of the second queue: `opened` is the state that they
 * get. */
struct ac_lane {
  const ac_device *own;
  void *opened; /* NULL: host memory, where a step that has returned has run */
  ac_backend backend;
  ac_device device;
  ac_instance instance;
};

static ac_status open_queue(ac_lane *b, int marks) {
  const ac_backend *backend = b->own->backend;
  if (backend->is_host) return AC_OK;
  AC_TRY(backend->open_lane(b->own->state, marks, &b->opened));
  b->backend.upload = backend->lane_upload;
  b->backend.download = backend->lane_download;
  b->device.backend = &b->backend;
  b->device.state = b->opened;
  b->instance.device = &b->device;
  return AC_OK;
}

ac_status ac_lane_create(ac_trainer *trainer, ac_lane **lane) {
  const ac_instance *instance = &trainer->instance;
  const ac_backend *backend = instance->device->backend;
  *lane = NULL;
  if (!backend->is_host && !backend->open_lane) return AC_OK;
  ac_lane *made = malloc(sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "no memory to exchange gradients");
  *made = (ac_lane){.own = instance->device,
                    .backend = *backend,
                    .device = *instance->device,
                    .instance = *instance};
  const ac_kept_error kept = ac_error_keep();
  if (open_queue(made, ac_sequence_end(&instance->plan->main) + 1) == AC_OK) {
    *lane = made;
    return AC_OK;
  }
  ac_error_restore(&kept); /* a driver with one queue: nothing overlaps */
  ac_lane_free(made);
  return AC_OK;
}

void ac_lane_free(ac_lane *b) {
  if (b && b->opened) b->own->backend->close_lane(b->opened);
  free(b);
}

const ac_instance *ac_lane_instance(const ac_lane *b) {
  return &b->instance;
}

/* Without a mark the thread would not wait: then all that was queued runs now. What has failed on
 * the device is found by the next call. */
void ac_lane_mark(ac_lane *b, int steps) {
  if (b->opened && b->own->backend->mark(b->opened, steps) != AC_OK)
    (void)b->own->backend->finish(b->own->state);
}

ac_status ac_lane_has_run(ac_lane *b, int steps, bool *has_run) {
  *has_run = true;
  return b->opened ? b->own->backend->has_passed(b->opened, steps, has_run) : AC_OK;
}
