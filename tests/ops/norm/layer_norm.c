/* Cases and references of layer_norm. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>

/* Of gamma or beta, which may be absent. */
static double vector(const ac_operand *x, int64_t c, double otherwise) {
  return x->count ? op_reals(x)[c] : otherwise;
}

/* mean = sum_c x / C;  r = 1 / sqrt(sum_c (x - mean)^2 / C + epsilon);  y = (x - mean) r gamma +
 * beta */
static void layer_norm(const ac_op_args *args) {
  const ac_layer_norm_attributes *a = args->attributes;
  int64_t rows = ac_rows(&args->in[0]), C = ac_columns(&args->in[0]);
  for (int64_t n = 0; n < rows; n++) {
    const double *x = op_reals(&args->in[0]) + n * C;
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < C; c++) mean += x[c] / (double)C;
    for (int64_t c = 0; c < C; c++) variance += (x[c] - mean) * (x[c] - mean) / (double)C;
    double r = 1 / sqrt(variance + (double)a->epsilon);
    for (int64_t c = 0; c < C; c++)
      op_reals(&args->out[0])[n * C + c] =
          (x[c] - mean) * r * vector(&args->in[1], c, 1) + vector(&args->in[2], c, 0);
    op_reals(&args->out[1])[2 * n] = mean;
    op_reals(&args->out[1])[2 * n + 1] = r;
  }
}

/* Largest r of any row. */
static double largest_r(const ac_operand *statistics) {
  double r = 0;
  for (int64_t i = 1; i < statistics->count; i += 2) r = fmax(r, op_reals(statistics)[i]);
  return fmax(r, 1);
}

/* The mean is off by a few units of |x|, and so is x - mean; r multiplies that. Relative to r
 * itself the variance's error counts twice the same. */
static op_tolerance layer_norm_error(const ac_op_args *args, int output) {
  double x = op_largest(&args->in[0]), r = largest_r(&args->out[1]);
  double gamma = args->in[1].count ? op_largest(&args->in[1]) : 1;
  if (output == 0) return (op_tolerance){4, 4 * (1 + x * r) * gamma};
  return (op_tolerance){4 + 2 * x * r * op_sum_error(1), 4 * x};
}

const op_reference op_reference_layer_norm = {layer_norm, layer_norm_error, true, false};

/* With h = (x - mean) r and g = dy gamma:  dx = r (g - mean_c(g) - h mean_c(g h)) */
static void layer_norm_input_gradient(const ac_op_args *args) {
  int64_t rows = ac_rows(&args->in[0]), C = ac_columns(&args->in[0]);
  const ac_operand *gamma = &args->in[3];
  for (int64_t n = 0; n < rows; n++) {
    const double *dy = op_reals(&args->in[0]) + n * C, *x = op_reals(&args->in[1]) + n * C;
    double mean = op_reals(&args->in[2])[2 * n], r = op_reals(&args->in[2])[2 * n + 1];
    double g = 0, gh = 0;
    for (int64_t c = 0; c < C; c++) {
      g += dy[c] * vector(gamma, c, 1) / (double)C;
      gh += dy[c] * vector(gamma, c, 1) * (x[c] - mean) * r / (double)C;
    }
    for (int64_t c = 0; c < C; c++)
      op_reals(&args->out[0])[n * C + c] =
          r * (dy[c] * vector(gamma, c, 1) - g - (x[c] - mean) * r * gh);
  }
}

/* Values of g h are at most r |x| |g|, means of C of them gain about half the error of a sum's last
 * step. */
static op_tolerance layer_norm_input_error(const ac_op_args *args, int output) {
  (void)output;
  double r = largest_r(&args->in[2]), x = op_largest(&args->in[1]);
  double g = op_largest(&args->in[0]) * (args->in[3].count ? op_largest(&args->in[3]) : 1);
  return (op_tolerance){4, 8 * r * g * (1 + x * r)};
}

const op_reference op_reference_layer_norm_input_gradient = {layer_norm_input_gradient,
                                                             layer_norm_input_error, true, false};

