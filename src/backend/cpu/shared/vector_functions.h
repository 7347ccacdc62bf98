/* The functions of the table (ops/pointwise/functions.h) that are more than an operator, without
 * branches or calls, so that loops over them vectorise. They continue vector_math.h. Errors are in
 * units in the last place (ulp), as tests/unit/backend/functions.c measures them over all floats.
 *
 * full_exponential, exponential_less_one: as exponential, for all arguments. 2^n is two factors, so
 * that results may be denormal or as large as a float can be. e^x - 1 is 2^n (e^r - 1 + 1 - 2^-n),
 * and e^r - 1 has r as its first term: nothing cancels.
 *
 * logarithm: of m 2^e with m in [sqrt(1/2), sqrt(2)], by a polynomial of degree 9 for log(1 + f)
 * (Cephes, S. Moshier). log(1 + x) is the logarithm of the rounded sum, plus what rounding lost.
 *
 * sine, cosine: x is m 2^(24 i), and constants have 2^(24 i) in quarter turns, without whole turns,
 * as a sum of three (Payne and Hanek 1983). The products of m with the first two are exact, and so
 * are their distances from whole numbers. What is beyond the last quarter turn then has an error
 * below 2^-55, also for the largest x; polynomials are those of Cephes.
 *
 * to_the_power: 2^(b log2 a) in doubles: an error of 2^-45 times 150 is far below a float's.
 *
 * error_function: below 1 an odd polynomial of degree 13, fitted to 2e-9; else by normal_tail.
 *
 * mish and its slope: with e = e^-|x|, tanh(log(1 + e^x)) = n / (n + c), where n = e (e + 2) and
 * c = 2 for negative x, else n = 1 + 2 e and c = 2 e^2: nothing cancels or overflows. */
#ifndef AC_BACKEND_CPU_VECTOR_FUNCTIONS_H
#define AC_BACKEND_CPU_VECTOR_FUNCTIONS_H

#include "backend/cpu/shared/kernels.h"
#include "backend/cpu/shared/vector_math.h"

#include <float.h>

/* NaN stays, whichever is one. */
static inline float maximum(float a, float b) {
  return (a >= b) | (a != a) ? a : b;
}
static inline float minimum(float a, float b) {
  return (a <= b) | (a != a) ? a : b;
}

