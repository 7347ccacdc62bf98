/* Cases and references of batch_norm and its running statistics. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>
#include <string.h>

typedef struct shape {
  int64_t B, C, S;
} shape;

static shape shape_of(const ac_operand *x) {
  return (shape){x->dim[0], x->dim[1], x->count / x->dim[0] / x->dim[1]};
}

static double parameter(const ac_operand *x, int64_t channel, double otherwise) {
  return x->count ? op_reals(x)[channel] : otherwise;
}

/* mean = sum_bs x / n;  variance = sum_bs (x - mean)^2 / n, or the running ones in evaluation;
 * r = 1 / sqrt(variance + epsilon);  y = (x - mean) r gamma + beta */
static void batch_norm(const ac_op_args *args) {
  const ac_batch_norm_attributes *a = args->attributes;
  const double *x = op_reals(&args->in[0]);
  shape s = shape_of(&args->in[0]);
  double n = (double)(s.B * s.S);
  for (int64_t c = 0; c < s.C; c++) {
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < s.B * s.S; i++) mean += x[(i / s.S * s.C + c) * s.S + i % s.S] / n;
    for (int64_t i = 0; i < s.B * s.S; i++)
      variance += pow(x[(i / s.S * s.C + c) * s.S + i % s.S] - mean, 2) / n;
    if (!args->run->training || a->frozen)
      mean = op_reals(&args->in[3])[c], variance = op_reals(&args->in[4])[c];
    double r = 1 / sqrt(variance + (double)a->epsilon);
    for (int64_t i = 0; i < s.B * s.S; i++) {
      int64_t at = (i / s.S * s.C + c) * s.S + i % s.S;
      op_reals(&args->out[0])[at] =
          (x[at] - mean) * r * parameter(&args->in[1], c, 1) + parameter(&args->in[2], c, 0);
    }
    op_reals(&args->out[1])[2 * c] = mean;
    op_reals(&args->out[1])[2 * c + 1] = r;
    if (args->out[2].count) op_reals(&args->out[2])[c] = variance;
  }
}

static double largest_r(const ac_operand *statistics) {
  double r = 1;
  for (int64_t i = 1; i < statistics->count; i += 2) r = fmax(r, op_reals(statistics)[i]);
  return r;
}

/* As of layer_norm: the mean is off by a few units of |x|, and so is x - mean; r multiplies that.
 * Relative to r itself the variance's error counts twice the same. The variance takes the mean's
 * error times differences between parts' means, which are below 1 here. */
static op_tolerance batch_norm_error(const ac_op_args *args, int output) {
  double x = fmax(op_largest(&args->in[0]), op_largest(&args->in[3])), r = largest_r(&args->out[1]);
  double gamma = args->in[1].count ? op_largest(&args->in[1]) : 1;
  if (output == 0) return (op_tolerance){4, 4 * (1 + x * r) * gamma};
  if (output == 2) return (op_tolerance){8, 8 * x};
  return (op_tolerance){4 + 2 * x * r * op_sum_error(1), 4 * x};
}

const op_reference op_reference_batch_norm = {batch_norm, batch_norm_error, true, false};

/* With h = (x - mean) r:  dgamma = sum_bs dy h,  dbeta = sum_bs dy,
 * dx = gamma r (dy - dbeta / n - h dgamma / n), or gamma r dy with frozen statistics */
static void batch_norm_gradient(const ac_op_args *args) {
  const double *dy = op_reals(&args->in[0]), *x = op_reals(&args->in[1]);
  const bool frozen = ((const ac_batch_norm_attributes *)args->attributes)->frozen;
  shape s = shape_of(&args->in[0]);
  double n = (double)(s.B * s.S);
  for (int64_t c = 0; c < s.C; c++) {
    double mean = op_reals(&args->in[2])[2 * c], r = op_reals(&args->in[2])[2 * c + 1];
    double dgamma = 0, dbeta = 0;
    for (int64_t i = 0; i < s.B * s.S; i++) {
      int64_t at = (i / s.S * s.C + c) * s.S + i % s.S;
      dgamma += args->in[1].count ? dy[at] * (x[at] - mean) * r : 0;
      dbeta += dy[at];
    }
    for (int64_t i = 0; i < s.B * s.S && args->out[0].count; i++) {
      int64_t at = (i / s.S * s.C + c) * s.S + i % s.S;
      const double means = frozen ? 0 : dbeta / n + (x[at] - mean) * r * dgamma / n;
      op_reals(&args->out[0])[at] = parameter(&args->in[3], c, 1) * r * (dy[at] - means);
    }
    if (args->out[1].count) op_reals(&args->out[1])[c] = dgamma;
    if (args->out[2].count) op_reals(&args->out[2])[c] = dbeta;
  }
}

