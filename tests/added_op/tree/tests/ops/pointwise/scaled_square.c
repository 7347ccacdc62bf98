/* Cases and references of scaled_square. */
#include "ops/driver.h"
#include "ops/generator.h"

/* y = factor x^2 */
static void scaled_square(const ac_op_args *args) {
  const ac_scaled_square_attributes *a = args->attributes;
  for (int64_t i = 0; i < args->out[0].count; i++) {
    double x = op_reals(&args->in[0])[i];
    op_reals(&args->out[0])[i] = (double)a->factor * x * x;
  }
}

/* Two products. */
static op_tolerance error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){2, 0};
}

const op_reference op_reference_scaled_square = {scaled_square, error, true, false};

/* dx = 2 factor x dy */
static void scaled_square_gradient(const ac_op_args *args) {
  const ac_scaled_square_attributes *a = args->attributes;
  for (int64_t i = 0; i < args->out[0].count; i++)
    op_reals(&args->out[0])[i] =
        2 * (double)a->factor * op_reals(&args->in[1])[i] * op_reals(&args->in[0])[i];
}

const op_reference op_reference_scaled_square_gradient = {scaled_square_gradient, error, true,
                                                          false};

static const op_gradient gradients[] = {
    {.op = AC_OP_scaled_square_gradient, .in = {OP_DY, OP_INPUT(0)}, .of = {0}, .outputs = 1},
};

static const op_case cases[] = {
    {.name = "3x65",
     .op = AC_OP_scaled_square,
     .attributes.scaled_square = {0.75f},
     .batch = 3,
     .in = {OP_F32(AC_BATCH, 65)},
     .out = {OP_F32(AC_BATCH, 65)},
     .gradients = gradients,
     .gradient_count = 1},
};

const op_family op_family_scaled_square = {
    "scaled_square", cases, sizeof cases / sizeof *cases, NULL, NULL, NULL};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  return ac_scaled_square(x, (float)op_draw_between(d, -1, 1));
}

const op_generator op_generator_scaled_square = {
    .takes = op_takes_all, .build = grow, OP_GRADIENTS(gradients)};
