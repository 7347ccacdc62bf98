/* Pooling, plane by plane. Forward, each tap of the patch runs over a row of outputs; the outputs
 * that have the tap inside the image are found first, so padding costs nothing. The gradient of the
 * largest element looks for it anew in each patch. */
#include "backend/cpu/convolution/planes.h"
#include "backend/cpu/shared/reduce.h"
#include "ops/convolution/pool2d.h"

#include <math.h>
#include <string.h>

typedef struct axis {
  int64_t size, outputs, kernel, stride, padding;
} axis;

static axis axis_of(const ac_op_args *args, int i, const ac_operand *x, const ac_operand *y) {
  const ac_pool2d_attributes *a = args->attributes;
  return (axis){x->dim[2 + i], y->dim[2 + i], a->kernel[i], a->stride[i], a->padding[i]};
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

/* The taps [*first, *last) of output i that lie inside the image. */
static void patch(const axis *a, int64_t i, int64_t *first, int64_t *last) {
  int64_t origin = i * a->stride - a->padding;
  *first = clamp(-origin, a->kernel);
  *last = clamp(a->size - origin, a->kernel);
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

typedef void (*take)(float *y, const float *x, int64_t stride, int64_t count);

static void pool_row(const axis *h, const axis *w, const float *x, int64_t i, float start,
                     take take_tap, float *y) {
  int64_t r, end;
  patch(h, i, &r, &end);
  for (int64_t j = 0; j < w->outputs; j++) y[j] = start;
  for (; r < end; r++) {
    const float *row = x + (i * h->stride - h->padding + r) * w->size;
    for (int64_t t = 0; t < w->kernel; t++) {
      int64_t first, last;
      inside(w, t, &first, &last);
      if (first < last)
        take_tap(y + first, row + first * w->stride - w->padding + t, w->stride, last - first);
    }
  }
}

static void max_plane(const ac_op_args *args, const float *const *in, float *y) {
  axis h = axis_of(args, 0, &args->in[0], &args->out[0]);
  axis w = axis_of(args, 1, &args->in[0], &args->out[0]);
  for (int64_t i = 0; i < h.outputs; i++)
    pool_row(&h, &w, in[0], i, -INFINITY, take_larger, y + i * w.outputs);
}

static void average_plane(const ac_op_args *args, const float *const *in, float *y) {
  axis h = axis_of(args, 0, &args->in[0], &args->out[0]);
  axis w = axis_of(args, 1, &args->in[0], &args->out[0]);
  float factor = 1.0f / ((float)h.kernel * (float)w.kernel);
  if (ac_pool2d_is_of_planes(args->attributes, &args->in[0], &args->out[0])) {
    *y = row_sum(in[0], h.size * w.size) * factor;
    return;
  }
  for (int64_t i = 0; i < h.outputs; i++, y += w.outputs) {
    pool_row(&h, &w, in[0], i, 0, take_sum, y);
    for (int64_t j = 0; j < w.outputs; j++) y[j] *= factor;
  }
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* The first of the largest elements of output (i, j)'s patch, by index into the plane. */
static int64_t largest(const axis *h, const axis *w, const float *x, int64_t i, int64_t j) {
  int64_t r, rows, begin, end;
  patch(h, i, &r, &rows);
  patch(w, j, &begin, &end);
  const int64_t top = i * h->stride - h->padding, left = j * w->stride - w->padding;
  int64_t at = (top + r) * w->size + left + begin;
  float most = -INFINITY;
  for (; r < rows; r++)
    for (int64_t t = begin; t < end; t++) {
      float v = x[(top + r) * w->size + left + t];
      if (v > most || v != v) most = v, at = (top + r) * w->size + left + t;
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
  float factor = 1.0f / ((float)h.kernel * (float)w.kernel);
  if (!args->add[0]) memset(dx, 0, (size_t)(h.size * w.size) * sizeof *dx);
  for (int64_t i = 0; i < h.outputs; i++) {
    const float *dy = in[0] + i * w.outputs;
    int64_t r, end;
    patch(&h, i, &r, &end);
    for (; r < end; r++) {
      float *row = dx + (i * h.stride - h.padding + r) * w.size;
      for (int64_t j = 0; j < w.outputs; j++) {
        float gradient = dy[j] * factor;
        int64_t t, last;
        patch(&w, j, &t, &last);
#pragma omp simd
        for (int64_t c = t; c < last; c++) row[j * w.stride - w.padding + c] += gradient;
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
