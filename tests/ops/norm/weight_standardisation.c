/* Cases and references of weight_standardisation. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>

/* mean = sum_j w / n;  r = 1 / sqrt(sum_j (w - mean)^2 / n + epsilon);  y = (w - mean) r */
static void weight_standardisation(const ac_op_args *args) {
  const ac_weight_standardisation_attributes *a = args->attributes;
  int64_t n = ac_weight_row(&args->in[0]);
  for (int64_t o = 0; o < args->in[0].dim[0]; o++) {
    const double *w = op_reals(&args->in[0]) + o * n;
    double mean = 0, variance = 0;
    for (int64_t j = 0; j < n; j++) mean += w[j] / (double)n;
    for (int64_t j = 0; j < n; j++) variance += (w[j] - mean) * (w[j] - mean) / (double)n;
    double r = 1 / sqrt(variance + (double)a->epsilon);
    for (int64_t j = 0; j < n; j++) op_reals(&args->out[0])[o * n + j] = (w[j] - mean) * r;
    op_reals(&args->out[1])[2 * o] = mean;
    op_reals(&args->out[1])[2 * o + 1] = r;
  }
}

static double largest_r(const ac_operand *statistics) {
  double r = 1;
  for (int64_t i = 1; i < statistics->count; i += 2) r = fmax(r, op_reals(statistics)[i]);
  return r;
}

/* As of layer_norm. */
static op_tolerance weight_standardisation_error(const ac_op_args *args, int output) {
  double w = op_largest(&args->in[0]), r = largest_r(&args->out[1]);
  if (output == 0) return (op_tolerance){4, 4 * (1 + w * r)};
  return (op_tolerance){4 + 2 * w * r * op_sum_error(1), 4 * w};
}

const op_reference op_reference_weight_standardisation = {
    weight_standardisation, weight_standardisation_error, true, false};

/* dw = r (dy - mean_j(dy) - y mean_j(dy y)) */
static void weight_standardisation_gradient(const ac_op_args *args) {
  int64_t n = ac_weight_row(&args->in[1]);
  for (int64_t o = 0; o < args->in[1].dim[0]; o++) {
    const double *dy = op_reals(&args->in[0]) + o * n, *w = op_reals(&args->in[1]) + o * n;
    double mean = op_reals(&args->in[2])[2 * o], r = op_reals(&args->in[2])[2 * o + 1];
    double g = 0, gy = 0;
    for (int64_t j = 0; j < n; j++) {
      g += dy[j] / (double)n;
      gy += dy[j] * (w[j] - mean) * r / (double)n;
    }
    for (int64_t j = 0; j < n; j++)
      op_reals(&args->out[0])[o * n + j] = r * (dy[j] - g - (w[j] - mean) * r * gy);
  }
}

static op_tolerance weight_standardisation_gradient_error(const ac_op_args *args, int output) {
  (void)output;
  double r = largest_r(&args->in[2]), w = op_largest(&args->in[1]), dy = op_largest(&args->in[0]);
  return (op_tolerance){4, 8 * r * dy * (1 + w * r)};
}

const op_reference op_reference_weight_standardisation_gradient = {
    weight_standardisation_gradient, weight_standardisation_gradient_error, true, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_weight_standardisation_gradient,
     .in = {OP_DY, OP_INPUT(0), OP_OUTPUT(1)},
     .of = {0},
     .outputs = 1},
};

#define STANDARDISED(name_, rows, ...)                                                           \
  {                                                                                              \
    .name = name_, .op = AC_OP_weight_standardisation,                                           \
    .attributes.weight_standardisation = {1e-5f}, .batch = 1, .in = {OP_F32(rows, __VA_ARGS__)}, \
    .out = {OP_F32(rows, __VA_ARGS__), OP_F32(rows, 2)}, .gradients = gradients,                 \
    .gradient_count = 1                                                                          \
  }

static const op_case cases[] = {
    STANDARDISED("17x3x5x5", 17, 3, 5, 5),
    STANDARDISED("two inputs 3x2", 3, 2),
    STANDARDISED("one row of 129", 1, 129),
    STANDARDISED("wide 7x5000", 7, 5000),
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_weight_standardisation;
  result->attributes.weight_standardisation.epsilon =
      (float)op_vector_attribute(vector, "epsilon", 1e-5);
  result->gradients = gradients;
  result->gradient_count = 1;
}

/* A constant row, such as one that has just been set to zero, becomes zeros, no NaN. */
static void special(ac_device *device) {
  op_check_large(device, &cases[0]);
  op_instance y;
  op_result result;
  op_variant variant = {.name = "a constant row"};
  op_instance_forward(&y, &cases[0], 1);
  for (int j = 0; j < 75; j++) op_reals(&y.args.in[0])[2 * 75 + j] = 0.5;
  op_instance_compute(&y);
  const char *where = op_where(device, &y, &variant);
  if (op_run(device, &y, &variant, &result))
    for (int j = 0; j < 75; j++)
      OP_EXPECT(where, result.out[0][2 * 75 + j] == 0, "it gives %g", result.out[0][2 * 75 + j]);
  op_result_free(&result);
  op_instance_free(&y);
}

const op_family op_family_weight_standardisation = {
    "weight_standardisation", cases, sizeof cases / sizeof *cases, from_vector, special, NULL};

/* As the weight of a product. */
static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  int64_t in = ac_shape_last(&x->shape), dim[] = {1 + op_draw_below(d, 6), in};
  ac_tensor *weight = op_draw_weight(d, in, 2, dim);
  weight = ac_weight_standardisation(weight, op_draw_one_in(d, 2) ? 0 : 0.01f);
  return ac_scale(ac_linear(x, weight, NULL, AC_OUT_IN), 1 / sqrtf((float)in));
}

/* The mean. */
static void round_means(const ac_op_args *args, double unit, uint64_t key) {
  int64_t n = ac_weight_row(&args->in[0]);
  for (int64_t o = 0; o < args->in[0].dim[0]; o++) {
    double off = op_draw_rounded_mean(args, o, unit, key);
    for (int64_t j = 0; j < n; j++) op_reals(&args->out[0])[o * n + j] += off;
  }
}

const op_generator op_generator_weight_standardisation = {
    .takes = op_takes_norm, .build = grow, OP_GRADIENTS(gradients), .round = round_means};
