/* Cases and references of row_loss. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>

/* Of row i of n: neighbouring rows share a weight. */
static double weight(const ac_operand *weights, int64_t n, int64_t i) {
  return weights->count ? op_reals(weights)[i / (n / weights->count)] : 1;
}

static double factor_of(const ac_op_args *args) {
  return (double)((const ac_row_loss_attributes *)args->attributes)->factor;
}

/* sums += {factor sum_i w l, sum_i w over rows, 0} */
static void row_loss(const ac_op_args *args) {
  const int64_t n = args->in[0].count;
  double *sums = op_reals(&args->out[0]);
  for (int i = 0; i < AC_LOSS_SUMS; i++) sums[i] = 0;
  for (int64_t i = 0; i < n; i++) {
    const double w = weight(&args->in[1], n, i);
    if (w != 0) sums[0] += w * factor_of(args) * op_reals(&args->in[0])[i];
    sums[2] += w / (double)((const ac_row_loss_attributes *)args->attributes)->elements;
  }
}

/* Products are rounded for each element, and losses may have any sign; what they add up to is
 * exact. */
static op_tolerance row_loss_error(const ac_op_args *args, int output) {
  (void)output;
  const int64_t n = args->in[0].count;
  double sum = 0;
  for (int64_t i = 0; i < n; i++) {
    const double w = weight(&args->in[1], n, i);
    if (w != 0) sum += fabs(w * factor_of(args) * op_reals(&args->in[0])[i]);
  }
  return (op_tolerance){1, isfinite(sum) ? 2 * sum : 0};
}

const op_reference op_reference_row_loss = {row_loss, row_loss_error, true, false};

/* dl = loss_scale factor w */
static void row_loss_gradient(const ac_op_args *args) {
  const int64_t n = args->out[0].count;
  for (int64_t i = 0; i < n; i++)
    op_reals(&args->out[0])[i] =
        (double)args->run->loss_scale * factor_of(args) * weight(&args->in[0], n, i);
}

static op_tolerance row_loss_gradient_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){2, 0};
}

const op_reference op_reference_row_loss_gradient = {row_loss_gradient, row_loss_gradient_error,
                                                     true, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_row_loss_gradient, .in = {OP_INPUT(1)}, .of = {0}, .outputs = 1},
};

#define SUMS \
  { .dtype = AC_F32, .rank = 1, .dim = {AC_LOSS_SUMS}, .fill = OP_LOSS_SUMS }
#define ROWS(name_, batch_, elements_, factor_, ...)                                          \
  {                                                                                           \
    .name = name_, .op = AC_OP_row_loss, .batch = batch_,                                     \
    .attributes.row_loss = {elements_, factor_}, .gradients = gradients, .gradient_count = 1, \
    .out = {SUMS}, .in = {                                                                    \
      __VA_ARGS__                                                                             \
    }                                                                                         \
  }
#define LOSS(name_, batch_, ...) ROWS(name_, batch_, 1, 1, __VA_ARGS__)

static const op_case cases[] = {
    LOSS("7", 7, OP_F32(AC_BATCH)),
    LOSS("weights 5x3x7", 5, OP_F32(AC_BATCH, 3, 7), OP_RANGE(0, 2, AC_BATCH, 3, 7)),
    LOSS("a weight a sample, 9x13", 9, OP_F32(AC_BATCH, 13), OP_RANGE(0, 2, AC_BATCH)),
    LOSS("weights of columns 3x5x30", 3, OP_F32(AC_BATCH, 5, 30), OP_RANGE(0, 2, AC_BATCH, 5, 1)),
    LOSS("every weight 0, 7x3", 7, OP_F32(AC_BATCH, 3), OP_RANGE(0, 0, AC_BATCH)),
    LOSS("one", 1, OP_F32(AC_BATCH, 1)),
    LOSS("long 3x4100", 3, OP_F32(AC_BATCH, 4100)),
    LOSS("long with weights 2x4099", 2, OP_F32(AC_BATCH, 4099), OP_RANGE(0, 2, AC_BATCH, 4099)),
    LOSS("long samples 3x3001", 3, OP_F32(AC_BATCH, 3001), OP_RANGE(0, 2, AC_BATCH)),
    ROWS("means 5x7x3", 5, 21, 1 / 21.0f, OP_F32(AC_BATCH, 7, 3)),
    ROWS("means with weights 5x7x3", 5, 21, 1 / 21.0f, OP_F32(AC_BATCH, 7, 3),
         OP_RANGE(0, 2, AC_BATCH)),
    ROWS("sums of rows 5x7x3", 5, 3, 1, OP_F32(AC_BATCH, 7, 3), OP_RANGE(0, 2, AC_BATCH, 7)),
    ROWS("a weight for some rows 5x7x3", 5, 3, 2, OP_F32(AC_BATCH, 7, 3), OP_RANGE(0, 2, AC_BATCH)),
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_row_loss;
  result->attributes.row_loss =
      (ac_row_loss_attributes){.elements = (int64_t)op_vector_attribute(vector, "elements", 1),
                               .factor = (float)op_vector_attribute(vector, "factor", 1)};
  result->out[0].fill = OP_LOSS_SUMS;
  result->gradients = gradients;
  result->gradient_count = 1;
}

