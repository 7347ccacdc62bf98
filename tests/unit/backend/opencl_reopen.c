/* Opening, using and closing OpenCL devices again and again: what the drivers and CLBlast keep for
 * them does not grow, and what another device has compiled stays.
 *
 * A clBuildProgram of this file, called before the loader's, counts the programs that are built.
 * Contexts are counted and the release of views is watched in the same way. Builds, launches and
 * clFinish can be made to fail. A number as argument is the number of reopenings. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "support/devices.h"

#include <stdlib.h>

static int reopenings = 200;

#ifdef AC_HAVE_OPENCL
#include "backend/device.h"
#include "core/platform/threads.h"
#include "plan/cost.h"
#include "plan/placed_op.h"

#include <CL/cl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

static int builds; /* by threads that take turns; or nobody reads the number */

/* What calls return instead of being made; CL_SUCCESS: they are made. */
static cl_int build_error, launch_error, finish_error;

typedef cl_int build_function(cl_program, cl_uint, const cl_device_id *, const char *,
                              void(CL_CALLBACK *)(cl_program, void *), void *);

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                      const char *options, void(CL_CALLBACK *done)(cl_program, void *),
                      void *user) {
  build_function *next;
  if (build_error != CL_SUCCESS) return build_error;
  *(void **)&next = dlsym(RTLD_NEXT, "clBuildProgram");
  __atomic_fetch_add(&builds, 1, __ATOMIC_RELAXED);
  return next(program, count, devices, options, done, user);
}

typedef cl_context context_function(const cl_context_properties *, cl_uint, const cl_device_id *,
                                    void(CL_CALLBACK *)(const char *, const void *, size_t, void *),
                                    void *, cl_int *);
typedef cl_int launch_function(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,
                               const size_t *, cl_uint, const cl_event *, cl_event *);

typedef cl_int finish_function(cl_command_queue);

static int contexts_made;

cl_context clCreateContext(const cl_context_properties *properties, cl_uint count,
                           const cl_device_id *devices,
                           void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *),
                           void *user, cl_int *error) {
  context_function *next;
  *(void **)&next = dlsym(RTLD_NEXT, "clCreateContext");
  __atomic_fetch_add(&contexts_made, 1, __ATOMIC_RELAXED);
  return next(properties, count, devices, notify, user, error);
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint count, const cl_event *events, cl_event *event) {
  launch_function *next;
  if (launch_error != CL_SUCCESS) return launch_error;
  *(void **)&next = dlsym(RTLD_NEXT, "clEnqueueNDRangeKernel");
  return next(queue, kernel, dimensions, offset, global, local, count, events, event);
}

cl_int clFinish(cl_command_queue queue) {
  finish_function *next;
  if (finish_error != CL_SUCCESS) return finish_error;
  *(void **)&next = dlsym(RTLD_NEXT, "clFinish");
  return next(queue);
}

enum { VIEWS = 4 };
static cl_mem released[VIEWS]; /* the first ones after a test has set releases to 0 */
static int releases = VIEWS;

cl_int clReleaseMemObject(cl_mem object) {
  cl_int (*next)(cl_mem);
  *(void **)&next = dlsym(RTLD_NEXT, "clReleaseMemObject");
  if (__atomic_load_n(&releases, __ATOMIC_RELAXED) < VIEWS) released[releases++] = object;
  return next(object);
}

/* A small product, which CLBlast computes, with a bias, which is added by a kernel of ours. */
static ac_status multiply(ac_device *device, ac_timing_pattern *pattern) {
  ac_op_args args;
  ac_placed_op placed;
  void *chunk = NULL;
  int next = 0;
  if (!ac_cost_sample(&args, device, AC_F32, AC_OP_linear, 0)) return AC_ERROR_UNSUPPORTED;
  const uint64_t bytes = ac_placed_bytes(device, &args);
  ac_status status = ac_device_allocate(device, bytes, &chunk);
  if (status != AC_OK) return status;
  status = ac_op_place(&placed, device, &args, chunk, 0, pattern);
  if (status == AC_OK) status = device->backend->prepare(device->state, &placed.args);
  if (status == AC_OK) status = ac_placed_run(device, &placed, 1, &next, 1);
  ac_op_lift(&placed, device);
  ac_device_release(device, chunk, bytes);
  return status;
}

static void use(const char *name, ac_timing_pattern *pattern) {
  ac_device *device = open_opencl(name);
  assert_ok(multiply(device, pattern));
  ac_device_close(device);
}

static double resident_mebibytes(void) {
  long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file) skip();
  assert_int_equal(fscanf(file, "%*d %ld", &pages), 1);
  fclose(file);
  return (double)pages * (double)sysconf(_SC_PAGESIZE) / 0x1p20;
}

