/* Pooling of planes H x W to h x w by patches of kh x kw, s apart, with padding p:
 *   max_pool2d      y = the first largest element of the patch; a NaN is larger than anything
 *   average_pool2d  y = sum over the patch / (kh kw), padding counting as zeros
 * and their gradients, where each element of dx gathers from the patches that contain it:
 *   max             dx (+)= sum of dy of the patches in which it is the first largest element
 *   average         dx (+)= sum of dy / (kh kw)
 *
 * One work-item an element of y or dx, groups of GROUP; average_planes, for patches of a whole
 * plane each, is a work-group of ROW_GROUP a plane, local memory 4 * ROW_GROUP bytes. Dtypes:
 * storage. */
#include "common.h"

#define GEOMETRY int H, int W, int h, int w, int kh, int kw, int sh, int sw, int ph, int pw

/* The first largest element of the patch of output (i, j), by its index into the plane. */
size_t largest(const global storage *x, size_t plane, int i, int j, float *value, GEOMETRY) {
  const int top = i * sh - ph, left = j * sw - pw;
  size_t at = plane;
  float most = -INFINITY;
  bool found = false;
  for (int r = max(top, 0); r < min(top + kh, H); r++)
    for (int t = max(left, 0); t < min(left + kw, W); t++) {
      const float v = load(x, plane + (size_t)r * W + t);
      if (found && !(v > most || isnan(v))) continue;
      most = v;
      at = plane + (size_t)r * W + t;
      found = true;
    }
  *value = most;
  return at;
}

kernel WORK_GROUP(GROUP, 1) void max_pool2d(const global storage *x, global storage *y, long n,
                                            GEOMETRY) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t row = quotient(e, w), plane = quotient(row, h);
  float value;
  largest(x, plane * H * W, (int)(row - plane * h), (int)(e - row * w), &value, H, W, h, w, kh, kw,
          sh, sw, ph, pw);
  store(y, e, value);
}

/* The first and the last output along an axis with a patch that contains the position, padding
 * added to it; none if the first is after the last. */
int first_patch(int position, int kernel_size, int stride) {
  return position < kernel_size ? 0 : (position - kernel_size) / stride + 1;
}
int last_patch(int position, int stride, int outputs) {
  return min(position / stride, outputs - 1);
}

kernel WORK_GROUP(GROUP, 1) void max_pool2d_gradient(const global storage *dy,
                                                     const global storage *x, global storage *dx,
                                                     long n, int add, GEOMETRY) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t row = quotient(e, W), plane = quotient(row, H);
  const int down = (int)(row - plane * H) + ph, across = (int)(e - row * W) + pw;
  float sum = 0, value;
  for (int i = first_patch(down, kh, sh); i <= last_patch(down, sh, h); i++)
    for (int j = first_patch(across, kw, sw); j <= last_patch(across, sw, w); j++)
      if (largest(x, plane * H * W, i, j, &value, H, W, h, w, kh, kw, sh, sw, ph, pw) == e)
        sum += load(dy, (plane * h + i) * w + j);
  store(dx, e, add ? load(dx, e) + sum : sum);
}

kernel WORK_GROUP(GROUP, 1) void average_pool2d(const global storage *x, global storage *y, long n,
                                                GEOMETRY) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t row = quotient(e, w), plane = quotient(row, h);
  const int top = (int)(row - plane * h) * sh - ph, left = (int)(e - row * w) * sw - pw;
  float sum = 0;
  for (int r = max(top, 0); r < min(top + kh, H); r++)
    for (int t = max(left, 0); t < min(left + kw, W); t++) sum += load(x, (plane * H + r) * W + t);
  store(y, e, sum / ((float)kh * kw));
}

kernel WORK_GROUP(GROUP, 1) void average_pool2d_gradient(const global storage *dy,
                                                         global storage *dx, long n, int add,
                                                         GEOMETRY) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t row = quotient(e, W), plane = quotient(row, H);
  const int down = (int)(row - plane * H) + ph, across = (int)(e - row * W) + pw;
  float sum = 0;
  for (int i = first_patch(down, kh, sh); i <= last_patch(down, sh, h); i++)
    for (int j = first_patch(across, kw, sw); j <= last_patch(across, sw, w); j++)
      sum += load(dy, (plane * h + i) * w + j);
  sum /= (float)kh * kw;
  store(dx, e, add ? load(dx, e) + sum : sum);
}

kernel WORK_GROUP(ROW_GROUP, 1) void average_planes(const global storage *x, global storage *y,
                                                    long size) {
  local float scratch[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t plane = get_group_id(0);
  float sum = 0;
  for (size_t i = item; i < size; i += ROW_GROUP) sum += load(x, plane * size + i);
  sum = group_sum(sum, scratch, item, ROW_GROUP);
  if (item == 0) store(y, plane, sum / size);
}
