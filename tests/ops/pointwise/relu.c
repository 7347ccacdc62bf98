/* Cases and references of relu. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>
#include <stdlib.h>

/* y = max(x, 0) */
static void relu(const ac_op_args *args) {
  for (int64_t i = 0; i < args->out[0].count; i++)
    op_reals(&args->out[0])[i] = op_reals(&args->in[0])[i] > 0 ? op_reals(&args->in[0])[i] : 0;
}

/* A choice. */
static op_tolerance relu_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

const op_reference op_reference_relu = {relu, relu_error, false, false};

/* dx = dy where y > 0, else 0 */
static void relu_gradient(const ac_op_args *args) {
  for (int64_t i = 0; i < args->out[0].count; i++)
    op_reals(&args->out[0])[i] = op_reals(&args->in[1])[i] > 0 ? op_reals(&args->in[0])[i] : 0;
}

const op_reference op_reference_relu_gradient = {relu_gradient, relu_error, false, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_relu_gradient, .in = {OP_DY, OP_OUTPUT(0)}, .of = {0}, .outputs = 1},
};

/* Finite differences need inputs away from the kink. */
#define RELU(name_, batch_, ...)                                                        \
  {                                                                                     \
    .name = name_, .op = AC_OP_relu, .batch = batch_,                                   \
    .in = {{.dtype = AC_F32,                                                            \
            .rank = OP_RANK(AC_BATCH, __VA_ARGS__),                                     \
            .dim = {AC_BATCH, __VA_ARGS__},                                             \
            .fill = OP_NOT_ZERO,                                                        \
            .low = -1,                                                                  \
            .high = 1}},                                                                \
    .out = {OP_F32(AC_BATCH, __VA_ARGS__)}, .gradients = gradients, .gradient_count = 1 \
  }

static const op_case cases[] = {
    RELU("3x65x129", 3, 65, 129),
    RELU("7x1", 7, 1),
    RELU("1x1", 1, 1),
};

static void from_vector(op_case *result, const op_vector *vector) {
  (void)vector;
  result->op = AC_OP_relu;
  result->gradients = gradients;
  result->gradient_count = 1;
}

/* A NaN must not vanish in the comparison, or a diverged run would look alive. At 0 the gradient is
 * 0. */
static void special(ac_device *device) {
  op_instance y;
  op_result result;
  op_variant variant = {.name = "NaN, infinities, zero"};
  op_instance_forward(&y, &cases[1], 7);
  double *x = op_reals(&y.args.in[0]);
  x[0] = NAN, x[1] = INFINITY, x[2] = -INFINITY, x[3] = 0;
  const char *where = op_where(device, &y, &variant);
  if (op_run(device, &y, &variant, &result)) {
    OP_EXPECT(where, isnan(result.out[0][0]), "relu(NaN) is %g", result.out[0][0]);
    OP_EXPECT(where, isinf(result.out[0][1]), "relu(inf) is %g", result.out[0][1]);
    OP_EXPECT(where, result.out[0][2] == 0, "relu(-inf) is %g", result.out[0][2]);
  }
  op_result_free(&result);
  double *dy = op_random_gradient(&y);
  dy[4] = NAN, x[4] = 1;
  op_instance dx;
  op_instance_compute(&y);
  op_instance_gradient(&dx, &y, &gradients[0], dy);
  where = op_where(device, &dx, &variant);
  if (op_run(device, &dx, &variant, &result)) {
    OP_EXPECT(where, result.out[0][3] == 0, "the gradient at 0 is %g", result.out[0][3]);
    OP_EXPECT(where, isnan(result.out[0][4]), "a NaN gradient becomes %g", result.out[0][4]);
  }
  op_result_free(&result);
  free(dy);
  op_instance_free(&dx);
  op_instance_free(&y);
}

const op_family op_family_relu = {"relu",      cases,   sizeof cases / sizeof *cases,
                                  from_vector, special, NULL};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  (void)d;
  return ac_relu(x);
}

const op_generator op_generator_relu = {
    .takes = op_takes_all, .build = grow, OP_GRADIENTS(gradients), .ties = op_ties_at_zero};