static void expect_loss(ac_device *device, const op_instance *loss, const char *name, double want,
                        double bound) {
  op_result result;
  const op_variant variant = {.name = name};
  if (op_run(device, loss, &variant, &result)) {
    const double got = result.out[0][0] + result.out[0][1];
    OP_EXPECT(op_where(device, loss, &variant),
              isnan(want) ? isnan(got) : fabs(got - want) <= bound, "the loss is %.17g, not %.17g",
              got, want);
  }
  op_result_free(&result);
}

/* A NaN shows in the loss, but not in a row of weight 0. Losses that nearly cancel out leave what
 * remains. */
static void special(ac_device *device) {
  op_instance loss;
  op_instance_forward(&loss, &cases[2], 9);
  op_reals(&loss.args.in[1])[3] = 0;
  op_reals(&loss.args.in[0])[3 * 13 + 4] = NAN;
  op_instance_compute(&loss);
  expect_loss(device, &loss, "a NaN without weight", op_reals(&loss.args.out[0])[0], 1e-5);
  op_reals(&loss.args.in[0])[4 * 13] = NAN;
  op_instance_compute(&loss);
  expect_loss(device, &loss, "a NaN", (double)NAN, 0);
  op_instance_free(&loss);
  op_instance_forward(&loss, &cases[6], 3);
  double *l = op_reals(&loss.args.in[0]);
  for (int64_t i = 0; i < loss.args.in[0].count; i++) l[i] = i % 2 ? -1e6 : 1e6;
  l[5000] = 1e6 + 0.0625;
  op_instance_compute(&loss);
  expect_loss(device, &loss, "cancelling", 0.0625, 1e-7);
  op_instance_free(&loss);
}

const op_family op_family_row_loss = {"row_loss",  cases,   sizeof cases / sizeof *cases,
                                      from_vector, special, NULL};

static ac_tensor *draw_weights(op_draw *d, const ac_shape *rows) {
  ac_shape shape = *rows;
  if (op_draw_one_in(d, 2)) shape.rank = 1 + op_draw_below(d, shape.rank);
  op_drawn_leaf *weights = op_draw_one_in(d, 3) ? NULL : op_draw_input(d, AC_F32, &shape, 0.1, 2);
  if (weights) weights->rare = 4;
  return weights ? weights->tensor : NULL;
}

/* Losses that are made of other ops and end in this one, with derivatives that do not jump. */
static ac_tensor *grow_made(op_draw *d, ac_tensor *x) {
  ac_shape rows = x->shape, samples = {1, true, {x->shape.dim[0]}};
  rows.rank--;
  const int kind = rows.rank ? op_draw_below(d, 3) : 0;
  ac_tensor *target = op_draw_input(d, AC_F32, &x->shape, 0, 1)->tensor;
  if (kind == 0) return ac_focal_loss(x, target, draw_weights(d, &samples), 0.25f, 2);
  ac_tensor *weights = draw_weights(d, &rows);
  if (kind == 1) return ac_soft_cross_entropy(x, target, weights);
  return ac_kl_divergence(x, target, weights, 2);
}

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  return op_draw_one_in(d, 3) ? grow_made(d, x) : ac_loss(x, draw_weights(d, &x->shape));
}

const op_generator op_generator_row_loss = {
    .takes = op_takes_batched, .build = grow, .loss = true, OP_GRADIENTS(gradients)};
