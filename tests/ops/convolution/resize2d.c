/* Cases and references of resize2d. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>

typedef struct line {
  const ac_resize2d_attributes *a;
  double scale;
  int64_t image, result;
} line;

static line line_of(const ac_op_args *args, const ac_operand *x, const ac_operand *y, int axis) {
  const ac_resize2d_attributes *a = args->attributes;
  return (line){a, (double)a->scale[axis], x->dim[2 + axis], y->dim[2 + axis]};
}

static double keys(double distance) {
  const double d = fabs(distance), a = -0.75;
  if (d <= 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
  return d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0;
}

/* How much pixel h counts in element i of the result: by the distance from its position to h, and,
 * at an edge, to all places beyond it. */
static double weight(const line *x, int64_t i, int64_t h) {
  const double at = x->a->align_corners ? x->scale * (double)i : x->scale * ((double)i + 0.5) - 0.5;
  if (x->a->kind == AC_RESIZE_NEAREST) {
    const int64_t picked = (int64_t)floor((double)((float)x->scale * (float)i));
    return h == (picked < x->image ? picked : x->image - 1);
  }
  double sum = 0;
  for (int64_t p = -3; p < x->image + 3; p++) {
    const int64_t pixel = p < 0 ? 0 : p < x->image ? p : x->image - 1;
    if (pixel != h) continue;
    sum +=
        x->a->kind == AC_RESIZE_BICUBIC ? keys(at - (double)p) : fmax(0, 1 - fabs(at - (double)p));
  }
  return sum;
}

/* y += A x B^T of each plane, or, of gradients, x += A^T y B. */
static void resize(const ac_op_args *args, const ac_operand *x, const ac_operand *y, bool forward) {
  const line vertical = line_of(args, x, y, 0), horizontal = line_of(args, x, y, 1);
  const ac_operand *to = forward ? y : x;
  const int64_t H = x->dim[2], W = x->dim[3], h = y->dim[2], w = y->dim[3];
  for (int64_t e = 0; e < to->count; e++) op_reals(to)[e] = 0;
  for (int64_t i = 0; i < h * H; i++)
    for (int64_t j = 0; j < w * W; j++) {
      const double down = weight(&vertical, i / H, i % H);
      const double both = down != 0 ? down * weight(&horizontal, j / W, j % W) : 0;
      for (int64_t p = 0; both != 0 && p < x->dim[0] * x->dim[1]; p++) {
        double *image = op_reals(x) + (p * H + i % H) * W + j % W;
        double *result = op_reals(y) + (p * h + i / H) * w + j / W;
        if (forward) *result += both * *image;
        else *image += both * *result;
      }
    }
}

static void resize2d(const ac_op_args *args) {
  resize(args, &args->in[0], &args->out[0], true);
}
static void resize2d_gradient(const ac_op_args *args) {
  resize(args, &args->out[0], &args->in[0], false);
}

/* The largest sum of the weights, in magnitude, with which results are added up for a pixel. */
static double terms(const line *x) {
  double most = 1;
  for (int64_t h = 0; h < x->image; h++) {
    double sum = 0;
    for (int64_t i = 0; i < x->result; i++) sum += fabs(weight(x, i, h));
    most = fmax(most, sum);
  }
  return most;
}

/* Weights are off by what positions are, which are rounded as floats of the image's size: a weight
 * changes by up to 1.2 for a pixel. */
static op_tolerance error(const ac_op_args *args, const ac_operand *x, double sums) {
  const ac_resize2d_attributes *a = args->attributes;
  const double off = a->kind == AC_RESIZE_NEAREST ? 0 : 1.2 * 4 * (double)(x->dim[2] + x->dim[3]);
  const int64_t count = (int64_t)(16 * sums);
  return (op_tolerance){2, a->kind == AC_RESIZE_NEAREST && sums == 1
                               ? 0
                               : (op_sum_error(count) + sums * off) * op_largest(&args->in[0])};
}

static op_tolerance forward_error(const ac_op_args *args, int output) {
  (void)output;
  return error(args, &args->in[0], 1);
}

static op_tolerance gradient_error(const ac_op_args *args, int output) {
  const ac_operand *x = &args->out[0], *y = &args->in[0];
  (void)output;
  const line vertical = line_of(args, x, y, 0), horizontal = line_of(args, x, y, 1);
  return error(args, x, terms(&vertical) * terms(&horizontal));
}

const op_reference op_reference_resize2d = {resize2d, forward_error, true, false};
const op_reference op_reference_resize2d_gradient = {resize2d_gradient, gradient_error, true,
                                                     false};

static const op_gradient gradients[] = {
    {.op = AC_OP_resize2d_gradient, .in = {OP_DY}, .of = {0}, .outputs = 1},
};

