/* add: c[i] = a[i] + b[i mod m], for m that divides n. c may be a. One work-item an element, groups
 * of GROUP.
 *
 * sum_leading: y[j] (+)= sum_i x[i,j] for m rows of x[.,n] from row `first` on, in two passes of
 * one kernel: chunks of rows into partial sums [chunks,n], then these as one chunk into y.
 * Work-group 32 x LANES: 32 columns, LANES rows at a time; local memory 128 * LANES bytes. The
 * order of summation depends on the shape alone.
 *
 * Dtypes: storage; SUM_STORAGE says that the summed matrix is storage rather than float. */

kernel WORK_GROUP(GROUP, 1) void add(const global storage *a, const global storage *b,
                                     global storage *c, long n, long m) {
  const size_t i = get_global_id(0);
  if (i < n) store(c, i, load(a, i) + load(b, modulo(i, m)));
}

#ifdef SUM_STORAGE
typedef storage summand;
#define load_summand load
#else
typedef float summand;
#define load_summand(p, i) ((p)[i])
#endif

kernel WORK_GROUP(32, LANES) void sum_columns(const global summand *x, global float *y, long first,
                                              long m, long n, long rows_per_chunk, int add_to) {
  local float lane_sum[LANES][32];
  const int tx = get_local_id(0), lane = get_local_id(1);
  const size_t tiles = (n + 31) / 32, group = get_group_id(0), chunk = quotient(group, tiles);
  const size_t column = (group - chunk * tiles) * 32 + tx;
  const size_t begin = chunk * rows_per_chunk, end = min((ulong)(begin + rows_per_chunk), (ulong)m);
  float sum = 0;
  if (column < n)
    for (size_t i = begin + lane; i < end; i += LANES)
      sum += load_summand(x, (first + i) * n + column);
  lane_sum[lane][tx] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  for (int half_size = LANES / 2; half_size > 0; half_size /= 2) {
    if (lane < half_size) lane_sum[lane][tx] += lane_sum[lane + half_size][tx];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  if (lane == 0 && column < n) {
    const size_t at = chunk * n + column;
    y[at] = lane_sum[0][tx] + (add_to ? y[at] : 0);
  }
}
