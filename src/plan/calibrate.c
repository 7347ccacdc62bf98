/* Times every op at three sizes and fits seconds = launch + flops x per_flop + bytes x per_byte.
 *
 * An op's sample says which operands it has and how they depend on the size (ops/sample.c).
 * Operands and workspace lie in one chunk, allocated once for the largest of them (below 40 MiB).
 * There is no size between the smallest and the others: a repeated run would find such a size in a
 * cache, but a step would not.
 *
 * Other programs may use the machine at the same time, so an op's time is the least of several. All
 * ops are run one after another, several times, so that a burst of other work does not slow all
 * runs of one op. Several short runs are queued at once, as a step does, so that a device's latency
 * is not mistaken for its throughput. A CPU needs about half a second for all ops.
 *
 * A device that compiles its kernels first, in `prepare` or, as PoCL does, within a first run,
 * needs time for that in addition. So all sizes of an op use the same kernels if they can, and only
 * the ops that a plan wants are timed. The rest is bounded: a size is only run if enough of the
 * given seconds is left for the longest time that it may take, by the smaller size's time and the
 * work of both. If larger sizes of an op were left out, its time is estimated: it is the guess,
 * scaled by how long the measured ops, of any storage type, take compared to their guesses. */
#include "plan/cost.h"

#include "core/error.h"
#include "plan/placed_op.h"

#include <math.h>
#include <stdio.h>

enum { SIZES = AC_SAMPLE_SIZES };

bool ac_cost_sample(ac_op_args *args, ac_device *device, ac_dtype storage, ac_op op, int size) {
  ac_op_sample_arguments(args, op, storage, size);
  if (!args->in[0].count) return false;
  args->workspace_bytes = device->backend->workspace(device->state, args);
  return device->backend->supports(device->state, args);
}

const void *ac_cost_sample_attributes(ac_op op) {
  return ac_op_describe(op)->sample.attributes;
}

/* ---- timing -----------------------------------------------------------------------------------
 */

typedef struct bench {
  ac_device *device;
  ac_cost_account *account;
  void *chunk;
  ac_dtype storage;
  ac_timing_pattern pattern;
  const bool *wanted;
  int wanted_count;
  double limit, spent, compiling; /* seconds; what compiling took is not spent */
  double least[AC_OP_COUNT][SIZES];
} bench;

static uint64_t largest_op(ac_device *device, ac_dtype storage, const bool *wanted) {
  uint64_t largest = 0;
  ac_op_args args;
  for (int op = 0; op < AC_OP_COUNT; op++)
    for (int size = 0; size < SIZES; size++) {
      if (!wanted[op] || !ac_cost_sample(&args, device, storage, (ac_op)op, size)) continue;
      uint64_t bytes = ac_placed_bytes(device, &args);
      if (bytes > largest) largest = bytes;
    }
  return largest;
}

enum { PASSES = 3, LONGEST_QUEUE = 16 };
static const double queue_seconds = 2e-4; /* runs shorter than this are queued to fill it */
static const double long_seconds = 1e-2;  /* runs longer than this are not repeated */

/* Seconds of one of several runs, if they are the least so far. */
static ac_status time_runs(const bench *b, const ac_placed_op *placed, int runs, double *least) {
  int next = 0;
  const double start = b->account->clock();
  AC_TRY(ac_placed_run(b->device, placed, 1, &next, runs));
  const double seconds = b->account->clock() - start;
  if (seconds / runs < *least) *least = seconds / runs;
  return AC_OK;
}

/* What the first run takes beyond the later ones is the compiler's. */
static ac_status time_placed(bench *b, const ac_placed_op *placed, double *least) {
  const ac_backend *backend = b->device->backend;
  double first = HUGE_VAL, later = HUGE_VAL, start = b->account->clock();
  AC_TRY(backend->prepare(b->device->state, &placed->args));
  AC_TRY(backend->finish(b->device->state));
  b->compiling += b->account->clock() - start;
  AC_TRY(time_runs(b, placed, 1, &first));
  int runs = 1;
  while (runs < LONGEST_QUEUE && runs * first < queue_seconds) runs *= 2;
  AC_TRY(time_runs(b, placed, runs, &later));
  b->compiling += fmax(first - later, 0);
  *least = fmin(*least, fmin(first, later));
  return AC_OK;
}

/* Whether there is time for it: growing an op's work multiplies its time at most by as much. */
static bool affordable(const bench *b, const ac_op_args *args, int size) {
  if (size == 0) return b->spent < b->limit;
  ac_op_args smaller;
  ac_cost_sample(&smaller, b->device, b->storage, args->op, size - 1);
  const ac_cost work = ac_op_work(args), less = ac_op_work(&smaller);
  double growth = work.bytes / less.bytes;
  if (less.flops > 0) growth = fmax(growth, work.flops / less.flops);
  const double most = fmax(growth, 1) * b->least[args->op][size - 1];
  return b->spent + 2 * most < b->limit; /* it is run twice */
}

