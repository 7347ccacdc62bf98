/* concat, on tensors seen as rows: what follows an axis is one row for each index of what precedes
 * it.
 *   move_part   y[row, first + i] = x[row, i] for i < run
 *   clear_part  y[row, first + i] = 0 for i < run
 *
 * One work-item an element of the part; groups of GROUP. Dtypes: storage, and integers in its
 * place. */
#include "movement/bits.h"

kernel WORK_GROUP(GROUP, 1) void move_part(const global storage *x, global storage *y, long n,
                                           long run, long row_y, long first) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t row = quotient(e, run), i = e - row * run;
  ((global bits *)y)[row * row_y + first + i] = ((const global bits *)x)[e];
}

kernel WORK_GROUP(GROUP, 1) void clear_part(global storage *y, long n, long run, long row_y,
                                            long first) {
  const size_t e = element_id();
  if (e >= n) return;
  const size_t row = quotient(e, run), i = e - row * run;
  ((global bits *)y)[row * row_y + first + i] = 0;
}
