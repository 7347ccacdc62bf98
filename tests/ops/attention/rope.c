/* Cases and references of rope. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include "ops/attention/rope.h"

/* ---- reference ------------------------------------------------------------------------------- */

/* f[i], by wavelengths, as transformers has it. */
static double frequency(const ac_rope_attributes *a, int64_t i) {
  const double pi = 3.14159265358979323846;
  const double f = 1 / pow(a->base, 2.0 * (double)i / a->dimensions), wavelength = 2 * pi / f;
  if (a->scaling == AC_ROPE_LINEAR) return f / a->factor;
  if (a->scaling != AC_ROPE_LLAMA3 || wavelength < a->original / a->high) return f;
  if (wavelength > a->original / a->low) return f / a->factor;
  const double smooth = (a->original / wavelength - a->low) / (a->high - a->low);
  return (1 - smooth) * f / a->factor + smooth * f;
}

/* Pair i of a head, (a, b) by angle p f[i]: (a cos - b sin, b cos + a sin). */
static void rope(const ac_op_args *args) {
  const ac_rope_attributes *at = args->attributes;
  const ac_operand *x = &args->in[0];
  const int64_t T = x->dim[1], H = x->dim[2], D = x->dim[3], half = at->dimensions / 2;
  for (int64_t n = 0; n < x->count; n++) op_reals(&args->out[0])[n] = op_reals(x)[n];
  for (int64_t n = 0; n < x->dim[0] * T * H; n++)
    for (int64_t i = 0; i < half; i++) {
      const int64_t row = n / H;
      const double p =
          at->offset + (double)(args->in[1].count ? op_integers(&args->in[1])[row] : row % T);
      const double angle = (at->backwards ? -p : p) * frequency(at, i);
      const int64_t first = n * D + (at->interleaved ? 2 * i : i);
      const int64_t second = at->interleaved ? first + 1 : first + half;
      const double a = op_reals(x)[first], b = op_reals(x)[second];
      op_reals(&args->out[0])[first] = a * cos(angle) - b * sin(angle);
      op_reals(&args->out[0])[second] = b * cos(angle) + a * sin(angle);
    }
}

/* Sine and cosine are within a unit, whatever the position; two products, each with that and its
 * own rounding, and a sum. */
static op_tolerance rope_error(const ac_op_args *args, int output) {
  (void)output;
  return (op_tolerance){0, 4 * op_largest(&args->in[0])};
}

const op_reference op_reference_rope = {rope, rope_error, true, false};

/* ---- cases ----------------------------------------------------------------------------------- */

/* dimensions, interleaved, scaling, offset, then base, factor, low, high and original positions. */
#define ATTRIBUTES(backwards, dimensions, interleaved, scaling, offset, ...)        \
  {                                                                                 \
    .rope = { dimensions, interleaved, backwards, scaling, offset, 0, __VA_ARGS__ } \
  }
#define ROPE(name_, batch_, T, H, D, positions, ...)                                            \
  {                                                                                             \
    .name = name_, .op = AC_OP_rope, .batch = batch_, .attributes = ATTRIBUTES(0, __VA_ARGS__), \
    .in = {OP_F32(AC_BATCH, T, H, D), positions}, .out = {OP_F32(AC_BATCH, T, H, D)},           \
    .gradients =                                                                                \
        &(const op_gradient){.op = AC_OP_rope,                                                  \
                             .attributes = &(const op_attributes)ATTRIBUTES(1, __VA_ARGS__),    \
                             .in = {OP_DY, OP_INPUT(1)},                                        \
                             .of = {0},                                                         \
                             .outputs = 1},                                                     \
    .gradient_count = 1                                                                         \
  }
#define POSITIONS(low_, high_, T) \
  { .dtype = AC_I32, .rank = 2, .dim = {AC_BATCH, T}, .low = low_, .high = high_ }
#define NO_POSITIONS \
  { 0 }
#define USUAL 10000, 1
#define LLAMA3 500000, 8, 1, 4, 8192

