/* Cases and references of length_mask. */
#include "ops/driver.h"
#include "ops/generator.h"

/* y[n,t] = t < lengths[n] */
static void length_mask(const ac_op_args *args) {
  const int64_t T = ac_columns(&args->out[0]);
  for (int64_t n = 0; n < args->in[0].count; n++)
    for (int64_t t = 0; t < T; t++)
      op_reals(&args->out[0])[n * T + t] = t < op_integers(&args->in[0])[n] ? 1 : 0;
}

/* y[n,c] = c == ids[n] */
static void one_hot(const ac_op_args *args) {
  const int64_t C = ac_columns(&args->out[0]);
  for (int64_t n = 0; n < args->in[0].count; n++)
    for (int64_t c = 0; c < C; c++)
      op_reals(&args->out[0])[n * C + c] = c == op_integers(&args->in[0])[n] ? 1 : 0;
}

/* Exact. */
static op_tolerance length_mask_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

const op_reference op_reference_length_mask = {length_mask, length_mask_error, false, false};
const op_reference op_reference_one_hot = {one_hot, length_mask_error, true, false};

#define MASK(name_, positions_, batch_, ...)                                        \
  {                                                                                 \
    .name = name_, .op = AC_OP_length_mask, .attributes.length_mask = {positions_}, \
    .batch = batch_, __VA_ARGS__                                                    \
  }

static const op_case cases[] = {
    MASK("3x5 of 129", 129, 3, .in = {OP_IDS(130, AC_BATCH, 5)}, .out = {OP_F32(AC_BATCH, 5, 129)}),
    MASK("65 of 3", 3, 65, .in = {OP_IDS(4, AC_BATCH)}, .out = {OP_F32(AC_BATCH, 3)}),
    MASK("7 of none", 65, 7, .in = {OP_IDS(1, AC_BATCH)}, .out = {OP_F32(AC_BATCH, 65)}),
    MASK("one of one", 1, 1, .in = {OP_IDS(2, AC_BATCH)}, .out = {OP_F32(AC_BATCH, 1)}),
    {.name = "one of 129",
     .op = AC_OP_one_hot,
     .attributes.one_hot = {129},
     .batch = 3,
     .in = {OP_IDS(129, AC_BATCH, 5)},
     .out = {OP_F32(AC_BATCH, 5, 129)}},
    MASK("without a batch", 7, 1, .in = {OP_IDS(8, 9)}, .out = {OP_F32(9, 7)}),
};

const op_family op_family_length_mask = {"length_mask", cases, sizeof cases / sizeof *cases,
                                         NULL,          NULL,  NULL};

static bool takes(const ac_shape *x) {
  return x->batched && x->rank >= 2;
}

/* x, with zeros beyond a length for each row. */
static ac_tensor *pad(op_draw *d, ac_tensor *x) {
  const int64_t positions = ac_shape_last(&x->shape);
  ac_shape rows = x->shape;
  rows.rank--;
  op_drawn_leaf *leaf = op_draw_input(d, AC_I32, &rows, 0, (double)positions + 1);
  if (!leaf) return NULL;
  if (op_draw_one_in(d, 3))
    return ac_add(x, ac_slice(ac_one_hot(leaf->tensor, positions + 1), -1, 1, positions));
  return ac_multiply(x, ac_length_mask(leaf->tensor, positions));
}

const op_generator op_generator_length_mask = {.takes = takes, .build = pad};
