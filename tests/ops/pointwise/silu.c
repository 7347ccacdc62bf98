/* Cases and references of silu. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>
#include <stdlib.h>

/* y = x s(x), s(x) = 1 / (1 + exp(-x)) */
static void silu(const ac_op_args *args) {
  for (int64_t i = 0; i < args->out[0].count; i++) {
    double x = op_reals(&args->in[0])[i];
    op_reals(&args->out[0])[i] = x / (1 + exp(-x));
  }
}

/* exp(-x) is off by a few units, the sum with 1 by one, and the product of three factors by one
 * each. */
static op_tolerance silu_error(const ac_op_args *args, int output) {
  (void)output;
  double dy = args->op == AC_OP_silu_gradient ? op_largest(&args->in[0]) : 1;
  return (op_tolerance){OP_MATH_ERROR, 8 * dy};
}

const op_reference op_reference_silu = {silu, silu_error, false, false};

/* dx = dy s (1 + x (1 - s)) */
static void silu_gradient(const ac_op_args *args) {
  for (int64_t i = 0; i < args->out[0].count; i++) {
    double x = op_reals(&args->in[1])[i], s = 1 / (1 + exp(-x));
    op_reals(&args->out[0])[i] = op_reals(&args->in[0])[i] * s * (1 + x * (1 - s));
  }
}

const op_reference op_reference_silu_gradient = {silu_gradient, silu_error, false, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_silu_gradient, .in = {OP_DY, OP_INPUT(0)}, .of = {0}, .outputs = 1},
};

#define SILU(name_, low, high, batch_, ...)                                                     \
  {                                                                                             \
    .name = name_, .op = AC_OP_silu, .batch = batch_,                                           \
    .in = {OP_RANGE(low, high, AC_BATCH, __VA_ARGS__)}, .out = {OP_F32(AC_BATCH, __VA_ARGS__)}, \
    .gradients = gradients, .gradient_count = 1                                                 \
  }

static const op_case cases[] = {
    SILU("3x65x129", -6, 6, 3, 65, 129),
    SILU("near zero 7", -0.01, 0.01, 7, 1),
    SILU("far out 1x65", -100, 100, 1, 65),
};

static void from_vector(op_case *result, const op_vector *vector) {
  (void)vector;
  result->op = AC_OP_silu;
  result->gradients = gradients;
  result->gradient_count = 1;
}

/* exp(-x) overflows for large negative x: the result is 0, not NaN. */
static void special(ac_device *device) {
  op_instance y, dx;
  op_result result;
  op_variant variant = {.name = "huge and NaN"};
  op_instance_forward(&y, &cases[1], 7);
  double *x = op_reals(&y.args.in[0]);
  x[0] = 1000, x[1] = -1000, x[2] = NAN;
  const char *where = op_where(device, &y, &variant);
  if (op_run(device, &y, &variant, &result)) {
    OP_EXPECT(where, result.out[0][0] == 1000, "silu(1000) is %g", result.out[0][0]);
    OP_EXPECT(where, fabs(result.out[0][1]) < 1e-30, "silu(-1000) is %g", result.out[0][1]);
    OP_EXPECT(where, isnan(result.out[0][2]), "silu(NaN) is %g", result.out[0][2]);
  }
  op_result_free(&result);
  double *dy = op_random_gradient(&y);
  op_instance_gradient(&dx, &y, &gradients[0], dy);
  where = op_where(device, &dx, &variant);
  if (op_run(device, &dx, &variant, &result)) {
    OP_EXPECT(where, result.out[0][0] == dy[0], "the gradient at 1000 is %g", result.out[0][0]);
    OP_EXPECT(where, fabs(result.out[0][1]) < 1e-30, "the gradient at -1000 is %g",
              result.out[0][1]);
    OP_EXPECT(where, isnan(result.out[0][2]), "the gradient at NaN is %g", result.out[0][2]);
  }
  op_result_free(&result);
  free(dy);
  op_instance_free(&dx);
  op_instance_free(&y);
}

const op_family op_family_silu = {"silu",      cases,   sizeof cases / sizeof *cases,
                                  from_vector, special, NULL};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  (void)d;
  return ac_silu(x);
}

const op_generator op_generator_silu = {
    .takes = op_takes_all, .build = grow, OP_GRADIENTS(gradients)};
