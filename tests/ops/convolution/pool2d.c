/* Cases and references of max_pool2d and average_pool2d. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* The patch of output i along axis `axis`: elements [first, end) of the image, and how many count
 * in an average. */
typedef struct patch {
  int64_t first, end, counted;
} patch;

static patch patch_of(const planes *p, int axis, int64_t i) {
  const ac_pool2d_attributes *a = p->a;
  const int64_t size = axis ? p->W : p->H, n = axis ? p->w : p->h, k = a->kernel[axis];
  if (k == 0) {
    const int64_t first = i * size / n, end = ((i + 1) * size + n - 1) / n;
    return (patch){first, end, end - first};
  }
  patch q = {0, 0, 0};
  for (int64_t t = 0; t < k; t++) {
    const int64_t at = i * a->stride[axis] - a->padding[axis] + t;
    const bool inside = at >= 0 && at < size;
    if (inside && q.end == 0) q.first = at;
    if (inside) q.end = at + 1;
    q.counted += inside || (!a->skip_padding && at < size + a->after[axis]);
  }
  return q;
}

/* Whether element `at` of the plane is in the patch of output e. */
static double share(const planes *p, int64_t e, int64_t at) {
  const patch r = patch_of(p, 0, e / p->w), c = patch_of(p, 1, e % p->w);
  const int64_t i = at / p->W, j = at % p->W;
  return i >= r.first && i < r.end && j >= c.first && j < c.end
             ? 1 / (double)(r.counted * c.counted)
             : 0;
}

