/* Cases and references of recurrent. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <accrue/recurrent.h>

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* ---- reference ------------------------------------------------------------------------------- */

static double logistic(double x) {
  return 1 / (1 + exp(-x));
}

static int64_t length_of(const ac_recurrence *r, const ac_op_args *args, int64_t n) {
  const ac_recurrent_attributes *a = args->attributes;
  if (!r->lengths->count) return r->positions;
  const int64_t length = op_integers(r->lengths)[n] - a->first;
  return length < 0 ? 0 : length > r->positions ? r->positions : length;
}

/* The position before, in time; -1: the state. */
static int64_t before(const ac_recurrence *r, int64_t t, int64_t length) {
  return !r->reversed ? t - 1 : t + 1 < length ? t + 1 : -1;
}

static double h_of(const ac_recurrence *r, int64_t n, int64_t t, int64_t unit) {
  if (t >= 0) return op_reals(r->y)[(n * r->positions + t) * r->units + unit];
  const int64_t states = ac_recurrent_states(r->cell);
  return r->state->count ? op_reals(r->state)[n * states * r->units + unit] : 0;
}

/* s of each gate of a unit. */
static void sums(const ac_recurrence *r, const ac_operand *b, int64_t n, int64_t t, int64_t unit,
                 double s[4]) {
  for (int64_t g = 0; g < r->gates; g++) {
    const int64_t row = g * r->units + unit;
    s[g] = b->count ? op_reals(b)[row] : 0;
    for (int64_t k = 0; k < r->units; k++)
      s[g] += op_reals(r->w)[row * r->units + k] * h_of(r, n, t, k);
  }
}

static void cell(const ac_recurrence *r, const double *x, const double *s, double h, double *c,
                 double a[4], double *kept, double *y) {
  const int64_t H = r->units;
  switch (r->cell) {
  case AC_CELL_LSTM:
    a[0] = logistic(x[0] + s[0]), a[1] = logistic(x[H] + s[1]);
    a[2] = tanh(x[2 * H] + s[2]), a[3] = logistic(x[3 * H] + s[3]);
    *kept = *c = a[1] * *c + a[0] * a[2];
    *y = a[3] * tanh(*c);
    break;
  case AC_CELL_GRU:
    a[0] = logistic(x[0] + s[0]), a[1] = logistic(x[H] + s[1]);
    a[2] = tanh(x[2 * H] + a[0] * s[2]);
    *kept = s[2];
    *y = (1 - a[1]) * a[2] + a[1] * h;
    break;
  case AC_CELL_TANH:
    *y = tanh(x[0] + s[0]);
    break;
  case AC_CELL_RELU:
    *y = fmax(x[0] + s[0], 0);
    break;
  }
}

static void clear(const ac_operand *x) {
  for (int64_t e = 0; e < x->count; e++) op_reals(x)[e] = 0;
}

static void recurrent(const ac_op_args *args) {
  const ac_recurrence r = ac_recurrence_of(args);
  const int64_t H = r.units, states = ac_recurrent_states(r.cell);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) clear(&args->out[j]);
  for (int64_t n = 0; n < r.samples; n++) {
    double *last = op_reals(&args->out[1]) + n * states * H;
    const int64_t length = length_of(&r, args, n);
    for (int64_t j = 0; j < states * H && r.state->count; j++)
      last[j] = op_reals(r.state)[n * states * H + j];
    for (int64_t i = 0; i < length; i++) {
      const int64_t t = r.reversed ? length - 1 - i : i, at = n * r.positions + t;
      for (int64_t u = 0; u < H; u++) {
        double s[4] = {0}, a[4] = {0}, kept = 0;
        const int64_t from = before(&r, t, length);
        sums(&r, &args->in[2], n, from, u, s);
        cell(&r, op_reals(&args->in[0]) + at * r.gates * H + u, s, h_of(&r, n, from, u),
             last + H + u, a, &kept, op_reals(r.y) + at * H + u);
        for (int64_t g = 0; r.activated->count && g < r.gates; g++)
          op_reals(r.activated)[(at * r.gates + g) * H + u] = a[g];
        if (r.kept->count) op_reals(r.kept)[at * H + u] = kept;
      }
      for (int64_t u = 0; u < H; u++) last[u] = op_reals(r.y)[at * H + u];
    }
  }
}

/* Half a unit of what is stored, in units of FLT_EPSILON. */
static double stored_error(const ac_operand *x) {
  return x->dtype == AC_BF16 ? 0x1p14 : x->dtype == AC_F16 ? 0x1p11 : 0;
}

/* What a step rounds, of values that are at most `size`: of h, which W multiplies, and of
 * functions. Steps hand it on, multiplied by about 1. */
