/* Cases and references of cross_entropy. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>

/* lse = log sum_v exp(logit[v]), kept as the largest logit and the rest;  sums += w {lse -
 * logit[target], 1, [argmax = target]}, w = 0 where ignored; with smoothing s, while training, the
 * first is (1 - s) (lse - logit[target]) + s (lse - mean). A sum is a pair of floats; the reference
 * leaves the second of each at 0. */
static double weight(const ac_op_args *args, int64_t n) {
  const ac_cross_entropy_attributes *a = args->attributes;
  if (a->ignore && op_integers(&args->in[1])[n] == a->ignore_index) return 0;
  return args->in[2].count ? op_reals(&args->in[2])[n] : 1;
}

static double smoothing_of(const ac_op_args *args) {
  if (!args->run->training) return 0;
  return (double)((const ac_cross_entropy_attributes *)args->attributes)->smoothing;
}

static void cross_entropy(const ac_op_args *args) {
  int64_t rows = ac_rows(&args->in[0]), V = ac_columns(&args->in[0]);
  double without[AC_LOSS_SUMS], *sums = args->out[0].count ? op_reals(&args->out[0]) : without;
  for (int i = 0; i < AC_LOSS_SUMS; i++) sums[i] = 0;
  for (int64_t n = 0; n < rows; n++) {
    const double *logit = op_reals(&args->in[0]) + n * V;
    int32_t target = op_integers(&args->in[1])[n];
    double sum = 0, w = weight(args, n);
    int64_t first = 0;
    for (int64_t v = 1; v < V; v++) first = logit[v] > logit[first] ? v : first;
    for (int64_t v = 0; v < V; v++) sum += exp(logit[v] - logit[first]);
    double log_sum = log(sum), *extent = op_reals(&args->out[1]) + 2 * n;
    extent[0] = logit[first], extent[1] = log_sum;
    if (w == 0) continue;
    double mean = 0;
    for (int64_t v = 0; v < V; v++) mean += (logit[first] - logit[v]) / (double)V;
    double smoothing = smoothing_of(args);
    sums[0] += w * (1 - smoothing) * (log_sum + (logit[first] - logit[target]));
    if (smoothing > 0) sums[0] += w * smoothing * (log_sum + mean);
    sums[2] += w;
    if (first == target) sums[4] += w;
  }
}

/* The largest difference of two logits of a row, which is all of them that is rounded; at least
 * 1. */
static double largest_difference(const ac_operand *logits) {
  double largest = 1;
  for (int64_t n = 0; n < ac_rows(logits); n++) {
    const double *x = op_reals(logits) + n * ac_columns(logits);
    double low = INFINITY, high = -INFINITY;
    for (int64_t v = 0; v < ac_columns(logits); v++)
      if (isfinite(x[v])) low = fmin(low, x[v]), high = fmax(high, x[v]);
    if (high - low > largest) largest = high - low;
  }
  return largest;
}

/* A row's loss has lse's error: that of log, a sum of V, and one rounding of a difference. Rows add
 * up, in pairs of floats without further error. Sums of weights are exact but for each weight's
 * product. */
static op_tolerance cross_entropy_error(const ac_op_args *args, int output) {
  double w = args->in[2].count ? op_largest(&args->in[2]) : 1;
  double lse =
      OP_MATH_ERROR + largest_difference(&args->in[0]) + op_sum_error(ac_columns(&args->in[0]));
  if (output == 1) return (op_tolerance){0, OP_MATH_ERROR + op_sum_error(ac_columns(&args->in[0]))};
  return (op_tolerance){2, lse * w * (2 + sqrt((double)ac_rows(&args->in[0])))};
}

const op_reference op_reference_cross_entropy = {cross_entropy, cross_entropy_error, true, false};