static ac_status time_op(bench *b, ac_op op, int size) {
  ac_op_args args;
  if (!ac_cost_sample(&args, b->device, b->storage, op, size) || !affordable(b, &args, size))
    return AC_OK;
  ac_placed_op placed;
  const double start = b->account->clock(), compiling = b->compiling;
  ac_status status = ac_op_place(&placed, b->device, &args, b->chunk, 0, &b->pattern);
  if (status == AC_OK) status = time_placed(b, &placed, &b->least[op][size]);
  ac_op_lift(&placed, b->device);
  b->spent += b->account->clock() - start - (b->compiling - compiling);
  return status == AC_OK ? AC_OK : ac_fail_prefix(status, "measuring %s", ac_op_name(op));
}

static ac_status time_ops(bench *b) {
  for (int op = 0; op < AC_OP_COUNT; op++)
    for (int size = 0; size < SIZES; size++) b->least[op][size] = HUGE_VAL;
  int done = 0;
  for (int pass = 0; pass < PASSES; pass++)
    for (int size = 0; size < SIZES; size++)
      for (int op = 0; op < AC_OP_COUNT; op++) {
        if (!b->wanted[op]) continue;
        if (pass == 0)
          ac_device_log(b->device, AC_LOG_INFO, "%s: measuring %s (%d of %d)...",
                        b->device->info.id, ac_op_name((ac_op)op), ++done, SIZES * b->wanted_count);
        const double least = b->least[op][size];
        if (least < long_seconds || least == HUGE_VAL) AC_TRY(time_op(b, (ac_op)op, size));
      }
  return AC_OK;
}

/* ---- the fit --------------------------------------------------------------------------------
 */

/* Least squares of the relative errors with no coefficient below zero, by coordinate descent: each
 * coefficient in turn gets its best value for the others as they are. */
static void solve(double x[3], double a[SIZES][3]) {
  enum { ROUNDS = 2000 };
  for (int round = 0; round < ROUNDS; round++)
    for (int j = 0; j < 3; j++) {
      double slope = 0, square = 0;
      for (int i = 0; i < SIZES; i++) {
        double error = 1;
        for (int k = 0; k < 3; k++)
          if (k != j) error -= a[i][k] * x[k];
        slope += error * a[i][j];
        square += a[i][j] * a[i][j];
      }
      x[j] = square > 0 && slope > 0 ? slope / square : 0;
    }
}

/* The sizes that were measured, which are two at least; the others say nothing. */
static void fit(ac_cost_model *model, const bench *b, ac_op op) {
  const double micro = 1e-6, giga = 1e9; /* keep the coefficients near 1 */
  double a[SIZES][3] = {{0}}, x[3] = {0}, longest = 0;
  ac_cost work = {0, 0};
  for (int size = 0; size < SIZES; size++) {
    const double seconds = b->least[op][size];
    ac_op_args args;
    if (!isfinite(seconds)) break;
    ac_cost_sample(&args, b->device, b->storage, op, size);
    work = ac_op_work(&args);
    longest = seconds;
    a[size][0] = micro / seconds;
    a[size][1] = work.flops / giga / seconds;
    a[size][2] = work.bytes / giga / seconds;
  }
  solve(x, a);
  /* If beginning an op hides its work, more work still takes longer. */
  double least = longest / 64;
  model->launch[op] = x[0] * micro;
  model->per_flop[op] = work.flops > 0 ? fmax(x[1] / giga, least / work.flops) : 0;
  model->per_byte[op] = fmax(x[2] / giga, least / work.bytes);
  model->known[op] = AC_COST_MEASURED;
}

/* ---- what there was no time for ---------------------------------------------------------------
 */

static bool multiplies(ac_op op) {
  return ac_op_describe(op)->bound == AC_BOUND_BY_ARITHMETIC;
}

/* What a sample takes, by a model that knows the op, or where its smallest size alone was run. */
static bool known_seconds(double *seconds, const bench *b, const ac_cost_model *model,
                          ac_dtype storage, const ac_op_args *args, int size) {
  const bool own = storage == b->storage;
  const ac_cost_model *known = own ? model : b->account->models[storage];
  if (known && known->known[args->op]) *seconds = ac_cost_seconds(known, args);
  else *seconds = own ? b->least[args->op][size] : HUGE_VAL;
  return isfinite(*seconds);
}

