/* Cases and references of leaky_relu. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>
#include <stdlib.h>

static double slope_of(const ac_op_args *args) {
  return (double)((const ac_leaky_relu_attributes *)args->attributes)->slope;
}

/* y = x where x > 0, else slope x */
static void leaky_relu(const ac_op_args *args) {
  for (int64_t i = 0; i < args->out[0].count; i++) {
    double x = op_reals(&args->in[0])[i];
    op_reals(&args->out[0])[i] = x > 0 ? x : slope_of(args) * x;
  }
}

/* One product. */
static op_tolerance leaky_relu_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){1, 0};
}

const op_reference op_reference_leaky_relu = {leaky_relu, leaky_relu_error, true, false};

/* dx = dy where y > 0, else slope dy */
static void leaky_relu_gradient(const ac_op_args *args) {
  for (int64_t i = 0; i < args->out[0].count; i++) {
    double dy = op_reals(&args->in[0])[i];
    op_reals(&args->out[0])[i] = op_reals(&args->in[1])[i] > 0 ? dy : slope_of(args) * dy;
  }
}

const op_reference op_reference_leaky_relu_gradient = {leaky_relu_gradient, leaky_relu_error, true,
                                                       false};

static const op_gradient gradients[] = {
    {.op = AC_OP_leaky_relu_gradient, .in = {OP_DY, OP_OUTPUT(0)}, .of = {0}, .outputs = 1},
};

/* Finite differences need inputs away from the kink. */
#define LEAKY_RELU(name_, slope_, batch_, ...)                                                 \
  {                                                                                            \
    .name = name_, .op = AC_OP_leaky_relu, .attributes.leaky_relu = {slope_}, .batch = batch_, \
    .in = {{.dtype = AC_F32,                                                                   \
            .rank = OP_RANK(AC_BATCH, __VA_ARGS__),                                            \
            .dim = {AC_BATCH, __VA_ARGS__},                                                    \
            .fill = OP_NOT_ZERO,                                                               \
            .low = -1,                                                                         \
            .high = 1}},                                                                       \
    .out = {OP_F32(AC_BATCH, __VA_ARGS__)}, .gradients = gradients, .gradient_count = 1        \
  }

static const op_case cases[] = {
    LEAKY_RELU("3x65x129", 0.01f, 3, 65, 129),
    LEAKY_RELU("7x1", 0.2f, 7, 1),
    LEAKY_RELU("slope 0, 3x65", 0, 3, 65),
    LEAKY_RELU("steeper below, 3x65", 2.5f, 3, 65),
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_leaky_relu;
  result->attributes.leaky_relu.slope = (float)op_vector_attribute(vector, "slope", 0);
  result->gradients = gradients;
  result->gradient_count = 1;
}

/* A NaN stays, and at 0 the gradient is that of negative values. */
static void special(ac_device *device) {
  op_instance y, dx;
  op_result result;
  op_variant variant = {.name = "NaN, infinities, zero"};
  op_instance_forward(&y, &cases[1], 7);
  double *x = op_reals(&y.args.in[0]), *dy = op_random_gradient(&y);
  x[0] = NAN, x[1] = INFINITY, x[2] = -INFINITY, x[3] = 0;
  op_instance_compute(&y);
  const char *where = op_where(device, &y, &variant);
  if (op_run(device, &y, &variant, &result)) {
    OP_EXPECT(where, isnan(result.out[0][0]), "leaky_relu(NaN) is %g", result.out[0][0]);
    op_compare(where, &y, &variant, &result, 1);
  }
  op_result_free(&result);
  op_instance_gradient(&dx, &y, &gradients[0], dy);
  if (op_run(device, &dx, &variant, &result))
    op_compare(op_where(device, &dx, &variant), &dx, &variant, &result, 1);
  op_result_free(&result);
  free(dy);
  op_instance_free(&dx);
  op_instance_free(&y);
}

const op_family op_family_leaky_relu = {"leaky_relu", cases,   sizeof cases / sizeof *cases,
                                        from_vector,  special, NULL};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  return ac_leaky_relu(x, (float)op_draw_between(d, 0, 0.5));
}

const op_generator op_generator_leaky_relu = {
    .takes = op_takes_all, .build = grow, OP_GRADIENTS(gradients), .ties = op_ties_at_zero};
