/* Matrix units of GPUs (cl/product/unit_gemm.cl): their registers hold what the vendors' documents
 * say, and units are taken after they have given right products, not before. That the kernel's
 * tiles are right is for opencl_gemm.c. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "support/devices.h"

/* ---- where the elements are ------------------------------------------------------------------ */

/* Row and column of an element; of a pair, of the element in the lower half. */
typedef struct place {
  int row, column;
} place;

enum { LANES = 64, REGISTERS = 8 };

typedef struct unit_maps {
  int lanes, m, n, words_a, words_b, sums;
  place a[LANES][REGISTERS], b[LANES][REGISTERS], c[LANES][REGISTERS];
} unit_maps;

#define UNIT mma
#define UNIT_MMA
#include "unit_maps.h"
#define UNIT dpas
#define UNIT_DPAS
#include "unit_maps.h"
#define UNIT wmma
#define UNIT_WMMA
#include "unit_maps.h"
#define UNIT mfma
#define UNIT_MFMA
#include "unit_maps.h"

static void expect(const char *what, int lane, int r, place got, place want) {
  if (got.row != want.row || got.column != want.column)
    fail_msg("%s, lane %d, register %d: (%d, %d) instead of (%d, %d)", what, lane, r, got.row,
             got.column, want.row, want.column);
}

static void expect_sizes(const unit_maps *maps, int lanes, int m, int n, int words_a, int words_b,
                         int sums) {
  assert_int_equal(maps->lanes, lanes);
  assert_int_equal(maps->m, m);
  assert_int_equal(maps->n, n);
  assert_int_equal(maps->words_a, words_a);
  assert_int_equal(maps->words_b, words_b);
  assert_int_equal(maps->sums, sums);
}

/* PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type", by elements a0..a7, b0..b3
 * and c0..c3; register r of A has a2r and a2r+1. */
static void test_mma(void **state) {
  (void)state;
  static unit_maps maps;
  mma_maps(&maps);
  expect_sizes(&maps, 32, 16, 8, 4, 2, 4);
  for (int lane = 0; lane < 32; lane++) {
    const int group = lane >> 2, in_group = lane % 4;
    for (int i = 0; i < 8; i += 2) {
      const bool upper = i < 2 || (4 <= i && i < 6);
      const place want = {upper ? group : group + 8, in_group * 2 + (i & 1) + (i < 4 ? 0 : 8)};
      expect("mma A", lane, i / 2, maps.a[lane][i / 2], want);
    }
    for (int i = 0; i < 4; i += 2) {
      const place want = {in_group * 2 + (i & 1) + (i < 2 ? 0 : 8), group};
      expect("mma B", lane, i / 2, maps.b[lane][i / 2], want);
    }
    for (int i = 0; i < 4; i++) {
      const place want = {i < 2 ? group : group + 8, in_group * 2 + (i & 1)};
      expect("mma C", lane, i, maps.c[lane][i], want);
    }
  }
  /* The figures' row of lane 5. */
  static const place a[] = {{1, 2}, {9, 2}, {1, 10}, {9, 10}}, b[] = {{2, 1}, {10, 1}},
                     c[] = {{1, 2}, {1, 3}, {9, 2}, {9, 3}};
  assert_memory_equal(maps.a[5], a, sizeof a);
  assert_memory_equal(maps.b[5], b, sizeof b);
  assert_memory_equal(maps.c[5], c, sizeof c);
}

/* cl_intel_subgroup_matrix_multiply_accumulate, sub-groups of 8: component M of A is row M, of
 * which item i has the pair i; component p of B are rows 2p and 2p + 1 of column i, component M of
 * the sums is row M of column i. */
static void test_dpas(void **state) {
  (void)state;
  static unit_maps maps;
  dpas_maps(&maps);
  expect_sizes(&maps, 8, 8, 8, 8, 8, 8);
  for (int item = 0; item < 8; item++)
    for (int component = 0; component < 8; component++) {
      expect("dpas A", item, component, maps.a[item][component], (place){component, 2 * item});
      expect("dpas B", item, component, maps.b[item][component], (place){2 * component, item});
      expect("dpas C", item, component, maps.c[item][component], (place){component, item});
    }
}

