/* Cases and references of tanh. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>
#include <stdlib.h>

static void forward(const ac_op_args *args) {
  for (int64_t i = 0; i < args->out[0].count; i++)
    op_reals(&args->out[0])[i] = tanh(op_reals(&args->in[0])[i]);
}

/* Relative, so that nothing is lost near zero. */
static op_tolerance forward_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){OP_MATH_ERROR, 0};
}

const op_reference op_reference_tanh = {forward, forward_error, false, false};

/* dx = dy (1 - y^2) */
static void gradient(const ac_op_args *args) {
  for (int64_t i = 0; i < args->out[0].count; i++) {
    double y = op_reals(&args->in[1])[i];
    op_reals(&args->out[0])[i] = op_reals(&args->in[0])[i] * (1 - y * y);
  }
}

/* y near 1 is off by half a unit, which 1 - y^2 makes two units; then three products. */
static op_tolerance gradient_error(const ac_op_args *args, int output) {
  (void)output;
  return (op_tolerance){3, 2 * op_largest(&args->in[0])};
}

const op_reference op_reference_tanh_gradient = {gradient, gradient_error, false, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_tanh_gradient, .in = {OP_DY, OP_OUTPUT(0)}, .of = {0}, .outputs = 1},
};

#define TANH(name_, low, high, batch_, ...)                                                     \
  {                                                                                             \
    .name = name_, .op = AC_OP_tanh, .batch = batch_,                                           \
    .in = {OP_RANGE(low, high, AC_BATCH, __VA_ARGS__)}, .out = {OP_F32(AC_BATCH, __VA_ARGS__)}, \
    .gradients = gradients, .gradient_count = 1                                                 \
  }

static const op_case cases[] = {
    TANH("3x65x129", -3, 3, 3, 65, 129),
    TANH("near zero 7x9", -1e-4, 1e-4, 7, 9),
    TANH("far out 1x65", -100, 100, 1, 65),
};

static void from_vector(op_case *result, const op_vector *vector) {
  (void)vector;
  result->op = AC_OP_tanh;
  result->gradients = gradients;
  result->gradient_count = 1;
}

/* It saturates at 1 without overflow; signs, zeros and NaN are kept. */
static void special(ac_device *device) {
  op_instance y;
  op_result result;
  op_variant variant = {.name = "huge, zero and NaN"};
  op_instance_forward(&y, &cases[1], 7);
  double *x = op_reals(&y.args.in[0]);
  x[0] = 1000, x[1] = -1000, x[2] = NAN, x[3] = INFINITY, x[4] = -INFINITY, x[5] = 0;
  const char *where = op_where(device, &y, &variant);
  if (op_run(device, &y, &variant, &result)) {
    const double *r = result.out[0];
    OP_EXPECT(where, r[0] == 1 && r[1] == -1, "tanh(1000) is %g, tanh(-1000) %g", r[0], r[1]);
    OP_EXPECT(where, isnan(r[2]), "tanh(NaN) is %g", r[2]);
    OP_EXPECT(where, r[3] == 1 && r[4] == -1, "tanh(inf) is %g, tanh(-inf) %g", r[3], r[4]);
    OP_EXPECT(where, r[5] == 0, "tanh(0) is %g", r[5]);
  }
  op_result_free(&result);
  op_instance_free(&y);
}

const op_family op_family_tanh = {"tanh",      cases,   sizeof cases / sizeof *cases,
                                  from_vector, special, NULL};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  (void)d;
  return ac_tanh(x);
}

const op_generator op_generator_tanh = {
    .takes = op_takes_all, .build = grow, OP_GRADIENTS(gradients)};
