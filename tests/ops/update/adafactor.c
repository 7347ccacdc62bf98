/* Cases and reference of Adafactor. */
#include "ops/generator.h"
#include "ops/replay.h"

#include <math.h>
#include <stdlib.h>

static double root_mean(const double *x, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += x[i] * x[i];
  return sqrt(sum / (double)count);
}

/* Moves the mean of g'^2 over rows, or over columns, into the moments; returns their mean. */
static double blend(const ac_op_args *args, double *moments, int64_t rows, int64_t columns,
                    bool by_row) {
  const ac_adafactor_attributes *a = args->attributes;
  const int64_t count = by_row ? rows : columns, terms = by_row ? columns : rows;
  double sum = 0;
  for (int64_t k = 0; k < count; k++) {
    double mean = 0;
    for (int64_t l = 0; l < terms; l++) {
      int64_t at = by_row ? k * columns + l : l * columns + k;
      double g = (double)a->gradient_factor * op_reals(&args->in[0])[at];
      mean += g * g / (double)terms;
    }
    moments[k] += (double)a->blend * (mean - moments[k]);
    sum += moments[k] / (double)count;
  }
  return sum;
}

static void adafactor(const ac_op_args *args) {
  const ac_adafactor_attributes *a = args->attributes;
  const bool matrix = args->out[2].count > 0;
  const int64_t count = args->in[0].count, rows = matrix ? args->out[1].count : 1,
                columns = count / rows;
  double *p = op_reals(&args->out[0]), *r = op_reals(&args->out[1]);
  double *c = op_reals(&args->out[matrix ? 2 : 1]), mean = 1;
  double least = (double)a->epsilon1 * (double)a->epsilon1;
  double step = fmax((double)a->epsilon2, root_mean(p, count)) * (double)a->relative;
  double *u = calloc((size_t)count, sizeof *u);
  if (matrix) mean = fmax(blend(args, r, rows, columns, true), (double)a->epsilon1);
  blend(args, c, rows, columns, false);
  for (int64_t n = 0; n < count; n++) {
    double v = (matrix ? r[n / columns] / mean : 1) * c[n % columns];
    u[n] = (double)a->gradient_factor * op_reals(&args->in[0])[n] / sqrt(fmax(v, least));
  }
  step /= fmax(1, root_mean(u, count) / (double)a->threshold);
  for (int64_t n = 0; n < count; n++) {
    p[n] -= (double)a->rate * (double)a->weight_decay * p[n] + step * u[n];
    if (args->out[3].count) op_reals(&args->out[3])[n] = p[n];
  }
  free(u);
}

/* Moments are sums of squares, added up in parts. In an update about twenty roundings meet, and
 * those of its own size and of the parameter's; no element of it is as large as eight
 * steps for each unit that the parameter is large. */
static op_tolerance adafactor_error(const ac_op_args *args, int output) {
  const ac_adafactor_attributes *a = args->attributes;
  const double sum = 8 + op_sum_error(ac_adafactor_columns(args)->count / 16);
  if (output == 1 || (output == 2 && args->out[2].count)) return (op_tolerance){sum, 0};
  return (op_tolerance){2, 2 + 8 * (double)a->relative * (24 + sum)};
}

const op_reference op_reference_adafactor = {adafactor, adafactor_error, true, true};

#define CONSTANTS .epsilon1 = 0x1p-23f, .epsilon2 = 1e-3f, .threshold = 1
#define MATRIX(name_, rows, columns, ...)                                                     \
  {                                                                                           \
    .name = name_, .op = AC_OP_adafactor, .batch = 1,                                         \
    .attributes.adafactor = {CONSTANTS, __VA_ARGS__}, .in = {OP_F32(rows, columns)}, .out = { \
      OP_F32(rows, columns),                                                                  \
      OP_RANGE(0.1, 0.5, rows),                                                               \
      OP_RANGE(0.1, 0.5, columns)                                                             \
    }                                                                                         \
  }
