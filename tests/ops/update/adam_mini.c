/* Cases and reference of Adam-mini. */
#include "ops/generator.h"
#include "ops/replay.h"

#include <math.h>

/* The formulas are in ops/update/adam_mini.h; a block is the elements with one place in v. */
static void adam_mini(const ac_op_args *args) {
  const ac_adam_mini_attributes *a = args->attributes;
  const ac_operand *v = &args->out[2];
  const int64_t count = args->in[0].count, rows = args->out[0].rank > 1 ? args->out[0].dim[0] : 1,
                columns = count / rows;
  const double *g = op_reals(&args->in[0]), factor = a->gradient_factor;
  double *p = op_reals(&args->out[0]), *m = op_reals(&args->out[1]), *squares = op_reals(v);
  double take1 = a->take1, take2 = a->take2;
  for (int64_t block = 0; block < v->count; block++) {
    double sum = 0, terms = 0;
    for (int64_t n = 0; n < count; n++) {
      const int64_t of = v->dim[0] > 1 ? n / columns : v->dim[1] > 1 ? n % columns : 0;
      if (of != block) continue;
      sum += factor * g[n] * factor * g[n];
      terms++;
    }
    squares[block] = (1 - take2) * squares[block] + take2 * sum / terms;
  }
  for (int64_t n = 0; n < count; n++) {
    const int64_t of = v->dim[0] > 1 ? n / columns : v->dim[1] > 1 ? n % columns : 0;
    p[n] -= (double)a->rate * (double)a->weight_decay * p[n];
    m[n] = (1 - take1) * m[n] + take1 * factor * g[n];
    p[n] -= (double)a->rate / (double)a->correction1 * m[n] /
            (sqrt(squares[of]) / (double)a->sqrt_correction2 + (double)a->epsilon);
    if (args->out[3].count) op_reals(&args->out[3])[n] = p[n];
  }
}

/* First moments and parameters as AdamW's; second ones are sums of squares, which are positive. No
 * moment here is below 0.01. */
static op_tolerance adam_mini_error(const ac_op_args *args, int output) {
  const ac_adam_mini_attributes *a = args->attributes;
  const double step = (double)(a->rate / a->correction1 * a->sqrt_correction2) * 10;
  const double sum = 8 + op_sum_error(args->in[0].count / args->out[2].count / 16);
  if (output == 1) return (op_tolerance){4, 2};
  if (output == 2) return (op_tolerance){sum, 0};
  return (op_tolerance){2, 2 + (8 + sum) * step};
}

const op_reference op_reference_adam_mini = {adam_mini, adam_mini_error, true, true};

#define USUAL \
  { 0.25f, 1e-3f, 0.1f, 0.1f, 0.001f, 1e-8f, 0.271f, 0.0547f }
#define QUICK \
  { 2, 0.1f, 0, 0.2f, 0.5f, 1e-3f, 1, 1 }
#define MINI(name_, attributes_, v_rows, v_columns, ...)                                   \
  {                                                                                        \
    .name = name_, .op = AC_OP_adam_mini, .attributes.adam_mini = attributes_, .batch = 1, \
    .in = {OP_F32(__VA_ARGS__)}, .out = {                                                  \
      OP_F32(__VA_ARGS__),                                                                 \
      OP_RANGE(-0.1, 0.1, __VA_ARGS__),                                                    \
      OP_RANGE(0.01, 0.1, v_rows, v_columns)                                               \
    }                                                                                      \
  }
#define MINI_COPY(name_, v_rows, v_columns, ...)                                     \
  {                                                                                  \
    .name = name_, .op = AC_OP_adam_mini, .attributes.adam_mini = USUAL, .batch = 1, \
    .in = {OP_F32(__VA_ARGS__)},                                                     \
    .out = {OP_F32(__VA_ARGS__), OP_RANGE(-0.1, 0.1, __VA_ARGS__),                   \
            OP_RANGE(0.01, 0.1, v_rows, v_columns), OP_F32(__VA_ARGS__)},            \
    .halves = true                                                                   \
  }