/* AMD's matrix instruction calculator, --get-register of RDNA 3's v_wmma_f32_16x16x16_f16 with 32
 * lanes: A[i][k] in register k / 2, bits 16 (k % 2), of lanes i and i + 16, B[k][j] of lanes j and
 * j + 16; D[i][j] in register i / 2 of lane j + 16 (i % 2). */
static void test_wmma(void **state) {
  (void)state;
  static unit_maps maps;
  wmma_maps(&maps);
  expect_sizes(&maps, 32, 16, 16, 8, 8, 8);
  for (int i = 0; i < 16; i++)
    for (int k = 0; k < 16; k += 2)
      for (int copy = 0; copy < 32; copy += 16) {
        expect("wmma A", i + copy, k / 2, maps.a[i + copy][k / 2], (place){i, k});
        expect("wmma B", i + copy, k / 2, maps.b[i + copy][k / 2], (place){k, i});
      }
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 16; j++) {
      const int lane = j + 16 * (i % 2);
      expect("wmma C", lane, i / 2, maps.c[lane][i / 2], (place){i, j});
    }
}

/* The same, of CDNA 2's v_mfma_f32_16x16x16f16 and ..bf16_1k: A[i][k] in register (k % 4) / 2, bits
 * 16 (k % 2), of lane 16 (k / 4) + i, B[k][j] of lane 16 (k / 4) + j; D[i][j] in register i % 4 of
 * lane 16 (i / 4) + j. */
static void test_mfma(void **state) {
  (void)state;
  static unit_maps maps;
  mfma_maps(&maps);
  expect_sizes(&maps, 64, 16, 16, 2, 2, 4);
  for (int i = 0; i < 16; i++)
    for (int k = 0; k < 16; k += 2) {
      const int lane = 16 * (k / 4) + i, r = k % 4 / 2;
      expect("mfma A", lane, r, maps.a[lane][r], (place){i, k});
      expect("mfma B", lane, r, maps.b[lane][r], (place){k, i});
    }
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 16; j++) {
      const int lane = 16 * (i / 4) + j;
      expect("mfma C", lane, i % 4, maps.c[lane][i % 4], (place){i, j});
    }
}

/* ---- what is taken --------------------------------------------------------------------------- */

#ifdef AC_HAVE_OPENCL
#include "backend/device.h"
#include "backend/opencl/product/gemm.h"
#include "core/error.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* If a unit is asked for by its name, there is one, perhaps emulated. Another name means no unit.
 */
static void test_devices_say_it(void **state) {
  (void)state;
  static const char *const none[] = {"widened", "tiles"};
  for (int i = 0; i < 2; i++) {
    ac_device *device = open_opencl_with(none[i]);
    assert_string_equal(device->info.bf16_products, "as floats");
    assert_string_equal(device->info.refused_unit, "");
    assert_false(device->info.bf16_arithmetic);
    ac_device_close(device);
  }
  const ac_cl_unit *unit = ac_cl_unit_at(0);
  ac_device *device = open_opencl_with(unit->name);
  const ac_opencl *cl = device->state;
  char text[64];
  snprintf(text, sizeof text, cl->unit_emulated ? "emulated %s" : "matrix units (%s)", unit->text);
  assert_string_equal(device->info.bf16_products, text);
  assert_int_equal(device->info.bf16_arithmetic, !cl->unit_emulated);
  ac_device_info list[64];
  int count;
  setenv("ACCRUE_PRODUCTS", unit->name, 1);
  assert_ok(ac_device_list(list, 64, &count));
  unsetenv("ACCRUE_PRODUCTS");
  for (int i = 0; i < count; i++)
    if (!strcmp(list[i].id, device->info.id)) assert_string_equal(list[i].bf16_products, text);
  ac_device_close(device);
}

/* Sums of fewer bits: bf16's. */
static bool rounded(const ac_cl_tile *tile, void *result, size_t bytes) {
  assert_null(tile);
  for (size_t i = 0; i < bytes / 4; i++) ((uint32_t *)result)[i] &= 0xffff0000u;
  return true;
}

/* One sum of many lacks its last product. */
static bool hole(const ac_cl_tile *tile, void *result, size_t bytes) {
  assert_null(tile);
  memset((char *)result + bytes / 8 * 4, 0, 4);
  return true;
}

static bool failure(const ac_cl_tile *tile, void *result, size_t bytes) {
  (void)tile, (void)result, (void)bytes;
  return false;
}

