/* Cases and references of linear_cross_entropy. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>
#include <stdlib.h>

/* z[n,v] = sum_i x[n,i] W(v,i), where W(v,i) is weight[v*C+i] or weight[i*V+v];  the loss of
 * cross_entropy on z. */
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

static double weight_of(const ac_op_args *args, int64_t n) {
  const ac_linear_cross_entropy_attributes *a = args->attributes;
  if (a->loss.ignore && op_integers(&args->in[2])[n] == a->loss.ignore_index) return 0;
  return args->in[3].count ? op_reals(&args->in[3])[n] : 1;
}

static double smoothing_of(const ac_op_args *args) {
  if (!args->run->training) return 0;
  return (double)((const ac_linear_cross_entropy_attributes *)args->attributes)->loss.smoothing;
}

/* c tanh(z / c), and its derivative by what it is. */
static double capped(const ac_op_args *args, double z) {
  const double cap = ((const ac_linear_cross_entropy_attributes *)args->attributes)->soft_cap;
  return cap > 0 ? cap * tanh(z / cap) : z;
}

static double slope(const ac_op_args *args, double l) {
  const double cap = ((const ac_linear_cross_entropy_attributes *)args->attributes)->soft_cap;
  return cap > 0 ? 1 - l / cap * (l / cap) : 1;
}

/* The largest logit of a row, from logits less it. */
static double largest_of(const ac_op_args *args, int64_t n) {
  shape s = shape_of(args);
  const double *x = op_reals(&args->in[0]) + n * s.C, *w = op_reals(&args->in[1]);
  double largest = -INFINITY;
  for (int64_t v = 0; v < s.V; v++) {
    double z = 0;
    for (int64_t i = 0; i < s.C; i++) z += x[i] * w[at(args, v, i)];
    largest = fmax(largest, capped(args, z));
  }
  return largest;
}

/* The row's logits, less the largest; returns the first largest one's index and sets *lse, which is
 * that of the differences. */
static int64_t logits_of(const ac_op_args *args, int64_t n, double *z, double *lse) {
  shape s = shape_of(args);
  const double *x = op_reals(&args->in[0]) + n * s.C, *w = op_reals(&args->in[1]);
  int64_t first = 0;
  double sum = 0;
  for (int64_t v = 0; v < s.V; v++) {
    z[v] = 0;
    for (int64_t i = 0; i < s.C; i++) z[v] += x[i] * w[at(args, v, i)];
    z[v] = capped(args, z[v]);
    first = z[v] > z[first] ? v : first;
  }
  const double max = z[first];
  for (int64_t v = 0; v < s.V; v++) z[v] -= max, sum += exp(z[v]);
  *lse = log(sum);
  return first;
}

static void add_sums(const ac_op_args *args, const ac_operand *out) {
  shape s = shape_of(args);
  double *sums = op_reals(out), *z = malloc((size_t)s.V * sizeof *z), lse;
  for (int i = 0; i < AC_LOSS_SUMS; i++) sums[i] = 0;
  for (int64_t n = 0; n < s.rows; n++) {
    double w = weight_of(args, n);
    if (w == 0) continue;
    int32_t target = op_integers(&args->in[2])[n];
    bool right = logits_of(args, n, z, &lse) == target;
    double mean = 0, smoothing = smoothing_of(args);
    for (int64_t v = 0; v < s.V; v++) mean += z[v] / (double)s.V;
    sums[0] += w * ((1 - smoothing) * (lse - z[target]) + smoothing * (lse - mean));
    sums[2] += w;
    sums[4] += right ? w : 0;
  }
  free(z);
}

static void linear_cross_entropy(const ac_op_args *args) {
  add_sums(args, &args->out[0]);
}

/* Error of a logit, and of what follows from it: the exponential's argument is off by that of the
 * logit and of lse, and a unit of each difference of logits. */
static double logit_error(const ac_op_args *args) {
  shape s = shape_of(args);
  double *z = malloc((size_t)s.V * sizeof *z), lse, largest = 1;
  for (int64_t n = 0; n < s.rows; n++) {
    logits_of(args, n, z, &lse);
    for (int64_t v = 0; v < s.V; v++)
      largest = isfinite(z[v]) ? fmax(largest, fabs(z[v])) : largest;
  }
  free(z);
  return OP_MATH_ERROR + 2 * largest +
         2 * op_sum_error(s.C) * op_largest(&args->in[0]) * op_largest(&args->in[1]);
}

