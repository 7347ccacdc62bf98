/* Cases and references of scale. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

/* y[i] = factor x[i] */
static void scale(const ac_op_args *args) {
  const ac_scale_attributes *a = args->attributes;
  for (int64_t i = 0; i < args->out[0].count; i++)
    op_reals(&args->out[0])[i] = (double)a->factor * op_reals(&args->in[0])[i];
}

/* One correctly rounded product. */
static op_tolerance scale_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0.5, 0};
}

const op_reference op_reference_scale = {scale, scale_error, true, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_scale, .in = {OP_DY}, .of = {0}, .outputs = 1},
};

#define SCALE(name_, factor_, batch_, ...)                                            \
  {                                                                                   \
    .name = name_, .op = AC_OP_scale, .attributes.scale = {factor_}, .batch = batch_, \
    .gradients = gradients, .gradient_count = 1, __VA_ARGS__                          \
  }

static const op_case cases[] = {
    SCALE("0.3 x 3x65x129", 0.3f, 3, .in = {OP_F32(AC_BATCH, 65, 129)},
          .out = {OP_F32(AC_BATCH, 65, 129)}),
    SCALE("-7 x 7", -7, 7, .in = {OP_F32(AC_BATCH)}, .out = {OP_F32(AC_BATCH)}),
    SCALE("0 x 1", 0, 1, .in = {OP_F32(AC_BATCH)}, .out = {OP_F32(AC_BATCH)}),
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_scale;
  result->attributes.scale.factor = (float)op_vector_attribute(vector, "factor", 1);
  result->gradients = gradients;
  result->gradient_count = 1;
}

const op_family op_family_scale = {"scale",     cases, sizeof cases / sizeof *cases,
                                   from_vector, NULL,  NULL};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  double size = op_draw_between(d, 0.5, 2);
  return ac_scale(x, (float)(op_draw_one_in(d, 2) ? size : -size));
}

const op_generator op_generator_scale = {
    .takes = op_takes_all, .build = grow, OP_GRADIENTS(gradients)};
