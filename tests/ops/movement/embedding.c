/* Cases and references of embedding. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

/* y[n,c] = table[ids[n],c] */
static void embedding(const ac_op_args *args) {
  int64_t C = ac_columns(&args->in[0]);
  for (int64_t n = 0; n < args->in[1].count; n++)
    for (int64_t c = 0; c < C; c++)
      op_reals(&args->out[0])[n * C + c] =
          op_reals(&args->in[0])[op_integers(&args->in[1])[n] * C + c];
}

/* A copy. */
static op_tolerance embedding_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

const op_reference op_reference_embedding = {embedding, embedding_error, false, false};

/* dtable[v,c] = sum over n with ids[n] = v of dy[n,c] */
static void embedding_gradient(const ac_op_args *args) {
  int64_t C = ac_columns(&args->out[0]);
  for (int64_t i = 0; i < args->out[0].count; i++) op_reals(&args->out[0])[i] = 0;
  for (int64_t n = 0; n < args->in[0].count; n++)
    for (int64_t c = 0; c < C; c++)
      op_reals(&args->out[0])[op_integers(&args->in[0])[n] * C + c] +=
          op_reals(&args->in[1])[n * C + c];
}

static op_tolerance embedding_gradient_error(const ac_op_args *args, int output) {
  (void)output;
  return (op_tolerance){1, op_sum_error(args->in[0].count) * op_largest(&args->in[1])};
}

const op_reference op_reference_embedding_gradient = {embedding_gradient, embedding_gradient_error,
                                                      false, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_embedding_gradient, .in = {OP_INPUT(1), OP_DY}, .of = {0}, .outputs = 1},
};

#define EMBEDDING(name_, batch_, ...)                                              \
  {                                                                                \
    .name = name_, .op = AC_OP_embedding, .batch = batch_, .gradients = gradients, \
    .gradient_count = 1, __VA_ARGS__                                               \
  }

static const op_case cases[] = {
    EMBEDDING("3x65 of 129 x 65", 3, .in = {OP_F32(129, 65), OP_IDS(129, AC_BATCH, 65)},
              .out = {OP_F32(AC_BATCH, 65, 65)}),
    EMBEDDING("every id the same", 65, .in = {OP_F32(3, 7), OP_IDS(1, AC_BATCH)},
              .out = {OP_F32(AC_BATCH, 7)}),
    EMBEDDING("more ids than a group", 300, .in = {OP_F32(7, 2), OP_IDS(7, AC_BATCH)},
              .out = {OP_F32(AC_BATCH, 2)}),
    EMBEDDING("one column", 7, .in = {OP_F32(5, 1), OP_IDS(5, AC_BATCH)},
              .out = {OP_F32(AC_BATCH, 1)}),
    /* More columns than are converted from 16 bits at once. */
    EMBEDDING("wide rows", 5, .in = {OP_F32(3, 600), OP_IDS(3, AC_BATCH)},
              .out = {OP_F32(AC_BATCH, 600)}),
    EMBEDDING("one row", 1, .in = {OP_F32(1, 65), OP_IDS(1, AC_BATCH, 1)},
              .out = {OP_F32(AC_BATCH, 1, 65)}),
};

static void from_vector(op_case *result, const op_vector *vector) {
  (void)vector;
  result->op = AC_OP_embedding;
  result->gradients = gradients;
  result->gradient_count = 1;
}

const op_family op_family_embedding = {"embedding", cases, sizeof cases / sizeof *cases,
                                       from_vector, NULL,  NULL};

static bool takes(const ac_shape *x) {
  return x->batched && x->rank >= 2;
}

/* Added to x. */
static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  int64_t dim[] = {1 + op_draw_below(d, 11), ac_shape_last(&x->shape)};
  ac_shape ids = x->shape;
  ids.rank--;
  op_drawn_leaf *leaf = op_draw_input(d, AC_I32, &ids, 0, (double)dim[0]);
  if (!leaf) return NULL;
  return ac_add(x, ac_embedding(op_draw_parameter(d, -1, 1, 2, dim), leaf->tensor));
}

const op_generator op_generator_embedding = {
    .takes = takes, .build = grow, OP_GRADIENTS(gradients)};
