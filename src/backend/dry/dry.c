/* The dry backend computes nothing and counts everything: plans, windows and budgets are tested
 * with it, for models of any size and without hardware. Memory is address space that is never
 * touched; downloads yield zeros. */
#include "backend/backend.h"
#include "core/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct dry_state {
  uint64_t objects, max_allocation;
} dry_state;

/* A chunk or a view of one. */
typedef struct dry_view {
  uint64_t bytes;
} dry_view;

static int dry_count(void) {
  return 1;
}

static ac_status dry_describe(int index, ac_device_info *info) {
  (void)index;
  memset(info, 0, sizeof *info);
  snprintf(info->id, sizeof info->id, "dry");
  snprintf(info->backend, sizeof info->backend, "dry");
  snprintf(info->name, sizeof info->name, "dry run");
  snprintf(info->driver, sizeof info->driver, "computes nothing");
  snprintf(info->bf16_products, sizeof info->bf16_products, "as floats");
  info->alignment = 64;
  info->compute_units = 1;
  info->own_memory = true;
  return AC_OK;
}

static ac_status dry_open(void **state, int index, const ac_device_desc *desc,
                          ac_device_info *info) {
  AC_TRY(dry_describe(index, info));
  dry_state *dry = calloc(1, sizeof *dry);
  if (!dry) return ac_fail(AC_ERROR_MEMORY, "no memory for a device");
  dry->max_allocation = info->max_allocation = desc->dry_max_allocation;
  *state = dry;
  return AC_OK;
}

static void dry_close(void *state) {
  free(state);
}

static ac_status make_view(dry_state *dry, uint64_t bytes, void **handle) {
  dry_view *view = malloc(sizeof *view);
  if (!view) return ac_fail(AC_ERROR_MEMORY, "no memory for a view");
  view->bytes = bytes;
  dry->objects++;
  *handle = view;
  return AC_OK;
}

static ac_status dry_allocate(void *state, uint64_t bytes, void **chunk) {
  dry_state *dry = state;
  if (dry->max_allocation && bytes > dry->max_allocation)
    return ac_fail(AC_ERROR_MEMORY, "dry: a chunk of %llu bytes exceeds the largest allocation",
                   (unsigned long long)bytes);
  return make_view(dry, bytes, chunk);
}

static void dry_release(void *state, void *chunk, uint64_t bytes) {
  (void)state, (void)bytes;
  free(chunk);
}

static ac_status dry_view_of(void *state, void *chunk, uint64_t offset, uint64_t bytes,
                             void **handle) {
  dry_view *whole = chunk;
  if (offset > whole->bytes || bytes > whole->bytes - offset)
    return ac_fail(AC_ERROR_ARGUMENT, "dry: a view reaches beyond its chunk");
  return make_view(state, bytes, handle);
}

static void dry_release_view(void *state, void *handle) {
  (void)state;
  free(handle);
}

static ac_status check_range(const dry_view *view, uint64_t offset, uint64_t bytes) {
  if (offset > view->bytes || bytes > view->bytes - offset)
    return ac_fail(AC_ERROR_ARGUMENT, "dry: a transfer reaches beyond its view");
  return AC_OK;
}

static ac_status dry_upload(void *state, void *handle, uint64_t offset, const void *data,
                            uint64_t bytes) {
  (void)state, (void)data;
  return check_range(handle, offset, bytes);
}

static ac_status dry_download(void *state, const void *handle, uint64_t offset, void *data,
                              uint64_t bytes) {
  (void)state;
  AC_TRY(check_range(handle, offset, bytes));
  memset(data, 0, bytes);
  return AC_OK;
}

static ac_status dry_zero(void *state, void *handle, uint64_t bytes) {
  (void)state;
  return check_range(handle, 0, bytes);
}

static ac_status dry_copy(void *state, void *destination, const void *source, uint64_t bytes) {
  (void)state;
  AC_TRY(check_range(source, 0, bytes));
  return check_range(destination, 0, bytes);
}

/* Zeros, like all memory here: pages that nothing touches cost nothing. */
static ac_status dry_allocate_host(void *state, uint64_t bytes, ac_host_memory *memory) {
  (void)state;
  *memory = (ac_host_memory){.data = calloc(bytes, 1), .bytes = bytes};
  return memory->data ? AC_OK : ac_fail(AC_ERROR_MEMORY, "dry: no memory on the host");
}

static void dry_release_host(void *state, ac_host_memory *memory) {
  (void)state;
  free(memory->data);
}

static ac_status dry_transfer_in(void *state, void *handle, const void *data, uint64_t bytes) {
  (void)state, (void)data;
  return check_range(handle, 0, bytes);
}

static ac_status dry_transfer_out(void *state, const void *handle, void *data, uint64_t bytes) {
  (void)state, (void)data;
  return check_range(handle, 0, bytes);
}

static ac_status dry_order(void *state, ac_queue first, ac_queue then) {
  (void)state, (void)first, (void)then;
  return AC_OK;
}

static bool dry_supports(void *state, const ac_op_args *args) {
  (void)state, (void)args;
  return true;
}

static uint64_t dry_workspace(void *state, const ac_op_args *args) {
  (void)state, (void)args;
  return 0;
}

static ac_status dry_prepare(void *state, const ac_op_args *args) {
  (void)state, (void)args;
  return AC_OK;
}

/* What a real backend would read and write must lie within the operands' views. */
static ac_status dry_run(void *state, const ac_op_args *args) {
  (void)state;
  for (int i = 0; i < AC_MAX_INPUTS + AC_MAX_OUTPUTS; i++) {
    const ac_operand *x = i < AC_MAX_INPUTS ? &args->in[i] : &args->out[i - AC_MAX_INPUTS];
    if (x->count && check_range(x->data, 0, (uint64_t)ac_operand_bytes(x)) != AC_OK)
      return ac_fail_prefix(AC_ERROR_ARGUMENT, "%s", ac_op_name(args->op));
  }
  return AC_OK;
}

static ac_status dry_finish(void *state) {
  (void)state;
  return AC_OK;
}

static uint64_t dry_objects(void *state) {
  return ((dry_state *)state)->objects;
}

static uint64_t dry_library_bytes(void *state) {
  (void)state;
  return 0;
}

const ac_backend ac_backend_dry = {
    .version = AC_BACKEND_VERSION,
    .name = "dry",
    .computes_nothing = true,
    .count = dry_count,
    .describe = dry_describe,
    .open = dry_open,
    .close = dry_close,
    .allocate = dry_allocate,
    .release = dry_release,
    .view = dry_view_of,
    .release_view = dry_release_view,
    .upload = dry_upload,
    .download = dry_download,
    .zero = dry_zero,
    .copy = dry_copy,
    .allocate_host = dry_allocate_host,
    .release_host = dry_release_host,
    .transfer_in = dry_transfer_in,
    .transfer_out = dry_transfer_out,
    .order = dry_order,
    .supports = dry_supports,
    .workspace = dry_workspace,
    .prepare = dry_prepare,
    .run = dry_run,
    .finish = dry_finish,
    .objects = dry_objects,
    .library_bytes = dry_library_bytes,
};