static op_tolerance batch_norm_gradient_error(const ac_op_args *args, int output) {
  shape s = shape_of(&args->in[0]);
  double r = largest_r(&args->in[2]), x = args->in[1].count ? op_largest(&args->in[1]) : 0,
         dy = op_largest(&args->in[0]);
  double gamma = args->in[3].count ? op_largest(&args->in[3]) : 1;
  if (output == 0) return (op_tolerance){4, 8 * r * dy * gamma * (1 + x * r)};
  return (op_tolerance){1, op_sum_error(s.B * s.S) * dy * (output == 1 ? 1 + x * r : 1)};
}

const op_reference op_reference_batch_norm_gradient = {batch_norm_gradient,
                                                       batch_norm_gradient_error, true, false};

/* n = batch per_sample;  pooled = (n, mean, n variance) */
static void batch_norm_pool(const ac_op_args *args) {
  const ac_batch_norm_pool_attributes *a = args->attributes;
  double n = (double)(args->run->batch * a->per_sample);
  for (int64_t c = 0; c < args->in[0].dim[0]; c++) {
    double *pooled = op_reals(&args->out[0]) + 3 * c;
    pooled[0] = n;
    pooled[1] = op_reals(&args->in[0])[2 * c];
    pooled[2] = n * op_reals(&args->in[1])[c];
  }
}

static op_tolerance batch_norm_pool_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){4, 0};
}

const op_reference op_reference_batch_norm_pool = {batch_norm_pool, batch_norm_pool_error, true,
                                                   false};

/* mean += momentum (pooled mean - mean);  variance += momentum (squares / (n - 1) - variance), but
 * for n = 1, which has no variance */
static void batch_norm_update(const ac_op_args *args) {
  double momentum = (double)((const ac_batch_norm_update_attributes *)args->attributes)->momentum;
  for (int64_t c = 0; c < args->in[0].dim[0]; c++) {
    const double *pooled = op_reals(&args->in[0]) + 3 * c;
    double *mean = op_reals(&args->out[0]) + c, *variance = op_reals(&args->out[1]) + c;
    *mean += momentum * (pooled[1] - *mean);
    if (pooled[0] > 1) *variance += momentum * (pooled[2] / (pooled[0] - 1) - *variance);
  }
}

static op_tolerance batch_norm_update_error(const ac_op_args *args, int output) {
  (void)output;
  return (op_tolerance){4, 4 * op_largest(&args->in[0])};
}

const op_reference op_reference_batch_norm_update = {batch_norm_update, batch_norm_update_error,
                                                     true, true};

/* ---- over a window ---- */

/* pooled = (n, mean, sum of squared differences from it) */
static void batch_norm_moments(const ac_op_args *args) {
  const double *x = op_reals(&args->in[0]);
  const shape s = shape_of(&args->in[0]);
  const double n = (double)(s.B * s.S);
  for (int64_t c = 0; c < s.C; c++) {
    double *pooled = op_reals(&args->out[0]) + 3 * c;
    pooled[0] = n, pooled[1] = 0, pooled[2] = 0;
    for (int64_t i = 0; i < s.B * s.S; i++) pooled[1] += x[(i / s.S * s.C + c) * s.S + i % s.S] / n;
    for (int64_t i = 0; i < s.B * s.S; i++)
      pooled[2] += pow(x[(i / s.S * s.C + c) * s.S + i % s.S] - pooled[1], 2);
  }
}

/* The mean is off by a few units of |x|, each square by twice that times its root. */
static op_tolerance batch_norm_moments_error(const ac_op_args *args, int output) {
  const shape s = shape_of(&args->in[0]);
  (void)output;
  return (op_tolerance){8, 4 * op_largest(&args->in[0]) * (double)(s.B * s.S)};
}

const op_reference op_reference_batch_norm_moments = {batch_norm_moments, batch_norm_moments_error,
                                                      true, false};

