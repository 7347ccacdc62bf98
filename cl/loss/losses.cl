/* sum_losses adds up what the losses leave for each row, (loss, weight, weight if right), and adds
 * the result to the sums that are kept on the device (AC_LOSS_SUMS in src/ops/arguments.h). A
 * single work-group of GROUP items; local memory 24 * GROUP bytes. Sums are pairs of floats, in an
 * order that depends on the number of rows alone. Dtypes: float. */
#include "common.h"

/* (hi, lo) += v, exactly (Knuth's TwoSum). */
float2 two_sum(float2 s, float v) {
  const float hi = s.x + v, part = hi - s.x;
  return (float2)(hi, s.y + ((s.x - (hi - part)) + (v - part)));
}

kernel WORK_GROUP(GROUP, 1) void sum_losses(const global float *rows, global float *sums, long n,
                                            int add) {
  local float2 scratch[3][GROUP];
  const int item = get_local_id(0);
  for (int k = 0; k < 3; k++) {
    float2 s = (float2)(0, 0);
    for (size_t i = item; i < n; i += GROUP) s = two_sum(s, rows[3 * i + k]);
    scratch[k][item] = s;
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = GROUP / 2; half_size > 0; half_size /= 2) {
    if (item < half_size)
      for (int k = 0; k < 3; k++) {
        const float2 other = scratch[k][item + half_size];
        float2 s = two_sum(scratch[k][item], other.x);
        s.y += other.y;
        scratch[k][item] = s;
      }
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (item > 3) return;
  float2 s = (float2)(0, 0);
  if (item < 3) s = scratch[item][0];
  if (add) {
    s = two_sum(s, sums[2 * item]);
    s.y += sums[2 * item + 1];
  }
  /* What is not finite has no second part. */
  const float hi = isfinite(s.x) ? s.x + s.y : s.x;
  sums[2 * item] = hi;
  sums[2 * item + 1] = isfinite(s.x) ? s.y - (hi - s.x) : 0;
}
