/* The pass over the gradients at the end of a window, and the updates (formulas in
 * ops/update/optimizer.h). Each update is one fused pass, bound by memory. It also writes the
 * working copy of the parameters, and state in 8 bits (core/eight_bit.h), a block at a time. */
#include "backend/cpu/shared/convert.h"
#include "backend/cpu/shared/vector_math.h"
#include "backend/cpu/update/update.h"
#include "ops/update/optimizer.h"

#include <math.h>

/* Sums are taken in blocks of fixed size, so that they do not depend on the threads. */
enum { BLOCK = 16384 };

typedef struct block_result {
  double sum;
  uint64_t not_finite;
} block_result;

static double sum_squares(const float *g, double scale, int64_t count) {
  double sum = 0, other = 0; /* in turn, for each addition waits for the one before */
  int64_t half = count / 2;
#pragma omp simd reduction(+ : sum, other)
  for (int64_t i = 0; i < half; i++) {
    double a = (double)g[i] * scale, b = (double)g[half + i] * scale;
    sum += a * a;
    other += b * b;
  }
  double last = count % 2 ? (double)g[count - 1] * scale : 0;
  return sum + last * last + other;
}

static bool any_not_finite(const float *g, int64_t count) {
  uint32_t bad = 0;
#pragma omp simd reduction(| : bad)
  for (int64_t i = 0; i < count; i++) bad |= (ac_float_bits(g[i]) & 0x7f800000u) == 0x7f800000u;
  return bad;
}

static void statistics_range(const ac_op_args *args, int64_t first, int64_t last) {
  float scale = ((const ac_gradient_statistics_attributes *)args->attributes)->scale;
  block_result *results = args->workspace;
  const ac_operand *gradient = &args->in[0];
  float widened[BLOCK];
  for (int64_t block = first; block < last; block++) {
    const float *g = ac_element(gradient->data, gradient->dtype, block * BLOCK);
    int64_t count = ac_smaller(BLOCK, gradient->count - block * BLOCK);
    if (gradient->dtype != AC_F32) {
      ac_cpu_widen(gradient->dtype, g, widened, count);
      g = widened;
    }
    double sum = sum_squares(g, (double)scale, count);
    results[block] = (block_result){sum, !isfinite(sum) && any_not_finite(g, count)};
  }
}

static void gradient_statistics(const ac_cpu_context *context, const ac_op_args *args) {
  int64_t blocks = ac_ceil_div(args->in[0].count, BLOCK);
  ac_cpu_for(context, args, blocks, BLOCK, statistics_range);
  const block_result *results = args->workspace;
  double sum = 0;
  uint64_t bad = 0;
  for (int64_t i = 0; i < blocks; i++) {
    sum += results[i].sum;
    bad |= results[i].not_finite;
  }
  float *out = args->out[0].data;
  int exponent = sum > AC_SQUARES_MOST               ? AC_SQUARES_EXPONENT
                 : sum > 0 && sum < AC_SQUARES_LEAST ? -AC_SQUARES_EXPONENT
                                                     : 0;
  out[0] = (float)(bad ? sum : ldexp(sum, -2 * exponent));
  out[1] = (float)(bad ? AC_SQUARES_NOT_FINITE : exponent);
}

static uint64_t statistics_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  (void)context;
  return (uint64_t)ac_ceil_div(args->in[0].count, BLOCK) * sizeof(block_result);
}

/* ---- storage --------------------------------------------------------------------------------- */

static bool is_eight_bit(const ac_op_args *args) {
  return args->out[1].count && args->out[1].dtype == AC_U8;
}

void ac_cpu_step_floats(const ac_op_args *args, int states, ac_cpu_formula *step, int64_t first,
                        int64_t last) {
  float *kept[AC_CPU_STATES] = {NULL, NULL};
  for (int k = 0; k < states; k++)
    if (args->out[1 + k].count) kept[k] = (float *)args->out[1 + k].data + first;
  step(args, first, last - first, kept[0], kept[1]);
  ac_cpu_copy_parameters(&args->out[1 + states], args->out[0].data, first, last);
}

