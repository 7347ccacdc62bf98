#include "faults/backend.h"

#include "core/error.h"

#include <stdio.h>

static const ac_backend *real;
static ac_backend table;
static long calls, failing, spoiling;
static bool resting;

void faulty_backend_fail(long k) {
  calls = spoiling = 0;
  resting = false;
  failing = k;
}

void faulty_backend_spoil(long k) {
  calls = failing = 0;
  resting = false;
  spoiling = k;
}

void faulty_backend_pause(bool paused) {
  resting = paused;
}

long faulty_backend_calls(void) {
  return calls;
}

/* ---- the table ------------------------------------------------------------------------------- */

static ac_status fault(const char *name) {
  if (resting || spoiling || ++calls != failing) return AC_OK;
  return ac_fail(AC_ERROR_DEVICE, "the device failed in %s", name);
}

#define FAULTY(name, parameters, ...)         \
  static ac_status faulty_##name parameters { \
    AC_TRY(fault(#name));                     \
    return real->name(__VA_ARGS__);           \
  }
FAULTY(view, (void *state, void *chunk, uint64_t offset, uint64_t bytes, void **handle), state,
       chunk, offset, bytes, handle)
FAULTY(upload, (void *state, void *handle, uint64_t offset, const void *data, uint64_t bytes),
       state, handle, offset, data, bytes)
FAULTY(download, (void *state, const void *handle, uint64_t offset, void *data, uint64_t bytes),
       state, handle, offset, data, bytes)
FAULTY(zero, (void *state, void *handle, uint64_t bytes), state, handle, bytes)
FAULTY(copy, (void *state, void *destination, const void *source, uint64_t bytes), state,
       destination, source, bytes)
FAULTY(prepare, (void *state, const ac_op_args *args), state, args)
FAULTY(finish, (void *state), state)

static ac_status faulty_allocate(void *state, uint64_t bytes, void **chunk) {
  if (fault("allocate") != AC_OK)
    return ac_fail(AC_ERROR_MEMORY, "the device has no memory for %llu bytes",
                   (unsigned long long)bytes);
  return real->allocate(state, bytes, chunk);
}

static const ac_operand *first_floats(const ac_op_args *args) {
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    if (args->out[j].data && args->out[j].count > 0 && args->out[j].dtype != AC_I32)
      return &args->out[j];
  return NULL;
}

/* All bits set are a NaN in every type. */
static ac_status spoil(void *state, const ac_op_args *args) {
  static const uint32_t nan = 0xffffffff;
  const ac_operand *out = first_floats(args);
  if (resting || !spoiling || !out || ++calls != spoiling) return AC_OK;
  return real->upload(state, out->data, 0, &nan, ac_dtype_bytes(out->dtype));
}

static ac_status faulty_run(void *state, const ac_op_args *args) {
  AC_TRY(fault("run"));
  AC_TRY(real->run(state, args));
  return spoil(state, args);
}

/* Each of them may fail, when those before it have run. */
static ac_status faulty_run_all(void *state, const ac_op_args *args, int count) {
  for (int i = 0; i < count; i++) {
    const ac_status status = fault("run");
    if (status == AC_OK) continue;
    char sentence[128];
    snprintf(sentence, sizeof sentence, "%s", ac_last_error());
    AC_TRY(real->run_all(state, args, i));
    return ac_fail(status, "%s", sentence);
  }
  AC_TRY(real->run_all(state, args, count));
  for (int i = 0; i < count; i++) AC_TRY(spoil(state, &args[i]));
  return AC_OK;
}

void faulty_backend_wrap(ac_device *device) {
  real = device->backend;
  table = *real;
  table.allocate = faulty_allocate;
  table.view = faulty_view;
  table.upload = faulty_upload;
  table.download = faulty_download;
  table.zero = faulty_zero;
  table.copy = faulty_copy;
  table.prepare = faulty_prepare;
  table.run = faulty_run;
  if (real->run_all) table.run_all = faulty_run_all;
  table.finish = faulty_finish;
  device->backend = &table;
}
