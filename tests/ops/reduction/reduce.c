/* Cases and references of reduce. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>
#include <stdlib.h>

#include <accrue/reduction.h>

#include "ops/reduction/reduction.h"

/* The result that an element of x is part of. */
static int64_t result_of(const ac_operand *x, uint32_t axes, int64_t element) {
  int64_t index = 0, stride = 1;
  for (int d = x->rank - 1; d >= 0; d--) {
    const int64_t at = element % x->dim[d];
    element /= x->dim[d];
    if (axes >> d & 1) continue;
    index += at * stride;
    stride *= x->dim[d];
  }
  return index;
}

/* ---- y --------------------------------------------------------------------------------------- */

static double value_of(const ac_reduce_attributes *a, double x) {
  switch (a->kind) {
  case AC_REDUCE_ABSOLUTES:
  case AC_REDUCE_LARGEST:
    return fabs(x);
  case AC_REDUCE_SQUARES:
    return x * x;
  case AC_REDUCE_POWERS:
    return pow(fabs(x), (double)a->power);
  case AC_REDUCE_MIN:
    return -x;
  default:
    return x;
  }
}

static bool is_largest(int kind) {
  return kind == AC_REDUCE_MAX || kind == AC_REDUCE_MIN || kind == AC_REDUCE_LARGEST;
}

typedef struct result {
  double sum, largest, largest_count, exponentials, squares;
  int64_t count;
} result;

/* Everything that a result may be of. */
static void gather(const ac_op_args *args, result *r) {
  const ac_reduce_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0];
  for (int64_t k = 0; k < args->out[0].count; k++) r[k] = (result){.largest = -INFINITY};
  for (int64_t i = 0; i < x->count; i++) {
    const double v = value_of(a, op_reals(x)[i]);
    result *of = &r[result_of(x, a->axes, i)];
    of->sum += v;
    of->count++;
    of->largest = v > of->largest || isnan(v) ? v : of->largest;
  }
  for (int64_t i = 0; i < x->count; i++) {
    const double v = value_of(a, op_reals(x)[i]);
    result *of = &r[result_of(x, a->axes, i)];
    of->largest_count += v == of->largest;
    of->exponentials += v == of->largest ? 1 : exp(v - of->largest);
    of->squares += (v - of->sum / (double)of->count) * (v - of->sum / (double)of->count);
  }
}

static void reduce(const ac_op_args *args) {
  const ac_reduce_attributes *a = args->attributes;
  const int64_t count = args->out[0].count;
  result *results = malloc((size_t)count * sizeof *results);
  gather(args, results);
  for (int64_t k = 0; k < count; k++) {
    const result *r = &results[k];
    op_reals(&args->out[0])[k] = a->kind == AC_REDUCE_SUM         ? r->sum / (double)a->divisor
                                 : a->kind == AC_REDUCE_ABSOLUTES ? r->sum
                                 : a->kind == AC_REDUCE_SQUARES   ? sqrt(r->sum)
                                 : a->kind == AC_REDUCE_POWERS ? pow(r->sum, 1 / (double)a->power)
                                 : a->kind == AC_REDUCE_MIN    ? -r->largest
                                 : a->kind == AC_REDUCE_LOGSUMEXP
                                     ? r->largest + log(r->exponentials)
                                 : a->kind == AC_REDUCE_VARIANCE ? r->squares / (double)a->divisor
                                                                 : r->largest;
    if (!args->out[1].count) continue;
    const double share = r->largest_count > 0 ? 1 / r->largest_count : 0;
    op_reals(&args->out[1])[k] = is_largest(a->kind) ? share : r->sum / (double)r->count;
  }
  free(results);
}

/* The most that two elements of x are apart. */
static double spread_of(const ac_operand *x) {
  double low = INFINITY, high = -INFINITY;
  for (int64_t i = 0; i < x->count; i++) {
    low = fmin(low, op_reals(x)[i]);
    high = fmax(high, op_reals(x)[i]);
  }
  return high - low;
}

