/* Cases and references of binary_cross_entropy. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>

static double weight(const ac_op_args *args, int64_t b) {
  return args->in[2].count ? op_reals(&args->in[2])[b] : 1;
}

/* sums += w {sum_j (max(z, 0) - z t + log(1 + exp(-|z|))) / m, 1, [all right]} over samples of m
 * elements. */
static void binary_cross_entropy(const ac_op_args *args) {
  int64_t B = args->in[0].dim[0], m = args->in[0].count / B;
  double *sums = op_reals(&args->out[0]);
  for (int i = 0; i < AC_LOSS_SUMS; i++) sums[i] = 0;
  for (int64_t b = 0; b < B; b++) {
    double loss = 0, w = weight(args, b);
    bool right = true;
    for (int64_t i = b * m; i < (b + 1) * m; i++) {
      double z = op_reals(&args->in[0])[i], t = op_reals(&args->in[1])[i];
      loss += fmax(z, 0) - z * t + log1p(exp(-fabs(z)));
      right = right && (z >= 0) == (t >= 0.5);
    }
    if (w == 0) continue;
    sums[0] += w * loss / (double)m;
    sums[2] += w;
    if (right) sums[4] += w;
  }
}

/* The difference of the first two terms is off by a unit of |z|, the logarithm by a few of its own;
 * a sample's sum of m of them is divided by m; samples add up without further error. */
static op_tolerance binary_cross_entropy_error(const ac_op_args *args, int output) {
  (void)output;
  int64_t B = args->in[0].dim[0], m = args->in[0].count / B;
  double w = args->in[2].count ? op_largest(&args->in[2]) : 1, z = op_largest(&args->in[0]);
  return (op_tolerance){OP_MATH_ERROR + op_sum_error(m), w * z * (2 + sqrt((double)B))};
}

const op_reference op_reference_binary_cross_entropy = {binary_cross_entropy,
                                                        binary_cross_entropy_error, false, false};

/* dz = loss_scale w / m (1 / (1 + exp(-z)) - t) */
static void binary_cross_entropy_gradient(const ac_op_args *args) {
  int64_t B = args->in[0].dim[0], m = args->in[0].count / B;
  for (int64_t i = 0; i < B * m; i++) {
    double w = weight(args, i / m) * (double)args->run->loss_scale;
    double s = 1 / (1 + exp(-op_reals(&args->in[0])[i]));
    op_reals(&args->out[0])[i] = w == 0 ? 0 : w / (double)m * (s - op_reals(&args->in[1])[i]);
  }
}

/* s is off by a few units; the target is at most 1. */
static op_tolerance binary_cross_entropy_gradient_error(const ac_op_args *args, int output) {
  (void)output;
  int64_t m = args->in[0].count / args->in[0].dim[0];
  double w = (args->in[2].count ? op_largest(&args->in[2]) : 1) * (double)args->run->loss_scale;
  return (op_tolerance){3, OP_MATH_ERROR * w / (double)m};
}

const op_reference op_reference_binary_cross_entropy_gradient = {
    binary_cross_entropy_gradient, binary_cross_entropy_gradient_error, false, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_binary_cross_entropy_gradient,
     .in = {OP_INPUT(0), OP_INPUT(1), OP_INPUT(2)},
     .of = {0},
     .outputs = 1},
};

#define SUMS \
  { .dtype = AC_F32, .rank = 1, .dim = {AC_LOSS_SUMS}, .fill = OP_LOSS_SUMS }
#define ENTROPY(name_, batch_, ...)                                                           \
  {                                                                                           \
    .name = name_, .op = AC_OP_binary_cross_entropy, .batch = batch_, .gradients = gradients, \
    .gradient_count = 1, .out = {SUMS}, .in = {                                               \
      __VA_ARGS__                                                                             \
    }                                                                                         \
  }

static const op_case cases[] = {
    ENTROPY("7x65", 7, OP_RANGE(-4, 4, AC_BATCH, 65), OP_RANGE(0, 1, AC_BATCH, 65)),
    ENTROPY("weights 65x3x7", 65, OP_RANGE(-4, 4, AC_BATCH, 3, 7), OP_RANGE(0, 1, AC_BATCH, 3, 7),
            OP_RANGE(0, 2, AC_BATCH)),
    ENTROPY("every weight 0, 7x3", 7, OP_F32(AC_BATCH, 3), OP_RANGE(0, 1, AC_BATCH, 3),
            OP_RANGE(0, 0, AC_BATCH)),
    ENTROPY("one element, 129 of 1", 129, OP_F32(AC_BATCH, 1), OP_RANGE(0, 1, AC_BATCH, 1)),
    ENTROPY("large logits 17x33", 17, OP_RANGE(-1000, 1000, AC_BATCH, 33),
            OP_RANGE(0, 1, AC_BATCH, 33)),
    ENTROPY("wide 5x5000", 5, OP_F32(AC_BATCH, 5000), OP_RANGE(0, 1, AC_BATCH, 5000)),
};

static void from_vector(op_case *result, const op_vector *vector) {
  (void)vector;
  result->op = AC_OP_binary_cross_entropy;
  result->out[0].fill = OP_LOSS_SUMS;
  result->gradients = gradients;
  result->gradient_count = 1;
}

