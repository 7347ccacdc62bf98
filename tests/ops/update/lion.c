/* Cases and reference of Lion. */
#include "ops/generator.h"
#include "ops/kept.h"
#include "ops/replay.h"

static void lion(const ac_op_args *args) {
  const ac_lion_attributes *a = args->attributes;
  const int64_t count = args->in[0].count;
  ac_operand kept = args->out[1];
  double *p = op_reals(&args->out[0]), *m = op_take_kept(&kept, count, true);
  double beta1 = a->beta1, take1 = a->take1, take2 = a->take2, rate = a->rate;
  for (int64_t i = 0; i < count; i++) {
    double g = (double)a->gradient_factor * op_reals(&args->in[0])[i];
    double direction = beta1 * m[i] + take1 * g;
    p[i] -= rate * (double)a->weight_decay * p[i];
    p[i] -= direction > 0 ? rate : direction < 0 ? -rate : 0;
    m[i] = (1 - take2) * m[i] + take2 * g;
    if (args->out[2].count) op_reals(&args->out[2])[i] = p[i];
  }
  op_put_kept(&kept, m, count, true);
}

/* Sums of two or three products of rounded factors. A direction within rounding of 0 could be
 * taken otherwise; none that is drawn is so small, but for those that are 0 exactly. */
static op_tolerance lion_error(const ac_op_args *args, int output) {
  (void)args;
  return output == 1 ? (op_tolerance){4, 2} : (op_tolerance){2, 2};
}

const op_reference op_reference_lion = {lion, lion_error, true, true};

#define LION(name_, n, ...)                                                        \
  {                                                                                \
    .name = name_, .op = AC_OP_lion, .attributes.lion = {__VA_ARGS__}, .batch = 1, \
    .in = {OP_F32(n)}, .out = {                                                    \
      OP_F32(n),                                                                   \
      OP_RANGE(-0.1, 0.1, n)                                                       \
    }                                                                              \
  }

#define LION_8BIT(name_, n)                                                                      \
  {                                                                                              \
    .name = name_, .op = AC_OP_lion, .attributes.lion = {0.25f, 1e-3f, 0.1f, 0.9f, 0.1f, 0.01f}, \
    .batch = 1, .in = {OP_F32(n)}, .out = {                                                      \
      OP_F32(n),                                                                                 \
      OP_EIGHT_BIT(0.1, 1, n)                                                                    \
    }                                                                                            \
  }

static const op_case cases[] = {
    LION("lion 129x129", 129 * 129, .gradient_factor = 0.25f, .rate = 1e-3f, .weight_decay = 0.1f,
         .beta1 = 0.9f, .take1 = 0.1f, .take2 = 0.01f),
    LION("lion 1, no decay", 1, .gradient_factor = 1, .rate = 0.1f, .beta1 = 0.8f, .take1 = 0.2f,
         .take2 = 0.05f),
    /* If gradient and momentum are zero, the sign is also zero. */
    {.name = "lion 65, some of it zero",
     .op = AC_OP_lion,
     .attributes.lion = {2, 0.1f, 0, 0.9f, 0.1f, 0.01f},
     .batch = 1,
     .in = {{.dtype = AC_F32, .rank = 1, .dim = {65}, .fill = OP_SOMETIMES, .low = -1, .high = 1}},
     .out = {OP_F32(65), OP_RANGE(0, 0, 65)}},
    /* In bf16 alone. */
    {.name = "lion 129x129, rounded",
     .op = AC_OP_lion,
     .attributes.lion = {0.25f, 1e-3f, 0.1f, 0.9f, 0.1f, 0.01f},
     .batch = 1,
     .in = {OP_F32(129 * 129)},
     .out = {OP_ROUNDED(129 * 129), OP_RANGE(-0.1, 0.1, 129 * 129)}},
    {.name = "lion 1100, gradient in bf16",
     .op = AC_OP_lion,
     .attributes.lion = {0.25f, 1e-3f, 0.1f, 0.9f, 0.1f, 0.01f},
     .batch = 1,
     .in = {OP_ROUNDED(1100)},
     .out = {OP_F32(1100), OP_RANGE(-0.1, 0.1, 1100)}},
    {.name = "lion in 8 bits, 5x2500, rounded, gradient in bf16",
     .op = AC_OP_lion,
     .attributes.lion = {0.25f, 1e-3f, 0.1f, 0.9f, 0.1f, 0.01f},
     .batch = 1,
     .in = {OP_ROUNDED(5, 2500)},
     .out = {OP_ROUNDED(5, 2500), OP_EIGHT_BIT(0.1, 1, 12500)}},
    /* With a working copy in 16 bits. */
    {.name = "lion 5x2500 and a copy",
     .op = AC_OP_lion,
     .attributes.lion = {0.25f, 1e-3f, 0.1f, 0.9f, 0.1f, 0.01f},
     .batch = 1,
     .in = {OP_F32(5, 2500)},
     .out = {OP_F32(5, 2500), OP_RANGE(-0.1, 0.1, 5, 2500), OP_F32(5, 2500)},
     .halves = true},
    {.name = "lion 65 and a copy",
     .op = AC_OP_lion,
     .attributes.lion = {0.25f, 1e-3f, 0.1f, 0.9f, 0.1f, 0.01f},
     .batch = 1,
     .in = {OP_F32(65)},
     .out = {OP_F32(65), OP_RANGE(-0.1, 0.1, 65), OP_F32(65)},
     .halves = true},
    /* In 8 bits: one block, a part of one, and more than the threads share evenly. */
    LION_8BIT("lion in 8 bits, 256", 256),
    LION_8BIT("lion in 8 bits, 1", 1),
    LION_8BIT("lion in 8 bits, 129x129", 129 * 129),
    {.name = "lion in 8 bits, 5x2500 and a copy",
     .op = AC_OP_lion,
     .attributes.lion = {0.25f, 1e-3f, 0.1f, 0.9f, 0.1f, 0.01f},
     .batch = 1,
     .in = {OP_F32(5, 2500)},
     .out = {OP_F32(5, 2500), OP_EIGHT_BIT(0.1, 1, 12500), OP_F32(5, 2500)},
     .halves = true},
};

static void update(op_case *c, const op_vector *v, int64_t t) {
  (void)t;
  c->op = AC_OP_lion;
  c->out[1] = c->out[0];
  c->attributes.lion =
      (ac_lion_attributes){.gradient_factor = 1,
                           .rate = (float)op_vector_attribute(v, "lr", 0),
                           .weight_decay = (float)op_vector_attribute(v, "weight_decay", 0),
                           .beta1 = (float)op_vector_attribute(v, "beta1", 0),
                           .take1 = (float)(1 - op_vector_attribute(v, "beta1", 0)),
                           .take2 = (float)(1 - op_vector_attribute(v, "beta2", 0))};
}

static void special(ac_device *device) {
  op_replay(device, "lion", update);
}

static void special_host(void) {
  special(NULL);
}

const op_family op_family_lion = {"lion", cases,   sizeof cases / sizeof *cases,
                                  NULL,   special, special_host};

const op_generator op_generator_lion = {.takes = NULL};