/* dgamma[c] = sum_n dy h;  dbeta[c] = sum_n dy */
static void layer_norm_parameter_gradient(const ac_op_args *args) {
  int64_t rows = ac_rows(&args->in[0]), C = ac_columns(&args->in[0]);
  for (int64_t c = 0; c < C; c++) {
    double dgamma = 0, dbeta = 0;
    for (int64_t n = 0; n < rows; n++) {
      double mean = op_reals(&args->in[2])[2 * n], r = op_reals(&args->in[2])[2 * n + 1];
      double dy = op_reals(&args->in[0])[n * C + c];
      dgamma += dy * (op_reals(&args->in[1])[n * C + c] - mean) * r;
      dbeta += dy;
    }
    if (args->out[0].count) op_reals(&args->out[0])[c] = dgamma;
    if (args->out[1].count) op_reals(&args->out[1])[c] = dbeta;
  }
}

static op_tolerance layer_norm_parameter_error(const ac_op_args *args, int output) {
  double h = output == 0 ? 1 + op_largest(&args->in[1]) * largest_r(&args->in[2]) : 1;
  return (op_tolerance){1, op_sum_error(ac_rows(&args->in[0])) * op_largest(&args->in[0]) * h};
}

const op_reference op_reference_layer_norm_parameter_gradient = {
    layer_norm_parameter_gradient, layer_norm_parameter_error, true, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_layer_norm_input_gradient,
     .in = {OP_DY, OP_INPUT(0), OP_OUTPUT(1), OP_INPUT(1)},
     .of = {0},
     .outputs = 1},
    {.op = AC_OP_layer_norm_parameter_gradient,
     .in = {OP_DY, OP_INPUT(0), OP_OUTPUT(1)},
     .of = {1, 2},
     .outputs = 2,
     .optional = true},
};

#define LAYER_NORM(name_, batch_, ...)                                                        \
  {                                                                                           \
    .name = name_, .op = AC_OP_layer_norm, .attributes.layer_norm = {1e-5f}, .batch = batch_, \
    .gradients = gradients, .gradient_count = 2, __VA_ARGS__                                  \
  }

static const op_case cases[] = {
    LAYER_NORM("3x65x129", 3, .in = {OP_F32(AC_BATCH, 65, 129), OP_F32(129), OP_F32(129)},
               .out = {OP_F32(AC_BATCH, 65, 129), OP_F32(OP_BATCH(65), 2)}),
    LAYER_NORM("without beta 7x65", 7, .in = {OP_F32(AC_BATCH, 65), OP_F32(65)},
               .out = {OP_F32(AC_BATCH, 65), OP_F32(AC_BATCH, 2)}),
    LAYER_NORM("without gamma 7x65", 7, .in = {OP_F32(AC_BATCH, 65), {.rank = 0}, OP_F32(65)},
               .out = {OP_F32(AC_BATCH, 65), OP_F32(AC_BATCH, 2)}),
    LAYER_NORM("bare 7x67", 7, .in = {OP_F32(AC_BATCH, 67)},
               .out = {OP_F32(AC_BATCH, 67), OP_F32(AC_BATCH, 2)}),
    LAYER_NORM("far from zero 7x129", 7,
               .in = {OP_RANGE(30, 32, AC_BATCH, 129), OP_F32(129), OP_F32(129)},
               .out = {OP_F32(AC_BATCH, 129), OP_F32(AC_BATCH, 2)}),
    LAYER_NORM("small 3x7", 3, .in = {OP_RANGE(-0.01, 0.01, AC_BATCH, 7), OP_F32(7), OP_F32(7)},
               .out = {OP_F32(AC_BATCH, 7), OP_F32(AC_BATCH, 2)}),
    LAYER_NORM("two columns 1x2", 1, .in = {OP_F32(AC_BATCH, 2), OP_F32(2), OP_F32(2)},
               .out = {OP_F32(AC_BATCH, 2), OP_F32(AC_BATCH, 2)}),
    LAYER_NORM("wide 2x1025", 2, .in = {OP_F32(AC_BATCH, 1025), OP_F32(1025), OP_F32(1025)},
               .out = {OP_F32(AC_BATCH, 1025), OP_F32(AC_BATCH, 2)}),
    LAYER_NORM("wider 7x2500", 7, .in = {OP_F32(AC_BATCH, 2500), OP_F32(2500), OP_F32(2500)},
               .out = {OP_F32(AC_BATCH, 2500), OP_F32(AC_BATCH, 2)}),
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_layer_norm;
  result->attributes.layer_norm.epsilon = (float)op_vector_attribute(vector, "epsilon", 1e-5);
  result->gradients = gradients;
  result->gradient_count = 2;
}