static double largest_weight(const ac_op_args *args) {
  return args->in[3].count ? op_largest(&args->in[3]) : 1;
}

/* As of cross_entropy. */
static op_tolerance sums_error(const ac_op_args *args) {
  shape s = shape_of(args);
  return (op_tolerance){2, (logit_error(args) + op_sum_error(s.V)) * largest_weight(args) *
                               (2 + sqrt((double)s.rows))};
}

static op_tolerance linear_cross_entropy_error(const ac_op_args *args, int output) {
  (void)output;
  return sums_error(args);
}

const op_reference op_reference_linear_cross_entropy = {linear_cross_entropy,
                                                        linear_cross_entropy_error, true, false};

/* dz[n,v] = loss_scale w (exp(z - lse) - (1 - s) [v = target] - s / V);  dx = dz W,  dW = dz^T x */
static void linear_cross_entropy_gradient(const ac_op_args *args) {
  shape s = shape_of(args);
  const double *x = op_reals(&args->in[0]), *w = op_reals(&args->in[1]);
  double *dx = op_reals(&args->out[0]), *dw = op_reals(&args->out[1]);
  double *z = malloc((size_t)s.V * sizeof *z), lse;
  for (int64_t i = 0; i < args->out[0].count; i++) dx[i] = 0;
  for (int64_t i = 0; i < args->out[1].count; i++) dw[i] = 0;
  for (int64_t n = 0; n < s.rows; n++) {
    double scale = weight_of(args, n) * (double)args->run->loss_scale;
    if (scale == 0) continue;
    logits_of(args, n, z, &lse);
    const double largest = largest_of(args, n);
    for (int64_t v = 0; v < s.V; v++) {
      double target = v == op_integers(&args->in[2])[n] ? 1 : 0, smoothing = smoothing_of(args);
      double dz = scale * (exp(z[v] - lse) - (1 - smoothing) * target - smoothing / (double)s.V);
      dz *= slope(args, z[v] + largest);
      for (int64_t i = 0; i < s.C; i++) {
        if (args->out[0].count) dx[n * s.C + i] += dz * w[at(args, v, i)];
        if (args->out[1].count) dw[at(args, v, i)] += dz * x[n * s.C + i];
      }
    }
  }
  free(z);
  add_sums(args, &args->out[2]);
}

/* Of a row's dz the errors add up to that of the exponential's argument, since probabilities add up
 * to one, and where dz is rounded to that of twice the row's weight, which its magnitudes add up
 * to; those of different rows are independent. */
static op_tolerance linear_cross_entropy_gradient_error(const ac_op_args *args, int output) {
  if (output == 2) return sums_error(args);
  shape s = shape_of(args);
  double w = largest_weight(args) * (double)args->run->loss_scale;
  double dz = 2 * logit_error(args) + 2 * op_factor_error(&args->in[0]);
  if (output == 0)
    return (op_tolerance){2, w * op_largest(&args->in[1]) * (dz + op_sum_error(s.V))};
  double rows = 2 + sqrt((double)s.rows);
  return (op_tolerance){2, w * op_largest(&args->in[0]) * (rows * dz + op_sum_error(s.rows))};
}

const op_reference op_reference_linear_cross_entropy_gradient = {
    linear_cross_entropy_gradient, linear_cross_entropy_gradient_error, true, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_linear_cross_entropy_gradient,
     .in = {OP_INPUT(0), OP_INPUT(1), OP_INPUT(2), OP_INPUT(3)},
     .of = {0, 1, OP_AGAIN},
     .outputs = 3,
     .optional = true},
};

#define SUMS \
  { .dtype = AC_F32, .rank = 1, .dim = {AC_LOSS_SUMS}, .fill = OP_LOSS_SUMS }
#define TARGETS(V, ignored, ...)                                                               \
  {                                                                                            \
    .dtype = AC_I32, .rank = OP_RANK(__VA_ARGS__), .dim = {__VA_ARGS__}, .fill = OP_SOMETIMES, \
    .high = V, .special = ignored                                                              \
  }
#define WEIGHTS(...)                                                                           \
  {                                                                                            \
    .dtype = AC_F32, .rank = OP_RANK(__VA_ARGS__), .dim = {__VA_ARGS__}, .fill = OP_SOMETIMES, \
    .low = 0.1, .high = 2, .special = 0                                                        \
  }
