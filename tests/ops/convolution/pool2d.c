/* Cases and references of max_pool2d and average_pool2d. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>
#include <stdlib.h>

/* One plane of an image, and of what it is pooled to. */
typedef struct planes {
  const ac_pool2d_attributes *a;
  double *x, *y; /* or their gradients */
  int64_t H, W, h, w;
} planes;

static int64_t plane_count(const ac_operand *x) {
  return x->dim[0] * x->dim[1];
}

static planes planes_at(const ac_op_args *args, const ac_operand *x, const ac_operand *y,
                        int64_t index) {
  planes p = {
      .a = args->attributes, .H = x->dim[2], .W = x->dim[3], .h = y->dim[2], .w = y->dim[3]};
  p.x = op_reals(x) + index * p.H * p.W;
  p.y = op_reals(y) + index * p.h * p.w;
  return p;
}

/* The index of tap k of output e's patch into the plane, or -1. */
static int64_t tap(const planes *p, int64_t e, int64_t k) {
  int64_t r = e / p->w * p->a->stride[0] - p->a->padding[0] + k / p->a->kernel[1];
  int64_t c = e % p->w * p->a->stride[1] - p->a->padding[1] + k % p->a->kernel[1];
  return r < 0 || r >= p->H || c < 0 || c >= p->W ? -1 : r * p->W + c;
}

static int64_t taps(const planes *p) {
  return p->a->kernel[0] * p->a->kernel[1];
}

/* The first largest, or a NaN. */
static int64_t largest(const planes *p, const double *x, int64_t e) {
  int64_t best = -1;
  for (int64_t k = 0; k < taps(p); k++) {
    int64_t at = tap(p, e, k);
    if (at >= 0 && (best < 0 || x[at] > x[best] || isnan(x[at]))) best = at;
  }
  return best;
}

static void max_pool2d(const ac_op_args *args) {
  for (int64_t i = 0; i < plane_count(&args->in[0]); i++) {
    planes p = planes_at(args, &args->in[0], &args->out[0], i);
    for (int64_t e = 0; e < p.h * p.w; e++) p.y[e] = p.x[largest(&p, p.x, e)];
  }
}

static void max_pool2d_gradient(const ac_op_args *args) {
  const ac_operand *dx = &args->out[0];
  for (int64_t e = 0; e < dx->count; e++) op_reals(dx)[e] = 0;
  for (int64_t i = 0; i < plane_count(dx); i++) {
    planes p = planes_at(args, dx, &args->in[0], i);
    const double *x = op_reals(&args->in[1]) + i * p.H * p.W;
    for (int64_t e = 0; e < p.h * p.w; e++) p.x[largest(&p, x, e)] += p.y[e];
  }
}

static void average_pool2d(const ac_op_args *args) {
  for (int64_t i = 0; i < plane_count(&args->in[0]); i++) {
    planes p = planes_at(args, &args->in[0], &args->out[0], i);
    for (int64_t e = 0; e < p.h * p.w; e++) {
      double sum = 0;
      for (int64_t k = 0; k < taps(&p); k++) sum += tap(&p, e, k) < 0 ? 0 : p.x[tap(&p, e, k)];
      p.y[e] = sum / (double)taps(&p);
    }
  }
}

static void average_pool2d_gradient(const ac_op_args *args) {
  const ac_operand *dx = &args->out[0];
  for (int64_t e = 0; e < dx->count; e++) op_reals(dx)[e] = 0;
  for (int64_t i = 0; i < plane_count(dx); i++) {
    planes p = planes_at(args, dx, &args->in[0], i);
    for (int64_t e = 0; e < p.h * p.w; e++)
      for (int64_t k = 0; k < taps(&p); k++)
        if (tap(&p, e, k) >= 0) p.x[tap(&p, e, k)] += p.y[e] / (double)taps(&p);
  }
}

/* A choice. */
static op_tolerance max_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

/* As many terms as a patch has taps, which is as many patches as an element may be in. */
static op_tolerance sum_error(const ac_op_args *args, int output) {
  const ac_pool2d_attributes *a = args->attributes;
  (void)output;
  return (op_tolerance){1, op_sum_error((int64_t)a->kernel[0] * a->kernel[1]) *
                               op_largest(&args->in[0])};
}

