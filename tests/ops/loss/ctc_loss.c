/* Cases and references of ctc_loss. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include "ops/loss/ctc_loss.h"

#include <math.h>
#include <stdlib.h>

/* ---- reference ------------------------------------------------------------------------------- */

/* One sample, in logarithms; a and b are [T, L]. */
typedef struct sample {
  const double *x;
  const int32_t *targets;
  int64_t T, V, L;
  int32_t blank;
  double weight, *a, *b;
} sample;

static int64_t length_of(const ac_operand *lengths, int64_t i, int64_t all) {
  return lengths->count ? op_integers(lengths)[i] : all;
}

static int32_t blank_of(const ac_op_args *args) {
  return ((const ac_ctc_loss_attributes *)args->attributes)->blank;
}

static bool has_zero(const ac_op_args *args) {
  return ((const ac_ctc_loss_attributes *)args->attributes)->zero_infinity;
}

static int32_t class_of(const sample *s, int64_t state) {
  return state % 2 ? s->targets[state / 2] : s->blank;
}

static double plus(double a, double b) {
  const double most = fmax(a, b);
  return most == -(double)INFINITY ? most : most + log(exp(a - most) + exp(b - most));
}

/* log softmax. */
static double emission(const sample *s, int64_t t, int32_t class) {
  const double *x = s->x + t * s->V;
  double most = x[0], sum = 0;
  for (int64_t v = 1; v < s->V; v++) most = fmax(most, x[v]);
  for (int64_t v = 0; v < s->V; v++) sum += exp(x[v] - most);
  return x[class] - most - log(sum);
}

/* What a path may come from: the state, the one before, or two before. */
static bool may_come(const sample *s, int64_t from, int64_t to) {
  if (from < 0 || to >= s->L) return false;
  return to - from < 2 || (to % 2 && class_of(s, to) != class_of(s, from));
}

static sample begin(const ac_op_args *args, int64_t i) {
  const ac_ctc_loss_shape shape = ac_ctc_loss_shape_of(args);
  sample s = {.x = op_reals(&args->in[0]) + i * shape.positions * shape.classes,
              .targets = op_integers(&args->in[1]) + i * shape.targets,
              .T = length_of(&args->in[2], i, shape.positions),
              .V = shape.classes,
              .L = 2 * length_of(&args->in[3], i, shape.targets) + 1,
              .blank = blank_of(args),
              .weight = op_weight_of(&args->in[4], i)};
  s.a = calloc((size_t)((s.T + 1) * s.L), sizeof *s.a);
  s.b = calloc((size_t)((s.T + 1) * s.L), sizeof *s.b);
  return s;
}

static void end(sample *s) {
  free(s->a);
  free(s->b);
}

/* Fills a and b, and returns the logarithm of the target's probability. */
static double probability(sample *s) {
  if (s->T == 0) return s->L > 1 ? -(double)INFINITY : 0;
  for (int64_t t = 0; t < s->T; t++)
    for (int64_t j = 0; j < s->L; j++) {
      double sum = t == 0 && j < 2 ? 0 : -(double)INFINITY;
      for (int64_t from = j - 2; t > 0 && from <= j; from++)
        if (may_come(s, from, j)) sum = plus(sum, s->a[(t - 1) * s->L + from]);
      s->a[t * s->L + j] = sum + emission(s, t, class_of(s, j));
    }
  for (int64_t t = s->T - 1; t >= 0; t--)
    for (int64_t j = 0; j < s->L; j++) {
      double sum = t == s->T - 1 && j >= s->L - 2 ? 0 : -(double)INFINITY;
      for (int64_t to = j; t < s->T - 1 && to <= j + 2; to++)
        if (may_come(s, j, to))
          sum = plus(sum, s->b[(t + 1) * s->L + to] + emission(s, t + 1, class_of(s, to)));
      s->b[t * s->L + j] = sum;
    }
  const double *last = s->a + (s->T - 1) * s->L;
  return s->L > 1 ? plus(last[s->L - 1], last[s->L - 2]) : last[0];
}