/* Chunks of so many rows of V logits. */
#define ROWS(rows, V) ((rows) * (V)*4)
#define CASE(name_, layout_, ignore, smoothing, chunk, cap, evaluation_, batch_, ...)    \
  {                                                                                      \
    .name = name_, .op = AC_OP_linear_cross_entropy,                                     \
    .attributes.linear_cross_entropy = {layout_, {ignore, -100, smoothing}, chunk, cap}, \
    .batch = batch_, .in = {__VA_ARGS__}, .out = {SUMS}, .gradients = gradients,         \
    .gradient_count = 1, .evaluation = evaluation_                                       \
  }
#define SMOOTHED(name_, layout_, ignore, smoothing, chunk, evaluation_, batch_, ...) \
  CASE(name_, layout_, ignore, smoothing, chunk, 0, evaluation_, batch_, __VA_ARGS__)
#define CAPPED(name_, layout_, ignore, smoothing, chunk, cap, batch_, ...) \
  CASE(name_, layout_, ignore, smoothing, chunk, cap, false, batch_, __VA_ARGS__)
#define HEAD(name_, layout_, ignore, chunk, batch_, ...) \
  SMOOTHED(name_, layout_, ignore, 0, chunk, false, batch_, __VA_ARGS__)

static const op_case cases[] = {
    HEAD("out_in 7x5 of 9, chunks of 3", AC_OUT_IN, false, ROWS(3, 9), 7, OP_F32(AC_BATCH, 5),
         OP_F32(9, 5), OP_IDS(9, AC_BATCH)),
    HEAD("in_out 7x5 of 9, ignored targets and weights, a row at a time", AC_IN_OUT, true, 1, 7,
         OP_F32(AC_BATCH, 5), OP_F32(5, 9), TARGETS(9, -100, AC_BATCH), WEIGHTS(AC_BATCH)),
    HEAD("out_in rank 3, 3x65x33 of 129, chunks of 32", AC_OUT_IN, false, ROWS(40, 129), 3,
         OP_F32(AC_BATCH, 65, 33), OP_F32(129, 33), OP_IDS(129, AC_BATCH, 65)),
    HEAD("in_out rank 3, 3x65x33 of 129, ignored targets and weights, chunks of 64", AC_IN_OUT,
         true, ROWS(64, 129), 3, OP_F32(AC_BATCH, 65, 33), OP_F32(33, 129),
         TARGETS(129, -100, AC_BATCH, 65), WEIGHTS(AC_BATCH, 65)),
    HEAD("out_in 65x128 of 256, chunks of 13", AC_OUT_IN, true, ROWS(13, 256), 65,
         OP_F32(AC_BATCH, 128), OP_F32(256, 128), TARGETS(256, -100, AC_BATCH)),
    HEAD("out_in 65x7 of 129, one chunk", AC_OUT_IN, false, AC_LINEAR_CROSS_ENTROPY_CHUNK, 65,
         OP_F32(AC_BATCH, 7), OP_F32(129, 7), OP_IDS(129, AC_BATCH), WEIGHTS(AC_BATCH)),
    HEAD("out_in one class, 7x3", AC_OUT_IN, false, ROWS(2, 1), 7, OP_F32(AC_BATCH, 3),
         OP_F32(1, 3), OP_IDS(1, AC_BATCH)),
    HEAD("out_in large logits, 33x17 of 65", AC_OUT_IN, false, ROWS(10, 65), 33,
         OP_RANGE(-20, 20, AC_BATCH, 17), OP_RANGE(-10, 10, 65, 17), OP_IDS(65, AC_BATCH)),
    HEAD("out_in wide, 5x9 of 5000, chunks of 2", AC_OUT_IN, false, ROWS(2, 5000), 5,
         OP_F32(AC_BATCH, 9), OP_F32(5000, 9), OP_IDS(5000, AC_BATCH)),
    SMOOTHED("in_out smoothing, 65x17 of 33, ignored targets and weights", AC_IN_OUT, true, 0.1f,
             ROWS(32, 33), false, 65, OP_F32(AC_BATCH, 17), OP_F32(17, 33),
             TARGETS(33, -100, AC_BATCH), WEIGHTS(AC_BATCH)),
    SMOOTHED("out_in smoothing in evaluation, 5x7 of 9", AC_OUT_IN, false, 0.5f, ROWS(3, 9), true,
             5, OP_F32(AC_BATCH, 7), OP_F32(9, 7), OP_IDS(9, AC_BATCH)),
    CAPPED("out_in capped at 2, 65x17 of 33, ignored targets and weights", AC_OUT_IN, true, 0,
           ROWS(32, 33), 2, 65, OP_F32(AC_BATCH, 17), OP_F32(33, 17), TARGETS(33, -100, AC_BATCH),
           WEIGHTS(AC_BATCH)),
    CAPPED("in_out capped at 0.5, smoothing, 5x7 of 300", AC_IN_OUT, false, 0.1f, ROWS(3, 300), 0.5,
           5, OP_F32(AC_BATCH, 7), OP_F32(7, 300), OP_IDS(300, AC_BATCH)),
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_linear_cross_entropy;
  result->attributes.linear_cross_entropy = (ac_linear_cross_entropy_attributes){
      .layout = (ac_layout)op_vector_attribute(vector, "layout", 0),
      .loss = {op_vector_attribute(vector, "ignore", 0) != 0,
               (int32_t)op_vector_attribute(vector, "ignore_index", 0),
               (float)op_vector_attribute(vector, "smoothing", 0)},
      .chunk_bytes = ROWS(5, 19)};
  result->out[0].fill = OP_LOSS_SUMS;
  result->gradients = gradients;
  result->gradient_count = 1;
}

