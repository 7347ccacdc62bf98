/* Cases and references of linear. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/linear/adapted.h"
#include "ops/vector.h"

#include <math.h>
#include <string.h>

/* y[n,o] = sum_i x[n,i] W(o,i) + b[o] + sum_r u[n,r] B[o,r], where W(o,i) is weight[o*in+i] or
 * weight[i*out+o]. */
static inline int64_t at(const ac_linear_attributes *a, int64_t in, int64_t out, int64_t o,
                         int64_t i) {
  return a->layout == AC_OUT_IN ? o * in + i : i * out + o;
}

static void linear(const ac_op_args *args) {
  const ac_linear_attributes *a = args->attributes;
  int64_t rows = ac_rows(&args->in[0]), in = ac_columns(&args->in[0]);
  int64_t out = ac_columns(&args->out[0]);
  const double *x = op_reals(&args->in[0]), *w = op_reals(&args->in[1]);
  for (int64_t n = 0; n < rows; n++)
    for (int64_t o = 0; o < out; o++) {
      double sum = args->in[2].count ? op_reals(&args->in[2])[o] : 0;
      for (int64_t i = 0; i < in; i++) sum += x[n * in + i] * w[at(a, in, out, o, i)];
      const int64_t rank = args->in[3].count ? ac_columns(&args->in[3]) : 0;
      for (int64_t r = 0; r < rank; r++)
        sum += op_reals(&args->in[3])[n * rank + r] * op_reals(&args->in[4])[o * rank + r];
      op_reals(&args->out[0])[n * out + o] = sum;
    }
}

static op_tolerance linear_error(const ac_op_args *args, int output) {
  (void)output;
  return (op_tolerance){1, op_sum_error(ac_columns(&args->in[0])) * op_largest(&args->in[0]) *
                               op_largest(&args->in[1])};
}

/* Half a unit in the last place of a number in this storage, relative to it, in units of
 * FLT_EPSILON. */
static double storage_error(ac_dtype dtype) {
  return dtype == AC_F16 ? 4096 : dtype == AC_BF16 ? 32768 : 0.5;
}

/* What is there before an adapter's product is added has been stored once. */
static op_tolerance forward_error(const ac_op_args *args, int output) {
  op_tolerance t = linear_error(args, output);
  if (!args->in[3].count) return t;
  const double low = op_largest(&args->in[3]) * op_largest(&args->in[4]);
  t.absolute += op_sum_error(ac_columns(&args->in[3])) * low +
                storage_error(args->in[0].dtype) *
                    (op_largest(&args->out[0]) + low * (double)ac_columns(&args->in[3]));
  return t;
}

const op_reference op_reference_linear = {linear, forward_error, true, false};

static void linear_input_gradient(const ac_op_args *args) {
  const ac_linear_attributes *a = args->attributes;
  int64_t rows = ac_rows(&args->in[0]), out = ac_columns(&args->in[0]);
  int64_t in = ac_columns(&args->out[0]);
  const double *dy = op_reals(&args->in[0]), *w = op_reals(&args->in[1]);
  for (int64_t n = 0; n < rows; n++)
    for (int64_t i = 0; i < in; i++) {
      double sum = 0;
      for (int64_t o = 0; o < out; o++) sum += dy[n * out + o] * w[at(a, in, out, o, i)];
      op_reals(&args->out[0])[n * in + i] = sum;
    }
}

const op_reference op_reference_linear_input_gradient = {linear_input_gradient, linear_error, true,
                                                         false};

static void linear_weight_gradient(const ac_op_args *args) {
  const ac_linear_attributes *a = args->attributes;
  int64_t rows = ac_rows(&args->in[0]), in = ac_columns(&args->in[0]);
  int64_t out = ac_columns(&args->in[1]);
  const double *x = op_reals(&args->in[0]), *dy = op_reals(&args->in[1]);
  if (args->out[0].count)
    for (int64_t o = 0; o < out; o++)
      for (int64_t i = 0; i < in; i++) {
        double sum = 0;
        for (int64_t n = 0; n < rows; n++) sum += x[n * in + i] * dy[n * out + o];
        op_reals(&args->out[0])[at(a, in, out, o, i)] = sum;
      }
  if (args->out[1].count)
    for (int64_t o = 0; o < out; o++) {
      double sum = 0;
      for (int64_t n = 0; n < rows; n++) sum += dy[n * out + o];
      op_reals(&args->out[1])[o] = sum;
    }
}

static op_tolerance linear_weight_error(const ac_op_args *args, int output) {
  double x = output == 0 ? op_largest(&args->in[0]) : 1;
  return (op_tolerance){1, op_sum_error(ac_rows(&args->in[0])) * x * op_largest(&args->in[1])};
}

const op_reference op_reference_linear_weight_gradient = {linear_weight_gradient,
                                                          linear_weight_error, true, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_linear_input_gradient, .in = {OP_DY, OP_INPUT(1)}, .of = {0}, .outputs = 1},
    {.op = AC_OP_linear_weight_gradient,
     .in = {OP_INPUT(0), OP_DY},
     .of = {1, 2},
     .outputs = 2,
     .optional = true},
};