/* The first tenth fills what is filled once. Before contexts were shared and CLBlast's programs
 * freed each reopening kept 2 to 4 MiB. */
static void assert_flat(const char *name) {
  ac_timing_pattern pattern;
  assert_ok(ac_timing_pattern_create(&pattern));
  double before = 0;
  for (int i = 0; i < reopenings; i++) {
    use(name, &pattern);
    if (i == reopenings / 10) before = resident_mebibytes();
  }
  const double after = resident_mebibytes(), each = (after - before) / (0.9 * reopenings);
  print_message("%d reopenings: %.1f MiB, then %.1f MiB\n", reopenings, before, after);
  ac_timing_pattern_free(&pattern);
#ifndef __SANITIZE_ADDRESS__ /* which keeps what is freed for a while */
  if (each > 0.1) fail_msg("each reopening keeps %.2f MiB", each);
#else
  (void)each;
#endif
}

static void test_memory_stays_flat(void **state) {
  (void)state;
  assert_flat("opencl:0");
}

/* Nor while another device is open; its programs stay. */
static void test_memory_stays_flat_beside_another(void **state) {
  (void)state;
  ac_timing_pattern pattern;
  assert_ok(ac_timing_pattern_create(&pattern));
  ac_device *other = open_opencl("opencl:1");
  assert_ok(multiply(other, &pattern));
  assert_flat("opencl:0");
  const int so_far = builds;
  assert_ok(multiply(other, &pattern));
  assert_int_equal(builds, so_far);
  /* A second device on the same hardware shares CLBlast's program and builds that of the bias. */
  use("opencl:1", &pattern);
  assert_int_equal(builds, so_far + 1);
  ac_device_close(other);
  ac_timing_pattern_free(&pattern);
}

static int contexts_after_reopening(ac_timing_pattern *pattern) {
  const int before = contexts_made;
  use("opencl:0", pattern);
  return contexts_made - before;
}

/* What a device does when its driver fails, and where. */
typedef void failure(ac_device *device, ac_timing_pattern *pattern, cl_int error);

static void fail_to_launch(ac_device *device, ac_timing_pattern *pattern, cl_int error) {
  launch_error = error;
  assert_int_not_equal(multiply(device, pattern), AC_OK);
  launch_error = CL_SUCCESS;
  ac_device_close(device);
}

static void fail_to_build(ac_device *device, ac_timing_pattern *pattern, cl_int error) {
  build_error = error;
  assert_int_not_equal(multiply(device, pattern), AC_OK);
  build_error = CL_SUCCESS;
  ac_device_close(device);
}

static void fail_to_allocate(ac_device *device, ac_timing_pattern *pattern, cl_int error) {
  void *chunk = NULL;
  (void)pattern;
  finish_error = error;
  assert_int_equal(ac_device_allocate(device, 64, &chunk), AC_ERROR_MEMORY);
  finish_error = CL_SUCCESS;
  ac_device_close(device);
}

/* The last chance to see what became of work that was queued. */
static void fail_to_close(ac_device *device, ac_timing_pattern *pattern, cl_int error) {
  assert_ok(multiply(device, pattern));
  finish_error = error;
  ac_device_close(device);
  finish_error = CL_SUCCESS;
}

/* After an error that leaves a context unusable, the hardware's next device has another, also while
 * one is open that holds the old one or keeps all from being cleared. */
static void check_failure(failure *happens, cl_int error, bool unusable) {
  ac_timing_pattern pattern;
  assert_ok(ac_timing_pattern_create(&pattern));
  ac_device *other = open_opencl("opencl:1"), *holder = open_opencl("opencl:0");
  assert_int_equal(contexts_after_reopening(&pattern), 0);
  ac_device *device = open_opencl("opencl:0");
  happens(device, &pattern, error);
  assert_int_equal(contexts_after_reopening(&pattern), unusable);
  assert_int_equal(contexts_after_reopening(&pattern), 0);
  ac_device_close(holder);
  assert_int_equal(contexts_after_reopening(&pattern), 0);
  ac_device_close(other);
  ac_timing_pattern_free(&pattern);
}

