/* row_loss adds up losses that were computed for each of n rows, where k = per_weight neighbouring
 * rows share a weight: sum of w[i / k] l[i], which may have any sign and nearly cancel out, so sums
 * are pairs of floats. The gradient is dl[i] = loss_scale w[i / k].
 *
 * A work-group of GROUP items for each PIECE rows, local memory 16 * GROUP bytes; each leaves two
 * rows of (loss, weight, 0) in `rows`, the sums and what they lack, for losses.cl's sum_losses. The
 * gradient is one work-item an element, groups of GROUP. Dtypes: storage for losses and dlosses,
 * float for the rest. */
#include "common.h"

#define PIECE 4096

/* (hi, lo) += v, exactly (Knuth's TwoSum). */
float2 two_sum(float2 s, float v) {
  const float hi = s.x + v, part = hi - s.x;
  return (float2)(hi, s.y + ((s.x - (hi - part)) + (v - part)));
}

kernel WORK_GROUP(GROUP, 1) void row_loss(const global storage *losses, const global float *weights,
                                          global float *rows, long n, long per_weight) {
  local float2 scratch[2][GROUP];
  const int item = get_local_id(0);
  const size_t group = get_group_id(0), end = min((ulong)(group + 1) * PIECE, (ulong)n);
  float2 loss = (float2)(0, 0), weight = (float2)(0, 0);
  for (size_t i = group * PIECE + item; i < end; i += GROUP) {
    const float w = weights ? weights[quotient(i, per_weight)] : 1;
    if (w != 0) loss = two_sum(loss, w * load(losses, i));
    weight = two_sum(weight, w);
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
  global float *row = rows + 6 * group + 3 * item;
  const float2 l = scratch[0][0], w = scratch[1][0];
  row[0] = item ? l.y : l.x;
  row[1] = item ? w.y : w.x;
  row[2] = 0;
}

kernel WORK_GROUP(GROUP, 1) void row_loss_gradient(const global float *weights,
                                                   global storage *dlosses, long n, long per_weight,
                                                   float loss_scale) {
  const size_t e = element_id();
  if (e >= n) return;
  store(dlosses, e, weights ? loss_scale * weights[quotient(e, per_weight)] : loss_scale);
}