/* Sums of what has one sign keep their relative error; that of a sum of exponentials is one of the
 * logarithm, which the difference from the largest, rounded once, adds to. A difference from a mean
 * is off by a rounding of the largest element. */
static op_tolerance reduce_error(const ac_op_args *args, int output) {
  enum { POW_ERROR = 16 };
  const ac_reduce_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0];
  const int64_t terms = x->count / args->out[0].count;
  const double sum = op_sum_error(terms), largest = op_largest(x);
  if (output == 1)
    return is_largest(a->kind) ? (op_tolerance){3, 0}
                               : (op_tolerance){3, sum * largest / (double)terms};
  switch (a->kind) {
  case AC_REDUCE_SUM:
    return (op_tolerance){3, sum * largest / (double)a->divisor};
  case AC_REDUCE_ABSOLUTES:
    return (op_tolerance){sum, 0};
  case AC_REDUCE_SQUARES:
    return (op_tolerance){4 + sum, 0};
  case AC_REDUCE_POWERS:
    return (op_tolerance){2 * POW_ERROR + sum, 0};
  case AC_REDUCE_LOGSUMEXP:
    return (op_tolerance){4, OP_MATH_ERROR + 2 * largest + sum};
  case AC_REDUCE_VARIANCE:
    return (op_tolerance){8 + sum, 4 * largest * spread_of(x)};
  default:
    return (op_tolerance){0, 0};
  }
}

const op_reference op_reference_reduce = {reduce, reduce_error, true, false};

/* ---- dx -------------------------------------------------------------------------------------- */

static double sign_of(double x) {
  return x > 0 ? 1 : x < 0 ? -1 : 0;
}

static double derivative(const ac_reduce_attributes *a, double x, double y, double kept) {
  switch (a->kind) {
  case AC_REDUCE_SUM:
    return 1 / (double)a->divisor;
  case AC_REDUCE_ABSOLUTES:
    return sign_of(x);
  case AC_REDUCE_SQUARES:
    return y == 0 ? 0 : x / y;
  case AC_REDUCE_POWERS:
    return y == 0 ? 0 : sign_of(x) * pow(fabs(x) / y, (double)a->power - 1);
  case AC_REDUCE_LARGEST:
    return fabs(x) == y ? kept * sign_of(x) : 0;
  case AC_REDUCE_LOGSUMEXP:
    return isinf(y) && y < 0 ? 0 : exp(x - y);
  case AC_REDUCE_VARIANCE:
    return 2 * (x - kept) / (double)a->divisor;
  default:
    return x == y ? kept : 0;
  }
}

static void reduce_gradient(const ac_op_args *args) {
  const ac_reduce_attributes *a = args->attributes;
  const ac_operand *dx = &args->out[0], *in = args->in;
  for (int64_t i = 0; i < dx->count; i++) {
    const int64_t k = result_of(dx, a->axes, i);
    op_reals(dx)[i] = op_reals(&in[0])[k] * derivative(a, in[1].count ? op_reals(&in[1])[i] : 0,
                                                       in[2].count ? op_reals(&in[2])[k] : 0,
                                                       in[3].count ? op_reals(&in[3])[k] : 0);
  }
}

/* What is kept is rounded to float. */
static op_tolerance reduce_gradient_error(const ac_op_args *args, int output) {
  enum { POW_ERROR = 16 };
  const ac_reduce_attributes *a = args->attributes;
  (void)output;
  if (a->kind == AC_REDUCE_POWERS) return (op_tolerance){POW_ERROR + 4 * (double)a->power, 0};
  if (a->kind == AC_REDUCE_LOGSUMEXP)
    return (op_tolerance){OP_MATH_ERROR + 2 * (op_largest(&args->in[1]) + op_largest(&args->in[2])),
                          1e-20};
  if (a->kind == AC_REDUCE_VARIANCE)
    return (op_tolerance){8, 2 * op_largest(&args->in[1]) / (double)a->divisor};
  return (op_tolerance){4, 0};
}

