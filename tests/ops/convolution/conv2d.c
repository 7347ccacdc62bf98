/* Cases and references of conv2d. */
#include "ops/driver.h"
#include "ops/generator.h"
#include "ops/vector.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The convolution that an op belongs to, and what it does with products y[e] += W x[e * stride]. */
typedef struct convolution {
  const ac_conv2d_attributes *a;
  const ac_operand *x, *weight, *y;
} convolution;

typedef void (*step)(int64_t count, double *y, double *weight, double *x, int64_t stride);

/* Sizes of images and volumes alike: samples, channels, depth, height, width. */
typedef struct sizes {
  int64_t n, c, d, h, w;
} sizes;

static sizes sizes_of(const ac_operand *x) {
  const int64_t *dim = x->dim;
  if (x->rank == 5) return (sizes){dim[0], dim[1], dim[2], dim[3], dim[4]};
  return (sizes){dim[0], dim[1], 1, dim[2], dim[3]};
}

/* Visits every product of y[n,o,f,i,j] += W[o,c,b,r,t] x[n, g Ci/groups + c, f s - p + b d, i s - p
 * + r d, j s - p + t d] with x inside the image, those of a row of y at a time. */
static void visit(const convolution *v, step take) {
  const ac_conv2d_attributes *a = v->a;
  const sizes x = sizes_of(v->x), w = sizes_of(v->weight), y = sizes_of(v->y);
  double *weight = op_reals(v->weight);
  int64_t out = y.c / a->groups, stride = a->stride[1];
  for (int64_t n = 0; n < y.n; n++)
    for (int64_t o = 0; o < y.c; o++)
      for (int64_t e = 0; e < w.c * w.d * w.h * w.w; e++) {
        int64_t c = e / w.w / w.h / w.d, b = e / w.w / w.h % w.d, r = e / w.w % w.h, t = e % w.w;
        int64_t down = r * a->dilation[0] - a->padding[0], first = 0, last = y.w;
        int64_t right = t * a->dilation[1] - a->padding[1];
        while (first < last && first * stride + right < 0) first++;
        while (first < last && (last - 1) * stride + right >= x.w) last--;
        for (int64_t k = 0; k < y.d * y.h; k++) {
          int64_t f = k / y.h, i = k % y.h, h = i * a->stride[0] + down;
          int64_t z = f * a->depth_stride - a->depth_padding + b * a->depth_dilation;
          if (v->x->rank < 5) z = 0;
          if (h < 0 || h >= x.h || z < 0 || z >= x.d || first == last) continue;
          int64_t row = ((n * x.c + o / out * w.c + c) * x.d + z) * x.h + h;
          take(last - first, op_reals(v->y) + ((n * y.c + o) * y.d * y.h + k) * y.w + first,
               weight + o * w.c * w.d * w.h * w.w + e,
               op_reals(v->x) + row * x.w + first * stride + right, stride);
        }
      }
}

static void zero(const ac_operand *x) {
  for (int64_t e = 0; e < x->count; e++) op_reals(x)[e] = 0;
}

static void forward_step(int64_t count, double *y, double *weight, double *x, int64_t stride) {
  for (int64_t e = 0; e < count; e++) y[e] += *weight * x[e * stride];
}
static void input_step(int64_t count, double *dy, double *weight, double *dx, int64_t stride) {
  for (int64_t e = 0; e < count; e++) dx[e * stride] += *weight * dy[e];
}
static void weight_step(int64_t count, double *dy, double *dweight, double *x, int64_t stride) {
  for (int64_t e = 0; e < count; e++) *dweight += dy[e] * x[e * stride];
}

static void add_bias(const ac_operand *y, const ac_operand *bias) {
  int64_t pixels = y->count / y->dim[0] / y->dim[1];
  for (int64_t e = 0; bias->count && e < y->count; e++)
    op_reals(y)[e] += op_reals(bias)[e / pixels % y->dim[1]];
}

static void conv2d(const ac_op_args *args) {
  const ac_operand *y = &args->out[0];
  zero(y);
  visit(&(convolution){args->attributes, &args->in[0], &args->in[1], y}, forward_step);
  add_bias(y, &args->in[2]);
}

static void conv_transpose2d(const ac_op_args *args) {
  zero(&args->out[0]);
  visit(&(convolution){args->attributes, &args->out[0], &args->in[1], &args->in[0]}, input_step);
  add_bias(&args->out[0], &args->in[2]);
}

/* db[o] = sum_n,i,j dy */
static void conv2d_weight_gradient(const ac_op_args *args) {
  const ac_operand *dy = &args->in[1], *db = &args->out[1];
  zero(&args->out[0]);
  zero(db);
  if (args->out[0].count)
    visit(&(convolution){args->attributes, &args->in[0], &args->out[0], dy}, weight_step);
  int64_t pixels = dy->count / dy->dim[0] / dy->dim[1];
  for (int64_t e = 0; db->count && e < dy->count; e++)
    op_reals(db)[e / pixels % dy->dim[1]] += op_reals(dy)[e];
}

/* Sums over the inputs of a group and the kernel, or its outputs. */
static op_tolerance conv2d_error(const ac_op_args *args, int output) {
  const ac_operand *weight = &args->in[1];
  (void)output;
  int64_t terms = weight->count / weight->dim[0] + 1;
  return (op_tolerance){1,
                        op_sum_error(terms) * op_largest(&args->in[0]) * op_largest(&args->in[1])};
}

static op_tolerance transposed_error(const ac_op_args *args, int output) {
  const ac_conv2d_attributes *a = args->attributes;
  const ac_operand *weight = &args->in[1];
  (void)output;
  int64_t terms = weight->count / weight->dim[1] / a->groups + 1;
  return (op_tolerance){1,
                        op_sum_error(terms) * op_largest(&args->in[0]) * op_largest(&args->in[1])};
}

/* Sums over samples and positions. */
static op_tolerance conv2d_weight_error(const ac_op_args *args, int output) {
  const ac_operand *dy = &args->in[1];
  double x = output == 0 ? op_largest(&args->in[0]) : 1;
  return (op_tolerance){1, op_sum_error(dy->count / dy->dim[1]) * x * op_largest(dy)};
}

const op_reference op_reference_conv2d = {conv2d, conv2d_error, true, false};
const op_reference op_reference_conv_transpose2d = {conv_transpose2d, transposed_error, true,
                                                    false};
const op_reference op_reference_conv2d_weight_gradient = {conv2d_weight_gradient,
                                                          conv2d_weight_error, true, false};

static const op_gradient gradients[] = {
    {.op = AC_OP_conv_transpose2d, .in = {OP_DY, OP_INPUT(1)}, .of = {0}, .outputs = 1},
    {.op = AC_OP_conv2d_weight_gradient,
     .in = {OP_INPUT(0), OP_DY},
     .of = {1, 2},
     .outputs = 2,
     .optional = true},
};
/* Of the transposed one: its x is dy of the convolution, and its dy is x. */
static const op_gradient transposed_gradients[] = {
    {.op = AC_OP_conv2d, .in = {OP_DY, OP_INPUT(1)}, .of = {0}, .outputs = 1},
    {.op = AC_OP_conv2d_weight_gradient, .in = {OP_DY, OP_INPUT(0)}, .of = {1}, .outputs = 1},
};
static const op_attributes of_bias = {
    .reduce = {.kind = AC_REDUCE_SUM, .axes = 1u << 0 | 1u << 2 | 1u << 3, .divisor = 1}};
static const op_gradient bias_gradient = {
    .op = AC_OP_reduce, .attributes = &of_bias, .in = {OP_DY}, .of = {2}, .outputs = 1};

#define PAIR(...) \
  { __VA_ARGS__ }