#define RESIZE(name_, kind_, align_, scale_h, scale_w, batch_, x, y)                          \
  {                                                                                           \
    .name = name_, .op = AC_OP_resize2d,                                                      \
    .attributes.resize2d = {AC_RESIZE_##kind_, align_, {(float)(scale_h), (float)(scale_w)}}, \
    .batch = batch_, .in = {x}, .out = {y}, .gradients = gradients, .gradient_count = 1       \
  }
#define IMAGES(...) OP_F32(AC_BATCH, __VA_ARGS__)

static const op_case cases[] = {
    RESIZE("nearest by 2", NEAREST, 0, 0.5, 0.5, 3, IMAGES(5, 7, 6), IMAGES(5, 14, 12)),
    RESIZE("nearest by 3", NEAREST, 0, 1 / 3.0, 1 / 3.0, 2, IMAGES(2, 4, 33), IMAGES(2, 12, 99)),
    RESIZE("nearest, planes for threads", NEAREST, 0, 1 / 3.0, 1 / 3.0, 4, IMAGES(7, 9, 10),
           IMAGES(7, 27, 30)),
    RESIZE("nearest by 1", NEAREST, 0, 1, 1, 1, IMAGES(1, 3, 5), IMAGES(1, 3, 5)),
    RESIZE("nearest, smaller and larger", NEAREST, 0, 9 / 4.0, 5 / 7.0, 2, IMAGES(2, 9, 5),
           IMAGES(2, 4, 7)),
    RESIZE("bilinear by 2", BILINEAR, 0, 0.5, 0.5, 3, IMAGES(5, 7, 6), IMAGES(5, 14, 12)),
    RESIZE("bilinear, corners aligned", BILINEAR, 1, 6 / 12.0, 5 / 16.0, 2, IMAGES(3, 7, 6),
           IMAGES(3, 13, 17)),
    RESIZE("bilinear to less", BILINEAR, 0, 19 / 6.0, 21 / 8.0, 2, IMAGES(3, 19, 21),
           IMAGES(3, 6, 8)),
    RESIZE("bilinear of one pixel to many", BILINEAR, 0, 1 / 5.0, 1 / 40.0, 2, IMAGES(3, 1, 1),
           IMAGES(3, 5, 40)),
    RESIZE("bilinear, many to one", BILINEAR, 1, 0, 0, 2, IMAGES(3, 6, 5), IMAGES(3, 1, 1)),
    RESIZE("bilinear, planes for threads", BILINEAR, 0, 0.7, 1.3, 4, IMAGES(7, 14, 39),
           IMAGES(7, 20, 30)),
    RESIZE("bicubic by 2", BICUBIC, 0, 0.5, 0.5, 3, IMAGES(5, 7, 6), IMAGES(5, 14, 12)),
    RESIZE("bicubic, corners aligned", BICUBIC, 1, 6 / 12.0, 2 / 16.0, 2, IMAGES(3, 7, 3),
           IMAGES(3, 13, 17)),
    RESIZE("bicubic to less", BICUBIC, 0, 19 / 6.0, 21 / 8.0, 2, IMAGES(3, 19, 21),
           IMAGES(3, 6, 8)),
    RESIZE("bicubic of two pixels to many", BICUBIC, 0, 2 / 9.0, 1 / 30.0, 2, IMAGES(3, 2, 1),
           IMAGES(3, 9, 30)),
};

static void from_vector(op_case *result, const op_vector *vector) {
  result->op = AC_OP_resize2d;
  result->attributes.resize2d =
      (ac_resize2d_attributes){(int32_t)op_vector_attribute(vector, "kind", 0),
                               (int32_t)op_vector_attribute(vector, "align_corners", 0),
                               {(float)op_vector_attribute(vector, "scale_h", 1),
                                (float)op_vector_attribute(vector, "scale_w", 1)}};
  result->gradients = gradients;
  result->gradient_count = 1;
}

const op_family op_family_resize2d = {"resize2d",  cases, sizeof cases / sizeof *cases,
                                      from_vector, NULL,  NULL};

static bool takes(const ac_shape *x) {
  return op_takes_images(x) && ac_shape_count(x) <= OP_DRAW_ELEMENTS / 9;
}

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  ac_resize2d_desc desc = {.kind = (ac_resize_kind)op_draw_below(d, 3)};
  if (op_draw_one_in(d, 4)) return ac_upsample_nearest2d(x, 1 + op_draw_below(d, 3));
  for (int i = 0; i < 2; i++) {
    const int64_t most = 3 * x->shape.dim[2 + i];
    if (op_draw_one_in(d, 3)) desc.factor[i] = op_draw_between(d, 1, 3);
    else desc.size[i] = op_draw_size(d, (int)most);
  }
  desc.align_corners = desc.kind != AC_RESIZE_NEAREST && op_draw_one_in(d, 2);
  return ac_resize2d(x, &desc);
}

const op_generator op_generator_resize2d = {.takes = takes, .build = grow, OP_GRADIENTS(gradients)};