/* Logits far on the right side cost nothing, far on the wrong side their size, and 0 counts as 1. A
 * NaN in a sample of weight 0 is not seen; elsewhere it is. */
static void sides(ac_device *device) {
  op_instance loss, gradient;
  op_result result;
  op_variant variant = {.name = "sides and NaN"};
  op_instance_forward(&loss, &cases[1], 65);
  double *z = op_reals(&loss.args.in[0]), *t = op_reals(&loss.args.in[1]);
  double *w = op_reals(&loss.args.in[2]);
  for (int i = 0; i < 65 * 21; i++) t[i] = i % 3 == 0, z[i] = t[i] > 0 ? 1000 : -1000;
  for (int b = 0; b < 65; b++) w[b] = 1;
  z[0] = 0; /* right, and costs log 2; twice, so that it is not taken for that below */
  w[0] = 2;
  z[1 * 21] = -1000; /* costs 1000 / 21 */
  z[2 * 21 + 1] = 0; /* wrong */
  w[3] = 0;
  z[3 * 21 + 4] = NAN;
  op_instance_compute(&loss);
  const char *where = op_where(device, &loss, &variant);
  if (op_run(device, &loss, &variant, &result)) {
    double expected = (1000 + 3 * log(2)) / 21;
    OP_EXPECT(where, fabs(result.out[0][0] + result.out[0][1] - expected) < 1e-4 * expected,
              "the loss is %g, not %g", result.out[0][0], expected);
    OP_EXPECT(where, result.out[0][2] == 65 && result.out[0][4] == 63, "weight %g, right %g",
              result.out[0][2], result.out[0][4]);
  }
  op_result_free(&result);
  op_instance_gradient(&gradient, &loss, &gradients[0], NULL);
  if (op_run(device, &gradient, &variant, &result))
    op_compare(op_where(device, &gradient, &variant), &gradient, &variant, &result, 1);
  op_result_free(&result);
  op_instance_free(&gradient);
  z[8 * 21 + 20] = NAN;
  if (op_run(device, &loss, &variant, &result))
    OP_EXPECT(where, isnan(result.out[0][0] + result.out[0][1]), "the loss is %g",
              result.out[0][0]);
  op_result_free(&result);
  op_instance_free(&loss);
}

/* One element on the wrong side makes its sample wrong, at any place in a long sample. */
static void one_wrong(ac_device *device) {
  op_instance loss;
  op_result result;
  op_variant variant = {.name = "one on the wrong side", .once = true};
  op_instance_forward(&loss, &cases[5], 5);
  double *z = op_reals(&loss.args.in[0]), *t = op_reals(&loss.args.in[1]);
  for (int i = 0; i < 5 * 5000; i++) t[i] = i % 3 == 0, z[i] = t[i] > 0 ? 1 : -1;
  z[1 * 5000 + 3] *= -1;
  z[2 * 5000 + 4997] *= -1;
  const char *where = op_where(device, &loss, &variant);
  if (op_run(device, &loss, &variant, &result))
    OP_EXPECT(where, result.out[0][2] == 5 && result.out[0][4] == 3, "weight %g, right %g",
              result.out[0][2], result.out[0][4]);
  op_result_free(&result);
  op_instance_free(&loss);
}

static void special(ac_device *device) {
  sides(device);
  if (!op_reduced) one_wrong(device);
}

const op_family op_family_binary_cross_entropy = {
    "binary_cross_entropy", cases, sizeof cases / sizeof *cases, from_vector, special, NULL};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  ac_shape samples = x->shape;
  samples.rank = 1;
  op_drawn_leaf *targets = op_draw_input(d, AC_F32, &x->shape, 0, 1);
  targets->rare = op_draw_one_in(d, 2) ? 3 : 0;
  targets->special = 1;
  op_drawn_leaf *weights = op_draw_one_in(d, 2) ? NULL : op_draw_input(d, AC_F32, &samples, 0.1, 2);
  if (weights) weights->rare = 4;
  return ac_binary_cross_entropy(x, targets->tensor, weights ? weights->tensor : NULL);
}

/* A sample is right if all of its logits have the right sign. */
static void ties(op_ties *t, const ac_op_args *args) {
  const ac_operand *x = &args->in[0];
  int64_t columns = x->count / x->dim[0];
  for (int64_t n = 0; n < x->dim[0]; n++) {
    const double *logits = op_reals(x) + n * columns;
    double nearest = INFINITY, largest = 0;
    uint64_t signs = 0;
    for (int64_t i = 0; i < columns; i++) {
      nearest = fmin(nearest, fabs(logits[i]));
      largest = fmax(largest, fabs(logits[i]));
      signs = op_draw_hash(signs + (logits[i] > 0), (uint64_t)i);
    }
    bool close = nearest <= 16 * t->unit * largest;
    op_ties_call(t, (op_call){signs, op_weight_of(&args->in[2], n), close, OP_CALL_CLASS});
  }
}

const op_generator op_generator_binary_cross_entropy = {
    .takes = op_takes_batched, .build = grow, .loss = true, OP_GRADIENTS(gradients), .ties = ties};