#define VECTOR(name_, n, ...)                                                     \
  {                                                                               \
    .name = name_, .op = AC_OP_adafactor, .batch = 1,                             \
    .attributes.adafactor = {CONSTANTS, __VA_ARGS__}, .in = {OP_F32(n)}, .out = { \
      OP_F32(n),                                                                  \
      OP_RANGE(0.1, 0.5, n)                                                       \
    }                                                                             \
  }

static const op_case cases[] = {
    MATRIX("adafactor 129x65", 129, 65, .gradient_factor = 0.25f, .rate = 1e-2f,
           .weight_decay = 0.1f, .relative = 1e-2f, .blend = 0.3f),
    MATRIX("adafactor, first, 7x300", 7, 300, .gradient_factor = 2, .rate = 0.3f, .relative = 0.2f,
           .blend = 1),
    /* More than one tile of src/backend/cpu/update/adafactor.c in either direction, and more than
     * one row for each work-item. */
    MATRIX("adafactor 300x5000", 300, 5000, .gradient_factor = 1, .rate = 1e-2f,
           .weight_decay = 0.1f, .relative = 1e-2f, .blend = 0.1f),
    MATRIX("adafactor 1x1", 1, 1, .gradient_factor = 1, .rate = 0.1f, .relative = 0.1f,
           .blend = 0.5f),
    /* No update is limited, or all are. */
    MATRIX("adafactor 9x8, small gradients", 9, 8, .gradient_factor = 1e-3f, .rate = 0.1f,
           .relative = 0.1f, .blend = 0.5f),
    {.name = "adafactor 6x4x3x3, small parameters",
     .op = AC_OP_adafactor,
     .attributes.adafactor = {CONSTANTS, .gradient_factor = 100, .rate = 0.1f, .relative = 0.1f,
                              .blend = 0.01f},
     .batch = 1,
     .in = {OP_F32(6, 4, 3, 3)},
     .out = {OP_RANGE(-1e-4, 1e-4, 6, 4, 3, 3), OP_RANGE(0.1, 0.5, 6), OP_RANGE(0.1, 0.5, 36)}},
    /* A row and a column that have never been met: their v is epsilon1^2. */
    {.name = "adafactor 5x6, some of it zero",
     .op = AC_OP_adafactor,
     .attributes.adafactor = {CONSTANTS, .gradient_factor = 1, .rate = 0.1f, .relative = 0.1f,
                              .blend = 1},
     .batch = 1,
     .in = {OP_RANGE(0, 0, 5, 6)},
     .out = {OP_F32(5, 6), OP_RANGE(0, 0, 5), OP_RANGE(0, 0, 6)}},
    VECTOR("adafactor vector 300", 300, .gradient_factor = 0.25f, .rate = 0.1f,
           .weight_decay = 0.1f, .relative = 0.1f, .blend = 0.3f),
    VECTOR("adafactor vector 9000", 9000, .gradient_factor = 3, .rate = 0.1f, .relative = 0.1f,
           .blend = 0.3f),
    /* In bf16 alone; in short rows, long ones and more than one tile of either. */
    {.name = "adafactor 129x65, rounded",
     .op = AC_OP_adafactor,
     .attributes.adafactor = {CONSTANTS, .gradient_factor = 0.25f, .rate = 1e-2f,
                              .weight_decay = 0.1f, .relative = 1e-2f, .blend = 0.3f},
     .batch = 1,
     .in = {OP_F32(129, 65)},
     .out = {OP_ROUNDED(129, 65), OP_RANGE(0.1, 0.5, 129), OP_RANGE(0.1, 0.5, 65)}},
    {.name = "adafactor 70x5000, rounded, gradient in bf16",
     .op = AC_OP_adafactor,
     .attributes.adafactor = {CONSTANTS, .gradient_factor = 2, .rate = 1e-2f, .weight_decay = 0.1f,
                              .relative = 1e-2f, .blend = 0.1f},
     .batch = 1,
     .in = {OP_ROUNDED(70, 5000)},
     .out = {OP_ROUNDED(70, 5000), OP_RANGE(0.1, 0.5, 70), OP_RANGE(0.1, 0.5, 5000)}},
    {.name = "adafactor 129x65, gradient in bf16",
     .op = AC_OP_adafactor,
     .attributes.adafactor = {CONSTANTS, .gradient_factor = 0.25f, .rate = 1e-2f,
                              .weight_decay = 0.1f, .relative = 1e-2f, .blend = 0.3f},
     .batch = 1,
     .in = {OP_ROUNDED(129, 65)},
     .out = {OP_F32(129, 65), OP_RANGE(0.1, 0.5, 129), OP_RANGE(0.1, 0.5, 65)}},
    {.name = "adafactor vector 9000, rounded",
     .op = AC_OP_adafactor,
     .attributes.adafactor = {CONSTANTS, .gradient_factor = 3, .rate = 0.1f, .relative = 0.1f,
                              .blend = 0.3f},
     .batch = 1,
     .in = {OP_F32(9000)},
     .out = {OP_ROUNDED(9000), OP_RANGE(0.1, 0.5, 9000)}},
    /* With a working copy in 16 bits. */
    {.name = "adafactor 5x2500 and a copy, gradient in bf16",
     .op = AC_OP_adafactor,
     .attributes.adafactor = {CONSTANTS, .gradient_factor = 0.25f, .rate = 1e-2f,
                              .weight_decay = 0.1f, .relative = 1e-2f, .blend = 0.3f},
     .batch = 1,
     .in = {OP_ROUNDED(5, 2500)},
     .out = {OP_F32(5, 2500), OP_RANGE(0.1, 0.5, 5), OP_RANGE(0.1, 0.5, 2500), OP_F32(5, 2500)},
     .halves = true},
    {.name = "adafactor 130x300 and a copy",
     .op = AC_OP_adafactor,
     .attributes.adafactor = {CONSTANTS, .gradient_factor = 0.25f, .rate = 1e-2f,
                              .weight_decay = 0.1f, .relative = 1e-2f, .blend = 0.3f},
     .batch = 1,
     .in = {OP_F32(130, 300)},
     .out = {OP_F32(130, 300), OP_RANGE(0.1, 0.5, 130), OP_RANGE(0.1, 0.5, 300), OP_F32(130, 300)},
     .halves = true},
    {.name = "adafactor vector 65 and a copy",
     .op = AC_OP_adafactor,
     .attributes.adafactor = {CONSTANTS, .gradient_factor = 0.25f, .rate = 1e-2f, .relative = 1e-2f,
                              .blend = 0.3f},
     .batch = 1,
     .in = {OP_F32(65)},
     .out = {OP_F32(65), OP_RANGE(0.1, 0.5, 65), {.rank = 0}, OP_F32(65)},
     .halves = true},
};

static void update(op_case *c, const op_vector *v, int64_t t) {
  const double rate = op_vector_attribute(v, "lr", 0);
  const op_operand_spec *p = &c->out[0];
  c->op = AC_OP_adafactor;
  if (p->rank == 1) c->out[1] = *p;
  else {
    c->out[1] = (op_operand_spec){.dtype = AC_F32, .rank = 1, .dim = {p->dim[0]}};
    c->out[2] = (op_operand_spec){.dtype = AC_F32, .rank = 1, .dim = {p->dim[1]}};
  }
  c->attributes.adafactor =
      (ac_adafactor_attributes){CONSTANTS,
                                .gradient_factor = 1,
                                .rate = (float)rate,
                                .weight_decay = (float)op_vector_attribute(v, "weight_decay", 0),
                                .relative = (float)fmin(rate, 1 / sqrt((double)t)),
                                .blend = (float)pow((double)t, -0.8)};
}

static void special(ac_device *device) {
  op_replay(device, "adafactor", update);
}

static void special_host(void) {
  special(NULL);
}

const op_family op_family_adafactor = {"adafactor", cases,   sizeof cases / sizeof *cases,
                                       NULL,        special, special_host};

const op_generator op_generator_adafactor = {.takes = NULL};