static double step_error(const ac_recurrence *r, double size) {
  const double w = op_largest(r->w), stored = stored_error(r->y);
  return size * (4 * OP_MATH_ERROR + w * op_sum_error(r->units) +
                 (1 + w * sqrt((double)r->units)) * stored);
}

static op_tolerance recurrent_error(const ac_op_args *args, int output) {
  const ac_recurrence r = ac_recurrence_of(args);
  (void)output;
  const double size = fmax(op_largest(r.y), r.kept->count ? op_largest(r.kept) : 1);
  return (op_tolerance){0, (double)r.positions * step_error(&r, size)};
}

const op_reference op_reference_recurrent = {recurrent, recurrent_error, true, false};

/* The gradients of a unit's gates, and of their sums, from those of h and c; these become what
 * reaches the position before past the gates. */
static void cell_gradient(const ac_recurrence *r, const double *a, double kept, double before_h,
                          double before_c, double y, double *dh, double *dc, double d[4],
                          double ds[4]) {
  const double gh = *dh;
  const int64_t H = r->units;
  *dh = 0;
  if (r->cell == AC_CELL_LSTM) {
    const double i = a[0], f = a[H], g = a[2 * H], o = a[3 * H], t = tanh(kept);
    *dc += gh * o * (1 - t * t);
    d[0] = *dc * g * i * (1 - i), d[1] = *dc * before_c * f * (1 - f);
    d[2] = *dc * i * (1 - g * g), d[3] = gh * t * o * (1 - o);
    *dc *= f;
  } else if (r->cell == AC_CELL_GRU) {
    const double reset = a[0], z = a[H], n = a[2 * H];
    d[2] = gh * (1 - z) * (1 - n * n);
    d[0] = d[2] * kept * reset * (1 - reset), d[1] = gh * (before_h - n) * z * (1 - z);
    *dh = gh * z;
  } else {
    d[0] = r->cell == AC_CELL_TANH ? gh * (1 - y * y) : y > 0 ? gh : 0;
  }
  for (int64_t g = 0; g < r->gates; g++)
    ds[g] = r->cell == AC_CELL_GRU && g == 2 ? d[2] * a[0] : d[g];
}

/* One sample backwards; dstate is [states][H]. */
static void sample_gradient(const ac_recurrence *r, const ac_op_args *args, int64_t n,
                            double *dstate) {
  const int64_t H = r->units, length = length_of(r, args, n);
  const int64_t states = ac_recurrent_states(r->cell);
  double *ds = calloc((size_t)(r->gates * H), sizeof *ds);
  for (int64_t i = length - 1; i >= 0; i--) {
    const int64_t t = r->reversed ? length - 1 - i : i, at = n * r->positions + t,
                  from = before(r, t, length);
    for (int64_t u = 0; u < H; u++) {
      double d[4] = {0}, own[4] = {0}, none[16] = {0};
      const double *a = r->activated->count ? op_reals(r->activated) + at * r->gates * H + u : none;
      const double kept = r->kept->count ? op_reals(r->kept)[at * H + u] : 0;
      double before_c = 0;
      if (r->cell == AC_CELL_LSTM && from >= 0)
        before_c = op_reals(r->kept)[(n * r->positions + from) * H + u];
      else if (r->cell == AC_CELL_LSTM && r->state->count)
        before_c = op_reals(r->state)[(n * states + 1) * H + u];
      if (args->in[0].count) dstate[u] += op_reals(&args->in[0])[at * H + u];
      cell_gradient(r, a, kept, h_of(r, n, from, u), before_c, op_reals(r->y)[at * H + u],
                    &dstate[u], &dstate[H + u], d, own);
      for (int64_t g = 0; g < r->gates; g++) {
        if (args->out[0].count) op_reals(&args->out[0])[(at * r->gates + g) * H + u] = d[g];
        ds[g * H + u] = own[g];
      }
    }
    for (int64_t row = 0; row < r->gates * H; row++) {
      if (args->out[3].count) op_reals(&args->out[3])[row] += ds[row];
      for (int64_t k = 0; k < H; k++) {
        dstate[k] += ds[row] * op_reals(r->w)[row * H + k];
        if (args->out[2].count)
          op_reals(&args->out[2])[row * H + k] += ds[row] * h_of(r, n, from, k);
      }
    }
  }
  free(ds);
}

static void recurrent_gradient(const ac_op_args *args) {
  const ac_recurrence r = ac_recurrence_of(args);
  const int64_t size = ac_recurrent_states(r.cell) * r.units;
  double *dstate = calloc((size_t)(2 * r.units), sizeof *dstate);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) clear(&args->out[j]);
  for (int64_t n = 0; n < r.samples; n++) {
    for (int64_t k = 0; k < 2 * r.units; k++)
      dstate[k] = k < size && args->in[1].count ? op_reals(&args->in[1])[n * size + k] : 0;
    sample_gradient(&r, args, n, dstate);
    for (int64_t k = 0; k < size && args->out[1].count; k++)
      op_reals(&args->out[1])[n * size + k] = dstate[k];
  }
  free(dstate);
}

