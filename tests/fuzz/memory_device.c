/* A device of plain memory that computes nothing. It replaces the CPU's, so that no kernel must be
 * built. It keeps what a trainer writes. */
#include "fuzz.h"

#include "backend/backend.h"
#include "core/error.h"
#include "io/checksum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CHUNKS = 8 };

static struct {
  void *data;
  uint64_t bytes;
} chunks[MOST_CHUNKS];

uint64_t fuzz_memory_hash(void) {
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  for (int i = 0; i < MOST_CHUNKS; i++)
    XXH3_64bits_update(&state, chunks[i].data, chunks[i].data ? (size_t)chunks[i].bytes : 0);
  return XXH3_64bits_digest(&state);
}

static int count(void) {
  return 1;
}

static ac_status describe(int index, ac_device_info *info) {
  (void)index;
  *info = (ac_device_info){.id = "cpu", .backend = "cpu", .name = "memory", .driver = "none"};
  info->alignment = 64;
  info->compute_units = 1;
  return AC_OK;
}

static ac_status open_device(void **state, int index, const ac_device_desc *desc,
                             ac_device_info *info) {
  (void)desc;
  *state = chunks;
  return describe(index, info);
}

static void close_device(void *state) {
  (void)state;
}

static ac_status allocate(void *state, uint64_t bytes, void **chunk) {
  (void)state;
  int i = 0;
  while (i < MOST_CHUNKS && chunks[i].data) i++;
  FUZZ_CHECK(i < MOST_CHUNKS);
  *chunk = calloc(1, bytes);
  chunks[i].data = *chunk;
  chunks[i].bytes = bytes;
  return *chunk ? AC_OK : ac_fail(AC_ERROR_MEMORY, "no memory for a chunk");
}

static void release(void *state, void *chunk, uint64_t bytes) {
  (void)state, (void)bytes;
  for (int i = 0; i < MOST_CHUNKS; i++)
    if (chunks[i].data == chunk) chunks[i].data = NULL;
  free(chunk);
}

static ac_status view(void *state, void *chunk, uint64_t offset, uint64_t bytes, void **handle) {
  (void)state, (void)bytes;
  *handle = (char *)chunk + offset;
  return AC_OK;
}

static void release_view(void *state, void *handle) {
  (void)state, (void)handle;
}

static ac_status upload(void *state, void *handle, uint64_t offset, const void *data,
                        uint64_t bytes) {
  (void)state;
  memcpy((char *)handle + offset, data, bytes);
  return AC_OK;
}

static ac_status download(void *state, const void *handle, uint64_t offset, void *data,
                          uint64_t bytes) {
  (void)state;
  memcpy(data, (const char *)handle + offset, bytes);
  return AC_OK;
}

static ac_status zero(void *state, void *handle, uint64_t bytes) {
  (void)state;
  memset(handle, 0, bytes);
  return AC_OK;
}

static ac_status copy(void *state, void *destination, const void *source, uint64_t bytes) {
  (void)state;
  memcpy(destination, source, bytes);
  return AC_OK;
}

static bool supports(void *state, const ac_op_args *args) {
  (void)state, (void)args;
  return true;
}

static ac_status run(void *state, const ac_op_args *args) {
  (void)state, (void)args;
  return AC_OK;
}

static ac_status finish(void *state) {
  (void)state;
  return AC_OK;
}

static uint64_t none(void *state) {
  (void)state;
  return 0;
}

static uint64_t workspace(void *state, const ac_op_args *args) {
  (void)state, (void)args;
  return 0;
}

const ac_backend ac_backend_cpu = {.version = AC_BACKEND_VERSION,
                                   .name = "cpu",
                                   .computes_nothing = true,
                                   .count = count,
                                   .describe = describe,
                                   .open = open_device,
                                   .close = close_device,
                                   .allocate = allocate,
                                   .release = release,
                                   .view = view,
                                   .release_view = release_view,
                                   .upload = upload,
                                   .download = download,
                                   .zero = zero,
                                   .copy = copy,
                                   .supports = supports,
                                   .workspace = workspace,
                                   .prepare = run,
                                   .run = run,
                                   .finish = finish,
                                   .objects = none,
                                   .library_bytes = none};