/* The first largest, or a NaN. */
static int64_t largest(const planes *p, const double *x, int64_t e) {
  const patch r = patch_of(p, 0, e / p->w), c = patch_of(p, 1, e % p->w);
  int64_t best = -1;
  for (int64_t i = r.first; i < r.end; i++)
    for (int64_t j = c.first; j < c.end; j++) {
      const int64_t at = i * p->W + j;
      if (best < 0 || x[at] > x[best] || isnan(x[at])) best = at;
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

/* y = A x, and dx = A' dy, with A the shares of elements in patches. */
static void average_pool2d(const ac_op_args *args) {
  for (int64_t i = 0; i < plane_count(&args->in[0]); i++) {
    planes p = planes_at(args, &args->in[0], &args->out[0], i);
    for (int64_t e = 0; e < p.h * p.w; e++) {
      double sum = 0;
      for (int64_t at = 0; at < p.H * p.W; at++) {
        const double factor = share(&p, e, at);
        if (factor > 0) sum += factor * p.x[at];
      }
      p.y[e] = sum;
    }
  }
}

static void average_pool2d_gradient(const ac_op_args *args) {
  const ac_operand *dx = &args->out[0];
  for (int64_t e = 0; e < dx->count; e++) op_reals(dx)[e] = 0;
  for (int64_t i = 0; i < plane_count(dx); i++) {
    planes p = planes_at(args, dx, &args->in[0], i);
    for (int64_t e = 0; e < p.h * p.w; e++)
      for (int64_t at = 0; at < p.H * p.W; at++) {
        const double factor = share(&p, e, at);
        if (factor > 0) p.x[at] += factor * p.y[e];
      }
  }
}

/* A choice. */
static op_tolerance max_error(const ac_op_args *args, int output) {
  (void)args, (void)output;
  return (op_tolerance){0, 0};
}

/* As many terms as a patch has taps, which is as many patches as an element may be in. */
static int64_t terms(const ac_op_args *args) {
  const ac_pool2d_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  int64_t count = 1;
  for (int i = 0; i < 2; i++) {
    const int64_t larger = x->dim[2 + i] > y->dim[2 + i] ? x->dim[2 + i] : y->dim[2 + i];
    const int64_t fewer = x->dim[2 + i] + y->dim[2 + i] - larger;
    count *= a->kernel[i] ? a->kernel[i] : larger / fewer + 2;
  }
  return count;
}

static op_tolerance sum_error(const ac_op_args *args, int output) {
  (void)output;
  return (op_tolerance){1, op_sum_error(terms(args)) * op_largest(&args->in[0])};
}

/* A patch's sum is divided by its taps, at least by one. */
static op_tolerance average_error(const ac_op_args *args, int output) {
  const ac_pool2d_attributes *a = args->attributes;
  op_tolerance sum = sum_error(args, output);
  const bool whole = a->kernel[0] && a->kernel[1] && !a->skip_padding;
  return (op_tolerance){2, 1 + sum.absolute / (whole ? a->kernel[0] * a->kernel[1] : 1)};
}

/* And each dy by its own number. */
static op_tolerance average_gradient_error(const ac_op_args *args, int output) {
  op_tolerance sum = sum_error(args, output);
  return (op_tolerance){2, 1 + sum.absolute};
}

const op_reference op_reference_max_pool2d = {max_pool2d, max_error, true, false};
const op_reference op_reference_max_pool2d_gradient = {max_pool2d_gradient, sum_error, true, false};
const op_reference op_reference_average_pool2d = {average_pool2d, average_error, true, false};
const op_reference op_reference_average_pool2d_gradient = {average_pool2d_gradient,
                                                           average_gradient_error, true, false};

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
    .attributes.pool2d = {.kernel = kernel_,                                                   \
                          .stride = stride_,                                                   \
                          .padding = padding_,                                                 \
                          .after = padding_},                                                  \
    .batch = batch_, .in = {x}, .out = {y}, .gradients = kind##_gradients, .gradient_count = 1 \
  }
/* With all attributes. */
#define POOL_OF(kind, name_, batch_, x, y, ...)                                                \
  {                                                                                            \
    .name = name_, .op = AC_OP_##kind##_pool2d, .attributes.pool2d = {__VA_ARGS__},            \
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
    POOL(max, "max of everything", PAIR(9, 11), PAIR(9, 11), PAIR(0, 0), 3, IMAGES(2, 9, 11),
         IMAGES(2, 1, 1)),
    /* Patches that reach beyond the padding after the image (rounded up), other padding after than
     * before, padding that does not count, and patches by the number of the output; some of these
     * overlap. */
    POOL_OF(max, "max, rounded up", 2, IMAGES(3, 8, 10), IMAGES(3, 4, 5), .kernel = {3, 3},
            .stride = {2, 2}),
    POOL_OF(average, "average, rounded up", 2, IMAGES(3, 8, 10), IMAGES(3, 5, 4), .kernel = {3, 4},
            .stride = {2, 3}, .padding = {1, 1}, .after = {1, 1}),
    POOL_OF(max, "max, padding after the image", 2, IMAGES(3, 6, 7), IMAGES(3, 6, 7),
            .kernel = {2, 2}, .stride = {1, 1}, .after = {1, 1}),
    POOL_OF(average, "average, padding on one side each", 2, IMAGES(3, 6, 7), IMAGES(3, 6, 7),
            .kernel = {2, 2}, .stride = {1, 1}, .padding = {1, 0}, .after = {0, 1}),
    POOL_OF(average, "average, padding skipped", 2, IMAGES(3, 6, 33), IMAGES(3, 3, 17),
            .kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}, .after = {1, 1},
            .skip_padding = 1),
    POOL_OF(max, "max of 10x11 to 3x4", 2, IMAGES(3, 10, 11), IMAGES(3, 3, 4), .stride = {1, 1}),
    POOL_OF(average, "average of 10x11 to 3x4", 2, IMAGES(3, 10, 11), IMAGES(3, 3, 4),
            .stride = {1, 1}),
    POOL_OF(average, "average of 7x40 to 7x25", 2, IMAGES(3, 7, 40), IMAGES(3, 7, 25),
            .kernel = {1, 0}, .stride = {1, 1}),
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
  for (int i = 0; i < 2; i++) a->after[i] = a->padding[i];
  a->skip_padding = (int32_t)op_vector_attribute(vector, "skip_padding", 0);
  result->gradients = max ? max_gradients : average_gradients;
  result->gradient_count = 1;
}

/* Patches of equal elements, with a NaN, of nothing but -infinity: the first largest is chosen, a
 * NaN stays, and nothing but padding is passed over. */
