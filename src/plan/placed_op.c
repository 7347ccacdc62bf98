#include "plan/placed_op.h"

#include "core/align.h"
#include "core/error.h"
#include "core/half.h"
#include "ops/description.h"

#include <stdlib.h>

/* ---- values ---------------------------------------------------------------------------------- */

enum { PATTERN = 1 << 15 }; /* elements */

static uint32_t scattered(int i) {
  return (uint32_t)i * 2654435761u;
}

ac_status ac_timing_pattern_create(ac_timing_pattern *pattern) {
  *pattern = (ac_timing_pattern){0};
  for (int dtype = 0; dtype < AC_DTYPE_COUNT; dtype++)
    if (!(pattern->data[dtype] = calloc(PATTERN, ac_dtype_bytes((ac_dtype)dtype))))
      return ac_fail(AC_ERROR_MEMORY, "no memory on the host");
  float *floats = pattern->data[AC_F32];
  for (int i = 0; i < PATTERN; i++) floats[i] = 0.5f + (float)(scattered(i) >> 8) * 0x1p-24f;
  ac_floats_write(pattern->data[AC_F16], AC_F16, floats, PATTERN);
  ac_floats_write(pattern->data[AC_BF16], AC_BF16, floats, PATTERN);
  return AC_OK;
}

void ac_timing_pattern_free(ac_timing_pattern *pattern) {
  for (int dtype = 0; dtype < AC_DTYPE_COUNT; dtype++) free(pattern->data[dtype]);
}

/* How many entries the table has that the op's integers index. If they are not ids it is 1, so that
 * all integers are 0. */
static int64_t id_limit(const ac_op_args *args) {
  const ac_op_desc *desc = ac_op_describe(args->op);
  return desc->id_limit ? desc->id_limit(args) : 1;
}

static void set_ids(ac_timing_pattern *pattern, int64_t limit) {
  int32_t *ids = pattern->data[AC_I32];
  int64_t *long_ids = pattern->data[AC_I64];
  if (pattern->id_limit == limit) return;
  for (int i = 0; i < PATTERN; i++)
    long_ids[i] = ids[i] = (int32_t)(scattered(i) % (uint32_t)limit);
  pattern->id_limit = limit;
}

static ac_status fill(ac_device *device, void *view, ac_dtype dtype, uint64_t bytes,
                      const ac_timing_pattern *pattern) {
  const uint64_t period = PATTERN * ac_dtype_bytes(dtype);
  for (uint64_t at = 0; at < bytes; at += period)
    AC_TRY(device->backend->upload(device->state, view, at, pattern->data[dtype],
                                   bytes - at < period ? bytes - at : period));
  return AC_OK;
}

/* ---- places ---------------------------------------------------------------------------------- */

enum { WORKSPACE = AC_TIMING_SLOTS - 1 };

static ac_operand *slot_operand(ac_op_args *args, int slot) {
  return slot < AC_MAX_INPUTS ? &args->in[slot] : &args->out[slot - AC_MAX_INPUTS];
}

static uint64_t slot_bytes(const ac_op_args *args, int slot) {
  if (slot == WORKSPACE) return args->workspace_bytes;
  return (uint64_t)ac_operand_bytes(slot_operand((ac_op_args *)args, slot));
}

uint64_t ac_placed_bytes(const ac_device *device, const ac_op_args *args) {
  uint64_t bytes = 0;
  for (int k = 0; k < AC_TIMING_SLOTS; k++)
    bytes += ac_align(slot_bytes(args, k), device->info.alignment);
  return bytes;
}

ac_status ac_op_place(ac_placed_op *placed, ac_device *device, const ac_op_args *args, void *chunk,
                      uint64_t offset, ac_timing_pattern *pattern) {
  *placed = (ac_placed_op){.args = *args};
  set_ids(pattern, id_limit(args));
  for (int k = 0; k < AC_TIMING_SLOTS; k++) {
    uint64_t bytes = slot_bytes(args, k);
    if (!bytes) continue;
    void **view = &placed->view[k];
    AC_TRY(device->backend->view(device->state, chunk, offset, bytes, view));
    offset += ac_align(bytes, device->info.alignment);
    if (k == WORKSPACE) {
      placed->args.workspace = *view;
      continue;
    }
    ac_operand *x = slot_operand(&placed->args, k);
    x->data = *view;
    AC_TRY(fill(device, *view, x->dtype, bytes, pattern));
  }
  return AC_OK;
}

void ac_op_lift(ac_placed_op *placed, ac_device *device) {
  for (int k = 0; k < AC_TIMING_SLOTS; k++)
    if (placed->view[k]) device->backend->release_view(device->state, placed->view[k]);
  *placed = (ac_placed_op){0};
}

/* ---- running --------------------------------------------------------------------------------- */

ac_status ac_placed_run(ac_device *device, const ac_placed_op *placed, int count, int *next,
                        int64_t runs) {
  for (int64_t i = 0; i < runs; i++) {
    AC_TRY(device->backend->run(device->state, &placed[*next].args));
    if (++*next == count) *next = 0;
  }
  return device->backend->finish(device->state);
}