/* dlogits[n,v] = loss_scale w (exp(logit - lse) - (1 - s) [v = target] - s / V) */
static void cross_entropy_gradient(const ac_op_args *args) {
  int64_t rows = ac_rows(&args->in[0]), V = ac_columns(&args->in[0]);
  for (int64_t n = 0; n < rows; n++) {
    double w = weight(args, n) * (double)args->run->loss_scale;
    for (int64_t v = 0; v < V; v++) {
      const double *extent = op_reals(&args->in[3]) + 2 * n;
      double p = exp(op_reals(&args->in[0])[n * V + v] - extent[0] - extent[1]);
      double target = v == op_integers(&args->in[1])[n] ? 1 : 0, s = smoothing_of(args);
      op_reals(&args->out[0])[n * V + v] = w == 0 ? 0 : w * (p - (1 - s) * target - s / (double)V);
    }
  }
}

/* exp's argument is off by a unit of a difference of logits and of its log; p is at most 1. */
static op_tolerance cross_entropy_gradient_error(const ac_op_args *args, int output) {
  (void)output;
  double w = (args->in[2].count ? op_largest(&args->in[2]) : 1) * (double)args->run->loss_scale;
  return (op_tolerance){2, w * (OP_MATH_ERROR + 2 * largest_difference(&args->in[0]))};
}

const op_reference op_reference_cross_entropy_gradient = {
    cross_entropy_gradient, cross_entropy_gradient_error, true, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_cross_entropy_gradient,
     .in = {OP_INPUT(0), OP_INPUT(1), OP_INPUT(2), OP_OUTPUT(1)},
     .of = {0},
     .outputs = 1},
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
#define SMOOTHED(name_, ignore, smoothing, batch_, ...)                     \
  {                                                                         \
    .name = name_, .op = AC_OP_cross_entropy,                               \
    .attributes.cross_entropy = {ignore, -100, smoothing}, .batch = batch_, \
    .gradients = gradients, .gradient_count = 1, __VA_ARGS__                \
  }
#define CROSS_ENTROPY(name_, ignore, batch_, ...) SMOOTHED(name_, ignore, 0, batch_, __VA_ARGS__)

