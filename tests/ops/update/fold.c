/* Cases and reference of folding a gradient into an optimizer's state. */
#include "ops/driver.h"
#include "ops/generator.h"

static void fold(const ac_op_args *args) {
  const ac_fold_attributes *a = args->attributes;
  double *m = op_reals(&args->out[0]), *v = op_reals(&args->out[1]);
  for (int64_t i = 0; i < args->in[0].count; i++) {
    const double g = (double)a->gradient_factor * op_reals(&args->in[0])[i];
    const double keep1 = a->is_average ? 1 - (double)a->take1 : (double)a->keep1,
                 keep2 = a->is_average ? 1 - (double)a->take2 : (double)a->keep2;
    m[i] = keep1 * m[i] + (double)a->take1 * g;
    if (args->out[1].count) v[i] = keep2 * v[i] + (double)a->take2 * g * g;
  }
}

/* A sum of two products, one of them of three factors. */
static op_tolerance fold_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){4, 2};
}

const op_reference op_reference_fold = {fold, fold_error, true, true};

#define FOLD(name_, n, ...)                                                        \
  {                                                                                \
    .name = name_, .op = AC_OP_fold, .attributes.fold = {__VA_ARGS__}, .batch = 1, \
    .in = {OP_F32(n)}, .out = {                                                    \
      OP_F32(n),                                                                   \
      OP_RANGE(0, 1, n)                                                            \
    }                                                                              \
  }
#define FOLD_MEAN(name_, n, ...)                                                   \
  {                                                                                \
    .name = name_, .op = AC_OP_fold, .attributes.fold = {__VA_ARGS__}, .batch = 1, \
    .in = {OP_F32(n)}, .out = {                                                    \
      OP_F32(n)                                                                    \
    }                                                                              \
  }

static const op_case cases[] = {
    FOLD("first micro-batch, 129x129", 129 * 129, 0.25f, 0.9f, 0.1f, 0.7f, 0.3f),
    FOLD("another, 2051", 2051, 0.5f, 1, 0.1f, 1, 0.3f),
    FOLD("1", 1, 3, 0.5f, 0.5f, 0.9f, 0.1f),
    FOLD("an average, 129x129", 129 * 129, 0.25f, 0, 0.1f, 0, 0.3f, true),
    FOLD_MEAN("average of a mean alone, 2051", 2051, 1, 0, 0x1p-20f, 0, 0, true),
    FOLD_MEAN("a mean alone, 129x129", 129 * 129, 0.25f, 0.95f, 1, 0, 0),
    FOLD_MEAN("a mean alone, 65, nothing kept", 65, 2, 0, 1, 0, 0),
};

const op_family op_family_fold = {"fold", cases, sizeof cases / sizeof *cases, NULL, NULL, NULL};

/* Plans put it where gradients are folded. */
const op_generator op_generator_fold = {.takes = NULL};
