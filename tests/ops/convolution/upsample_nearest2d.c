/* Cases and references of upsample_nearest2d. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

/* Where y's element e comes from. */
static int64_t source(const ac_op_args *args, const ac_operand *y, int64_t e) {
  int64_t f = ((const ac_upsample_nearest2d_attributes *)args->attributes)->factor;
  int64_t W = y->dim[3], H = y->dim[2], plane = e / (W * H), i = e / W % H, j = e % W;
  return plane * (H / f) * (W / f) + i / f * (W / f) + j / f;
}

static void upsample(const ac_op_args *args) {
  const ac_operand *y = &args->out[0];
  for (int64_t e = 0; e < y->count; e++)
    op_reals(y)[e] = op_reals(&args->in[0])[source(args, y, e)];
}

static void upsample_gradient(const ac_op_args *args) {
  const ac_operand *dy = &args->in[0], *dx = &args->out[0];
  for (int64_t e = 0; e < dx->count; e++) op_reals(dx)[e] = 0;
  for (int64_t e = 0; e < dy->count; e++) op_reals(dx)[source(args, dy, e)] += op_reals(dy)[e];
}

static op_tolerance copy_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

static op_tolerance sum_error(const ac_op_args *args, int output) {
  int64_t f = ((const ac_upsample_nearest2d_attributes *)args->attributes)->factor;
  (void)output;
  return (op_tolerance){1, op_sum_error(f * f) * op_largest(&args->in[0])};
}

const op_reference op_reference_upsample_nearest2d = {upsample, copy_error, true, false};
const op_reference op_reference_upsample_nearest2d_gradient = {upsample_gradient, sum_error, true,
                                                               false};

static const op_gradient gradients[] = {
    {.op = AC_OP_upsample_nearest2d_gradient, .in = {OP_DY}, .of = {0}, .outputs = 1},
};

#define UPSAMPLE(name_, factor_, batch_, x, y)                                                 \
  {                                                                                            \
    .name = name_, .op = AC_OP_upsample_nearest2d, .attributes.upsample_nearest2d = {factor_}, \
    .batch = batch_, .in = {x}, .out = {y}, .gradients = gradients, .gradient_count = 1        \
  }

static const op_case cases[] = {
    UPSAMPLE("by 2", 2, 3, OP_F32(AC_BATCH, 5, 7, 6), OP_F32(AC_BATCH, 5, 14, 12)),
    UPSAMPLE("by 3", 3, 2, OP_F32(AC_BATCH, 2, 4, 33), OP_F32(AC_BATCH, 2, 12, 99)),
    UPSAMPLE("planes for threads", 3, 4, OP_F32(AC_BATCH, 7, 9, 10), OP_F32(AC_BATCH, 7, 27, 30)),
    UPSAMPLE("by 1", 1, 1, OP_F32(AC_BATCH, 1, 3, 5), OP_F32(AC_BATCH, 1, 3, 5)),
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_upsample_nearest2d;
  result->attributes.upsample_nearest2d.factor = (int32_t)op_vector_attribute(vector, "factor", 1);
  result->gradients = gradients;
  result->gradient_count = 1;
}

const op_family op_family_upsample_nearest2d = {
    "upsample_nearest2d", cases, sizeof cases / sizeof *cases, from_vector, NULL, NULL};

static bool takes(const ac_shape *x) {
  return op_takes_images(x) && ac_shape_count(x) <= OP_DRAW_ELEMENTS / 9;
}

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  return ac_upsample_nearest2d(x, 1 + op_draw_below(d, 3));
}

const op_generator op_generator_upsample_nearest2d = {
    .takes = takes, .build = grow, OP_GRADIENTS(gradients)};