/* As forward; sums over all samples and positions add up what each rounds. */
static op_tolerance recurrent_gradient_error(const ac_op_args *args, int output) {
  const ac_recurrence r = ac_recurrence_of(args);
  double size = fmax(op_largest(&args->out[0]), op_largest(&args->out[1]));
  size *= fmax(op_largest(r.y), r.kept->count ? op_largest(r.kept) : 1);
  const double terms = output < 2 ? 1 : (double)(r.samples * r.positions);
  return (op_tolerance){0, (double)r.positions * step_error(&r, size) * terms};
}

const op_reference op_reference_recurrent_gradient = {recurrent_gradient, recurrent_gradient_error,
                                                      true, false};

/* ---- cases ----------------------------------------------------------------------------------- */

static const op_gradient gradients[] = {
    {.op = AC_OP_recurrent_gradient,
     .in = {OP_DY, OP_DY_OF(1), OP_OUTPUT(2), OP_OUTPUT(0), OP_OUTPUT(3), OP_INPUT(1), OP_INPUT(3),
            OP_INPUT(4)},
     .of = {0, 3, 1, 2},
     .outputs = 4,
     .optional = true},
};

#define NONE \
  { .rank = 0 }
#define LENGTHS(low_, high_) \
  { .dtype = AC_I32, .rank = 1, .dim = {AC_BATCH}, .low = low_, .high = (high_) + 1 }
#define CASE(name_, batch_, T, H, G, N, attributes_, ...)                          \
  {                                                                                \
    .name = name_, .op = AC_OP_recurrent, .batch = batch_, .gradients = gradients, \
    .gradient_count = 1, .results = 2, .attributes.recurrent = attributes_,        \
    .out = {                                                                       \
      OP_F32(AC_BATCH, T, H), OP_F32(AC_BATCH, N, H), __VA_ARGS__
#define GATED(T, H, G) OP_F32(AC_BATCH, T, (G) * (H)), OP_F32(AC_BATCH, T, H)
#define AT(...) \
  { __VA_ARGS__ }
#define IN(T, H, G) \
  }                 \
  , .in = {OP_RANGE(-2, 2, AC_BATCH, T, (G) * (H)), OP_RANGE(-0.4, 0.4, (G) * (H), H)
#define END \
  }         \
  }

static const op_case cases[] = {
    CASE("lstm 3x5x7", 3, 5, 7, 4, 2, AT(AC_CELL_LSTM, false, 0, 5), GATED(5, 7, 4)) IN(5, 7, 4),
    OP_F32(28) END,
    CASE("lstm with a state and lengths, 11x6x18", 11, 6, 18, 4, 2, AT(AC_CELL_LSTM, false, 4, 12),
         GATED(6, 18, 4)) IN(6, 18, 4),
    OP_F32(72),
    OP_F32(AC_BATCH, 2, 18),
    LENGTHS(3, 12) END,
    CASE("lstm reversed with lengths, 5x4x5", 5, 4, 5, 4, 2, AT(AC_CELL_LSTM, true, 0, 4),
         GATED(4, 5, 4)) IN(4, 5, 4),
    NONE,
    OP_F32(AC_BATCH, 2, 5),
    LENGTHS(0, 4) END,
    CASE("lstm of many units 34x3x40", 34, 3, 40, 4, 2, AT(AC_CELL_LSTM, false, 0, 3),
         GATED(3, 40, 4)) IN(3, 40, 4),
    OP_F32(160) END,
    CASE("gru 3x5x7", 3, 5, 7, 3, 1, AT(AC_CELL_GRU, false, 0, 5), GATED(5, 7, 3)) IN(5, 7, 3),
    OP_F32(21) END,
    CASE("gru reversed with a state and lengths, 9x6x19", 9, 6, 19, 3, 1,
         AT(AC_CELL_GRU, true, 2, 9), GATED(6, 19, 3)) IN(6, 19, 3),
    OP_F32(57),
    OP_F32(AC_BATCH, 1, 19),
    LENGTHS(1, 9) END,
    CASE("tanh 4x5x6", 4, 5, 6, 1, 1, AT(AC_CELL_TANH, false, 0, 5), NONE) IN(5, 6, 1),
    OP_F32(6),
    OP_F32(AC_BATCH, 1, 6),
    LENGTHS(0, 5) END,
    CASE("relu reversed 3x4x33", 3, 4, 33, 1, 1, AT(AC_CELL_RELU, true, 0, 4), NONE) IN(4, 33, 1)
        END,
    CASE("one of each", 1, 1, 1, 4, 2, AT(AC_CELL_LSTM, false, 0, 1), GATED(1, 1, 4)) IN(1, 1, 4)
        END,
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_recurrent;
  result->attributes.recurrent =
      (ac_recurrent_attributes){.cell = (int32_t)op_vector_attribute(vector, "cell", 0),
                                .reversed = op_vector_attribute(vector, "reversed", 0) != 0,
                                .all = (int64_t)op_vector_attribute(vector, "positions", 0)};
  result->results = 2;
  result->gradients = gradients;
  result->gradient_count = 1;
}

