/* Elementary functions without branches or calls, so that loops over them vectorise.
 *
 * exponential: e^x = 2^n e^r with r in [-ln 2 / 2, ln 2 / 2] and a polynomial of degree 6 for e^r,
 * fitted to a relative error of 3e-9; with rounding the result is within 2 units in the last place.
 * For x <= 88; what is below 2^-126.5 becomes 0, NaN stays NaN. Positive arguments are not needed:
 * sigmoids and softmax are written with arguments of one sign, so no upper bound is needed here.
 *
 * two_to_minus: 2^-|x| likewise, with a polynomial of degree 6 fitted to 2.6e-9; for a NaN it gives
 * 0. Its argument needs no reduction: if constants can include the factor log2 e, that saves
 * operations.
 *
 * inverse: 1 / d for d in [1, 2] without a division, which takes as long as a dozen other
 * operations: a parabola, off by at most 1/99 (by T3, the cubic Chebyshev polynomial, d p(d) = 1 +
 * T3(2 d - 3) / 99), and two steps of Newton's method, which square that; with rounding within 2
 * units in the last place.
 *
 * normal_tail: Phi(-a) for a >= 0, by e^(-a^2/2) times a polynomial of degree 10 in 1 / (1 + 0.3 a)
 * fitted to 4e-9 over [0, 13.3]. Computed from the tail, the distribution function keeps its
 * relative accuracy on both sides.
 *
 * hyperbolic_tangent: (1 - e^-2|x|) / (1 + e^-2|x|), but below 0.625, where the difference cancels,
 * x + x^3 p(x^2) with a polynomial of degree 4 fitted to 4e-9.
 *
 * log_one_plus: log(1 + u) = 2 artanh(s), s = u / (2 + u), for u in [0, 1], by an odd polynomial of
 * degree 9 in s fitted to 5e-9. A small u keeps its relative accuracy. */
#ifndef AC_BACKEND_CPU_VECTOR_MATH_H
#define AC_BACKEND_CPU_VECTOR_MATH_H

#include "core/half.h"

#include <math.h>

/* Adding this, 1.5 * 2^23 + 127, rounds to an integer n, and n + 127 is then in the low bits: 2^n
 * once it is where a float's exponent is, or 0 for n = -127. */
#define ROUND_TO_POWER 12583039.0f

static inline float exponential(float x) {
  float y = x < -88.0f ? -88.0f : x; /* where n = -127 */
  float shifted = y * 1.44269504f + ROUND_TO_POWER;
  float n = shifted - ROUND_TO_POWER;
  float r = y - n * 0.693359375f; /* exact: the constant has 9 bits */
  r = r + n * 2.12194440e-4f;
  float square = r * r;
  float low = 1.666652113199234e-1f * r + 4.999999403953552e-1f;
  float high = 8.368716575205326e-3f * r + 4.166838899254799e-2f;
  float rest = (1.381459878757596e-3f * square + high) * square + low;
  return (rest * square + (r + 1.0f)) * ac_float_from_bits(ac_float_bits(shifted) << 23);
}

static inline float two_to_minus(float x) {
  /* The smaller of two negative floats is the larger one as an integer; the minimum of integers is
   * one instruction. */
  uint32_t bits = ac_float_bits(x) | 0x80000000u, least = ac_float_bits(-127.0f);
  float y = ac_float_from_bits(bits < least ? bits : least);
  float shifted = y + ROUND_TO_POWER;
  float r = y - (shifted - ROUND_TO_POWER), square = r * r;
  float low = 0.055503105510137972f * r + 0.24022652782887737f;
  float high = 0.0013406643902351759f * r + 0.0096176929729930623f;
  float rest = (0.00015594678161326619f * square + high) * square + low;
  float one = 0.6931472149680279f * r + 1.0f;
  return (rest * square + one) * ac_float_from_bits(ac_float_bits(shifted) << 23);
}

static inline float inverse(float d) {
  float r = (0.3232323232f * d - 1.454545455f) * d + 2.121212121f;
  r = r + r * (1.0f - d * r);
  return r + r * (1.0f - d * r);
}

/* The logistic function s(x) and 1 - s(x), neither by a difference. */
static inline float sigmoid(float x, float *complement) {
  float e = exponential(-fabsf(x)), larger = inverse(1.0f + e);
  *complement = larger * (x < 0.0f ? 1.0f : e);
  return larger * (x < 0.0f ? e : 1.0f);
}

static inline float hyperbolic_tangent(float x) {
  float e = exponential(-2.0f * fabsf(x)), square = x * x;
  float p = -5.704986327e-3f;
  p = p * square + 2.063908657e-2f;
  p = p * square - 5.373971485e-2f;
  p = p * square + 1.333144219e-1f;
  p = p * square - 3.333328194e-1f;
  float far = (1.0f - e) * inverse(1.0f + e), near = x + x * (square * p);
  return fabsf(x) < 0.625f ? near : x < 0.0f ? -far : far;
}

/* log(1 + u) for u in [0, 1]. */
static inline float log_one_plus(float u) {
  float half = 0.5f * u, s = half * inverse(1.0f + half), square = s * s;
  float p = 2.801198735e-1f;
  p = p * square + 2.800180514e-1f;
  p = p * square + 4.002152725e-1f;
  p = p * square + 6.666641629e-1f;
  return 2.0f * s + s * (square * p);
}

/* Phi(-a), given e^(-a^2/2). */
static inline float normal_tail(float a, float density) {
  float w = 1.0f / (1.0f + 0.3f * a);
  float p = -2.0585045218467712e-2f;
  p = p * w + 1.1221916228532791e-1f;
  p = p * w - 2.276841700077057e-1f;
  p = p * w + 1.9104795157909393e-1f;
  p = p * w - 7.878242433071136e-2f;
  p = p * w + 9.57956537604332e-2f;
  p = p * w + 7.852108031511307e-2f;
  p = p * w + 1.1020570248365402e-1f;
  p = p * w + 1.1957559734582901e-1f;
  p = p * w + 1.1968648433685303e-1f;
  return p * w * density;
}

#endif