static inline double double_from_bits(uint64_t bits) {
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
static inline uint64_t double_bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* x 2^n for n in [-252, 254], rounded once. */
static inline float times_power(float x, uint32_t n) {
  uint32_t half = (uint32_t)((int32_t)n >> 1);
  return x * ac_float_from_bits((half + 127) << 23) * ac_float_from_bits((n - half + 127) << 23);
}

/* Adding it rounds to a whole number, which is then in the low bits. */
#define ROUND_TO_WHOLE 12582912.0f
#define ROUND_DOUBLE_TO_WHOLE 6755399441055744.0

/* y = n ln 2 + r. */
static inline float reduced(float y, float *n, uint32_t *bits) {
  float shifted = y * 1.44269504f + ROUND_TO_WHOLE;
  *n = shifted - ROUND_TO_WHOLE;
  *bits = ac_float_bits(shifted) - ac_float_bits(ROUND_TO_WHOLE);
  float r = y - *n * 0.693359375f;
  return r + *n * 2.12194440e-4f;
}

/* (e^r - 1 - r) / r^2 */
static inline float exponential_rest(float r) {
  float square = r * r;
  float low = 1.666652113199234e-1f * r + 4.999999403953552e-1f;
  float high = 8.368716575205326e-3f * r + 4.166838899254799e-2f;
  return (1.381459878757596e-3f * square + high) * square + low;
}

static inline float full_exponential(float x) {
  float n, y = smaller(larger(x, -105.0f), 89.0f);
  uint32_t bits;
  float r = reduced(y, &n, &bits);
  return times_power(exponential_rest(r) * (r * r) + (r + 1.0f), bits);
}

static inline float exponential_less_one(float x) {
  float n, y = smaller(larger(x, -20.0f), 89.0f);
  uint32_t bits;
  float r = reduced(y, &n, &bits);
  float less = exponential_rest(r) * (r * r) + r;
  uint32_t least = (int32_t)bits < 126 ? bits : 126; /* what is added is 1 long before */
  return times_power(less + (1.0f - ac_float_from_bits((127 - least) << 23)), bits);
}

/* log(1 + f) for f in [sqrt(1/2) - 1, sqrt(2) - 1], plus e ln 2. */
static inline float logarithm_of_parts(float f, float e) {
  float square = f * f, p = 7.0376836292e-2f;
  p = p * f - 1.1514610310e-1f;
  p = p * f + 1.1676998740e-1f;
  p = p * f - 1.2420140846e-1f;
  p = p * f + 1.4249322787e-1f;
  p = p * f - 1.6668057665e-1f;
  p = p * f + 2.0000714765e-1f;
  p = p * f - 2.4999993993e-1f;
  p = p * f + 3.3333331174e-1f;
  float rest = p * f * square - e * 2.12194440e-4f;
  return (rest - 0.5f * square + f) + e * 0.693359375f;
}

static inline float logarithm(float x) {
  bool tiny = x < FLT_MIN;
  float scaled = x * 8388608.0f;
  uint32_t bits = ac_float_bits(tiny ? scaled : x);
  int32_t power = (int32_t)(bits - ac_float_bits(0.70710678f)) >> 23;
  float m = ac_float_from_bits(bits - ((uint32_t)power << 23));
  float e = (float)power - (tiny ? 23.0f : 0.0f);
  float value = logarithm_of_parts(m - 1.0f, e);
  value = x > FLT_MAX ? x : value;
  value = x == 0.0f ? -INFINITY : value;
  return x >= 0.0f ? value : NAN;
}

static inline float logarithm_of_one_more(float x) {
  float sum = 1.0f + x, lost = (x - (sum - 1.0f)) / sum;
  float whole = logarithm(sum);
  return fabsf(whole) <= FLT_MAX ? whole + lost : whole;
}

/* The sine of r plus `turns` quarter turns; |r| is at most pi / 4. */
static inline float sine_of_part(float r, uint32_t turns) {
  float square = r * r;
  float s = (-1.9515295891e-4f * square + 8.3321608736e-3f) * square - 1.6666654611e-1f;
  float c =
      (2.443315711809948e-5f * square - 1.388731625493765e-3f) * square + 4.166664568298827e-2f;
  float odd = s * square * r + r, even = c * (square * square) - 0.5f * square + 1.0f;
  uint32_t sign = (turns & 2) << 30;
  return ac_float_from_bits(ac_float_bits(turns & 1 ? even : odd) ^ sign);
}

/* The sine of x plus `more` quarter turns. */
static inline float sine_of(float x, uint32_t more) {
  double d = (double)x, size = fabs(d), p = 0x1.45f306c000000p-1, q = 0x1.c9c882a000000p-29;
  double r = 0x1.4fe13abe8fa9ap-59, scale = 1.0;
#define FROM(least, factor, first, second, third) \
  scale = size >= least ? factor : scale;         \
  p = size >= least ? first : p;                  \
  q = size >= least ? second : q;                 \
  r = size >= least ? third : r;
  FROM(0x1p48, 0x1p-24, 0x1.b727221000000p+1, -0x1.5ac07b2000000p-29, 0x1.5f47d4d377037p-58)
  FROM(0x1p72, 0x1p-48, 0x1.529fc20000000p-4, 0x1.d5f47d4000000p-30, 0x1.a6ee06db14acdp-59)
  FROM(0x1p96, 0x1p-72, 0x1.3abe900000000p-3, -0x1.596447e000000p-29, -0x1.24eb53361de38p-59)
  FROM(0x1p120, 0x1p-96, 0x1.f534ddc000000p+0, 0x1.b6c52c0000000p-33, -0x1.9b0ef1bef806cp-58)
#undef FROM
  d *= scale;
  double most = d * p, next = d * q, rest = d * r;
  double whole_most = most + ROUND_DOUBLE_TO_WHOLE, whole_next = next + ROUND_DOUBLE_TO_WHOLE;
  most -= whole_most - ROUND_DOUBLE_TO_WHOLE;
  next -= whole_next - ROUND_DOUBLE_TO_WHOLE;
  double whole = most + next + rest + ROUND_DOUBLE_TO_WHOLE;
  double beyond = most - (whole - ROUND_DOUBLE_TO_WHOLE) + next + rest;
  uint64_t turns = double_bits(whole_most) + double_bits(whole_next) + double_bits(whole);
  return sine_of_part((float)(beyond * 1.5707963267948966), (uint32_t)turns + more);
}

static inline float sine(float x) {
  return sine_of(x, 0);
}
static inline float cosine(float x) {
  return sine_of(x, 1);
}

static inline float error_function(float x) {
  float a = fabsf(x), square = x * x;
  float p = 7.8758750503e-05f;
  p = p * square - 8.0168642833e-04f;
  p = p * square + 5.1890874230e-03f;
  p = p * square - 2.6854212010e-02f;
  p = p * square + 1.1283594715e-01f;
  p = p * square - 3.7612626667e-01f;
  p = p * square + 1.1283791658e+00f;
  float far = 1.0f - 2.0f * normal_tail(1.41421356f * a, exponential(-square));
  return a < 1.0f ? x * p : x < 0.0f ? -far : far;
}

/* log2 of a >= 0; beyond 1e199 in the place of an infinity, and any number for NaN. */
static inline double binary_logarithm(double a) {
  const uint64_t half = UINT64_C(0x3fe6a09e667f3bcd), one = UINT64_C(0x3ff0000000000000);
  uint64_t bits = double_bits(a), power = (bits + (one - half)) >> 52;
  double m = double_from_bits(bits - (power << 52) + one);
  double e = double_from_bits(UINT64_C(0x4330000000000000) | power) - 4503599627371519.0;
  double s = (m - 1.0) / (m + 1.0), square = s * s;
  double p = 2.885390081777927 / 15;
  p = p * square + 2.885390081777927 / 13;
  p = p * square + 2.885390081777927 / 11;
  p = p * square + 2.885390081777927 / 9;
  p = p * square + 2.885390081777927 / 7;
  p = p * square + 2.885390081777927 / 5;
  p = p * square + 2.885390081777927 / 3;
  p = p * square + 2.885390081777927;
  double value = s * p + e + (a == 0.0 ? -1e200 : 0.0);
  return value + (a > DBL_MAX ? 1e200 : 0.0);
}

/* 2^y, y in doubles. */
static inline float power_of_two(double y) {
  y = y < -200.0 ? -200.0 : y;
  y = y > 200.0 ? 200.0 : y;
  double shifted = y + ROUND_DOUBLE_TO_WHOLE;
  float r = (float)(y - (shifted - ROUND_DOUBLE_TO_WHOLE)), square = r * r;
  float low = 0.055503105510137972f * r + 0.24022652782887737f;
  float high = 0.0013406643902351759f * r + 0.0096176929729930623f;
  float rest = (0.00015594678161326619f * square + high) * square + low;
  return times_power(rest * square + (0.6931472149680279f * r + 1.0f),
                     (uint32_t)double_bits(shifted));
}

/* A select by bits, so that the compiler makes no branch of it. */
static inline float chosen(bool condition, float a, float b) {
  uint32_t mask = 0u - (uint32_t)condition;
  return ac_float_from_bits((ac_float_bits(a) & mask) | (ac_float_bits(b) & ~mask));
}

static inline float to_the_power(float a, float b) {
  float bounded = smaller(larger(b, -FLT_MAX), FLT_MAX), size = fabsf(a);
  float value = power_of_two((double)bounded * binary_logarithm((double)size));
  float small = chosen(fabsf(b) < 16777216.0f, b, 0.0f); /* from 2^24 on floats are even */
  int32_t whole = (int32_t)small;
  uint32_t negative = (uint32_t)whole & ac_float_bits(a) >> 31;
  value = ac_float_from_bits(ac_float_bits(value) ^ negative << 31);
  bool unknown = (a < 0.0f) & (a >= -FLT_MAX) & (small != (float)whole);
  value = chosen(unknown | (a != a), NAN, value);
  return chosen((b == 0.0f) | (a == 1.0f), 1.0f, value);
}

/* ---- activations ----------------------------------------------------------------------------- */

static inline float logistic(float x) {
  float complement;
  return sigmoid(x, &complement);
}

static inline float silu_slope(float x) {
  float complement, s = sigmoid(x, &complement);
  return s + x * s * complement;
}

static inline float softplus(float x) {
  return larger(x, 0.0f) + log_one_plus(exponential(-fabsf(x)));
}

static inline float normal_distribution(float x) {
  float tail = normal_tail(fabsf(x), exponential(-0.5f * (x * x)));
  return x < 0.0f ? tail : 1.0f - tail;
}

static inline float gelu_slope(float x) {
  float density = exponential(-0.5f * (x * x)), tail = normal_tail(fabsf(x), density);
  return (x < 0.0f ? tail : 1.0f - tail) + x * density * 0.39894228f;
}

#define TWO_ROOT 1.5957691216057308f /* 2 sqrt(2/pi) */
#define CUBIC 0.044715f

/* e^-|2u|, u = sqrt(2/pi) (x + 0.044715 x^3); 0 if x is NaN, so that only products with x are. */
static inline float tanh_decay(float x) {
  const float root = TWO_ROOT * 1.4426950408889634f;
  return two_to_minus(x * (root + root * CUBIC * (x * x)));
}

static inline float gelu_tanh(float x) {
  float e = tanh_decay(x), small = x * e;
  return inverse(1.0f + e) * (x < 0.0f ? small : x);
}

/* s + x s (1 - s) 2u' with s = sigmoid(2u): with r = 1 / (1 + e), s (1 - s) = e r^2. */
static inline float gelu_tanh_slope(float x) {
  float e = tanh_decay(x), r = inverse(1.0f + e), q = e * r;
  float slope = TWO_ROOT + 3.0f * TWO_ROOT * CUBIC * (x * x);
  return (x < 0.0f ? q : r) + x * (q * r) * slope;
}

static inline float mish(float x) {
  float e = exponential(-fabsf(x)), below = e * (e + 2.0f), above = 1.0f + 2.0f * e;
  float n = x < 0.0f ? below : above, c = x < 0.0f ? 2.0f : 2.0f * e * e;
  return x * (n / (n + c));
}

static inline float mish_slope(float x) {
  float e = exponential(-fabsf(x)), below = e * (e + 2.0f), above = 1.0f + 2.0f * e;
  float n = x < 0.0f ? below : above, c = x < 0.0f ? 2.0f : 2.0f * e * e, r = 1.0f / (n + c);
  float t = n * r, s = (x < 0.0f ? e : 1.0f) * inverse(1.0f + e);
  return t + x * (c * r) * (1.0f + t) * s;
}

#endif
