/* Cases and references of reduce. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>
#include <stdlib.h>

#include <accrue/reduction.h>

#include "ops/reduction/reduction.h"

/* The result that an element of x is part of. */
static int64_t result_of(const ac_operand *x, uint32_t axes, int64_t element) {
  int64_t index = 0, stride = 1;
  for (int d = x->rank - 1; d >= 0; d--) {
    const int64_t at = element % x->dim[d];
    element /= x->dim[d];
    if (axes >> d & 1) continue;
    index += at * stride;
    stride *= x->dim[d];
  }
  return index;
}

/* y[k] = sum of the x of result k / divisor */
static void reduce(const ac_op_args *args) {
  const ac_reduce_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  for (int64_t k = 0; k < y->count; k++) op_reals(y)[k] = 0;
  for (int64_t i = 0; i < x->count; i++) op_reals(y)[result_of(x, a->axes, i)] += op_reals(x)[i];
  for (int64_t k = 0; k < y->count; k++) op_reals(y)[k] /= (double)a->divisor;
}

static op_tolerance reduce_error(const ac_op_args *args, int output) {
  const ac_reduce_attributes *a = args->attributes;
  (void)output;
  const int64_t terms = args->in[0].count / args->out[0].count;
  return (op_tolerance){3, op_sum_error(terms) * op_largest(&args->in[0]) / (double)a->divisor};
}

const op_reference op_reference_reduce = {reduce, reduce_error, true, false};

/* dx[i] = dy[its result] / divisor */
static void reduce_gradient(const ac_op_args *args) {
  const ac_reduce_attributes *a = args->attributes;
  const ac_operand *dx = &args->out[0];
  for (int64_t i = 0; i < dx->count; i++)
    op_reals(dx)[i] = op_reals(&args->in[0])[result_of(dx, a->axes, i)] / (double)a->divisor;
}

static op_tolerance reduce_gradient_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){4, 0};
}

const op_reference op_reference_reduce_gradient = {reduce_gradient, reduce_gradient_error, true,
                                                   false};

static const op_gradient gradients[] = {
    {.op = AC_OP_reduce_gradient, .in = {OP_DY}, .of = {0}, .outputs = 1},
};

#define ON(...) \
  { __VA_ARGS__ }
#define REDUCE(name_, axes_, divisor_, batch_, x_, y_)                                      \
  {                                                                                         \
    .name = name_, .op = AC_OP_reduce, .batch = batch_,                                     \
    .attributes = {.reduce = {AC_REDUCE_SUM, axes_, divisor_, 0}}, .in = {x_}, .out = {y_}, \
    .gradients = gradients, .gradient_count = 1                                             \
  }
#define STORED(dtype_, ...) \
  { .dtype = dtype_, .rank = OP_RANK(__VA_ARGS__), .dim = {__VA_ARGS__}, .low = -1, .high = 1 }
#define F32(...) STORED(AC_F32, __VA_ARGS__)

static const op_case cases[] = {
    REDUCE("3x65x129 over 2", 4, 1, 3, F32(AC_BATCH, 65, 129), F32(AC_BATCH, 65)),
    REDUCE("3x65x129 over 1", 2, 65, 3, F32(AC_BATCH, 65, 129), F32(AC_BATCH, 129)),
    REDUCE("3x65x129 over 1, 2", 6, 1, 3, F32(AC_BATCH, 65, 129), F32(AC_BATCH, 1, 1)),
    REDUCE("3x5x7x9x2x4 over 1, 3, 5", 42, 180, 3, F32(AC_BATCH, 5, 7, 9, 2, 4),
           F32(AC_BATCH, 7, 2)),
    REDUCE("3x5x7x9x2x4 over 2, 4", 20, 1, 3, F32(AC_BATCH, 5, 7, 9, 2, 4),
           F32(AC_BATCH, 5, 1, 9, 1, 4)),
    REDUCE("7x3 over 1", 2, 3, 7, F32(AC_BATCH, 3), F32(AC_BATCH)),
    REDUCE("one element", 2, 1, 1, F32(AC_BATCH, 1), F32(AC_BATCH)),
    REDUCE("2x70000 over 1", 2, 1, 2, F32(AC_BATCH, 70000), F32(AC_BATCH)),
    REDUCE("2x3000x31 over 1", 2, 1, 2, F32(AC_BATCH, 3000, 31), F32(AC_BATCH, 31)),
    REDUCE("1x200x600 over 1", 2, 1, 1, F32(AC_BATCH, 200, 600), F32(AC_BATCH, 600)),
    REDUCE("bf16, 3x65x129 over 2", 4, 1, 3, STORED(AC_BF16, AC_BATCH, 65, 129), F32(AC_BATCH, 65)),
    REDUCE("f16, 3x65x129 over 1", 2, 65, 3, STORED(AC_F16, AC_BATCH, 65, 129), F32(AC_BATCH, 129)),
};

/* Over the batch, as gradients of what is repeated are: these have none of their own. */
__attribute__((unused)) static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_reduce;
  result->attributes.reduce =
      (ac_reduce_attributes){(int32_t)op_vector_attribute(vector, "kind", 0),
                             (uint32_t)op_vector_attribute(vector, "axes", 0),
                             (float)op_vector_attribute(vector, "divisor", 1),
                             (float)op_vector_attribute(vector, "power", 0)};
  result->gradients = gradients;
  result->gradient_count = 1;
}

const op_family op_family_reduce = {"reduce", cases, sizeof cases / sizeof *cases,
                                    NULL,     NULL,  NULL};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  int axes[AC_MAX_RANK], count = 0;
  for (int i = x->shape.batched ? 1 : 0; i < x->shape.rank; i++)
    if (op_draw_one_in(d, 2)) axes[count++] = op_draw_one_in(d, 2) ? i : i - x->shape.rank;
  return ac_mean(x, count, axes, op_draw_one_in(d, 2));
}

const op_generator op_generator_reduce = {
    .takes = op_takes_rows, .build = grow, OP_GRADIENTS(gradients)};