#define CONV2D(name_, stride_, padding_, dilation_, groups_, batch_, x, y, ...)  \
  {                                                                              \
    .name = name_, .op = AC_OP_conv2d,                                           \
    .attributes.conv2d = {.stride = stride_,                                     \
                          .padding = padding_,                                   \
                          .dilation = dilation_,                                 \
                          .groups = groups_},                                    \
    .batch = batch_, .in = {x, __VA_ARGS__}, .out = {y}, .gradients = gradients, \
    .gradient_count = 2                                                          \
  }
#define TRANSPOSED(name_, stride_, padding_, dilation_, groups_, batch_, x, y, ...)         \
  {                                                                                         \
    .name = name_, .op = AC_OP_conv_transpose2d,                                            \
    .attributes.conv2d = {.stride = stride_,                                                \
                          .padding = padding_,                                              \
                          .dilation = dilation_,                                            \
                          .groups = groups_},                                               \
    .batch = batch_, .in = {x, __VA_ARGS__}, .out = {y}, .gradients = transposed_gradients, \
    .gradient_count = 2                                                                     \
  }
/* Of volumes: strides, paddings and dilations of depth, height and width. */
#define VOLUMES(op_, gradients_, name_, s0, s1, s2, p0, p1, p2, d0, d1, d2, groups_, batch_, x, y, \
                ...)                                                                               \
  {                                                                                                \
    .name = name_, .op = AC_OP_##op_,                                                              \
    .attributes.conv2d = {.stride = {s1, s2},                                                      \
                          .padding = {p1, p2},                                                     \
                          .dilation = {d1, d2},                                                    \
                          .groups = groups_,                                                       \
                          .depth_stride = s0,                                                      \
                          .depth_padding = p0,                                                     \
                          .depth_dilation = d0},                                                   \
    .batch = batch_, .in = {x, __VA_ARGS__}, .out = {y}, .gradients = gradients_,                  \
    .gradient_count = 2                                                                            \
  }
#define IMAGES(...) OP_F32(AC_BATCH, __VA_ARGS__)