const op_reference op_reference_reduce_gradient = {reduce_gradient, reduce_gradient_error, true,
                                                   false};

/* ---- cases ----------------------------------------------------------------------------------- */

#define GRADIENT(...)                                                                    \
  {                                                                                      \
    { .op = AC_OP_reduce_gradient, .in = {OP_DY, __VA_ARGS__}, .of = {0}, .outputs = 1 } \
  }
static const op_gradient of_sum[] = GRADIENT(), of_x[] = GRADIENT(OP_INPUT(0)),
                         of_result[] = GRADIENT(OP_INPUT(0), OP_OUTPUT(0)),
                         of_share[] = GRADIENT(OP_INPUT(0), OP_OUTPUT(0), OP_OUTPUT(1)),
                         of_mean[] = GRADIENT(OP_INPUT(0), {OP_NONE, 0}, OP_OUTPUT(1));

static const op_gradient *gradients_of(int kind) {
  return kind == AC_REDUCE_SUM         ? of_sum
         : kind == AC_REDUCE_ABSOLUTES ? of_x
         : kind == AC_REDUCE_VARIANCE  ? of_mean
         : is_largest(kind)            ? of_share
                                       : of_result;
}

#define HEAD(name_, kind_, axes_, divisor_, gradients_, batch_)                \
  .name = name_, .op = AC_OP_reduce, .batch = batch_, .gradients = gradients_, \
  .gradient_count = 1, .attributes = {.reduce = {AC_REDUCE_##kind_, axes_, divisor_, 3}}
#define SUM(name, axes, divisor, batch, x_, y_)                              \
  {                                                                          \
    HEAD(name, SUM, axes, divisor, of_sum, batch), .in = {x_}, .out = { y_ } \
  }
#define REDUCE(name, kind, axes, divisor, gradients, batch, x_, y_)              \
  {                                                                              \
    HEAD(name, kind, axes, divisor, gradients, batch), .in = {x_}, .out = { y_ } \
  }
#define KEEPS(name, kind, axes, divisor, gradients, batch, x_, y_)                   \
  {                                                                                  \
    HEAD(name, kind, axes, divisor, gradients, batch), .in = {x_}, .out = { y_, y_ } \
  }
#define STORED(dtype_, low_, high_, ...)                                              \
  {                                                                                   \
    .dtype = dtype_, .rank = OP_RANK(__VA_ARGS__), .dim = {__VA_ARGS__}, .low = low_, \
    .high = high_                                                                     \
  }
#define F32(...) STORED(AC_F32, -1, 1, __VA_ARGS__)
#define X32 F32(AC_BATCH, 9, 40)
#define OVER_1 F32(AC_BATCH, 40)
#define OVER_2 F32(AC_BATCH, 9)

static const op_case cases[] = {
    SUM("3x65x129 over 2", 4, 1, 3, F32(AC_BATCH, 65, 129), F32(AC_BATCH, 65)),
    SUM("3x65x129 over 1", 2, 65, 3, F32(AC_BATCH, 65, 129), F32(AC_BATCH, 129)),
    SUM("3x65x129 over 1, 2", 6, 1, 3, F32(AC_BATCH, 65, 129), F32(AC_BATCH, 1, 1)),
    SUM("3x5x7x9x2x4 over 1, 3, 5", 42, 180, 3, F32(AC_BATCH, 5, 7, 9, 2, 4), F32(AC_BATCH, 7, 2)),
    SUM("3x5x7x9x2x4 over 2, 4", 20, 1, 3, F32(AC_BATCH, 5, 7, 9, 2, 4),
        F32(AC_BATCH, 5, 1, 9, 1, 4)),
    SUM("7x3 over 1", 2, 3, 7, F32(AC_BATCH, 3), F32(AC_BATCH)),
    SUM("one element", 2, 1, 1, F32(AC_BATCH, 1), F32(AC_BATCH)),
    SUM("2x70000 over 1", 2, 1, 2, F32(AC_BATCH, 70000), F32(AC_BATCH)),
    SUM("2x3000x31 over 1", 2, 1, 2, F32(AC_BATCH, 3000, 31), F32(AC_BATCH, 31)),
    SUM("1x200x600 over 1", 2, 1, 1, F32(AC_BATCH, 200, 600), F32(AC_BATCH, 600)),
    SUM("2x4000x3 over 1", 2, 1, 2, F32(AC_BATCH, 4000, 3), F32(AC_BATCH, 3)),
    SUM("bf16, 3x65x129 over 2", 4, 1, 3, STORED(AC_BF16, -1, 1, AC_BATCH, 65, 129),
        F32(AC_BATCH, 65)),
    SUM("f16, 3x65x129 over 1", 2, 65, 3, STORED(AC_F16, -1, 1, AC_BATCH, 65, 129),
        F32(AC_BATCH, 129)),
    REDUCE("absolutes over 2", ABSOLUTES, 4, 1, of_x, 2, X32, OVER_2),
    REDUCE("absolutes over 1", ABSOLUTES, 2, 1, of_x, 2, X32, OVER_1),
    REDUCE("squares over 2", SQUARES, 4, 1, of_result, 2, X32, OVER_2),
    REDUCE("squares over 1", SQUARES, 2, 1, of_result, 2, X32, OVER_1),
    REDUCE("powers over 2", POWERS, 4, 1, of_result, 2, X32, OVER_2),
    REDUCE("powers over 1", POWERS, 2, 1, of_result, 2, X32, OVER_1),
    REDUCE("logsumexp over 2", LOGSUMEXP, 4, 1, of_result, 2, X32, OVER_2),
    REDUCE("logsumexp over 1", LOGSUMEXP, 2, 1, of_result, 2, X32, OVER_1),
    REDUCE("logsumexp of large values", LOGSUMEXP, 4, 1, of_result, 2,
           STORED(AC_F32, -300, 300, AC_BATCH, 33, 70), F32(AC_BATCH, 33)),
    REDUCE("logsumexp of 2x40000", LOGSUMEXP, 2, 1, of_result, 2, F32(AC_BATCH, 40000),
           F32(AC_BATCH)),
    KEEPS("max over 2", MAX, 4, 1, of_share, 2, X32, OVER_2),
    KEEPS("max over 1", MAX, 2, 1, of_share, 2, X32, OVER_1),
    KEEPS("max of 33x70 over 1", MAX, 2, 1, of_share, 2, F32(AC_BATCH, 33, 70), F32(AC_BATCH, 70)),
    REDUCE("logsumexp of 33x70 over 1", LOGSUMEXP, 2, 1, of_result, 2, F32(AC_BATCH, 33, 70),
           F32(AC_BATCH, 70)),
    KEEPS("max of 2x40000", MAX, 2, 1, of_share, 2, F32(AC_BATCH, 40000), F32(AC_BATCH)),
    KEEPS("min over 2", MIN, 4, 1, of_share, 2, X32, OVER_2),
    KEEPS("min over 1", MIN, 2, 1, of_share, 2, X32, OVER_1),
    KEEPS("largest over 2", LARGEST, 4, 1, of_share, 2, X32, OVER_2),
    KEEPS("largest over 1", LARGEST, 2, 1, of_share, 2, X32, OVER_1),
    KEEPS("variance over 2", VARIANCE, 4, 39, of_mean, 2, X32, OVER_2),
    KEEPS("variance over 1", VARIANCE, 2, 9, of_mean, 2, X32, OVER_1),
    KEEPS("variance with a large mean", VARIANCE, 2, 33, of_mean, 2,
          STORED(AC_F32, 1000, 1001, AC_BATCH, 33, 70), F32(AC_BATCH, 70)),
    KEEPS("variance of 2x40000", VARIANCE, 2, 39999, of_mean, 2,
          STORED(AC_F32, 10, 11, AC_BATCH, 40000), F32(AC_BATCH)),
    KEEPS("variance of 2x9x5", VARIANCE, 4, 5, of_mean, 2, F32(AC_BATCH, 9, 5), F32(AC_BATCH, 9)),
};

static void from_vector(op_case *result, const op_vector *vector) {
  const int kind = (int)op_vector_attribute(vector, "kind", 0);
  result->op = AC_OP_reduce;
  result->attributes.reduce =
      (ac_reduce_attributes){kind, (uint32_t)op_vector_attribute(vector, "axes", 0),
                             (float)op_vector_attribute(vector, "divisor", 1),
                             (float)op_vector_attribute(vector, "power", 0)};
  result->gradients = gradients_of(kind);
  result->gradient_count = 1;
}

/* Runs the case with some elements of its x set, and its gradient, against the references. */
static void check_with(ac_device *device, const op_case *c, double value, int every) {
  op_instance forward, gradient;
  op_result result = {0};
  const op_variant variant = {.name = "special values"};
  op_instance_forward(&forward, c, c->batch);
  for (int64_t i = 0; i < forward.args.in[0].count; i += every)
    op_reals(&forward.args.in[0])[i] = value;
  op_instance_compute(&forward);
  if (op_run(device, &forward, &variant, &result))
    op_compare(op_where(device, &forward, &variant), &forward, &variant, &result, 1);
  op_result_free(&result);
  double *dy = op_random_gradient(&forward);
  op_instance_gradient(&gradient, &forward, c->gradients, dy);
  if (op_run(device, &gradient, &variant, &result))
    op_compare(op_where(device, &gradient, &variant), &gradient, &variant, &result, 1);
  op_result_free(&result);
  free(dy);
  op_instance_free(&gradient);
  op_instance_free(&forward);
}

/* Variances of elements that are few roundings apart, much more closely than the reference is held:
 * a mean that is off by the roundings of a sum would show. */
static void check_far_from_zero(ac_device *device) {
  static const op_case far[] = {
      KEEPS("variance of a row far from 0", VARIANCE, 2, 1000, of_mean, 2,
            STORED(AC_F32, 1e6, 1e6 + 1, AC_BATCH, 1000), F32(AC_BATCH)),
      KEEPS("variance of columns far from 0", VARIANCE, 2, 1000, of_mean, 2,
            STORED(AC_F32, 4e6, 4e6 + 8, AC_BATCH, 1000, 20), F32(AC_BATCH, 20)),
      KEEPS("variance of a row farther from 0", VARIANCE, 2, 40000, of_mean, 2,
            STORED(AC_F32, 1e7, 1e7 + 6, AC_BATCH, 40000), F32(AC_BATCH)),
  };
  const op_variant variant = {.name = "closely"};
  for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
    op_instance forward;
    op_result result = {0};
    op_instance_forward(&forward, &far[i], far[i].batch);
    op_instance_compute(&forward);
    const bool ran = op_run(device, &forward, &variant, &result);
    for (int64_t k = 0; ran && k < forward.args.out[0].count; k++) {
      const double y = result.out[0][k], wanted = op_reals(&forward.args.out[0])[k];
      if (!(fabs(y - wanted) < wanted / 1000))
        op_fail(op_where(device, &forward, &variant), "%g instead of %g", y, wanted);
    }
    op_result_free(&result);
    op_instance_free(&forward);
  }
}

/* Equal largest elements, rows of -infinity alone, an infinity, a NaN, zeros alone. */
static void special(ac_device *device) {
  check_far_from_zero(device);
  for (size_t k = 13; k < sizeof cases / sizeof *cases; k++) {
    const op_case *c = &cases[k];
    const int kind = c->attributes.reduce.kind;
    if (c->in[0].rank < 3 || (op_reduced && k % 4)) continue;
    check_with(device, c, 0, 1);
    if (is_largest(kind)) {
      check_with(device, c, kind == AC_REDUCE_MIN ? -2 : 2, 3);
      check_with(device, c, (double)INFINITY, 50);
    }
    if (is_largest(kind) || kind == AC_REDUCE_LOGSUMEXP) {
      check_with(device, c, -(double)INFINITY, 1);
      check_with(device, c, -(double)INFINITY, 2);
    }
    if (kind != AC_REDUCE_VARIANCE) continue;
    check_with(device, c, 2, 7);
  }
}

const op_family op_family_reduce = {"reduce",    cases,   sizeof cases / sizeof *cases,
                                    from_vector, special, NULL};

/* ---- random graphs --------------------------------------------------------------------------- */

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  int axes[AC_MAX_RANK], count = 0;
  for (int i = x->shape.batched ? 1 : 0; i < x->shape.rank; i++)
    if (op_draw_one_in(d, 2)) axes[count++] = op_draw_one_in(d, 2) ? i : i - x->shape.rank;
  const bool keep = op_draw_one_in(d, 2);
  int64_t length = 1; /* the variance of one element is 0, and has no gradient */
  for (int i = 0; i < count; i++)
    length *= x->shape.dim[axes[i] < 0 ? axes[i] + x->shape.rank : axes[i]];
  switch (op_draw_below(d, length < 2 ? 8 : 9)) {
  case 0:
    return ac_mean(x, count, axes, keep);
  case 1:
    return ac_max(x, count, axes, keep);
  case 2:
    return ac_min(x, count, axes, keep);
  case 3:
    return ac_logsumexp(x, count, axes, keep);
  case 4:
    return ac_norm(x, 1, count, axes, keep);
  case 5:
    return ac_norm(x, 2, count, axes, keep);
  case 6:
    return ac_norm(x, op_draw_one_in(d, 2) ? 3 : INFINITY, count, axes, keep);
  case 8:
    return ac_variance(x, length > 2 && op_draw_one_in(d, 2), count, axes, keep);
  default:
    return ac_sum(x, count, axes, keep);
  }
}

