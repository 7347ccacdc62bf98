/* transpose: y[o,b,m,a,i] = x[o,a,m,b,i], where a and b are the swapped dimensions and o, m, i what
 * lies before, between and after them.
 *
 * transpose_tile, for i = 1, moves squares of 32 x 32 through local memory (4.1 KiB) so that both
 * sides are touched in runs; work-group 32 x LANES. transpose_runs, for i > 1, is one work-item an
 * element, groups of GROUP, reading and writing runs of i. Dtypes: storage. */
#include "common.h"

kernel WORK_GROUP(32, LANES) void transpose_tile(const global storage *x, global storage *y, long a,
                                                 long m, long b) {
  local float tile[32][33];
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
    if (a0 + k < a && b0 + tx < b) tile[k][tx] = load(x, from + (a0 + k) * m * b + b0 + tx);
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int k = lane; k < 32; k += LANES)
    if (b0 + k < b && a0 + tx < a) store(y, to + (b0 + k) * m * a + a0 + tx, tile[tx][k]);
}

kernel WORK_GROUP(GROUP, 1) void transpose_runs(const global storage *x, global storage *y, long n,
                                                long a, long m, long b, long run) {
  const size_t e = element_id();
  if (e >= n) return;
  size_t rest = quotient(e, run);
  const size_t in_run = e - rest * run;
  size_t next = quotient(rest, a);
  const size_t ia = rest - next * a;
  rest = next;
  next = quotient(rest, m);
  const size_t im = rest - next * m;
  const size_t o = quotient(next, b), ib = next - o * b;
  store(y, e, load(x, (((o * a + ia) * m + im) * b + ib) * run + in_run));
}