/* How much longer than by `guess` ops take, as a geometric mean over one size of those that are
 * known, of all storage types, and do, or do not, multiply matrices. False if there are none. */
static bool slowness(double *ratio, const bench *b, const ac_cost_model *model,
                     const ac_cost_model *guess, int size, bool products) {
  double sum = 0, seconds;
  int count = 0;
  for (int storage = 0; storage < AC_DTYPE_COUNT; storage++)
    for (int op = 0; op < AC_OP_COUNT; op++) {
      ac_op_args args;
      if (storage != (int)b->storage && !b->account->models[storage]) continue;
      if (!ac_cost_sample(&args, b->device, (ac_dtype)storage, (ac_op)op, size) ||
          !known_seconds(&seconds, b, model, (ac_dtype)storage, &args, size) ||
          multiplies((ac_op)op) != products)
        continue;
      sum += log(seconds / ac_cost_seconds(guess, &args));
      count++;
    }
  *ratio = count ? exp(sum / count) : 1;
  return count > 0;
}

/* From the largest size that there is; from the other kind where there is none of this. */
static double scale_of(const bench *b, const ac_cost_model *model, const ac_cost_model *guess,
                       bool products) {
  double ratio = 1;
  for (int size = SIZES - 1; size >= 0; size--)
    if (slowness(&ratio, b, model, guess, size, products) ||
        slowness(&ratio, b, model, guess, size, !products))
      break;
  return ratio;
}

/* Estimates ops with one measured size or none; returns how many. */
static int estimate_the_rest(ac_cost_model *model, const bench *b) {
  ac_cost_model guess;
  ac_cost_guess(&guess);
  double launch = 1;
  if (!slowness(&launch, b, model, &guess, 0, false)) slowness(&launch, b, model, &guess, 0, true);
  const double scale[2] = {scale_of(b, model, &guess, false), scale_of(b, model, &guess, true)};
  int count = 0;
  for (int op = 0; op < AC_OP_COUNT; op++) {
    ac_op_args args;
    if (!b->wanted[op] || isfinite(b->least[op][1]) ||
        !ac_cost_sample(&args, b->device, b->storage, (ac_op)op, 0))
      continue;
    const double factor = scale[multiplies((ac_op)op)];
    model->launch[op] = launch * guess.launch[op];
    model->per_flop[op] = factor * guess.per_flop[op];
    model->per_byte[op] = factor * guess.per_byte[op];
    model->known[op] = AC_COST_ESTIMATED;
    count++;
  }
  return count;
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static ac_status measure(bench *b, ac_cost_model *model) {
  const double start = b->account->clock();
  AC_TRY(time_ops(b));
  for (int op = 0; op < AC_OP_COUNT; op++)
    if (isfinite(b->least[op][1])) fit(model, b, (ac_op)op);
  const int estimated = estimate_the_rest(model, b);
  for (int op = 0; op < AC_OP_COUNT; op++) /* what the device does not run does not count */
    if (b->wanted[op] && !model->known[op]) model->known[op] = AC_COST_MEASURED;
  char rest[64] = "";
  if (estimated)
    snprintf(rest, sizeof rest, "; time was up, so the speed of %d is an estimate", estimated);
  ac_device_log(b->device, estimated ? AC_LOG_WARNING : AC_LOG_INFO,
                "%s: measured %d ops in %.1f s (%.1f s of them compiling)%s", b->device->info.id,
                b->wanted_count, b->account->clock() - start, b->compiling, rest);
  return AC_OK;
}

ac_status ac_cost_calibrate(ac_cost_model *model, ac_device *device, ac_dtype storage,
                            const bool wanted[AC_OP_COUNT], double seconds) {
  uint64_t bytes = largest_op(device, storage, wanted), peak = device->peak;
  bench b = {.device = device, .storage = storage, .wanted = wanted, .limit = seconds};
  if (!(b.account = ac_cost_account_of(device)))
    return ac_fail(AC_ERROR_MEMORY, "no memory to measure the device's speed");
  for (int op = 0; op < AC_OP_COUNT; op++) b.wanted_count += wanted[op];
  ac_status status = ac_timing_pattern_create(&b.pattern);
  if (status == AC_OK) status = ac_device_allocate(device, bytes, &b.chunk);
  if (status == AC_OK) status = measure(&b, model);
  ac_device_release(device, b.chunk, bytes);
  device->peak = peak;
  b.account->spent += b.spent;
  ac_timing_pattern_free(&b.pattern);
  if (status == AC_OK) return AC_OK;
  ac_device_log(device, AC_LOG_INFO, "%s: measuring failed", device->info.id);
  return ac_fail_prefix(status, "the speed of %s could not be measured", device->info.id);
}
