/* Cases and references of cast. */
#include "driver.h"

static void cast(const ac_op_args *args) {
  for (int64_t i = 0; i < args->out[0].count; i++)
    op_reals(&args->out[0])[i] = op_reals(&args->in[0])[i];
}

/* Exact in f32. */
static op_tolerance cast_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

const op_reference op_reference_cast = {cast, cast_error, false, false};

static const op_case cases[] = {
    {.name = "3x65x129",
     .op = AC_OP_cast,
     .batch = 3,
     .in = {OP_F32(AC_BATCH, 65, 129)},
     .out = {OP_F32(AC_BATCH, 65, 129)}},
};

const op_family op_family_cast = {"cast", cases, sizeof cases / sizeof *cases, NULL, NULL, NULL};