static const op_case cases[] = {
    CROSS_ENTROPY("3x65 of 129", false, 3,
                  .in = {OP_RANGE(-4, 4, AC_BATCH, 65, 129), OP_IDS(129, AC_BATCH, 65)},
                  .out = {SUMS, OP_F32(AC_BATCH, 65, 2)}),
    CROSS_ENTROPY("ignored targets and weights, 7x65 of 33", true, 7,
                  .in = {OP_RANGE(-4, 4, AC_BATCH, 65, 33), TARGETS(33, -100, AC_BATCH, 65),
                         WEIGHTS(AC_BATCH, 65)},
                  .out = {SUMS, OP_F32(AC_BATCH, 65, 2)}),
    CROSS_ENTROPY("ignored targets, 65 of 7", true, 65,
                  .in = {OP_RANGE(-4, 4, AC_BATCH, 7), TARGETS(7, -100, AC_BATCH)},
                  .out = {SUMS, OP_F32(AC_BATCH, 2)}),
    CROSS_ENTROPY("every target ignored, 7 of 3", true, 7,
                  .in = {OP_RANGE(-4, 4, AC_BATCH, 3),
                         {.dtype = AC_I32, .rank = 1, .dim = {AC_BATCH}, .low = -100, .high = -99}},
                  .out = {SUMS, OP_F32(AC_BATCH, 2)}),
    CROSS_ENTROPY(
        "every weight 0, 7 of 3", false, 7,
        .in = {OP_RANGE(-4, 4, AC_BATCH, 3), OP_IDS(3, AC_BATCH), OP_RANGE(0, 0, AC_BATCH)},
        .out = {SUMS, OP_F32(AC_BATCH, 2)}),
    CROSS_ENTROPY("one class, 7 of 1", false, 7,
                  .in = {OP_RANGE(-4, 4, AC_BATCH, 1), OP_IDS(1, AC_BATCH)},
                  .out = {SUMS, OP_F32(AC_BATCH, 2)}),
    CROSS_ENTROPY("large logits, 65 of 65", false, 65,
                  .in = {OP_RANGE(-1000, 1000, AC_BATCH, 65), OP_IDS(65, AC_BATCH)},
                  .out = {SUMS, OP_F32(AC_BATCH, 2)}),
    CROSS_ENTROPY("wide, 3 of 5000", false, 3,
                  .in = {OP_RANGE(-4, 4, AC_BATCH, 5000), OP_IDS(5000, AC_BATCH)},
                  .out = {SUMS, OP_F32(AC_BATCH, 2)}),
    SMOOTHED("smoothing, ignored targets and weights, 7x65 of 33", true, 0.1f, 7,
             .in = {OP_RANGE(-4, 4, AC_BATCH, 65, 33), TARGETS(33, -100, AC_BATCH, 65),
                    WEIGHTS(AC_BATCH, 65)},
             .out = {SUMS, OP_F32(AC_BATCH, 65, 2)}),
    SMOOTHED("smoothing in evaluation, 3 of 33", false, 0.5f, 3, .evaluation = true,
             .in = {OP_RANGE(-4, 4, AC_BATCH, 33), OP_IDS(33, AC_BATCH)},
             .out = {SUMS, OP_F32(AC_BATCH, 2)}),
    SMOOTHED("much smoothing, 3 of 5000", false, 0.9f, 3,
             .in = {OP_RANGE(-4, 4, AC_BATCH, 5000), OP_IDS(5000, AC_BATCH)},
             .out = {SUMS, OP_F32(AC_BATCH, 2)}),
    /* No gradient: it is that of the sums, which are absent. */
    {.name = "run again without sums, 7x3 of 33",
     .op = AC_OP_cross_entropy,
     .attributes.cross_entropy = {true, -100, 0},
     .batch = 7,
     .in = {OP_RANGE(-4, 4, AC_BATCH, 3, 33), TARGETS(33, -100, AC_BATCH, 3)},
     .out = {{.rank = 0}, OP_F32(AC_BATCH, 3, 2)}},
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_cross_entropy;
  result->attributes.cross_entropy =
      (ac_cross_entropy_attributes){op_vector_attribute(vector, "ignore", 0) != 0,
                                    (int32_t)op_vector_attribute(vector, "ignore_index", 0),
                                    (float)op_vector_attribute(vector, "smoothing", 0)};
  result->out[0].fill = OP_LOSS_SUMS;
  result->gradients = gradients;
  result->gradient_count = 1;
}

/* -inf masks a class: no weight, and gradient exactly 0. Equal logits: the first counts as the
 * answer. Rows of weight zero cannot spoil the sums, whatever they hold; a NaN in a row that counts
 * does. */
static void special_values(ac_device *device) {
  op_instance loss, gradient;
  op_result result;
  op_variant variant = {.name = "-inf, ties"};
  op_instance_forward(&loss, &cases[2], 65);
  double *x = op_reals(&loss.args.in[0]);
  int32_t *targets = loss.args.in[1].data;
  for (int v = 0; v < 7; v++) x[v] = v == 3 ? 1 : v == 5 ? 2 : -INFINITY, x[7 + v] = 0.5;
  targets[0] = 3, targets[1] = 0;
  targets[2] = -100;
  for (int v = 0; v < 7; v++) x[14 + v] = v ? NAN : INFINITY;
  op_instance_compute(&loss);
  for (int i = 4; i < 6; i++) op_reals(&loss.args.out[1])[i] = NAN; /* nobody reads them */
  if (op_run(device, &loss, &variant, &result)) {
    result.out[1][4] = result.out[1][5] = NAN;
    op_compare(op_where(device, &loss, &variant), &loss, &variant, &result, 1);
  }
  op_result_free(&result);
  op_instance_gradient(&gradient, &loss, &gradients[0], NULL);
  if (op_run(device, &gradient, &variant, &result))
    op_compare(op_where(device, &gradient, &variant), &gradient, &variant, &result, 1);
  op_result_free(&result);
  op_instance_free(&gradient);

  variant.name = "NaN logit";
  x[3 * 7] = NAN, targets[3] = 1;
  if (op_run(device, &loss, &variant, &result))
    OP_EXPECT(op_where(device, &loss, &variant), !isfinite(result.out[0][0] + result.out[0][1]),
              "the loss is %g", result.out[0][0]);
  op_result_free(&result);
  op_instance_free(&loss);
}

