/* Cases and references of softmax. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>

/* y[n,c] = exp(x[n,c] - m) / sum_c exp(x[n,c] - m), m = max_c x[n,c] */
static void softmax(const ac_op_args *args) {
  int64_t rows = ac_rows(&args->in[0]), C = ac_columns(&args->in[0]);
  for (int64_t n = 0; n < rows; n++) {
    const double *x = op_reals(&args->in[0]) + n * C;
    double *y = op_reals(&args->out[0]) + n * C, largest = -INFINITY, sum = 0;
    for (int64_t c = 0; c < C; c++) largest = x[c] > largest ? x[c] : largest;
    for (int64_t c = 0; c < C; c++) sum += y[c] = exp(x[c] - largest);
    for (int64_t c = 0; c < C; c++) y[c] /= sum;
  }
}

/* x - m is rounded once, which exp turns into half a unit of |x - m| relative; values below
 * exp(-80) may be flushed to zero. The sum of positive terms keeps its relative error. */
static op_tolerance softmax_error(const ac_op_args *args, int output) {
  (void)output;
  return (op_tolerance){
      OP_MATH_ERROR + op_largest(&args->in[0]) + op_sum_error(ac_columns(&args->in[0])), 1e-20};
}

const op_reference op_reference_softmax = {softmax, softmax_error, false, false};

/* dx[n,c] = y[n,c] (dy[n,c] - sum_k dy[n,k] y[n,k]) */
static void softmax_gradient(const ac_op_args *args) {
  int64_t rows = ac_rows(&args->in[0]), C = ac_columns(&args->in[0]);
  for (int64_t n = 0; n < rows; n++) {
    const double *dy = op_reals(&args->in[0]) + n * C, *y = op_reals(&args->in[1]) + n * C;
    double dot = 0;
    for (int64_t c = 0; c < C; c++) dot += dy[c] * y[c];
    for (int64_t c = 0; c < C; c++) op_reals(&args->out[0])[n * C + c] = y[c] * (dy[c] - dot);
  }
}

/* The y of a row sum to 1, so the dot product is at most |dy|. */
static op_tolerance softmax_gradient_error(const ac_op_args *args, int output) {
  (void)output;
  return (op_tolerance){4, op_sum_error(ac_columns(&args->in[0])) * op_largest(&args->in[0])};
}

const op_reference op_reference_softmax_gradient = {softmax_gradient, softmax_gradient_error, false,
                                                    false};

static const op_gradient gradients[] = {
    {.op = AC_OP_softmax_gradient, .in = {OP_DY, OP_OUTPUT(0)}, .of = {0}, .outputs = 1},
};

#define SOFTMAX(name_, low, high, batch_, ...)                                                  \
  {                                                                                             \
    .name = name_, .op = AC_OP_softmax, .batch = batch_,                                        \
    .in = {OP_RANGE(low, high, AC_BATCH, __VA_ARGS__)}, .out = {OP_F32(AC_BATCH, __VA_ARGS__)}, \
    .gradients = gradients, .gradient_count = 1                                                 \
  }

static const op_case cases[] = {
    SOFTMAX("3x65x129", -3, 3, 3, 65, 129),  SOFTMAX("large values 7x65", -1000, 1000, 7, 65),
    SOFTMAX("one column 7x1", -3, 3, 7, 1),  SOFTMAX("wide 2x1025", -3, 3, 2, 1025),
    SOFTMAX("wider 7x2500", -3, 3, 7, 2500),
};

static void from_vector(op_case *result, const op_vector *vector) {
  (void)vector;
  result->op = AC_OP_softmax;
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
  (void)d;
  return ac_softmax(x);
}

const op_generator op_generator_softmax = {.takes = takes, .build = grow, OP_GRADIENTS(gradients)};