static void check_special(ac_device *device, const op_case *c) {
  op_instance y, dx;
  op_result result;
  op_variant variant = {.name = "equal, NaN and infinite elements"};
  op_instance_forward(&y, c, 2);
  double *x = op_reals(&y.args.in[0]);
  const int64_t width = y.args.in[0].dim[3], size = y.args.in[0].dim[2] * width;
  for (int64_t e = 0; e < size; e++) x[e] = e % width < width / 2 ? 0.5 : -INFINITY;
  x[size + 40] = NAN;
  for (int64_t e = 2 * size; e < 3 * size; e++) x[e] = -INFINITY;
  x[3 * size + 7] = x[3 * size + 60] = NAN;
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

static void special(ac_device *device) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (strcmp(cases[i].name, "max 3x3, stride 2, padding 1") == 0 ||
        strcmp(cases[i].name, "max of everything") == 0)
      check_special(device, &cases[i]);
}

const op_family op_family_pool2d = {"pool2d",    cases,   sizeof cases / sizeof *cases,
                                    from_vector, special, NULL};

/* To a number of positions, of an image or of one that has its rows as planes of a volume. */
static ac_tensor *grow_adaptive(op_draw *d, ac_tensor *x) {
  int64_t outputs[3];
  const bool volume = op_draw_one_in(d, 2);
  ac_shape shape = x->shape;
  if (volume) {
    shape.rank = 5;
    shape.dim[4] = shape.dim[3];
    shape.dim[3] = 1;
  }
  for (int i = 2; i < shape.rank; i++) outputs[i - 2] = 1 + op_draw_below(d, (int)shape.dim[i]);
  x = volume ? op_draw_view(x, &shape) : x;
  ac_tensor *y = op_draw_one_in(d, 2) ? ac_adaptive_max_pool(x, shape.rank - 2, outputs)
                                      : ac_adaptive_average_pool(x, shape.rank - 2, outputs);
  if (!volume || !y) return y;
  shape = y->shape;
  shape.rank = 4;
  shape.dim[3] *= shape.dim[4];
  return op_draw_view(y, &shape);
}

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  ac_pool2d_desc desc = {.ceil = op_draw_one_in(d, 4), .skip_padding = op_draw_one_in(d, 4)};
  if (op_draw_one_in(d, 6))
    return op_draw_one_in(d, 2) ? ac_global_average_pool(x) : ac_global_max_pool(x);
  if (op_draw_one_in(d, 6)) return grow_adaptive(d, x);
  for (int i = 0; i < 2; i++) {
    int size = (int)x->shape.dim[2 + i];
    desc.kernel[i] = op_draw_size(d, 4);
    desc.stride[i] = op_draw_below(d, op_draw_one_in(d, 3) ? 7 : 4);
    desc.padding[i] = op_draw_below(d, desc.kernel[i] / 2 + 1);
    /* An image may be smaller than the kernel, with its padding it may not. */
    while (desc.kernel[i] > size + 2 * desc.padding[i])
      if (desc.padding[i] < desc.kernel[i] / 2) desc.padding[i]++;
      else desc.kernel[i]--, desc.padding[i] = desc.kernel[i] / 2;
    if (op_draw_one_in(d, 4) && desc.padding[i] < desc.kernel[i] / 2) desc.more_padding[i] = 1;
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
  for (int64_t n = 0; n < plane_count(&args->in[0]); n++) {
    const planes p = planes_at(args, &args->in[0], &args->out[0], n);
    for (int64_t e = 0; e < p.h * p.w; e++) {
      const patch r = patch_of(&p, 0, e / p.w), c = patch_of(&p, 1, e % p.w);
      double best = -INFINITY, second = -INFINITY;
      for (int64_t i = r.first; i < r.end; i++)
        for (int64_t j = c.first; j < c.end; j++) {
          const double value = p.x[i * p.W + j];
          if (value > best) second = best, best = value;
          else second = fmax(second, value);
        }
      op_ties_add(t, isinf(second) ? 0 : best - second);
    }
  }
}

const op_generator op_generator_pool2d = {
    .takes = op_takes_images, .build = grow, .choose = choose, .ties = ties};
