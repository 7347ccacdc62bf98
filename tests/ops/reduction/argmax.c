/* Cases and references of argmax. */
#include <accrue/pointwise.h>
#include <accrue/reduction.h>

#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>

#include "ops/reduction/along.h"

static bool is_above(double x, double y) {
  return x > y || (isnan(x) && !isnan(y));
}

/* ids[o, i] = the first j with the largest x[o, j, i] */
static void argmax(const ac_op_args *args) {
  const ac_argmax_attributes *attributes = args->attributes;
  const ac_along a = ac_along_axis(&args->in[0], attributes->axis);
  for (int64_t k = 0; k < a.outer * a.inner; k++) {
    const double *x = op_reals(&args->in[0]) + k / a.inner * a.length * a.inner + k % a.inner;
    int64_t best = 0;
    for (int64_t j = 1; j < a.length; j++)
      if (is_above(x[j * a.inner], x[best * a.inner])) best = j;
    op_reals(&args->out[0])[k] = (double)best;
  }
}

static op_tolerance argmax_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

const op_reference op_reference_argmax = {argmax, argmax_error, true, false};

#define IDS(...) \
  { .dtype = AC_I32, .rank = OP_RANK(__VA_ARGS__), .dim = {__VA_ARGS__}, .high = 9 }
#define ARGMAX(name_, axis_, batch_, in_, ...)                                             \
  {                                                                                        \
    .name = name_, .op = AC_OP_argmax, .batch = batch_, .attributes = {.argmax = {axis_}}, \
    .out = {in_}, .in = {                                                                  \
      __VA_ARGS__                                                                          \
    }                                                                                      \
  }

static const op_case cases[] = {
    ARGMAX("3x65x129 over 2", 2, 3, IDS(AC_BATCH, 65), OP_F32(AC_BATCH, 65, 129)),
    ARGMAX("3x65x129 over 1", 1, 3, IDS(AC_BATCH, 129), OP_F32(AC_BATCH, 65, 129)),
    ARGMAX("2x5000 over 1", 1, 2, IDS(AC_BATCH), OP_F32(AC_BATCH, 5000)),
    ARGMAX("one element", 1, 1, IDS(AC_BATCH), OP_F32(AC_BATCH, 1)),
    ARGMAX("bf16, with equal elements", 1, 3, IDS(AC_BATCH, 9),
           {.dtype = AC_BF16, .rank = 3, .dim = {AC_BATCH, 70, 9}, .low = -1, .high = 1}),
    ARGMAX("equal elements", 1, 7, IDS(AC_BATCH),
           {.dtype = AC_F32,
            .rank = 2,
            .dim = {AC_BATCH, 65},
            .low = -1,
            .high = 1,
            .fill = OP_SOMETIMES,
            .special = 1}),
    ARGMAX("-infinity", 1, 7, IDS(AC_BATCH),
           {.dtype = AC_F32,
            .rank = 2,
            .dim = {AC_BATCH, 2},
            .low = -1,
            .high = 1,
            .fill = OP_SOMETIMES,
            .special = -INFINITY}),
    ARGMAX("NaN", 1, 7, IDS(AC_BATCH, 5),
           {.dtype = AC_F32,
            .rank = 3,
            .dim = {AC_BATCH, 6, 5},
            .low = -1,
            .high = 1,
            .fill = OP_SOMETIMES,
            .special = NAN}),
    ARGMAX("NaN in rows", 1, 7, IDS(AC_BATCH),
           {.dtype = AC_F32,
            .rank = 2,
            .dim = {AC_BATCH, 65},
            .low = -1,
            .high = 1,
            .fill = OP_SOMETIMES,
            .special = NAN}),
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_argmax;
  result->attributes.argmax =
      (ac_argmax_attributes){(int32_t)op_vector_attribute(vector, "axis", 0)};
}

const op_family op_family_argmax = {"argmax",    cases, sizeof cases / sizeof *cases,
                                    from_vector, NULL,  NULL};

/* ---- random graphs --------------------------------------------------------------------------- */

static bool takes(const ac_shape *x) {
  return x->rank > (x->batched ? 1 : 0) && x->rank < AC_MAX_RANK;
}

/* x times a factor for each id, so that x has a gradient and the ids are read. */
static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  const int first = x->shape.batched ? 1 : 0, rank = x->shape.rank;
  const int axis = first + op_draw_below(d, rank - first);
  ac_tensor *ids = ac_argmax(x, op_draw_one_in(d, 2) ? axis : axis - rank, true);
  if (!ids) return NULL;
  ac_tensor *table = op_draw_parameter(d, 0.5, 1.5, 2, (int64_t[]){x->shape.dim[axis], 1});
  return ac_multiply(x, op_draw_view(ac_embedding(table, ids), &ids->shape));
}

static void ties(op_ties *t, const ac_op_args *args) {
  const ac_argmax_attributes *attributes = args->attributes;
  const ac_along a = ac_along_axis(&args->in[0], attributes->axis);
  for (int64_t k = 0; k < a.outer * a.inner; k++)
    op_ties_find(t, op_reals(&args->in[0]) + k / a.inner * a.length * a.inner + k % a.inner,
                 a.length, a.inner, 0);
}

const op_generator op_generator_argmax = {.takes = takes, .build = grow, .ties = ties};
