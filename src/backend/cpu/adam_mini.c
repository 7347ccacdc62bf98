/* Adam-mini's step (formulas in ops/adam_mini.h), bound by memory. A row is stepped when its moment
 * is known, while it is in a cache. Moments of columns take a pass of their own, each column's sum
 * by one thread, which leaves what the columns' steps are multiplied with in the workspace: sums in
 * double [C], then factors [C]. */
#include "ops/adam_mini.h"

#include "backend/cpu/convert.h"
#include "backend/cpu/update.h"

#include <math.h>

/* Moves the mean of squares into the moment; returns what the block's step is multiplied with. */
static float take_moment(const ac_adam_mini_attributes *a, float *v, double sum, int64_t count) {
  const float mean = (float)(sum / (double)count);
  *v += (1.0f - a->beta2) * (mean - *v);
  return a->rate / a->correction1 / (sqrtf(*v) / a->sqrt_correction2 + a->epsilon);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static double row_squares(const float *g, float factor, int64_t count) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; i++) {
    const float gradient = factor * g[i];
    sum += (double)(gradient * gradient);
  }
  return sum;
}

static void rows_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_adam_mini_attributes *a = args->attributes;
  const int64_t columns = ac_adam_mini_matrix_of(args).columns;
  const ac_operand *w = &args->out[3];
  const float factor = a->gradient_factor, keep = 1.0f - a->rate * a->weight_decay,
              blend = 1.0f - a->beta1;
  for (int64_t row = first; row < last; row++) {
    const float *g = (const float *)args->in[0].data + row * columns;
    float *p = (float *)args->out[0].data + row * columns,
          *m = (float *)args->out[1].data + row * columns;
    const float step =
        take_moment(a, (float *)args->out[2].data + row, row_squares(g, factor, columns), columns);
#pragma omp simd
    for (int64_t j = 0; j < columns; j++) {
      const float moved = m[j] + blend * (factor * g[j] - m[j]);
      m[j] = moved;
      p[j] = p[j] * keep - step * moved;
    }
    if (w->count)
      ac_cpu_narrow(w->dtype, args->run->mark_flushed, p,
                    ac_element(w->data, w->dtype, row * columns), columns);
  }
}

/* ---- columns --------------------------------------------------------------------------------- */

static float *factors_of(const ac_op_args *args, int64_t columns) {
  return (float *)((double *)args->workspace + columns);
}

static void moments_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_adam_mini_attributes *a = args->attributes;
  const ac_adam_mini_matrix m = ac_adam_mini_matrix_of(args);
  double *sums = args->workspace;
  float *factors = factors_of(args, m.columns), *v = args->out[2].data;
  for (int64_t j = first; j < last; j++) sums[j] = 0;
  for (int64_t i = 0; i < m.rows; i++) {
    const float *g = (const float *)args->in[0].data + i * m.columns;
#pragma omp simd
    for (int64_t j = first; j < last; j++) {
      const float gradient = a->gradient_factor * g[j];
      sums[j] += (double)(gradient * gradient);
    }
  }
  for (int64_t j = first; j < last; j++) factors[j] = take_moment(a, &v[j], sums[j], m.rows);
}

static void step_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_adam_mini_attributes *a = args->attributes;
  const int64_t columns = ac_adam_mini_matrix_of(args).columns;
  const float *g = args->in[0].data, *factors = factors_of(args, columns);
  float *p = args->out[0].data, *m = args->out[1].data;
  const float factor = a->gradient_factor, keep = 1.0f - a->rate * a->weight_decay,
              blend = 1.0f - a->beta1;
  for (int64_t row = first - first % columns, at = first; at < last; row += columns) {
    const int64_t end = ac_min(last, row + columns);
#pragma omp simd
    for (int64_t j = at; j < end; j++) {
      const float moved = m[j] + blend * (factor * g[j] - m[j]);
      m[j] = moved;
      p[j] = p[j] * keep - factors[j - row] * moved;
    }
    at = end;
  }
  ac_cpu_copy_parameters(&args->out[3], p, first, last);
}

/* ---------------------------------------------------------------------------------------------- */

static void adam_mini(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_adam_mini_matrix m = ac_adam_mini_matrix_of(args);
  if (!m.by_column) {
    ac_cpu_for(context, args, m.rows, m.columns, rows_range);
    return;
  }
  ac_cpu_for(context, args, m.columns, m.rows, moments_range);
  ac_cpu_for_floats(context, args, args->in[0].count, 1, step_range);
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  (void)context;
  const ac_adam_mini_matrix m = ac_adam_mini_matrix_of(args);
  return m.by_column ? (uint64_t)m.columns * (sizeof(double) + sizeof(float)) : 0;
}

const ac_cpu_kernel AC_CPU_KERNEL(adam_mini) = {adam_mini, workspace};