static void test_a_failed_context_is_not_handed_out(void **state) {
  (void)state;
  check_failure(fail_to_launch, CL_OUT_OF_RESOURCES, true);
  check_failure(fail_to_launch, CL_DEVICE_NOT_AVAILABLE, true);
  check_failure(fail_to_launch, -9999, true); /* a driver's own */
  check_failure(fail_to_launch, CL_INVALID_WORK_GROUP_SIZE, false);
  check_failure(fail_to_build, -9999, true);
  check_failure(fail_to_build, CL_BUILD_PROGRAM_FAILURE, false);
  check_failure(fail_to_allocate, -9999, true);
  check_failure(fail_to_allocate, CL_OUT_OF_RESOURCES, false);
  check_failure(fail_to_allocate, CL_MEM_OBJECT_ALLOCATION_FAILURE, false);
  check_failure(fail_to_close, CL_OUT_OF_RESOURCES, true);
  check_failure(fail_to_close, CL_SUCCESS, false);
}

typedef struct reopener {
  const char *name;
  ac_status status;
} reopener;

static void reopen_often(void *user) {
  reopener *r = user;
  ac_timing_pattern pattern;
  r->status = ac_timing_pattern_create(&pattern);
  for (int i = 0; i < 10 && r->status == AC_OK; i++) {
    ac_device *device;
    r->status = ac_device_open(&device, &(ac_device_desc){.name = r->name});
    if (r->status != AC_OK) break;
    r->status = multiply(device, &pattern);
    ac_device_close(device);
  }
  ac_timing_pattern_free(&pattern);
}

/* Each closes, now and then as the last, what the others use. */
static void test_threads(void **state) {
  (void)state;
  enum { THREADS = 3 };
  ac_device_close(open_opencl("opencl:1"));
  reopener reopeners[THREADS] = {{.name = "opencl:0"}, {.name = "opencl:1"}, {.name = "opencl:0"}};
  ac_thread *threads[THREADS];
  for (int i = 0; i < THREADS; i++)
    assert_ok(ac_thread_start(&threads[i], reopen_often, &reopeners[i]));
  for (int i = 0; i < THREADS; i++) ac_thread_join(threads[i]);
  for (int i = 0; i < THREADS; i++) assert_int_equal(reopeners[i].status, AC_OK);
}

/* NVIDIA's driver crashes where a sub-buffer is released before a later one of the same buffer.
 * Those of another may not be waited for: a view that waits keeps its own buffer's memory. */
static void check_views(int chunk_count, const int chunk_of[VIEWS], const int given_back[VIEWS],
                        const int then_released[VIEWS], const int in_order[VIEWS]) {
  enum { BYTES = 4096 };
  ac_device *device = open_opencl("opencl:0");
  const ac_backend *backend = device->backend;
  void *chunk[VIEWS], *view[VIEWS];
  for (int i = 0; i < chunk_count; i++)
    assert_ok(ac_device_allocate(device, VIEWS * BYTES, &chunk[i]));
  for (int i = 0; i < VIEWS; i++)
    assert_ok(
        backend->view(device->state, chunk[chunk_of[i]], (uint64_t)i * BYTES, BYTES, &view[i]));
  releases = 0;
  for (int i = 0; i < VIEWS; i++) {
    backend->release_view(device->state, view[given_back[i]]);
    assert_int_equal(releases, then_released[i]);
  }
  for (int i = 0; i < VIEWS; i++) assert_ptr_equal(released[i], view[in_order[i]]);
  for (int i = 0; i < chunk_count; i++) ac_device_release(device, chunk[i], VIEWS * BYTES);
  ac_device_close(device);
}

static void test_views_are_released_newest_first(void **state) {
  (void)state;
  check_views(1, (int[]){0, 0, 0, 0}, (int[]){1, 0, 3, 2}, (int[]){0, 0, 1, 4},
              (int[]){3, 2, 1, 0});
}

static void test_views_wait_for_those_of_their_chunk_alone(void **state) {
  (void)state;
  check_views(2, (int[]){0, 1, 0, 1}, (int[]){0, 2, 3, 1}, (int[]){0, 2, 3, 4},
              (int[]){2, 0, 3, 1});
}
#endif

int main(int argc, char **argv) {
  if (argc > 1) reopenings = atoi(argv[1]);
  /* PoCL then has two devices. A CPU's products go to CLBlast when told so. */
  setenv("POCL_DEVICES", "pthread basic", 1);
  setenv("ACCRUE_CLBLAST", "1", 0);
  const struct CMUnitTest tests[] = {
#ifdef AC_HAVE_OPENCL
      cmocka_unit_test(test_memory_stays_flat),
      cmocka_unit_test(test_memory_stays_flat_beside_another),
      cmocka_unit_test(test_a_failed_context_is_not_handed_out),
      cmocka_unit_test(test_threads),
      cmocka_unit_test(test_views_are_released_newest_first),
      cmocka_unit_test(test_views_wait_for_those_of_their_chunk_alone),
#endif
  };
  return tests[0].name ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
