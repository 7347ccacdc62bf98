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

/* to[k * width + j] = from[j * distance + k] for j < rows and k < count, in blocks of 4 x 4. */
static inline void transpose_rows(const float *from, int64_t distance, int64_t rows, int64_t count,
                                  float *to, int64_t width) {
  int64_t j = 0;
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
