/* Cases and reference of cache. */
#include "ops/driver.h"
#include "ops/generator.h"

/* y[b, ends[b] - n + i, c] = x[b, i, c]; the rest stays. */
static void cache(const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  const int64_t n = x->dim[1], positions = y->dim[1], columns = x->count / x->dim[0] / n;
  for (int64_t b = 0; b < x->dim[0]; b++)
    for (int64_t i = 0; i < n; i++) {
      const int64_t position = op_integers(&args->in[1])[b] - n + i;
      for (int64_t c = 0; c < columns && position >= 0; c++)
        op_reals(y)[(b * positions + position) * columns + c] =
            op_reals(x)[(b * n + i) * columns + c];
    }
}

/* Exact. */
static op_tolerance copy_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

const op_reference op_reference_cache = {cache, copy_error, false, true};

#define CACHE(name_, batch_, ...) \
  { .name = name_, .op = AC_OP_cache, .batch = batch_, __VA_ARGS__ }

/* Ends are drawn from 0 on, so most cases have rows before the first position. */
static const op_case cases[] = {
    CACHE("one row of 3 x 65", 5, .in = {OP_F32(AC_BATCH, 1, 3, 65), OP_IDS(130, AC_BATCH)},
          .out = {OP_F32(AC_BATCH, 129, 3, 65)}),
    CACHE("seven rows", 65, .in = {OP_F32(AC_BATCH, 7, 5), OP_IDS(10, AC_BATCH)},
          .out = {OP_F32(AC_BATCH, 9, 5)}),
    CACHE("all rows", 3, .in = {OP_F32(AC_BATCH, 65, 2, 4), OP_IDS(66, AC_BATCH)},
          .out = {OP_F32(AC_BATCH, 65, 2, 4)}),
    CACHE("nothing is in yet", 7, .in = {OP_F32(AC_BATCH, 4, 3), OP_IDS(1, AC_BATCH)},
          .out = {OP_F32(AC_BATCH, 9, 3)}),
    CACHE("elements", 3, .in = {OP_F32(AC_BATCH, 2), OP_IDS(8, AC_BATCH)},
          .out = {OP_F32(AC_BATCH, 7)}),
};

const op_family op_family_cache = {"cache", cases, sizeof cases / sizeof *cases, NULL, NULL, NULL};

/* Graphs that are trained have none: tests/unit/run/caches.c draws its own. */
const op_generator op_generator_cache = {.takes = NULL};
