/* Cases and references of gelu. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>
#include <stdlib.h>

static const double sqrt_2_over_pi = 0.79788456080286535588;

/* tanh: y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)));  erf: y = x/2 (1 + erf(x / sqrt 2)) */
static double value(ac_gelu_kind kind, double x) {
  if (kind == AC_GELU_TANH)
    return 0.5 * x * (1 + tanh(sqrt_2_over_pi * (x + 0.044715 * x * x * x)));
  return 0.5 * x * (1 + erf(x * sqrt(0.5)));
}

static double derivative(ac_gelu_kind kind, double x) {
  if (kind == AC_GELU_TANH) {
    double t = tanh(sqrt_2_over_pi * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * sqrt_2_over_pi * (1 + 3 * 0.044715 * x * x);
  }
  return 0.5 * (1 + erf(x * sqrt(0.5))) + x * exp(-0.5 * x * x) * 0.5 * sqrt_2_over_pi;
}

static void gelu(const ac_op_args *args) {
  const ac_gelu_attributes *a = args->attributes;
  for (int64_t i = 0; i < args->out[0].count; i++)
    op_reals(&args->out[0])[i] = value(a->kind, op_reals(&args->in[0])[i]);
}

/* 1 + tanh and 1 + erf cancel for negative x: there their error is a factor of |x| / 2. erf may be
 * off by 16 ulp. */
static op_tolerance gelu_error(const ac_op_args *args, int output) {
  (void)output;
  double dy = args->op == AC_OP_gelu_gradient ? op_largest(&args->in[0]) : 1;
  return (op_tolerance){OP_MATH_ERROR, 16 * dy};
}

const op_reference op_reference_gelu = {gelu, gelu_error, true, false};

static void gelu_gradient(const ac_op_args *args) {
  const ac_gelu_attributes *a = args->attributes;
  for (int64_t i = 0; i < args->out[0].count; i++)
    op_reals(&args->out[0])[i] =
        op_reals(&args->in[0])[i] * derivative(a->kind, op_reals(&args->in[1])[i]);
}

const op_reference op_reference_gelu_gradient = {gelu_gradient, gelu_error, true, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_gelu_gradient, .in = {OP_DY, OP_INPUT(0)}, .of = {0}, .outputs = 1},
};

#define GELU(name_, kind_, low, high, batch_, ...)                                              \
  {                                                                                             \
    .name = name_, .op = AC_OP_gelu, .attributes.gelu = {kind_}, .batch = batch_,               \
    .in = {OP_RANGE(low, high, AC_BATCH, __VA_ARGS__)}, .out = {OP_F32(AC_BATCH, __VA_ARGS__)}, \
    .gradients = gradients, .gradient_count = 1                                                 \
  }

static const op_case cases[] = {
    GELU("tanh 3x65x129", AC_GELU_TANH, -6, 6, 3, 65, 129),
    GELU("erf 3x65x129", AC_GELU_ERF, -6, 6, 3, 65, 129),
    GELU("tanh near zero 7", AC_GELU_TANH, -0.01, 0.01, 7, 1),
    GELU("erf near zero 7", AC_GELU_ERF, -0.01, 0.01, 7, 1),
    GELU("tanh far out 1x65", AC_GELU_TANH, -100, 100, 1, 65),
    GELU("erf far out 1x65", AC_GELU_ERF, -100, 100, 1, 65),
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_gelu;
  result->attributes.gelu.kind = (ac_gelu_kind)op_vector_attribute(vector, "kind", 0);
  result->gradients = gradients;
  result->gradient_count = 1;
}

/* Far out the function saturates, also where x^3 overflows; a NaN stays one. */
static void special(ac_device *device) {
  for (int i = 0; i < 2; i++) {
    op_instance y, dx;
    op_result result;
    op_variant variant = {.name = "huge and NaN"};
    op_instance_forward(&y, &cases[2 + i], 7);
    double *x = op_reals(&y.args.in[0]), *dy = op_random_gradient(&y);
    x[0] = (float)1e30, x[1] = (float)-1e30, x[2] = NAN, x[3] = 0, x[4] = INFINITY;
    const char *where = op_where(device, &y, &variant);
    if (op_run(device, &y, &variant, &result)) {
      OP_EXPECT(where, result.out[0][0] == x[0], "gelu(1e30) is %g", result.out[0][0]);
      OP_EXPECT(where, fabs(result.out[0][1]) < 1e-6, "gelu(-1e30) is %g", result.out[0][1]);
      OP_EXPECT(where, isnan(result.out[0][2]), "gelu(NaN) is %g", result.out[0][2]);
      OP_EXPECT(where, result.out[0][3] == 0, "gelu(0) is %g", result.out[0][3]);
      OP_EXPECT(where, result.out[0][4] == x[4], "gelu(inf) is %g", result.out[0][4]);
    }
    op_result_free(&result);

    variant.name = "gradient at huge and NaN";
    x[0] = (float)1e15, x[1] = (float)-1e15;
    op_instance_gradient(&dx, &y, &gradients[0], dy);
    where = op_where(device, &dx, &variant);
    if (op_run(device, &dx, &variant, &result)) {
      OP_EXPECT(where, result.out[0][0] == dy[0], "at 1e15: %g for %g", result.out[0][0], dy[0]);
      OP_EXPECT(where, fabs(result.out[0][1]) < 1e-6, "at -1e15: %g", result.out[0][1]);
      OP_EXPECT(where, isnan(result.out[0][2]), "at NaN: %g", result.out[0][2]);
    }
    op_result_free(&result);
    free(dy);
    op_instance_free(&dx);
    op_instance_free(&y);
  }
}

const op_family op_family_gelu = {"gelu",      cases,   sizeof cases / sizeof *cases,
                                  from_vector, special, NULL};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  return ac_gelu(x, op_draw_one_in(d, 2) ? AC_GELU_TANH : AC_GELU_ERF);
}

const op_generator op_generator_gelu = {
    .takes = op_takes_all, .build = grow, OP_GRADIENTS(gradients)};