/* (mean, 1 / sqrt(squares / n + epsilon)), of the running ones in evaluation */
static void batch_norm_statistics(const ac_op_args *args) {
  const double epsilon = (double)((const ac_batch_norm_attributes *)args->attributes)->epsilon;
  for (int64_t c = 0; c < args->in[1].count; c++) {
    const double *pooled = op_reals(&args->in[0]) + 3 * c;
    const bool own = args->run->training;
    const double variance = own ? pooled[2] / pooled[0] : op_reals(&args->in[2])[c];
    op_reals(&args->out[0])[2 * c] = own ? pooled[1] : op_reals(&args->in[1])[c];
    op_reals(&args->out[0])[2 * c + 1] = 1 / sqrt(variance + epsilon);
  }
}

static op_tolerance a_few_units(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){8, 0};
}

const op_reference op_reference_batch_norm_statistics = {batch_norm_statistics, a_few_units, true,
                                                         false};

/* y = (x - mean) r gamma + beta */
static void batch_norm_apply(const ac_op_args *args) {
  const shape s = shape_of(&args->in[0]);
  for (int64_t i = 0; i < args->in[0].count; i++) {
    const int64_t c = i / s.S % s.C;
    const double *statistics = op_reals(&args->in[3]) + 2 * c;
    op_reals(&args->out[0])[i] = (op_reals(&args->in[0])[i] - statistics[0]) * statistics[1] *
                                     parameter(&args->in[1], c, 1) +
                                 parameter(&args->in[2], c, 0);
  }
}

static op_tolerance batch_norm_apply_error(const ac_op_args *args, int output) {
  const double r = largest_r(&args->in[3]), x = op_largest(&args->in[0]);
  const double gamma = args->in[1].count ? op_largest(&args->in[1]) : 1;
  (void)output;
  return (op_tolerance){4, 4 * (1 + (x + op_largest(&args->in[3])) * r) * gamma};
}

const op_reference op_reference_batch_norm_apply = {batch_norm_apply, batch_norm_apply_error, true,
                                                    false};

/* (sum of dy, sum of dy (x - mean) r) */
static void batch_norm_sums(const ac_op_args *args) {
  const shape s = shape_of(&args->in[0]);
  double *sums = op_reals(&args->out[0]);
  for (int64_t c = 0; c < 2 * s.C; c++) sums[c] = 0;
  for (int64_t i = 0; i < args->in[0].count; i++) {
    const int64_t c = i / s.S % s.C;
    const double *statistics = op_reals(&args->in[2]) + 2 * c, dy = op_reals(&args->in[0])[i];
    sums[2 * c] += dy;
    sums[2 * c + 1] += dy * (op_reals(&args->in[1])[i] - statistics[0]) * statistics[1];
  }
}

static op_tolerance batch_norm_sums_error(const ac_op_args *args, int output) {
  const shape s = shape_of(&args->in[0]);
  const double x = op_largest(&args->in[1]) + op_largest(&args->in[2]), r = largest_r(&args->in[2]);
  (void)output;
  return (op_tolerance){1, op_sum_error(s.B * s.S) * op_largest(&args->in[0]) * (1 + x * r)};
}

const op_reference op_reference_batch_norm_sums = {batch_norm_sums, batch_norm_sums_error, true,
                                                   false};

/* dx = gamma r (dy - sum of dy / n - h (sum of dy h) / n) */
static void batch_norm_input_gradient(const ac_op_args *args) {
  const shape s = shape_of(&args->in[0]);
  for (int64_t i = 0; i < args->in[0].count; i++) {
    const int64_t c = i / s.S % s.C;
    const double *statistics = op_reals(&args->in[2]) + 2 * c,
                 *sums = op_reals(&args->in[4]) + 2 * c;
    const double n = op_reals(&args->in[5])[3 * c], r = statistics[1],
                 h = (op_reals(&args->in[1])[i] - statistics[0]) * r;
    op_reals(&args->out[0])[i] = parameter(&args->in[3], c, 1) * r *
                                 (op_reals(&args->in[0])[i] - sums[0] / n - h * sums[1] / n);
  }
}

static op_tolerance batch_norm_input_gradient_error(const ac_op_args *args, int output) {
  const double r = largest_r(&args->in[2]), dy = op_largest(&args->in[0]),
               x = op_largest(&args->in[1]) + op_largest(&args->in[2]),
               sums = op_largest(&args->in[4]),
               gamma = args->in[3].count ? op_largest(&args->in[3]) : 1;
  (void)output;
  return (op_tolerance){4, 8 * r * gamma * (dy + sums) * (1 + x * r)};
}

