/* Cases and references of linear_log_probability. */
#include "ops/driver.h"
#include "ops/generator.h"

#include <accrue/loss.h>
#include <math.h>
#include <stdlib.h>

typedef struct shape {
  int64_t rows, V, C;
} shape;

static shape shape_of(const ac_op_args *args) {
  return (shape){ac_rows(&args->in[0]), ac_linear_cross_entropy_classes(args),
                 ac_columns(&args->in[0])};
}

static int64_t at(const ac_op_args *args, int64_t v, int64_t i) {
  const ac_linear_cross_entropy_attributes *a = args->attributes;
  shape s = shape_of(args);
  return a->layout == AC_OUT_IN ? v * s.C + i : i * s.V + v;
}

static double cap_of(const ac_op_args *args) {
  return ((const ac_linear_cross_entropy_attributes *)args->attributes)->soft_cap;
}

/* The row's logits less the logarithm of the sum of their exponentials, which is returned. */
static double log_softmax(const ac_op_args *args, int64_t n, double *z) {
  shape s = shape_of(args);
  const double *x = op_reals(&args->in[0]) + n * s.C, *w = op_reals(&args->in[1]);
  double max = -INFINITY, sum = 0;
  for (int64_t v = 0; v < s.V; v++) {
    z[v] = 0;
    for (int64_t i = 0; i < s.C; i++) z[v] += x[i] * w[at(args, v, i)];
    if (cap_of(args) > 0) z[v] = cap_of(args) * tanh(z[v] / cap_of(args));
    max = fmax(max, z[v]);
  }
  for (int64_t v = 0; v < s.V; v++) sum += exp(z[v] - max);
  for (int64_t v = 0; v < s.V; v++) z[v] -= max + log(sum);
  return max + log(sum);
}

/* By how much a bounded logit grows when the logit does. */
static double slope(const ac_op_args *args, double bounded) {
  const double part = cap_of(args) > 0 ? bounded / cap_of(args) : 0;
  return 1 - part * part;
}

/* y = weight log p - less */
static void linear_log_probability(const ac_op_args *args) {
  shape s = shape_of(args);
  double *z = malloc((size_t)s.V * sizeof *z);
  for (int64_t n = 0; n < s.rows; n++) {
    log_softmax(args, n, z);
    const double w = args->in[3].count ? op_reals(&args->in[3])[n] : 1,
                 less = args->in[4].count ? op_reals(&args->in[4])[n] : 0;
    op_reals(&args->out[0])[n] = (w == 0 ? 0 : w * z[op_integers(&args->in[2])[n]]) - less;
  }
  free(z);
}

/* As of linear_cross_entropy: a unit of each difference of logits, and twice what a logit is off
 * by. */
static double logit_error(const ac_op_args *args) {
  shape s = shape_of(args);
  double *z = malloc((size_t)s.V * sizeof *z), largest = 1;
  for (int64_t n = 0; n < s.rows; n++) {
    log_softmax(args, n, z);
    for (int64_t v = 0; v < s.V; v++) largest = fmax(largest, fabs(z[v]));
  }
  free(z);
  return OP_MATH_ERROR + 2 * largest + op_sum_error(s.V) +
         2 * op_sum_error(s.C) * op_largest(&args->in[0]) * op_largest(&args->in[1]);
}

static op_tolerance linear_log_probability_error(const ac_op_args *args, int output) {
  (void)output;
  const double w = args->in[3].count ? op_largest(&args->in[3]) : 1,
               less = args->in[4].count ? op_largest(&args->in[4]) : 0;
  return (op_tolerance){2, w * logit_error(args) + less};
}

const op_reference op_reference_linear_log_probability = {
    linear_log_probability, linear_log_probability_error, true, false};

/* dz[n,v] = dy ([v = target] - exp(log softmax(z))), times the slope;  dx = dz W,  dW = dz^T x */
static void linear_log_probability_gradient(const ac_op_args *args) {
  shape s = shape_of(args);
  const double *x = op_reals(&args->in[0]), *w = op_reals(&args->in[1]);
  double *dx = op_reals(&args->out[0]), *dw = op_reals(&args->out[1]);
  double *z = malloc((size_t)s.V * sizeof *z);
  for (int64_t i = 0; i < args->out[0].count; i++) dx[i] = 0;
  for (int64_t i = 0; i < args->out[1].count; i++) dw[i] = 0;
  for (int64_t n = 0; n < s.rows; n++) {
    const double dy = op_reals(&args->in[3])[n];
    const double log_sum = log_softmax(args, n, z);
    for (int64_t v = 0; v < s.V; v++) {
      const double dz =
          dy * ((v == op_integers(&args->in[2])[n]) - exp(z[v])) * slope(args, z[v] + log_sum);
      for (int64_t i = 0; i < s.C; i++) {
        if (args->out[0].count) dx[n * s.C + i] += dz * w[at(args, v, i)];
        if (args->out[1].count) dw[at(args, v, i)] += dz * x[n * s.C + i];
      }
    }
  }
  free(z);
}

/* As of linear_cross_entropy, with dy for the weights. */
static op_tolerance linear_log_probability_gradient_error(const ac_op_args *args, int output) {
  shape s = shape_of(args);
  const double dy = op_largest(&args->in[3]),
               dz = 2 * logit_error(args) + 2 * op_factor_error(&args->in[0]);
  if (output == 0)
    return (op_tolerance){2, dy * op_largest(&args->in[1]) * (dz + op_sum_error(s.V))};
  const double rows = 2 + sqrt((double)s.rows);
  return (op_tolerance){2, dy * op_largest(&args->in[0]) * (rows * dz + op_sum_error(s.rows))};
}