static const op_case cases[] = {
    CONV2D("3x3 of 8 to 16, 3x9x7", PAIR(1, 1), PAIR(1, 1), PAIR(1, 1), 1, 3, IMAGES(8, 9, 7),
           IMAGES(16, 9, 7), OP_F32(16, 8, 3, 3), OP_F32(16)),
    CONV2D("1x1 without bias, 3x5x6", PAIR(1, 1), PAIR(0, 0), PAIR(1, 1), 1, 3, IMAGES(7, 5, 6),
           IMAGES(13, 5, 6), OP_F32(13, 7, 1, 1)),
    CONV2D("one of everything", PAIR(1, 1), PAIR(0, 0), PAIR(1, 1), 1, 1, IMAGES(1, 1, 1),
           IMAGES(1, 1, 1), OP_F32(1, 1, 1, 1), OP_F32(1)),
    CONV2D("unequal axes", PAIR(2, 3), PAIR(2, 1), PAIR(1, 2), 1, 2, IMAGES(3, 11, 14),
           IMAGES(5, 6, 5), OP_F32(5, 3, 4, 2), OP_F32(5)),
    CONV2D("stride beyond the kernel", PAIR(3, 2), PAIR(0, 0), PAIR(1, 1), 1, 2, IMAGES(2, 8, 7),
           IMAGES(4, 3, 4), OP_F32(4, 2, 2, 1)),
    CONV2D("stride and dilation share a factor", PAIR(2, 4), PAIR(2, 3), PAIR(2, 2), 1, 2,
           IMAGES(3, 9, 10), IMAGES(4, 5, 3), OP_F32(4, 3, 3, 3), OP_F32(4)),
    CONV2D("padding beyond the kernel", PAIR(1, 2), PAIR(3, 4), PAIR(1, 1), 1, 1, IMAGES(2, 3, 2),
           IMAGES(2, 8, 5), OP_F32(2, 2, 2, 1), OP_F32(2)),
    CONV2D("kernel of the whole image", PAIR(1, 1), PAIR(0, 0), PAIR(1, 1), 1, 3, IMAGES(5, 4, 6),
           IMAGES(9, 1, 1), OP_F32(9, 5, 4, 6), OP_F32(9)),
    CONV2D("three groups", PAIR(1, 2), PAIR(1, 1), PAIR(1, 1), 3, 2, IMAGES(6, 7, 8),
           IMAGES(15, 7, 4), OP_F32(15, 2, 3, 3), OP_F32(15)),
    CONV2D("groups of two outputs", PAIR(1, 1), PAIR(1, 0), PAIR(1, 1), 4, 2, IMAGES(12, 6, 5),
           IMAGES(8, 6, 3), OP_F32(8, 3, 3, 3)),
    CONV2D("depthwise", PAIR(1, 1), PAIR(1, 1), PAIR(1, 1), 6, 3, IMAGES(6, 9, 13),
           IMAGES(6, 9, 13), OP_F32(6, 1, 3, 3), OP_F32(6)),
    CONV2D("depthwise, blocks of rows and a last vector that overlaps, 11x53", PAIR(1, 1),
           PAIR(1, 1), PAIR(1, 1), 2, 2, IMAGES(2, 11, 53), IMAGES(2, 11, 53), OP_F32(2, 1, 3, 3),
           OP_F32(2)),
    CONV2D("depthwise, whole vectors only, 8x34", PAIR(1, 1), PAIR(0, 0), PAIR(1, 1), 2, 1,
           IMAGES(2, 8, 34), IMAGES(2, 6, 32), OP_F32(2, 1, 3, 3)),
    CONV2D("depthwise, rows two apart and two below each other", PAIR(2, 1), PAIR(2, 1), PAIR(2, 1),
           2, 2, IMAGES(2, 17, 20), IMAGES(2, 9, 20), OP_F32(2, 1, 3, 3), OP_F32(2)),
    CONV2D("depthwise, stride 2, wide, one to two", PAIR(2, 2), PAIR(1, 1), PAIR(1, 1), 2, 2,
           IMAGES(2, 14, 73), IMAGES(4, 7, 37), OP_F32(4, 1, 3, 3), OP_F32(4)),
    CONV2D("depthwise, more columns of the source than outputs need", PAIR(2, 1), PAIR(0, 0),
           PAIR(1, 3), 1, 1, IMAGES(1, 9, 40), IMAGES(1, 4, 34), OP_F32(1, 1, 3, 3)),
    CONV2D("depthwise, dilated, wide, 9x50", PAIR(1, 1), PAIR(2, 2), PAIR(2, 2), 2, 2,
           IMAGES(2, 9, 50), IMAGES(2, 9, 50), OP_F32(2, 1, 3, 3), OP_F32(2)),
    CONV2D("depthwise 2x3, 7x40", PAIR(1, 1), PAIR(0, 1), PAIR(1, 1), 2, 2, IMAGES(2, 8, 40),
           IMAGES(2, 7, 40), OP_F32(2, 1, 2, 3), OP_F32(2)),
    CONV2D("depthwise 3x4, 7x40", PAIR(1, 1), PAIR(1, 1), PAIR(1, 1), 2, 2, IMAGES(2, 7, 40),
           IMAGES(2, 7, 39), OP_F32(2, 1, 3, 4), OP_F32(2)),
    CONV2D("depthwise 4x3, 8x40", PAIR(1, 1), PAIR(1, 1), PAIR(1, 1), 2, 2, IMAGES(2, 8, 40),
           IMAGES(2, 7, 40), OP_F32(2, 1, 4, 3), OP_F32(2)),
    CONV2D("one channel, a thread's rows without a tap", PAIR(2, 1), PAIR(0, 0), PAIR(1, 1), 1, 1,
           IMAGES(1, 9, 20), IMAGES(1, 5, 20), OP_F32(1, 1, 1, 1)),
    CONV2D("depthwise 4x5, 6x21", PAIR(1, 1), PAIR(1, 2), PAIR(1, 1), 2, 2, IMAGES(2, 7, 21),
           IMAGES(2, 6, 21), OP_F32(2, 1, 4, 5), OP_F32(2)),
    CONV2D("depthwise 5x5, stride 2, one to two", PAIR(2, 2), PAIR(2, 2), PAIR(1, 1), 5, 2,
           IMAGES(5, 10, 9), IMAGES(10, 5, 5), OP_F32(10, 1, 5, 5), OP_F32(10)),
    CONV2D("depthwise, dilated, one to four", PAIR(1, 1), PAIR(2, 3), PAIR(2, 3), 3, 2,
           IMAGES(3, 7, 8), IMAGES(12, 7, 8), OP_F32(12, 1, 3, 3)),
    CONV2D("depthwise, outputs of no tap", PAIR(2, 2), PAIR(0, 0), PAIR(2, 2), 2, 2,
           IMAGES(2, 13, 14), IMAGES(2, 3, 3), OP_F32(2, 1, 5, 5), OP_F32(2)),
    CONV2D("depthwise, wide, stride 3", PAIR(1, 3), PAIR(1, 2), PAIR(1, 1), 2, 2, IMAGES(2, 4, 70),
           IMAGES(2, 4, 24), OP_F32(2, 1, 3, 4), OP_F32(2)),
    /* In pairs of channels, as bf16 has them: planes with a last pair that is half, wide rows, and
     * planes in two fillings; spread out though images are not small. */
    CONV2D("61 to 33 channels, 9x20", PAIR(1, 1), PAIR(1, 1), PAIR(1, 1), 1, 1, IMAGES(61, 9, 20),
           IMAGES(33, 9, 20), OP_F32(33, 61, 3, 3), OP_F32(33)),
    CONV2D("96 to 5 channels, stride 2, 20x130", PAIR(2, 2), PAIR(1, 1), PAIR(1, 1), 1, 1,
           IMAGES(96, 20, 130), IMAGES(5, 10, 65), OP_F32(5, 96, 3, 3)),
    CONV2D("8 to 34 channels, stride 2, 2x10x44", PAIR(2, 2), PAIR(1, 1), PAIR(1, 1), 1, 2,
           IMAGES(8, 10, 44), IMAGES(34, 5, 22), OP_F32(34, 8, 3, 3)),
    CONV2D("two groups of 5 to 9 channels, dilated, 13x40", PAIR(1, 1), PAIR(2, 2), PAIR(2, 2), 2,
           1, IMAGES(10, 13, 40), IMAGES(18, 13, 40), OP_F32(18, 5, 3, 3)),
    /* The same, and each row of outputs by itself: of several blocks of channels and samples; with
     * rows that meet no tap, or a gap between taps; in planes of residues. */
    CONV2D("rows of whole strips, 66 to 5 channels, 2x5x64", PAIR(1, 1), PAIR(1, 1), PAIR(1, 1), 1,
           2, IMAGES(66, 5, 64), IMAGES(5, 5, 64), OP_F32(5, 66, 3, 3), OP_F32(5)),
    CONV2D("rows of whole strips, 32 to 33 channels, 2x4x32", PAIR(1, 1), PAIR(1, 1), PAIR(1, 1), 1,
           2, IMAGES(32, 4, 32), IMAGES(33, 4, 32), OP_F32(33, 32, 3, 3), OP_F32(33)),
    CONV2D("rows of whole strips beyond the image, dilated, 5x32", PAIR(1, 1), PAIR(4, 1),
           PAIR(3, 1), 1, 1, IMAGES(32, 5, 32), IMAGES(3, 10, 32), OP_F32(3, 32, 2, 3)),
    CONV2D("rows of whole strips, stride 2, 2x9x64", PAIR(2, 2), PAIR(2, 1), PAIR(1, 1), 1, 2,
           IMAGES(32, 9, 64), IMAGES(3, 6, 32), OP_F32(3, 32, 3, 3)),
    /* Spread out in the stage with vectors of 16, the first of 8 as well; the last in several
     * fillings. */
    CONV2D("small images, 2x4x4", PAIR(1, 1), PAIR(1, 1), PAIR(1, 1), 1, 2, IMAGES(97, 4, 4),
           IMAGES(98, 4, 4), OP_F32(98, 97, 3, 3), OP_F32(98)),
    CONV2D("small images, stride 2, 2x7x7", PAIR(2, 2), PAIR(1, 1), PAIR(1, 1), 1, 2,
           IMAGES(50, 7, 7), IMAGES(50, 4, 4), OP_F32(50, 50, 3, 3), OP_F32(50)),
    CONV2D("small images, dilated, two groups, 2x4x4", PAIR(1, 1), PAIR(2, 2), PAIR(2, 2), 2, 2,
           IMAGES(100, 4, 4), IMAGES(102, 4, 4), OP_F32(102, 50, 3, 3)),
    CONV2D("small images, more channels than are held, 32x2x2", PAIR(1, 1), PAIR(1, 1), PAIR(1, 1),
           1, 32, IMAGES(116, 2, 2), IMAGES(17, 2, 2), OP_F32(17, 116, 3, 3)),
    CONV2D("small images, wider than a vector, 2x1x17", PAIR(1, 1), PAIR(0, 1), PAIR(1, 1), 1, 2,
           IMAGES(3, 1, 17), IMAGES(120, 1, 17), OP_F32(120, 3, 1, 3), OP_F32(120)),
    CONV2D("first layer 4x28x28", PAIR(2, 2), PAIR(1, 1), PAIR(1, 1), 1, 4, IMAGES(1, 28, 28),
           IMAGES(16, 14, 14), OP_F32(16, 1, 3, 3), OP_F32(16)),
    CONV2D("many channels 2x4x3", PAIR(1, 1), PAIR(1, 1), PAIR(1, 1), 1, 2, IMAGES(40, 4, 3),
           IMAGES(41, 4, 3), OP_F32(41, 40, 3, 3), OP_F32(41)),
    CONV2D("more channels than are held, 80x42x40", PAIR(1, 1), PAIR(1, 0), PAIR(1, 1), 1, 1,
           IMAGES(80, 42, 40), IMAGES(2, 42, 40), OP_F32(2, 80, 3, 1)),
    CONV2D("positions in three chunks, two groups, 3x41x27", PAIR(1, 1), PAIR(1, 1), PAIR(1, 1), 2,
           3, IMAGES(4, 41, 27), IMAGES(6, 41, 27), OP_F32(6, 2, 3, 3), OP_F32(6)),
    CONV2D("one column, stride beyond it", PAIR(1, 2), PAIR(0, 0), PAIR(1, 1), 1, 2,
           IMAGES(3, 9, 1), IMAGES(4, 9, 1), OP_F32(4, 3, 1, 1)),
    CONV2D("one column, 3x1, stride beyond it", PAIR(1, 3), PAIR(1, 0), PAIR(1, 1), 1, 2,
           IMAGES(3, 9, 1), IMAGES(4, 9, 1), OP_F32(4, 3, 3, 1), OP_F32(4)),
    CONV2D("one column, stride along it", PAIR(2, 1), PAIR(0, 0), PAIR(1, 1), 1, 2, IMAGES(3, 9, 1),
           IMAGES(4, 4, 1), OP_F32(4, 3, 2, 1)),
    CONV2D("one column, 4x1 without padding, 3x5x1", PAIR(1, 1), PAIR(0, 0), PAIR(1, 1), 1, 3,
           IMAGES(4, 5, 1), IMAGES(5, 2, 1), OP_F32(5, 4, 4, 1)),
    CONV2D("one column, 2x1, dilated by 3, 3x6x1", PAIR(1, 1), PAIR(0, 0), PAIR(3, 1), 1, 3,
           IMAGES(4, 6, 1), IMAGES(5, 3, 1), OP_F32(5, 4, 2, 1)),
    CONV2D("one row, stride beyond it", PAIR(2, 1), PAIR(0, 0), PAIR(1, 1), 1, 2, IMAGES(3, 1, 9),
           IMAGES(4, 1, 7), OP_F32(4, 3, 1, 3)),
    CONV2D("1x1, stride across rows", PAIR(2, 1), PAIR(0, 0), PAIR(1, 1), 1, 2, IMAGES(3, 9, 5),
           IMAGES(4, 5, 5), OP_F32(4, 3, 1, 1)),
    CONV2D("1x1, stride along rows", PAIR(1, 2), PAIR(0, 0), PAIR(1, 1), 1, 2, IMAGES(3, 9, 5),
           IMAGES(4, 9, 3), OP_F32(4, 3, 1, 1)),
    CONV2D("3x1 without padding", PAIR(1, 1), PAIR(0, 0), PAIR(1, 1), 1, 2, IMAGES(3, 9, 5),
           IMAGES(4, 7, 5), OP_F32(4, 3, 3, 1)),
    CONV2D("2x1, padding of rows alone", PAIR(1, 1), PAIR(1, 0), PAIR(1, 1), 1, 2, IMAGES(3, 4, 5),
           IMAGES(4, 5, 5), OP_F32(4, 3, 2, 1)),
    CONV2D("1x2, a column less", PAIR(1, 1), PAIR(0, 0), PAIR(1, 1), 1, 2, IMAGES(3, 4, 5),
           IMAGES(4, 4, 4), OP_F32(4, 3, 1, 2)),
    CONV2D("stride 3 along a row of several blocks", PAIR(1, 3), PAIR(0, 1), PAIR(1, 1), 1, 1,
           IMAGES(1, 1, 931), IMAGES(1, 1, 311), OP_F32(1, 1, 1, 3), OP_F32(1)),
    /* By matrix units in several passes over positions, the last one short: columns of 324 rows, of
     * which an emulated unit takes 64 positions at a time; sums of weights in two chunks at a
     * time, of seven; a group with channels enough and one side without. */
    CONV2D("passes over positions, two groups, stride 2, 4x15x9", PAIR(2, 1), PAIR(1, 1),
           PAIR(1, 1), 2, 4, IMAGES(36, 15, 9), IMAGES(34, 8, 9), OP_F32(34, 18, 3, 3), OP_F32(34)),
    CONV2D("passes over chunks of positions, 4x10x10", PAIR(1, 1), PAIR(1, 1), PAIR(1, 1), 1, 4,
           IMAGES(16, 10, 10), IMAGES(16, 10, 10), OP_F32(16, 16, 3, 3), OP_F32(16)),
    CONV2D("1x1, stride 2, 5x9x8", PAIR(2, 2), PAIR(0, 0), PAIR(1, 1), 1, 5, IMAGES(32, 9, 8),
           IMAGES(24, 5, 4), OP_F32(24, 32, 1, 1), OP_F32(24)),
    /* By tiles of 2 x 2 outputs, where there are enough channels and tiles. */
    CONV2D("tiles, 2x10x8", PAIR(1, 1), PAIR(1, 1), PAIR(1, 1), 1, 2, IMAGES(16, 10, 8),
           IMAGES(32, 10, 8), OP_F32(32, 16, 3, 3), OP_F32(32)),
    CONV2D("tiles cut at both edges, channels beyond a vector, 3x9x13", PAIR(1, 1), PAIR(1, 1),
           PAIR(1, 1), 1, 3, IMAGES(19, 9, 13), IMAGES(37, 9, 13), OP_F32(37, 19, 3, 3),
           OP_F32(37)),
    CONV2D("tiles without padding, 3x11x8", PAIR(1, 1), PAIR(0, 0), PAIR(1, 1), 1, 3,
           IMAGES(17, 11, 8), IMAGES(21, 9, 6), OP_F32(21, 17, 3, 3)),
    CONV2D("tiles with wide padding, 2x6x7", PAIR(1, 1), PAIR(2, 2), PAIR(1, 1), 1, 2,
           IMAGES(18, 6, 7), IMAGES(16, 8, 9), OP_F32(16, 18, 3, 3), OP_F32(16)),
    CONV2D("tiles with unequal padding, 2x5x40", PAIR(1, 1), PAIR(0, 2), PAIR(1, 1), 1, 2,
           IMAGES(16, 5, 40), IMAGES(16, 3, 42), OP_F32(16, 16, 3, 3), OP_F32(16)),
    CONV2D("tiles of small images, 40x2x3", PAIR(1, 1), PAIR(1, 1), PAIR(1, 1), 1, 40,
           IMAGES(16, 2, 3), IMAGES(70, 2, 3), OP_F32(70, 16, 3, 3), OP_F32(70)),
    /* Padding after the image that is not as before it, also of less than nothing: patches, and
     * whole tiles and rows of outputs, that lie beyond it, and elements that nothing meets. */
    CONV2D("by tiles, much padding after alone", PAIR(1, 1), PAIR(0, 0), PAIR(1, 1), 1, 1,
           IMAGES(16, 9, 9), IMAGES(16, 13, 15), OP_F32(16, 16, 3, 3), OP_F32(16)),
    CONV2D("by tiles, elements left out after", PAIR(1, 1), PAIR(1, 2), PAIR(1, 1), 1, 2,
           IMAGES(17, 14, 15), IMAGES(18, 9, 7), OP_F32(18, 17, 3, 3), OP_F32(18)),
    CONV2D("small images, much padding after alone, 17x3x2", PAIR(1, 1), PAIR(0, 0), PAIR(1, 1), 1,
           17, IMAGES(4, 3, 2), IMAGES(5, 5, 6), OP_F32(5, 4, 2, 3), OP_F32(5)),
    CONV2D("small images, elements left out after, stride 2, 17x6x6", PAIR(2, 2), PAIR(1, 0),
           PAIR(1, 1), 1, 17, IMAGES(4, 6, 6), IMAGES(5, 2, 1), OP_F32(5, 4, 2, 3)),
    CONV2D("wide rows, much padding after alone", PAIR(1, 1), PAIR(0, 0), PAIR(1, 1), 1, 1,
           IMAGES(5, 3, 70), IMAGES(3, 6, 150), OP_F32(3, 5, 2, 2), OP_F32(3)),
    CONV2D("depthwise, much padding after alone", PAIR(1, 1), PAIR(0, 1), PAIR(1, 1), 3, 2,
           IMAGES(3, 5, 20), IMAGES(3, 9, 60), OP_F32(3, 1, 3, 3), OP_F32(3)),
    CONV2D("depthwise, elements left out after", PAIR(1, 1), PAIR(2, 1), PAIR(1, 1), 3, 2,
           IMAGES(3, 9, 60), IMAGES(3, 4, 20), OP_F32(3, 1, 3, 3), OP_F32(3)),
    CONV2D("tiles, more channels than a step of the sums, 8x4x4", PAIR(1, 1), PAIR(1, 1),
           PAIR(1, 1), 1, 8, IMAGES(130, 4, 4), IMAGES(17, 4, 4), OP_F32(17, 130, 3, 3),
           OP_F32(17)),
    /* With samples next to each other, as bf16 has them: a set of them that is not whole, a pair
     * that is half; two sets; groups; an image in several regions, and a kernel of more than
     * 16 taps. */
    CONV2D("many samples, 30x4x4", PAIR(1, 1), PAIR(1, 1), PAIR(1, 1), 1, 30, IMAGES(61, 4, 4),
           IMAGES(33, 4, 4), OP_F32(33, 61, 3, 3), OP_F32(33)),
    CONV2D("many samples, unequal axes, 32x9x10", PAIR(2, 3), PAIR(2, 1), PAIR(1, 2), 1, 32,
           IMAGES(32, 9, 10), IMAGES(31, 5, 4), OP_F32(31, 32, 4, 2), OP_F32(31)),
    CONV2D("many samples, two groups, dilated, 16x5x7", PAIR(1, 1), PAIR(4, 3), PAIR(2, 2), 2, 16,
           IMAGES(64, 5, 7), IMAGES(6, 5, 7), OP_F32(6, 32, 5, 4)),
    CONV2D("many samples, regions of an image, 32 channels to 1, 16x62x10", PAIR(1, 1), PAIR(1, 1),
           PAIR(1, 1), 1, 16, IMAGES(32, 62, 10), IMAGES(1, 62, 10), OP_F32(1, 32, 3, 3)),
    CONV2D("many samples, regions of an image, stride 2, 1 channel to 32, 16x124x20", PAIR(2, 2),
           PAIR(1, 1), PAIR(1, 1), 1, 16, IMAGES(1, 124, 20), IMAGES(32, 62, 10),
           OP_F32(32, 1, 3, 3)),
    /* The same with kernels of 1 x 1 that leave positions out: at the end, and at the beginning. */
    CONV2D("many samples, 1x1, stride 2, 16x5x7", PAIR(2, 2), PAIR(0, 0), PAIR(1, 1), 1, 16,
           IMAGES(32, 5, 7), IMAGES(32, 3, 4), OP_F32(32, 32, 1, 1), OP_F32(32)),
    CONV2D("many samples, 1x1, unequal strides and padding, 32x8x9", PAIR(3, 2), PAIR(1, 3),
           PAIR(1, 1), 1, 32, IMAGES(61, 8, 9), IMAGES(31, 4, 8), OP_F32(31, 61, 1, 1)),
    CONV2D("many samples, 1x1, stride 3 along rows, two groups, 16x3x8", PAIR(1, 3), PAIR(0, 0),
           PAIR(1, 1), 2, 16, IMAGES(64, 3, 8), IMAGES(64, 3, 3), OP_F32(64, 32, 1, 1)),
    CONV2D("many samples, 1x1, regions of an image, 32 channels to 1, 16x62x19", PAIR(1, 2),
           PAIR(0, 0), PAIR(1, 1), 1, 16, IMAGES(32, 62, 19), IMAGES(1, 62, 10),
           OP_F32(1, 32, 1, 1)),
    CONV2D("many samples, 1x1, regions of an image, 1 channel to 32, 16x124x10", PAIR(2, 1),
           PAIR(0, 0), PAIR(1, 1), 1, 16, IMAGES(1, 124, 10), IMAGES(32, 62, 10),
           OP_F32(32, 1, 1, 1)),
    /* The gradient of few weights, for which samples are parted, and not equally. */
    CONV2D("1x1, many outputs, 3x33x40", PAIR(1, 1), PAIR(0, 0), PAIR(1, 1), 1, 3,
           IMAGES(9, 33, 40), IMAGES(5, 33, 40), OP_F32(5, 9, 1, 1), OP_F32(5)),
    CONV2D("more sums than are held, 1x2x700", PAIR(1, 1), PAIR(0, 1), PAIR(1, 1), 1, 1,
           IMAGES(1, 2, 700), IMAGES(100, 2, 700), OP_F32(100, 1, 1, 3), OP_F32(100)),
    /* Padding of one side alone, or less of one than none: a kernel of even size that keeps an
     * image's, and elements that no output meets. */
    CONV2D("4x4 of the same size, 2x9x7", PAIR(1, 1), PAIR(1, 1), PAIR(1, 1), 1, 2, IMAGES(3, 9, 7),
           IMAGES(5, 9, 7), OP_F32(5, 3, 4, 4), OP_F32(5)),
    CONV2D("padding after the image alone, by tiles, 2x10x9", PAIR(1, 1), PAIR(0, 0), PAIR(1, 1), 1,
           2, IMAGES(16, 10, 9), IMAGES(32, 13, 10), OP_F32(32, 16, 3, 3), OP_F32(32)),
    CONV2D("padding before, and an image cut after it, 2x6x40", PAIR(1, 2), PAIR(2, 1), PAIR(1, 1),
           1, 2, IMAGES(32, 6, 40), IMAGES(5, 4, 16), OP_F32(5, 32, 3, 3)),
    CONV2D("many samples, padding after the image, 16x5x4", PAIR(1, 1), PAIR(0, 0), PAIR(1, 1), 1,
           16, IMAGES(32, 5, 4), IMAGES(33, 6, 5), OP_F32(33, 32, 3, 3), OP_F32(33)),
    CONV2D("depthwise, padding after the image, 2x9x20", PAIR(1, 2), PAIR(1, 0), PAIR(1, 1), 2, 2,
           IMAGES(2, 9, 20), IMAGES(2, 10, 10), OP_F32(2, 1, 3, 3)),
    /* Transposed, in the ways that input gradients go: rows and columns that meet no tap have the
     * bias alone. */
    TRANSPOSED("transposed 2x2, stride 2, 3x5x6", PAIR(2, 2), PAIR(0, 0), PAIR(1, 1), 1, 3,
               IMAGES(8, 5, 6), IMAGES(6, 10, 12), OP_F32(8, 6, 2, 2), OP_F32(6)),
    TRANSPOSED("transposed 3x4, unequal axes, output padding", PAIR(3, 2), PAIR(1, 2), PAIR(1, 1),
               1, 2, IMAGES(5, 4, 7), IMAGES(3, 12, 13), OP_F32(5, 3, 3, 4), OP_F32(3)),
    TRANSPOSED("transposed, outputs of no tap", PAIR(3, 3), PAIR(0, 0), PAIR(3, 1), 1, 2,
               IMAGES(4, 4, 5), IMAGES(6, 14, 14), OP_F32(4, 6, 2, 1), OP_F32(6)),
    TRANSPOSED("transposed, tiles, 2x10x8", PAIR(1, 1), PAIR(1, 1), PAIR(1, 1), 1, 2,
               IMAGES(16, 10, 8), IMAGES(32, 10, 8), OP_F32(16, 32, 3, 3), OP_F32(32)),
    TRANSPOSED("transposed, three groups, dilated", PAIR(1, 2), PAIR(1, 1), PAIR(2, 2), 3, 2,
               IMAGES(6, 7, 4), IMAGES(15, 9, 9), OP_F32(6, 5, 3, 3), OP_F32(15)),
    TRANSPOSED("transposed, depthwise, stride 2", PAIR(2, 2), PAIR(1, 1), PAIR(1, 1), 6, 2,
               IMAGES(6, 7, 11), IMAGES(6, 13, 21), OP_F32(6, 1, 3, 3), OP_F32(6)),
    TRANSPOSED("transposed, many samples, stride 2, 32x4x5", PAIR(2, 2), PAIR(1, 1), PAIR(1, 1), 1,
               32, IMAGES(32, 4, 5), IMAGES(31, 8, 10), OP_F32(32, 31, 4, 4), OP_F32(31)),
    TRANSPOSED("transposed, many samples, 1x1, stride 2, 16x3x4", PAIR(2, 2), PAIR(0, 0),
               PAIR(1, 1), 1, 16, IMAGES(32, 3, 4), IMAGES(32, 6, 7), OP_F32(32, 32, 1, 1),
               OP_F32(32)),
    VOLUMES(conv2d, gradients, "volumes 3x3x3, 2x5x6x7", 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2,
            IMAGES(3, 5, 6, 7), IMAGES(5, 5, 6, 7), OP_F32(5, 3, 3, 3, 3), OP_F32(5)),
    VOLUMES(conv2d, gradients, "volumes, unequal axes, two groups", 2, 1, 3, 2, 1, 0, 1, 2, 1, 2, 2,
            IMAGES(4, 7, 8, 9), IMAGES(6, 5, 6, 3), OP_F32(6, 2, 3, 3, 2), OP_F32(6)),
    VOLUMES(conv2d, gradients, "volumes, stride and dilation of the depth share a factor", 4, 1, 1,
            3, 0, 0, 2, 1, 1, 1, 2, IMAGES(3, 10, 3, 4), IMAGES(4, 3, 3, 4), OP_F32(4, 3, 3, 1, 1)),
    VOLUMES(conv2d, gradients, "volumes by tiles, 2x4x7x6", 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2,
            IMAGES(16, 4, 7, 6), IMAGES(17, 4, 7, 6), OP_F32(17, 16, 3, 3, 3), OP_F32(17)),
    VOLUMES(conv2d, gradients, "volumes in blocks, 3x9x50x50", 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3,
            IMAGES(6, 9, 50, 50), IMAGES(2, 9, 50, 50), OP_F32(2, 6, 3, 3, 3), OP_F32(2)),
    VOLUMES(conv2d, gradients, "volumes of planes of one, many samples", 1, 1, 1, 0, 0, 0, 1, 1, 1,
            1, 20, IMAGES(16, 6, 1, 1), IMAGES(32, 4, 1, 1), OP_F32(32, 16, 3, 1, 1), OP_F32(32)),
    VOLUMES(conv_transpose2d, transposed_gradients, "transposed volumes, stride 2, 2x3x4x5", 2, 2,
            2, 1, 1, 1, 1, 1, 1, 1, 2, IMAGES(5, 3, 4, 5), IMAGES(4, 6, 8, 10),
            OP_F32(5, 4, 4, 4, 4), OP_F32(4)),
    VOLUMES(conv_transpose2d, transposed_gradients, "transposed volumes, planes of no tap", 3, 1, 1,
            0, 0, 0, 3, 1, 1, 1, 2, IMAGES(4, 4, 3, 3), IMAGES(6, 14, 4, 4), OP_F32(4, 6, 2, 2, 2),
            OP_F32(6)),
};

