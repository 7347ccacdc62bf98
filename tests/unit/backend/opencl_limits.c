/* What drivers bound or are not ready for: first use by several threads at once, work-items beyond
 * 32 bits, buffers larger than the largest, one queue of several that fails. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "ops/attention/softmax.h"
#include "support/devices.h"

#ifdef AC_HAVE_OPENCL
#include "backend/device.h"
#include "backend/opencl/shared/opencl.h"
#include "core/platform/threads.h"

#include <CL/cl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* PoCL's compiler gives the thread that uses it first a stack for signals of its own, which a
 * sanitizer would take for its own when the thread ends. */
AC_API const char *__asan_default_options(void);
const char *__asan_default_options(void) {
  return "use_sigaltstack=0";
}

static int finishes;
static cl_int finish_error;

cl_int clFinish(cl_command_queue queue) {
  cl_int (*next)(cl_command_queue);
  *(void **)&next = dlsym(RTLD_NEXT, "clFinish");
  finishes++;
  return finish_error != CL_SUCCESS ? finish_error : next(queue);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 4 };
static ac_monitor *gate;
static int arrived;

typedef struct opener {
  const char *name;
  ac_status status;
  char sentence[256], id[64];
} opener;

static void open_with_others(void *user) {
  opener *o = user;
  ac_monitor_lock(gate);
  arrived++;
  ac_monitor_wake(gate);
  while (arrived < THREADS) ac_monitor_wait(gate);
  ac_monitor_unlock(gate);
  ac_device *device;
  o->status = ac_device_open(&device, &(ac_device_desc){.name = o->name});
  snprintf(o->sentence, sizeof o->sentence, "%s", ac_last_error());
  if (o->status != AC_OK) return;
  snprintf(o->id, sizeof o->id, "%s", ac_device_get_info(device)->id);
  ac_device_close(device);
}

/* To be the first test: nothing has asked for devices yet. */
static void test_threads_open_at_once(void **state) {
  (void)state;
  opener openers[THREADS] = {
      {.name = "opencl"}, {.name = NULL}, {.name = "opencl:0"}, {.name = ""}};
  ac_thread *threads[THREADS];
  assert_non_null(gate = ac_monitor_create());
  for (int i = 0; i < THREADS; i++)
    assert_ok(ac_thread_start(&threads[i], open_with_others, &openers[i]));
  for (int i = 0; i < THREADS; i++) ac_thread_join(threads[i]);
  ac_monitor_free(gate);
  ac_device_close(open_opencl("opencl")); /* or there is none */
  for (int i = 0; i < THREADS; i++)
    if (openers[i].status != AC_OK) fail_msg("thread %d: %s", i, openers[i].sentence);
  assert_string_equal(openers[0].id, openers[2].id);
  assert_string_equal(openers[1].id, openers[3].id);
}

/* ---- work-items ------------------------------------------------------------------------------ */

static ac_status prepare_softmax(ac_device *device, int64_t rows) {
  const ac_operand x = {.dtype = AC_F32, .rank = 2, .dim = {rows, 8}, .count = 8 * rows};
  const ac_run_state run = {.batch = rows};
  const ac_softmax_attributes last = {1, 0};
  const ac_op_args args = {
      .op = AC_OP_softmax, .attributes = &last, .in = {x}, .out = {x}, .run = &run};
  assert_true(device->backend->supports(device->state, &args));
  return device->backend->prepare(device->state, &args);
}

/* Nothing is allocated. A short row takes 64 items. */
static void test_rows_beyond_32_bits(void **state) {
  (void)state;
  ac_device *device = open_opencl("opencl");
  const int64_t most = ((int64_t)1 << 32) / 64;
  assert_ok(prepare_softmax(device, most - 1));
  assert_int_equal(prepare_softmax(device, most), AC_ERROR_UNSUPPORTED);
  assert_string_equal(ac_last_error(),
                      "opencl: softmax: kernel softmax wants 4294967296 work-items, more than the "
                      "2^32 - 1 that drivers take; a smaller micro-batch may help");
  ac_device_close(device);
}

static ac_cl_grid check_grid(ac_opencl *cl, int64_t elements, size_t slices) {
  const ac_cl_grid grid = ac_cl_elements(cl, elements);
  assert_true(grid.global[0] <= (size_t)cl->most_items);
  assert_int_equal(grid.global[0] % grid.local[0], 0);
  assert_int_equal(grid.global[2], slices);
  assert_true(grid.global[0] * grid.global[2] >= (size_t)elements);
  return grid;
}

static void test_elements_beyond_32_bits(void **state) {
  (void)state;
  ac_device *device = open_opencl("opencl");
  ac_opencl *cl = device->state;
  const int64_t two_31 = (int64_t)1 << 31;
  check_grid(cl, 1, 1);
  check_grid(cl, two_31, 1);
  check_grid(cl, two_31 + 1, 2);
  check_grid(cl, 2 * two_31, 2);
  check_grid(cl, 6 * two_31 + 5, 7);
  ac_device_close(device);
}

/* ---- transfers ------------------------------------------------------------------------------- */

static void check_round_trip(ac_device *device, void *chunk, uint64_t bytes) {
  const ac_backend *backend = device->backend;
  ac_host_memory memory;
  assert_ok(ac_device_allocate_host(device, bytes, &memory));
  unsigned char *data = memory.data;
  for (uint64_t i = 0; i < bytes; i++) {
    assert_int_equal(data[i], 0);
    data[i] = (unsigned char)(i % 251);
  }
  assert_ok(backend->transfer_in(device->state, chunk, data, bytes));
  assert_ok(backend->finish(device->state));
  memset(data, 0, bytes);
  assert_ok(backend->transfer_out(device->state, chunk, data, bytes));
  assert_ok(backend->finish(device->state));
  for (uint64_t i = 0; i < bytes; i++) assert_int_equal(data[i], i % 251);
  ac_device_release_host(device, &memory);
}

static void test_host_memory_beyond_the_largest_buffer(void **state) {
  (void)state;
  ac_device *device = open_opencl("opencl");
  ac_opencl *cl = device->state;
  enum { LARGEST = 1000 };
  void *chunk;
  assert_ok(ac_device_allocate(device, LARGEST + 1, &chunk));
  cl->info.max_allocation = LARGEST;
  const uint64_t objects = cl->objects;
  check_round_trip(device, chunk, LARGEST);
  assert_int_equal(cl->objects, objects + 1);
  check_round_trip(device, chunk, LARGEST + 1);
  assert_int_equal(cl->objects, objects + 1);
  ac_device_release(device, chunk, LARGEST + 1);
  ac_device_close(device);
}

/* Transfers may still read or write memory that is released then. */
static void test_all_queues_are_waited_for(void **state) {
  (void)state;
  ac_device *device = open_opencl("opencl");
  ac_host_memory memory;
  assert_ok(ac_device_allocate_host(device, 64, &memory)); /* makes the queues */
  finishes = 0;
  finish_error = CL_OUT_OF_RESOURCES;
  assert_int_not_equal(device->backend->finish(device->state), AC_OK);
  assert_int_equal(finishes, AC_QUEUE_COUNT);
  finish_error = CL_SUCCESS;
  ac_device_release_host(device, &memory);
  ac_device_close(device);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_threads_open_at_once),
      cmocka_unit_test(test_rows_beyond_32_bits),
      cmocka_unit_test(test_elements_beyond_32_bits),
      cmocka_unit_test(test_host_memory_beyond_the_largest_buffer),
      cmocka_unit_test(test_all_queues_are_waited_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) {
  return 0;
}
#endif