static int calls, failing_call;

static bool one_failure(const ac_cl_tile *tile, void *result, size_t bytes) {
  (void)tile, (void)result, (void)bytes;
  return ++calls != failing_call;
}

static ac_status ask(ac_opencl *cl, ac_dtype storage, const ac_cl_product *product, bool *result) {
  cl->op = "test";
  cl->storage = storage;
  cl->preparing = true;
  const ac_status status = ac_cl_unit_takes(cl, product, result);
  cl->preparing = false;
  return status;
}

static bool takes(ac_opencl *cl, ac_dtype storage, const ac_cl_product *product) {
  bool result;
  assert_ok(ask(cl, storage, product, &result));
  return result;
}

static ac_status ask_for_all(ac_opencl *cl, ac_dtype storage, bool *result) {
  const ac_cl_product products[] = {{.batch = 1}, {.float_c = true, .batch = 1}};
  cl->storage = AC_F32;
  const ac_status status = ac_cl_unit_takes_all(cl, storage, products, 2, result);
  assert_int_equal(cl->storage, AC_F32);
  assert_false(cl->preparing);
  return status;
}

/* Of several products each must be taken; and it can be asked at any time. */
static void test_all_or_none(void **state) {
  (void)state;
  const ac_cl_product products[] = {{.batch = 1}, {.float_c = true, .batch = 1}};
  ac_device *device = open_opencl_with("mma");
  ac_opencl *cl = device->state;
  bool result;
  for (int known = 0; known < 2; known++) {
    memset(cl->unit_classes, 0, sizeof cl->unit_classes);
    cl->distort = NULL;
    assert_true(takes(cl, AC_F16, &products[known]));
    cl->distort = failure;
    assert_ok(ask_for_all(cl, AC_F16, &result));
    assert_false(result);
  }
  cl->distort = NULL;
  assert_ok(ask_for_all(cl, AC_BF16, &result));
  assert_true(result);
  ac_device_close(device);
  device = open_opencl_with("widened");
  assert_ok(ask_for_all(device->state, AC_BF16, &result));
  assert_false(result);
  ac_device_close(device);
}

static void test_wrong_units_are_not_taken(void **state) {
  (void)state;
  bool (*const distortions[])(const ac_cl_tile *, void *, size_t) = {rounded, hole, failure, NULL};
  const ac_cl_product products[] = {{.float_c = true, .batch = 1}, {.images = true, .batch = 1}},
                      mixed = {.float_a = true, .batch = 1};
  ac_device *device = open_opencl_with("mma");
  ac_opencl *cl = device->state;
  assert_non_null(cl->unit);
  for (int number = 0; number < 16; number++) {
    const ac_dtype storage = number & 1 ? AC_F16 : AC_BF16;
    const ac_cl_product *product = &products[number >> 1 & 1];
    const int i = number >> 2;
    memset(cl->unit_classes, 0, sizeof cl->unit_classes);
    cl->distort = distortions[i];
    assert_int_equal(takes(cl, storage, product), distortions[i] == NULL);
    cl->distort = failure; /* which is not asked again */
    assert_int_equal(takes(cl, storage, product), distortions[i] == NULL);
  }
  assert_false(takes(cl, AC_F32, &products[0]));
  assert_false(takes(cl, AC_BF16, &mixed));
  ac_device_close(device);
}

/* ---- drivers that fail ----------------------------------------------------------------------- */

/* What calls return instead of being made; CL_SUCCESS: they are made. A launch that fails may leave
 * a queue on which nothing runs. */
static cl_int write_error, launch_error;
static bool launches_break, reads_are_wrong;
static int launches;
static cl_command_queue broken;

/* Programs that are built with this option are refused; NULL. */
static const char *refused_option;
static int refusals;

typedef cl_int build_function(cl_program, cl_uint, const cl_device_id *, const char *,
                              void(CL_CALLBACK *)(cl_program, void *), void *);
typedef cl_int read_function(cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint,
                             const cl_event *, cl_event *);
typedef cl_int write_function(cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *,
                              cl_uint, const cl_event *, cl_event *);
typedef cl_int launch_function(cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *,
                               const size_t *, cl_uint, const cl_event *, cl_event *);
