/* What steps a parameter, and sums in which roundings must not add up.
 *
 * SEPARATE_PRODUCTS is before formulas that several kernels share. Their bits must be the same
 * whatever the compiler makes of each: a compiler that obeys it does not fuse a product with a sum
 * by its own choice. */
#ifndef AC_CL_PARAMETER_H
#define AC_CL_PARAMETER_H

#include "common.h"

#define SEPARATE_PRODUCTS _Pragma("OPENCL FP_CONTRACT OFF")

/* A parameter that is stepped, or a sum: a float, or with ROUNDED bf16, rounded up as often as it
 * is near the upper neighbour (src/core/half.h), by numbers of src/core/random.h. */
WIDE(ushort) bf16_by_chance(floats value, uints chance) {
  const uints bits = WIDE(as_uint)(value);
  return WIDE(convert_ushort)(
      ((bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x400000u : bits + chance) >> 16);
}

#ifdef ROUNDED
#define rounded_t ushort
#define rounded_load bf16_load
#else
#define rounded_t float
#define rounded_load float_load
#endif

#ifndef IS_WIDE
void rounded_store(global rounded_t *x, size_t i, float value, uint2 key, uint4 counter) {
#ifdef ROUNDED
  const uint4 words = philox(key, counter + (uint4)((uint)(i / 8), 0, 0, 0));
  const uint pair = i & 4 ? (i & 2 ? words.w : words.z) : (i & 2 ? words.y : words.x);
  x[i] = bf16_by_chance(value, i & 1 ? pair >> 16 : pair & 0xffffu);
#else
  x[i] = value;
#endif
}
#endif

/* Of a parameter that is stepped, from its 8 x from-th element on; and its gradient. */
#define WEIGHT_STREAM(from, update) ((uint4)(from, 0, update, 1))
#ifdef GRADIENT_BF16
#define gradient_t ushort
#define gradient_load bf16_load
#else
#define gradient_t float
#define gradient_load float_load
#endif

/* What steps a parameter: its gradient, itself, two states and a copy (some may be absent), the
 * input of rounding by chance, and the op's factors. */
#ifdef EIGHT_BIT
#define kept_t uchar
#else
#define kept_t float
#endif
#define UPDATE_OPERANDS(k)                                                                       \
  float8 factors##k, const global gradient_t *g##k, global rounded_t *p##k, global kept_t *m##k, \
      global kept_t *v##k, global storage *w##k, long n##k, uint2 key##k, uint from##k

/* What a function takes that steps one element, the i-th. */
#define UPDATE_ELEMENT                                                                 \
  const global gradient_t *g, global rounded_t *p, global kept_t *m, global kept_t *v, \
      global storage *w, uint2 key, uint from, float8 factors, uint update, size_t i

/* The body of the kernel NAME, of one parameter: `element` is such a function. */
#define UPDATE_ONE(element)      \
  const size_t i = element_id(); \
  if (i < n) element(g, p, m, v, w, key, from, factors, update, i)

/* That of NAME_each, of up to eight: each has work-groups of its own, from the first-th on; those
 * that are not there begin after the last group. In this order the arguments take 772 bytes of the
 * 1,024 that every device has room for. */
#define UPDATE_SLOT(k) UPDATE_OPERANDS(k), uint first##k
#define UPDATE_SLOTS                                                                              \
  UPDATE_SLOT(0), UPDATE_SLOT(1), UPDATE_SLOT(2), UPDATE_SLOT(3), UPDATE_SLOT(4), UPDATE_SLOT(5), \
      UPDATE_SLOT(6), UPDATE_SLOT(7)
#define UPDATE_TAKE(k)     \
  if (group >= first##k) { \
    g = g##k;              \
    p = p##k;              \
    m = m##k;              \
    v = v##k;              \
    w = w##k;              \
    n = n##k;              \
    key = key##k;          \
    from = from##k;        \
    factors = factors##k;  \
    first = first##k;      \
  }
#define UPDATE_EACH(element)                                          \
  const uint group = get_group_id(0);                                 \
  const global gradient_t *g = g0;                                    \
  global rounded_t *p = p0;                                           \
  global kept_t *m = m0, *v = v0;                                     \
  global storage *w = w0;                                             \
  long n = n0;                                                        \
  uint2 key = key0;                                                   \
  uint from = from0, first = 0;                                       \
  float8 factors = factors0;                                          \
  UPDATE_TAKE(1)                                                      \
  UPDATE_TAKE(2)                                                      \
  UPDATE_TAKE(3)                                                      \
  UPDATE_TAKE(4)                                                      \
  UPDATE_TAKE(5)                                                      \
  UPDATE_TAKE(6)                                                      \
  UPDATE_TAKE(7)                                                      \
  const size_t i = (size_t)(group - first) * GROUP + get_local_id(0); \
  if (i < n) element(g, p, m, v, w, key, from, factors, update, i)

#endif