/* With an adapter: B is [out, r] whatever the layout of W. */
static const op_attributes out_in = {.linear = {.layout = AC_OUT_IN}};
static const op_gradient adapted_gradients[] = {
    {.op = AC_OP_linear_input_gradient, .in = {OP_DY, OP_INPUT(1)}, .of = {0}, .outputs = 1},
    {.op = AC_OP_linear_weight_gradient,
     .in = {OP_INPUT(0), OP_DY},
     .of = {1, 2},
     .outputs = 2,
     .optional = true},
    {.op = AC_OP_linear_input_gradient,
     .attributes = &out_in,
     .in = {OP_DY, OP_INPUT(4)},
     .of = {3},
     .outputs = 1},
    {.op = AC_OP_linear_weight_gradient,
     .attributes = &out_in,
     .in = {OP_INPUT(3), OP_DY},
     .of = {4},
     .outputs = 1},
};

#define ADAPTED(name_, layout_, batch_, in_, out_, rank_, weight, bias_)                          \
  {                                                                                               \
    .name = name_, .op = AC_OP_linear, .attributes.linear = {.layout = layout_}, .batch = batch_, \
    .in = {OP_F32(AC_BATCH, in_), weight, bias_, OP_F32(AC_BATCH, rank_), OP_F32(out_, rank_)},   \
    .out = {OP_F32(AC_BATCH, out_)}, .gradients = adapted_gradients, .gradient_count = 4          \
  }
#define NO_BIAS \
  { .rank = 0 }

#define LINEAR(name_, layout_, batch_, in_, out_, weight, ...)                                    \
  {                                                                                               \
    .name = name_, .op = AC_OP_linear, .attributes.linear = {.layout = layout_}, .batch = batch_, \
    .in = {OP_F32(AC_BATCH, in_), weight, __VA_ARGS__}, .out = {OP_F32(AC_BATCH, out_)},          \
    .gradients = gradients, .gradient_count = 2                                                   \
  }

static const op_case cases[] = {
    LINEAR("out_in 65x129->7", AC_OUT_IN, 65, 129, 7, OP_F32(7, 129), OP_F32(7)),
    LINEAR("in_out 65x129->7", AC_IN_OUT, 65, 129, 7, OP_F32(129, 7), OP_F32(7)),
    LINEAR("out_in 3x7->129", AC_OUT_IN, 3, 7, 129, OP_F32(129, 7)),
    LINEAR("in_out 3x7->129", AC_IN_OUT, 3, 7, 129, OP_F32(7, 129)),
    LINEAR("out_in 1x1->1", AC_OUT_IN, 1, 1, 1, OP_F32(1, 1), OP_F32(1)),
    LINEAR("in_out 1x129->65", AC_IN_OUT, 1, 129, 65, OP_F32(129, 65), OP_F32(65)),
    LINEAR("out_in 129x3->1", AC_OUT_IN, 129, 3, 1, OP_F32(1, 3), OP_F32(1)),
    LINEAR("out_in 64x128->128", AC_OUT_IN, 64, 128, 128, OP_F32(128, 128), OP_F32(128)),
    {.name = "in_out rank 3, 2x65x33->17",
     .op = AC_OP_linear,
     .attributes.linear = {.layout = AC_IN_OUT},
     .batch = 2,
     .in = {OP_F32(AC_BATCH, 65, 33), OP_F32(33, 17), OP_F32(17)},
     .out = {OP_F32(AC_BATCH, 65, 17)},
     .gradients = gradients,
     .gradient_count = 2},
    /* Several blocks of a product in 16 bits: of rows, columns and depth. */
    LINEAR("in_out 485x5->1041", AC_IN_OUT, 485, 5, 1041, OP_F32(5, 1041), OP_F32(1041)),
    LINEAR("out_in 7x300->9", AC_OUT_IN, 7, 300, 9, OP_F32(9, 300), OP_F32(9)),
    /* Of two threads in place of six the second has 140 rows, in two blocks of no more than 70. */
    {.name = "in_out 284x256->120",
     .op = AC_OP_linear,
     .attributes.linear = {.layout = AC_IN_OUT},
     .batch = 284,
     .in = {OP_F32(AC_BATCH, 256), OP_F32(256, 120), OP_F32(120)},
     .out = {OP_F32(AC_BATCH, 120)},
     .gradients = gradients,
     .gradient_count = 2,
     .halves = true},
    ADAPTED("adapted out_in 65x129->7, rank 3", AC_OUT_IN, 65, 129, 7, 3, OP_F32(7, 129),
            OP_F32(7)),
    ADAPTED("adapted in_out 65x33->70, rank 8", AC_IN_OUT, 65, 33, 70, 8, OP_F32(33, 70), NO_BIAS),
    ADAPTED("adapted out_in 1x5->1, rank 1", AC_OUT_IN, 1, 5, 1, 1, OP_F32(1, 5), NO_BIAS),
    ADAPTED("adapted out_in 64x128->128, rank 16", AC_OUT_IN, 64, 128, 128, 16, OP_F32(128, 128),
            NO_BIAS),
    /* Several blocks of the adapter's product in 16 bits. */
    ADAPTED("adapted in_out 485x5->1041, rank 4", AC_IN_OUT, 485, 5, 1041, 4, OP_F32(5, 1041),
            OP_F32(1041)),
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_linear;
  result->attributes.linear.layout = (ac_layout)op_vector_attribute(vector, "layout", 0);
  result->gradients = gradients;
  result->gradient_count = 2;
}

