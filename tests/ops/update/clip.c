/* Cases and reference of clipping a gradient. */
#include "ops/driver.h"
#include "ops/generator.h"

#include <math.h>

static void clip_unit(const ac_op_args *args, int64_t first, int64_t stride, int64_t count) {
  const ac_clip_attributes *a = args->attributes;
  const double *g = op_reals(&args->in[0]), *p = op_reals(&args->in[1]);
  double *y = op_reals(&args->out[0]), of_g = 0, of_p = 0;
  for (int64_t i = 0, e = first; i < count; i++, e += stride)
    of_g += g[e] * g[e], of_p += p[e] * p[e];
  const double factor = (double)a->gradient_factor, norm = fabs(factor) * sqrt(of_g),
               most = (double)a->limit * fmax(sqrt(of_p), 1e-3);
  const double scale = norm < most ? factor : factor * most / fmax(norm, 1e-6);
  for (int64_t i = 0, e = first; i < count; i++, e += stride) y[e] = scale * g[e];
}

static void clip(const ac_op_args *args) {
  const ac_clip_attributes *a = args->attributes;
  const ac_operand *p = &args->in[1];
  const int64_t rows = p->rank > 1 ? p->dim[0] : 1, columns = p->count / rows;
  if (!a->adaptive)
    for (int64_t e = 0; e < p->count; e++) {
      const double g = (double)a->gradient_factor * op_reals(&args->in[0])[e];
      op_reals(&args->out[0])[e] = fmin(fmax(g, -(double)a->limit), (double)a->limit);
    }
  else if (a->by_column)
    for (int64_t j = 0; j < columns; j++) clip_unit(args, j, columns, rows);
  else
    for (int64_t i = 0; i < rows; i++) clip_unit(args, i * columns, 1, columns);
}

/* Sums of squares (the root halves their error), and some factors. */
static op_tolerance clip_error(const ac_op_args *args, int output) {
  (void)output;
  return (op_tolerance){8 + (double)args->in[1].count / 16, 2};
}

const op_reference op_reference_clip = {clip, clip_error, true, false};

#define CLIP(name_, value_, adaptive_, by_column_, ...)                                        \
  {                                                                                            \
    .name = name_, .op = AC_OP_clip, .attributes.clip = {0.5f, value_, adaptive_, by_column_}, \
    .batch = 1, .in = {OP_F32(__VA_ARGS__), OP_F32(__VA_ARGS__)}, .out = {                     \
      OP_F32(__VA_ARGS__)                                                                      \
    }                                                                                          \
  }

static const op_case cases[] = {
    CLIP("by value, 129x65", 0.25f, false, false, 129, 65),
    CLIP("by value, nothing", INFINITY, false, false, 7),
    CLIP("rows, all", 0.01f, true, false, 130, 67),
    CLIP("rows, some", 0.45f, true, false, 67, 33),
    CLIP("rows of filters", 0.4f, true, false, 5, 3, 3, 3),
    CLIP("columns, all", 0.01f, true, true, 67, 130),
    CLIP("columns, some", 0.45f, true, true, 33, 67),
    CLIP("a vector", 0.1f, true, false, 2051),
    CLIP("a number", 0.1f, true, false, 1),
    CLIP("none", 10, true, true, 9, 65),
};

/* Gradients are clipped like any other if floats do not hold their squares. */
static void special(ac_device *device) {
  static const double scales[] = {0x1p70, 0x1p100, 0x1p-70, 0x1p-90};
  op_variant variant = {.name = "large and small gradients", .once = true};
  for (size_t k = 2; k < 8; k++)
    for (int s = 0; s < 4; s++) {
      op_instance y;
      op_result result;
      op_instance_forward(&y, &cases[k], 1);
      for (int64_t e = 0; e < y.args.in[0].count; e++) op_reals(&y.args.in[0])[e] *= scales[s];
      y.attributes.clip.gradient_factor = (float)(0.5 / scales[s]);
      op_instance_compute(&y);
      if (op_run(device, &y, &variant, &result))
        op_compare(op_where(device, &y, &variant), &y, &variant, &result, 1);
      op_result_free(&result);
      op_instance_free(&y);
    }
}

const op_family op_family_clip = {"clip", cases, sizeof cases / sizeof *cases, NULL, special, NULL};

/* Plans put it before the steps of parameters. */
const op_generator op_generator_clip = {.takes = NULL};
