/* Panels of products are often what lies across in memory. */
#ifndef AC_BACKEND_CPU_PRODUCT_TRANSPOSE_H
#define AC_BACKEND_CPU_PRODUCT_TRANSPOSE_H

#include <stdint.h>
#include <string.h>

#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define AC_CPU_HAVE_SHUFFLES
#endif
#endif

#if defined(AC_CPU_HAVE_SHUFFLES) && defined(__AVX512F__)

/* Sixteen rows of elements of 32 bits, transposed in registers. */
enum { WORDS = 16 };
typedef uint32_t words __attribute__((vector_size(64)));
typedef uint64_t double_words __attribute__((vector_size(64)));

static inline __attribute__((always_inline)) void turn(words v[WORDS]) {
  words t[WORDS];
#pragma GCC unroll 16
  for (int i = 0; i < WORDS; i += 2) {
    t[i] = __builtin_shufflevector(v[i], v[i + 1], 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28,
                                   13, 29);
    t[i + 1] = __builtin_shufflevector(v[i], v[i + 1], 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27,
                                       14, 30, 15, 31);
  }
#pragma GCC unroll 16
  for (int i = 0; i < WORDS; i += 4)
    for (int j = 0; j < 2; j++) {
      double_words x = (double_words)t[i + j], y = (double_words)t[i + j + 2];
      v[i + 2 * j] = (words)__builtin_shufflevector(x, y, 0, 8, 2, 10, 4, 12, 6, 14);
      v[i + 2 * j + 1] = (words)__builtin_shufflevector(x, y, 1, 9, 3, 11, 5, 13, 7, 15);
    }
    /* Now v[4 g + c] has column c of each quarter q, for rows 4 g to 4 g + 3. */
#pragma GCC unroll 16
  for (int c = 0; c < 4; c++) {
    double_words a = (double_words)v[c], b = (double_words)v[c + 4], d = (double_words)v[c + 8],
                 e = (double_words)v[c + 12];
    double_words ab02 = __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13);
    double_words ab13 = __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15);
    double_words de02 = __builtin_shufflevector(d, e, 0, 1, 4, 5, 8, 9, 12, 13);
    double_words de13 = __builtin_shufflevector(d, e, 2, 3, 6, 7, 10, 11, 14, 15);
    t[c] = (words)__builtin_shufflevector(ab02, de02, 0, 1, 4, 5, 8, 9, 12, 13);
    t[c + 8] = (words)__builtin_shufflevector(ab02, de02, 2, 3, 6, 7, 10, 11, 14, 15);
    t[c + 4] = (words)__builtin_shufflevector(ab13, de13, 0, 1, 4, 5, 8, 9, 12, 13);
    t[c + 12] = (words)__builtin_shufflevector(ab13, de13, 2, 3, 6, 7, 10, 11, 14, 15);
  }
#pragma GCC unroll 16
  for (int i = 0; i < WORDS; i++) v[i] = t[i];
}

/* to[k * width + i] = from[i * distance + k] for 16 of either. */
static inline void transpose_square(const float *from, int64_t distance, float *to, int64_t width) {
  words v[WORDS];
#pragma GCC unroll 16
  for (int i = 0; i < WORDS; i++) memcpy(&v[i], from + i * distance, sizeof v[i]);
  turn(v);
#pragma GCC unroll 16
  for (int k = 0; k < WORDS; k++) memcpy(to + k * width, &v[k], sizeof v[k]);
}

/* The first rows of transpose_rows, in whole squares; returns how many. */
static inline int64_t transpose_squares(const float *from, int64_t distance, int64_t rows,
                                        int64_t count, float *to, int64_t width) {
  int64_t j = 0;
  if (count % WORDS) return 0;
  for (; j + WORDS <= rows; j += WORDS)
    for (int64_t k = 0; k < count; k += WORDS)
      transpose_square(from + j * distance + k, distance, to + k * width + j, width);
  return j;
}

#else

static inline int64_t transpose_squares(const float *from, int64_t distance, int64_t rows,
                                        int64_t count, float *to, int64_t width) {
  (void)from, (void)distance, (void)rows, (void)count, (void)to, (void)width;
  return 0;
}

#endif

/* to[k * width + j] = from[j * distance + k] for j < rows and k < count, in blocks of 4 x 4 or
 * more. */
static inline void transpose_rows(const float *from, int64_t distance, int64_t rows, int64_t count,
                                  float *to, int64_t width) {
  int64_t j = transpose_squares(from, distance, rows, count, to, width);
  from += j * distance;
#ifdef AC_CPU_HAVE_SHUFFLES
  typedef float four __attribute__((vector_size(16)));
  for (; j + 4 <= rows; j += 4, from += 4 * distance) {
    int64_t k = 0;
    for (; k + 4 <= count; k += 4) {
      four r[4], t[4];
      for (int i = 0; i < 4; i++) memcpy(&r[i], from + i * distance + k, sizeof r[i]);
      t[0] = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
      t[1] = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
      t[2] = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
      t[3] = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
      r[0] = __builtin_shufflevector(t[0], t[1], 0, 1, 4, 5);
      r[1] = __builtin_shufflevector(t[0], t[1], 2, 3, 6, 7);
      r[2] = __builtin_shufflevector(t[2], t[3], 0, 1, 4, 5);
      r[3] = __builtin_shufflevector(t[2], t[3], 2, 3, 6, 7);
      for (int i = 0; i < 4; i++) memcpy(to + (k + i) * width + j, &r[i], sizeof r[i]);
    }
    for (; k < count; k++)
      for (int i = 0; i < 4; i++) to[k * width + j + i] = from[i * distance + k];
  }
#endif
  for (; j < rows; j++, from += distance)
    for (int64_t k = 0; k < count; k++) to[k * width + j] = from[k];
}

/* Zeros in columns [first, width) of `count` rows. By columns, which are few: a call for each row
 * would take longer. */
static inline void clear_columns(float *to, int64_t count, int64_t first, int64_t width) {
  for (int64_t j = first; j < width; j++)
    for (int64_t k = 0; k < count; k++) to[k * width + j] = 0.0f;
}

#endif
