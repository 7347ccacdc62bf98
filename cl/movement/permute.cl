/* Axes in another order.
 *
 * transpose_tile: y[o,b,m,a] = x[o,a,m,b], where a and b are two dimensions that are swapped and o
 * and m what lies before and between them. It moves squares of 32 x 32 through local memory
 * (4.1 KiB) so that both sides are touched in runs; work-group 32 x LANES. permute, for all else,
 * is one work-item an element, groups of GROUP. Dtypes: storage, and integers in its place. */
#include "movement/bits.h"

#define AXIS(k)                                     \
  if (rank > k + 1) {                               \
    const size_t next = quotient(rest, dim.s##k);   \
    from += (rest - next * dim.s##k) * stride.s##k; \
    rest = next;                                    \
  } else if (rank == k + 1) {                       \
    from += rest * stride.s##k;                     \
    rest = 0;                                       \
  }

kernel WORK_GROUP(32, LANES) void transpose_tile(const global storage *x, global storage *y, long a,
                                                 long m, long b) {
  local bits tile[32][33];
  const int tx = get_local_id(0), lane = get_local_id(1);
  const size_t tiles_a = (a + 31) / 32, tiles_b = (b + 31) / 32;
  size_t group = get_group_id(0), rest = quotient(group, tiles_b);
  const size_t b0 = (group - rest * tiles_b) * 32;
  group = rest;
  rest = quotient(group, tiles_a);
  const size_t a0 = (group - rest * tiles_a) * 32;
  const size_t o = quotient(rest, m), middle = rest - o * m;
  const size_t from = o * a * m * b + middle * b, to = o * a * m * b + middle * a;
  for (int k = lane; k < 32; k += LANES)
    if (a0 + k < a && b0 + tx < b)
      tile[k][tx] = ((const global bits *)x)[from + (a0 + k) * m * b + b0 + tx];
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int k = lane; k < 32; k += LANES)
    if (b0 + k < b && a0 + tx < a)
      ((global bits *)y)[to + (b0 + k) * m * a + a0 + tx] = tile[tx][k];
}

/* The sum of what each index of element e is times its stride. The last axis is the first here, and
 * those that there are not have a size of 1. */
kernel WORK_GROUP(GROUP, 1) void permute(const global storage *x, global storage *y, long n,
                                         int rank, long8 dim, long8 stride) {
  const size_t e = element_id();
  if (e >= n) return;
  size_t rest = e, from = 0;
  AXIS(0)
  AXIS(1)
  AXIS(2)
  AXIS(3)
  AXIS(4)
  from += rest * stride.s5;
  ((global bits *)y)[e] = ((const global bits *)x)[from];
}
