/* Sums and maxima of a row. Vector lanes first, then across lanes: the order depends on the
 * instruction set and the length alone. Sums are cut into chunks, so that rounding does not grow
 * with the row. */
#ifndef AC_BACKEND_CPU_REDUCE_H
#define AC_BACKEND_CPU_REDUCE_H

#include "backend/cpu/kernels.h"

enum { AC_CPU_CHUNK = 1024 };

static inline float row_max(const float *x, int64_t n) {
  float result = x[0];
#pragma omp simd reduction(max : result)
  for (int64_t j = 0; j < n; j++) result = x[j] > result ? x[j] : result;
  return result;
}

static inline float row_sum(const float *x, int64_t n) {
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += AC_CPU_CHUNK) {
    int64_t end = ac_min(n, begin + AC_CPU_CHUNK);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = begin; j < end; j++) sum += x[j];
    total += (double)sum;
  }
  return (float)total;
}

static inline float row_dot(const float *x, const float *y, int64_t n) {
  double total = 0;
  for (int64_t begin = 0; begin < n; begin += AC_CPU_CHUNK) {
    int64_t end = ac_min(n, begin + AC_CPU_CHUNK);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = begin; j < end; j++) sum += x[j] * y[j];
    total += (double)sum;
  }
  return (float)total;
}

#endif