const op_reference op_reference_batch_norm_input_gradient = {
    batch_norm_input_gradient, batch_norm_input_gradient_error, true, false};

/* dgamma = sum of dy h,  dbeta = sum of dy */
static void batch_norm_parameter_gradient(const ac_op_args *args) {
  for (int64_t c = 0; c < args->in[0].dim[0]; c++)
    for (int j = 0; j < 2; j++)
      if (args->out[j].count)
        op_reals(&args->out[j])[c] = op_reals(&args->in[0])[2 * c + (j ? 0 : 1)];
}

static op_tolerance one_sum(const ac_op_args *args, int output) {
  (void)output;
  return (op_tolerance){1, 2 * op_largest(&args->in[0])};
}

const op_reference op_reference_batch_norm_parameter_gradient = {batch_norm_parameter_gradient,
                                                                 one_sum, true, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_batch_norm_gradient,
     .in = {OP_DY, OP_INPUT(0), OP_OUTPUT(1), OP_INPUT(1)},
     .of = {0, 1, 2},
     .outputs = 3,
     .optional = true},
};

/* With frozen statistics and no gamma. */
static const op_gradient gradients_without_x[] = {
    {.op = AC_OP_batch_norm_gradient,
     .in = {OP_DY, {OP_NONE, 0}, OP_OUTPUT(1), OP_INPUT(1)},
     .of = {0, 1, 2},
     .outputs = 3,
     .optional = true},
};

#define FROZEN(name_, batch_, ...)                                             \
  {                                                                            \
    .name = name_, .op = AC_OP_batch_norm,                                     \
    .attributes.batch_norm = {.epsilon = 1e-5f, .frozen = 1}, .batch = batch_, \
    .gradient_count = 1, __VA_ARGS__                                           \
  }
#define BATCH_NORM(name_, batch_, ...)                                                  \
  {                                                                                     \
    .name = name_, .op = AC_OP_batch_norm, .attributes.batch_norm = {.epsilon = 1e-5f}, \
    .batch = batch_, __VA_ARGS__                                                        \
  }
#define OVER_WINDOW(name_, op_, batch_, ...)                                                  \
  {                                                                                           \
    .name = name_, .op = AC_OP_batch_norm_##op_, .attributes.batch_norm = {.epsilon = 1e-5f}, \
    .batch = batch_, __VA_ARGS__                                                              \
  }
#define TRAINED .gradients = gradients, .gradient_count = 1
#define RUNNING(C) OP_F32(C), OP_RANGE(0.5, 2, C)

