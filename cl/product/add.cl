/* add: c[i] = a[i] + b[i mod m], for m that divides n. c may be a. One work-item an element, groups
 * of GROUP.
 *
 * sum_leading: y[j] (+)= sum_i x[i,j] for m rows of x[.,n] from row `first` on, in two passes of
 * one kernel: chunks of rows into partial sums [chunks,n], then these as one chunk into y.
 * Work-group 32 x LANES: 32 columns, LANES rows at a time; local memory 128 * LANES bytes. The
 * order of summation depends on the shape alone.
 *
 * Dtypes: storage; SUM_STORAGE says that the summed matrix is storage rather than float. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void add(const global storage *a, const global storage *b,
                                     global storage *c, long n, long m) {
  const size_t i = element_id();
  if (i < n) store(c, i, load(a, i) + load(b, modulo(i, m)));
}

#ifdef SUM_STORAGE
typedef storage summand;
#define load_summand load
#else
typedef float summand;
#define load_summand LOAD_FLOAT
#endif

kernel WORK_GROUP(32, LANES) void sum_columns(const global summand *x, global float *y, long first,
                                              long m, long n, long rows_per_chunk, int add_to) {
  local float scratch[LANES][32];
  const int lane = get_local_id(1);
  const strip s = find_strip(m, n, rows_per_chunk);
  float sum = 0;
  if (s.column < n)
    for (size_t i = s.begin + lane; i < s.end; i += LANES)
      sum += load_summand(x, (first + i) * n + s.column);
  sum = lane_sum(sum, scratch);
  if (lane == 0 && s.column < n) {
    const size_t at = s.chunk * n + s.column;
    y[at] = sum + (add_to ? y[at] : 0);
  }
}
