/* Cases and references of the optimizers and of the pass over the gradients before them. */
#include "ops/generator.h"
#include "ops/kept.h"
#include "ops/replay.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* out = {sum (scale g)^2 / 4^exponent, exponent}, or 1 in its place if a g is not finite */
static void gradient_statistics(const ac_op_args *args) {
  const ac_gradient_statistics_attributes *a = args->attributes;
  double *out = op_reals(&args->out[0]);
  out[0] = out[1] = 0;
  for (int64_t i = 0; i < args->in[0].count; i++) {
    double g = op_reals(&args->in[0])[i] * (double)a->scale;
    out[0] += g * g;
    if (!isfinite(op_reals(&args->in[0])[i])) out[1] = 1;
  }
  if (out[1] == 0) out[1] = out[0] > 0x1p100 ? 96 : out[0] > 0 && out[0] < 0x1p-80 ? -96 : 0;
  if (out[1] != 1) out[0] = ldexp(out[0], -2 * (int)out[1]);
}

/* Squares are positive: the relative error of the sum is at most that of its longest chain, which
 * fixed parts and a tree over them keep near n / 64. */
static op_tolerance gradient_statistics_error(const ac_op_args *args, int output) {
  return (op_tolerance){output == 0 ? 8 + op_sum_error(args->in[0].count / 16) : 0, 0};
}

const op_reference op_reference_gradient_statistics = {gradient_statistics,
                                                       gradient_statistics_error, true, false};

/* ---- optimizers ------------------------------------------------------------------------------ */

/* The formulas are in ops/update/optimizer.h. */
static void adamw(const ac_op_args *args) {
  const ac_adamw_attributes *a = args->attributes;
  const int64_t count = args->in[0].count;
  ac_operand mean = args->out[1], square = args->out[2];
  double *p = op_reals(&args->out[0]), *m = op_take_kept(&mean, count, true),
         *v = op_take_kept(&square, count, false);
  double take1 = a->take1, take2 = a->take2;
  for (int64_t i = 0; i < count; i++) {
    double g = (double)a->gradient_factor * op_reals(&args->in[0])[i];
    p[i] -= (double)a->rate * (double)a->weight_decay * p[i];
    m[i] = (1 - take1) * m[i] + take1 * g;
    v[i] = (1 - take2) * v[i] + take2 * g * g;
    p[i] -= (double)a->rate / (double)a->correction1 * m[i] /
            (sqrt(v[i]) / (double)a->sqrt_correction2 + (double)a->epsilon);
    if (args->out[3].count) op_reals(&args->out[3])[i] = p[i];
  }
  op_put_kept(&mean, m, count, true);
  op_put_kept(&square, v, count, false);
}

/* Each output is a sum of two or three products of rounded factors, all of the size of the largest
 * value. The step m / sqrt(v) loses what the factors lost. */
static op_tolerance adamw_error(const ac_op_args *args, int output) {
  const ac_adamw_attributes *a = args->attributes;
  double step = (double)(a->rate / a->correction1 * a->sqrt_correction2) * 100;
  return output == 0 || output == 3 ? (op_tolerance){2, 8 * step} : (op_tolerance){4, 2};
}

const op_reference op_reference_adamw = {adamw, adamw_error, true, true};

static void sgd(const ac_op_args *args) {
  const ac_sgd_attributes *a = args->attributes;
  const int64_t count = args->in[0].count;
  ac_operand kept = args->out[1];
  double *p = op_reals(&args->out[0]), momentum = a->momentum;
  double *b = kept.count ? op_take_kept(&kept, count, true) : NULL;
  for (int64_t i = 0; i < count; i++) {
    double g =
        (double)a->gradient_factor * op_reals(&args->in[0])[i] + (double)a->weight_decay * p[i];
    if (b) {
      b[i] = a->first ? g : momentum * b[i] + g;
      g = a->nesterov ? g + momentum * b[i] : b[i];
    }
    p[i] -= (double)a->rate * g;
    if (args->out[2].count) op_reals(&args->out[2])[i] = p[i];
  }
  if (b) op_put_kept(&kept, b, count, true);
}

static op_tolerance sgd_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){2, 4};
}

const op_reference op_reference_sgd = {sgd, sgd_error, true, true};