static const op_case cases[] = {
    BATCH_NORM("3x12x9x7", 3, TRAINED,
               .in = {OP_F32(AC_BATCH, 12, 9, 7), OP_F32(12), OP_F32(12), RUNNING(12)},
               .out = {OP_F32(AC_BATCH, 12, 9, 7), OP_F32(12, 2), OP_F32(12)}),
    BATCH_NORM("one position 65x129", 65, TRAINED,
               .in = {OP_F32(AC_BATCH, 129), OP_F32(129), OP_F32(129), RUNNING(129)},
               .out = {OP_F32(AC_BATCH, 129), OP_F32(129, 2), OP_F32(129)}),
    BATCH_NORM("a few positions 33x5x3", 33, TRAINED,
               .in = {OP_F32(AC_BATCH, 5, 3), OP_F32(5), OP_F32(5), RUNNING(5)},
               .out = {OP_F32(AC_BATCH, 5, 3), OP_F32(5, 2), OP_F32(5)}),
    BATCH_NORM("one channel, one sample 1x1x129", 1, TRAINED,
               .in = {OP_F32(AC_BATCH, 1, 129), OP_F32(1), OP_F32(1), RUNNING(1)},
               .out = {OP_F32(AC_BATCH, 1, 129), OP_F32(1, 2), OP_F32(1)}),
    BATCH_NORM("without gamma and beta 7x6x33", 7, TRAINED,
               .in = {OP_F32(AC_BATCH, 6, 33), {.rank = 0}, {.rank = 0}, RUNNING(6)},
               .out = {OP_F32(AC_BATCH, 6, 33), OP_F32(6, 2), OP_F32(6)}),
    BATCH_NORM("far from zero 7x6x33", 7, TRAINED,
               .in = {OP_RANGE(30, 32, AC_BATCH, 6, 33), OP_F32(6), OP_F32(6), RUNNING(6)},
               .out = {OP_F32(AC_BATCH, 6, 33), OP_F32(6, 2), OP_F32(6)}),
    BATCH_NORM("large planes 5x3x65x67", 5, TRAINED,
               .in = {OP_F32(AC_BATCH, 3, 65, 67), OP_F32(3), OP_F32(3), RUNNING(3)},
               .out = {OP_F32(AC_BATCH, 3, 65, 67), OP_F32(3, 2), OP_F32(3)}),
    BATCH_NORM("in evaluation 7x65x5", 7, .evaluation = true,
               .in = {OP_F32(AC_BATCH, 65, 5), OP_F32(65), OP_F32(65), RUNNING(65)},
               .out = {OP_F32(AC_BATCH, 65, 5), OP_F32(65, 2), OP_F32(65)}),
    FROZEN("frozen 3x12x9x7", 3, .gradients = gradients,
           .in = {OP_F32(AC_BATCH, 12, 9, 7), OP_F32(12), OP_F32(12), RUNNING(12)},
           .out = {OP_F32(AC_BATCH, 12, 9, 7), OP_F32(12, 2)}),
    FROZEN("frozen, one position 33x65", 33, .gradients = gradients,
           .in = {OP_F32(AC_BATCH, 65), OP_F32(65), OP_F32(65), RUNNING(65)},
           .out = {OP_F32(AC_BATCH, 65), OP_F32(65, 2)}),
    FROZEN("frozen, without gamma 7x6x33", 7, .gradients = gradients_without_x,
           .in = {OP_F32(AC_BATCH, 6, 33), {.rank = 0}, OP_F32(6), RUNNING(6)},
           .out = {OP_F32(AC_BATCH, 6, 33), OP_F32(6, 2)}),
    {.name = "pool 65 channels",
     .op = AC_OP_batch_norm_pool,
     .attributes.batch_norm_pool = {49},
     .batch = 7,
     .in = {OP_RANGE(0.5, 2, 65, 2), OP_RANGE(0, 2, 65)},
     .out = {OP_F32(65, 3)}},
    {.name = "update 65 channels",
     .op = AC_OP_batch_norm_update,
     .attributes.batch_norm_update = {0.1f},
     .batch = 1,
     .in = {OP_RANGE(1, 100, 65, 3)},
     .out = {OP_F32(65), OP_RANGE(0.5, 2, 65)}},
    OVER_WINDOW("moments 3x12x9x7", moments, 3, .in = {OP_F32(AC_BATCH, 12, 9, 7)},
                .out = {OP_F32(12, 3)}),
    OVER_WINDOW("moments, one position 65x129", moments, 65, .in = {OP_F32(AC_BATCH, 129)},
                .out = {OP_F32(129, 3)}),
    OVER_WINDOW("moments, large planes 5x3x65x67", moments, 5, .in = {OP_F32(AC_BATCH, 3, 65, 67)},
                .out = {OP_F32(3, 3)}),
    OVER_WINDOW("statistics 65 channels", statistics, 7,
                .in = {OP_RANGE(0.5, 20, 65, 3), RUNNING(65)}, .out = {OP_F32(65, 2)}),
    OVER_WINDOW("statistics in evaluation, 65 channels", statistics, 7, .evaluation = true,
                .in = {OP_RANGE(0.5, 20, 65, 3), RUNNING(65)}, .out = {OP_F32(65, 2)}),
    OVER_WINDOW("apply 3x12x9x7", apply, 3,
                .in = {OP_F32(AC_BATCH, 12, 9, 7), OP_F32(12), OP_F32(12), OP_RANGE(0.5, 2, 12, 2)},
                .out = {OP_F32(AC_BATCH, 12, 9, 7)}),
    OVER_WINDOW("apply, one position, no gamma and beta 33x65", apply, 33,
                .in = {OP_F32(AC_BATCH, 65), {.rank = 0}, {.rank = 0}, OP_RANGE(0.5, 2, 65, 2)},
                .out = {OP_F32(AC_BATCH, 65)}),
    OVER_WINDOW(
        "sums 3x12x9x7", sums, 3,
        .in = {OP_F32(AC_BATCH, 12, 9, 7), OP_F32(AC_BATCH, 12, 9, 7), OP_RANGE(0.5, 2, 12, 2)},
        .out = {OP_F32(12, 2)}),
    OVER_WINDOW("sums, one position 65x129", sums, 65,
                .in = {OP_F32(AC_BATCH, 129), OP_F32(AC_BATCH, 129), OP_RANGE(0.5, 2, 129, 2)},
                .out = {OP_F32(129, 2)}),
    OVER_WINDOW("input gradient 3x12x9x7", input_gradient, 3,
                .in = {OP_F32(AC_BATCH, 12, 9, 7), OP_F32(AC_BATCH, 12, 9, 7),
                       OP_RANGE(0.5, 2, 12, 2), OP_F32(12), OP_F32(12, 2), OP_RANGE(1, 9, 12, 3)},
                .out = {OP_F32(AC_BATCH, 12, 9, 7)}),
    OVER_WINDOW("input gradient, one position, no gamma 33x65", input_gradient, 33,
                .in = {OP_F32(AC_BATCH, 65),
                       OP_F32(AC_BATCH, 65),
                       OP_RANGE(0.5, 2, 65, 2),
                       {.rank = 0},
                       OP_F32(65, 2),
                       OP_RANGE(1, 9, 65, 3)},
                .out = {OP_F32(AC_BATCH, 65)}),
    OVER_WINDOW("parameter gradient 65 channels", parameter_gradient, 7, .in = {OP_F32(65, 2)},
                .out = {OP_F32(65), OP_F32(65)}),
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_batch_norm;
  result->attributes.batch_norm.epsilon = (float)op_vector_attribute(vector, "epsilon", 1e-5);
  result->attributes.batch_norm.frozen = (int32_t)op_vector_attribute(vector, "frozen", 0);
  result->evaluation = op_vector_attribute(vector, "evaluation", 0) != 0;
  result->gradients = gradients;
  result->gradient_count = result->evaluation ? 0 : 1;
}