static void from_vector(op_case *result, const op_vector *vector) {
  ac_conv2d_attributes *a = &result->attributes.conv2d;
  const bool transposed = op_vector_attribute(vector, "transposed", 0) != 0;
  result->op = transposed ? AC_OP_conv_transpose2d : AC_OP_conv2d;
  a->stride[0] = (int32_t)op_vector_attribute(vector, "stride_h", 1);
  a->stride[1] = (int32_t)op_vector_attribute(vector, "stride_w", 1);
  a->padding[0] = (int32_t)op_vector_attribute(vector, "padding_h", 0);
  a->padding[1] = (int32_t)op_vector_attribute(vector, "padding_w", 0);
  a->dilation[0] = (int32_t)op_vector_attribute(vector, "dilation_h", 1);
  a->dilation[1] = (int32_t)op_vector_attribute(vector, "dilation_w", 1);
  a->groups = (int32_t)op_vector_attribute(vector, "groups", 1);
  a->depth_stride = (int32_t)op_vector_attribute(vector, "stride_d", 1);
  a->depth_padding = (int32_t)op_vector_attribute(vector, "padding_d", 0);
  a->depth_dilation = (int32_t)op_vector_attribute(vector, "dilation_d", 1);
  result->gradients = transposed ? transposed_gradients : gradients;
  result->gradient_count = 2;
}

