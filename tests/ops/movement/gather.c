/* Cases and references of gather and scatter_add. */
#include <accrue/accrue.h>

#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <stdio.h>

/* The id of element c of row i of the o-th rows. */
static int64_t id_of(const ac_gather_view *v, const ac_operand *ids, int64_t o, int64_t i,
                     int64_t c) {
  const int64_t row = v->shared ? i : o * v->count + i;
  return op_integers(ids)[v->elements ? row * v->inner + c : row];
}

/* y[o,i,c] = x[o,id,c] */
static void gather(const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *ids = &args->in[1];
  const ac_gather_view v = ac_gather_view_of(x, ids, args->attributes);
  for (int64_t o = 0; o < v.outer; o++)
    for (int64_t i = 0; i < v.count; i++)
      for (int64_t c = 0; c < v.inner; c++)
        op_reals(&args->out[0])[(o * v.count + i) * v.inner + c] =
            op_value(x, (o * v.length + id_of(&v, ids, o, i, c)) * v.inner + c);
}

/* A copy. */
static op_tolerance gather_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

/* y[o,id,c] = the sum of x[o,i,c] */
static void scatter_add(const ac_op_args *args) {
  const ac_operand *ids = &args->in[0], *x = &args->in[1], *y = &args->out[0];
  const ac_gather_view v = ac_gather_view_of(y, ids, args->attributes);
  for (int64_t e = 0; e < y->count; e++) op_reals(y)[e] = 0;
  for (int64_t o = 0; o < v.outer; o++)
    for (int64_t i = 0; i < v.count; i++)
      for (int64_t c = 0; c < v.inner; c++)
        op_reals(y)[(o * v.length + id_of(&v, ids, o, i, c)) * v.inner + c] +=
            op_reals(x)[(o * v.count + i) * v.inner + c];
}

static op_tolerance scatter_error(const ac_op_args *args, int output) {
  (void)output;
  const ac_gather_view v = ac_gather_view_of(&args->out[0], &args->in[0], args->attributes);
  return (op_tolerance){1, op_sum_error(v.count) * op_largest(&args->in[1])};
}

const op_reference op_reference_gather = {gather, gather_error, true, false};
const op_reference op_reference_scatter_add = {scatter_add, scatter_error, true, false};

static const op_gradient of_gather[] = {
    {.op = AC_OP_scatter_add, .in = {OP_INPUT(1), OP_DY}, .of = {0}, .outputs = 1},
};
static const op_gradient of_scatter[] = {
    {.op = AC_OP_gather, .in = {OP_DY, OP_INPUT(0)}, .of = {1}, .outputs = 1},
};

#define AT(...) \
  { __VA_ARGS__ }
#define GATHER(name_, attributes_, batch_, ...)                                           \
  {                                                                                       \
    .name = name_, .op = AC_OP_gather, .attributes.gather = attributes_, .batch = batch_, \
    .gradients = of_gather, .gradient_count = 1, __VA_ARGS__                              \
  }
#define SCATTER(name_, attributes_, batch_, ...)                                               \
  {                                                                                            \
    .name = name_, .op = AC_OP_scatter_add, .attributes.gather = attributes_, .batch = batch_, \
    .gradients = of_scatter, .gradient_count = 1, __VA_ARGS__                                  \
  }
#define TABLE(rows) AT(.length = rows, .table = true)

static const op_case cases[] = {
    GATHER("3x65 of 129 x 65", TABLE(129), 3, .in = {OP_F32(129, 65), OP_IDS(129, AC_BATCH, 65)},
           .out = {OP_F32(AC_BATCH, 65, 65)}),
    GATHER("every id the same", TABLE(3), 65, .in = {OP_F32(3, 7), OP_IDS(1, AC_BATCH)},
           .out = {OP_F32(AC_BATCH, 7)}),
    GATHER("more ids than a group", TABLE(7), 300, .in = {OP_F32(7, 2), OP_IDS(7, AC_BATCH)},
           .out = {OP_F32(AC_BATCH, 2)}),
    GATHER("one column", TABLE(5), 7, .in = {OP_F32(5, 1), OP_IDS(5, AC_BATCH)},
           .out = {OP_F32(AC_BATCH, 1)}),
    /* More columns than are converted from 16 bits at once. */
    GATHER("wide rows", TABLE(3), 5, .in = {OP_F32(3, 600), OP_IDS(3, AC_BATCH)},
           .out = {OP_F32(AC_BATCH, 600)}),
    GATHER("one row", TABLE(1), 1, .in = {OP_F32(1, 65), OP_IDS(1, AC_BATCH, 1)},
           .out = {OP_F32(AC_BATCH, 1, 65)}),
    GATHER("rows of samples", AT(.axis = 1, .length = 9), 3,
           .in = {OP_F32(AC_BATCH, 9, 20), OP_IDS(9, AC_BATCH, 31)},
           .out = {OP_F32(AC_BATCH, 31, 20)}),
    GATHER("elements of rows", AT(.axis = 1, .length = 9, .elements = true), 3,
           .in = {OP_F32(AC_BATCH, 9, 20), OP_IDS(9, AC_BATCH, 5, 20)},
           .out = {OP_F32(AC_BATCH, 5, 20)}),
    GATHER("elements of the last axis", AT(.axis = 2, .length = 33), 3,
           .in = {OP_F32(AC_BATCH, 4, 33), OP_IDS(33, AC_BATCH, 4, 300)},
           .out = {OP_F32(AC_BATCH, 4, 300)}),
    GATHER("the same columns", AT(.axis = 2, .length = 11, .shared = true), 3,
           .in = {OP_F32(AC_BATCH, 4, 11), OP_IDS(11, 17)}, .out = {OP_F32(AC_BATCH, 4, 17)}),
    GATHER("the same rows", AT(.axis = 1, .length = 11, .shared = true), 3,
           .in = {OP_F32(AC_BATCH, 11, 20), OP_IDS(11, 17)}, .out = {OP_F32(AC_BATCH, 17, 20)}),
    SCATTER("rows to a few", AT(.axis = 1, .length = 4), 3,
            .in = {OP_IDS(4, AC_BATCH, 70), OP_F32(AC_BATCH, 70, 33)},
            .out = {OP_F32(AC_BATCH, 4, 33)}),
    SCATTER("elements to many", AT(.axis = 1, .length = 40, .elements = true), 2,
            .in = {OP_IDS(40, AC_BATCH, 6, 5), OP_F32(AC_BATCH, 6, 5)},
            .out = {OP_F32(AC_BATCH, 40, 5)}),
    SCATTER("a histogram", AT(.axis = 0, .length = 5), 1, .in = {OP_IDS(5, 400), OP_F32(400)},
            .out = {OP_F32(5)}),
    {.name = "integers",
     .op = AC_OP_gather,
     .attributes.gather = {.axis = 1, .length = 9},
     .batch = 3,
     .in = {OP_IDS(1 << 30, AC_BATCH, 9), OP_IDS(9, AC_BATCH, 4)},
     .out = {OP_IDS(1 << 30, AC_BATCH, 4)}},
};