/* ---- a window of micro-batches --------------------------------------------------------------- */

enum { SAMPLES = 23, CHANNELS = 5, POSITIONS = 9, SPLITS = 3 };

static op_case window_case(ac_op op, int64_t batch) {
  op_case c = {.name = "window", .op = op, .batch = batch};
  if (op == AC_OP_batch_norm) {
    c.attributes.batch_norm.epsilon = 1e-5f;
    c.in[0] = (op_operand_spec)OP_F32(AC_BATCH, CHANNELS, POSITIONS);
    c.in[3] = c.in[4] = (op_operand_spec)OP_F32(CHANNELS);
    c.out[0] = c.in[0];
    c.out[1] = (op_operand_spec)OP_F32(CHANNELS, 2);
    c.out[2] = (op_operand_spec)OP_F32(CHANNELS);
  } else if (op == AC_OP_batch_norm_pool) {
    c.attributes.batch_norm_pool = (ac_batch_norm_pool_attributes){POSITIONS};
    c.in[0] = (op_operand_spec)OP_F32(CHANNELS, 2);
    c.in[1] = (op_operand_spec)OP_F32(CHANNELS);
    c.out[0] = (op_operand_spec)OP_F32(CHANNELS, 3);
  } else {
    c.attributes.batch_norm_update.momentum = 0.25f;
    c.in[0] = (op_operand_spec)OP_F32(CHANNELS, 3);
    c.out[0] = c.out[1] = (op_operand_spec)OP_F32(CHANNELS);
  }
  return c;
}

/* Runs an op on values in host arrays: its first inputs, and what output 0 (or both) held before.
 */
static bool run_one(ac_device *device, ac_op op, int64_t batch, const double *const in[2],
                    const double *before[2], bool add, op_result *result) {
  op_case c = window_case(op, batch);
  op_variant variant = {.name = "a window", .add = add};
  op_instance instance;
  op_instance_blank(&instance, &c, AC_F32);
  for (int i = 0; i < 2; i++)
    if (in[i])
      memcpy(instance.args.in[i].data, in[i], (size_t)instance.args.in[i].count * sizeof *in[i]);
  for (int j = 0; j < 2; j++)
    if (before[j])
      memcpy(instance.initial[j], before[j],
             (size_t)instance.args.out[j].count * sizeof *before[j]);
  bool ran = op_run(device, &instance, &variant, result);
  op_instance_free(&instance);
  return ran;
}

/* Unequal micro-batches with very different means, pooled and used for one update, end with the
 * mean and the variance of all samples. */
