/* Pooling of planes H x W to h x w by patches of kh x kw, s apart, with padding p:
 *   max_pool2d      y = the first largest element of the patch; a NaN is larger than anything
 *   average_pool2d  y = sum over the patch / the elements that count
 * and their gradients, where each element of dx gathers from the patches that contain it:
 *   max             dx (+)= sum of dy of the patches in which it is the first largest element
 *   average         dx (+)= sum of dy / the elements that count
 * Padding counts as zeros, or, with `skip`, not at all; what lies beyond the padding `after` the
 * image never does. All patches but `uneven` ones have kh kw elements that count. Where k is 0,
 * patch i is [floor(i size / outputs), ceil((i + 1) size / outputs)).
 *
 * One work-item an element of y or dx, groups of GROUP; max_planes, its gradient and
 * average_planes, for patches of a whole plane each, are a work-group of ROW_GROUP a plane, local
 * memory 4 or 12 * ROW_GROUP bytes. Dtypes: storage. */
#include "common.h"

#define GEOMETRY int H, int W, int h, int w, int kh, int kw, int sh, int sw, int ph, int pw
#define COUNTED int uneven, int after_h, int after_w, int skip

/* The elements [first, end) of an axis that patch i has. */
int patch_first(int i, int k, int s, int p, int size, int outputs) {
  return k ? max(i * s - p, 0) : (int)quotient((size_t)i * size, outputs);
}
int patch_end(int i, int k, int s, int p, int size, int outputs) {
  if (k) return min(i * s - p + k, size);
  return (int)quotient((size_t)(i + 1) * size + outputs - 1, outputs);
}

/* How many of them count. */
float counted(int i, int k, int s, int p, int after, int skip, int size, int outputs) {
  const int origin = i * s - p;
  if (k && !skip) return min(k, size + after - origin);
  return patch_end(i, k, s, p, size, outputs) - patch_first(i, k, s, p, size, outputs);
}

/* The first and the last output along an axis with a patch that contains the position; none if the
 * first is after the last. */
int first_patch(int position, int k, int s, int p, int size, int outputs) {
  if (!k) return (int)quotient((size_t)position * outputs, size);
  return position + p < k ? 0 : (position + p - k) / s + 1;
}
int last_patch(int position, int k, int s, int p, int size, int outputs) {
  if (!k) return (int)quotient((size_t)(position + 1) * outputs + size - 1, size) - 1;
  return min((position + p) / s, outputs - 1);
}

/* The first largest element of the patch of output (i, j), by its index into the plane. */
size_t largest(const global storage *x, size_t plane, int i, int j, float *value, GEOMETRY) {
  const int left = patch_first(j, kw, sw, pw, W, w), right = patch_end(j, kw, sw, pw, W, w);
  const int bottom = patch_end(i, kh, sh, ph, H, h);
  size_t at = plane;
  float most = -INFINITY;
  bool found = false;
  for (int r = patch_first(i, kh, sh, ph, H, h); r < bottom; r++)
    for (int t = left; t < right; t++) {
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

kernel WORK_GROUP(GROUP, 1) void max_pool2d_gradient(const global storage *dy,
                                                     const global storage *x, global storage *dx,
                                                     long n, int add, GEOMETRY) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t row = quotient(e, W), plane = quotient(row, H);
  const int down = (int)(row - plane * H), across = (int)(e - row * W);
  const int bottom = last_patch(down, kh, sh, ph, H, h),
            right = last_patch(across, kw, sw, pw, W, w);
  const int left = first_patch(across, kw, sw, pw, W, w);
  float sum = 0, value;
  for (int i = first_patch(down, kh, sh, ph, H, h); i <= bottom; i++)
    for (int j = left; j <= right; j++)
      if (largest(x, plane * H * W, i, j, &value, H, W, h, w, kh, kw, sh, sw, ph, pw) == e)
        sum += load(dy, (plane * h + i) * w + j);
  store(dx, e, add ? load(dx, e) + sum : sum);
}

kernel WORK_GROUP(GROUP, 1) void average_pool2d(const global storage *x, global storage *y, long n,
                                                COUNTED, GEOMETRY) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t row = quotient(e, w), plane = quotient(row, h);
  const int i = (int)(row - plane * h), j = (int)(e - row * w);
  const int left = patch_first(j, kw, sw, pw, W, w), right = patch_end(j, kw, sw, pw, W, w);
  const int bottom = patch_end(i, kh, sh, ph, H, h);
  float sum = 0, count = (float)kh * kw;
  for (int r = patch_first(i, kh, sh, ph, H, h); r < bottom; r++)
    for (int t = left; t < right; t++) sum += load(x, (plane * H + r) * W + t);
  if (uneven)
    count =
        counted(i, kh, sh, ph, after_h, skip, H, h) * counted(j, kw, sw, pw, after_w, skip, W, w);
  store(y, e, sum / count);
}