#define STATISTICS(name_, scale_, ...)                                                          \
  {                                                                                             \
    .name = name_, .op = AC_OP_gradient_statistics, .attributes.gradient_statistics = {scale_}, \
    .batch = 1, .in = {OP_F32(__VA_ARGS__)}, .out = {                                           \
      OP_F32(2)                                                                                 \
    }                                                                                           \
  }
#define ADAMW(name_, n, ...)                                                         \
  {                                                                                  \
    .name = name_, .op = AC_OP_adamw, .attributes.adamw = {__VA_ARGS__}, .batch = 1, \
    .in = {OP_F32(n)}, .out = {                                                      \
      OP_F32(n),                                                                     \
      OP_RANGE(-0.1, 0.1, n),                                                        \
      OP_RANGE(0.01, 0.1, n)                                                         \
    }                                                                                \
  }
#define SGD(name_, n, momentum_, ...)                                            \
  {                                                                              \
    .name = name_, .op = AC_OP_sgd, .attributes.sgd = {__VA_ARGS__}, .batch = 1, \
    .in = {OP_F32(n)}, .out = {                                                  \
      OP_F32(n),                                                                 \
      {.dtype = AC_F32, .rank = momentum_, .dim = {n}, .high = 1}                \
    }                                                                            \
  }

#define EIGHT_BIT_ADAMW \
  { 0.25f, 1e-3f, 0.1f, 0.1f, 0.001f, 1e-2f, 0.271f, 0.0547f }
#define ADAMW_8BIT(name_, n)                                                           \
  {                                                                                    \
    .name = name_, .op = AC_OP_adamw, .attributes.adamw = EIGHT_BIT_ADAMW, .batch = 1, \
    .in = {OP_F32(n)}, .out = {                                                        \
      OP_F32(n),                                                                       \
      OP_EIGHT_BIT(0.1, 1, n),                                                         \
      OP_EIGHT_BIT(0.1, 1, n)                                                          \
    }                                                                                  \
  }
#define SGD_8BIT(name_, n, ...)                                                  \
  {                                                                              \
    .name = name_, .op = AC_OP_sgd, .attributes.sgd = {__VA_ARGS__}, .batch = 1, \
    .in = {OP_F32(n)}, .out = {                                                  \
      OP_F32(n),                                                                 \
      OP_EIGHT_BIT(0.1, 1, n)                                                    \
    }                                                                            \
  }