/* A patch's sum is divided by its taps. */
static op_tolerance average_error(const ac_op_args *args, int output) {
  const ac_pool2d_attributes *a = args->attributes;
  op_tolerance sum = sum_error(args, output);
  return (op_tolerance){2, 1 + sum.absolute / (a->kernel[0] * a->kernel[1])};
}

const op_reference op_reference_max_pool2d = {max_pool2d, max_error, true, false};
const op_reference op_reference_max_pool2d_gradient = {max_pool2d_gradient, sum_error, true, false};
const op_reference op_reference_average_pool2d = {average_pool2d, average_error, true, false};
const op_reference op_reference_average_pool2d_gradient = {average_pool2d_gradient, sum_error, true,
                                                           false};

static const op_gradient max_gradients[] = {
    {.op = AC_OP_max_pool2d_gradient,
     .in = {OP_DY, OP_INPUT(0)},
     .of = {0},
     .outputs = 1,
     .exact = true},
};
static const op_gradient average_gradients[] = {
    {.op = AC_OP_average_pool2d_gradient, .in = {OP_DY}, .of = {0}, .outputs = 1},
};

#define PAIR(...) \
  { __VA_ARGS__ }
#define POOL(kind, name_, kernel_, stride_, padding_, batch_, x, y)                            \
  {                                                                                            \
    .name = name_, .op = AC_OP_##kind##_pool2d,                                                \
    .attributes.pool2d = {.kernel = kernel_, .stride = stride_, .padding = padding_},          \
    .batch = batch_, .in = {x}, .out = {y}, .gradients = kind##_gradients, .gradient_count = 1 \
  }
#define IMAGES(...) OP_F32(AC_BATCH, __VA_ARGS__)

static const op_case cases[] = {
    POOL(max, "max 2x2 of 3x5x8x6", PAIR(2, 2), PAIR(2, 2), PAIR(0, 0), 3, IMAGES(5, 8, 6),
         IMAGES(5, 4, 3)),
    POOL(max, "max 3x3, stride 2, padding 1", PAIR(3, 3), PAIR(2, 2), PAIR(1, 1), 2,
         IMAGES(4, 9, 12), IMAGES(4, 5, 6)),
    POOL(max, "max of unequal axes", PAIR(4, 1), PAIR(1, 3), PAIR(2, 0), 2, IMAGES(3, 7, 40),
         IMAGES(3, 8, 14)),
    POOL(max, "max beyond the last patch", PAIR(2, 3), PAIR(3, 4), PAIR(0, 1), 1, IMAGES(2, 9, 10),
         IMAGES(2, 3, 3)),
    /* Enough planes for threads to share. */
    POOL(max, "max 3x3 of 3x17x22x26, padding 1", PAIR(3, 3), PAIR(2, 2), PAIR(1, 1), 3,
         IMAGES(17, 22, 26), IMAGES(17, 11, 13)),
    POOL(average, "average 2x2 of 3x5x8x6", PAIR(2, 2), PAIR(2, 2), PAIR(0, 0), 3, IMAGES(5, 8, 6),
         IMAGES(5, 4, 3)),
    POOL(average, "average 3x3, stride 1, padding 1", PAIR(3, 3), PAIR(1, 1), PAIR(1, 1), 2,
         IMAGES(4, 9, 33), IMAGES(4, 9, 33)),
    POOL(average, "average of unequal axes", PAIR(1, 5), PAIR(3, 2), PAIR(0, 2), 2,
         IMAGES(3, 7, 40), IMAGES(3, 3, 20)),
    POOL(average, "average of everything", PAIR(9, 11), PAIR(9, 11), PAIR(0, 0), 3,
         IMAGES(6, 9, 11), IMAGES(6, 1, 1)),
    POOL(average, "one patch larger than the plane", PAIR(4, 2), PAIR(2, 3), PAIR(2, 1), 2,
         IMAGES(5, 1, 2), IMAGES(5, 1, 1)),
    POOL(average, "one patch of a plane's size, shifted", PAIR(1, 2), PAIR(1, 3), PAIR(0, 1), 2,
         IMAGES(5, 1, 2), IMAGES(5, 1, 1)),
    POOL(average, "one of everything", PAIR(1, 1), PAIR(1, 1), PAIR(0, 0), 1, IMAGES(1, 1, 1),
         IMAGES(1, 1, 1)),
};