/* What all logits of a row have in common changes nothing, however large it is. Expected are sums
 * and gradients of the differences; the rows' gradients sum to 0. */
static void common_offsets(ac_device *device) {
  static const double offsets[] = {0, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, -1e7, 1e30};
  enum { COUNT = sizeof offsets / sizeof *offsets, V = 3 };
  op_variant variant = {.name = "a common offset", .once = true};
  for (int smoothed = 0; smoothed < 2; smoothed++)
    for (int i = 0; i < 3 * COUNT; i++) {
      op_instance loss, gradient;
      op_result result;
      op_case c = cases[3];
      c.attributes.cross_entropy.smoothing = smoothed ? 0.5f : 0;
      op_instance_forward(&loss, &c, 1);
      double *x = op_reals(&loss.args.in[0]), sum = 0;
      for (int v = 0; v < V; v++) {
        const double gap = i < COUNT ? 0 : i < 2 * COUNT ? (v + 1) % 3 - 1 : 20 * v;
        x[v] = op_round(AC_F32, offsets[i % COUNT] + gap);
      }
      ((int32_t *)loss.args.in[1].data)[0] = i % V;
      op_instance_compute(&loss);
      if (op_run(device, &loss, &variant, &result))
        op_compare(op_where(device, &loss, &variant), &loss, &variant, &result, 1);
      op_result_free(&result);
      op_instance_gradient(&gradient, &loss, &gradients[0], NULL);
      if (op_run(device, &gradient, &variant, &result)) {
        op_compare(op_where(device, &gradient, &variant), &gradient, &variant, &result, 1);
        for (int v = 0; v < V; v++) sum += result.out[0][v];
        OP_EXPECT(op_where(device, &gradient, &variant), fabs(sum) < 1e-5,
                  "the gradient sums to %g at %g", sum, x[0]);
      }
      op_result_free(&result);
      op_instance_free(&gradient);
      op_instance_free(&loss);
    }
}

/* Thousands of micro-batches: the pair of floats keeps what a double keeps. A single float would be
 * off by about 1e-5 relative, and would stop at 2^24. */
static void long_sum(ac_device *device) {
  enum { ROWS = 7, V = 3, TIMES = 4000 };
  const ac_backend *backend = device->backend;
  op_instance one;
  op_result result;
  op_variant variant = {.name = "thousands of additions"};
  op_instance_forward(&one, &cases[4], ROWS);
  for (int n = 0; n < ROWS; n++) op_reals(&one.args.in[2])[n] = 1000 + n / 8.0;
  const char *where = op_where(device, &one, &variant);
  if (!op_run(device, &one, &variant, &result)) {
    op_result_free(&result);
    op_instance_free(&one);
    return;
  }
  double expected[3], alone[3], relative[3] = {1e-12, 1e-12, 1e-12};
  for (int k = 0; k < 3; k++) {
    alone[k] = result.out[0][2 * k] + result.out[0][2 * k + 1];
    expected[k] = TIMES * alone[k];
  }
  op_result_free(&result);

  ac_op_args args = one.args;
  void *chunk = NULL, *view[5] = {NULL};
  uint64_t size[5] = {ROWS * V * 4, ROWS * 4, ROWS * 4, AC_LOSS_SUMS * 4, ROWS * 8};
  uint64_t slot = device->info.alignment > 256 ? device->info.alignment : 256, offset = 5 * slot;
  args.workspace_bytes = backend->workspace(device->state, &args);
  uint64_t total = offset + args.workspace_bytes + slot;
  if (ac_device_allocate(device, total, &chunk) != AC_OK) {
    op_fail(where, "%s", ac_last_error());
    op_instance_free(&one);
    return;
  }
  float host[ROWS * V], sums[AC_LOSS_SUMS];
  for (int i = 0; i < 5; i++) {
    ac_operand *x = i < 3 ? &args.in[i] : &args.out[i - 3];
    backend->view(device->state, chunk, (uint64_t)i * slot, size[i], &view[i]);
    if (i == 0 || i == 2)
      for (int64_t e = 0; e < x->count; e++) host[e] = (float)op_reals(x)[e];
    if (i < 3)
      backend->upload(device->state, view[i], 0, i == 1 ? x->data : (const void *)host, size[i]);
    x->data = view[i];
  }
  if (args.workspace_bytes)
    backend->view(device->state, chunk, offset, args.workspace_bytes, &args.workspace);
  backend->zero(device->state, view[3], size[3]);
  args.add[0] = true;
  ac_status status = AC_OK;
  for (int i = 0; i < TIMES && status == AC_OK; i++) status = backend->run(device->state, &args);
  OP_EXPECT(where, status == AC_OK, "%s", ac_last_error());
  backend->download(device->state, view[3], 0, sums, sizeof sums);
  for (int k = 0; k < 3; k++) {
    double sum = (double)sums[2 * k] + (double)sums[2 * k + 1];
    OP_EXPECT(where, fabs(sum - expected[k]) <= relative[k] * fabs(expected[k]),
              "sum %d is %.12g, not %.12g", k, sum, expected[k]);
    OP_EXPECT(where, sums[2 * k] == (float)sum, "pair %d is not normalised: %.9g + %.9g", k,
              (double)sums[2 * k], (double)sums[2 * k + 1]);
  }
  if (args.workspace) backend->release_view(device->state, args.workspace);
  for (int i = 0; i < 5; i++) backend->release_view(device->state, view[i]);
  ac_device_release(device, chunk, total);
  op_instance_free(&one);
}