typedef cl_int finish_function(cl_command_queue);

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices,
                      const char *options, void(CL_CALLBACK *done)(cl_program, void *),
                      void *user) {
  build_function *next;
  if (refused_option && strstr(options, refused_option)) {
    refusals++;
    return CL_BUILD_PROGRAM_FAILURE;
  }
  *(void **)&next = dlsym(RTLD_NEXT, "clBuildProgram");
  return next(program, count, devices, options, done, user);
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                            size_t size, const void *from, cl_uint count, const cl_event *events,
                            cl_event *event) {
  write_function *next;
  if (write_error != CL_SUCCESS) return write_error;
  *(void **)&next = dlsym(RTLD_NEXT, "clEnqueueWriteBuffer");
  return next(queue, buffer, blocking, offset, size, from, count, events, event);
}

/* Nothing but zeros. */
cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking, size_t offset,
                           size_t size, void *to, cl_uint count, const cl_event *events,
                           cl_event *event) {
  read_function *next;
  *(void **)&next = dlsym(RTLD_NEXT, "clEnqueueReadBuffer");
  const cl_int error = next(queue, buffer, blocking, offset, size, to, count, events, event);
  if (reads_are_wrong) memset(to, 0, size);
  return error;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint count, const cl_event *events, cl_event *event) {
  launch_function *next;
  launches++;
  if (launches_break) broken = queue;
  if (launch_error != CL_SUCCESS) return launch_error;
  *(void **)&next = dlsym(RTLD_NEXT, "clEnqueueNDRangeKernel");
  return next(queue, kernel, dimensions, offset, global, local, count, events, event);
}

cl_int clFinish(cl_command_queue queue) {
  finish_function *next;
  if (queue == broken) return CL_INVALID_COMMAND_QUEUE;
  *(void **)&next = dlsym(RTLD_NEXT, "clFinish");
  return next(queue);
}

/* The next queue may be made where this one was: it is another, and works. */
cl_int clReleaseCommandQueue(cl_command_queue queue) {
  finish_function *next;
  if (queue == broken) broken = NULL;
  *(void **)&next = dlsym(RTLD_NEXT, "clReleaseCommandQueue");
  return next(queue);
}

/* Units are tried on the device that is opened, or by lists of what there is; not where one is
 * looked for by its name. */
static void test_choosing_tries_nothing(void **state) {
  (void)state;
  ac_device *device = open_opencl_with("mma"), *none;
  char name[sizeof device->info.name + 8];
  snprintf(name, sizeof name, "opencl:%s", device->info.name);
  ac_device_close(device);
  setenv("ACCRUE_PRODUCTS", "mma", 1);
  int tried[4];
  for (int way = 0; way < 4; way++) {
    static const char *const wanted[] = {"opencl:0", "opencl:no such device"};
    ac_device_info list[64];
    int count;
    launches = 0;
    if (way == 0 || way == 2) {
      assert_ok(ac_device_open(&device, &(ac_device_desc){.name = way ? name : wanted[0]}));
      ac_device_close(device);
    }
    if (way == 1)
      assert_refused(ac_device_open(&none, &(ac_device_desc){.name = wanted[1]}), AC_ERROR_DEVICE,
                     "no device");
    if (way == 3) assert_ok(ac_device_list(list, 64, &count));
    tried[way] = launches;
  }
  unsetenv("ACCRUE_PRODUCTS");
  assert_true(tried[0] > 0 && tried[3] >= tried[0]);
  assert_int_equal(tried[1], 0);
  assert_int_equal(tried[2], tried[0]);
}

/* ---- reading ahead --------------------------------------------------------------------------- */

/* With that call of its trial failing. */
static bool taken_but_for(ac_opencl *cl, int call) {
  memset(cl->unit_classes, 0, sizeof cl->unit_classes);
  cl->distort = one_failure;
  failing_call = call;
  calls = 0;
  return takes(cl, AC_BF16, &(ac_cl_product){.float_c = true, .batch = 1});
}

/* Each round multiplies twice by each tile; an emulated unit has one tile. */
static void test_units_need_not_read_ahead(void **state) {
  (void)state;
  const ac_cl_product product = {.float_c = true, .batch = 1};
  ac_device *device = open_opencl_with("mma");
  ac_opencl *cl = device->state;
  const int round = cl->unit_emulated ? 2 : 4;
  for (int call = 0; call <= 3 * round; call++) {
    const bool taken = call == 0 || call > 2 * round;
    assert_int_equal(taken_but_for(cl, call), taken);
    if (taken)
      assert_int_equal(ac_cl_unit_tile_for(cl, &product, false).ahead,
                       call ? 0 : cl->unit->small.ahead);
  }
  ac_device_close(device);
}

