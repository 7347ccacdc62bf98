/* Cases and references of group_norm. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>

/* Row n = b G + g holds the C / G channels of group g in sample b, S elements each. */
typedef struct shape {
  int64_t B, C, S, G, size;
} shape;

static shape shape_of(const ac_op_args *args) {
  const ac_operand *x = &args->in[0];
  int64_t G = ((const ac_group_norm_attributes *)args->attributes)->groups;
  return (shape){x->dim[0], x->dim[1], x->count / x->dim[0] / x->dim[1], G,
                 x->count / x->dim[0] / G};
}

/* The channel of element j of row n. */
static int64_t channel_of(const shape *s, int64_t n, int64_t j) {
  return n % s->G * (s->C / s->G) + j / s->S;
}

static double parameter(const ac_operand *x, int64_t channel, double otherwise) {
  return x->count ? op_reals(x)[channel] : otherwise;
}

/* mean = sum_j x / size;  r = 1 / sqrt(sum_j (x - mean)^2 / size + epsilon);
 * y = (x - mean) r gamma + beta */
static void group_norm(const ac_op_args *args) {
  const ac_group_norm_attributes *a = args->attributes;
  shape s = shape_of(args);
  for (int64_t n = 0; n < s.B * s.G; n++) {
    const double *x = op_reals(&args->in[0]) + n * s.size;
    double mean = 0, variance = 0;
    for (int64_t j = 0; j < s.size; j++) mean += x[j] / (double)s.size;
    for (int64_t j = 0; j < s.size; j++) variance += (x[j] - mean) * (x[j] - mean) / (double)s.size;
    double r = 1 / sqrt(variance + (double)a->epsilon);
    for (int64_t j = 0; j < s.size; j++) {
      int64_t c = channel_of(&s, n, j);
      op_reals(&args->out[0])[n * s.size + j] =
          (x[j] - mean) * r * parameter(&args->in[1], c, 1) + parameter(&args->in[2], c, 0);
    }
    op_reals(&args->out[1])[2 * n] = mean;
    op_reals(&args->out[1])[2 * n + 1] = r;
  }
}

static double largest_r(const ac_operand *statistics) {
  double r = 1;
  for (int64_t i = 1; i < statistics->count; i += 2) r = fmax(r, op_reals(statistics)[i]);
  return r;
}

/* As of layer_norm: the mean is off by a few units of |x|, and so is x - mean; r multiplies that.
 * Relative to r itself the variance's error counts twice the same. */
static op_tolerance group_norm_error(const ac_op_args *args, int output) {
  double x = op_largest(&args->in[0]), r = largest_r(&args->out[1]);
  double gamma = args->in[1].count ? op_largest(&args->in[1]) : 1;
  if (output == 0) return (op_tolerance){4, 4 * (1 + x * r) * gamma};
  return (op_tolerance){4 + 2 * x * r * op_sum_error(1), 4 * x};
}

const op_reference op_reference_group_norm = {group_norm, group_norm_error, true, false};

/* With h = (x - mean) r and g = dy gamma:  dx = r (g - mean_j(g) - h mean_j(g h)),
 * dgamma[c] = sum dy h,  dbeta[c] = sum dy */
static void group_norm_gradient(const ac_op_args *args) {
  shape s = shape_of(args);
  double *dx = op_reals(&args->out[0]), *dgamma = op_reals(&args->out[1]),
         *dbeta = op_reals(&args->out[2]);
  for (int64_t c = 0; c < args->out[1].count; c++) dgamma[c] = 0;
  for (int64_t c = 0; c < args->out[2].count; c++) dbeta[c] = 0;
  for (int64_t n = 0; n < s.B * s.G; n++) {
    const double *dy = op_reals(&args->in[0]) + n * s.size,
                 *x = op_reals(&args->in[1]) + n * s.size;
    double mean = op_reals(&args->in[2])[2 * n], r = op_reals(&args->in[2])[2 * n + 1];
    double g = 0, gh = 0;
    for (int64_t j = 0; j < s.size; j++) {
      int64_t c = channel_of(&s, n, j);
      double weight = parameter(&args->in[3], c, 1), h = (x[j] - mean) * r;
      g += weight * dy[j] / (double)s.size;
      gh += weight * dy[j] * h / (double)s.size;
      if (args->out[1].count) dgamma[c] += dy[j] * h;
      if (args->out[2].count) dbeta[c] += dy[j];
    }
    for (int64_t j = 0; j < s.size && args->out[0].count; j++) {
      double weight = parameter(&args->in[3], channel_of(&s, n, j), 1);
      dx[n * s.size + j] = r * (dy[j] * weight - g - (x[j] - mean) * r * gh);
    }
  }
}

