/* Cases and reference of Muon. */
#include "ops/generator.h"
#include "ops/replay.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* c [m, n] = op(a) op(b); each of a and b may be read transposed. */
static void multiply(const double *a, bool transpose_a, const double *b, bool transpose_b,
                     double *c, int64_t m, int64_t n, int64_t k) {
  for (int64_t i = 0; i < m; i++)
    for (int64_t j = 0; j < n; j++) {
      double sum = 0;
      for (int64_t l = 0; l < k; l++)
        sum += (transpose_a ? a[l * m + i] : a[i * k + l]) *
               (transpose_b ? b[j * k + l] : b[l * n + j]);
      c[i * n + j] = sum;
    }
}

/* X = (3.4445 + (-4.775) A + 2.0315 A^2) X with A = X X^T, of rows; of columns where there are
 * fewer. */
static void iterate(double *x, int64_t rows, int64_t columns) {
  const bool wide = rows <= columns;
  const int64_t side = wide ? rows : columns, count = rows * columns;
  double *a = calloc((size_t)(side * side), sizeof *a),
         *square = calloc((size_t)(side * side), sizeof *a),
         *old = calloc((size_t)count, sizeof *old);
  memcpy(old, x, (size_t)count * sizeof *x);
  multiply(x, !wide, x, wide, a, side, side, wide ? columns : rows);
  multiply(a, false, a, false, square, side, side, side);
  for (int64_t i = 0; i < side * side; i++)
    a[i] = -4.775 * a[i] + 2.0315 * square[i] + (i % (side + 1) ? 0 : 3.4445);
  multiply(wide ? a : old, false, wide ? old : a, false, x, rows, columns, side);
  free(a);
  free(square);
  free(old);
}

static void muon(const ac_op_args *args) {
  const ac_muon_attributes *a = args->attributes;
  const int64_t count = args->in[0].count, rows = args->in[0].dim[0];
  double *p = op_reals(&args->out[0]), *m = op_reals(&args->out[1]), squares = 0;
  double *x = calloc((size_t)count, sizeof *x), momentum = a->momentum, take = a->take,
         rate = a->rate;
  for (int64_t i = 0; i < count; i++) {
    const double g = (double)a->gradient_factor * op_reals(&args->in[0])[i];
    m[i] = (1 - take) * m[i] + take * g;
    x[i] = a->nesterov ? momentum * m[i] + (1 - momentum) * g : m[i];
    squares += x[i] * x[i];
  }
  for (int64_t i = 0; i < count; i++) x[i] /= fmax(sqrt(squares), 1e-7);
  for (int k = 0; k < 5; k++) iterate(x, rows, count / rows);
  for (int64_t i = 0; i < count; i++) {
    p[i] -= rate * (double)a->weight_decay * p[i] + rate * (double)a->scale * x[i];
    if (args->out[2].count) op_reals(&args->out[2])[i] = p[i];
  }
  free(x);
}

/* The momentum is a sum of two products of rounded factors. An iteration multiplies errors along
 * small singular values by 3.4445, 485 in all, and sums of products have their own; no value of X
 * is larger than 1.3, which is how large its singular values become. Factors in bf16 lose 2^-8 each
 * time that they are rounded, of values that come to 1 / sqrt(longer side): 32 times as much is
 * left for what iterations make of it. */
static op_tolerance muon_error(const ac_op_args *args, int output) {
  const ac_muon_attributes *a = args->attributes;
  const double step = (double)(a->rate * a->scale), rows = (double)args->in[0].dim[0],
               longer = fmax(rows, (double)args->in[0].count / rows);
  if (output == 1) return (op_tolerance){4, 2};
  double lost = 485;
  if (a->factors == AC_BF16) lost += 32 * 0x1p-8 / sqrt(longer) / 0x1p-23;
  return (op_tolerance){2, 2 + lost * step};
}

const op_reference op_reference_muon = {muon, muon_error, true, true};

#define MUON(name_, rows, columns, ...)                                            \
  {                                                                                \
    .name = name_, .op = AC_OP_muon, .attributes.muon = {__VA_ARGS__}, .batch = 1, \
    .in = {OP_F32(rows, columns)}, .out = {                                        \
      OP_F32(rows, columns),                                                       \
      OP_RANGE(-0.1, 0.1, rows, columns)                                           \
    }                                                                              \
  }

