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

/* An operand as strips want it: `line` is a row of op(A) or a column of op(B). */
typedef struct operand {
  const void *data;
  ac_dtype dtype;   /* bf16, or f32, which is rounded to it */
  int64_t distance; /* of rows as stored */
  bool along;       /* k lies along those rows */
  int64_t lines, depth;
} operand;

static inline operand part_of_operand(const operand *x, int64_t line, int64_t lines, int64_t k,
                                      int64_t depth) {
  int64_t offset = x->along ? line * x->distance + k : k * x->distance + line;
  return (operand){
      ac_element(x->data, x->dtype, offset), x->dtype, x->distance, x->along, lines, depth};
}

#if defined(AC_CPU_HAVE_SHUFFLES) && defined(__AVX512F__)

typedef uint16_t half_vector __attribute__((vector_size(64)));

/* Pairs of two rows as stored, column beneath column: those of lines 0 to 15 and of 16 to 31. */
static inline __attribute__((always_inline)) void
pair_rows(const uint16_t *first, const uint16_t *second, words *low, words *high) {
  half_vector x, y;
  memcpy(&x, first, sizeof x);
  memcpy(&y, second, sizeof y);
  *low =
      (words)__builtin_shufflevector(x, y, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39,
                                     8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47);
  *high = (words)__builtin_shufflevector(x, y, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22,
                                         54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61,
                                         30, 62, 31, 63);
}

/* Sixteen lines along k. */
static inline __attribute__((always_inline)) void pack_along(const uint16_t *from, int64_t distance,
                                                             bool by_line, uint32_t *to) {
  words v[PAIRS];
#pragma GCC unroll 16
  for (int i = 0; i < PAIRS; i++) memcpy(&v[i], from + i * distance, sizeof v[i]);
  if (!by_line) turn(v);
#pragma GCC unroll 16
  for (int i = 0; i < PAIRS; i++) memcpy(to + i * (by_line ? PAIRS : STRIP), &v[i], sizeof v[i]);
}

static inline __attribute__((always_inline)) void pack_down(const uint16_t *from, int64_t distance,
                                                            bool by_line, uint32_t *to) {
  if (!by_line) {
#pragma GCC unroll 4
    for (int i = 0; i < PAIRS; i++, from += 2 * distance, to += STRIP) {
      words low, high;
      pair_rows(from, from + distance, &low, &high);
      memcpy(to, &low, sizeof low);
      memcpy(to + PAIRS, &high, sizeof high);
    }
    return;
  }
  words v[2][PAIRS];
#pragma GCC unroll 16
  for (int i = 0; i < PAIRS; i++, from += 2 * distance)
    pair_rows(from, from + distance, &v[0][i], &v[1][i]);
  for (int half = 0; half < 2; half++, to += PAIRS * PAIRS) {
    turn(v[half]);
    memcpy(to, v[half], sizeof v[half]);
  }
}

/* `from` is where the step begins. */
static inline void pack_whole(const uint16_t *from, int64_t distance, bool along, bool by_line,
                              uint32_t *to) {
  if (along) {
    pack_along(from, distance, by_line, to);
    pack_along(from + PAIRS * distance, distance, by_line, to + (by_line ? PAIRS * PAIRS : PAIRS));
  } else {
    pack_down(from, distance, by_line, to);
  }
}

#else

static inline void pack_whole(const uint16_t *from, int64_t distance, bool along, bool by_line,
                              uint32_t *to) {
  int64_t line_distance = along ? distance : 1, k_distance = along ? 1 : distance;
  for (int line = 0; line < STRIP; line++, from += line_distance)
    for (int p = 0; p < PAIRS; p++) {
      const uint16_t *pair = from + 2 * p * k_distance;
      to[by_line ? line * PAIRS + p : p * STRIP + line] = pair[0] | (uint32_t)pair[k_distance]
                                                                        << 16;
    }
}

#endif

/* One row of a square as stored. */
static inline void copy_row(const operand *x, int64_t first, int64_t columns, uint16_t *to) {
  if (x->dtype == AC_BF16) {
    memcpy(to, (const uint16_t *)x->data + first, (size_t)columns * sizeof *to);
    return;
  }
  const float *from = (const float *)x->data + first;
  if (columns == STRIP) {
#pragma omp simd
    for (int j = 0; j < STRIP; j++) to[j] = ac_bf16_from_float(from[j]);
  } else {
    for (int64_t j = 0; j < columns; j++) to[j] = ac_bf16_from_float(from[j]);
  }
}

/* The strip's step of `x` from `line` and `k` on. What lies beyond x is zeros. */
static inline void pack_step(const operand *x, int64_t line, int64_t k, bool by_line,
                             uint32_t *to) {
  const int64_t lines = ac_min(STRIP, x->lines - line), depth = ac_min(STEP, x->depth - k);
  const int64_t first = x->along ? line * x->distance + k : k * x->distance + line;
  const bool is_whole = lines == STRIP && depth == STEP;
  if (is_whole && x->dtype == AC_BF16) {
    pack_whole((const uint16_t *)x->data + first, x->distance, x->along, by_line, to);
    return;
  }
  uint16_t square[STEP * STRIP];
  const int64_t rows = x->along ? lines : depth, columns = x->along ? depth : lines;
  if (!is_whole) memset(square, 0, sizeof square);
  for (int64_t i = 0; i < rows; i++)
    copy_row(x, first + i * x->distance, columns, square + i * STRIP);
  pack_whole(square, STRIP, x->along, by_line, to);
}

#endif
