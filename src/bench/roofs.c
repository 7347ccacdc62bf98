/* The most that the device can do: products of square matrices, copies, and beginning an op. Ops
 * are compared with the roofline model (Williams, Waterman and Patterson, 2009): an op is not
 * faster than its flops at the rate of the best product, nor than its bytes at the rate of a copy.
 * The time to begin an op is a third limit. */
#include "bench/bench.h"

#include "core/error.h"
#include "plan/cost.h"

#include <math.h>

/* ---- products -------------------------------------------------------------------------------- */

enum { FIRST_SIZE = 512, LAST_SIZE = 8192 };
static const double long_product = 0.02; /* seconds; larger ones are hardly more efficient */

static ac_status time_product(ac_bench_timing *timing, ac_device *device, const ac_bench_desc *desc,
                              ac_precision precision, int64_t size) {
  ac_bench *bench;
  AC_TRY(ac_bench_create(&bench, device, desc));
  ac_status status = ac_bench_add_product(bench, precision, size, size, size);
  if (status == AC_OK) status = ac_bench_time(bench, 0, timing);
  ac_bench_free(bench);
  return status;
}

static ac_status measure_products(ac_bench_roofs *roofs, ac_device *device,
                                  const ac_bench_desc *desc, ac_precision precision) {
  for (int64_t size = FIRST_SIZE; size <= LAST_SIZE; size *= 2) {
    ac_bench_timing timing;
    ac_status status = time_product(&timing, device, desc, precision, size);
    if (status == AC_ERROR_UNSUPPORTED && size == FIRST_SIZE) return AC_OK;
    AC_TRY(status);
    double n = (double)size, rate = 2 * n * n * n / timing.median;
    if (rate > roofs->flops[precision]) {
      roofs->flops[precision] = rate;
      roofs->size[precision] = size;
      roofs->product_timing[precision] = timing;
    }
    /* Nor would a round of one with eight times the work end in time where one of this does not. */
    if (timing.median > fmin(long_product, desc->seconds / AC_BENCH_LEAST_SAMPLES)) break;
  }
  return AC_OK;
}

/* ---- copies ---------------------------------------------------------------------------------- */

typedef struct copying {
  ac_device *device;
  void *chunk[2], *view[2];
  uint64_t bytes;
} copying;

static ac_status run_copy(void *user, int64_t runs) {
  copying *c = user;
  const ac_backend *backend = c->device->backend;
  for (int64_t i = 0; i < runs; i++)
    AC_TRY(backend->copy(c->device->state, c->view[1], c->view[0], c->bytes));
  return backend->finish(c->device->state);
}

/* What was never written might be one page of zeros everywhere. */
static ac_status prepare_copy(copying *c) {
  const ac_backend *backend = c->device->backend;
  for (int i = 0; i < 2; i++) {
    AC_TRY(ac_device_allocate(c->device, c->bytes, &c->chunk[i]));
    AC_TRY(backend->view(c->device->state, c->chunk[i], 0, c->bytes, &c->view[i]));
    AC_TRY(backend->zero(c->device->state, c->view[i], c->bytes));
  }
  return AC_OK;
}

static ac_status measure_copy(ac_bench_roofs *roofs, ac_device *device, const ac_bench_desc *desc) {
  /* What a cache holds would be no roof of the memory, however little was asked for. */
  uint64_t bytes = ac_bench_footprint(desc, device), most = device->info.max_allocation;
  uint64_t least = ac_bench_footprint(&(ac_bench_desc){0}, device);
  if (bytes < least) bytes = least;
  copying c = {.device = device, .bytes = most && bytes > most ? most : bytes};
  c.bytes &= ~(uint64_t)4095;
  ac_status status = prepare_copy(&c);
  if (status == AC_OK) status = ac_bench_measure(&roofs->copy_timing, desc, run_copy, &c);
  for (int i = 0; i < 2; i++) {
    if (c.view[i]) device->backend->release_view(device->state, c.view[i]);
    ac_device_release(device, c.chunk[i], c.bytes);
  }
  if (status != AC_OK) return ac_fail_prefix(status, "bench: copying");
  roofs->copied = c.bytes;
  roofs->bytes = 2 * (double)c.bytes / roofs->copy_timing.median;
  return AC_OK;
}

/* ---- beginning ------------------------------------------------------------------------------- */

typedef struct beginning {
  ac_device *device;
  ac_placed_op placed;
  int next;
} beginning;

static ac_status run_queued(void *user, int64_t runs) {
  beginning *b = user;
  return ac_placed_run(b->device, &b->placed, 1, &b->next, runs);
}

