/* What norms share: the statistics of a row, and the sums over rows that are the gradients of gamma
 * and beta. */
#ifndef AC_BACKEND_CPU_NORM_H
#define AC_BACKEND_CPU_NORM_H

#include "backend/cpu/shared/convert.h"
#include "backend/cpu/shared/reduce.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct row_scale {
  float mean, inverse; /* 1 / std */
} row_scale;

/* For a row with a sum or squares that are too large for a float. */
static inline row_scale large_row_scale(const float *x, int64_t n) {
  double sum = 0, squares = 0;
  for (int64_t j = 0; j < n; j++) sum += (double)x[j];
  double mean = sum / (double)n;
  for (int64_t j = 0; j < n; j++) squares += ((double)x[j] - mean) * ((double)x[j] - mean);
  return (row_scale){(float)mean, (float)(1.0 / sqrt(squares / (double)n))};
}

/* g = gamma v, or v unless `weighted`, a constant where this is inlined. */
static inline __attribute__((always_inline)) float weighted_by(const float *gamma, int64_t j,
                                                               bool weighted, float v) {
  return weighted ? v * gamma[j] : v;
}

/* The statistics of a row, kept in statistics[0] and [1]. The variance is computed from the centred
 * row, in a second pass over what is in the nearest cache. */
static inline row_scale row_statistics(const float *x, int64_t n, float epsilon,
                                       float *statistics) {
  float mean = row_sum(x, n) / (float)n, squares = row_centred_squares(x, mean, n);
  float inverse = 1.0f / sqrtf(squares / (float)n + epsilon);
  if (!(squares <= FLT_MAX)) {
    row_scale large = large_row_scale(x, n);
    mean = large.mean;
    inverse = large.inverse;
  }
  statistics[0] = mean;
  statistics[1] = inverse;
  return (row_scale){mean, inverse};
}

/* Sums over rows are taken in strips of columns that fit on the stack. Each has one owner and is
 * summed in the order of rows, so the bits do not depend on the threads; some rows are added up
 * before they join the sum, which saves traffic and rounding. */
enum { STRIP = 512, GROUP = 4 };

/* Adds what `rows` rows of dy and x, at most GROUP, contribute to the sums, one for each output;
 * rows are `stride` apart, and `statistics` are those of the first. */
typedef void (*add_rows)(int64_t rows, int64_t stride, int64_t width, const float *dy,
                         const float *x, const float *statistics, float (*sums)[STRIP]);

/* Asks for what of these rows a strip reads, some groups ahead: where rows are far apart the
 * hardware asks for nothing. Inlined always: gcc drops calls of functions that only prefetch. */
static inline __attribute__((always_inline)) void fetch_group(const ac_operand *x, int64_t row,
                                                              int64_t begin, int64_t width) {
  enum { AHEAD = 4 * GROUP };
  if (row + AHEAD + GROUP > ac_rows(x)) return;
  const int64_t columns = ac_columns(x), bytes = width * ac_element_bytes(x->dtype);
  for (int64_t k = 0; k < GROUP; k++) {
    const uintptr_t from = (uintptr_t)x->data + (uintptr_t)(((row + AHEAD + k) * columns + begin) *
                                                            ac_element_bytes(x->dtype));
    for (uintptr_t line = from; line < from + (uintptr_t)bytes; line += 64)
      __builtin_prefetch((const void *)line);
  }
}

/* Columns [begin, begin + width) of the gradients of an op on dy, x and statistics; there are
 * `kept` statistics for each row. `add` is a constant where this is inlined. */
static inline __attribute__((always_inline)) void sum_strip(const ac_op_args *args, int64_t begin,
                                                            int64_t width, int outputs, int kept,
                                                            add_rows add) {
  const float *statistics = args->in[2].data;
  ac_dtype dtype = args->in[0].dtype;
  int64_t rows = ac_rows(&args->in[0]), columns = ac_columns(&args->in[0]);
  float sums[2][STRIP], group[2][GROUP * STRIP];
  memset(sums, 0, sizeof sums);
  for (int64_t i = 0; i < rows; i += GROUP) {
    const void *dy = ac_element(args->in[0].data, dtype, i * columns + begin),
               *x = ac_element(args->in[1].data, dtype, i * columns + begin);
    int64_t count = ac_smaller(GROUP, rows - i);
    for (int k = 0; k < 2; k++) fetch_group(&args->in[k], i, begin, width);
    if (dtype == AC_F32) {
      add(count, columns, width, dy, x, statistics + kept * i, sums);
      continue;
    }
    ac_cpu_widen_rows(dtype, dy, columns, group[0], STRIP, count, width);
    ac_cpu_widen_rows(dtype, x, columns, group[1], STRIP, count, width);
    add(count, STRIP, width, group[0], group[1], statistics + kept * i, sums);
  }
  for (int k = 0; k < outputs; k++) {
    if (!args->out[k].count) continue;
    float *out = (float *)args->out[k].data + begin;
    for (int64_t j = 0; j < width; j++) out[j] = args->add[k] ? out[j] + sums[k][j] : sums[k][j];
  }
}

/* One thread's strips. */
static inline __attribute__((always_inline)) void
sum_strips(const ac_op_args *args, int outputs, int kept, add_rows add, int thread, int team) {
  int64_t columns = ac_columns(&args->in[0]), most = ac_cpu_strip(columns, team, STRIP);
  for (int64_t begin = thread * most; begin < columns; begin += team * most)
    sum_strip(args, begin, ac_smaller(most, columns - begin), outputs, kept, add);
}

#endif
