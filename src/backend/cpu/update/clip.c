/* A gradient clipped before its step (formulas in ops/update/clip.h), bound by memory. Sums of
 * squares are in double. Units that are columns are taken BLOCK of them at a time, each by one
 * thread. */
#include "ops/update/clip.h"

#include "backend/cpu/shared/kernels.h"

#include <math.h>

enum { BLOCK = 64 };

/* What a unit's gradient is multiplied with. */
static float unit_factor(const ac_clip_attributes *a, double parameter, double gradient) {
  const float factor = a->gradient_factor, norm = (float)(fabs((double)factor) * sqrt(gradient)),
              most = a->limit * larger(AC_CLIP_LEAST_NORM, (float)sqrt(parameter));
  if (norm < most) return factor;
  return factor * (most / larger(AC_CLIP_LEAST_GRADIENT, norm));
}

static void value_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_clip_attributes *a = args->attributes;
  const float *g = args->in[0].data;
  float *y = args->out[0].data;
  const float factor = a->gradient_factor, limit = a->limit;
#pragma omp simd
  for (int64_t i = first; i < last; i++) y[i] = smaller(limit, larger(-limit, factor * g[i]));
}

static void rows_range(const ac_op_args *args, int64_t first, int64_t last) {
  const int64_t columns = ac_clip_matrix_of(args).columns;
  for (int64_t row = first; row < last; row++) {
    const float *g = (const float *)args->in[0].data + row * columns,
                *p = (const float *)args->in[1].data + row * columns;
    float *y = (float *)args->out[0].data + row * columns;
    double of_g = 0, of_p = 0;
#pragma omp simd reduction(+ : of_g, of_p)
    for (int64_t j = 0; j < columns; j++) {
      of_g += (double)g[j] * (double)g[j];
      of_p += (double)p[j] * (double)p[j];
    }
    const float factor = unit_factor(args->attributes, of_p, of_g);
#pragma omp simd
    for (int64_t j = 0; j < columns; j++) y[j] = factor * g[j];
  }
}

static void clip_columns(const ac_op_args *args, int64_t first, int64_t count) {
  const ac_clip_matrix m = ac_clip_matrix_of(args);
  const float *g = (const float *)args->in[0].data + first,
              *p = (const float *)args->in[1].data + first;
  float *y = (float *)args->out[0].data + first, factor[BLOCK];
  double of_g[BLOCK] = {0}, of_p[BLOCK] = {0};
  for (int64_t i = 0; i < m.rows; i++)
#pragma omp simd
    for (int64_t j = 0; j < count; j++) {
      const double u = (double)g[i * m.columns + j], v = (double)p[i * m.columns + j];
      of_g[j] += u * u;
      of_p[j] += v * v;
    }
  for (int64_t j = 0; j < count; j++) factor[j] = unit_factor(args->attributes, of_p[j], of_g[j]);
  for (int64_t i = 0; i < m.rows; i++)
#pragma omp simd
    for (int64_t j = 0; j < count; j++) y[i * m.columns + j] = factor[j] * g[i * m.columns + j];
}

static void columns_range(const ac_op_args *args, int64_t first, int64_t last) {
  for (int64_t at = first; at < last; at += BLOCK)
    clip_columns(args, at, ac_smaller(BLOCK, last - at));
}

static void clip(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_clip_attributes *a = args->attributes;
  const ac_clip_matrix m = ac_clip_matrix_of(args);
  if (!a->adaptive) ac_cpu_for(context, args, args->in[0].count, 1, value_range);
  else if (a->by_column) ac_cpu_for(context, args, m.columns, m.rows, columns_range);
  else ac_cpu_for(context, args, m.rows, m.columns, rows_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(clip) = {.run = clip};