/* A constant row has no variance: y = beta and r = 1 / sqrt(epsilon), no NaN. A NaN stays in its
 * row. */
static void special(ac_device *device) {
  op_check_large(device, &cases[1]);
  op_instance y;
  op_result result;
  op_variant variant = {.name = "constant and NaN rows"};
  op_instance_forward(&y, &cases[1], 7);
  for (int c = 0; c < 65; c++) op_reals(&y.args.in[0])[2 * 65 + c] = 0.25;
  op_reals(&y.args.in[0])[4 * 65 + 64] = NAN;
  op_instance_compute(&y);
  const char *where = op_where(device, &y, &variant);
  if (op_run(device, &y, &variant, &result)) {
    for (int c = 0; c < 65; c++) {
      OP_EXPECT(where, result.out[0][2 * 65 + c] == 0, "a constant row gives %g",
                result.out[0][2 * 65 + c]);
      OP_EXPECT(where, isnan(result.out[0][4 * 65 + c]), "a NaN is lost in column %d", c);
    }
    OP_EXPECT(where, fabs(result.out[1][5] - 316.2277) < 0.01, "1/std of a constant row is %g",
              result.out[1][5]);
    OP_EXPECT(where, isfinite(result.out[0][5 * 65]), "a NaN leaves its row");
  }
  op_result_free(&result);
  op_instance_free(&y);
}

const op_family op_family_layer_norm = {"layer_norm", cases,   sizeof cases / sizeof *cases,
                                        from_vector,  special, NULL};

/* Over the middle one of three axes, or all but the batch. */
static ac_tensor *over(op_draw *d, ac_tensor *x) {
  const bool middle = x->shape.rank > 2 && x->shape.dim[1] > 2 && op_draw_one_in(d, 2);
  const int axis = 1;
  ac_tensor *gamma = middle ? op_draw_vector(d, 0.5, 1.5, x->shape.dim[1])
                            : op_draw_parameter(d, 0.5, 1.5, x->shape.rank - x->shape.batched,
                                                x->shape.dim + x->shape.batched);
  return ac_layer_norm_over(x, gamma, NULL, middle, middle ? &axis : NULL, 0);
}

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  int64_t C = ac_shape_last(&x->shape);
  if (op_draw_one_in(d, 4)) return over(d, x);
  ac_tensor *gamma = op_draw_maybe_vector(d, 0.5, 1.5, C);
  return ac_layer_norm(x, gamma, op_draw_maybe_vector(d, -0.5, 0.5, C),
                       op_draw_one_in(d, 2) ? 0 : 0.01f);
}

/* The mean. */
static void round_means(const ac_op_args *args, double unit, uint64_t key) {
  int64_t rows = ac_rows(&args->in[0]), C = ac_columns(&args->in[0]);
  for (int64_t n = 0; n < rows; n++) {
    double off = op_draw_rounded_mean(args, n, unit, key);
    for (int64_t c = 0; c < C; c++)
      op_reals(&args->out[0])[n * C + c] += off * vector(&args->in[1], c, 1);
  }
}

const op_generator op_generator_layer_norm = {
    .takes = op_takes_norm, .build = grow, OP_GRADIENTS(gradients), .round = round_means};