static const op_case cases[] = {
    STATISTICS("statistics of 1", 0.5f, 1),
    STATISTICS("statistics of 7x65", 1, 7, 65),
    STATISTICS("statistics of 129x129", 0.25f, 129, 129),
    /* More than one element for each work-item of src/backend/opencl/update/optimizer.c. */
    STATISTICS("statistics of 301x257", 0.5f, 301, 257),
    ADAMW("adamw 129x129", 129 * 129, .gradient_factor = 0.25f, .rate = 1e-3f, .weight_decay = 0.1f,
          .take1 = 0.1f, .take2 = 0.001f, .epsilon = 1e-8f, .correction1 = 0.271f,
          .sqrt_correction2 = 0.0547f),
    ADAMW("adamw 1, no decay", 1, .gradient_factor = 1, .rate = 0.1f, .take1 = 0.2f, .take2 = 0.05f,
          .epsilon = 1e-3f, .correction1 = 1, .sqrt_correction2 = 1),
    SGD("sgd 129x129", 129 * 129, 0, .gradient_factor = 0.25f, .rate = 0.1f, .weight_decay = 0.01f),
    SGD("sgd first with momentum 65", 65, 1, .gradient_factor = 2, .rate = 0.1f, .momentum = 0.9f,
        .first = true),
    SGD("sgd with momentum 129x129", 129 * 129, 1, .gradient_factor = 2, .rate = 0.1f,
        .weight_decay = 0.01f, .momentum = 0.9f),
    SGD("sgd nesterov 65", 65, 1, .gradient_factor = 2, .rate = 0.1f, .weight_decay = 0.01f,
        .momentum = 0.9f, .nesterov = true),
    /* What is kept in 8 bits: one block, a part of one, and more than the threads share evenly. The
     * epsilon keeps steps from being as large as those of lost second moments. */
    ADAMW_8BIT("adamw in 8 bits, 256", 256),
    ADAMW_8BIT("adamw in 8 bits, 1", 1),
    ADAMW_8BIT("adamw in 8 bits, 129x129", 129 * 129),
    SGD_8BIT("sgd in 8 bits, 257", 257, .gradient_factor = 2, .rate = 0.1f, .momentum = 0.9f),
    SGD_8BIT("sgd first in 8 bits, 255", 255, .gradient_factor = 2, .rate = 0.1f, .momentum = 0.9f,
             .first = true),
    SGD_8BIT("sgd nesterov in 8 bits, 129x129", 129 * 129, .gradient_factor = 2, .rate = 0.1f,
             .weight_decay = 0.01f, .momentum = 0.9f, .nesterov = true),
    {.name = "adamw in 8 bits, 5x2500 and a copy",
     .op = AC_OP_adamw,
     .attributes.adamw = EIGHT_BIT_ADAMW,
     .batch = 1,
     .in = {OP_F32(5, 2500)},
     .out = {OP_F32(5, 2500), OP_EIGHT_BIT(0.1, 1, 12500), OP_EIGHT_BIT(0.1, 1, 12500),
             OP_F32(5, 2500)},
     .halves = true},
    {.name = "sgd in 8 bits, 300 and a copy",
     .op = AC_OP_sgd,
     .attributes
         .sgd = {.gradient_factor = 2, .rate = 0.1f, .weight_decay = 0.01f, .momentum = 0.9f},
     .batch = 1,
     .in = {OP_F32(300)},
     .out = {OP_F32(300), OP_EIGHT_BIT(0.1, 1, 300), OP_F32(300)},
     .halves = true},
    /* Parameters in bf16 alone. */
    {.name = "adamw 129x129, rounded",
     .op = AC_OP_adamw,
     .attributes.adamw = {0.25f, 1e-3f, 0.1f, 0.1f, 0.001f, 1e-8f, 0.271f, 0.0547f},
     .batch = 1,
     .in = {OP_F32(129 * 129)},
     .out = {OP_ROUNDED(129 * 129), OP_RANGE(-0.1, 0.1, 129 * 129),
             OP_RANGE(0.01, 0.1, 129 * 129)}},
    {.name = "adamw in 8 bits, 5x2500, rounded",
     .op = AC_OP_adamw,
     .attributes.adamw = EIGHT_BIT_ADAMW,
     .batch = 1,
     .in = {OP_F32(5, 2500)},
     .out = {OP_ROUNDED(5, 2500), OP_EIGHT_BIT(0.1, 1, 12500), OP_EIGHT_BIT(0.1, 1, 12500)}},
    {.name = "sgd 65, rounded",
     .op = AC_OP_sgd,
     .attributes.sgd = {.gradient_factor = 0.25f, .rate = 0.1f, .weight_decay = 0.01f},
     .batch = 1,
     .in = {OP_F32(65)},
     .out = {OP_ROUNDED(65)}},
    {.name = "sgd with momentum 129x129, rounded",
     .op = AC_OP_sgd,
     .attributes
         .sgd = {.gradient_factor = 2, .rate = 0.1f, .weight_decay = 0.01f, .momentum = 0.9f},
     .batch = 1,
     .in = {OP_F32(129 * 129)},
     .out = {OP_ROUNDED(129 * 129), OP_RANGE(0, 1, 129 * 129)}},
    {.name = "sgd in 8 bits, 300, rounded",
     .op = AC_OP_sgd,
     .attributes
         .sgd = {.gradient_factor = 2, .rate = 0.1f, .weight_decay = 0.01f, .momentum = 0.9f},
     .batch = 1,
     .in = {OP_F32(300)},
     .out = {OP_ROUNDED(300), OP_EIGHT_BIT(0.1, 1, 300)}},
    /* Gradients in bf16. */
    {.name = "statistics of 300x257 in bf16",
     .op = AC_OP_gradient_statistics,
     .attributes.gradient_statistics = {0.5f},
     .batch = 1,
     .in = {OP_ROUNDED(300, 257)},
     .out = {OP_F32(2)}},
    {.name = "adamw 129x129, gradient in bf16",
     .op = AC_OP_adamw,
     .attributes.adamw = {0.25f, 1e-3f, 0.1f, 0.1f, 0.001f, 1e-8f, 0.271f, 0.0547f},
     .batch = 1,
     .in = {OP_ROUNDED(129 * 129)},
     .out = {OP_F32(129 * 129), OP_RANGE(-0.1, 0.1, 129 * 129), OP_RANGE(0.01, 0.1, 129 * 129)}},
    {.name = "adamw 5x2500 and a copy, gradient in bf16",
     .op = AC_OP_adamw,
     .attributes.adamw = {0.25f, 1e-3f, 0.1f, 0.1f, 0.001f, 1e-8f, 0.271f, 0.0547f},
     .batch = 1,
     .in = {OP_ROUNDED(5, 2500)},
     .out = {OP_F32(5, 2500), OP_RANGE(-0.1, 0.1, 5, 2500), OP_RANGE(0.01, 0.1, 5, 2500),
             OP_F32(5, 2500)},
     .halves = true},
    {.name = "adamw in 8 bits, 5x2500, rounded, gradient in bf16",
     .op = AC_OP_adamw,
     .attributes.adamw = EIGHT_BIT_ADAMW,
     .batch = 1,
     .in = {OP_ROUNDED(5, 2500)},
     .out = {OP_ROUNDED(5, 2500), OP_EIGHT_BIT(0.1, 1, 12500), OP_EIGHT_BIT(0.1, 1, 12500)}},
    {.name = "sgd 1100, rounded, gradient in bf16",
     .op = AC_OP_sgd,
     .attributes.sgd = {.gradient_factor = 0.25f, .rate = 0.1f, .weight_decay = 0.01f},
     .batch = 1,
     .in = {OP_ROUNDED(1100)},
     .out = {OP_ROUNDED(1100)}},
    /* With a working copy in 16 bits. */
    {.name = "adamw 5x2500 and a copy",
     .op = AC_OP_adamw,
     .attributes.adamw = {0.25f, 1e-3f, 0.1f, 0.1f, 0.001f, 1e-8f, 0.271f, 0.0547f},
     .batch = 1,
     .in = {OP_F32(5, 2500)},
     .out = {OP_F32(5, 2500), OP_RANGE(-0.1, 0.1, 5, 2500), OP_RANGE(0.01, 0.1, 5, 2500),
             OP_F32(5, 2500)},
     .halves = true},
    {.name = "adamw 65 and a copy",
     .op = AC_OP_adamw,
     .attributes.adamw = {0.25f, 1e-3f, 0.1f, 0.1f, 0.001f, 1e-8f, 0.271f, 0.0547f},
     .batch = 1,
     .in = {OP_F32(65)},
     .out = {OP_F32(65), OP_RANGE(-0.1, 0.1, 65), OP_RANGE(0.01, 0.1, 65), OP_F32(65)},
     .halves = true},
    {.name = "sgd 65 and a copy",
     .op = AC_OP_sgd,
     .attributes.sgd = {.gradient_factor = 0.25f, .rate = 0.1f, .weight_decay = 0.01f},
     .batch = 1,
     .in = {OP_F32(65)},
     .out = {OP_F32(65), {.rank = 0}, OP_F32(65)},
     .halves = true},
    {.name = "sgd with momentum 65 and a copy",
     .op = AC_OP_sgd,
     .attributes
         .sgd = {.gradient_factor = 2, .rate = 0.1f, .weight_decay = 0.01f, .momentum = 0.9f},
     .batch = 1,
     .in = {OP_F32(65)},
     .out = {OP_F32(65), OP_RANGE(0, 1, 65), OP_F32(65)},
     .halves = true},
    {.name = "sgd with momentum 129x129 and a copy",
     .op = AC_OP_sgd,
     .attributes
         .sgd = {.gradient_factor = 2, .rate = 0.1f, .weight_decay = 0.01f, .momentum = 0.9f},
     .batch = 1,
     .in = {OP_F32(129 * 129)},
     .out = {OP_F32(129 * 129), OP_RANGE(0, 1, 129 * 129), OP_F32(129 * 129)},
     .halves = true},
};

