/* Cases and references of multiply. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

/* c[i] = a[i] b[i mod count(b)] */
static void multiply(const ac_op_args *args) {
  for (int64_t i = 0; i < args->out[0].count; i++)
    op_reals(&args->out[0])[i] =
        op_reals(&args->in[0])[i] * op_reals(&args->in[1])[i % args->in[1].count];
}

/* One correctly rounded product. */
static op_tolerance multiply_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0.5, 0};
}

const op_reference op_reference_multiply = {multiply, multiply_error, false, false};

/* da = dy b, also where b is repeated; db = dy a where it is not. */
static const op_gradient gradients[] = {
    {.op = AC_OP_multiply, .in = {OP_DY, OP_INPUT(1)}, .of = {0}, .outputs = 1, .like_dy = true},
    {.op = AC_OP_multiply, .in = {OP_DY, OP_INPUT(0)}, .of = {1}, .outputs = 1, .like_dy = true},
};

#define MULTIPLY(name_, batch_, gradients_, ...)                                  \
  {                                                                               \
    .name = name_, .op = AC_OP_multiply, .batch = batch_, .gradients = gradients, \
    .gradient_count = gradients_, __VA_ARGS__                                     \
  }

static const op_case cases[] = {
    MULTIPLY("same shape 3x65x129", 3, 2,
             .in = {OP_F32(AC_BATCH, 65, 129), OP_F32(AC_BATCH, 65, 129)},
             .out = {OP_F32(AC_BATCH, 65, 129)}),
    MULTIPLY("repeated 3x65x129 * 65x129", 3, 1, .in = {OP_F32(AC_BATCH, 65, 129), OP_F32(65, 129)},
             .out = {OP_F32(AC_BATCH, 65, 129)}),
    MULTIPLY("repeated 3x65x129 * 129", 3, 1, .in = {OP_F32(AC_BATCH, 65, 129), OP_F32(129)},
             .out = {OP_F32(AC_BATCH, 65, 129)}),
    MULTIPLY("repeated 7x1 * 1", 7, 1, .in = {OP_F32(AC_BATCH, 1), OP_F32(1)},
             .out = {OP_F32(AC_BATCH, 1)}),
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_multiply;
  result->gradients = gradients;
  result->gradient_count =
      op_vector_find(vector, "in0")->count == op_vector_find(vector, "in1")->count ? 2 : 1;
}

const op_family op_family_multiply = {"multiply",  cases, sizeof cases / sizeof *cases,
                                      from_vector, NULL,  NULL};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  ac_tensor *other = op_draw_broadcast(d, x, -1, 1);
  return op_draw_one_in(d, 2) ? ac_multiply(x, other) : ac_multiply(other, x);
}

const op_generator op_generator_multiply = {
    .takes = op_takes_all, .build = grow, OP_GRADIENTS(gradients)};
