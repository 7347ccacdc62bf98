/* Packing for products of bf16 (dot.h): squares of sixteen lines by sixteen pairs of neighbours
 * along k, of operands that lie along k or down k. */
#ifndef AC_BACKEND_CPU_PRODUCT_PAIRS_H
#define AC_BACKEND_CPU_PRODUCT_PAIRS_H

#include "backend/cpu/kernels.h"
#include "backend/cpu/product/dot.h"
#include "backend/cpu/product/transpose.h"
#include "core/half.h"

#include <string.h>

enum { STRIP = AC_DOT_STRIP, STEP = AC_DOT_STEP, PAIRS = AC_DOT_PAIRS };

static inline int64_t strips_of(int64_t size) {
  return ac_ceil_div(size, STRIP);
}

static inline int64_t steps_of(int64_t depth) {
  return ac_ceil_div(depth, STEP);
}

/* ---- of floats that are bf16 widened: their upper halves ------------------------------------- */

static inline uint32_t pair_of(float first, float second) {
  return ac_float_bits(first) >> 16 | (ac_float_bits(second) & 0xffff0000u);
}

/* A row of a strip of op(A), from `depth` floats beside each other. */
static inline void pack_floats_row(const float *from, int64_t depth, uint32_t *to) {
  int64_t pairs = depth / 2, whole = pairs / PAIRS * PAIRS;
  for (int64_t p = 0; p < whole; p += PAIRS, to += STRIP * PAIRS)
#pragma omp simd
    for (int64_t i = 0; i < PAIRS; i++) to[i] = pair_of(from[2 * (p + i)], from[2 * (p + i) + 1]);
  for (int64_t p = whole; p < steps_of(depth) * PAIRS; p++) {
    float first = 2 * p < depth ? from[2 * p] : 0, second = 2 * p + 1 < depth ? from[2 * p + 1] : 0;
    to[p - whole] = pair_of(first, second);
  }
}

/* ---- of bf16 as stored ----------------------------------------------------------------------- */

/* An operand as strips want it: `line` is a row of op(A) or a column of op(B). */
typedef struct operand {
  const uint16_t *data;
  int64_t distance; /* of rows as stored */
  bool along;       /* k lies along those rows */
  int64_t lines, depth;
} operand;

static inline operand part_of_operand(const operand *x, int64_t line, int64_t lines, int64_t k,
                                      int64_t depth) {
  int64_t offset = x->along ? line * x->distance + k : k * x->distance + line;
  return (operand){x->data + offset, x->distance, x->along, lines, depth};
}

static inline uint32_t pair_at(const operand *x, int64_t line, int64_t k) {
  if (line >= x->lines || k >= x->depth) return 0;
  int64_t step = x->along ? 1 : x->distance;
  const uint16_t *at = x->data + (x->along ? line * x->distance + k : k * x->distance + line);
  return at[0] | (k + 1 < x->depth ? (uint32_t)at[step] << 16 : 0);
}

/* At an edge, where some elements are not there. */
static inline void pack_edge(const operand *x, int64_t line, int64_t k, bool by_line, uint32_t *to,
                             int64_t distance) {
  for (int i = 0; i < PAIRS; i++)
    for (int j = 0; j < PAIRS; j++)
      to[i * distance + j] =
          by_line ? pair_at(x, line + i, k + 2 * j) : pair_at(x, line + j, k + 2 * i);
}

#if defined(AC_CPU_HAVE_SHUFFLES) && defined(__AVX512F__)

typedef uint32_t vector __attribute__((vector_size(64)));
typedef uint64_t wide_vector __attribute__((vector_size(64)));
typedef uint16_t half_vector __attribute__((vector_size(32)));

static inline __attribute__((always_inline)) void turn(vector v[PAIRS]) {
  vector t[PAIRS];
#pragma GCC unroll 16
  for (int i = 0; i < PAIRS; i += 2) {
    t[i] = __builtin_shufflevector(v[i], v[i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28,
                                   13, 29);
    t[i + 1] = __builtin_shufflevector(v[i], v[i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27,
                                       14, 30, 15, 31);
  }
#pragma GCC unroll 16
  for (int i = 0; i < PAIRS; i += 4)
    for (int j = 0; j < 2; j++) {
      wide_vector x = (wide_vector)t[i + j], y = (wide_vector)t[i + j + 2];
      v[i + 2 * j] = (vector)__builtin_shufflevector(x, y, 0, 8, 2, 10, 4, 12, 6, 14);
      v[i + 2 * j + 1] = (vector)__builtin_shufflevector(x, y, 1, 9, 3, 11, 5, 13, 7, 15);
    }
    /* Now v[4 g + c] has column c of each quarter q, for rows 4 g to 4 g + 3. */
#pragma GCC unroll 16
  for (int c = 0; c < 4; c++) {
    wide_vector a = (wide_vector)v[c], b = (wide_vector)v[c + 4], d = (wide_vector)v[c + 8],
                e = (wide_vector)v[c + 12];
    wide_vector ab02 = __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13);
    wide_vector ab13 = __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15);
    wide_vector de02 = __builtin_shufflevector(d, e, 0, 1, 4, 5, 8, 9, 12, 13);
    wide_vector de13 = __builtin_shufflevector(d, e, 2, 3, 6, 7, 10, 11, 14, 15);
    t[c] = (vector)__builtin_shufflevector(ab02, de02, 0, 1, 4, 5, 8, 9, 12, 13);
    t[c + 8] = (vector)__builtin_shufflevector(ab02, de02, 2, 3, 6, 7, 10, 11, 14, 15);
    t[c + 4] = (vector)__builtin_shufflevector(ab13, de13, 0, 1, 4, 5, 8, 9, 12, 13);
    t[c + 12] = (vector)__builtin_shufflevector(ab13, de13, 2, 3, 6, 7, 10, 11, 14, 15);
  }
#pragma GCC unroll 16
  for (int i = 0; i < PAIRS; i++) v[i] = t[i];
}

static inline __attribute__((always_inline)) void pack_whole(const operand *x, int64_t line,
                                                             int64_t k, bool along, bool by_line,
                                                             uint32_t *to, int64_t distance) {
  vector v[PAIRS];
  const uint16_t *at = x->data + (along ? line * x->distance + k : k * x->distance + line);
#pragma GCC unroll 16
  for (int i = 0; i < PAIRS; i++) {
    if (along) {
      memcpy(&v[i], at + i * x->distance, sizeof v[i]);
      continue;
    }
    half_vector first, second;
    memcpy(&first, at + 2 * i * x->distance, sizeof first);
    memcpy(&second, at + (2 * i + 1) * x->distance, sizeof second);
    v[i] = __builtin_convertvector(first, vector) | __builtin_convertvector(second, vector) << 16;
  }
  if (along != by_line) turn(v);
#pragma GCC unroll 16
  for (int i = 0; i < PAIRS; i++) memcpy(to + i * distance, &v[i], sizeof v[i]);
}

static inline void pack_square(const operand *x, int64_t line, int64_t k, bool by_line,
                               uint32_t *to, int64_t distance) {
  if (line + PAIRS > x->lines || k + STEP > x->depth) pack_edge(x, line, k, by_line, to, distance);
  else if (x->along) pack_whole(x, line, k, true, by_line, to, distance);
  else pack_whole(x, line, k, false, by_line, to, distance);
}

#else

static inline void pack_square(const operand *x, int64_t line, int64_t k, bool by_line,
                               uint32_t *to, int64_t distance) {
  pack_edge(x, line, k, by_line, to, distance);
}

#endif

#endif
