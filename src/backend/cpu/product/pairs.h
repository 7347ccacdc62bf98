/* Packing for products of bf16 (dot.h): squares of sixteen lines by sixteen pairs of neighbours
 * along k, of operands that lie along k or down k. */
#ifndef AC_BACKEND_CPU_PRODUCT_PAIRS_H
#define AC_BACKEND_CPU_PRODUCT_PAIRS_H

#include "backend/cpu/product/dot.h"
#include "backend/cpu/product/transpose.h"
#include "backend/cpu/shared/decode.h"
#include "backend/cpu/shared/kernels.h"

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
  ac_dtype dtype;   /* bf16, or f32, which is rounded to it, as what is decoded is */
  int64_t distance; /* of rows as stored */
  bool along;       /* k lies along those rows */
  int64_t lines, depth;
  ac_blocks blocks; /* it is in blocks, and data is the first one */
  int64_t first;    /* its first element of these */
} operand;

static inline operand part_of_operand(const operand *x, int64_t line, int64_t lines, int64_t k,
                                      int64_t depth) {
  int64_t offset = x->along ? line * x->distance + k : k * x->distance + line;
  operand part = *x;
  if (x->blocks) part.first += offset;
  else part.data = ac_element(x->data, x->dtype, offset);
  part.lines = lines;
  part.depth = depth;
  return part;
}

#if defined(AC_CPU_HAVE_SHUFFLES) && defined(__AVX512F__)

typedef uint16_t half_vector __attribute__((vector_size(64)));
typedef int32_t int_vector __attribute__((vector_size(64)));

/* ac_bf16_from_float of sixteen; its result is the upper half of each. */
static inline __attribute__((always_inline)) words rounded_words(const char *from) {
  words bits;
  memcpy(&bits, from, sizeof bits);
  const words is_nan = (words)((int_vector)(bits & 0x7fffffffu) > 0x7f800000);
  return ((bits | 0x400000u) & is_nan) | ((bits + 0x7fffu + (bits >> 16 & 1u)) & ~is_nan);
}

/* 32 of a row as stored. */
static inline __attribute__((always_inline)) half_vector stored_row(const char *from,
                                                                    ac_dtype dtype) {
  half_vector x;
  if (dtype == AC_BF16) {
    memcpy(&x, from, sizeof x);
    return x;
  }
  const words first = rounded_words(from), second = rounded_words(from + sizeof first);
  return __builtin_shufflevector((half_vector)first, (half_vector)second, 1, 3, 5, 7, 9, 11, 13, 15,
                                 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43, 45, 47, 49,
                                 51, 53, 55, 57, 59, 61, 63);
}

/* Pairs of two rows as stored, column beneath column: those of lines 0 to 15 and of 16 to 31. */
static inline __attribute__((always_inline)) void pair_rows(half_vector x, half_vector y,
                                                            words *low, words *high) {
  *low =
      (words)__builtin_shufflevector(x, y, 0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39,
                                     8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47);
  *high = (words)__builtin_shufflevector(x, y, 16, 48, 17, 49, 18, 50, 19, 51, 20, 52, 21, 53, 22,
                                         54, 23, 55, 24, 56, 25, 57, 26, 58, 27, 59, 28, 60, 29, 61,
                                         30, 62, 31, 63);
}

/* Sixteen lines along k; distances of rows are in bytes from here on. */
static inline __attribute__((always_inline)) void
pack_along(const char *from, ac_dtype dtype, int64_t distance, bool by_line, uint32_t *to) {
  words v[PAIRS];
#pragma GCC unroll 16
  for (int i = 0; i < PAIRS; i++) v[i] = (words)stored_row(from + i * distance, dtype);
  if (!by_line) turn(v);
#pragma GCC unroll 16
  for (int i = 0; i < PAIRS; i++) memcpy(to + i * (by_line ? PAIRS : STRIP), &v[i], sizeof v[i]);
}

static inline __attribute__((always_inline)) void
pack_down(const char *from, ac_dtype dtype, int64_t distance, bool by_line, uint32_t *to) {
  if (!by_line) {
#pragma GCC unroll 4
    for (int i = 0; i < PAIRS; i++, from += 2 * distance, to += STRIP) {
      words low, high;
      pair_rows(stored_row(from, dtype), stored_row(from + distance, dtype), &low, &high);
      memcpy(to, &low, sizeof low);
      memcpy(to + PAIRS, &high, sizeof high);
    }
    return;
  }
  words v[2][PAIRS];
#pragma GCC unroll 16
  for (int i = 0; i < PAIRS; i++, from += 2 * distance)
    pair_rows(stored_row(from, dtype), stored_row(from + distance, dtype), &v[0][i], &v[1][i]);
  for (int half = 0; half < 2; half++, to += PAIRS * PAIRS) {
    turn(v[half]);
    memcpy(to, v[half], sizeof v[half]);
  }
}