/* A NaN or an infinity reaches the outputs with patches that contain it, and no other: not those of
 * the next row or image, with which it may share memory. */
static void check_spread(ac_device *device, const op_case *c) {
  op_instance y, dx;
  op_result result;
  op_variant variant = {.name = "NaN input"};
  op_instance_forward(&y, c, c->batch);
  int64_t last = y.args.in[0].count - 1, columns = ac_columns(&y.args.in[0]);
  op_reals(&y.args.in[0])[last] = NAN;
  op_reals(&y.args.in[0])[columns - 1] = INFINITY;
  op_instance_compute(&y);
  if (op_run(device, &y, &variant, &result))
    op_compare(op_where(device, &y, &variant), &y, &variant, &result, 1);
  op_result_free(&result);
  double *dy = op_random_gradient(&y);
  dy[y.args.out[0].count - 1] = NAN;
  dy[ac_columns(&y.args.out[0]) - 1] = INFINITY;
  op_instance_gradient(&dx, &y, &gradients[0], dy);
  variant.name = "NaN gradient";
  if (op_run(device, &dx, &variant, &result))
    op_compare(op_where(device, &dx, &variant), &dx, &variant, &result, 1);
  op_result_free(&result);
  free(dy);
  op_instance_free(&dx);
  op_instance_free(&y);
}