/* Also within one run the pair keeps what a double keeps: weights that are not round numbers. */
static void many_rows(ac_device *device) {
  op_instance loss;
  op_result result;
  op_variant variant = {.name = "weights of many rows", .once = true};
  op_instance_forward(&loss, &cases[1], 7);
  const char *where = op_where(device, &loss, &variant);
  if (op_run(device, &loss, &variant, &result)) {
    double got = result.out[0][2] + result.out[0][3], want = op_reals(&loss.args.out[0])[2];
    OP_EXPECT(where, fabs(got - want) <= 1e-12 * want, "the weight is %.15g, not %.15g", got, want);
  }
  op_result_free(&result);
  op_instance_free(&loss);
}

static void special(ac_device *device) {
  special_values(device);
  common_offsets(device);
  if (!op_reduced) many_rows(device);
  if (!op_reduced) long_sum(device);
}

const op_family op_family_cross_entropy = {"cross_entropy", cases,   sizeof cases / sizeof *cases,
                                           from_vector,     special, NULL};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  ac_cross_entropy_desc desc = {.ignore = op_draw_one_in(d, 2),
                                .ignore_index = op_draw_one_in(d, 2) ? -100 : 0,
                                .smoothing = op_draw_one_in(d, 2) ? 0 : 0.2f};
  ac_shape rows = x->shape;
  rows.rank--;
  op_drawn_leaf *targets = op_draw_input(d, AC_I32, &rows, 0, (double)ac_shape_last(&x->shape));
  targets->special = desc.ignore_index;
  targets->rare = desc.ignore ? 3 : 0;
  op_drawn_leaf *weights = op_draw_one_in(d, 2) ? NULL : op_draw_input(d, AC_F32, &rows, 0.1, 2);
  if (weights) weights->rare = 4;
  return ac_cross_entropy(x, targets->tensor, weights ? weights->tensor : NULL, &desc);
}

static void ties(op_ties *t, const ac_op_args *args) {
  const ac_operand *x = &args->in[0];
  int64_t columns = ac_columns(x);
  for (int64_t n = 0; n < ac_rows(x); n++)
    op_ties_classify(t, op_reals(x) + n * columns, columns, op_weight_of(&args->in[2], n));
}

const op_generator op_generator_cross_entropy = {
    .takes = op_takes_rows, .build = grow, .loss = true, OP_GRADIENTS(gradients), .ties = ties};
