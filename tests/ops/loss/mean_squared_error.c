/* Cases and references of mean_squared_error. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>

static double weight(const ac_op_args *args, int64_t b) {
  return args->in[2].count ? op_reals(&args->in[2])[b] : 1;
}

/* sums += w {sum_j (prediction - target)^2 / m, 1, 0} over samples of m elements. */
static void mean_squared_error(const ac_op_args *args) {
  int64_t B = args->in[0].dim[0], m = args->in[0].count / B;
  double *sums = op_reals(&args->out[0]);
  for (int i = 0; i < AC_LOSS_SUMS; i++) sums[i] = 0;
  for (int64_t i = 0; i < B * m; i++) {
    double d = op_reals(&args->in[0])[i] - op_reals(&args->in[1])[i];
    if (weight(args, i / m) != 0) sums[0] += weight(args, i / m) * d * d / (double)m;
  }
  for (int64_t b = 0; b < B; b++) sums[2] += weight(args, b);
}

/* A sample's sum of m squares, divided by m; samples add up without further error. */
static op_tolerance mean_squared_error_error(const ac_op_args *args, int output) {
  (void)output;
  return (op_tolerance){4 + op_sum_error(args->in[0].count / args->in[0].dim[0]), 0};
}

const op_reference op_reference_mean_squared_error = {mean_squared_error, mean_squared_error_error,
                                                      false, false};

/* dprediction = loss_scale w 2 / m (prediction - target) */
static void mean_squared_error_gradient(const ac_op_args *args) {
  int64_t B = args->in[0].dim[0], m = args->in[0].count / B;
  for (int64_t i = 0; i < B * m; i++) {
    double w = weight(args, i / m) * (double)args->run->loss_scale;
    double d = op_reals(&args->in[0])[i] - op_reals(&args->in[1])[i];
    op_reals(&args->out[0])[i] = w == 0 ? 0 : w * 2 / (double)m * d;
  }
}

/* A difference, a factor of three roundings, a product. */
static op_tolerance mean_squared_error_gradient_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){3, 0};
}

const op_reference op_reference_mean_squared_error_gradient = {
    mean_squared_error_gradient, mean_squared_error_gradient_error, false, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_mean_squared_error_gradient,
     .in = {OP_INPUT(0), OP_INPUT(1), OP_INPUT(2)},
     .of = {0},
     .outputs = 1},
};

#define SUMS \
  { .dtype = AC_F32, .rank = 1, .dim = {AC_LOSS_SUMS}, .fill = OP_LOSS_SUMS }
#define ERROR(name_, batch_, ...)                                                           \
  {                                                                                         \
    .name = name_, .op = AC_OP_mean_squared_error, .batch = batch_, .gradients = gradients, \
    .gradient_count = 1, .out = {SUMS}, .in = {                                             \
      __VA_ARGS__                                                                           \
    }                                                                                       \
  }

static const op_case cases[] = {
    ERROR("7x65", 7, OP_F32(AC_BATCH, 65), OP_F32(AC_BATCH, 65)),
    ERROR("weights 65x3x7", 65, OP_F32(AC_BATCH, 3, 7), OP_F32(AC_BATCH, 3, 7),
          OP_RANGE(0, 2, AC_BATCH)),
    ERROR("every weight 0, 7x3", 7, OP_F32(AC_BATCH, 3), OP_F32(AC_BATCH, 3),
          OP_RANGE(0, 0, AC_BATCH)),
    ERROR("one element", 1, OP_F32(AC_BATCH, 1), OP_F32(AC_BATCH, 1)),
    ERROR("wide 17x1025", 17, OP_F32(AC_BATCH, 1025), OP_F32(AC_BATCH, 1025)),
    ERROR("wider 3x5000", 3, OP_F32(AC_BATCH, 5000), OP_F32(AC_BATCH, 5000)),
};

static void from_vector(op_case *result, const op_vector *vector) {
  (void)vector;
  result->op = AC_OP_mean_squared_error;
  result->out[0].fill = OP_LOSS_SUMS;
  result->gradients = gradients;
  result->gradient_count = 1;
}

/* A NaN in the prediction shows in the loss and the gradient; in a sample of weight 0 it does not.
 */
static void special(ac_device *device) {
  op_instance loss, gradient;
  op_result result;
  op_variant variant = {.name = "NaN"};
  op_instance_forward(&loss, &cases[1], 65);
  op_reals(&loss.args.in[2])[3] = 0;
  op_reals(&loss.args.in[0])[3 * 21 + 4] = NAN;
  op_instance_compute(&loss);
  for (int k = 0; k < 2; k++) {
    if (k == 1) op_reals(&loss.args.in[0])[8 * 21 + 20] = NAN;
    if (op_run(device, &loss, &variant, &result))
      OP_EXPECT(op_where(device, &loss, &variant),
                (bool)isnan(result.out[0][0] + result.out[0][1]) == (k == 1), "the loss is %g",
                result.out[0][0]);
    op_result_free(&result);
  }
  op_instance_gradient(&gradient, &loss, &gradients[0], NULL);
  if (op_run(device, &gradient, &variant, &result))
    op_compare(op_where(device, &gradient, &variant), &gradient, &variant, &result, 1);
  op_result_free(&result);
  op_instance_free(&gradient);
  op_instance_free(&loss);
}

const op_family op_family_mean_squared_error = {
    "mean_squared_error", cases, sizeof cases / sizeof *cases, from_vector, special, NULL};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  ac_shape samples = x->shape;
  samples.rank = 1;
  op_drawn_leaf *targets = op_draw_input(d, AC_F32, &x->shape, -1, 1);
  op_drawn_leaf *weights = op_draw_one_in(d, 2) ? NULL : op_draw_input(d, AC_F32, &samples, 0.1, 2);
  if (weights) weights->rare = 4;
  return ac_mean_squared_error(x, targets->tensor, weights ? weights->tensor : NULL);
}

const op_generator op_generator_mean_squared_error = {
    .takes = op_takes_batched, .build = grow, .loss = true, OP_GRADIENTS(gradients)};