const op_family op_family_recurrent = {"recurrent", cases, sizeof cases / sizeof *cases,
                                       from_vector, NULL,  NULL};

/* ---- random graphs --------------------------------------------------------------------------- */

typedef struct drawn {
  ac_recurrent_cell cell;
  ac_recurrent_desc desc;
  ac_recurrent_weights weights[4];
  ac_tensor *lengths;
} drawn;

static ac_tensor *build(const drawn *w, ac_tensor *x, const ac_recurrent_state *initial,
                        ac_recurrent_state *final) {
  return w->cell == AC_CELL_LSTM  ? ac_lstm(x, w->lengths, initial, w->weights, &w->desc, final)
         : w->cell == AC_CELL_GRU ? ac_gru(x, w->lengths, initial, w->weights, &w->desc, final)
                                  : ac_rnn(x, w->lengths, initial, w->weights, &w->desc, final);
}

static void draw_weights(op_draw *d, drawn *w, int64_t in, int64_t units) {
  const int directions = w->desc.direction == AC_BOTH_DIRECTIONS ? 2 : 1;
  const int64_t width = ac_recurrent_gates(w->cell) * units;
  for (int i = 0; i < w->desc.layers * directions; i++) {
    const int64_t from = i < directions ? in : directions * units;
    const int64_t input[] = {width, from}, hidden[] = {width, units};
    w->weights[i].input = op_draw_weight(d, from, 2, input);
    w->weights[i].hidden = op_draw_weight(d, units, 2, hidden);
    w->weights[i].input_bias = op_draw_maybe_vector(d, -1, 1, width);
    w->weights[i].hidden_bias = op_draw_maybe_vector(d, -1, 1, width);
  }
}

/* Whatever the shape, as up to 6 positions. Sometimes the states go on to a second layer over the
 * same positions, as they do to the next part of a long sequence. */
static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  static const ac_recurrent_cell cells[] = {AC_CELL_LSTM, AC_CELL_GRU, AC_CELL_TANH};
  const int64_t n = ac_shape_count(&x->shape) / x->shape.dim[0];
  int64_t T = 6;
  while (n % T) T--;
  const ac_shape seen = {3, true, {x->shape.dim[0], T, n / T}}, samples = {1, true, {seen.dim[0]}};
  x = op_draw_view(x, &seen);
  drawn w = {.cell = cells[op_draw_below(d, 3)]};
  w.desc.layers = op_draw_one_in(d, 4) ? 2 : 1;
  w.desc.direction = (ac_direction)op_draw_below(d, 3);
  if (w.cell == AC_CELL_TANH && op_draw_one_in(d, 2)) w.desc.function = AC_RNN_RELU;
  const int64_t units = op_draw_size(d, 6);
  draw_weights(d, &w, seen.dim[2], units);
  if (op_draw_one_in(d, 2)) {
    op_drawn_leaf *lengths = op_draw_input(d, AC_I32, &samples, 0, (double)(T + 1));
    if (lengths) w.lengths = lengths->tensor;
  }
  ac_recurrent_state states, last;
  const bool again = op_draw_one_in(d, 3);
  ac_tensor *y = build(&w, x, NULL, &states);
  if (!again) return op_draw_one_in(d, 2) ? y : states.hidden;
  ac_tensor *z = build(&w, x, &states, &last);
  ac_tensor *sides[] = {y, z};
  return op_draw_one_in(d, 2) && last.cell ? last.cell : ac_concat(d->graph, sides, 2, 1);
}

/* ReLU decides at 0. */
static void ties(op_ties *ties, const ac_op_args *args) {
  const ac_recurrence r = ac_recurrence_of(args);
  for (int64_t n = 0; r.cell == AC_CELL_RELU && n < r.samples; n++) {
    const int64_t length = length_of(&r, args, n);
    for (int64_t t = 0; t < length; t++)
      for (int64_t u = 0; u < r.units; u++) {
        double s[4] = {0};
        sums(&r, &args->in[2], n, before(&r, t, length), u, s);
        op_ties_add(ties, s[0] + op_reals(&args->in[0])[(n * r.positions + t) * r.units + u]);
      }
  }
}

const op_generator op_generator_recurrent = {
    .takes = op_takes_batched, .build = grow, .ties = ties, OP_GRADIENTS(gradients)};