static const op_case cases[] = {
    MUON("muon 65x129", 65, 129, .gradient_factor = 0.25f, .rate = 0.02f, .weight_decay = 0.1f,
         .momentum = 0.95f, .take = 0.05f, .scale = 2.3f, .nesterov = true),
    MUON("muon 129x65", 129, 65, .gradient_factor = 2, .rate = 0.02f, .momentum = 0.95f,
         .take = 0.05f, .scale = 1.4f, .nesterov = true),
    MUON("muon 64x64 without nesterov", 64, 64, .gradient_factor = 1, .rate = 0.02f,
         .momentum = 0.9f, .take = 0.1f, .scale = 1),
    /* More than one strip of A, the last of one row or of some, and of its tiles. */
    MUON("muon 193x210", 193, 210, .gradient_factor = 1, .rate = 0.02f, .momentum = 0.9f,
         .take = 0.1f, .scale = 1),
    MUON("muon 260x217", 260, 217, .gradient_factor = 1, .rate = 0.02f, .momentum = 0.9f,
         .take = 0.1f, .scale = 1, .nesterov = true),
    /* More than one block of src/backend/cpu/update/muon.c, more than the groups of OpenCL's sums.
     */
    MUON("muon 24x3000", 24, 3000, .gradient_factor = 1, .rate = 0.02f, .momentum = 0.5f,
         .take = 0.5f, .scale = 1, .nesterov = true),
    MUON("muon 2500x31", 2500, 31, .gradient_factor = 1, .rate = 0.02f, .momentum = 0.5f,
         .take = 0.5f, .scale = 1, .nesterov = true),
    MUON("muon 1x1", 1, 1, .gradient_factor = 1, .rate = 0.1f, .momentum = 0.95f, .take = 0.05f,
         .scale = 1, .nesterov = true),
    MUON("muon 1x300", 1, 300, .gradient_factor = 1, .rate = 0.1f, .weight_decay = 0.5f,
         .momentum = 0.95f, .take = 0.05f, .scale = 1, .nesterov = true),
    MUON("muon 7x5, tiny gradients", 7, 5, .gradient_factor = 1e-12f, .rate = 0.1f,
         .momentum = 0.95f, .take = 0.05f, .scale = 1, .nesterov = true),
    {.name = "muon 12x3x3x3",
     .op = AC_OP_muon,
     .attributes.muon = {1, 0.02f, 0.1f, 0.95f, 1, true},
     .batch = 1,
     .in = {OP_F32(12, 3, 3, 3)},
     .out = {OP_F32(12, 3, 3, 3), OP_RANGE(-0.1, 0.1, 12, 3, 3, 3)}},
    /* Nothing moves: the norm is below its least. */
    {.name = "muon 5x6, all of it zero",
     .op = AC_OP_muon,
     .attributes.muon = {1, 0.1f, 0, 0.95f, 1, true},
     .batch = 1,
     .in = {OP_RANGE(0, 0, 5, 6)},
     .out = {OP_F32(5, 6), OP_RANGE(0, 0, 5, 6)}},
    /* In bf16 alone. */
    {.name = "muon 65x129, rounded",
     .op = AC_OP_muon,
     .attributes.muon = {0.25f, 0.02f, 0.1f, 0.95f, 1, true},
     .batch = 1,
     .in = {OP_F32(65, 129)},
     .out = {OP_ROUNDED(65, 129), OP_RANGE(-0.1, 0.1, 65, 129)}},
    {.name = "muon 24x1500, rounded, gradient in bf16",
     .op = AC_OP_muon,
     .attributes.muon = {0.25f, 0.02f, 0.1f, 0.95f, 1, true},
     .batch = 1,
     .in = {OP_ROUNDED(24, 1500)},
     .out = {OP_ROUNDED(24, 1500), OP_RANGE(-0.1, 0.1, 24, 1500)}},
    /* Products of factors in bf16, where the device has them. */
    MUON("muon 65x129, factors in bf16", 65, 129, .gradient_factor = 0.25f, .rate = 0.02f,
         .weight_decay = 0.1f, .momentum = 0.95f, .take = 0.05f, .scale = 2.3f, .nesterov = true,
         .factors = AC_BF16),
    MUON("muon 129x65, factors in bf16", 129, 65, .gradient_factor = 2, .rate = 0.02f,
         .momentum = 0.95f, .take = 0.05f, .scale = 1.4f, .factors = AC_BF16),
    MUON("muon 3000x24, factors in bf16", 3000, 24, .gradient_factor = 1, .rate = 0.02f,
         .momentum = 0.5f, .take = 0.5f, .scale = 1, .nesterov = true, .factors = AC_BF16),
    MUON("muon 260x217, factors in bf16", 260, 217, .gradient_factor = 1, .rate = 0.02f,
         .momentum = 0.9f, .take = 0.1f, .scale = 1, .nesterov = true, .factors = AC_BF16),
    MUON("muon 48x48, factors in bf16", 48, 48, .gradient_factor = 1, .rate = 0.02f,
         .momentum = 0.9f, .take = 0.1f, .scale = 1, .factors = AC_BF16),
    MUON("muon 1x1, factors in bf16", 1, 1, .gradient_factor = 1, .rate = 0.1f, .momentum = 0.95f,
         .take = 0.05f, .scale = 1, .nesterov = true, .factors = AC_BF16),
    {.name = "muon 65x48, rounded, factors in bf16",
     .op = AC_OP_muon,
     .attributes.muon = {0.25f, 0.02f, 0.1f, 0.95f, 1, true, AC_BF16},
     .batch = 1,
     .in = {OP_F32(65, 48)},
     .out = {OP_ROUNDED(65, 48), OP_RANGE(-0.1, 0.1, 65, 48)}},
    {.name = "muon 40x51, rounded, factors and gradient in bf16",
     .op = AC_OP_muon,
     .attributes.muon = {0.25f, 0.02f, 0.1f, 0.95f, 1, true, AC_BF16},
     .batch = 1,
     .in = {OP_ROUNDED(40, 51)},
     .out = {OP_ROUNDED(40, 51), OP_RANGE(-0.1, 0.1, 40, 51)}},
    {.name = "muon 33x70 and a copy, factors and gradient in bf16",
     .op = AC_OP_muon,
     .attributes.muon = {0.25f, 0.02f, 0.1f, 0.95f, 1, true, AC_BF16},
     .batch = 1,
     .in = {OP_ROUNDED(33, 70)},
     .out = {OP_F32(33, 70), OP_RANGE(-0.1, 0.1, 33, 70), OP_F32(33, 70)},
     .halves = true},
    /* With a working copy in 16 bits. */
    {.name = "muon 1100x7 and a copy, gradient in bf16",
     .op = AC_OP_muon,
     .attributes.muon = {0.25f, 0.02f, 0.1f, 0.95f, 1},
     .batch = 1,
     .in = {OP_ROUNDED(1100, 7)},
     .out = {OP_F32(1100, 7), OP_RANGE(-0.1, 0.1, 1100, 7), OP_F32(1100, 7)},
     .halves = true},
    {.name = "muon 70x90 and a copy",
     .op = AC_OP_muon,
     .attributes.muon = {0.25f, 0.02f, 0.1f, 0.95f, 1, true},
     .batch = 1,
     .in = {OP_F32(70, 90)},
     .out = {OP_F32(70, 90), OP_RANGE(-0.1, 0.1, 70, 90), OP_F32(70, 90)},
     .halves = true},
};

static void update(op_case *c, const op_vector *v, int64_t t) {
  (void)t;
  c->op = AC_OP_muon;
  c->out[1] = c->out[0];
  c->attributes.muon =
      (ac_muon_attributes){.gradient_factor = 1,
                           .rate = (float)op_vector_attribute(v, "lr", 0),
                           .weight_decay = (float)op_vector_attribute(v, "weight_decay", 0),
                           .momentum = (float)op_vector_attribute(v, "momentum", 0),
                           .take = (float)(1 - op_vector_attribute(v, "momentum", 0)),
                           .scale = (float)op_vector_attribute(v, "scale", 0),
                           .nesterov = op_vector_attribute(v, "nesterov", 0) != 0};
}

static void special(ac_device *device) {
  op_replay(device, "muon", update);
}

static void special_host(void) {
  special(NULL);
}

const op_family op_family_muon = {"muon", cases,   sizeof cases / sizeof *cases,
                                  NULL,   special, special_host};

const op_generator op_generator_muon = {.takes = NULL};