void ac_cpu_run_formula(const ac_cpu_context *context, const ac_op_args *args, ac_cpu_range floats,
                        ac_cpu_range blocks) {
  const int64_t count = args->in[0].count;
  if (is_eight_bit(args))
    ac_cpu_for(context, args, ac_eight_bit_blocks(count), AC_EIGHT_BIT_BLOCK, blocks);
  else ac_cpu_for_floats(context, args, count, 1, floats);
}

/* ---- formulas -------------------------------------------------------------------------------- */

typedef struct adamw_factors {
  float gradient, blend1, blend2, keep, step, inverse, epsilon;
} adamw_factors;

static inline adamw_factors adamw_factors_of(const ac_adamw_attributes *a) {
  return (adamw_factors){.gradient = a->gradient_factor,
                         .blend1 = a->take1,
                         .blend2 = a->take2,
                         .keep = 1.0f - a->rate * a->weight_decay,
                         .step = a->rate / a->correction1,
                         .inverse = 1.0f / a->sqrt_correction2,
                         .epsilon = a->epsilon};
}

static inline void adamw_average(const adamw_factors *f, float g, float *m, float *v) {
  float gradient = f->gradient * g;
  *m += f->blend1 * (gradient - *m);
  *v += f->blend2 * (gradient * gradient - *v);
}

static inline float adamw_next(const adamw_factors *f, float p, float m, float v) {
  return p * f->keep - f->step * m / (sqrtf(v) * f->inverse + f->epsilon);
}

static void adamw_step(const ac_op_args *args, int64_t first, int64_t count, float *m, float *v) {
  const adamw_factors f = adamw_factors_of(args->attributes);
  const float *g = (const float *)args->in[0].data + first;
  float *p = (float *)args->out[0].data + first;
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    float mean = m[i], square = v[i];
    adamw_average(&f, g[i], &mean, &square);
    m[i] = mean;
    v[i] = square;
    p[i] = adamw_next(&f, p[i], mean, square);
  }
}

static void adamw_moments(const ac_op_args *args, int64_t first, int64_t count, float *m,
                          float *v) {
  const adamw_factors f = adamw_factors_of(args->attributes);
  const float *g = (const float *)args->in[0].data + first;
#pragma omp simd
  for (int64_t i = 0; i < count; i++) adamw_average(&f, g[i], &m[i], &v[i]);
}

static void adamw_values(const ac_op_args *args, int64_t first, int64_t count, float *m, float *v) {
  const adamw_factors f = adamw_factors_of(args->attributes);
  float *p = (float *)args->out[0].data + first;
#pragma omp simd
  for (int64_t i = 0; i < count; i++) p[i] = adamw_next(&f, p[i], m[i], v[i]);
}
AC_CPU_OPTIMIZER(adamw, 2, adamw_moments, adamw_values)

static void sgd_step(const ac_op_args *args, int64_t first, int64_t count, float *b, float *none) {
  const ac_sgd_attributes *a = args->attributes;
  const float *g = (const float *)args->in[0].data + first;
  float *p = (float *)args->out[0].data + first;
  float factor = a->gradient_factor, rate = a->rate, decay = a->weight_decay;
  (void)none;
  if (!b) {
#pragma omp simd
    for (int64_t i = 0; i < count; i++) p[i] -= rate * (factor * g[i] + decay * p[i]);
    return;
  }
  float momentum = a->momentum;
  bool fresh = a->first, nesterov = a->nesterov;
#pragma omp simd
  for (int64_t i = 0; i < count; i++) {
    float gradient = factor * g[i] + decay * p[i];
    float buffer = fresh ? gradient : momentum * b[i] + gradient;
    b[i] = buffer;
    p[i] -= rate * (nesterov ? gradient + momentum * buffer : buffer);
  }
}
AC_CPU_OPTIMIZER(sgd, 1, sgd_step, NULL)

const ac_cpu_kernel AC_CPU_KERNEL(gradient_statistics) = {.run = gradient_statistics,
                                                          .workspace = statistics_workspace};