/* Whether every element that should not be finite is not, and else only such as lie in the same
 * square of so many rows and columns of a plane. */
static void expect_spread(const char *where, const ac_operand *y, const double *got, int64_t side) {
  const double *want = op_reals(y);
  int64_t height = y->dim[2], width = y->dim[3];
  for (int64_t e = 0; e < y->count; e++) {
    const int64_t j = e % width, i = e / width % height;
    const double *square = want + e - i % side * width - j % side;
    bool near = false;
    for (int64_t r = 0; r < side && i - i % side + r < height; r++)
      for (int64_t t = 0; t < side && j - j % side + t < width; t++)
        near |= !isfinite(square[r * width + t]);
    OP_EXPECT(where, isfinite(want[e]) ? near || isfinite(got[e]) : !isfinite(got[e]),
              "element %d: %g, not %g", (int)e, got[e], want[e]);
  }
}

/* By tiles, what meets a NaN or an infinity is not finite either, and of the others only outputs of
 * the same tile, and weights of the same kernel, may not be. */
static void check_spread_in_tiles(ac_device *device, const op_case *c) {
  op_instance y, g;
  op_result result;
  op_variant variant = {.name = "NaN in a tile", .once = true};
  op_instance_forward(&y, c, c->batch);
  double *x = op_reals(&y.args.in[0]), *dy = op_random_gradient(&y);
  x[y.args.in[0].count - 1] = NAN;
  x[ac_columns(&y.args.in[0]) + 1] = INFINITY;
  dy[y.args.out[0].count - 1] = NAN;
  dy[0] = -INFINITY;
  op_instance_compute(&y);
  if (op_run(device, &y, &variant, &result))
    expect_spread(op_where(device, &y, &variant), &y.args.out[0], result.out[0], 2);
  op_result_free(&result);
  for (int i = 0; i < 2; i++) {
    op_instance_gradient(&g, &y, &gradients[i], dy);
    if (op_run(device, &g, &variant, &result))
      expect_spread(op_where(device, &g, &variant), &g.args.out[0], result.out[0], 2 + i);
    op_result_free(&result);
    op_instance_free(&g);
  }
  free(dy);
  op_instance_free(&y);
}

static ac_operand shape_of(int64_t a, int64_t b, int64_t c, int64_t d) {
  return (ac_operand){.dtype = AC_F32, .rank = 4, .dim = {a, b, c, d}, .count = a * b * c * d};
}

/* OpenCL's kernels count positions and the terms of a sum in 32 bits, so more are not supported.
 */
static void check_limits(ac_device *device) {
  static const struct {
    int64_t images, side, in, out;
    int kernel, stride;
    bool fits, input_gradient_fits;
  } limits[] = {
      {1, 1 << 14, 2, 3, 1, 1, true, true},   {3, 1 << 14, 2, 3, 1, 1, true, true},
      {8, 1 << 14, 2, 3, 1, 1, false, false}, {8, 1 << 14, 2, 3, 1, 2, true, false},
      {1, 1 << 16, 2, 3, 1, 1, false, false}, {1, 1, 1 << 28, 1, 3, 1, false, false},
      {1, 1, 1, 1 << 28, 3, 1, false, false}, {1, 1, 1 << 10, 1 << 10, 3, 1, true, true},
  };
  if (device->backend->is_host) return; /* it counts in 64 bits */
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    int64_t n = limits[i].images, side = limits[i].side, k = limits[i].kernel;
    int64_t in = limits[i].in, out = limits[i].out;
    const int stride = limits[i].stride, padding = limits[i].kernel / 2;
    const ac_conv2d_attributes attributes = {
        .stride = {stride, stride}, .padding = {padding, padding}, .dilation = {1, 1}, .groups = 1};
    const ac_operand x = shape_of(n, in, side, side);
    const ac_operand y = shape_of(n, out, side / stride, side / stride);
    const ac_operand w = shape_of(out, in, k, k);
    const ac_op_args all[] = {
        {.op = AC_OP_conv2d, .in = {x, w}, .out = {y}},
        {.op = AC_OP_conv_transpose2d, .in = {y, w}, .out = {x}},
        {.op = AC_OP_conv2d_weight_gradient, .in = {x, y}, .out = {w}},
    };
    for (int o = 0; o < 3; o++) {
      ac_op_args args = all[o];
      const bool input = args.op == AC_OP_conv_transpose2d;
      args.attributes = &attributes;
      OP_EXPECT("limits of conv2d",
                device->backend->supports(device->state, &args) ==
                    (input ? limits[i].input_gradient_fits : limits[i].fits),
                "%s of row %d", ac_op_name(args.op), (int)i);
    }
  }
}