kernel WORK_GROUP(GROUP, 1) void average_pool2d_gradient(const global storage *dy,
                                                         global storage *dx, long n, int add,
                                                         COUNTED, GEOMETRY) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t row = quotient(e, W), plane = quotient(row, H);
  const int down = (int)(row - plane * H), across = (int)(e - row * W);
  const int bottom = last_patch(down, kh, sh, ph, H, h),
            right = last_patch(across, kw, sw, pw, W, w);
  const int left = first_patch(across, kw, sw, pw, W, w);
  float sum = 0;
  for (int i = first_patch(down, kh, sh, ph, H, h); i <= bottom; i++)
    for (int j = left; j <= right; j++) {
      float v = load(dy, (plane * h + i) * w + j);
      if (uneven)
        v /= counted(i, kh, sh, ph, after_h, skip, H, h) *
             counted(j, kw, sw, pw, after_w, skip, W, w);
      sum += v;
    }
  if (!uneven) sum /= (float)kh * kw;
  store(dx, e, add ? load(dx, e) + sum : sum);
}

/* ---- a patch a plane ------------------------------------------------------------------------- */

/* Whether b, which is at `at_b`, is chosen rather than a. */
bool is_larger(float a, long at_a, float b, long at_b) {
  if (isnan(a) || isnan(b)) return isnan(b) && (!isnan(a) || at_b > at_a);
  return b > a || (b == a && at_b < at_a);
}

/* The first largest element of a plane, for all items of the group. */
size_t largest_of_plane(const global storage *x, size_t plane, long size, local float *values,
                        local long *places) {
  const int item = get_local_id(0);
  float most = -INFINITY;
  long at = size;
  for (long i = item; i < size; i += ROW_GROUP) {
    const float v = load(x, plane * size + i);
    if (is_larger(most, at, v, i)) most = v, at = i;
  }
  values[item] = most;
  places[item] = at;
  for (int apart = ROW_GROUP / 2; apart > 0; apart /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    const int other = item + apart;
    if (item < apart && is_larger(values[item], places[item], values[other], places[other])) {
      values[item] = values[other];
      places[item] = places[other];
    }
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  return plane * size + places[0];
}

kernel WORK_GROUP(ROW_GROUP, 1) void max_planes(const global storage *x, global storage *y,
                                                long size) {
  local float values[ROW_GROUP];
  local long places[ROW_GROUP];
  const size_t plane = get_group_id(0);
  const size_t at = largest_of_plane(x, plane, size, values, places);
  if (get_local_id(0) == 0) store(y, plane, load(x, at));
}

kernel WORK_GROUP(ROW_GROUP, 1) void max_planes_gradient(const global storage *dy,
                                                         const global storage *x,
                                                         global storage *dx, long size, int add) {
  local float values[ROW_GROUP];
  local long places[ROW_GROUP];
  const size_t plane = get_group_id(0);
  const size_t at = largest_of_plane(x, plane, size, values, places);
  for (long i = get_local_id(0); i < size; i += ROW_GROUP) {
    const size_t e = plane * size + i;
    const float v = e == at ? load(dy, plane) : 0;
    store(dx, e, add ? load(dx, e) + v : v);
  }
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
