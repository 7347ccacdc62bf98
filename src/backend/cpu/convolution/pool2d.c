/* Pooling, plane by plane. Forward, each tap of the patch runs over a row of outputs; the outputs
 * that have the tap inside the image are found first, so padding costs nothing. The gradient of the
 * largest element looks for it anew in each patch. */
#include "backend/cpu/convolution/planes.h"
#include "backend/cpu/shared/reduce.h"
#include "ops/convolution/pool2d.h"

#include <math.h>
#include <string.h>

typedef struct axis {
  const ac_pool2d_attributes *attributes;
  int index; /* 0: height, 1: width */
  int64_t size, outputs, kernel, stride, padding;
} axis;

static axis axis_of(const ac_op_args *args, int i, const ac_operand *x, const ac_operand *y) {
  const ac_pool2d_attributes *a = args->attributes;
  return (axis){a, i, x->dim[2 + i], y->dim[2 + i], a->kernel[i], a->stride[i], a->padding[i]};
}

static int64_t clamp(int64_t x, int64_t most) {
  return x < 0 ? 0 : ac_smaller(x, most);
}

/* The outputs [*first, *last) that have tap t inside the image. */
static void inside(const axis *a, int64_t t, int64_t *first, int64_t *last) {
  int64_t before = a->padding - t, within = a->size + a->padding - t;
  *first = before > 0 ? clamp(ac_ceil_div(before, a->stride), a->outputs) : 0;
  *last = within > 0 ? clamp(ac_ceil_div(within, a->stride), a->outputs) : 0;
}

/* The elements [*begin, *end) of the image that output i's patch has. */
static void patch(const axis *a, int64_t i, int64_t *begin, int64_t *end) {
  int64_t origin = i * a->stride - a->padding;
  *begin = a->kernel ? clamp(origin, a->size) : i * a->size / a->outputs;
  *end =
      a->kernel ? clamp(origin + a->kernel, a->size) : ac_ceil_div((i + 1) * a->size, a->outputs);
}

/* Elements of output i's patch that count in an average. */
static float counted(const axis *a, int64_t i) {
  int64_t begin, end;
  patch(a, i, &begin, &end);
  return (float)ac_pool2d_counted(a->attributes, a->index, a->size, i * a->stride - a->padding,
                                  begin, end);
}

/* NaNs stay: they are larger than anything. */
static void take_larger(float *y, const float *x, int64_t stride, int64_t count) {
#pragma omp simd
  for (int64_t j = 0; j < count; j++) {
    float v = x[j * stride];
    y[j] = v > y[j] || v != v ? v : y[j];
  }
}

static void take_sum(float *y, const float *x, int64_t stride, int64_t count) {
#pragma omp simd
  for (int64_t j = 0; j < count; j++) y[j] += x[j * stride];
}

/* The same of one patch's elements in a row, for patches that do not lie at equal distances. */
static void take_largest(float *y, const float *x, int64_t count) {
  for (int64_t t = 0; t < count; t++) *y = x[t] > *y || x[t] != x[t] ? x[t] : *y;
}

static void take_all(float *y, const float *x, int64_t count) {
  for (int64_t t = 0; t < count; t++) *y += x[t];
}

/* What a pool begins with, and how it takes in elements. */
typedef struct pool {
  float start;
  void (*tap)(float *y, const float *x, int64_t stride, int64_t count);
  void (*run)(float *y, const float *x, int64_t count);
} pool;

static const pool pool_max = {-INFINITY, take_larger, take_largest};
static const pool pool_average = {0, take_sum, take_all};

static void take_row(const axis *w, const float *row, const pool *p, float *y) {
  if (!w->kernel) {
    for (int64_t j = 0; j < w->outputs; j++) {
      int64_t begin, end;
      patch(w, j, &begin, &end);
      p->run(y + j, row + begin, end - begin);
    }
    return;
  }
  for (int64_t t = 0; t < w->kernel; t++) {
    int64_t first, last;
    inside(w, t, &first, &last);
    if (first < last)
      p->tap(y + first, row + first * w->stride - w->padding + t, w->stride, last - first);
  }
}

static void pool_row(const axis *h, const axis *w, const float *x, int64_t i, const pool *p,
                     float *y) {
  int64_t r, end;
  patch(h, i, &r, &end);
  for (int64_t j = 0; j < w->outputs; j++) y[j] = p->start;
  for (; r < end; r++) take_row(w, x + r * w->size, p, y);
}

static void max_plane(const ac_op_args *args, const float *const *in, float *y) {
  axis h = axis_of(args, 0, &args->in[0], &args->out[0]);
  axis w = axis_of(args, 1, &args->in[0], &args->out[0]);
  for (int64_t i = 0; i < h.outputs; i++) pool_row(&h, &w, in[0], i, &pool_max, y + i * w.outputs);
}

