/* concat, slice and its gradient, on tensors seen as rows: what follows an axis is one row for each
 * index of what precedes it.
 *   move_part       y[row, first_y + i] (+)= x[row, first_x + i] for i < run
 *   slice_gradient  dx[row, j] (+)= dy[row, j - first] for first <= j < first + run, else 0
 *
 * One work-item an element of the part, or of dx; groups of GROUP. Dtypes: storage. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void move_part(const global storage *x, global storage *y, long n,
                                           long run, long row_x, long first_x, long row_y,
                                           long first_y, int add) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t row = quotient(e, run), i = e - row * run, at = row * row_y + first_y + i;
  const float v = load(x, row * row_x + first_x + i);
  store(y, at, add ? load(y, at) + v : v);
}

kernel WORK_GROUP(GROUP, 1) void slice_gradient(const global storage *dy, global storage *dx,
                                                long n, long run, long row_x, long first, int add) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t row = quotient(e, row_x), j = e - row * row_x;
  const float v = j >= first && j < first + run ? load(dy, row * run + j - first) : 0;
  store(dx, e, add ? load(dx, e) + v : v);
}