/* The input gradient of a kernel as large as its stride, of bf16: each output meets one tap. */
static void check_workspace_of_patches(ac_device *device) {
  enum { SAMPLES = 16, CHANNELS = 32, SIDE = 24, KERNEL = 16 };
  const ac_conv2d_attributes a = {.stride = {KERNEL, KERNEL}, .dilation = {1, 1}, .groups = 1};
  ac_op_args args = {.op = AC_OP_conv_transpose2d, .attributes = &a};
  args.in[0] = shape_of(SAMPLES, CHANNELS, SIDE, SIDE);
  args.in[1] = shape_of(CHANNELS, CHANNELS, KERNEL, KERNEL);
  args.out[0] = shape_of(SAMPLES, CHANNELS, SIDE * KERNEL, SIDE * KERNEL);
  args.in[0].dtype = args.in[1].dtype = args.out[0].dtype = AC_BF16;
  const uint64_t bytes = device->backend->workspace(device->state, &args);
  const uint64_t most =
      (uint64_t)args.in[1].count * sizeof(float) + ((uint64_t)device->info.compute_units << 22);
  OP_EXPECT("workspace of patches", bytes <= most, "%llu bytes, not %llu",
            (unsigned long long)bytes, (unsigned long long)most);
}

/* Few channels in pairs, of bf16: no room for the 16 pairs of a step that they do not fill. */
static void check_workspace_of_few_channels(ac_device *device) {
  const ac_conv2d_attributes a = {
      .stride = {1, 1}, .padding = {2, 2}, .dilation = {1, 1}, .groups = 1};
  ac_op_args args = {.op = AC_OP_conv2d, .attributes = &a};
  args.in[0] = shape_of(32, 2, 32, 32);
  args.in[1] = shape_of(64, 2, 5, 5);
  args.out[0] = shape_of(32, 64, 32, 32);
  args.in[0].dtype = args.in[1].dtype = args.out[0].dtype = AC_BF16;
  const uint64_t bytes = device->backend->workspace(device->state, &args);
  const uint64_t most = (64 << 10) + ((uint64_t)device->info.compute_units << 19);
  OP_EXPECT("workspace of few channels", bytes <= most, "%llu bytes, not %llu",
            (unsigned long long)bytes, (unsigned long long)most);
}

/* The CPU takes a copy of the weights, or sums as large, and for each thread what its caches hold:
 * 512 KiB of the image, 256 KiB of sums and some more, however tall the image. */
static void check_workspace(ac_device *device) {
  enum { CHANNELS = 64, HEIGHT = 4096, WIDTH = 256 };
  if (strcmp(device->backend->name, "cpu") != 0) return;
  for (int stride = 1; stride <= 2; stride++) {
    const ac_conv2d_attributes a = {
        .stride = {stride, stride}, .padding = {1, 1}, .dilation = {1, 1}, .groups = 1};
    const ac_operand x = shape_of(1, CHANNELS, HEIGHT, WIDTH);
    const ac_operand y = shape_of(1, CHANNELS, HEIGHT / stride, WIDTH / stride);
    const ac_operand w = shape_of(CHANNELS, CHANNELS, 3, 3);
    const ac_op_args all[] = {
        {.op = AC_OP_conv2d, .attributes = &a, .in = {x, w}, .out = {y}},
        {.op = AC_OP_conv_transpose2d, .attributes = &a, .in = {y, w}, .out = {x}},
        {.op = AC_OP_conv2d_weight_gradient, .attributes = &a, .in = {x, y}, .out = {w}},
    };
    for (int o = 0; o < 3; o++) {
      uint64_t bytes = device->backend->workspace(device->state, &all[o]);
      uint64_t most = (uint64_t)w.count * sizeof(float);
      most += (uint64_t)device->info.compute_units << 20;
      OP_EXPECT("workspace of conv2d", bytes <= most, "%s, stride %d: %llu bytes, not %llu",
                ac_op_name(all[o].op), stride, (unsigned long long)bytes, (unsigned long long)most);
    }
  }
  check_workspace_of_patches(device);
  check_workspace_of_few_channels(device);
}

/* One axis of a geometry: sizes of one, images smaller than the kernel, steps beyond it, taps that
 * no output uses. A `flat` axis has one of everything. */
static void draw_axis(op_draw *d, ac_conv2d_attributes *a, int i, bool flat, int64_t *size,
                      int64_t *kernel, int64_t *outputs) {
  a->stride[i] = a->dilation[i] = 1;
  *size = *kernel = *outputs = 1;
  if (flat) return;
  *size = op_draw_size(d, op_draw_one_in(d, 8) ? 40 : 9);
  *kernel = op_draw_size(d, 5);
  if (op_draw_one_in(d, 2)) a->stride[i] = op_draw_size(d, 5);
  if (op_draw_one_in(d, 2)) a->dilation[i] = op_draw_size(d, 4);
  const int64_t span = a->dilation[i] * (*kernel - 1) + 1;
  const int64_t least = span > *size ? (span - *size + 1) / 2 : 0;
  a->padding[i] = (int32_t)least + (op_draw_one_in(d, 2) ? 0 : op_draw_below(d, (int)span + 1));
  /* One time in three with another padding after the image than before it. */
  int64_t padded = *size + 2 * a->padding[i];
  if (op_draw_one_in(d, 3)) padded += op_draw_below(d, 7) - 3;
  if (padded < span) padded = span;
  *outputs = (padded - span) / a->stride[i] + 1;
}

/* Small, so that the reference is quick: channels go down until it is. Some have many samples, and
 * as many channels on one side as a step of products of bf16 has. */
static void draw_geometry(op_case *c, op_draw *d) {
  enum { MOST_PRODUCTS = 60000, MOST_OF_MANY = 300000 };
  ac_conv2d_attributes *a = &c->attributes.conv2d;
  int64_t size[2], kernel[2], outputs[2];
  const int flat = op_draw_below(d, 5);
  for (int i = 0; i < 2; i++) draw_axis(d, a, i, i == flat, &size[i], &kernel[i], &outputs[i]);
  c->op = AC_OP_conv2d;
  c->batch = 1 + op_draw_below(d, 9);
  a->groups = op_draw_one_in(d, 3) ? op_draw_size(d, 5) : 1;
  int64_t in = op_draw_size(d, 20), out = op_draw_size(d, 40), all;
  const int many = op_draw_one_in(d, 4) ? 1 + op_draw_below(d, 2) : 0;
  const int64_t wide = (op_draw_one_in(d, 4) ? 60 : 29) + op_draw_below(d, 4);
  if (many) c->batch = 8 + op_draw_below(d, 30);
  if (many == 1) in = wide;
  if (many == 2) out = wide;
  const int64_t most = many ? MOST_OF_MANY : MOST_PRODUCTS;
  while ((all = c->batch * a->groups * in * out * kernel[0] * kernel[1] * outputs[0] * outputs[1]),
         all > most && in * out > 1) {
    const bool keep_in = many == 1 && out > 1, keep_out = many == 2 && in > 1;
    if (!keep_in) in = (in + 1) / 2;
    if (!keep_out) out = (out + 1) / 2;
  }
  const int64_t I = in * a->groups, O = out * a->groups;
  c->in[0] = (op_operand_spec)IMAGES(I, size[0], size[1]);
  c->in[1] = (op_operand_spec)OP_F32(O, in, kernel[0], kernel[1]);
  if (op_draw_one_in(d, 2)) c->in[2] = (op_operand_spec)OP_F32(O);
  c->out[0] = (op_operand_spec)IMAGES(O, outputs[0], outputs[1]);
  c->gradients = gradients;
  c->gradient_count = 2;
}

