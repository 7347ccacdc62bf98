/* The conversions of 16-bit floats: those of core/half.h against the definition of the formats, and
 * the CPU's, for every instruction set it has, against those of core/half.h bit by bit. */
#include "support/check.h"

#include "backend/backend.h"
#include "core/half.h"
#include "core/random.h"

#include <math.h>
#include <stdlib.h>

/* ---- what is converted ----------------------------------------------------------------------- */

enum { HALVES = 0x10000, PER_EXPONENT = 2000, MOST = 6 * HALVES + 512 * PER_EXPONENT };

typedef struct values {
  uint16_t halves[HALVES]; /* all of them */
  uint32_t floats[MOST];
  int64_t count;
} values;

/* A float and its neighbours. */
static void add_around(values *v, float value) {
  uint32_t bits = ac_float_bits(value);
  for (uint32_t k = 0; k < 3; k++) v->floats[v->count++] = bits - 1 + k;
}

/* Floats around the middle between any two halves that follow each other, in both types, and floats
 * of every exponent and sign with random mantissas. */
static int make_values(void **state) {
  values *v = calloc(1, sizeof *v);
  for (uint32_t h = 0; h < HALVES; h++) {
    v->halves[h] = (uint16_t)h;
    double low = (double)ac_f16_to_float((uint16_t)h);
    double high = (h & 0x7fffu) == 0x7bffu ? copysign(65536, low)
                                           : (double)ac_f16_to_float((uint16_t)(h + 1));
    add_around(v, (float)((low + high) / 2));
    add_around(v, ac_float_from_bits(h << 16 | 0x8000u));
  }
  for (uint32_t top = 0; top < 512; top++)
    for (uint32_t i = 0; i < PER_EXPONENT; i += 4) {
      ac_philox_block block = ac_philox(1, i, top, 0, 0);
      for (int k = 0; k < 4; k++) v->floats[v->count++] = top << 23 | (block.v[k] & 0x7fffffu);
    }
  *state = v;
  return 0;
}

static int free_values(void **state) {
  free(*state);
  return 0;
}

/* ---- the definition -------------------------------------------------------------------------- */

/* A format of `digits` binary digits, the hidden one included. Its normal numbers begin at 2^least
 * and end below 2^beyond. */
typedef struct format {
  ac_dtype dtype;
  int digits, least, beyond;
} format;

static const format formats[] = {{AC_F16, 11, -14, 16}, {AC_BF16, 8, -126, 128}};

static double rounded(const format *f, double value) {
  if (value == 0 || !isfinite(value)) return value;
  int exponent = ilogb(value) < f->least ? f->least : ilogb(value);
  double unit = ldexp(1, exponent - (f->digits - 1)), result = rint(value / unit) * unit;
  return fabs(result) >= ldexp(1, f->beyond) ? copysign(INFINITY, value) : result;
}

static double value_of(const format *f, uint16_t half) {
  int stored = f->digits - 1, exponent = (half & 0x7fff) >> stored;
  int mantissa = half & ((1 << stored) - 1), special = (0x7fff >> stored);
  double sign = half & 0x8000 ? -1 : 1;
  if (exponent == special) return mantissa ? NAN : sign * INFINITY;
  if (!exponent) return sign * ldexp(mantissa, f->least - stored);
  return sign * ldexp(mantissa + (1 << stored), f->least + exponent - 1 - stored);
}

static float to_float(ac_dtype dtype, uint16_t half) {
  return dtype == AC_F16 ? ac_f16_to_float(half) : ac_bf16_to_float(half);
}

static uint16_t from_float(ac_dtype dtype, uint32_t bits) {
  float value = ac_float_from_bits(bits);
  return dtype == AC_F16 ? ac_f16_from_float(value) : ac_bf16_from_float(value);
}

/* NaNs keep their sign and the highest bits of what they carry, quieted. */
static void test_definition(void **state) {
  const values *v = *state;
  for (int k = 0; k < 2; k++) {
    const format *f = &formats[k];
    for (uint32_t h = 0; h < HALVES; h++) {
      double want = value_of(f, (uint16_t)h), got = (double)to_float(f->dtype, (uint16_t)h);
      if (isnan(want) ? !isnan(got) : got != want || signbit(got) != signbit(want))
        fail_msg("%s %#x is %g, not %g", ac_dtype_name(f->dtype), h, got, want);
    }
    for (int64_t i = 0; i < v->count; i++) {
      uint32_t bits = v->floats[i];
      uint16_t half = from_float(f->dtype, bits);
      double value = (double)ac_float_from_bits(bits), want = rounded(f, value);
      double got = value_of(f, half);
      bool good = isnan(value) ? isnan(got) : got == want && signbit(got) == signbit(value);
      if (isnan(value)) {
        uint32_t kept = 1u << (f->digits - 2), mask = kept - 1;
        good = good && half >> 15 == bits >> 31 && half & kept &&
               (half & mask) == (bits >> (24 - f->digits) & mask);
      }
      if (!good) fail_msg("%s of %#x (%g) is %#x", ac_dtype_name(f->dtype), bits, value, half);
    }
  }
}

/* ---- the CPU --------------------------------------------------------------------------------- */

