/* cross_entropy over rows of V logits: log_sum = log sum exp(logit - largest),
 * loss = w (log_sum + (largest - logit[target])); the row counts as right if its first largest
 * logit is the target's. Rows with the ignored index as target weigh nothing. Gradient:
 * dlogits = w loss_scale (exp(logit - largest - log_sum) - [j = target]); dlogits may be logits.
 * largest and log_sum are never added: if logits are large, the sum would lose log_sum. Both are
 * kept of a row, in extents. With smoothing s, (1 - s) [j = target] + s / V replaces [j = target],
 * and the loss is w ((1 - s) (log_sum + (largest - logit[target])) + s (log_sum + mean of
 * largest - logit)). The rows are those from `first` on of targets and weights; logits begin at
 * `first_logit`, their rows `pitch` elements apart, and dlogits likewise; extents begin at
 * `first_extent`.
 *
 * A work-group of ROW_GROUP items a row, local memory 8 * ROW_GROUP bytes; each leaves (loss,
 * weight, weight if right) in `rows` for losses.cl's sum_losses. The gradient is one work-item an
 * element, groups of GROUP; _narrowed, a work-group of ROW_GROUP items a row. Dtypes: storage for
 * logits and dlogits, or float with LOGITS_F32, where _narrowed leaves bf16; float for the rest,
 * int targets. */
#include "common.h"

#ifdef LOGITS_F32
typedef float logit;
#define load_stored LOAD_FLOAT
#define store_logit STORE_FLOAT
#else
typedef storage logit;
#define load_stored load
#define store_logit store
#endif

/* With SOFT_CAP logits are SOFT_CAP tanh(z / SOFT_CAP), and slope is the derivative. */
#ifdef SOFT_CAP
#define load_logit(logits, at) cap(load_stored(logits, at))
float cap(float z) { return SOFT_CAP * tanh(z / SOFT_CAP); }
float slope(float capped) { return 1 - (capped / SOFT_CAP) * (capped / SOFT_CAP); }
#else
#define load_logit load_stored
#define cap(z) (z)
#define slope(z) 1
#endif

kernel WORK_GROUP(ROW_GROUP,
                  1) void cross_entropy(const global logit *logits, const global int *targets,
                                        const global float *weights, global float *extents,
                                        global float *rows, long width, long pitch, long first,
                                        long first_logit, long first_extent, int ignore,
                                        int ignore_index, float smoothing) {
  local float scratch[ROW_GROUP];
  local int place[ROW_GROUP];
  const int item = get_local_id(0);
  const size_t n = get_group_id(0), row = first_logit + n * pitch;
  float largest = -INFINITY;
  int where = INT_MAX;
  for (int j = item; j < width; j += ROW_GROUP) {
    const float v = load_logit(logits, row + j);
    if (v > largest) largest = v, where = j;
  }
  scratch[item] = largest;
  place[item] = where;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = ROW_GROUP / 2; half_size > 0; half_size /= 2) {
    if (item < half_size) {
      const float other = scratch[item + half_size];
      const int there = place[item + half_size];
      if (other > scratch[item] || (other == scratch[item] && there < place[item])) {
        scratch[item] = other;
        place[item] = there;
      }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  largest = scratch[0];
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum = 0;
  for (size_t j = item; j < width; j += ROW_GROUP)
    sum += exp(load_logit(logits, row + j) - largest);
  sum = group_sum(sum, scratch, item, ROW_GROUP);
  float mean = 0;
  if (smoothing > 0) {
    for (size_t j = item; j < width; j += ROW_GROUP) mean += largest - load_logit(logits, row + j);
    mean = group_sum(mean, scratch, item, ROW_GROUP) / width;
  }
  if (item) return;
  const float log_sum = log(sum);
  const int target = targets[first + n];
  const float w = ignore && target == ignore_index ? 0 : weights ? weights[first + n] : 1;
  extents[first_extent + 2 * n] = largest;
  extents[first_extent + 2 * n + 1] = log_sum;
  /* A row without weight counts for nothing even where its loss is infinite, and its target may be
   * no class. */
  float loss = w == 0 ? 0 : log_sum + (largest - load_logit(logits, row + target));
  if (w != 0 && smoothing > 0) loss = (1 - smoothing) * loss + smoothing * (log_sum + mean);
  rows[3 * n] = w == 0 ? 0 : w * loss;
  rows[3 * n + 1] = w;
  rows[3 * n + 2] = place[0] == target ? w : 0;
}

/* Of one logit, of a row of weight w. */
float logit_gradient(float z, float2 extent, bool is_target, float w, long width, float loss_scale,
                     float smoothing) {
  const float wanted = smoothing / width + (is_target ? 1 - smoothing : 0);
  const float d = exp((z - extent.x) - extent.y) - wanted;
  return w == 0 ? 0 : w * loss_scale * d * slope(z);
}

kernel WORK_GROUP(GROUP, 1) void cross_entropy_gradient(
    const global logit *logits, const global int *targets, const global float *weights,
    const global float *extents, global logit *dlogits, long n, long width, long pitch, long first,
    long first_logit, long first_extent, float loss_scale, int ignore, int ignore_index,
    float smoothing) {
  const size_t e = element_id();
  if (e >= n * width) return;
  const size_t i = quotient(e, width), j = e - i * width;
  const int target = targets[first + i];
  const float w = ignore && target == ignore_index ? 0 : weights ? weights[first + i] : 1;
  const size_t at = first_logit + i * pitch + j;
  store_logit(dlogits, at,
              logit_gradient(load_logit(logits, at), vload2(i, extents + first_extent), j == target,
                             w, width, loss_scale, smoothing));
}

#if defined(LOGITS_F32) && defined(STORAGE_BF16)
/* In the first half of the row's logits. Elements from `begin` to twice that go where those from
 * half of it on were, which all items have read before the barrier. */
kernel WORK_GROUP(ROW_GROUP, 1) void cross_entropy_gradient_narrowed(
    global float *logits, const global int *targets, const global float *weights,
    const global float *extents, long width, long pitch, long first, long first_logit,
    long first_extent, float loss_scale, int ignore, int ignore_index, float smoothing) {
  const size_t n = get_group_id(0);
  const int item = get_local_id(0), target = targets[first + n];
  const float w = ignore && target == ignore_index ? 0 : weights ? weights[first + n] : 1;
  const float2 extent = vload2(n, extents + first_extent);
  logits += first_logit + n * pitch;
  global storage *dz = (global storage *)logits;
  float d = 0;
  if (item < width)
    d = logit_gradient(cap(logits[item]), extent, item == target, w, width, loss_scale, smoothing);
  barrier(CLK_GLOBAL_MEM_FENCE);
  if (item < width) store(dz, item, d);
  for (uint begin = ROW_GROUP; begin < (uint)width; begin *= 2) {
    const uint end = min(2 * begin, (uint)width);
    for (uint j = begin + item; j < end; j += ROW_GROUP)
      store(dz, j, logit_gradient(cap(logits[j]), extent, j == target, w, width, loss_scale, smoothing));
    barrier(CLK_GLOBAL_MEM_FENCE);
  }
}
#endif
