/* Cases and references of sigmoid. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>
#include <stdlib.h>

/* y = 1 / (1 + exp(-x)) */
static void sigmoid(const ac_op_args *args) {
  for (int64_t i = 0; i < args->out[0].count; i++)
    op_reals(&args->out[0])[i] = 1 / (1 + exp(-op_reals(&args->in[0])[i]));
}

/* exp, a sum and a quotient. */
static op_tolerance sigmoid_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){OP_MATH_ERROR, 0};
}

const op_reference op_reference_sigmoid = {sigmoid, sigmoid_error, false, false};

/* dx = dy y (1 - y) */
static void sigmoid_gradient(const ac_op_args *args) {
  for (int64_t i = 0; i < args->out[0].count; i++) {
    double y = op_reals(&args->in[1])[i];
    op_reals(&args->out[0])[i] = op_reals(&args->in[0])[i] * y * (1 - y);
  }
}

/* y near 1 carries half a unit, which 1 - y makes an absolute error; then three products. */
static op_tolerance sigmoid_gradient_error(const ac_op_args *args, int output) {
  (void)output;
  return (op_tolerance){3, op_largest(&args->in[0])};
}

const op_reference op_reference_sigmoid_gradient = {sigmoid_gradient, sigmoid_gradient_error, false,
                                                    false};

static const op_gradient gradients[] = {
    {.op = AC_OP_sigmoid_gradient, .in = {OP_DY, OP_OUTPUT(0)}, .of = {0}, .outputs = 1},
};

#define SIGMOID(name_, low, high, batch_, ...)                                                  \
  {                                                                                             \
    .name = name_, .op = AC_OP_sigmoid, .batch = batch_,                                        \
    .in = {OP_RANGE(low, high, AC_BATCH, __VA_ARGS__)}, .out = {OP_F32(AC_BATCH, __VA_ARGS__)}, \
    .gradients = gradients, .gradient_count = 1                                                 \
  }

static const op_case cases[] = {
    SIGMOID("3x65x129", -6, 6, 3, 65, 129),
    SIGMOID("near zero 7", -0.01, 0.01, 7, 1),
    SIGMOID("far out 1x65", -80, 80, 1, 65),
};

static void from_vector(op_case *result, const op_vector *vector) {
  (void)vector;
  result->op = AC_OP_sigmoid;
  result->gradients = gradients;
  result->gradient_count = 1;
}

/* exp(-x) overflows for large negative x: the result is 0, not NaN. */
static void special(ac_device *device) {
  op_instance y;
  op_result result;
  op_variant variant = {.name = "huge and NaN"};
  op_instance_forward(&y, &cases[1], 7);
  double *x = op_reals(&y.args.in[0]);
  x[0] = 1000, x[1] = -1000, x[2] = NAN, x[3] = INFINITY, x[4] = -INFINITY;
  const char *where = op_where(device, &y, &variant);
  if (op_run(device, &y, &variant, &result)) {
    OP_EXPECT(where, result.out[0][0] == 1, "sigmoid(1000) is %g", result.out[0][0]);
    OP_EXPECT(where, fabs(result.out[0][1]) < 1e-30, "sigmoid(-1000) is %g", result.out[0][1]);
    OP_EXPECT(where, isnan(result.out[0][2]), "sigmoid(NaN) is %g", result.out[0][2]);
    OP_EXPECT(where, result.out[0][3] == 1, "sigmoid(inf) is %g", result.out[0][3]);
    OP_EXPECT(where, fabs(result.out[0][4]) < 1e-30, "sigmoid(-inf) is %g", result.out[0][4]);
  }
  op_result_free(&result);
  op_instance_free(&y);
}

const op_family op_family_sigmoid = {"sigmoid",   cases,   sizeof cases / sizeof *cases,
                                     from_vector, special, NULL};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  (void)d;
  return ac_sigmoid(x);
}

const op_generator op_generator_sigmoid = {
    .takes = op_takes_all, .build = grow, OP_GRADIENTS(gradients)};
