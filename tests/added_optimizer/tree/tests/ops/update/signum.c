/* Cases and reference of Signum. */
#include "ops/generator.h"
#include "ops/kept.h"

static void signum(const ac_op_args *args) {
  const ac_signum_attributes *a = args->attributes;
  const int64_t count = args->in[0].count;
  ac_operand kept = args->out[1];
  double *p = op_reals(&args->out[0]), *m = op_take_kept(&kept, count, true);
  const double rate = a->rate, take = a->take;
  for (int64_t i = 0; i < count; i++) {
    m[i] = (1 - take) * m[i] + take * (double)a->gradient_factor * op_reals(&args->in[0])[i];
    p[i] -= rate * (double)a->weight_decay * p[i];
    p[i] -= m[i] > 0 ? rate : m[i] < 0 ? -rate : 0;
    if (args->out[2].count) op_reals(&args->out[2])[i] = p[i];
  }
  op_put_kept(&kept, m, count, true);
}

/* Sums of two products of rounded factors. None that is drawn is within rounding of 0. */
static op_tolerance error(const ac_op_args *args, int output) {
  (void)args;
  return output == 1 ? (op_tolerance){4, 2} : (op_tolerance){2, 2};
}

const op_reference op_reference_signum = {signum, error, true, true};

#define SIGNUM(name_, n, ...)                                                           \
  {                                                                                     \
    .name = name_, .op = AC_OP_signum, .attributes.signum = {0.25f, 1e-3f, 0.1f, 0.1f}, \
    .batch = 1, .in = {OP_F32(n)}, .out = {                                             \
      OP_F32(n),                                                                        \
      __VA_ARGS__                                                                       \
    }                                                                                   \
  }

static const op_case cases[] = {
    SIGNUM("signum 129x129", 129 * 129, OP_RANGE(-0.1, 0.1, 129 * 129)),
    SIGNUM("signum 1", 1, OP_RANGE(-0.1, 0.1, 1)),
    SIGNUM("signum in 8 bits, 1", 1, OP_EIGHT_BIT(0.1, 1, 1)),
    SIGNUM("signum in 8 bits, 129x129", 129 * 129, OP_EIGHT_BIT(0.1, 1, 129 * 129)),
    /* In bf16 alone. */
    {.name = "signum 1100, rounded, gradient in bf16",
     .op = AC_OP_signum,
     .attributes.signum = {0.25f, 1e-3f, 0.1f, 0.1f},
     .batch = 1,
     .in = {OP_ROUNDED(1100)},
     .out = {OP_ROUNDED(1100), OP_RANGE(-0.1, 0.1, 1100)}},
    /* With a working copy in 16 bits. */
    {.name = "signum 5x2500 and a copy",
     .op = AC_OP_signum,
     .attributes.signum = {0.25f, 1e-3f, 0.1f, 0.1f},
     .batch = 1,
     .in = {OP_F32(5, 2500)},
     .out = {OP_F32(5, 2500), OP_RANGE(-0.1, 0.1, 5, 2500), OP_F32(5, 2500)},
     .halves = true},
};

const op_family op_family_signum = {
    .name = "signum", .cases = cases, .case_count = sizeof cases / sizeof *cases};

const op_generator op_generator_signum = {.takes = NULL};