static void average_plane(const ac_op_args *args, const float *const *in, float *y) {
  axis h = axis_of(args, 0, &args->in[0], &args->out[0]);
  axis w = axis_of(args, 1, &args->in[0], &args->out[0]);
  float factor = 1.0f / ((float)h.kernel * (float)w.kernel);
  if (ac_pool2d_is_of_planes(args->attributes, &args->in[0], &args->out[0])) {
    *y = row_sum(in[0], h.size * w.size) * factor;
    return;
  }
  bool uneven = ac_pool2d_is_uneven(args->attributes, &args->in[0], &args->out[0]);
  for (int64_t i = 0; i < h.outputs; i++, y += w.outputs) {
    pool_row(&h, &w, in[0], i, &pool_average, y);
    if (!uneven)
      for (int64_t j = 0; j < w.outputs; j++) y[j] *= factor;
    else
      for (int64_t j = 0; j < w.outputs; j++) y[j] *= 1.0f / (counted(&h, i) * counted(&w, j));
  }
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* The first of the largest elements of output (i, j)'s patch, by index into the plane. */
static int64_t largest(const axis *h, const axis *w, const float *x, int64_t i, int64_t j) {
  int64_t r, rows, begin, end;
  patch(h, i, &r, &rows);
  patch(w, j, &begin, &end);
  int64_t at = r * w->size + begin;
  float most = -INFINITY;
  for (; r < rows; r++)
    for (int64_t t = begin; t < end; t++) {
      float v = x[r * w->size + t];
      if (v > most || v != v) most = v, at = r * w->size + t;
    }
  return at;
}

static void max_gradient_plane(const ac_op_args *args, const float *const *in, float *dx) {
  axis h = axis_of(args, 0, &args->out[0], &args->in[0]);
  axis w = axis_of(args, 1, &args->out[0], &args->in[0]);
  const float *dy = in[0];
  if (!args->add[0]) memset(dx, 0, (size_t)(h.size * w.size) * sizeof *dx);
  for (int64_t i = 0; i < h.outputs; i++)
    for (int64_t j = 0; j < w.outputs; j++) dx[largest(&h, &w, in[1], i, j)] += *dy++;
}

static void average_gradient_plane(const ac_op_args *args, const float *const *in, float *dx) {
  axis h = axis_of(args, 0, &args->out[0], &args->in[0]);
  axis w = axis_of(args, 1, &args->out[0], &args->in[0]);
  bool uneven = ac_pool2d_is_uneven(args->attributes, &args->out[0], &args->in[0]);
  float factor = 1.0f / ((float)h.kernel * (float)w.kernel);
  if (!args->add[0]) memset(dx, 0, (size_t)(h.size * w.size) * sizeof *dx);
  for (int64_t i = 0; i < h.outputs; i++) {
    const float *dy = in[0] + i * w.outputs;
    int64_t first, end;
    patch(&h, i, &first, &end);
    for (int64_t r = first; r < end; r++) {
      float *row = dx + r * w.size;
      for (int64_t j = 0; j < w.outputs; j++) {
        if (uneven) factor = 1.0f / (counted(&h, i) * counted(&w, j));
        float gradient = dy[j] * factor;
        int64_t t, last;
        patch(&w, j, &t, &last);
#pragma omp simd
        for (int64_t c = t; c < last; c++) row[c] += gradient;
      }
    }
  }
}

/* ---- kernels --------------------------------------------------------------------------------- */

static int64_t input_plane(const ac_op_args *args) {
  return args->in[0].dim[2] * args->in[0].dim[3];
}
static int64_t output_plane(const ac_op_args *args) {
  return args->out[0].dim[2] * args->out[0].dim[3];
}

static void max(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_planes(context, args, input_plane(args), max_plane);
}
static void max_gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_planes(context, args, output_plane(args), max_gradient_plane);
}
static void average(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_planes(context, args, input_plane(args), average_plane);
}
static void average_gradient(const ac_cpu_context *context, const ac_op_args *args) {
  ac_cpu_for_planes(context, args, output_plane(args), average_gradient_plane);
}

const ac_cpu_kernel AC_CPU_KERNEL(max_pool2d) = {.run = max, .workspace = ac_cpu_planes_workspace};
const ac_cpu_kernel AC_CPU_KERNEL(max_pool2d_gradient) = {.run = max_gradient,
                                                          .workspace = ac_cpu_planes_workspace};
const ac_cpu_kernel AC_CPU_KERNEL(average_pool2d) = {.run = average,
                                                     .workspace = ac_cpu_planes_workspace};
const ac_cpu_kernel AC_CPU_KERNEL(average_pool2d_gradient) = {.run = average_gradient,
                                                              .workspace = ac_cpu_planes_workspace};
