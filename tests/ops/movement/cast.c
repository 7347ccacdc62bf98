/* Cases and references of cast, and the conversions bit by bit. */
#include "ops/driver.h"
#include "ops/generator.h"

#include "core/elements.h"

#include <stdio.h>
#include <stdlib.h>

static void cast(const ac_op_args *args) {
  for (int64_t i = 0; i < args->out[0].count; i++)
    op_reals(&args->out[0])[i] = op_reals(&args->in[0])[i];
}

/* Exact, but for the rounding of what is stored. */
static op_tolerance cast_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

const op_reference op_reference_cast = {cast, cast_error, false, false};

#define TYPED(dtype_, ...) \
  { .dtype = dtype_, .rank = OP_RANK(__VA_ARGS__), .dim = {__VA_ARGS__}, .low = -2, .high = 2 }
#define CAST(name_, from, to, batch_, ...)                                                        \
  {                                                                                               \
    .name = name_, .op = AC_OP_cast, .batch = batch_, .in = {TYPED(from, AC_BATCH, __VA_ARGS__)}, \
    .out = {                                                                                      \
      TYPED(to, AC_BATCH, __VA_ARGS__)                                                            \
    }                                                                                             \
  }

static const op_case cases[] = {
    CAST("f32 -> f32, 3x65x129", AC_F32, AC_F32, 3, 65, 129),
    CAST("f32 -> f16, 3x65x129", AC_F32, AC_F16, 3, 65, 129),
    CAST("f32 -> bf16, 3x65x129", AC_F32, AC_BF16, 3, 65, 129),
    CAST("f16 -> f32, 3x65x129", AC_F16, AC_F32, 3, 65, 129),
    CAST("bf16 -> f32, 3x65x129", AC_BF16, AC_F32, 3, 65, 129),
    CAST("f32 -> f16, 7x1", AC_F32, AC_F16, 7, 1),
    CAST("bf16 -> f32, 1x1", AC_BF16, AC_F32, 1, 1),
};

/* ---- bit by bit ------------------------------------------------------------------------------ */

static bool is_nan(ac_dtype dtype, uint32_t bits) {
  if (dtype == AC_F32) return (bits & 0x7fffffffu) > 0x7f800000u;
  return (bits & 0x7fffu) > (dtype == AC_F16 ? 0x7c00u : 0x7f80u);
}

static bool is_subnormal_float(uint32_t bits) {
  return !(bits & 0x7f800000u) && bits & 0x7fffffu;
}

static uint32_t expected(ac_dtype from, ac_dtype to, uint32_t bits, bool mark) {
  if (from == AC_F16) return ac_float_bits(ac_f16_to_float((uint16_t)bits));
  if (from == AC_BF16) return ac_float_bits(ac_bf16_to_float((uint16_t)bits));
  if (to == AC_BF16) return ac_bf16_from_float(ac_float_from_bits(bits));
  uint32_t half = ac_f16_from_float(ac_float_from_bits(bits));
  if (mark && !(half & 0x7fffu)) return bits & 0x7fffffffu ? 0x8000u : 0;
  return half;
}

/* The CPU gives the very bits. A device may give another NaN, and take or leave subnormal floats
 * as zeros, which none of a half's values is in f32. */
static bool good(const ac_device *device, ac_dtype from, ac_dtype to, uint32_t x, uint32_t y,
                 bool mark) {
  uint32_t want = expected(from, to, x, mark);
  if (y == want) return true;
  if (device->backend->is_host) return false;
  if (is_nan(to, want)) return is_nan(to, y);
  uint32_t single = from == AC_BF16 ? x << 16 : x, sign = to == AC_F32 ? 0x80000000u : 0x8000u;
  return from != AC_F16 && is_subnormal_float(single) && !(y & ~sign);
}

static uint32_t element(ac_dtype dtype, const void *data, int64_t i) {
  return dtype == AC_F32 ? ((const uint32_t *)data)[i] : ((const uint16_t *)data)[i];
}

static void check_bits(ac_device *device, ac_dtype from, ac_dtype to, int64_t count, const void *in,
                       bool mark) {
  ac_run_state run = {.batch = 1, .mark_flushed = mark};
  ac_operand shape = {.rank = 1, .dim = {count}, .count = count};
  ac_op_args args = {.op = AC_OP_cast, .in = {shape}, .out = {shape}, .run = &run};
  args.in[0].dtype = from, args.out[0].dtype = to;
  void *out = calloc((size_t)count, ac_dtype_bytes(to));
  if (op_run_bits(device, &args, in, out))
    for (int64_t i = 0; i < count; i++) {
      uint32_t x = element(from, in, i), y = element(to, out, i);
      char where[64];
      snprintf(where, sizeof where, "%s: bits of cast, %s -> %s%s", device->info.id,
               op_storage_name(from), op_storage_name(to), mark ? ", marking" : "");
      OP_EXPECT(where, good(device, from, to, x, y, mark), "%#x became %#x, not %#x", x, y,
                expected(from, to, x, mark));
    }
  free(out);
}

/* Floats on both sides of every value that decides how a half is rounded, and some at random of
 * every exponent and sign. */