static void extents_of(const ac_op_args *args) {
  const int64_t V = ac_columns(&args->in[0]);
  for (int64_t n = 0; n < ac_rows(&args->in[0]); n++) {
    const double *x = op_reals(&args->in[0]) + n * V;
    double most = x[0], sum = 0;
    for (int64_t v = 1; v < V; v++) most = fmax(most, x[v]);
    for (int64_t v = 0; v < V; v++) sum += exp(x[v] - most);
    op_reals(&args->out[1])[2 * n] = most;
    op_reals(&args->out[1])[2 * n + 1] = log(sum);
  }
}

static void ctc_loss(const ac_op_args *args) {
  double without[AC_LOSS_SUMS], *sums = args->out[0].count ? op_reals(&args->out[0]) : without;
  for (int i = 0; i < AC_LOSS_SUMS; i++) sums[i] = 0;
  for (int64_t i = 0; i < args->in[0].dim[0]; i++) {
    sample s = begin(args, i);
    const double loss = -probability(&s);
    if (s.weight != 0 && !(isinf(loss) && has_zero(args))) sums[0] += s.weight * loss;
    sums[2] += s.weight;
    end(&s);
  }
  extents_of(args);
}

/* Each position adds its own rounding of a logarithm and of what is around: a few units. */
static op_tolerance ctc_loss_error(const ac_op_args *args, int output) {
  const double n = (double)(args->in[0].dim[0] * args->in[0].dim[1]);
  if (output == 1)
    return (op_tolerance){OP_MATH_ERROR, OP_MATH_ERROR + op_sum_error(ac_columns(&args->in[0]))};
  return (op_tolerance){OP_MATH_ERROR, 2 * OP_MATH_ERROR * n * op_largest(&args->in[0])};
}

const op_reference op_reference_ctc_loss = {ctc_loss, ctc_loss_error, true, false};

static void ctc_loss_gradient(const ac_op_args *args) {
  const ac_ctc_loss_shape shape = ac_ctc_loss_shape_of(args);
  for (int64_t i = 0; i < shape.samples; i++) {
    sample s = begin(args, i);
    const double total = probability(&s), factor = s.weight * (double)args->run->loss_scale;
    const bool none = isinf(total), zero = s.weight == 0 || (none && has_zero(args));
    double *dx = op_reals(&args->out[0]) + i * shape.positions * s.V;
    for (int64_t e = 0; e < shape.positions * s.V; e++) dx[e] = 0;
    for (int64_t t = 0; t < s.T && !zero; t++) {
      for (int64_t v = 0; v < s.V; v++)
        dx[t * s.V + v] = none ? (double)NAN : factor * exp(emission(&s, t, (int32_t)v));
      for (int64_t j = 0; j < s.L; j++)
        dx[t * s.V + class_of(&s, j)] -= factor * exp(s.a[t * s.L + j] + s.b[t * s.L + j] - total);
    }
    end(&s);
  }
}

/* What each position rounds adds up along a path. */
static op_tolerance ctc_loss_gradient_error(const ac_op_args *args, int output) {
  (void)output;
  const double T = (double)args->in[0].dim[1], largest = op_largest(&args->in[0]);
  return (op_tolerance){0, (double)args->run->loss_scale * op_largest(&args->in[4]) *
                               OP_MATH_ERROR * (4 + T * largest)};
}

const op_reference op_reference_ctc_loss_gradient = {ctc_loss_gradient, ctc_loss_gradient_error,
                                                     true, false};

/* ---- cases ----------------------------------------------------------------------------------- */

static const op_gradient gradients[] = {
    {.op = AC_OP_ctc_loss_gradient,
     .in = {OP_INPUT(0), OP_INPUT(1), OP_INPUT(2), OP_INPUT(3), OP_INPUT(4), OP_OUTPUT(1)},
     .of = {0},
     .outputs = 1},
};

#define SUMS \
  { .dtype = AC_F32, .rank = 1, .dim = {AC_LOSS_SUMS}, .fill = OP_LOSS_SUMS }
#define CLASSES(low_, high_, ...)                                                     \
  {                                                                                   \
    .dtype = AC_I32, .rank = OP_RANK(__VA_ARGS__), .dim = {__VA_ARGS__}, .low = low_, \
    .high = high_                                                                     \
  }
