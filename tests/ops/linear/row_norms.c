/* Cases and references of row_norms. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/linear/adapted.h"

#include <accrue/pointwise.h>
#include <math.h>

/* |W[o]| / |V[o]| - 1 and 1 / |V[o]|, V = W + s B A. */
static void row_norms(const ac_op_args *args) {
  const ac_row_norms_attributes *attributes = args->attributes;
  const int64_t rank = args->in[1].dim[0], in = args->in[1].dim[1], out = args->in[2].dim[0];
  const double *w = op_reals(&args->in[0]), *a = op_reals(&args->in[1]),
               *b = op_reals(&args->in[2]);
  for (int64_t o = 0; o < out; o++) {
    double before = 0, after = 0;
    for (int64_t i = 0; i < in; i++) {
      const double weight = attributes->layout == AC_OUT_IN ? w[o * in + i] : w[i * out + o];
      double v = weight;
      for (int64_t r = 0; r < rank; r++)
        v += (double)attributes->scale * b[o * rank + r] * a[r * in + i];
      before += weight * weight;
      after += v * v;
    }
    op_reals(&args->out[0])[o] = after == 0 ? 0 : sqrt(before / after) - 1;
    op_reals(&args->out[1])[o] = after == 0 ? 0 : 1 / sqrt(after);
  }
}

/* An element of V is a sum of `rank` products and one more; the relative error of a norm is that of
 * its elements at most, which are compared with the norm, and half that of the sum of squares. */
static op_tolerance row_norms_error(const ac_op_args *args, int output) {
  const ac_row_norms_attributes *attributes = args->attributes;
  const double element = op_sum_error(args->in[1].dim[0] + 1) * fabs((double)attributes->scale) *
                         op_largest(&args->in[1]) * op_largest(&args->in[2]);
  double inverse = 1;
  for (int64_t o = 0; o < args->out[1].count; o++)
    inverse = fmax(inverse, op_reals(&args->out[1])[o]);
  const double of_norm =
      element * sqrt((double)args->in[1].dim[1]) * inverse + op_sum_error(args->in[1].dim[1]);
  return output == 0 ? (op_tolerance){of_norm + OP_MATH_ERROR, of_norm + OP_MATH_ERROR}
                     : (op_tolerance){of_norm + OP_MATH_ERROR, 0};
}

const op_reference op_reference_row_norms = {row_norms, row_norms_error, true, false};

#define NORMS(name_, layout_, out_, in_, rank_, scale_, ...)                                     \
  {                                                                                              \
    .name = name_, .op = AC_OP_row_norms, .attributes.row_norms = {layout_, scale_}, .batch = 1, \
    .in = {__VA_ARGS__, OP_F32(rank_, in_), OP_F32(out_, rank_)}, .out = {                       \
      OP_F32(out_),                                                                              \
      OP_F32(out_)                                                                               \
    }                                                                                            \
  }

static const op_case cases[] = {
    NORMS("out_in 7x129, rank 3", AC_OUT_IN, 7, 129, 3, 0.5f, OP_F32(7, 129)),
    NORMS("in_out 70x33, rank 8", AC_IN_OUT, 70, 33, 8, 0.25f, OP_F32(33, 70)),
    NORMS("out_in 1x3, rank 1", AC_OUT_IN, 1, 3, 1, 0.1f, OP_RANGE(0.5, 1, 1, 3)),
    NORMS("in_out 1x2, rank 1", AC_IN_OUT, 1, 2, 1, 0.1f, OP_RANGE(0.5, 1, 2, 1)),
    NORMS("out_in 65x1041, rank 16", AC_OUT_IN, 65, 1041, 16, 2, OP_F32(65, 1041)),
    NORMS("in_out 130x600, rank 2", AC_IN_OUT, 130, 600, 2, 1, OP_F32(600, 130)),
};

/* Rows that are zero give zeros, not NaNs. */
static void special(ac_device *device) {
  op_instance y;
  op_result result;
  op_variant variant = {.name = "a zero row"};
  op_instance_forward(&y, &cases[0], 1);
  for (int i = 0; i < 129; i++) op_reals(&y.args.in[0])[2 * 129 + i] = 0;
  for (int r = 0; r < 3; r++) op_reals(&y.args.in[2])[2 * 3 + r] = 0;
  op_instance_compute(&y);
  const char *where = op_where(device, &y, &variant);
  if (op_run(device, &y, &variant, &result))
    OP_EXPECT(where, result.out[0][2] == 0 && result.out[1][2] == 0, "it gives %g and %g",
              result.out[0][2], result.out[1][2]);
  op_result_free(&result);
  op_instance_free(&y);
}

const op_family op_family_row_norms = {"row_norms", cases,   sizeof cases / sizeof *cases,
                                       NULL,        special, NULL};

static bool takes(const ac_shape *x) {
  return x->rank >= 2;
}

static ac_tensor *frozen(op_draw *d, double low, double high, int64_t rows, int64_t columns) {
  const ac_shape shape = {.rank = 2, .dim = {rows, columns}};
  return op_draw_view(op_draw_frozen(d, low, high, rows * columns), &shape);
}

/* Around a product, far from rows that are zero. The norms count as constants, so they are those of
 * frozen parameters: along others the loss would grow by more than the gradient says. */
static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  const int64_t in = ac_shape_last(&x->shape), out = op_draw_size(d, 9), rank = op_draw_size(d, 3);
  const ac_layout layout = op_draw_one_in(d, 2) ? AC_OUT_IN : AC_IN_OUT;
  const int64_t dim[] = {layout == AC_OUT_IN ? out : in, layout == AC_OUT_IN ? in : out};
  ac_tensor *weight = op_draw_parameter(d, 0.5, 1, 2, dim),
            *normed = frozen(d, 0.5, 1, dim[0], dim[1]), *down = frozen(d, -0.25, 0.25, rank, in),
            *up = frozen(d, -0.25, 0.25, out, rank), *inverse;
  ac_tensor *ratio = ac_row_norms(normed, down, up, layout, 0.5f, &inverse);
  ac_tensor *y = ac_linear(x, weight, NULL, layout);
  return op_draw_one_in(d, 2) ? ac_multiply(y, inverse) : ac_multiply(y, ac_add(ratio, inverse));
}

const op_generator op_generator_row_norms = {.takes = takes, .build = grow};