static void *open_cpu(const char *isa, int threads) {
  ac_device_desc desc = {.threads = threads};
  ac_device_info info;
  void *cpu = NULL;
  setenv("ACCRUE_ISA", isa, 1);
  assert_ok(ac_backend_cpu.open(&cpu, 0, &desc, &info));
  unsetenv("ACCRUE_ISA");
  return cpu;
}

static void convert(void *cpu, ac_dtype from, const void *x, ac_dtype to, void *y, int64_t count,
                    bool mark) {
  ac_run_state run = {.batch = 1, .mark_flushed = mark};
  ac_operand shape = {.rank = 1, .dim = {count}, .count = count};
  ac_op_args args = {.op = AC_OP_cast, .in = {shape}, .out = {shape}, .run = &run};
  args.in[0].dtype = from, args.in[0].data = (void *)(uintptr_t)x;
  args.out[0].dtype = to, args.out[0].data = y;
  assert_true(ac_backend_cpu.supports(cpu, &args));
  assert_ok(ac_backend_cpu.run(cpu, &args));
}

static uint16_t expected(ac_dtype dtype, uint32_t bits, bool mark) {
  uint16_t half = from_float(dtype, bits);
  if (!mark || dtype != AC_F16 || half & 0x7fffu) return half;
  return bits & 0x7fffffffu ? 0x8000u : 0;
}

static void check_all(void *cpu, const values *v, ac_dtype dtype, bool mark) {
  uint16_t *halves = malloc((size_t)v->count * sizeof *halves);
  uint32_t *floats = malloc(HALVES * sizeof *floats);
  convert(cpu, AC_F32, v->floats, dtype, halves, v->count, mark);
  for (int64_t i = 0; i < v->count; i++)
    if (halves[i] != expected(dtype, v->floats[i], mark))
      fail_msg("%s of %#x is %#x, not %#x", ac_dtype_name(dtype), v->floats[i], halves[i],
               expected(dtype, v->floats[i], mark));
  convert(cpu, dtype, v->halves, AC_F32, floats, HALVES, mark);
  for (uint32_t h = 0; h < HALVES; h++)
    if (floats[h] != ac_float_bits(to_float(dtype, (uint16_t)h)))
      fail_msg("%s %#x is %#x", ac_dtype_name(dtype), h, floats[h]);
  free(floats);
  free(halves);
}

/* From one type of 16 bits to the other: through the float. */
static void check_across(void *cpu, const values *v, ac_dtype from, ac_dtype to) {
  uint16_t *halves = malloc(HALVES * sizeof *halves);
  convert(cpu, from, v->halves, to, halves, HALVES, false);
  for (uint32_t h = 0; h < HALVES; h++)
    assert_int_equal(halves[h], from_float(to, ac_float_bits(to_float(from, (uint16_t)h))));
  free(halves);
}

/* Runs of every length that vectors and their rests can make, from every address of a vector. */
static void check_places(void *cpu, const values *v, ac_dtype dtype, bool mark) {
  enum { MOST_OFFSET = 17, MOST_LENGTH = 70, ROOM = MOST_OFFSET + MOST_LENGTH + 16 };
  const uint32_t *from = v->floats + 6 * 0x3c00;
  uint16_t halves[ROOM];
  uint32_t floats[ROOM];
  for (int offset = 0; offset < MOST_OFFSET; offset++)
    for (int length = 1; length < MOST_LENGTH; length++) {
      int after = MOST_OFFSET - offset;
      memset(halves, 0xA5, sizeof halves);
      memset(floats, 0xA5, sizeof floats);
      convert(cpu, AC_F32, from + offset, dtype, halves + after, length, mark);
      convert(cpu, dtype, v->halves + 0x3c00 + offset, AC_F32, floats + after, length, mark);
      for (int i = 0; i < ROOM; i++) {
        bool in = i >= after && i < after + length;
        uint16_t half = (uint16_t)(0x3c00 + offset + i - after);
        assert_int_equal(halves[i], in ? expected(dtype, from[offset + i - after], mark) : 0xA5A5u);
        assert_int_equal(floats[i], in ? ac_float_bits(to_float(dtype, half)) : 0xA5A5A5A5u);
      }
    }
}

static void check_isa(const values *v, const char *isa) {
  print_message("%s\n", isa);
  void *cpu = open_cpu(isa, 1), *threads = open_cpu(isa, 3);
  for (ac_dtype dtype = AC_F16; dtype <= AC_BF16; dtype++)
    for (int mark = 0; mark < 2; mark++) {
      check_all(mark ? cpu : threads, v, dtype, mark);
      check_places(cpu, v, dtype, mark);
    }
  check_across(cpu, v, AC_F16, AC_BF16);
  check_across(cpu, v, AC_BF16, AC_F16);
  ac_backend_cpu.close(threads);
  ac_backend_cpu.close(cpu);
}

/* Instead of an instruction set that the CPU lacks the next lower one is used. */
static void test_cpu(void **state) {
#ifdef __aarch64__
  const char *const sets[] = {"base", "sve256", "sve512"};
#else
  const char *const sets[] = {"base", "v3", "v4"};
#endif
  for (int i = 0; i < 3; i++) check_isa(*state, sets[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_definition),
      cmocka_unit_test(test_cpu),
  };
  return cmocka_run_group_tests(tests, make_values, free_values);
}
