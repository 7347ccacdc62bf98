/* Sums and maxima of a row, in 16 lanes that are then combined pairwise: the order depends on the
 * length alone, not on the width of the vectors. (A compiler's own reduction adds up the lanes one
 * after another.) Sums of long rows are taken in chunks, so that rounding does not grow with the
 * row. */
#ifndef AC_BACKEND_CPU_REDUCE_H
#define AC_BACKEND_CPU_REDUCE_H

#include "backend/cpu/shared/kernels.h"

enum { AC_CPU_LANES = 16, AC_CPU_CHUNK = 4096 };

typedef struct lanes {
  float v[AC_CPU_LANES];
} lanes;

static inline float lanes_sum(lanes a) {
  for (int l = 0; l < 8; l++) a.v[l] += a.v[l + 8];
  for (int l = 0; l < 4; l++) a.v[l] += a.v[l + 4];
  return (a.v[0] + a.v[2]) + (a.v[1] + a.v[3]);
}

static inline lanes lanes_add(lanes a, lanes b) {
  for (int l = 0; l < AC_CPU_LANES; l++) a.v[l] += b.v[l];
  return a;
}

static inline float lanes_max(lanes a) {
  for (int l = 0; l < 8; l++) a.v[l] = larger(a.v[l], a.v[l + 8]);
  for (int l = 0; l < 4; l++) a.v[l] = larger(a.v[l], a.v[l + 4]);
  return larger(larger(a.v[0], a.v[2]), larger(a.v[1], a.v[3]));
}

static inline float row_max(const float *x, int64_t n) {
  lanes max;
  for (int l = 0; l < AC_CPU_LANES; l++) max.v[l] = x[0];
  int64_t j = 0;
  for (; j + AC_CPU_LANES <= n; j += AC_CPU_LANES) {
#pragma omp simd
    for (int l = 0; l < AC_CPU_LANES; l++) max.v[l] = larger(max.v[l], x[j + l]);
  }
  for (int l = 0; j + l < n; l++) max.v[l] = larger(max.v[l], x[j + l]);
  return lanes_max(max);
}

static inline float row_sum(const float *x, int64_t n) {
  double total = 0;
  for (int64_t j = 0; j < n;) {
    int64_t end = ac_smaller(n, j + AC_CPU_CHUNK);
    lanes sum = {{0}}, other = {{0}}; /* in turn, for each addition waits for the one before */
    for (; j + 2 * AC_CPU_LANES <= end; j += 2 * AC_CPU_LANES) {
#pragma omp simd
      for (int l = 0; l < AC_CPU_LANES; l++) {
        sum.v[l] += x[j + l];
        other.v[l] += x[j + AC_CPU_LANES + l];
      }
    }
    for (; j + AC_CPU_LANES <= end; j += AC_CPU_LANES) {
#pragma omp simd
      for (int l = 0; l < AC_CPU_LANES; l++) sum.v[l] += x[j + l];
    }
    for (int l = 0; j < end; j++, l++) sum.v[l] += x[j];
    total += (double)lanes_sum(lanes_add(sum, other));
  }
  return (float)total;
}

static inline float row_dot(const float *x, const float *y, int64_t n) {
  double total = 0;
  for (int64_t j = 0; j < n;) {
    int64_t end = ac_smaller(n, j + AC_CPU_CHUNK);
    lanes sum = {{0}};
    for (; j + AC_CPU_LANES <= end; j += AC_CPU_LANES) {
#pragma omp simd
      for (int l = 0; l < AC_CPU_LANES; l++) sum.v[l] += x[j + l] * y[j + l];
    }
    for (int l = 0; j < end; j++, l++) sum.v[l] += x[j] * y[j];
    total += (double)lanes_sum(sum);
  }
  return (float)total;
}

/* The sum of squares of a row's differences from its mean. */
static inline float row_centred_squares(const float *x, float mean, int64_t n) {
  double total = 0;
  for (int64_t j = 0; j < n;) {
    int64_t end = ac_smaller(n, j + AC_CPU_CHUNK);
    lanes sum = {{0}}, other = {{0}};
    for (; j + 2 * AC_CPU_LANES <= end; j += 2 * AC_CPU_LANES) {
#pragma omp simd
      for (int l = 0; l < AC_CPU_LANES; l++) {
        float a = x[j + l] - mean, b = x[j + AC_CPU_LANES + l] - mean;
        sum.v[l] += a * a;
        other.v[l] += b * b;
      }
    }
    for (; j + AC_CPU_LANES <= end; j += AC_CPU_LANES) {
#pragma omp simd
      for (int l = 0; l < AC_CPU_LANES; l++) {
        float centred = x[j + l] - mean;
        sum.v[l] += centred * centred;
      }
    }
    for (int l = 0; j < end; j++, l++) sum.v[l] += (x[j] - mean) * (x[j] - mean);
    total += (double)lanes_sum(lanes_add(sum, other));
  }
  return (float)total;
}

/* Sums of g and of g (x - mean), added to *sum and *centred. */
static inline void row_gradient_sums(const float *g, const float *x, float mean, int64_t n,
                                     double *sum, double *centred) {
  if (n < AC_CPU_LANES) { /* not worth the lanes */
    for (int64_t j = 0; j < n; j++) {
      *sum += (double)g[j];
      *centred += (double)(g[j] * (x[j] - mean));
    }
    return;
  }
  for (int64_t j = 0; j < n;) {
    int64_t end = ac_smaller(n, j + AC_CPU_CHUNK);
    lanes plain = {{0}}, with_x = {{0}};
    for (; j + AC_CPU_LANES <= end; j += AC_CPU_LANES) {
#pragma omp simd
      for (int l = 0; l < AC_CPU_LANES; l++) {
        plain.v[l] += g[j + l];
        with_x.v[l] += g[j + l] * (x[j + l] - mean);
      }
    }
    for (int l = 0; j < end; j++, l++) {
      plain.v[l] += g[j];
      with_x.v[l] += g[j] * (x[j] - mean);
    }
    *sum += (double)lanes_sum(plain);
    *centred += (double)lanes_sum(with_x);
  }
}

/* Element `at` of an output that may be absent or added to. */
static inline void store_sum(const ac_op_args *args, int output, int64_t at, double sum) {
  if (!args->out[output].count) return;
  float *out = (float *)args->out[output].data + at;
  *out = (float)(args->add[output] ? (double)*out + sum : sum);
}

#endif