/* One bad value among many sets the flag, wherever it is; huge and denormal ones do not, though the
 * scale makes an infinity of the former. */
static void check_special_gradients(ac_device *device, const op_case *c,
                                    const int64_t places[static 3]) {
  static const struct {
    const char *name;
    double value;
    bool bad;
  } kinds[] = {{"inf", INFINITY, true},  {"-inf", -INFINITY, true},  {"NaN", NAN, true},
               {"huge", FLT_MAX, false}, {"denormal", 1e-42, false}, {"-0", -0.0, false}};
  op_instance s;
  op_result result;
  op_instance_forward(&s, c, 1);
  s.attributes.gradient_statistics.scale = 4;
  for (int k = 0; k < 6; k++)
    for (int i = 0; i < (op_reduced ? 1 : 3); i++) {
      op_variant variant = {.name = kinds[k].name, .once = true};
      double old = op_reals(&s.args.in[0])[places[i]];
      op_reals(&s.args.in[0])[places[i]] = kinds[k].value;
      op_instance_compute(&s);
      double sum = op_reals(&s.args.out[0])[0];
      const char *where = op_where(device, &s, &variant);
      if (op_run(device, &s, &variant, &result)) {
        OP_EXPECT(where, result.out[0][1] == op_reals(&s.args.out[0])[1],
                  "at %d the exponent is %g", (int)places[i], result.out[0][1]);
        if (!kinds[k].bad)
          OP_EXPECT(where, fabs(result.out[0][0] - sum) < 1e-4 * sum, "the sum is %g, not %g",
                    result.out[0][0], sum);
      }
      op_result_free(&result);
      op_reals(&s.args.in[0])[places[i]] = old;
    }
  op_instance_free(&s);
}

