/* The numeric classes of dot.h in plain C, one value at a time: what hardware is held to, and what
 * computes the bits of another machine. */
#include <float.h>
#include <math.h>

#include "backend/cpu/product/dot.h"
#include "core/half.h"

static float flush(float x) {
  return fabsf(x) < FLT_MIN ? copysignf(0.0f, x) : x;
}

/* The elements of a pair, subnormal ones as zeros. */
static float lower(uint32_t pair) {
  return flush(ac_float_from_bits(pair << 16));
}
static float upper(uint32_t pair) {
  return flush(ac_float_from_bits(pair & 0xffff0000u));
}

static uint32_t pair_of_a(const uint32_t *a, int64_t step, int row, int p) {
  return a[(step * AC_DOT_STRIP + row) * AC_DOT_PAIRS + p];
}
/* Packed steps of op(B) have no offsets, for they follow each other. */
static uint32_t pair_of_b(const ac_dot_patch *b, int64_t step, int p, int column) {
  int64_t at = b->offset ? b->offset[step] : step * AC_DOT_PAIRS * b->distance;
  return b->at[at + p * b->distance + ac_dot_column_in(b, column)];
}

/* ---- rounded to nearest ---------------------------------------------------------------------- */

/* What has come up to the least normal number is a subnormal one all the same, if it would not have
 * come up without a bound of exponents. The product of two bf16 is exact in double. */
static float multiply_add(float x, float y, float sum) {
  float result = fmaf(x, y, sum);
  if (fabsf(result) == FLT_MIN && fabs((double)x * y + sum) < 0x1p-126 - 0x1p-151)
    return copysignf(0.0f, result);
  return flush(result);
}

static float add_flushed(float x, float y) {
  return flush(flush(x) + flush(y));
}

static float vdpbf16ps_sum(int64_t steps, const uint32_t *a, int row, const ac_dot_patch *b,
                           int column, float sum) {
  sum = flush(sum);
  for (int64_t step = 0; step < steps; step++)
    for (int p = 0; p < ac_dot_pairs_of(b, step, steps); p++) {
      uint32_t x = pair_of_a(a, ac_dot_step_of(b, step), row, p), y = pair_of_b(b, step, p, column);
      sum = multiply_add(upper(x), upper(y), sum);
      sum = multiply_add(lower(x), lower(y), sum);
    }
  return sum;
}

static float tiles_sum(int64_t steps, const uint32_t *a, int row, const ac_dot_patch *b, int column,
                       float sum) {
  for (int64_t step = 0; step < steps; step++) {
    float even = 0.0f, odd = 0.0f;
    for (int p = 0; p < AC_DOT_PAIRS; p++) {
      uint32_t x = pair_of_a(a, ac_dot_step_of(b, step), row, p), y = pair_of_b(b, step, p, column);
      even = multiply_add(lower(x), lower(y), even);
      odd = multiply_add(upper(x), upper(y), odd);
    }
    sum = add_flushed(sum, add_flushed(even, odd));
  }
  return sum;
}

/* ---- rounded to odd -------------------------------------------------------------------------- */

/* value + rest towards zero, and away from even if that was not exact. `rest` is what `value` lacks
 * to a sum. */
static float to_odd(double value, double rest) {
  if (isnan(value) || fabs(value) >= 0x1p128) return (float)value;
  float result = (float)value;
  bool beyond = fabs((double)result) > fabs(value) ||
                ((double)result == value && rest != 0.0 && (rest < 0.0) != (value < 0.0));
  if (beyond) result = nextafterf(result, 0.0f);
  bool exact = (double)result == value && rest == 0.0;
  return flush(exact ? result : ac_float_from_bits(ac_float_bits(result) | 1u));
}

static float add_to_odd(float x, float y) {
  double a = flush(x), b = flush(y), sum = a + b, part = sum - a;
  return to_odd(sum, (a - (sum - part)) + (b - part));
}

static float product_to_odd(float x, float y) {
  double product = (double)x * y;
  return fabs(product) < FLT_MIN ? copysignf(0.0f, (float)product) : to_odd(product, 0.0);
}

static float bfmmla_sum(int64_t steps, const uint32_t *a, int row, const ac_dot_patch *b,
                        int column, float sum) {
  for (int64_t step = 0; step < steps; step++)
    for (int p = 0; p < AC_DOT_PAIRS; p++) {
      uint32_t x = pair_of_a(a, ac_dot_step_of(b, step), row, p), y = pair_of_b(b, step, p, column);
      float dot =
          add_to_odd(product_to_odd(lower(x), lower(y)), product_to_odd(upper(x), upper(y)));
      sum = add_to_odd(sum, dot);
    }
  return sum;
}

/* ---- the classes ----------------------------------------------------------------------------- */

typedef float sum_of(int64_t steps, const uint32_t *a, int row, const ac_dot_patch *b, int column,
                     float sum);

static void multiply(sum_of *sum, int64_t steps, int rows, int columns, const uint32_t *a,
                     const ac_dot_patch *b, float *sums, int64_t distance, bool add) {
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) {
      float *to = sums + i * distance + j;
      *to = sum(steps, a, i, b, j, add ? *to : 0.0f);
    }
}

#define CLASS(name)                                                                               \
  void ac_dot_##name##_emulated_convolve(int64_t steps, int rows, int columns, const uint32_t *a, \
                                         const ac_dot_patch *b, float *sums, int64_t distance,    \
                                         bool add) {                                              \
    multiply(name##_sum, steps, rows, columns, a, b, sums, distance, add);                        \
  }                                                                                               \
  void ac_dot_##name##_emulated(int64_t steps, int rows, int columns, const uint32_t *a,          \
                                const uint32_t *b, float *sums, int64_t distance, bool add,       \
                                ac_dot_fetch *fetch) {                                            \
    (void)fetch;                                                                                  \
    const ac_dot_patch packed = {b, NULL, AC_DOT_STRIP, NULL, 0, AC_DOT_LANES};                   \
    multiply(name##_sum, steps, rows, columns, a, &packed, sums, distance, add);                  \
  }
CLASS(tiles)
CLASS(vdpbf16ps)
CLASS(bfmmla)