static void from_vector(op_case *result, const op_vector *vector) {
  ac_pool2d_attributes *a = &result->attributes.pool2d;
  bool max = op_vector_attribute(vector, "max", 0) != 0;
  result->op = max ? AC_OP_max_pool2d : AC_OP_average_pool2d;
  a->kernel[0] = (int32_t)op_vector_attribute(vector, "kernel_h", 1);
  a->kernel[1] = (int32_t)op_vector_attribute(vector, "kernel_w", 1);
  a->stride[0] = (int32_t)op_vector_attribute(vector, "stride_h", 1);
  a->stride[1] = (int32_t)op_vector_attribute(vector, "stride_w", 1);
  a->padding[0] = (int32_t)op_vector_attribute(vector, "padding_h", 0);
  a->padding[1] = (int32_t)op_vector_attribute(vector, "padding_w", 0);
  result->gradients = max ? max_gradients : average_gradients;
  result->gradient_count = 1;
}

/* Patches of equal elements, with a NaN, of nothing but -infinity: the first largest is chosen, a
 * NaN stays, and nothing but padding is passed over. */
static void special(ac_device *device) {
  op_instance y, dx;
  op_result result;
  op_variant variant = {.name = "equal, NaN and infinite elements"};
  op_instance_forward(&y, &cases[1], 2);
  double *x = op_reals(&y.args.in[0]);
  for (int64_t e = 0; e < 9 * 12; e++) x[e] = e % 12 < 6 ? 0.5 : -INFINITY;
  x[9 * 12 + 40] = NAN;
  op_instance_compute(&y);
  if (op_run(device, &y, &variant, &result))
    op_compare(op_where(device, &y, &variant), &y, &variant, &result, 1);
  op_result_free(&result);
  double *dy = op_random_gradient(&y);
  op_instance_gradient(&dx, &y, &max_gradients[0], dy);
  if (op_run(device, &dx, &variant, &result))
    op_compare(op_where(device, &dx, &variant), &dx, &variant, &result, 1);
  op_result_free(&result);
  free(dy);
  op_instance_free(&dx);
  op_instance_free(&y);
}

const op_family op_family_pool2d = {"pool2d",    cases,   sizeof cases / sizeof *cases,
                                    from_vector, special, NULL};

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  ac_pool2d_desc desc = {{0}, {0}, {0}};
  if (op_draw_one_in(d, 6)) return ac_global_average_pool(x);
  for (int i = 0; i < 2; i++) {
    int size = (int)x->shape.dim[2 + i];
    desc.kernel[i] = op_draw_size(d, 4);
    desc.stride[i] = op_draw_below(d, op_draw_one_in(d, 3) ? 7 : 4);
    desc.padding[i] = op_draw_below(d, desc.kernel[i] / 2 + 1);
    /* An image may be smaller than the kernel, with its padding it may not. */
    while (desc.kernel[i] > size + 2 * desc.padding[i])
      if (desc.padding[i] < desc.kernel[i] / 2) desc.padding[i]++;
      else desc.kernel[i]--, desc.padding[i] = desc.kernel[i] / 2;
  }
  return op_draw_one_in(d, 2) ? ac_max_pool2d(x, &desc) : ac_average_pool2d(x, &desc);
}

static int choose(const ac_op_args *forward, op_gradient *list, op_attributes *attributes) {
  (void)attributes;
  list[0] = forward->op == AC_OP_max_pool2d ? max_gradients[0] : average_gradients[0];
  return 1;
}

static void ties(op_ties *t, const ac_op_args *args) {
  if (args->op != AC_OP_max_pool2d) return;
  const ac_pool2d_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  int64_t H = x->dim[2], W = x->dim[3], h = y->dim[2], w = y->dim[3];
  for (int64_t e = 0; e < y->count; e++) {
    const double *plane = op_reals(x) + e / (h * w) * H * W;
    double best = -INFINITY, second = -INFINITY;
    for (int64_t k = 0; k < (int64_t)a->kernel[0] * a->kernel[1]; k++) {
      int64_t i = e / w % h * a->stride[0] - a->padding[0] + k / a->kernel[1];
      int64_t j = e % w * a->stride[1] - a->padding[1] + k % a->kernel[1];
      if (i < 0 || i >= H || j < 0 || j >= W) continue;
      double value = plane[i * W + j];
      if (value > best) second = best, best = value;
      else second = fmax(second, value);
    }
    op_ties_add(t, isinf(second) ? 0 : best - second);
  }
}

const op_generator op_generator_pool2d = {
    .takes = op_takes_images, .build = grow, .choose = choose, .ties = ties};