/* Gradients with squares that floats do not hold: all of them, or one among ordinary ones, or all
 * but a few ordinary ones. Whatever the exponent, no sum is lost. */
static void large_and_small_gradients(ac_device *device) {
  static const double scales[] = {2e19, 1e30, 3e38, 1e-15, 1e-23, 1e-30};
  op_variant variant = {.name = "large and small gradients", .once = true};
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < 18; i++) {
      const int which = i / 6; /* all, the last, all but the first */
      op_instance s;
      op_result result;
      op_instance_forward(&s, &cases[k], 1);
      double *g = op_reals(&s.args.in[0]);
      const int64_t count = s.args.in[0].count;
      for (int64_t e = which == 1 ? count - 1 : which == 2; e < count; e++)
        g[e] = op_round(AC_F32, g[e] * scales[i % 6]);
      op_instance_compute(&s);
      const double *want = op_reals(&s.args.out[0]);
      if (op_run(device, &s, &variant, &result)) {
        const double *got = result.out[0];
        OP_EXPECT(op_where(device, &s, &variant),
                  fabs(ldexp(got[0] / want[0], 2 * (int)(got[1] - want[1])) - 1) < 1e-4 ||
                      (got[0] == 0 && want[0] == 0),
                  "with %g (%d): %g x 4^%g, not %g x 4^%g", scales[i % 6], which, got[0], got[1],
                  want[0], want[1]);
      }
      op_result_free(&result);
      op_instance_free(&s);
    }
}

/* The larger one is read by several items at a time, all but the last place four at a time. */
static void special_gradients(ac_device *device) {
  large_and_small_gradients(device);
  check_special_gradients(device, &cases[1], (const int64_t[]){0, 454, 128});
  check_special_gradients(device, &cases[2], (const int64_t[]){5000, 0, 129 * 129 - 1});
}

/* Floats on both sides of every middle between two codes, SIDE of them on each, in blocks of 8 bits
 * with scale 1. Floats nearer to the middle than ROUNDING units may have either code, as kernels
 * round positions, which are up to 256. */
enum { SIDE = 20, ROUNDING = 8, BETWEEN = 255, AROUND = 2 * SIDE + 1, OF_BLOCK = 255 };
enum { NEAR = (BETWEEN * AROUND + OF_BLOCK - 1) / OF_BLOCK * 256 };

static double middle(int code, bool is_signed) {
  return (op_code_value(code, is_signed) + op_code_value(code + 1, is_signed)) / 2;
}

/* The element of blocks for float number `side` from the middle above a code; the first are the
 * scales. */
static int near_middle(int code, int side) {
  const int i = code * AROUND + SIDE + side;
  return i / OF_BLOCK * 256 + 1 + i % OF_BLOCK;
}

static double next_to(double value, int side) {
  int exponent;
  frexp(value, &exponent);
  return (double)(float)(value + side * ldexp(1, exponent - 24));
}

static void expect_codes(const char *where, const double *blocks, const double *values,
                         bool is_signed) {
  for (int code = is_signed ? 0 : 1; code < BETWEEN; code++)
    for (int side = -SIDE; side <= SIDE; side++) {
      const int e = near_middle(code, side), got = (int)blocks[e / 256 * 260 + e % 256];
      const double off = values[e] - middle(code, is_signed);
      const bool either = fabs(off) < ROUNDING * (double)FLT_EPSILON * fabs(values[e]);
      OP_EXPECT(where, got == code + (off > 0) || (either && got == code + (off <= 0)),
                "%.9g became code %d, near the middle of %d and the next", values[e], got, code);
    }
}

