/* Adam-mini's step (formulas in ops/update/adam_mini.h), bound by memory. A row is stepped when its
 * moment is known, while it is in a cache. Moments of columns need a pass of their own; each column
 * is summed by one thread. That pass leaves sums in double [C] in the workspace, and then the
 * factors [C] of the columns' steps. */
#include "ops/update/adam_mini.h"

#include "backend/cpu/shared/convert.h"
#include "backend/cpu/update/update.h"

#include <math.h>

/* Moves the mean of squares into the moment. */
static void take_moment(const ac_adam_mini_attributes *a, float *v, double sum, int64_t count) {
  const float mean = (float)(sum / (double)count);
  *v += a->take2 * (mean - *v);
}

/* What the step of a block with this moment is multiplied with. */
static float factor_of(const ac_adam_mini_attributes *a, float v) {
  return a->rate / a->correction1 / (sqrtf(v) / a->sqrt_correction2 + a->epsilon);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static double run_squares(const ac_op_args *args, int64_t first, int64_t count) {
  _Alignas(64) float gradients[AC_CPU_STEPPED];
  const float factor = ((const ac_adam_mini_attributes *)args->attributes)->gradient_factor;
  const float *g = stepped_read(&args->in[0], first, count, gradients);
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; i++) {
    const float gradient = factor * g[i];
    sum += (double)(gradient * gradient);
  }
  return sum;
}

static double row_squares(const ac_op_args *args, int64_t first, int64_t last) {
  double sum = 0;
  for (int64_t at = first, count; at < last; at += count) {
    count = ac_smaller(last - at, stepped_run(args));
    sum += run_squares(args, at, count);
  }
  return sum;
}

/* Elements [first, last), which lie in one row. */
static void step_row(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_adam_mini_attributes *a = args->attributes;
  const float *v = args->out[2].data, *g = (const float *)args->in[0].data + first;
  const ac_operand *w = &args->out[3];
  float *p = (float *)args->out[0].data + first, *m = (float *)args->out[1].data + first;
  const float step = factor_of(a, v[first / ac_adam_mini_matrix_of(args).columns]);
  const float factor = a->gradient_factor, keep = 1.0f - a->rate * a->weight_decay,
              blend = a->take1;
#pragma omp simd
  for (int64_t j = 0; j < last - first; j++) {
    const float moved = m[j] + blend * (factor * g[j] - m[j]);
    m[j] = moved;
    p[j] = p[j] * keep - step * moved;
  }
  if (w->count)
    ac_cpu_narrow(w->dtype, args->run->mark_flushed, p, ac_element(w->data, w->dtype, first),
                  last - first);
}

static void rows_range(const ac_op_args *args, int64_t first, int64_t last) {
  const int64_t columns = ac_adam_mini_matrix_of(args).columns;
  float *v = args->out[2].data;
  stepped_block b;
  stepped_begin(&b, args);
  for (int64_t row = first; row < last; row++) {
    const int64_t begin = row * columns, end = begin + columns;
    take_moment(args->attributes, &v[row], row_squares(args, begin, end), columns);
    stepped_part(&b, begin, end, step_row);
  }
}

/* ---- columns --------------------------------------------------------------------------------- */

static float *factors_of(const ac_op_args *args, int64_t columns) {
  return (float *)((double *)args->workspace + columns);
}

/* Adds the squares of elements [first, first + count), which lie in one row, to the columns'. */
static void add_squares(const ac_op_args *args, int64_t first, int64_t count, double *sums) {
  _Alignas(64) float gradients[AC_CPU_STEPPED];
  const float factor = ((const ac_adam_mini_attributes *)args->attributes)->gradient_factor;
  const float *g = stepped_read(&args->in[0], first, count, gradients);
#pragma omp simd
  for (int64_t j = 0; j < count; j++) {
    const float gradient = factor * g[j];
    sums[j] += (double)(gradient * gradient);
  }
}

static void moments_range(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_adam_mini_attributes *a = args->attributes;
  const ac_adam_mini_matrix m = ac_adam_mini_matrix_of(args);
  double *sums = args->workspace;
  float *factors = factors_of(args, m.columns), *v = args->out[2].data;
  for (int64_t j = first; j < last; j++) sums[j] = 0;
  for (int64_t i = 0; i < m.rows; i++)
    for (int64_t j = first, count; j < last; j += count) {
      count = ac_smaller(last - j, stepped_run(args));
      add_squares(args, i * m.columns + j, count, sums + j);
    }
  for (int64_t j = first; j < last; j++) {
    take_moment(a, &v[j], sums[j], m.rows);
    factors[j] = factor_of(a, v[j]);
  }
}

static void step_floats(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_adam_mini_attributes *a = args->attributes;
  const int64_t columns = ac_adam_mini_matrix_of(args).columns;
  const float *g = args->in[0].data, *factors = factors_of(args, columns);
  float *p = args->out[0].data, *m = args->out[1].data;
  const float factor = a->gradient_factor, keep = 1.0f - a->rate * a->weight_decay,
              blend = a->take1;
  for (int64_t row = first - first % columns, at = first; at < last; row += columns) {
    const int64_t end = ac_smaller(last, row + columns);
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

static void step_range(const ac_op_args *args, int64_t first, int64_t last) {
  stepped_range(args, first, last, step_floats);
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

const ac_cpu_kernel AC_CPU_KERNEL(adam_mini) = {.run = adam_mini, .workspace = workspace};
