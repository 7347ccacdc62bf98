/* row_loss adds up losses that were computed elsewhere: factor times the sum of w[i / per_weight]
 * l[i] over n elements, and the sum of the weights, each that of `rows` rows. Losses may have any
 * sign and nearly cancel out, so sums are pairs of floats. The gradient is dl[i] = scale w[i /
 * per_weight], where the scale includes the factor. Without weights all are 1, and
 * `rows` is their number.
 *
 * A work-group of GROUP items for each PIECE elements, local memory 16 * GROUP bytes; each leaves
 * two rows of (loss, weight, 0) in `sums`, the sums and what they lack, for losses.cl's sum_losses.
 * The gradient is one work-item an element, groups of GROUP. Dtypes: storage for losses and
 * dlosses, float for the rest. */
#include "common.h"

#define PIECE 4096

/* (hi, lo) += v, exactly (Knuth's TwoSum). */
float2 two_sum(float2 s, float v) {
  const float hi = s.x + v, part = hi - s.x;
  return (float2)(hi, s.y + ((s.x - (hi - part)) + (v - part)));
}

kernel WORK_GROUP(GROUP, 1) void row_loss(const global storage *losses, const global float *weights,
                                          global float *sums, long n, long weight_count,
                                          long per_weight, long rows, float factor) {
  local float2 scratch[2][GROUP];
  const int item = get_local_id(0);
  const size_t group = get_group_id(0), first = group * PIECE + item, end = (group + 1) * PIECE;
  float2 loss = (float2)(0, 0), weight = (float2)(0, 0);
  for (size_t i = first; i < min((ulong)end, (ulong)n); i += GROUP) {
    const float w = weights ? weights[quotient(i, per_weight)] : 1;
    if (w != 0) loss = two_sum(loss, w * factor * load(losses, i));
  }
  for (size_t i = first; i < min((ulong)end, (ulong)weight_count); i += GROUP)
    weight = two_sum(weight, weights[i] * (float)rows);
  if (!weights && first == 0) {
    weight.x = (float)rows;
    weight.y = (float)(rows - (long)weight.x);
  }
  scratch[0][item] = loss;
  scratch[1][item] = weight;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = GROUP / 2; half_size > 0; half_size /= 2) {
    if (item < half_size)
      for (int k = 0; k < 2; k++) {
        const float2 other = scratch[k][item + half_size];
        float2 s = two_sum(scratch[k][item], other.x);
        s.y += other.y;
        scratch[k][item] = s;
      }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (item > 1) return;
  global float *row = sums + 6 * group + 3 * item;
  const float2 l = scratch[0][0], w = scratch[1][0];
  row[0] = item ? (isfinite(l.x) ? l.y : 0) : l.x;
  row[1] = item ? w.y : w.x;
  row[2] = 0;
}

kernel WORK_GROUP(GROUP, 1) void row_loss_gradient(const global float *weights,
                                                   global storage *dlosses, long n, long per_weight,
                                                   float scale) {
  const size_t e = element_id();
  if (e >= n) return;
  store(dlosses, e, weights ? scale * weights[quotient(e, per_weight)] : scale);
}