/* A first step of SGD keeps the gradient itself, one of AdamW without averages its square. */
static void codes_near_middles(ac_device *device, bool is_signed) {
  static const op_case kept[] = {
      ADAMW_8BIT("codes of squares", NEAR),
      SGD_8BIT("codes of momentum", NEAR, .gradient_factor = 1, .momentum = 0.9f, .first = true)};
  const int state = is_signed ? 1 : 2;
  op_variant variant = {.name = "near middles", .once = true};
  op_instance s;
  op_result result;
  op_instance_forward(&s, &kept[is_signed], 1);
  if (!is_signed)
    s.attributes.adamw = (ac_adamw_attributes){.gradient_factor = 1,
                                               .take1 = 1,
                                               .take2 = 1,
                                               .epsilon = 1e-8f,
                                               .correction1 = 1,
                                               .sqrt_correction2 = 1};
  double *g = op_reals(&s.args.in[0]), *values = calloc(NEAR, sizeof *values);
  for (int64_t e = 0; e < s.args.out[state].count; e++) s.initial[state][e] = 0;
  for (int e = 0; e < NEAR; e += 256) g[e] = 1;
  for (int code = 0; code < BETWEEN; code++)
    for (int side = -SIDE; side <= SIDE; side++) {
      const int e = near_middle(code, side);
      g[e] = values[e] = next_to(middle(code, is_signed), side);
      if (is_signed) continue;
      g[e] = (double)(float)sqrt(values[e]);
      values[e] = (double)(float)(g[e] * g[e]);
    }
  if (op_run(device, &s, &variant, &result))
    expect_codes(op_where(device, &s, &variant), result.out[state], values, is_signed);
  op_result_free(&result);
  free(values);
  op_instance_free(&s);
}

/* Codes of blocks with the least scales, to a few units in the last place of the least floats;
 * other devices may take these for zero. */
static void codes_at_least_scales(ac_device *device) {
  static const op_case c = SGD_8BIT("codes at the least scales", 256, .gradient_factor = 1,
                                    .rate = 0x1p120f, .momentum = 1);
  if (!device->backend->is_host) return;
  for (int exponent = -126; exponent < -80; exponent += 4) {
    const float scale = ldexpf(1, exponent);
    unsigned char bytes[sizeof scale];
    op_variant variant = {.name = "least scales", .once = true};
    op_instance s;
    op_result result;
    memcpy(bytes, &scale, sizeof scale);
    op_instance_forward(&s, &c, 1);
    for (int e = 0; e < 256; e++) {
      op_reals(&s.args.in[0])[e] = s.initial[0][e] = 0;
      s.initial[1][e] = e;
    }
    for (size_t k = 0; k < sizeof bytes; k++) s.initial[1][256 + k] = bytes[k];
    if (op_run(device, &s, &variant, &result))
      for (int code = 0; code < 256; code++) {
        const double want = op_code_value(code, true) * (double)scale,
                     got = result.out[0][code] * -0x1p-120;
        OP_EXPECT(op_where(device, &s, &variant),
                  fabs(got - want) <= 8 * 0x1p-149 + 1e-6 * fabs(want),
                  "code %d of scale 2^%d is %.9g, not %.9g", code, exponent, got, want);
      }
    op_result_free(&result);
    op_instance_free(&s);
  }
}

/* What is larger than the largest scale is kept as that, infinite or not, and a block that is less
 * than the least as zero. Parameters are stepped by what was not yet cut. */