/* What all logits of a row have in common changes nothing, however large it is. x is 1, so that the
 * weights are the logits. A row's gradient sums to 0, which is that of W here. */
static void common_offsets(ac_device *device) {
  static const double offsets[] = {0, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, -1e7, 1e30};
  enum { COUNT = sizeof offsets / sizeof *offsets, V = 3 };
  op_variant variant = {.name = "a common offset", .once = true};
  for (int in_out = 0; in_out < 2; in_out++)
    for (int i = 0; i < 2 * COUNT; i++) {
      op_instance loss, gradient;
      op_result result;
      op_case c = HEAD("1x1 of 3", in_out ? AC_IN_OUT : AC_OUT_IN, false, 1, 1, OP_F32(AC_BATCH, 1),
                       {0}, OP_IDS(V, AC_BATCH));
      c.in[1] =
          (op_operand_spec){.dtype = AC_F32, .rank = 2, .dim = {in_out ? 1 : V, in_out ? V : 1}};
      op_instance_forward(&loss, &c, 1);
      op_reals(&loss.args.in[0])[0] = 1;
      for (int v = 0; v < V; v++) {
        const double gap = i < COUNT ? 0 : (v + 1) % 3 - 1;
        op_reals(&loss.args.in[1])[v] = op_round(AC_F32, offsets[i % COUNT] + gap);
      }
      op_instance_compute(&loss);
      const double want = op_reals(&loss.args.out[0])[0];
      if (op_run(device, &loss, &variant, &result))
        OP_EXPECT(op_where(device, &loss, &variant), fabs(result.out[0][0] - want) < 1e-5,
                  "at %g: %g, not %g", offsets[i % COUNT], result.out[0][0], want);
      op_result_free(&result);
      op_instance_gradient(&gradient, &loss, &gradients[0], NULL);
      if (op_run(device, &gradient, &variant, &result)) {
        double sum = 0;
        for (int v = 0; v < V; v++) {
          const double dw = op_reals(&gradient.args.out[1])[v];
          sum += result.out[1][v];
          OP_EXPECT(op_where(device, &gradient, &variant), fabs(result.out[1][v] - dw) < 1e-5,
                    "at %g: %g, not %g", offsets[i % COUNT], result.out[1][v], dw);
        }
        OP_EXPECT(op_where(device, &gradient, &variant),
                  fabs(sum) < 1e-5 && fabs(result.out[2][0] - want) < 1e-5,
                  "the gradient sums to %g, the loss is %g", sum, result.out[2][0]);
      }
      op_result_free(&result);
      op_instance_free(&gradient);
      op_instance_free(&loss);
    }
}

/* Rows of weight zero cannot spoil the sums and get no gradient, whatever they hold; a NaN in a row
 * that counts does. */