static const op_case cases[] = {
    MINI("adam_mini by row 129x65", USUAL, 129, 1, 129, 65),
    MINI("adam_mini by column 129x65", USUAL, 1, 65, 129, 65),
    MINI("adam_mini by row 40x1000", QUICK, 40, 1, 40, 1000),
    /* More than one chunk of rows. */
    MINI("adam_mini by column 1000x40", QUICK, 1, 40, 1000, 40),
    /* In a square, rows must not be taken for columns. */
    MINI("adam_mini by row 33x33", QUICK, 33, 1, 33, 33),
    MINI("adam_mini by column 33x33", QUICK, 1, 33, 33, 33),
    MINI("adam_mini by row 6x4x3x3", QUICK, 6, 1, 6, 4, 3, 3),
    MINI("adam_mini by column 1x7", QUICK, 1, 7, 1, 7),
    MINI("adam_mini whole 300", USUAL, 1, 1, 300),
    MINI("adam_mini whole 9000", QUICK, 1, 1, 9000),
    MINI("adam_mini whole 300x1", USUAL, 1, 1, 300, 1), /* a layer [in, 1] */
    MINI("adam_mini whole 20x30", QUICK, 1, 1, 20, 30),
    MINI("adam_mini 1", QUICK, 1, 1, 1),
    /* In bf16: rows that are short and that are longer than a block, columns, and a whole. */
    {.name = "adam_mini by row 129x65, rounded",
     .op = AC_OP_adam_mini,
     .attributes.adam_mini = USUAL,
     .batch = 1,
     .in = {OP_F32(129, 65)},
     .out = {OP_ROUNDED(129, 65), OP_RANGE(-0.1, 0.1, 129, 65), OP_RANGE(0.01, 0.1, 129, 1)}},
    {.name = "adam_mini by row 9x2500, rounded, gradient in bf16",
     .op = AC_OP_adam_mini,
     .attributes.adam_mini = USUAL,
     .batch = 1,
     .in = {OP_ROUNDED(9, 2500)},
     .out = {OP_ROUNDED(9, 2500), OP_RANGE(-0.1, 0.1, 9, 2500), OP_RANGE(0.01, 0.1, 9, 1)}},
    {.name = "adam_mini by column 65x129, rounded",
     .op = AC_OP_adam_mini,
     .attributes.adam_mini = USUAL,
     .batch = 1,
     .in = {OP_F32(65, 129)},
     .out = {OP_ROUNDED(65, 129), OP_RANGE(-0.1, 0.1, 65, 129), OP_RANGE(0.01, 0.1, 1, 129)}},
    {.name = "adam_mini by column 9x2500, rounded, gradient in bf16",
     .op = AC_OP_adam_mini,
     .attributes.adam_mini = USUAL,
     .batch = 1,
     .in = {OP_ROUNDED(9, 2500)},
     .out = {OP_ROUNDED(9, 2500), OP_RANGE(-0.1, 0.1, 9, 2500), OP_RANGE(0.01, 0.1, 1, 2500)}},
    {.name = "adam_mini whole 3000, gradient in bf16",
     .op = AC_OP_adam_mini,
     .attributes.adam_mini = USUAL,
     .batch = 1,
     .in = {OP_ROUNDED(3000)},
     .out = {OP_F32(3000), OP_RANGE(-0.1, 0.1, 3000), OP_RANGE(0.01, 0.1, 1, 1)}},
    /* With a working copy in 16 bits. */
    {.name = "adam_mini by row 9x2500 and a copy, gradient in bf16",
     .op = AC_OP_adam_mini,
     .attributes.adam_mini = USUAL,
     .batch = 1,
     .in = {OP_ROUNDED(9, 2500)},
     .out = {OP_F32(9, 2500), OP_RANGE(-0.1, 0.1, 9, 2500), OP_RANGE(0.01, 0.1, 9, 1),
             OP_F32(9, 2500)},
     .halves = true},
    MINI_COPY("adam_mini by row 70x90 and a copy", 70, 1, 70, 90),
    MINI_COPY("adam_mini by column 70x90 and a copy", 1, 90, 70, 90),
    MINI_COPY("adam_mini whole 65 and a copy", 1, 1, 65),
};

static void update(op_case *c, const op_vector *v, int64_t t) {
  const op_operand_spec *p = &c->out[0];
  const double beta1 = op_vector_attribute(v, "beta1", 0),
               beta2 = op_vector_attribute(v, "beta2", 0);
  const bool by_column = op_vector_attribute(v, "by_column", 0) != 0;
  c->op = AC_OP_adam_mini;
  c->out[1] = *p;
  c->out[2] = (op_operand_spec){.dtype = AC_F32, .rank = 2, .dim = {1, 1}};
  if (p->rank > 1) c->out[2].dim[by_column] = p->dim[by_column];
  c->attributes.adam_mini =
      (ac_adam_mini_attributes){.gradient_factor = 1,
                                .rate = (float)op_vector_attribute(v, "lr", 0),
                                .weight_decay = (float)op_vector_attribute(v, "weight_decay", 0),
                                .take1 = (float)(1 - beta1),
                                .take2 = (float)(1 - beta2),
                                .epsilon = (float)op_vector_attribute(v, "eps", 0),
                                .correction1 = (float)(1 - pow(beta1, (double)t)),
                                .sqrt_correction2 = (float)sqrt(1 - pow(beta2, (double)t))};
}

static void special(ac_device *device) {
  op_replay(device, "adam_mini", update);
}

static void special_host(void) {
  special(NULL);
}

const op_family op_family_adam_mini = {"adam_mini", cases,   sizeof cases / sizeof *cases,
                                       NULL,        special, special_host};

const op_generator op_generator_adam_mini = {.takes = NULL};
