/* How fast host memory is transferred to a device and back. */
#include "plan/cost.h"

#include "core/error.h"

#include <math.h>

enum { BYTES = 16 << 20, RUNS = 3 };

/* Half of each goes in while the other half goes out, as in an update. */
typedef struct link {
  ac_device *device;
  void *chunk, *in, *out;
  ac_host_memory host;
} link;

static ac_status open_link(link *l) {
  const ac_backend *backend = l->device->backend;
  void *state = l->device->state;
  AC_TRY(ac_device_allocate(l->device, BYTES, &l->chunk));
  AC_TRY(backend->view(state, l->chunk, 0, BYTES / 2, &l->in));
  AC_TRY(backend->view(state, l->chunk, BYTES / 2, BYTES / 2, &l->out));
  return ac_device_allocate_host(l->device, BYTES, &l->host);
}

static void close_link(link *l) {
  const ac_backend *backend = l->device->backend;
  if (l->in) backend->release_view(l->device->state, l->in);
  if (l->out) backend->release_view(l->device->state, l->out);
  ac_device_release_host(l->device, &l->host);
  ac_device_release(l->device, l->chunk, BYTES);
}

static ac_status move(const link *l) {
  const ac_backend *backend = l->device->backend;
  void *state = l->device->state;
  AC_TRY(backend->transfer_in(state, l->in, l->host.data, BYTES / 2));
  AC_TRY(backend->transfer_out(state, l->out, (char *)l->host.data + BYTES / 2, BYTES / 2));
  return backend->finish(state);
}

/* The first run is not counted: memory may be touched for the first time. */
static ac_status time_link(const link *l, double (*clock)(void), double *least) {
  AC_TRY(move(l));
  for (int run = 0; run < RUNS; run++) {
    const double start = clock();
    AC_TRY(move(l));
    *least = fmin(*least, clock() - start);
  }
  return AC_OK;
}

static ac_status measure(ac_cost_account *account, ac_device *device) {
  const uint64_t peak = device->peak, host_peak = device->host_peak;
  const double nothing = 1e-9; /* a clock that does not move */
  double least = HUGE_VAL;
  link l = {.device = device};
  ac_status status = open_link(&l);
  if (status == AC_OK) status = time_link(&l, account->clock, &least);
  close_link(&l);
  device->peak = peak;
  device->host_peak = host_peak;
  account->per_transferred_byte = fmax(least, nothing) / (BYTES / 2);
  if (status == AC_OK) return AC_OK;
  account->per_transferred_byte = 0;
  return ac_fail_prefix(status, "the speed of transfers to %s could not be measured",
                        device->info.id);
}

ac_status ac_cost_of_transfers(double *seconds, ac_device *device) {
  const double guess = 1 / 10e9;
  ac_cost_account *account = ac_cost_account_of(device);
  if (!account) return ac_fail(AC_ERROR_MEMORY, "no memory to measure the device's speed");
  if (device->backend->computes_nothing) account->per_transferred_byte = guess;
  if (!account->per_transferred_byte) AC_TRY(measure(account, device));
  *seconds = account->per_transferred_byte;
  return AC_OK;
}
