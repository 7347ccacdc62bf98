/* numerics counts bits, so it is tested on bits by hand and not in a table of values. So are the
 * marks that stores to f16 leave for it. */
#include "ops/driver.h"
#include "ops/pointwise/functions.h"
#include "ops/generator.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void numerics(const ac_op_args *args) {
  (void)args;
}

static op_tolerance numerics_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

const op_reference op_reference_numerics = {numerics, numerics_error, false, false};

/* ---- counts ---------------------------------------------------------------------------------- */

/* What is mixed in among numbers: bits in each type, and what they count as. Largest, smallest and
 * subnormal numbers count as nothing. */
typedef struct sample {
  uint32_t f32, f16, bf16;
  int overflowed, flushed; /* the latter in f16 alone */
} sample;

static const sample samples[] = {
    {0x7f800000u, 0x7c00u, 0x7f80u, 1, 0}, {0xff800000u, 0xfc00u, 0xff80u, 1, 0},
    {0x7fc00000u, 0x7e00u, 0x7fc0u, 1, 0}, {0xff800001u, 0xfc01u, 0xff81u, 1, 0},
    {0x80000000u, 0x8000u, 0x8000u, 0, 1}, {0x00000000u, 0x0000u, 0x0000u, 0, 0},
    {0x7f7fffffu, 0x7bffu, 0x7f7fu, 0, 0}, {0x80000001u, 0x8001u, 0x8001u, 0, 0},
};
enum { SAMPLES = sizeof samples / sizeof *samples };

static void put(void *data, ac_dtype dtype, int64_t i, const sample *s) {
  if (dtype == AC_F32) ((uint32_t *)data)[i] = s->f32;
  else ((uint16_t *)data)[i] = (uint16_t)(dtype == AC_F16 ? s->f16 : s->bf16);
}

/* `count` values. Those at multiples of `step`, and the last, are samples in turn; counts are added
 * to `start`. The first has not overflowed, but the memory after the last has. */
static void check_counts(ac_device *device, ac_dtype dtype, int64_t count, int64_t step,
                         const int32_t *start) {
  static const sample one = {0x3f800000u, 0x3c00u, 0x3f80u, 0, 0};
  void *data = calloc((size_t)count, ac_dtype_bytes(dtype));
  int64_t want[2] = {start ? start[0] : 0, start ? start[1] : 0};
  for (int64_t i = 0, turn = 4; i < count; i++) {
    const sample *s = i % step && i < count - 1 ? &one : &samples[turn++ % SAMPLES];
    put(data, dtype, i, s);
    want[0] += s->overflowed;
    want[1] += dtype == AC_F16 ? s->flushed : 0;
  }
  ac_run_state run = {.batch = 1};
  int32_t counts[2] = {start ? start[0] : -1, start ? start[1] : -1};
  ac_op_args args = {.op = AC_OP_numerics,
                     .in = {{.dtype = dtype, .rank = 1, .dim = {count}, .count = count}},
                     .out = {{.dtype = AC_I32, .rank = 1, .dim = {2}, .count = 2}},
                     .add = {start != NULL},
                     .run = &run};
  if (op_run_bits(device, &args, data, counts))
    for (int k = 0; k < 2; k++)
      OP_EXPECT("numerics", counts[k] == (want[k] < INT32_MAX ? want[k] : INT32_MAX),
                "%s, %s, %lld values every %lld: counted %d, not %lld", device->info.id,
                op_storage_name(dtype), (long long)count, (long long)step, (int)counts[k],
                (long long)want[k]);
  free(data);
}

/* ---- marks ----------------------------------------------------------------------------------- */

static int output_in_f16(const op_instance *s) {
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    if (s->args.out[j].count && s->args.out[j].dtype == AC_F16) return j;
  return 0;
}

/* Runs a case in f16 with marks: a zero is -0 where the reference is not zero, else +0, and both
 * happen. */
static void check_marks(ac_device *device, const op_case *c) {
  op_instance s;
  op_result result;
  op_variant variant = {.name = "marking"};
  op_instance_stored(&s, c, c->batch, AC_F16);
  s.run.mark_flushed = true;
  const char *where = op_where(device, &s, &variant);
  if (op_run(device, &s, &variant, &result)) {
    int64_t zeros = 0, flushed = 0;
    const int j = output_in_f16(&s);
    op_compare(where, &s, &variant, &result, 1);
    for (int64_t e = 0; e < s.args.out[j].count; e++) {
      double got = result.out[j][e], want = op_reals(&s.args.out[j])[e];
      if (got != 0) continue;
      bool marked = signbit(got) != 0;
      OP_EXPECT(where, marked == (want != 0), "%g became %s0", want, marked ? "-" : "+");
      zeros += want == 0;
      flushed += want != 0;
    }
    OP_EXPECT(where, zeros && flushed, "%lld zeros and %lld flushed values show nothing",
              (long long)zeros, (long long)flushed);
  }
  op_result_free(&result);
  op_instance_free(&s);
}

/* The gradient of a slice is added where it lies in dx; what an earlier op marked elsewhere in dx
 * is not to be counted again as this op's. */