static void ends_of_scales(ac_device *device, bool is_signed) {
  static const op_case kept[] = {ADAMW_8BIT("squares at the ends of scales", 300),
                                 SGD_8BIT("momentum at the ends of scales", 300,
                                          .gradient_factor = 2, .momentum = 0.9f, .first = true)};
  static const struct {
    double gradient, code[2]; /* of its square, and of twice itself */
  } values[] = {{0, {0, 127}},        {0x1p126, {255, 255}}, {3e38, {255, 255}},  {-3e38, {255, 0}},
                {-0x1p126, {255, 0}}, {0x1p63, {255, 127}},  {0x1p62, {148, 127}}};
  const int state = is_signed ? 1 : 2, count = sizeof values / sizeof *values;
  for (int least = 0; least < (is_signed ? 1 : 2); least++) {
    op_variant variant = {.name = least ? "below" : "above", .once = true};
    op_instance s;
    op_result result;
    op_instance_forward(&s, &kept[is_signed], 1);
    if (!is_signed)
      s.attributes.adamw = (ac_adamw_attributes){.gradient_factor = 1,
                                                 .rate = 1,
                                                 .take1 = 1,
                                                 .take2 = 1,
                                                 .epsilon = 1e-30f,
                                                 .correction1 = 1,
                                                 .sqrt_correction2 = 1};
    double *g = op_reals(&s.args.in[0]);
    for (int k = 1; k <= state; k++)
      for (int64_t e = 0; e < s.args.out[k].count; e++) s.initial[k][e] = 0;
    for (int e = 0; e < 300; e++) g[e] = least ? (double)1e-19f : values[e % count].gradient;
    if (op_run(device, &s, &variant, &result)) {
      const char *where = op_where(device, &s, &variant);
      for (int e = 0; e < 300; e++) {
        const double got = result.out[state][e / 256 * 260 + e % 256],
                     want = least ? 0 : values[e % count].code[is_signed];
        OP_EXPECT(where, got == want, "%g became code %g, not %g", g[e], got, want);
        if (is_signed) continue;
        const bool is_finite = g[e] * g[e] < (double)FLT_MAX; /* as a float; else no step is left */
        const double step = is_finite ? (g[e] > 0) - (g[e] < 0) : 0,
                     moved = s.initial[0][e] - result.out[0][e];
        OP_EXPECT(where, fabs(moved - step) < 1e-5, "%g is a step of %g, not %g", g[e], moved,
                  step);
      }
      for (int block = 0; block < 2; block++) {
        const float scale = op_block_scale(result.out[state] + block * 260);
        OP_EXPECT(where, scale == (least ? 0 : 0x1p126f), "block %d has scale %g", block,
                  (double)scale);
      }
    }
    op_result_free(&result);
    op_instance_free(&s);
  }
}

/* As in torch.optim. */
static void update(op_case *c, const op_vector *v, int64_t t) {
  const bool adam = op_vector_attribute(v, "adamw", 0) != 0;
  const double rate = op_vector_attribute(v, "lr", 0),
               decay = op_vector_attribute(v, "weight_decay", 0),
               beta1 = op_vector_attribute(v, "beta1", 0),
               beta2 = op_vector_attribute(v, "beta2", 0),
               momentum = op_vector_attribute(v, "momentum", 0);
  c->op = adam ? AC_OP_adamw : AC_OP_sgd;
  for (int j = 1; j < (adam ? 3 : momentum != 0 ? 2 : 1); j++) c->out[j] = c->out[0];
  if (adam)
    c->attributes.adamw =
        (ac_adamw_attributes){.gradient_factor = 1,
                              .rate = (float)rate,
                              .weight_decay = (float)decay,
                              .take1 = (float)(1 - beta1),
                              .take2 = (float)(1 - beta2),
                              .epsilon = (float)op_vector_attribute(v, "eps", 1e-8),
                              .correction1 = (float)(1 - pow(beta1, (double)t)),
                              .sqrt_correction2 = (float)sqrt(1 - pow(beta2, (double)t))};
  else
    c->attributes.sgd = (ac_sgd_attributes){.gradient_factor = 1,
                                            .rate = (float)rate,
                                            .weight_decay = (float)decay,
                                            .momentum = (float)momentum,
                                            .nesterov = op_vector_attribute(v, "nesterov", 0) != 0,
                                            .first = t == 1};
}

static void special(ac_device *device) {
  special_gradients(device);
  for (int sign = 0; sign < 2 && !op_reduced; sign++) codes_near_middles(device, sign);
  for (int sign = 0; sign < 2; sign++) ends_of_scales(device, sign);
  codes_at_least_scales(device);
  op_replay(device, "optimizer", update);
}

static void special_host(void) {
  op_replay(NULL, "optimizer", update);
}

const op_family op_family_optimizer = {"optimizer", cases,   sizeof cases / sizeof *cases,
                                       NULL,        special, special_host};

/* Updates step parameters. */
const op_generator op_generator_optimizer = {.takes = NULL};