static const op_case cases[] = {
    ROPE("halves 3x7x2x16", 3, 7, 2, 16, NO_POSITIONS, 16, 0, AC_ROPE_UNSCALED, 0, USUAL),
    ROPE("neighbours 3x7x2x16", 3, 7, 2, 16, NO_POSITIONS, 16, 1, AC_ROPE_UNSCALED, 0, USUAL),
    ROPE("6 of 11, 2x5x3", 2, 5, 3, 11, NO_POSITIONS, 6, 0, AC_ROPE_UNSCALED, 0, USUAL),
    ROPE("6 of 11, neighbours, 2x5x3", 2, 5, 3, 11, NO_POSITIONS, 6, 1, AC_ROPE_UNSCALED, 0, USUAL),
    ROPE("two elements 1x9x1", 1, 9, 1, 2, NO_POSITIONS, 2, 0, AC_ROPE_UNSCALED, 0, USUAL),
    ROPE("more pairs than a launch has, 2x3x2x270", 2, 3, 2, 270, NO_POSITIONS, 260, 0,
         AC_ROPE_UNSCALED, 0, USUAL),
    ROPE("positions 3x9x4x64", 3, 9, 4, 64, POSITIONS(0, 2048, 9), 64, 0, AC_ROPE_UNSCALED, 0,
         USUAL),
    ROPE("from 131000 on, 2x65x2x128", 2, 65, 2, 128, NO_POSITIONS, 128, 0, AC_ROPE_UNSCALED,
         131000, USUAL),
    ROPE("positions beyond 2^30, 2x9x2x32", 2, 9, 2, 32, POSITIONS(0x1p30, 0x1p31 - 200, 9), 32, 1,
         AC_ROPE_UNSCALED, 99, USUAL),
    ROPE("linear 2x9x2x32", 2, 9, 2, 32, POSITIONS(0, 131072, 9), 32, 0, AC_ROPE_LINEAR, 0, 10000,
         4),
    ROPE("as in Llama 3.1, 2x33x2x128", 2, 33, 2, 128, POSITIONS(0, 131072, 33), 128, 0,
         AC_ROPE_LLAMA3, 0, LLAMA3),
    ROPE("many rows 5x129x3x24", 5, 129, 3, 24, NO_POSITIONS, 24, 1, AC_ROPE_LLAMA3, 3, 10000, 32,
         0.5, 3, 64),
};

static void from_vector(op_case *result, const op_vector *vector) {
  static op_attributes back;
  static op_gradient gradient = {
      .op = AC_OP_rope, .attributes = &back, .in = {OP_DY, OP_INPUT(1)}, .of = {0}, .outputs = 1};
  result->op = AC_OP_rope;
  result->attributes.rope =
      (ac_rope_attributes){.dimensions = (int32_t)op_vector_attribute(vector, "dimensions", 0),
                           .interleaved = (int32_t)op_vector_attribute(vector, "interleaved", 0),
                           .scaling = (int32_t)op_vector_attribute(vector, "scaling", 0),
                           .offset = (int32_t)op_vector_attribute(vector, "offset", 0),
                           .base = op_vector_attribute(vector, "base", 10000),
                           .factor = op_vector_attribute(vector, "factor", 1),
                           .low = op_vector_attribute(vector, "low_freq_factor", 1),
                           .high = op_vector_attribute(vector, "high_freq_factor", 4),
                           .original = op_vector_attribute(vector, "original_positions", 8192)};
  back = result->attributes;
  back.rope.backwards = true;
  result->gradients = &gradient;
  result->gradient_count = 1;
}

const op_family op_family_rope = {"rope",      cases, sizeof cases / sizeof *cases,
                                  from_vector, NULL,  NULL};

/* ---- random graphs --------------------------------------------------------------------------- */

static bool takes(const ac_shape *x) {
  return x->batched && x->rank >= 2 && ac_shape_count(x) / x->dim[0] % 2 == 0;
}

/* Whatever the shape, as positions of heads of an even width. */
static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  const int64_t pairs = ac_shape_count(&x->shape) / x->shape.dim[0] / 2;
  const int64_t half = op_draw_divisor(d, pairs), heads = op_draw_divisor(d, pairs / half);
  const ac_shape before = x->shape;
  const ac_shape shape = {4, true, {x->shape.dim[0], pairs / half / heads, heads, 2 * half}},
                 rows = {2, true, {shape.dim[0], shape.dim[1]}};
  const ac_rope_desc desc = {.interleaved = op_draw_one_in(d, 2),
                             .dimensions =
                                 op_draw_one_in(d, 2) ? 0 : 2 * (1 + op_draw_below(d, (int)half)),
                             .scaling = (ac_rope_scaling)op_draw_below(d, 3),
                             .original_positions = 64,
                             .offset = op_draw_below(d, 3)};
  op_drawn_leaf *positions = op_draw_one_in(d, 2) ? op_draw_input(d, AC_I32, &rows, 0, 500) : NULL;
  ac_tensor *y = ac_rope(op_draw_view(x, &shape), positions ? positions->tensor : NULL, &desc);
  return op_draw_view(y, &before);
}

static int choose(const ac_op_args *forward, op_gradient *list, op_attributes *attributes) {
  attributes[0].rope = *(const ac_rope_attributes *)forward->attributes;
  attributes[0].rope.backwards = !attributes[0].rope.backwards;
  list[0] = (op_gradient){.op = AC_OP_rope,
                          .attributes = attributes,
                          .in = {OP_DY, OP_INPUT(1)},
                          .of = {0},
                          .outputs = 1};
  return 1;
}

const op_generator op_generator_rope = {.takes = takes, .build = grow, .choose = choose};