static void check_marks_beside_slice(ac_device *device) {
  enum { ROWS = 2, LENGTH = 9, FIRST = 2, PART = 4 };
  static const uint16_t kinds[] = {0x8000, 0x3c00, 0x0000, 0xbc00, 0x0001, 0x8001};
  uint16_t dy[ROWS * PART], dx[ROWS * LENGTH], before[ROWS * LENGTH];
  for (int i = 0; i < ROWS * PART; i++) dy[i] = 0x4000; /* 2 */
  for (int i = 0; i < ROWS * LENGTH; i++) dx[i] = before[i] = kinds[i % 6];
  ac_slice_attributes attributes = {.first = {0, -FIRST}, .step = {1, 1}};
  ac_run_state run = {.batch = ROWS, .mark_flushed = true};
  ac_op_args args = {
      .op = AC_OP_slice,
      .attributes = &attributes,
      .in = {{.dtype = AC_F16, .rank = 2, .dim = {ROWS, PART}, .count = ROWS * PART}},
      .out = {{.dtype = AC_F16, .rank = 2, .dim = {ROWS, LENGTH}, .count = ROWS * LENGTH}},
      .add = {true},
      .run = &run};
  if (!op_run_bits(device, &args, dy, dx)) return;
  for (int i = 0; i < ROWS * LENGTH; i++) {
    bool inside = i % LENGTH >= FIRST && i % LENGTH < FIRST + PART;
    double sum = op_decode(AC_F16, &before[i]) + (inside ? 2 : 0);
    uint16_t want;
    op_encode(AC_F16, sum, &want);
    if (sum == 0) want = 0;
    OP_EXPECT("slice", dx[i] == want, "%s, element %d: %04x became %04x, not %04x", device->info.id,
              i, before[i], dx[i], want);
  }
}

#define SOME_ZEROS(range, ...)                                                                 \
  {                                                                                            \
    .dtype = AC_F32, .rank = OP_RANK(__VA_ARGS__), .dim = {__VA_ARGS__}, .fill = OP_SOMETIMES, \
    .low = -(range), .high = range, .special = 0                                               \
  }

/* One for each way in which kernels store: element by element, products by blocks, rows, and the
 * working copy of a step, with blocks of 8 bits that are stored as vectors. */
static const op_case marked[] = {
    {.name = "cast 77x65",
     .op = AC_OP_cast,
     .batch = 77,
     .in = {SOME_ZEROS(1e-7, AC_BATCH, 65)},
     .out = {{.dtype = AC_F16, .rank = 2, .dim = {AC_BATCH, 65}}}},
    {.name = "scale 77x65",
     .op = AC_OP_pointwise,
     .attributes.pointwise.program = {.operands = 1,
                                      .constants = 1,
                                      .steps = 1,
                                      .results = 1,
                                      .result = {AC_FIRST_STEP},
                                      .constant = {0x1p-20f},
                                      .step = {{AC_FUNCTION_multiply, {0, AC_FIRST_CONSTANT}}}},
     .batch = 77,
     .in = {SOME_ZEROS(0.1, AC_BATCH, 65)},
     .out = {OP_F32(AC_BATCH, 65)}},
    {.name = "matmul [77x1 1x301]",
     .op = AC_OP_matmul,
     .batch = 77,
     .in = {SOME_ZEROS(1e-3, AC_BATCH, 1), SOME_ZEROS(1e-4, 1, 301)},
     .out = {OP_F32(AC_BATCH, 301)}},
    {.name = "multiply 77x65",
     .op = AC_OP_pointwise,
     .attributes.pointwise.program = {.operands = 2,
                                      .steps = 1,
                                      .results = 1,
                                      .result = {AC_FIRST_STEP},
                                      .step = {{AC_FUNCTION_multiply, {0, 1}}}},
     .batch = 77,
     .in = {SOME_ZEROS(1e-3, AC_BATCH, 65), SOME_ZEROS(1e-4, 65)},
     .out = {OP_F32(AC_BATCH, 65)}},
    {.name = "sgd in 8 bits, 601, and a copy",
     .op = AC_OP_sgd,
     .attributes.sgd = {.gradient_factor = 1, .momentum = 0.9f},
     .batch = 1,
     .in = {OP_F32(601)},
     .out = {SOME_ZEROS(1e-7, 601), OP_EIGHT_BIT(0.1, 1, 601), OP_F32(601)}},
};

static void special(ac_device *device) {
  static const ac_dtype dtypes[] = {AC_F32, AC_F16, AC_BF16};
  static const int32_t some[2] = {41, 7}, most[2] = {INT32_MAX - 1, INT32_MAX};
  for (int k = 0; k < 3; k++) {
    check_counts(device, dtypes[k], 1, 1, NULL);
    check_counts(device, dtypes[k], 37, 1, some);
    check_counts(device, dtypes[k], 1000, 3, most);
    check_counts(device, dtypes[k], 20011, 7, most);
    if (!op_reduced) check_counts(device, dtypes[k], 100003, 17, NULL);
  }
  for (size_t k = 0; k < sizeof marked / sizeof *marked; k++)
    if (!op_reduced || k == 0) check_marks(device, &marked[k]);
  if (!op_reduced) check_marks_beside_slice(device);
}

const op_family op_family_numerics = {"numerics", NULL, 0, NULL, special, NULL};

/* Plans that watch numbers count. */
const op_generator op_generator_numerics = {.takes = NULL};
