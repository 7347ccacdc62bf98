/* Cases and references of rms_norm. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>

/* Of gamma, which may be absent. */
static double vector(const ac_operand *gamma, int64_t c) {
  return gamma->count ? op_reals(gamma)[c] : 1;
}

/* r = 1 / sqrt(sum_c x^2 / C + epsilon);  y = x r gamma */
static void rms_norm(const ac_op_args *args) {
  const ac_rms_norm_attributes *a = args->attributes;
  int64_t rows = ac_rows(&args->in[0]), C = ac_columns(&args->in[0]);
  for (int64_t n = 0; n < rows; n++) {
    const double *x = op_reals(&args->in[0]) + n * C;
    double squares = 0;
    for (int64_t c = 0; c < C; c++) squares += x[c] * x[c] / (double)C;
    double r = op_reals(&args->out[1])[n] = 1 / sqrt(squares + (double)a->epsilon);
    for (int64_t c = 0; c < C; c++)
      op_reals(&args->out[0])[n * C + c] = x[c] * r * vector(&args->in[1], c);
  }
}

/* The squares are positive, so their sum keeps its relative error; r has half of it. */
static op_tolerance rms_norm_error(const ac_op_args *args, int output) {
  (void)output;
  return (op_tolerance){OP_MATH_ERROR + op_sum_error(ac_columns(&args->in[0]) / 16), 0};
}

const op_reference op_reference_rms_norm = {rms_norm, rms_norm_error, true, false};

static double largest_r(const ac_operand *statistics) {
  double r = 1;
  for (int64_t i = 0; i < statistics->count; i++) r = fmax(r, op_reals(statistics)[i]);
  return r;
}

/* With h = x r and g = dy gamma:  dx = r (g - h mean_c(g h)) */
static void rms_norm_input_gradient(const ac_op_args *args) {
  int64_t rows = ac_rows(&args->in[0]), C = ac_columns(&args->in[0]);
  const ac_operand *gamma = &args->in[3];
  for (int64_t n = 0; n < rows; n++) {
    const double *dy = op_reals(&args->in[0]) + n * C, *x = op_reals(&args->in[1]) + n * C;
    double r = op_reals(&args->in[2])[n], gh = 0;
    for (int64_t c = 0; c < C; c++) gh += dy[c] * vector(gamma, c) * x[c] * r / (double)C;
    for (int64_t c = 0; c < C; c++)
      op_reals(&args->out[0])[n * C + c] = r * (dy[c] * vector(gamma, c) - x[c] * r * gh);
  }
}

/* As of layer_norm. */
static op_tolerance rms_norm_input_error(const ac_op_args *args, int output) {
  (void)output;
  double r = largest_r(&args->in[2]), x = op_largest(&args->in[1]);
  double g = op_largest(&args->in[0]) * (args->in[3].count ? op_largest(&args->in[3]) : 1);
  return (op_tolerance){4, 8 * r * g * (1 + x * r)};
}

const op_reference op_reference_rms_norm_input_gradient = {rms_norm_input_gradient,
                                                           rms_norm_input_error, true, false};

/* dgamma[c] = sum_n dy h */
static void rms_norm_parameter_gradient(const ac_op_args *args) {
  if (!args->out[0].count) return; /* without gamma */
  int64_t rows = ac_rows(&args->in[0]), C = ac_columns(&args->in[0]);
  for (int64_t c = 0; c < C; c++) {
    double dgamma = 0;
    for (int64_t n = 0; n < rows; n++)
      dgamma += op_reals(&args->in[0])[n * C + c] * op_reals(&args->in[1])[n * C + c] *
                op_reals(&args->in[2])[n];
    op_reals(&args->out[0])[c] = dgamma;
  }
}

static op_tolerance rms_norm_parameter_error(const ac_op_args *args, int output) {
  (void)output;
  double h = op_largest(&args->in[1]) * largest_r(&args->in[2]);
  return (op_tolerance){1, op_sum_error(ac_rows(&args->in[0])) * op_largest(&args->in[0]) * h};
}

const op_reference op_reference_rms_norm_parameter_gradient = {
    rms_norm_parameter_gradient, rms_norm_parameter_error, true, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_rms_norm_input_gradient,
     .in = {OP_DY, OP_INPUT(0), OP_OUTPUT(1), OP_INPUT(1)},
     .of = {0},
     .outputs = 1},
    {.op = AC_OP_rms_norm_parameter_gradient,
     .in = {OP_DY, OP_INPUT(0), OP_OUTPUT(1)},
     .of = {1},
     .outputs = 1},
};

