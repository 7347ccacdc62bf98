/* Cases and references of softmax. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>

#include <accrue/reduction.h>

#include "ops/attention/softmax.h"

/* x[o, j, i] around the axis. */
typedef struct around {
  int64_t outer, length, inner;
} around;

static around around_axis(const ac_op_args *args) {
  const ac_softmax_attributes *attributes = args->attributes;
  const ac_operand *x = &args->in[0];
  around a = {1, x->dim[attributes->axis], 1};
  for (int d = 0; d < attributes->axis; d++) a.outer *= x->dim[d];
  for (int d = attributes->axis + 1; d < x->rank; d++) a.inner *= x->dim[d];
  return a;
}

/* y[c] = exp(x[c] - m) / sum_c exp(x[c] - m), m = max_c x[c]; or x[c] - m - log(the sum) */
static void softmax(const ac_op_args *args) {
  const ac_softmax_attributes *attributes = args->attributes;
  const around a = around_axis(args);
  for (int64_t n = 0; n < a.outer * a.inner; n++) {
    const int64_t base = n / a.inner * a.length * a.inner + n % a.inner, s = a.inner;
    const double *x = op_reals(&args->in[0]) + base;
    double *y = op_reals(&args->out[0]) + base, largest = -INFINITY, sum = 0;
    for (int64_t c = 0; c < a.length; c++) largest = x[c * s] > largest ? x[c * s] : largest;
    for (int64_t c = 0; c < a.length; c++) sum += exp(x[c * s] - largest);
    for (int64_t c = 0; c < a.length; c++) {
      const double below = x[c * s] - largest;
      y[c * s] = attributes->logarithm ? below - log(sum) : exp(below) / sum;
    }
  }
}

/* x - m is rounded once, which exp turns into half a unit of |x - m| relative; values below
 * exp(-80) may be flushed to zero. The sum of positive terms keeps its relative error, which is one
 * of the logarithm. */
static op_tolerance softmax_error(const ac_op_args *args, int output) {
  const ac_softmax_attributes *attributes = args->attributes;
  const double sum = op_sum_error(around_axis(args).length);
  (void)output;
  if (attributes->logarithm)
    return (op_tolerance){4, OP_MATH_ERROR + 2 * op_largest(&args->in[0]) + sum};
  return (op_tolerance){OP_MATH_ERROR + op_largest(&args->in[0]) + sum, 1e-20};
}

const op_reference op_reference_softmax = {softmax, softmax_error, true, false};

/* dx[c] = y[c] (dy[c] - sum_k dy[k] y[k]); or dy[c] - exp(y[c]) sum_k dy[k] */
static void softmax_gradient(const ac_op_args *args) {
  const ac_softmax_attributes *attributes = args->attributes;
  const around a = around_axis(args);
  for (int64_t n = 0; n < a.outer * a.inner; n++) {
    const int64_t base = n / a.inner * a.length * a.inner + n % a.inner, s = a.inner;
    const double *dy = op_reals(&args->in[0]) + base, *y = op_reals(&args->in[1]) + base;
    double *dx = op_reals(&args->out[0]) + base, sum = 0;
    for (int64_t c = 0; c < a.length; c++)
      sum += dy[c * s] * (attributes->logarithm ? 1 : y[c * s]);
    for (int64_t c = 0; c < a.length; c++)
      dx[c * s] =
          attributes->logarithm ? dy[c * s] - exp(y[c * s]) * sum : y[c * s] * (dy[c * s] - sum);
  }
}

/* The y of a row sum to 1, so the dot product is at most |dy|. Without that the sum may be as large
 * as the row; y, rounded to float, is off by as much as it is large. */
static op_tolerance softmax_gradient_error(const ac_op_args *args, int output) {
  const ac_softmax_attributes *attributes = args->attributes;
  const int64_t length = around_axis(args).length;
  const double sum = op_sum_error(length), dy = op_largest(&args->in[0]);
  (void)output;
  if (!attributes->logarithm) return (op_tolerance){4, sum * dy};
  return (op_tolerance){4,
                        (sum + (double)length * (OP_MATH_ERROR + op_largest(&args->in[1]))) * dy};
}

const op_reference op_reference_softmax_gradient = {softmax_gradient, softmax_gradient_error, true,
                                                    false};

static const op_gradient gradients[] = {
    {.op = AC_OP_softmax_gradient, .in = {OP_DY, OP_OUTPUT(0)}, .of = {0}, .outputs = 1},
};