/* Kernels that read ahead do not compile: none is used. */
static void test_reading_ahead_is_left_out(void **state) {
  (void)state;
  const ac_cl_product product = {.float_c = true, .m = 8, .n = 8, .k = 8, .batch = 1};
  refused_option = "-DAHEAD";
  refusals = 0;
  ac_device *device = open_opencl_with("mma");
  ac_opencl *cl = device->state;
  assert_non_null(cl->unit);
  assert_true(refusals > 0);
  assert_true(takes(cl, AC_BF16, &product));
  refusals = 0;
  cl->preparing = true;
  assert_ok(ac_cl_gemm(cl, &product, NULL));
  assert_int_equal(refusals, 0);
  refused_option = NULL;
  ac_device_close(device);
}

/* ---- trials that fail ------------------------------------------------------------------------ */

static void drivers_work(void) {
  write_error = launch_error = CL_SUCCESS;
  launches_break = reads_are_wrong = false;
  broken = NULL;
}

/* As the driver fails now, the device has no unit, says so and why, and computes; no error remains.
 */
static void check_opened(const char *why) {
  char text[64];
  snprintf(text, sizeof text, "%s: %s", ac_cl_unit_at(0)->text, why);
  ac_fail(AC_OK, "nothing");
  ac_device *device = open_opencl_with("mma");
  const ac_opencl *cl = device->state;
  assert_string_equal(ac_last_error(), "nothing");
  assert_null(cl->unit);
  assert_string_equal(device->info.bf16_products, "as floats");
  assert_string_equal(device->info.refused_unit, text);
  assert_ok(device->backend->finish(device->state));
  drivers_work();
  ac_device_close(device);
}

/* If memory is missing, a device is opened without a unit; if a unit breaks the context, in another
 * context. Later failures do not change the numeric class of an open device. */
static void test_trials_that_fail(void **state) {
  (void)state;
  const ac_cl_product product = {.float_c = true, .batch = 1};
  write_error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  check_opened("to try it failed");
  launch_error = CL_INVALID_WORK_GROUP_SIZE;
  check_opened("its kernel does not compile or run here");
  launch_error = CL_OUT_OF_RESOURCES;
  launches_break = true;
  check_opened("to try it failed");
  reads_are_wrong = true;
  check_opened("its sums are wrong here");
  ac_device *device = open_opencl_with("mma");
  ac_opencl *cl = device->state;
  bool result;
  write_error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  assert_int_equal(ask(cl, AC_F16, &product, &result), AC_ERROR_MEMORY);
  assert_int_equal(ask_for_all(cl, AC_F16, &result), AC_ERROR_MEMORY);
  drivers_work();
  launch_error = CL_OUT_OF_RESOURCES;
  launches_break = true;
  assert_int_equal(ask(cl, AC_F16, &product, &result), AC_ERROR_DEVICE);
  drivers_work();
  assert_true(takes(cl, AC_F16, &product));
  ac_device_close(device);
}
#else
static void test_devices_say_it(void **state) {
  (void)state;
  skip();
}
#define test_wrong_units_are_not_taken test_devices_say_it
#define test_choosing_tries_nothing test_devices_say_it
#define test_units_need_not_read_ahead test_devices_say_it
#define test_reading_ahead_is_left_out test_devices_say_it
#define test_all_or_none test_devices_say_it
#define test_trials_that_fail test_devices_say_it
#endif

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_mma),
      cmocka_unit_test(test_dpas),
      cmocka_unit_test(test_wmma),
      cmocka_unit_test(test_mfma),
      cmocka_unit_test(test_devices_say_it),
      cmocka_unit_test(test_choosing_tries_nothing),
      cmocka_unit_test(test_wrong_units_are_not_taken),
      cmocka_unit_test(test_units_need_not_read_ahead),
      cmocka_unit_test(test_reading_ahead_is_left_out),
      cmocka_unit_test(test_all_or_none),
      cmocka_unit_test(test_trials_that_fail),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