static int choose(const ac_op_args *forward, op_gradient *list, op_attributes *attributes) {
  const ac_reduce_attributes *a = forward->attributes;
  (void)attributes;
  list[0] = *gradients_of(a->kind);
  return 1;
}

/* Where a result is of one element, a norm is its magnitude. */
static void ties(op_ties *t, const ac_op_args *args) {
  const ac_reduce_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  if (a->kind == AC_REDUCE_ABSOLUTES || a->kind == AC_REDUCE_LARGEST) op_ties_at_zero(t, args);
  if (a->kind == AC_REDUCE_SQUARES || a->kind == AC_REDUCE_POWERS)
    for (int64_t k = 0; k < y->count; k++) op_ties_add(t, op_reals(y)[k]);
  if (!is_largest(a->kind)) return;
  double *second = malloc((size_t)y->count * sizeof *second);
  for (int64_t k = 0; k < y->count; k++) second[k] = -INFINITY;
  for (int64_t i = 0; i < x->count; i++) {
    const int64_t k = result_of(x, a->axes, i);
    const double v = value_of(a, op_reals(x)[i]);
    if (v != value_of(a, op_reals(y)[k]) && v > second[k]) second[k] = v;
  }
  for (int64_t k = 0; k < y->count; k++)
    if (second[k] > -INFINITY) op_ties_add(t, value_of(a, op_reals(y)[k]) - second[k]);
  free(second);
}

const op_generator op_generator_reduce = {
    .takes = op_takes_rows, .build = grow, .choose = choose, .ties = ties};