static op_tolerance group_norm_gradient_error(const ac_op_args *args, int output) {
  shape s = shape_of(args);
  double r = largest_r(&args->in[2]), x = op_largest(&args->in[1]), dy = op_largest(&args->in[0]);
  double gamma = args->in[3].count ? op_largest(&args->in[3]) : 1;
  if (output == 0) return (op_tolerance){4, 8 * r * dy * gamma * (1 + x * r)};
  return (op_tolerance){1, op_sum_error(s.B * s.S) * dy * (output == 1 ? 1 + x * r : 1)};
}

const op_reference op_reference_group_norm_gradient = {group_norm_gradient,
                                                       group_norm_gradient_error, true, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_group_norm_gradient,
     .in = {OP_DY, OP_INPUT(0), OP_OUTPUT(1), OP_INPUT(1)},
     .of = {0, 1, 2},
     .outputs = 3,
     .optional = true},
};

#define GROUP_NORM(name_, groups_, batch_, ...)                                       \
  {                                                                                   \
    .name = name_, .op = AC_OP_group_norm, .attributes.group_norm = {groups_, 1e-5f}, \
    .batch = batch_, .gradients = gradients, .gradient_count = 1, __VA_ARGS__         \
  }

static const op_case cases[] = {
    GROUP_NORM("3x12x9x7 in 4", 4, 3, .in = {OP_F32(AC_BATCH, 12, 9, 7), OP_F32(12), OP_F32(12)},
               .out = {OP_F32(AC_BATCH, 12, 9, 7), OP_F32(AC_BATCH, 4, 2)}),
    GROUP_NORM("a group for each channel, 5x7x33", 7, 5,
               .in = {OP_F32(AC_BATCH, 7, 33), OP_F32(7), OP_F32(7)},
               .out = {OP_F32(AC_BATCH, 7, 33), OP_F32(AC_BATCH, 7, 2)}),
    GROUP_NORM("one group, one sample, 1x6x5x5", 1, 1,
               .in = {OP_F32(AC_BATCH, 6, 5, 5), OP_F32(6), OP_F32(6)},
               .out = {OP_F32(AC_BATCH, 6, 5, 5), OP_F32(AC_BATCH, 1, 2)}),
    GROUP_NORM("one position 17x40 in 5", 5, 17,
               .in = {OP_F32(AC_BATCH, 40), OP_F32(40), OP_F32(40)},
               .out = {OP_F32(AC_BATCH, 40), OP_F32(AC_BATCH, 5, 2)}),
    GROUP_NORM("without gamma and beta 3x8x65 in 2", 2, 3, .in = {OP_F32(AC_BATCH, 8, 65)},
               .out = {OP_F32(AC_BATCH, 8, 65), OP_F32(AC_BATCH, 2, 2)}),
    GROUP_NORM("without gamma 3x8x16 in 2", 2, 3,
               .in = {OP_F32(AC_BATCH, 8, 16), {.rank = 0}, OP_F32(8)},
               .out = {OP_F32(AC_BATCH, 8, 16), OP_F32(AC_BATCH, 2, 2)}),
    GROUP_NORM("far from zero 7x4x31 in 2", 2, 7,
               .in = {OP_RANGE(30, 32, AC_BATCH, 4, 31), OP_F32(4), OP_F32(4)},
               .out = {OP_F32(AC_BATCH, 4, 31), OP_F32(AC_BATCH, 2, 2)}),
    GROUP_NORM("large planes 2x4x65x67 in 2", 2, 2,
               .in = {OP_F32(AC_BATCH, 4, 65, 67), OP_F32(4), OP_F32(4)},
               .out = {OP_F32(AC_BATCH, 4, 65, 67), OP_F32(AC_BATCH, 2, 2)}),
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_group_norm;
  result->attributes.group_norm =
      (ac_group_norm_attributes){.groups = (int64_t)op_vector_attribute(vector, "groups", 1),
                                 .epsilon = (float)op_vector_attribute(vector, "epsilon", 1e-5)};
  result->gradients = gradients;
  result->gradient_count = 1;
}