static inline __attribute__((always_inline)) void pack_stored(const char *from, ac_dtype dtype,
                                                              int64_t distance, bool along,
                                                              bool by_line, uint32_t *to) {
  if (along) {
    pack_along(from, dtype, distance, by_line, to);
    pack_along(from + PAIRS * distance, dtype, distance, by_line,
               to + (by_line ? PAIRS * PAIRS : PAIRS));
  } else {
    pack_down(from, dtype, distance, by_line, to);
  }
}

/* A step that is all within x, and that begins at `from`. */
static inline void pack_whole(const operand *x, const void *from, bool by_line, uint32_t *to) {
  if (x->dtype == AC_BF16) pack_stored(from, AC_BF16, 2 * x->distance, x->along, by_line, to);
  else pack_stored(from, AC_F32, 4 * x->distance, x->along, by_line, to);
}

#else

static inline __attribute__((always_inline)) void pack_stored(const void *from, ac_dtype dtype,
                                                              int64_t distance, bool along,
                                                              bool by_line, uint32_t *to) {
  const uint16_t *halves = from;
  const float *floats = from;
  const int64_t line_distance = along ? distance : 1, k_distance = along ? 1 : distance;
  for (int line = 0; line < STRIP; line++)
    for (int p = 0; p < PAIRS; p++) {
      const int64_t at = line * line_distance + 2 * p * k_distance, next = at + k_distance;
      to[by_line ? line * PAIRS + p : p * STRIP + line] =
          dtype == AC_BF16
              ? halves[at] | (uint32_t)halves[next] << 16
              : ac_bf16_from_float(floats[at]) | (uint32_t)ac_bf16_from_float(floats[next]) << 16;
    }
}

/* A step that is all within x, and that begins at `from`. */
static inline void pack_whole(const operand *x, const void *from, bool by_line, uint32_t *to) {
  if (x->dtype == AC_BF16) pack_stored(from, AC_BF16, x->distance, x->along, by_line, to);
  else pack_stored(from, AC_F32, x->distance, x->along, by_line, to);
}

#endif

/* A step that is decoded first. */
static inline void pack_decoded(const operand *x, int64_t first, int64_t rows, int64_t columns,
                                bool by_line, uint32_t *to) {
  float square[STEP * STRIP];
  const operand whole = {.data = square,
                         .dtype = AC_F32,
                         .distance = STRIP,
                         .along = x->along,
                         .lines = STRIP,
                         .depth = STEP};
  if (rows < STRIP || columns < STRIP) memset(square, 0, sizeof square);
  for (int64_t i = 0; i < rows; i++)
    ac_cpu_decode_from(x->blocks, x->data, x->first + first + i * x->distance, columns,
                       square + i * STRIP);
  pack_whole(&whole, square, by_line, to);
}

/* The strip's step of `x` from `line` and `k` on. What lies beyond x is zeros. */
static inline void pack_step(const operand *x, int64_t line, int64_t k, bool by_line,
                             uint32_t *to) {
  const int64_t lines = ac_smaller(STRIP, x->lines - line), depth = ac_smaller(STEP, x->depth - k);
  const int64_t first = x->along ? line * x->distance + k : k * x->distance + line;
  if (x->blocks) {
    pack_decoded(x, first, x->along ? lines : depth, x->along ? depth : lines, by_line, to);
    return;
  }
  const char *from = ac_element((void *)x->data, x->dtype, first);
  if (lines == STRIP && depth == STEP) {
    pack_whole(x, from, by_line, to);
    return;
  }
  float square[STEP * STRIP] = {0};
  const int64_t rows = x->along ? lines : depth, columns = x->along ? depth : lines,
                size = ac_element_bytes(x->dtype);
  const operand whole = {.data = square,
                         .dtype = x->dtype,
                         .distance = STRIP,
                         .along = x->along,
                         .lines = STRIP,
                         .depth = STEP};
  for (int64_t i = 0; i < rows; i++)
    memcpy((char *)square + i * STRIP * size, from + i * x->distance * size,
           (size_t)(columns * size));
  pack_whole(&whole, square, by_line, to);
}

#endif