static int64_t fill_floats(uint32_t *bits, ac_dtype to) {
  enum { PER_EXPONENT = 64 };
  int64_t n = 0;
  for (uint32_t half = 0; half < 0x10000u; half++) {
    uint32_t low = ac_float_bits(to == AC_F16 ? ac_f16_to_float((uint16_t)half)
                                              : ac_bf16_to_float((uint16_t)half));
    uint32_t high = ac_float_bits(to == AC_F16 ? ac_f16_to_float((uint16_t)(half + 1))
                                               : ac_bf16_to_float((uint16_t)(half + 1)));
    uint32_t middle = high > low ? low + (high - low) / 2 : low;
    if (to == AC_F16 && !(half & 0x7c00u)) /* subnormals are evenly spaced, their bits are not */
      middle = ac_float_bits((ac_float_from_bits(low) + ac_float_from_bits(high)) / 2);
    for (uint32_t k = 0; k < 3; k++) bits[n++] = middle - 1 + k;
    bits[n++] = low;
  }
  uint64_t state = op_seed("floats");
  for (uint32_t top = 0; top < 512; top++)
    for (int i = 0; i < PER_EXPONENT; i++)
      bits[n++] = top << 23 | (uint32_t)op_random(&state, 0, 8388608);
  return n;
}

/* OpenCL's kernels know one type of 16 bits at a time. */
static void check_limits(ac_device *device) {
  if (device->backend->is_host) return;
  for (ac_dtype from = AC_F32; from <= AC_BF16; from++)
    for (ac_dtype to = AC_F32; to <= AC_BF16; to++) {
      const ac_op_args args = {.op = AC_OP_cast,
                               .in = {{.dtype = from, .rank = 1, .dim = {5}, .count = 5}},
                               .out = {{.dtype = to, .rank = 1, .dim = {5}, .count = 5}}};
      OP_EXPECT("limits of cast",
                device->backend->supports(device->state, &args) == (from == AC_F32 || to == AC_F32),
                "%s -> %s", op_storage_name(from), op_storage_name(to));
    }
}

/* Bytes and integers into floats, rounded to nearest even; long integers into short ones. */
static void check_integers(ac_device *device, ac_dtype from, ac_dtype to, const void *in,
                           int64_t count) {
  const ac_run_state run = {.batch = 1};
  const ac_operand shape = {.rank = 1, .dim = {count}, .count = count};
  ac_op_args args = {.op = AC_OP_cast, .in = {shape}, .out = {shape}, .run = &run};
  args.in[0].dtype = from, args.out[0].dtype = to;
  void *out = calloc((size_t)count, ac_dtype_bytes(to));
  OP_EXPECT("integers of cast", device->backend->supports(device->state, &args), "%s -> %s",
            ac_dtype_name(from), ac_dtype_name(to));
  if (op_run_bits(device, &args, in, out))
    for (int64_t i = 0; i < count; i++) {
      const bool integers = from != AC_U8;
      const int64_t value = integers ? ac_integer_at(from, in, i) : ((const uint8_t *)in)[i];
      float want = (float)value;
      if (to == AC_BF16) want = ac_bf16_to_float(ac_bf16_from_float(want));
      const bool good =
          to == AC_I32 ? ((int32_t *)out)[i] == (int32_t)value : ac_float_read(to, out, i) == want;
      OP_EXPECT("integers of cast", good, "%s: element %lld, %lld, %s -> %s", device->info.id,
                (long long)i, (long long)value, ac_dtype_name(from), ac_dtype_name(to));
    }
  free(out);
}

static void check_all_integers(ac_device *device) {
  enum { COUNT = 5000 };
  uint8_t bytes[COUNT];
  int32_t shorts[COUNT];
  int64_t longs[COUNT];
  uint64_t state = op_seed("integers");
  for (int i = 0; i < COUNT; i++) {
    bytes[i] = (uint8_t)i;
    shorts[i] = (int32_t)(op_random(&state, 0, 0x1p32) - 0x1p31) ^ i;
    longs[i] = i == 0 ? INT32_MIN : i == 1 ? INT32_MAX : shorts[i];
  }
  check_integers(device, AC_U8, AC_F32, bytes, COUNT);
  check_integers(device, AC_U8, AC_BF16, bytes, 300);
  check_integers(device, AC_U8, AC_F16, bytes, 300);
  check_integers(device, AC_I32, AC_F32, shorts, COUNT);
  check_integers(device, AC_I64, AC_I32, longs, COUNT);
}

static void special(ac_device *device) {
  check_limits(device);
  check_all_integers(device);
  enum { MOST = 4 * 0x10000 + 512 * 64 };
  uint16_t *halves = malloc(0x10000 * sizeof *halves);
  uint32_t *floats = malloc(MOST * sizeof *floats);
  for (uint32_t i = 0; i < 0x10000u; i++) halves[i] = (uint16_t)i;
  for (ac_dtype dtype = AC_F16; dtype <= AC_BF16; dtype++) {
    check_bits(device, dtype, AC_F32, 0x10000, halves, false);
    int64_t count = fill_floats(floats, dtype);
    check_bits(device, AC_F32, dtype, op_reduced ? 1000 : count, floats, false);
    check_bits(device, AC_F32, dtype, op_reduced ? 1000 : count, floats, dtype == AC_F16);
  }
  free(floats);
  free(halves);
}

const op_family op_family_cast = {"cast", cases, sizeof cases / sizeof *cases, NULL, special, NULL};

/* Plans put casts where storage changes. */
const op_generator op_generator_cast = {.takes = NULL};
