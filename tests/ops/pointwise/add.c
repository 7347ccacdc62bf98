/* Cases and references of add and sum_leading. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

/* c[i] = a[i] + b[i mod count(b)] */
static void add(const ac_op_args *args) {
  for (int64_t i = 0; i < args->out[0].count; i++)
    op_reals(&args->out[0])[i] =
        op_reals(&args->in[0])[i] + op_reals(&args->in[1])[i % args->in[1].count];
}

/* One correctly rounded addition. */
static op_tolerance add_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0.5, 0};
}

const op_reference op_reference_add = {add, add_error, false, false};

/* y[j] = sum_i x[i * count(y) + j] */
static void sum_leading(const ac_op_args *args) {
  int64_t n = args->out[0].count;
  for (int64_t j = 0; j < n; j++) op_reals(&args->out[0])[j] = 0;
  for (int64_t i = 0; i < args->in[0].count; i++)
    op_reals(&args->out[0])[i % n] += op_reals(&args->in[0])[i];
}

static op_tolerance sum_leading_error(const ac_op_args *args, int output) {
  (void)output;
  return (op_tolerance){1, op_sum_error(args->in[0].count / args->out[0].count) *
                               op_largest(&args->in[0])};
}

const op_reference op_reference_sum_leading = {sum_leading, sum_leading_error, false, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_sum_leading, .in = {OP_DY}, .of = {1}, .outputs = 1},
};

#define ADD(name_, batch_, ...)                                                                   \
  {                                                                                               \
    .name = name_, .op = AC_OP_add, .batch = batch_, .gradients = gradients, .gradient_count = 1, \
    __VA_ARGS__                                                                                   \
  }
#define SUM(name_, batch_, ...) \
  { .name = name_, .op = AC_OP_sum_leading, .batch = batch_, __VA_ARGS__ }

static const op_case cases[] = {
    ADD("same shape 3x65x129", 3, .in = {OP_F32(AC_BATCH, 65, 129), OP_F32(AC_BATCH, 65, 129)},
        .out = {OP_F32(AC_BATCH, 65, 129)}),
    ADD("repeated 3x65x129 + 65x129", 3, .in = {OP_F32(AC_BATCH, 65, 129), OP_F32(65, 129)},
        .out = {OP_F32(AC_BATCH, 65, 129)}),
    ADD("repeated 3x65x129 + 129", 3, .in = {OP_F32(AC_BATCH, 65, 129), OP_F32(129)},
        .out = {OP_F32(AC_BATCH, 65, 129)}),
    ADD("repeated 7x1 + 1", 7, .in = {OP_F32(AC_BATCH, 1), OP_F32(1)},
        .out = {OP_F32(AC_BATCH, 1)}),
    ADD("one element", 1, .in = {OP_F32(AC_BATCH, 1), OP_F32(AC_BATCH, 1)},
        .out = {OP_F32(AC_BATCH, 1)}),
    SUM("sum 129x65 -> 65", 129, .in = {OP_F32(AC_BATCH, 65)}, .out = {OP_F32(65)}),
    SUM("sum 3x7x5 -> 7x5", 3, .in = {OP_F32(AC_BATCH, 7, 5)}, .out = {OP_F32(7, 5)}),
    SUM("sum 1000x3 -> 3", 1000, .in = {OP_F32(AC_BATCH, 3)}, .out = {OP_F32(3)}),
    SUM("sum 1x7 -> 7", 1, .in = {OP_F32(AC_BATCH, 7)}, .out = {OP_F32(7)}),
};

static void from_vector(op_case *result, const op_vector *vector) {
  (void)vector;
  result->op = AC_OP_add;
  result->gradients = gradients;
  result->gradient_count = 1;
}

const op_family op_family_add = {"add",       cases, sizeof cases / sizeof *cases,
                                 from_vector, NULL,  NULL};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  ac_tensor *other = op_draw_broadcast(d, x, -0.5, 0.5);
  return op_draw_one_in(d, 2) ? ac_add(x, other) : ac_add(other, x);
}

/* Over no leading dimensions the sum is dy itself. */
static const op_gradient both[] = {
    {.op = AC_OP_sum_leading, .in = {OP_DY}, .of = {0}, .outputs = 1},
    {.op = AC_OP_sum_leading, .in = {OP_DY}, .of = {1}, .outputs = 1},
};

const op_generator op_generator_add = {.takes = op_takes_all, .build = grow, OP_GRADIENTS(both)};