const op_reference op_reference_linear_log_probability_gradient = {
    linear_log_probability_gradient, linear_log_probability_gradient_error, true, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_linear_log_probability_gradient,
     .in = {OP_INPUT(0), OP_INPUT(1), OP_INPUT(2), OP_DY},
     .of = {0, 1},
     .outputs = 2,
     .optional = true},
};

/* Chunks of so many rows of V logits. */
#define ROWS(rows, V) ((rows) * (V)*4)
#define ATTRIBUTES(layout_, chunk, cap) \
  .op = AC_OP_linear_log_probability,   \
  .attributes.linear_cross_entropy = {layout_, {.ignore = false}, chunk, cap}
#define CAPPED(name_, layout_, chunk, cap, batch_, ...)                                   \
  {                                                                                       \
    .name = name_, ATTRIBUTES(layout_, chunk, cap), .batch = batch_, .in = {__VA_ARGS__}, \
    .out = {OP_F32(AC_BATCH)}, .gradients = gradients, .gradient_count = 1                \
  }
#define HEAD(name_, layout_, chunk, batch_, ...) \
  CAPPED(name_, layout_, chunk, 0, batch_, __VA_ARGS__)

static const op_case cases[] = {
    HEAD("out_in 7x5 of 9, chunks of 3", AC_OUT_IN, ROWS(3, 9), 7, OP_F32(AC_BATCH, 5),
         OP_F32(9, 5), OP_IDS(9, AC_BATCH)),
    HEAD("in_out 7x5 of 9, a row at a time", AC_IN_OUT, 1, 7, OP_F32(AC_BATCH, 5), OP_F32(5, 9),
         OP_IDS(9, AC_BATCH)),
    HEAD("out_in 65x128 of 256, chunks of 13", AC_OUT_IN, ROWS(13, 256), 65, OP_F32(AC_BATCH, 128),
         OP_F32(256, 128), OP_IDS(256, AC_BATCH)),
    HEAD("out_in wide, 5x9 of 5000, chunks of 2", AC_OUT_IN, ROWS(2, 5000), 5, OP_F32(AC_BATCH, 9),
         OP_F32(5000, 9), OP_IDS(5000, AC_BATCH)),
    CAPPED("out_in capped at 2, 65x17 of 33", AC_OUT_IN, ROWS(32, 33), 2, 65, OP_F32(AC_BATCH, 17),
           OP_F32(33, 17), OP_IDS(33, AC_BATCH)),
    CAPPED("in_out capped at 0.5, 5x7 of 300", AC_IN_OUT, ROWS(3, 300), 0.5, 5, OP_F32(AC_BATCH, 7),
           OP_F32(7, 300), OP_IDS(300, AC_BATCH)),
    {.name = "out_in rank 3, 3x65x33 of 129, chunks of 32",
     ATTRIBUTES(AC_OUT_IN, ROWS(40, 129), 0),
     .batch = 3,
     .in = {OP_F32(AC_BATCH, 65, 33), OP_F32(129, 33), OP_IDS(129, AC_BATCH, 65)},
     .out = {OP_F32(AC_BATCH, 65)},
     .gradients = gradients,
     .gradient_count = 1},
    /* The graph multiplies the gradient by weights. */
    {.name = "in_out 33x17 of 65, weights and less, chunks of 10",
     ATTRIBUTES(AC_IN_OUT, ROWS(10, 65), 0),
     .batch = 33,
     .in = {OP_F32(AC_BATCH, 17),
            OP_F32(17, 65),
            OP_IDS(65, AC_BATCH),
            {.dtype = AC_F32,
             .rank = 1,
             .dim = {AC_BATCH},
             .fill = OP_SOMETIMES,
             .low = 0.1,
             .high = 2,
             .special = 0},
            OP_RANGE(-5, 0, AC_BATCH)},
     .out = {OP_F32(AC_BATCH)}},
};

const op_family op_family_linear_log_probability = {
    "linear_log_probability", cases, sizeof cases / sizeof *cases, NULL, NULL, NULL};

/* In chunks of a few rows if the attribute says so. Callers cannot choose it. */
static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  const int64_t in = ac_shape_last(&x->shape),
                V = op_draw_one_in(d, 8) ? 1 : 2 + op_draw_below(d, 12);
  const ac_layout layout = op_draw_one_in(d, 2) ? AC_OUT_IN : AC_IN_OUT;
  const int64_t dim[] = {layout == AC_OUT_IN ? V : in, layout == AC_OUT_IN ? in : V};
  ac_shape rows = x->shape;
  rows.rank--;
  op_drawn_leaf *targets = op_draw_input(d, AC_I32, &rows, 0, (double)V);
  if (!targets) return NULL;
  ac_tensor *y =
      ac_linear_log_probability(x, op_draw_weight(d, in, 2, dim), layout, targets->tensor, NULL,
                                NULL, op_draw_one_in(d, 3) ? 1.5f : 0);
  if (!y || op_draw_one_in(d, 2)) return y;
  ac_linear_cross_entropy_attributes *a = (void *)ac_node_at(d->graph, y->producer)->attributes;
  a->chunk_bytes = (1 + op_draw_below(d, 4)) * V * (int64_t)sizeof(float);
  return y;
}

const op_generator op_generator_linear_log_probability = {
    .takes = op_takes_rows, .build = grow, OP_GRADIENTS(gradients)};