static void special_rows(ac_device *device) {
  op_instance loss, gradient;
  op_result result;
  op_variant variant = {.name = "NaN in an ignored row"}, sums_and_dx = variant;
  op_instance_forward(&loss, &cases[1], 7);
  double *x = op_reals(&loss.args.in[0]), *weights = op_reals(&loss.args.in[3]);
  int32_t *targets = loss.args.in[2].data;
  targets[2] = -100, weights[2] = 1;
  targets[4] = 3, weights[4] = 0;
  for (int i = 0; i < 5; i++) x[2 * 5 + i] = i ? NAN : INFINITY, x[4 * 5 + i] = NAN;
  op_instance_compute(&loss);
  if (op_run(device, &loss, &variant, &result))
    op_compare(op_where(device, &loss, &variant), &loss, &variant, &result, 1);
  op_result_free(&result);
  op_instance_gradient(&gradient, &loss, &gradients[0], NULL);
  sums_and_dx.absent = 2;
  if (op_run(device, &gradient, &sums_and_dx, &result))
    op_compare(op_where(device, &gradient, &sums_and_dx), &gradient, &sums_and_dx, &result, 1);
  op_result_free(&result);
  op_instance_free(&gradient);

  variant.name = "NaN in a row that counts";
  targets[2] = 3;
  if (op_run(device, &loss, &variant, &result))
    OP_EXPECT(op_where(device, &loss, &variant), !isfinite(result.out[0][0] + result.out[0][1]),
              "the loss is %g", result.out[0][0]);
  op_result_free(&result);
  op_instance_free(&loss);
}

static void special(ac_device *device) {
  special_rows(device);
  common_offsets(device);
}

const op_family op_family_linear_cross_entropy = {
    "linear_cross_entropy", cases, sizeof cases / sizeof *cases, from_vector, special, NULL};

/* In chunks of a few rows if the attribute says so. Callers cannot choose it. */
static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  int64_t in = ac_shape_last(&x->shape), V = op_draw_one_in(d, 8) ? 1 : 2 + op_draw_below(d, 12);
  ac_layout layout = op_draw_one_in(d, 2) ? AC_OUT_IN : AC_IN_OUT;
  int64_t dim[] = {layout == AC_OUT_IN ? V : in, layout == AC_OUT_IN ? in : V};
  ac_cross_entropy_desc desc = {.ignore = op_draw_one_in(d, 2),
                                .ignore_index = op_draw_one_in(d, 2) ? -100 : 0,
                                .smoothing = op_draw_one_in(d, 2) ? 0 : 0.2f,
                                .soft_cap = op_draw_one_in(d, 3) ? 1.5f : 0};
  ac_shape rows = x->shape;
  rows.rank--;
  op_drawn_leaf *targets = op_draw_input(d, AC_I32, &rows, 0, (double)V);
  targets->special = desc.ignore_index;
  targets->rare = desc.ignore ? 3 : 0;
  op_drawn_leaf *weights = op_draw_one_in(d, 2) ? NULL : op_draw_input(d, AC_F32, &rows, 0.1, 2);
  if (weights) weights->rare = 4;
  ac_tensor *weight = NULL;
  if (op_draw_one_in(d, 6)) { /* a head in blocks */
    x = ac_linear(x, op_draw_blocks(d, sqrt(3 / (double)in), in, 32), NULL, AC_IN_OUT);
    weight = op_draw_blocks(d, 0.3, V, 32);
    layout = AC_OUT_IN;
  }
  if (!weight) weight = op_draw_weight(d, in, 2, dim);
  ac_tensor *loss = ac_linear_cross_entropy(x, weight, layout, targets->tensor,
                                            weights ? weights->tensor : NULL, &desc);
  if (!loss || op_draw_one_in(d, 2)) return loss;
  ac_linear_cross_entropy_attributes *a = (void *)ac_node_at(d->graph, loss->producer)->attributes;
  a->chunk_bytes = (1 + op_draw_below(d, 4)) * V * (int64_t)sizeof(float);
  return loss;
}

static void ties(op_ties *t, const ac_op_args *args) {
  const ac_linear_cross_entropy_attributes *a = args->attributes;
  const double *x = op_reals(&args->in[0]), *w = op_reals(&args->in[1]);
  int64_t in = ac_columns(&args->in[0]), V = ac_linear_cross_entropy_classes(args);
  double *z = malloc((size_t)V * sizeof *z);
  for (int64_t n = 0; n < ac_rows(&args->in[0]); n++) {
    for (int64_t v = 0; v < V; v++) {
      z[v] = 0;
      for (int64_t i = 0; i < in; i++)
        z[v] += x[n * in + i] * w[a->layout == AC_OUT_IN ? v * in + i : i * V + v];
    }
    op_ties_classify(t, z, V, op_weight_of(&args->in[3], n));
  }
  free(z);
}

const op_generator op_generator_linear_cross_entropy = {
    .takes = op_takes_rows, .build = grow, .loss = true, OP_GRADIENTS(gradients), .ties = ties};