#define RMS_NORM(name_, batch_, ...)                                                      \
  {                                                                                       \
    .name = name_, .op = AC_OP_rms_norm, .attributes.rms_norm = {1e-5f}, .batch = batch_, \
    .gradients = gradients, .gradient_count = 2, __VA_ARGS__                              \
  }

static const op_case cases[] = {
    RMS_NORM("3x65x129", 3, .in = {OP_F32(AC_BATCH, 65, 129), OP_F32(129)},
             .out = {OP_F32(AC_BATCH, 65, 129), OP_F32(OP_BATCH(65), 1)}),
    RMS_NORM("far from zero 7x65", 7, .in = {OP_RANGE(30, 32, AC_BATCH, 65), OP_F32(65)},
             .out = {OP_F32(AC_BATCH, 65), OP_F32(AC_BATCH, 1)}),
    {.name = "without gamma 7x67",
     .op = AC_OP_rms_norm,
     .attributes.rms_norm = {1e-5f},
     .batch = 7,
     .in = {OP_F32(AC_BATCH, 67)},
     .out = {OP_F32(AC_BATCH, 67), OP_F32(AC_BATCH, 1)},
     .gradients = gradients,
     .gradient_count = 1}, /* that of x */
    RMS_NORM("small 3x7", 3, .in = {OP_RANGE(-0.01, 0.01, AC_BATCH, 7), OP_F32(7)},
             .out = {OP_F32(AC_BATCH, 7), OP_F32(AC_BATCH, 1)}),
    RMS_NORM("one column 5x1", 5, .in = {OP_F32(AC_BATCH, 1), OP_F32(1)},
             .out = {OP_F32(AC_BATCH, 1), OP_F32(AC_BATCH, 1)}),
    RMS_NORM("wide 2x5000", 2, .in = {OP_F32(AC_BATCH, 5000), OP_F32(5000)},
             .out = {OP_F32(AC_BATCH, 5000), OP_F32(AC_BATCH, 1)}),
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_rms_norm;
  result->attributes.rms_norm.epsilon = (float)op_vector_attribute(vector, "epsilon", 1e-5);
  result->gradients = gradients;
  result->gradient_count = op_vector_find(vector, "in1") ? 2 : 1;
}

/* A row of zeros: y = 0 and r = 1 / sqrt(epsilon), no NaN. A NaN stays in its row. */
static void special(ac_device *device) {
  op_check_large(device, &cases[1]);
  op_instance y;
  op_result result;
  op_variant variant = {.name = "zero and NaN rows"};
  op_instance_forward(&y, &cases[1], 7);
  for (int c = 0; c < 65; c++) op_reals(&y.args.in[0])[2 * 65 + c] = 0;
  op_reals(&y.args.in[0])[4 * 65 + 64] = NAN;
  op_instance_compute(&y);
  const char *where = op_where(device, &y, &variant);
  if (op_run(device, &y, &variant, &result)) {
    for (int c = 0; c < 65; c++) {
      OP_EXPECT(where, result.out[0][2 * 65 + c] == 0, "a row of zeros gives %g",
                result.out[0][2 * 65 + c]);
      OP_EXPECT(where, isnan(result.out[0][4 * 65 + c]), "a NaN is lost in column %d", c);
    }
    OP_EXPECT(where, fabs(result.out[1][2] - 316.2277) < 0.01, "1/rms of zeros is %g",
              result.out[1][2]);
    OP_EXPECT(where, isfinite(result.out[0][5 * 65]), "a NaN leaves its row");
  }
  op_result_free(&result);
  op_instance_free(&y);
}

const op_family op_family_rms_norm = {"rms_norm",  cases,   sizeof cases / sizeof *cases,
                                      from_vector, special, NULL};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  const int axis = -2;
  if (x->shape.rank > 2 && op_draw_one_in(d, 4))
    return ac_rms_norm_over(x, op_draw_vector(d, 0.5, 1.5, x->shape.dim[x->shape.rank - 2]), 1,
                            &axis, 0);
  ac_tensor *gamma = op_draw_maybe_vector(d, 0.5, 1.5, ac_shape_last(&x->shape));
  return ac_rms_norm(x, gamma, op_draw_one_in(d, 2) ? 0 : 0.01f);
}

const op_generator op_generator_rms_norm = {
    .takes = op_takes_norm, .build = grow, OP_GRADIENTS(gradients)};
