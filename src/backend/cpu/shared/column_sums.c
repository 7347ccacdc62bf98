/* Sums of columns. They are made in strips that fit on the stack; eight rows are added up before
 * they join the sum, which saves traffic and rounding. Each strip has one owner, so the bits do not
 * depend on the threads. */
#include "backend/cpu/shared/convert.h"

#include <string.h>

enum { STRIP = 256, GROUP = 8 };

static void sum_group(int64_t rows, int64_t stride, int64_t width, const float *x, float *sum) {
  if (rows == GROUP) {
    const float *r0 = x, *r1 = r0 + stride, *r2 = r1 + stride, *r3 = r2 + stride;
    const float *r4 = r3 + stride, *r5 = r4 + stride, *r6 = r5 + stride, *r7 = r6 + stride;
#pragma omp simd
    for (int64_t j = 0; j < width; j++)
      sum[j] += ((r0[j] + r1[j]) + (r2[j] + r3[j])) + ((r4[j] + r5[j]) + (r6[j] + r7[j]));
    return;
  }
  for (int64_t i = 0; i < rows; i++) {
    const float *row = x + i * stride;
#pragma omp simd
    for (int64_t j = 0; j < width; j++) sum[j] += row[j];
  }
}

static void sum_strip(int64_t rows, int64_t stride, int64_t width, const void *x, ac_dtype dtype,
                      float *y, bool add_to) {
  float sum[STRIP], group[GROUP * STRIP];
  memset(sum, 0, sizeof sum);
  for (int64_t i = 0; i < rows; i += GROUP) {
    const void *from = ac_element(x, dtype, i * stride);
    int64_t count = ac_smaller(GROUP, rows - i);
    if (dtype == AC_F32) {
      sum_group(count, stride, width, from, sum);
      continue;
    }
    ac_cpu_widen_rows(dtype, from, stride, group, STRIP, count, width);
    sum_group(count, STRIP, width, group, sum);
  }
#pragma omp simd
  for (int64_t j = 0; j < width; j++) y[j] = add_to ? y[j] + sum[j] : sum[j];
}

void ac_cpu_column_sums(int64_t rows, int64_t columns, const void *x, ac_dtype dtype, float *y,
                        bool add_to, int thread, int team) {
  int64_t strip = ac_cpu_strip(columns, team, STRIP);
  for (int64_t begin = thread * strip; begin < columns; begin += team * strip)
    sum_strip(rows, columns, ac_smaller(strip, columns - begin), ac_element(x, dtype, begin), dtype,
              y + begin, add_to);
}