/* A constant group has no variance: y = beta and r = 1 / sqrt(epsilon), no NaN. A NaN stays in its
 * group. */
static void special(ac_device *device) {
  op_check_large(device, &cases[1]);
  op_instance y;
  op_result result;
  op_variant variant = {.name = "constant and NaN groups"};
  op_instance_forward(&y, &cases[4], 3);
  const int64_t row = 4 * 65;
  for (int j = 0; j < row; j++) op_reals(&y.args.in[0])[j] = 0.25;
  op_reals(&y.args.in[0])[2 * row + 9] = NAN;
  op_instance_compute(&y);
  const char *where = op_where(device, &y, &variant);
  if (op_run(device, &y, &variant, &result)) {
    for (int j = 0; j < row; j++) {
      OP_EXPECT(where, result.out[0][j] == 0, "a constant group gives %g", result.out[0][j]);
      OP_EXPECT(where, isnan(result.out[0][2 * row + j]), "a NaN is lost at %d", j);
      OP_EXPECT(where, isfinite(result.out[0][3 * row + j]), "a NaN leaves its group");
    }
    OP_EXPECT(where, fabs(result.out[1][1] - 316.2277) < 0.01, "1/std of a constant group is %g",
              result.out[1][1]);
  }
  op_result_free(&result);
  op_instance_free(&y);
}

const op_family op_family_group_norm = {"group_norm", cases,   sizeof cases / sizeof *cases,
                                        from_vector,  special, NULL};

/* Statistics of three elements at least. */
static bool takes(const ac_shape *x) {
  return x->batched && x->rank >= 2 && ac_shape_count(x) / x->dim[0] >= 3;
}

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  int64_t C = x->shape.dim[1];
  ac_tensor *gamma = op_draw_maybe_vector(d, 0.5, 1.5, C);
  ac_tensor *beta = op_draw_maybe_vector(d, -0.5, 0.5, C);
  float epsilon = op_draw_one_in(d, 2) ? 0 : 0.01f;
  int kind = op_draw_below(d, 3), groups = op_draw_divisor(d, C);
  int64_t positions = ac_shape_count(&x->shape) / x->shape.dim[0] / C;
  if (positions * C / groups < 3) groups = 1;
  if (kind == 0 && positions >= 3) return ac_instance_norm(x, gamma, beta, epsilon);
  if (kind == 1) return ac_sample_norm(x, gamma, beta, epsilon);
  return ac_group_norm(x, gamma, beta, groups, epsilon);
}

/* The mean. */
static void round_means(const ac_op_args *args, double unit, uint64_t key) {
  shape s = shape_of(args);
  for (int64_t n = 0; n < s.B * s.G; n++) {
    double off = op_draw_rounded_mean(args, n, unit, key);
    for (int64_t j = 0; j < s.size; j++)
      op_reals(&args->out[0])[n * s.size + j] +=
          off * parameter(&args->in[1], channel_of(&s, n, j), 1);
  }
}

const op_generator op_generator_group_norm = {
    .takes = takes, .build = grow, OP_GRADIENTS(gradients), .round = round_means};