static void from_vector(op_case *result, const op_vector *vector) {
  const bool scatter = op_vector_attribute(vector, "scatter", 0) != 0;
  ac_gather_attributes *a = &result->attributes.gather;
  a->axis = (int32_t)op_vector_attribute(vector, "axis", 0);
  a->shared = op_vector_attribute(vector, "shared", 0) != 0;
  a->elements = op_vector_attribute(vector, "elements", 0) != 0;
  a->length = (scatter ? &result->out[0] : &result->in[0])->dim[a->axis];
  result->op = scatter ? AC_OP_scatter_add : AC_OP_gather;
  result->gradients = scatter ? of_scatter : of_gather;
  result->gradient_count = 1;
}

const op_family op_family_gather = {"gather",    cases, sizeof cases / sizeof *cases,
                                    from_vector, NULL,  NULL};

static bool takes(const ac_shape *x) {
  return x->batched && x->rank >= 2;
}

/* Ids [B, ..., n] for a part of the last axis of other ids, or other ids in another order. */
static ac_tensor *moved_ids(op_draw *d, const ac_shape *shape, int64_t limit) {
  ac_shape drawn = *shape;
  const int last = shape->rank - 1;
  const bool part = shape->rank > 1 && op_draw_one_in(d, 2);
  if (part) drawn.dim[last] += op_draw_below(d, 3);
  op_drawn_leaf *leaf = op_draw_input(d, AC_I32, &drawn, 0, (double)limit);
  if (!leaf || !part) return leaf ? leaf->tensor : NULL;
  const int64_t first = drawn.dim[last] - shape->dim[last];
  ac_tensor *cut = ac_slice(leaf->tensor, last, first, shape->dim[last]);
  return op_draw_one_in(d, 2) ? cut : ac_flip(cut, AC_AXES(-1));
}

/* Rows of a table, added to x. */
static ac_tensor *embed(op_draw *d, ac_tensor *x) {
  int64_t dim[] = {1 + op_draw_below(d, 11), ac_shape_last(&x->shape)};
  ac_shape shape = x->shape;
  shape.rank--;
  ac_tensor *ids = moved_ids(d, &shape, dim[0]);
  if (!ids) return NULL;
  if (op_draw_one_in(d, 5)) { /* a table in blocks, and a matrix that brings its rows back */
    ac_tensor *rows = ac_embedding(op_draw_blocks(d, 1, dim[0], 64), ids);
    return ac_add(x, ac_linear(rows, op_draw_blocks(d, 0.2, dim[1], 64), NULL, AC_OUT_IN));
  }
  return ac_add(x, ac_embedding(op_draw_parameter(d, -1, 1, 2, dim), ids));
}

/* Rows or elements of x, or sums of them. */
static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  const int axis = 1 + op_draw_below(d, x->shape.rank - 1), kind = op_draw_below(d, 3);
  ac_shape shape = x->shape;
  const bool rows = op_draw_one_in(d, 2);
  if (kind == 0) return embed(d, x);
  if (rows) shape.rank = axis + 1;
  if (kind == 1) {
    const int64_t length = 1 + op_draw_below(d, 7);
    ac_tensor *ids = moved_ids(d, &shape, length);
    return ids ? ac_scatter_add(x, ids, axis, length) : NULL;
  }
  shape.dim[axis] = 1 + op_draw_below(d, 4);
  ac_tensor *ids = moved_ids(d, &shape, x->shape.dim[axis]);
  return ids ? ac_gather(x, ids, axis) : NULL;
}

static int choose(const ac_op_args *forward, op_gradient *list, op_attributes *attributes) {
  (void)attributes;
  list[0] = forward->op == AC_OP_gather ? of_gather[0] : of_scatter[0];
  return 1;
}

const op_generator op_generator_gather = {.takes = takes, .build = grow, .choose = choose};