/* However large a product in 16 bits, the CPU takes scratch for one block of it a thread: up to 240
 * x 256 and 256 x 256 elements of its operands and 240 x 256 of its result, as floats. */
static void check_scratch(ac_device *device) {
  enum { M = 8192, K = 4096, N = 8192 };
  const ac_linear_attributes attributes = {.layout = AC_IN_OUT};
  const ac_operand x = {.dtype = AC_F16, .rank = 2, .dim = {M, K}, .count = M * K};
  const ac_operand w = {.dtype = AC_F16, .rank = 2, .dim = {K, N}, .count = K * N};
  const ac_operand y = {.dtype = AC_F16, .rank = 2, .dim = {M, N}, .count = M * N};
  const ac_run_state run = {.batch = M};
  const ac_op_args args = {
      .op = AC_OP_linear, .attributes = &attributes, .in = {x, w}, .out = {y}, .run = &run};
  if (strcmp(device->backend->name, "cpu") != 0) return;
  uint64_t bytes = device->backend->workspace(device->state, &args);
  OP_EXPECT("scratch of linear", bytes <= (uint64_t)device->info.compute_units << 20,
            "%llu bytes for %u threads", (unsigned long long)bytes,
            (unsigned)device->info.compute_units);
}

/* A NaN or infinity in an input reaches every sum it is part of, and no other; also where it meets
 * a zero, so that an overflow is never hidden. */
static void special(ac_device *device) {
  op_instance y;
  op_result result;
  op_variant variant = {.name = "NaN input"};
  check_scratch(device);
  op_instance_forward(&y, &cases[0], 65);
  op_reals(&y.args.in[0])[3 * 129 + 5] = NAN;
  op_reals(&y.args.in[0])[9 * 129 + 128] = INFINITY;
  for (int64_t o = 0; o < 7; o++) op_reals(&y.args.in[1])[o * 129 + 5] = 0;
  op_instance_compute(&y);
  if (op_run(device, &y, &variant, &result))
    op_compare(op_where(device, &y, &variant), &y, &variant, &result, 1);
  op_result_free(&result);
  op_instance_free(&y);
}

const op_family op_family_linear = {"linear",    cases,   sizeof cases / sizeof *cases,
                                    from_vector, special, NULL};

static bool takes(const ac_shape *x) {
  return x->rank >= 2;
}

/* The weight may be computed. */
/* By way of one or two blocks' width, with both layouts of matrices in blocks. */
static ac_tensor *by_blocks(op_draw *d, ac_tensor *x, int64_t in, int64_t out) {
  const int64_t width = op_draw_one_in(d, 2) ? 32 : 64;
  ac_tensor *wide =
      ac_linear(x, op_draw_blocks(d, sqrt(3 / (double)in), in, width), NULL, AC_IN_OUT);
  return ac_linear(wide, op_draw_blocks(d, sqrt(3 / (double)width), out, width),
                   op_draw_maybe_vector(d, -0.5, 0.5, out), AC_OUT_IN);
}

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  int64_t in = ac_shape_last(&x->shape), out = op_draw_size(d, 9);
  if (op_draw_one_in(d, 6)) return by_blocks(d, x, in, out);
  ac_layout layout = op_draw_one_in(d, 2) ? AC_OUT_IN : AC_IN_OUT;
  ac_shape shape = {.rank = 2,
                    .dim = {layout == AC_OUT_IN ? out : in, layout == AC_OUT_IN ? in : out}};
  ac_tensor *weight = op_draw_one_in(d, 3) ? op_draw_result(d, &shape) : NULL;
  if (!weight) weight = op_draw_weight(d, in, 2, shape.dim);
  ac_tensor *bias = op_draw_maybe_vector(d, -0.5, 0.5, out);
  if (!op_draw_one_in(d, 3)) return ac_linear(x, weight, bias, layout);
  const int64_t rank = op_draw_size(d, 4);
  ac_tensor *down = op_draw_weight(d, in, 2, (const int64_t[]){rank, in}),
            *up = op_draw_weight(d, rank, 2, (const int64_t[]){out, rank});
  return ac_linear_adapted(x, weight, bias, layout, ac_linear(x, down, NULL, AC_OUT_IN), up);
}

static int choose(const ac_op_args *forward, op_gradient *list, op_attributes *attributes) {
  (void)attributes;
  const int count = forward->in[3].count ? 4 : 2;
  memcpy(list, adapted_gradients, (size_t)count * sizeof *list);
  return count;
}

const op_generator op_generator_linear = {.takes = takes, .build = grow, .choose = choose};