static void special(ac_device *device) {
  static const int64_t split[SPLITS] = {10, 12, 1};
  double x[SAMPLES * CHANNELS * POSITIONS], pooled[CHANNELS * 3] = {0}, mean[CHANNELS] = {0},
                                                              variance[CHANNELS];
  uint64_t state = op_seed("a window of micro-batches");
  for (int i = 0; i < SAMPLES * CHANNELS * POSITIONS; i++)
    x[i] = op_random(&state, -1, 1) + (i < 10 * CHANNELS * POSITIONS ? 3 : -2);
  for (int c = 0; c < CHANNELS; c++) variance[c] = 1;
  const char *where = device->info.id;
  const double *none[2] = {NULL, NULL};
  int64_t first = 0;
  bool ran = true;
  for (int k = 0; k < SPLITS && ran; first += split[k++]) {
    op_result statistics = {.out = {NULL}}, joined = {.out = {NULL}};
    const double *before[2] = {pooled, NULL}, *samples[2] = {x + first * CHANNELS * POSITIONS};
    ran = run_one(device, AC_OP_batch_norm, split[k], samples, none, false, &statistics);
    const double *kept[2] = {statistics.out[1], statistics.out[2]};
    ran = ran && run_one(device, AC_OP_batch_norm_pool, split[k], kept, before, k > 0, &joined);
    if (ran) memcpy(pooled, joined.out[0], sizeof pooled);
    op_result_free(&statistics);
    op_result_free(&joined);
  }
  op_result updated = {.out = {NULL}};
  const double *before[2] = {mean, variance}, *window[2] = {pooled};
  ran = ran && run_one(device, AC_OP_batch_norm_update, 1, window, before, false, &updated);
  for (int c = 0; c < CHANNELS && ran; c++) {
    const double n = SAMPLES * POSITIONS;
    double sum = 0, squares = 0;
    for (int i = 0; i < SAMPLES * POSITIONS; i++)
      sum += x[(i / POSITIONS * CHANNELS + c) * POSITIONS + i % POSITIONS];
    for (int i = 0; i < SAMPLES * POSITIONS; i++)
      squares += pow(x[(i / POSITIONS * CHANNELS + c) * POSITIONS + i % POSITIONS] - sum / n, 2);
    double want[2] = {0.25 * sum / n, 0.75 + 0.25 * squares / (n - 1)};
    OP_EXPECT(where, pooled[3 * c] == n, "%g elements were pooled, not %g", pooled[3 * c], n);
    for (int j = 0; j < 2; j++)
      OP_EXPECT(where, fabs(updated.out[j][c] - want[j]) < 2e-6 * (1 + fabs(want[j])),
                "running %s is %.9g, not %.9g", j ? "variance" : "mean", updated.out[j][c],
                want[j]);
  }
  op_result_free(&updated);
}

const op_family op_family_batch_norm = {"batch_norm", cases,   sizeof cases / sizeof *cases,
                                        from_vector,  special, NULL};

/* Statistics of three elements at least, even of one sample. */
static bool takes(const ac_shape *x) {
  return x->batched && x->rank >= 2 && ac_shape_count(x) / x->dim[1] >= 3;
}

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  int64_t C = x->shape.dim[1];
  ac_batch_norm_desc desc = {.epsilon = op_draw_one_in(d, 2) ? 0 : 0.01f,
                             .momentum = op_draw_one_in(d, 2) ? 0 : 0.3f,
                             .frozen_statistics = op_draw_one_in(d, 3)};
  ac_tensor *gamma = op_draw_maybe_vector(d, 0.5, 1.5, C);
  ac_tensor *beta = op_draw_maybe_vector(d, -0.5, 0.5, C);
  ac_tensor *mean = op_draw_frozen(d, -0.5, 0.5, C), *variance = op_draw_frozen(d, 0.5, 2, C);
  return ac_batch_norm(x, gamma, beta, mean, variance, &desc);
}

/* The mean. */
static void round_means(const ac_op_args *args, double unit, uint64_t key) {
  shape s = shape_of(&args->in[0]);
  for (int64_t c = 0; c < s.C; c++) {
    double off = op_draw_rounded_mean(args, c, unit, key) * parameter(&args->in[1], c, 1);
    for (int64_t i = 0; i < s.B * s.S; i++)
      op_reals(&args->out[0])[(i / s.S * s.C + c) * s.S + i % s.S] += off;
  }
}

const op_generator op_generator_batch_norm = {
    .takes = takes, .build = grow, OP_GRADIENTS(gradients), .round = round_means};