#define OVER(name_, axis_, logarithm_, low, high, batch_, ...)                                  \
  {                                                                                             \
    .name = name_, .op = AC_OP_softmax, .batch = batch_,                                        \
    .attributes = {.softmax = {axis_, logarithm_}},                                             \
    .in = {OP_RANGE(low, high, AC_BATCH, __VA_ARGS__)}, .out = {OP_F32(AC_BATCH, __VA_ARGS__)}, \
    .gradients = gradients, .gradient_count = 1                                                 \
  }
#define SOFTMAX(name_, low, high, batch_, ...) \
  OVER(name_, OP_RANK(__VA_ARGS__), 0, low, high, batch_, __VA_ARGS__)

static const op_case cases[] = {
    SOFTMAX("3x65x129", -3, 3, 3, 65, 129),
    SOFTMAX("large values 7x65", -1000, 1000, 7, 65),
    SOFTMAX("one column 7x1", -3, 3, 7, 1),
    SOFTMAX("wide 2x1025", -3, 3, 2, 1025),
    SOFTMAX("wider 7x2500", -3, 3, 7, 2500),
    OVER("3x65x70 over 1", 1, 0, -3, 3, 3, 65, 70),
    OVER("2x3x300x2 over 2", 2, 0, -3, 3, 2, 3, 300, 2),
    OVER("2x9x1 over 1", 1, 0, -3, 3, 2, 9, 1),
    OVER("logarithm 3x65", 1, 1, -3, 3, 3, 65),
    OVER("logarithm, large values 3x65x5", 1, 1, -1000, 1000, 3, 65, 5),
    OVER("logarithm 2x700", 1, 1, -3, 3, 2, 700),
};

static void from_vector(op_case *result, const op_vector *vector) {
  const op_vector_tensor *x = op_vector_find(vector, "in0");
  result->op = AC_OP_softmax;
  result->attributes.softmax =
      (ac_softmax_attributes){(int32_t)op_vector_attribute(vector, "axis", x->rank - 1),
                              (int32_t)op_vector_attribute(vector, "logarithm", 0)};
  result->gradients = gradients;
  result->gradient_count = 1;
}

/* -inf is a masked place: exactly 0, and the others share the rest. A NaN fills its row and no
 * other. */
static void special(ac_device *device) {
  op_instance y;
  op_result result;
  op_variant variant = {.name = "-inf and NaN"};
  op_instance_forward(&y, &cases[1], 7);
  double *x = op_reals(&y.args.in[0]);
  for (int c = 0; c < 65; c++) x[c] = c % 2 ? -INFINITY : 5, x[65 + c] = c ? -INFINITY : -3e38f;
  x[2 * 65 + 7] = NAN;
  const char *where = op_where(device, &y, &variant);
  if (op_run(device, &y, &variant, &result)) {
    const double *r = result.out[0];
    for (int c = 0; c < 65; c++) {
      OP_EXPECT(where, c % 2 ? r[c] == 0 : fabs(r[c] * 33 - 1) < 1e-5, "masked row: %g at %d", r[c],
                c);
      OP_EXPECT(where, r[65 + c] == (c ? 0 : 1), "one place left: %g at %d", r[65 + c], c);
      OP_EXPECT(where, isnan(r[2 * 65 + c]), "a NaN is lost at %d", c);
      OP_EXPECT(where, isfinite(r[3 * 65 + c]), "a NaN leaves its row");
    }
  }
  op_result_free(&result);
  op_instance_free(&y);
}

const op_family op_family_softmax = {"softmax",   cases,   sizeof cases / sizeof *cases,
                                     from_vector, special, NULL};

/* One of one element would be all that a graph computes, and lose what is before it. */
static bool takes(const ac_shape *x) {
  return x->rank >= 2 && ac_shape_last(x) >= 2;
}

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  const int first = x->shape.batched ? 1 : 0;
  const int axis = first + op_draw_below(d, x->shape.rank - first);
  if (x->shape.dim[axis] < 2 || op_draw_one_in(d, 2)) return ac_softmax(x);
  return op_draw_one_in(d, 2) ? ac_softmax_over(x, axis) : ac_log_softmax(x, axis - x->shape.rank);
}

const op_generator op_generator_softmax = {.takes = takes, .build = grow, OP_GRADIENTS(gradients)};
