/* Cases and references of transpose. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

/* y is x with two indices swapped. */
static void transpose(const ac_op_args *args) {
  const ac_transpose_attributes *t = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  for (int64_t i = 0; i < y->count; i++) {
    int64_t index[AC_MAX_RANK], rest = i, from = 0;
    for (int d = y->rank - 1; d >= 0; d--) index[d] = rest % y->dim[d], rest /= y->dim[d];
    int64_t swap = index[t->axis_a];
    index[t->axis_a] = index[t->axis_b];
    index[t->axis_b] = swap;
    for (int d = 0; d < x->rank; d++) from = from * x->dim[d] + index[d];
    op_reals(y)[i] = op_reals(x)[from];
  }
}

/* A copy. */
static op_tolerance transpose_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

const op_reference op_reference_transpose = {transpose, transpose_error, true, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_transpose, .in = {OP_DY}, .of = {0}, .outputs = 1},
};

#define TRANSPOSE(name_, a, b, batch_, ...)                                                \
  {                                                                                        \
    .name = name_, .op = AC_OP_transpose, .attributes.transpose = {a, b}, .batch = batch_, \
    .gradients = gradients, .gradient_count = 1, __VA_ARGS__                               \
  }

static const op_case cases[] = {
    TRANSPOSE("last two 3x65x129", 1, 2, 3, .in = {OP_F32(AC_BATCH, 65, 129)},
              .out = {OP_F32(AC_BATCH, 129, 65)}),
    TRANSPOSE("heads 2x7x3x20", 1, 2, 2, .in = {OP_F32(AC_BATCH, 7, 3, 20)},
              .out = {OP_F32(AC_BATCH, 3, 7, 20)}),
    TRANSPOSE("pairs 2x7x5x2", 1, 2, 2, .in = {OP_F32(AC_BATCH, 7, 5, 2)},
              .out = {OP_F32(AC_BATCH, 5, 7, 2)}),
    TRANSPOSE("far apart 2x3x5x7x1x4", 1, 5, 2, .in = {OP_F32(AC_BATCH, 3, 5, 7, 1, 4)},
              .out = {OP_F32(AC_BATCH, 4, 5, 7, 1, 3)}),
    TRANSPOSE("length one 3x1x7", 1, 2, 3, .in = {OP_F32(AC_BATCH, 1, 7)},
              .out = {OP_F32(AC_BATCH, 7, 1)}),
    TRANSPOSE("matrix 65x7", 0, 1, 1, .in = {OP_F32(65, 7)}, .out = {OP_F32(7, 65)}),
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_transpose;
  result->attributes.transpose.axis_a = (int32_t)op_vector_attribute(vector, "axis_a", 0);
  result->attributes.transpose.axis_b = (int32_t)op_vector_attribute(vector, "axis_b", 1);
  result->gradients = gradients;
  result->gradient_count = 1;
}

const op_family op_family_transpose = {"transpose", cases, sizeof cases / sizeof *cases,
                                       from_vector, NULL,  NULL};

static bool takes(const ac_shape *x) {
  return x->rank >= (x->batched ? 3 : 2);
}

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  int first = x->shape.batched ? 1 : 0, axes = x->shape.rank - first;
  int a = op_draw_below(d, axes), b = op_draw_below(d, axes - 1);
  return ac_transpose(x, first + a, first + (b < a ? b : b + 1));
}

const op_generator op_generator_transpose = {
    .takes = takes, .build = grow, OP_GRADIENTS(gradients)};
