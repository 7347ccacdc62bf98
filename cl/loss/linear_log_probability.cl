/* y[first + n] = -rows[3 n] - less[first + n]: what cross_entropy.cl leaves of row n of a chunk is its
 * weighted loss, which is -log p of the target. `less` may be NULL.
 *
 * One work-item an element, groups of GROUP. Dtypes: float. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void store_rows(const global float *rows, const global float *less,
                                            global float *y, long n, long first) {
  const size_t i = element_id();
  if (i >= n) return;
  y[first + i] = -rows[3 * i] - (less ? less[first + i] : 0);
}