static void special(ac_device *device) {
  op_check_drawn(&op_family_conv2d, device, draw_geometry);
  check_limits(device);
  check_workspace(device);
  check_spread(device, &cases[0]);
  check_spread(device, &cases[3]);
  check_spread(device, &cases[10]);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (strncmp(cases[i].name, "tiles", 5) == 0) check_spread_in_tiles(device, &cases[i]);
}

const op_family op_family_conv2d = {"conv2d",    cases,   sizeof cases / sizeof *cases,
                                    from_vector, special, NULL};

/* The pixels as one row or one column. */
static ac_tensor *draw_line(ac_tensor *x, int flat) {
  ac_shape line = x->shape;
  line.dim[3 - flat] = line.dim[2] * line.dim[3];
  line.dim[2 + flat] = 1;
  return op_draw_view(x, &line);
}

/* Plain, in groups or by channel; in one of three cases with steps or gaps far from 1, in one of
 * four along a single row or column. */
typedef struct drawn {
  int groups;
  int stride[2], padding[2], dilation[2], more[2], kernel[2];
} drawn;

static drawn draw(op_draw *d, const ac_tensor *x, int flat, bool transposed) {
  const int64_t channels = x->shape.dim[1];
  const bool far = op_draw_one_in(d, 3);
  drawn c = {.groups = 1};
  if (op_draw_one_in(d, 2))
    c.groups = op_draw_one_in(d, 2) ? (int)channels : op_draw_divisor(d, channels);
  for (int i = 0; i < 2; i++) {
    const int size = (int)x->shape.dim[2 + i];
    c.kernel[i] = i == flat ? 1 : op_draw_size(d, 4);
    c.stride[i] = 1 + op_draw_below(d, far ? 5 : 2);
    c.padding[i] = i == flat ? 0 : op_draw_below(d, far ? 5 : 3);
    c.dilation[i] = 1 + op_draw_below(d, far ? 4 : 2);
    if (transposed) {
      const int whole = (size - 1) * c.stride[i] + c.dilation[i] * (c.kernel[i] - 1) + 1;
      while (whole <= 2 * c.padding[i]) c.padding[i]--;
      if (i != flat) c.more[i] = op_draw_below(d, c.stride[i]);
      continue;
    }
    if (i != flat && op_draw_one_in(d, 3)) c.more[i] = op_draw_below(d, 5) - 2;
    while (size + 2 * c.padding[i] + c.more[i] < 1) c.more[i]++;
    while (c.dilation[i] * (c.kernel[i] - 1) + 1 > size + 2 * c.padding[i] + c.more[i])
      c.kernel[i]--;
  }
  return c;
}

/* Of images, or of lines where they are one row. */
static ac_tensor *grow_transposed(op_draw *d, ac_tensor *x, int flat) {
  const drawn c = draw(d, x, flat, true);
  const int64_t in = x->shape.dim[1], out = 1 + op_draw_below(d, 3),
                taps = c.kernel[0] * c.kernel[1];
  ac_tensor *weight = op_draw_weight(d, in / c.groups * taps, 4,
                                     (const int64_t[]){in, out, c.kernel[0], c.kernel[1]});
  ac_tensor *bias = op_draw_maybe_vector(d, -0.5, 0.5, out * c.groups);
  return ac_conv_transpose2d(x, weight, bias,
                             &(ac_conv_transpose2d_desc){
                                 .stride = {c.stride[0], c.stride[1]},
                                 .padding = {c.padding[0], c.padding[1]},
                                 .dilation = {c.dilation[0], c.dilation[1]},
                                 .groups = c.groups,
                                 .output_padding = {c.more[0], c.more[1]},
                             });
}

/* Of volumes that have the rows of images as planes. */
static ac_tensor *grow_volume(op_draw *d, ac_tensor *x) {
  ac_shape shape = x->shape;
  shape.rank = 5;
  shape.dim[4] = shape.dim[3];
  shape.dim[3] = 1;
  if (shape.dim[4] % 2 == 0) shape.dim[3] = 2, shape.dim[4] /= 2;
  x = op_draw_view(x, &shape);
  ac_conv3d_desc desc = {.groups = op_draw_one_in(d, 3) ? op_draw_divisor(d, shape.dim[1]) : 1};
  const int64_t out = desc.groups * (1 + op_draw_below(d, 3));
  int64_t dim[5] = {out, shape.dim[1] / desc.groups, 1, 1, 1};
  for (int i = 0; i < 3; i++) {
    int kernel = op_draw_size(d, 3);
    desc.stride[i] = 1 + op_draw_below(d, 3);
    desc.padding[i] = op_draw_below(d, 2);
    desc.dilation[i] = 1 + op_draw_below(d, 2);
    while (desc.dilation[i] * (kernel - 1) + 1 > shape.dim[2 + i] + 2 * desc.padding[i]) kernel--;
    dim[2 + i] = kernel;
  }
  ac_tensor *weight = op_draw_weight(d, dim[1] * dim[2] * dim[3] * dim[4], 5, dim);
  ac_tensor *y = ac_conv3d(x, weight, op_draw_maybe_vector(d, -0.5, 0.5, out), &desc);
  if (!y) return NULL;
  shape = y->shape;
  shape.rank = 4;
  shape.dim[3] *= shape.dim[4];
  return op_draw_view(y, &shape);
}

static ac_tensor *grow(op_draw *d, ac_tensor *x) {
  const int flat = op_draw_below(d, 8);
  if (op_draw_one_in(d, 6)) return grow_volume(d, x);
  if (flat < 2) x = draw_line(x, flat);
  /* Those that are transposed make images larger, and graphs stay small. */
  if (ac_shape_count(&x->shape) < 120 && op_draw_one_in(d, 4)) return grow_transposed(d, x, flat);
  const drawn c = draw(d, x, flat, false);
  const int64_t in = x->shape.dim[1] / c.groups;
  const int64_t out = c.groups > 1 ? c.groups * (1 + op_draw_below(d, 2)) : 1 + op_draw_below(d, 8);
  ac_tensor *weight = op_draw_weight(d, in * c.kernel[0] * c.kernel[1], 4,
                                     (const int64_t[]){out, in, c.kernel[0], c.kernel[1]});
  return ac_conv2d(x, weight, op_draw_maybe_vector(d, -0.5, 0.5, out),
                   &(ac_conv2d_desc){
                       .stride = {c.stride[0], c.stride[1]},
                       .padding = {c.padding[0], c.padding[1]},
                       .dilation = {c.dilation[0], c.dilation[1]},
                       .groups = c.groups,
                       .more_padding = {c.more[0], c.more[1]},
                   });
}

static int choose(const ac_op_args *forward, op_gradient *list, op_attributes *attributes) {
  (void)attributes;
  const bool transposed = forward->op == AC_OP_conv_transpose2d;
  list[0] = transposed ? transposed_gradients[0] : gradients[0];
  list[1] = transposed ? transposed_gradients[1] : gradients[1];
  if (!transposed || !forward->in[2].count) return 2;
  list[2] = bias_gradient;
  return 3;
}

const op_generator op_generator_conv2d = {
    .takes = op_takes_images, .build = grow, .choose = choose};