#define LOSS(name_, batch_, T, V, blank_, ...)                                    \
  {                                                                               \
    .name = name_, .op = AC_OP_ctc_loss, .batch = batch_, .gradients = gradients, \
    .gradient_count = 1, .attributes.ctc_loss = {blank_, false},                  \
    .out = {SUMS, OP_F32(AC_BATCH, T, 2)}, .in = {                                \
      OP_RANGE(-2, 2, AC_BATCH, T, V),                                            \
      __VA_ARGS__                                                                 \
    }                                                                             \
  }

static const op_case cases[] = {
    LOSS("3x9x5, 3 targets", 3, 9, 5, 0, CLASSES(1, 5, AC_BATCH, 3)),
    LOSS("the last class is blank, 2x7x4", 2, 7, 4, 3, CLASSES(0, 3, AC_BATCH, 3)),
    LOSS("lengths and weights 5x11x6", 5, 11, 6, 2, CLASSES(3, 6, AC_BATCH, 4),
         CLASSES(7, 12, AC_BATCH), CLASSES(0, 5, AC_BATCH), OP_RANGE(0, 2, AC_BATCH)),
    LOSS("every weight 0, 2x5x3", 2, 5, 3, 0, CLASSES(1, 3, AC_BATCH, 2), {0}, {0},
         OP_RANGE(0, 0, AC_BATCH)),
    LOSS("one class, 2x3x1", 2, 3, 1, 0, CLASSES(0, 1, AC_BATCH, 1), {0}, CLASSES(0, 1, AC_BATCH)),
    LOSS("one of each", 1, 1, 2, 0, CLASSES(1, 2, AC_BATCH, 1)),
    LOSS("many targets 2x90x40", 2, 90, 40, 0, CLASSES(1, 40, AC_BATCH, 40)),
    LOSS("more targets than items of a work-group, 4x90x200", 4, 90, 200, 0,
         CLASSES(1, 200, AC_BATCH, 70)),
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_ctc_loss;
  result->attributes.ctc_loss =
      (ac_ctc_loss_attributes){(int32_t)op_vector_attribute(vector, "blank", 0),
                               op_vector_attribute(vector, "zero_infinity", 0) != 0};
  result->out[0].fill = OP_LOSS_SUMS;
  result->gradients = gradients;
  result->gradient_count = 1;
}

const op_family op_family_ctc_loss = {"ctc_loss",  cases, sizeof cases / sizeof *cases,
                                      from_vector, NULL,  NULL};

/* ---- random graphs --------------------------------------------------------------------------- */

/* Whatever the shape, as positions of two or three classes, or a single position. The last class is
 * blank, and a path has room for each target and a blank before it. */
static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  const int64_t n = ac_shape_count(&x->shape) / x->shape.dim[0];
  const int64_t V = n % 3 == 0 ? 3 : n % 2 == 0 ? 2 : n, T = n / V, S = T > 1 ? T / 2 : 1;
  const ac_shape seen = {3, true, {x->shape.dim[0], T, V}};
  x = op_draw_view(x, &seen);
  const ac_shape of_targets = {2, true, {seen.dim[0], S}}, samples = {1, true, {seen.dim[0]}};
  const ac_ctc_loss_desc desc = {.blank = (int)V - 1, .zero_infinity = op_draw_one_in(d, 2)};
  op_drawn_leaf *targets = op_draw_input(d, AC_I32, &of_targets, 0, (double)(V - 1));
  op_drawn_leaf *lengths =
      op_draw_one_in(d, 2)
          ? NULL
          : op_draw_input(d, AC_I32, &samples, (double)(T > 1 ? 2 * S : 1), (double)(T + 1));
  op_drawn_leaf *counts =
      op_draw_one_in(d, 2) ? NULL : op_draw_input(d, AC_I32, &samples, 0, (double)(S + 1));
  op_drawn_leaf *weights = op_draw_one_in(d, 2) ? NULL : op_draw_input(d, AC_F32, &samples, 0.1, 2);
  if (weights) weights->rare = 4;
  return ac_ctc_loss(x, targets->tensor, lengths ? lengths->tensor : NULL,
                     counts ? counts->tensor : NULL, weights ? weights->tensor : NULL, &desc);
}

const op_generator op_generator_ctc_loss = {
    .takes = op_takes_batched, .build = grow, .loss = true, OP_GRADIENTS(gradients)};
