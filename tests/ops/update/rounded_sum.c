/* Cases and reference of sums in bf16. */
#include "ops/driver.h"
#include "ops/generator.h"

static void rounded_sum(const ac_op_args *args) {
  for (int64_t i = 0; i < args->out[0].count; i++)
    op_reals(&args->out[0])[i] = op_reals(&args->in[0])[i];
}

static op_tolerance rounded_sum_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){1, 0}; /* of the sum, if there is one */
}

const op_reference op_reference_rounded_sum = {rounded_sum, rounded_sum_error, true, false};

#define TYPED(dtype_, n) \
  { .dtype = dtype_, .rank = 1, .dim = {n}, .low = -2, .high = 2 }
#define ROUNDED_SUM(name_, from, to, n)                                                \
  {                                                                                    \
    .name = name_, .op = AC_OP_rounded_sum, .attributes.rounded_sum = {5}, .batch = 1, \
    .in = {TYPED(from, n)}, .out = {                                                   \
      TYPED(to, n)                                                                     \
    }                                                                                  \
  }

static const op_case cases[] = {
    ROUNDED_SUM("f32 to bf16, 129x129", AC_F32, AC_BF16, 129 * 129),
    ROUNDED_SUM("f32 to bf16, 7", AC_F32, AC_BF16, 7),
    ROUNDED_SUM("f16 to bf16, 2051", AC_F16, AC_BF16, 2051),
    ROUNDED_SUM("bf16 to f32, 300", AC_BF16, AC_F32, 300),
};

const op_family op_family_rounded_sum = {"rounded_sum", cases, sizeof cases / sizeof *cases,
                                         NULL,          NULL,  NULL};

/* Plans put it where gradients are stored in 16 bits. */
const op_generator op_generator_rounded_sum = {.takes = NULL};