static ac_status run_alone(void *user, int64_t runs) {
  for (int64_t i = 0; i < runs; i++) AC_TRY(run_queued(user, 1));
  return AC_OK;
}

static ac_status time_beginning(ac_bench_roofs *roofs, const ac_bench_desc *desc, beginning *b) {
  const ac_device *device = b->device;
  const ac_wait wait = ac_wait_begin(device, "preparing %s", ac_op_name(b->placed.args.op));
  AC_TRY(ac_wait_end(&wait, device->backend->prepare(device->state, &b->placed.args)));
  AC_TRY(ac_bench_measure(&roofs->launch_timing, desc, run_queued, b));
  AC_TRY(ac_bench_measure(&roofs->latency_timing, desc, run_alone, b));
  roofs->launch = roofs->launch_timing.median;
  roofs->latency = roofs->latency_timing.median;
  return AC_OK;
}

static ac_status measure_beginning(ac_bench_roofs *roofs, ac_device *device,
                                   const ac_bench_desc *desc) {
  static const ac_run_state run = {.training = true, .batch = 1, .loss_scale = 1};
  const ac_operand one = {.dtype = AC_F32, .rank = 1, .dim = {1}, .count = 1};
  ac_op_args args = {.op = AC_OP_pointwise,
                     .attributes = ac_cost_sample_attributes(AC_OP_pointwise),
                     .in = {one},
                     .out = {one},
                     .run = &run};
  args.workspace_bytes = device->backend->workspace(device->state, &args);
  beginning b = {.device = device};
  uint64_t bytes = ac_placed_bytes(device, &args);
  void *chunk = NULL;
  ac_timing_pattern pattern;
  ac_status status = ac_timing_pattern_create(&pattern);
  if (status == AC_OK) status = ac_device_allocate(device, bytes, &chunk);
  if (status == AC_OK) status = ac_op_place(&b.placed, device, &args, chunk, 0, &pattern);
  if (status == AC_OK) status = time_beginning(roofs, desc, &b);
  ac_op_lift(&b.placed, device);
  ac_device_release(device, chunk, bytes);
  ac_timing_pattern_free(&pattern);
  return status == AC_OK ? AC_OK : ac_fail_prefix(status, "bench: beginning an op");
}

/* ---- all of them ----------------------------------------------------------------------------- */

ac_status ac_bench_measure_roofs(ac_bench_roofs *roofs, ac_device *device,
                                 const ac_bench_desc *desc) {
  AC_REQUIRE(roofs, device);
  ac_bench_desc resolved;
  *roofs = (ac_bench_roofs){0};
  AC_TRY(ac_bench_refuse_dry(device));
  AC_TRY(ac_bench_resolve(&resolved, desc));
  uint64_t peak = device->peak;
  ac_status status = AC_OK;
  for (int p = 0; p < AC_BENCH_PRECISIONS && status == AC_OK; p++)
    status = measure_products(roofs, device, &resolved, (ac_precision)p);
  if (status == AC_OK) status = measure_copy(roofs, device, &resolved);
  if (status == AC_OK) status = measure_beginning(roofs, device, &resolved);
  device->peak = peak;
  return status;
}

ac_status ac_bench_measure_copy(ac_bench_roofs *roofs, ac_device *device,
                                const ac_bench_desc *desc) {
  AC_REQUIRE(roofs, device);
  ac_bench_desc resolved;
  AC_TRY(ac_bench_refuse_dry(device));
  AC_TRY(ac_bench_resolve(&resolved, desc));
  uint64_t peak = device->peak;
  ac_status status = measure_copy(roofs, device, &resolved);
  device->peak = peak;
  return status;
}

double ac_bench_limit(const ac_bench_roofs *roofs, ac_precision precision, double flops,
                      double bytes, ac_bench_bound *bound) {
  if (!roofs || (unsigned)precision >= AC_BENCH_PRECISIONS) return 0;
  double rate = roofs->flops[precision];
  const double seconds[] = {[AC_BOUND_COMPUTE] = rate > 0 ? flops / rate : 0,
                            [AC_BOUND_MEMORY] = roofs->bytes > 0 ? bytes / roofs->bytes : 0,
                            [AC_BOUND_LAUNCH] = roofs->launch};
  int largest = AC_BOUND_COMPUTE;
  for (int i = AC_BOUND_MEMORY; i <= AC_BOUND_LAUNCH; i++)
    if (seconds[i] > seconds[largest]) largest = i;
  if (bound) *bound = (ac_bench_bound)largest;
  return seconds[largest];
}
