/* length_mask: y[i, t] = t < lengths[i]; one_hot: y[i, c] = c == ids[i]. One work-item an element,
 * groups of GROUP. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void length_mask(const global int *lengths, global float *y, long n,
                                             long columns) {
  const size_t e = element_id();
  if (e < n) y[e] = (long)(e % (size_t)columns) < lengths[e / (size_t)columns] ? 1.0f : 0.0f;
}

kernel WORK_GROUP(GROUP, 1) void one_hot(const global int *ids, global float *y, long n,
                                         long columns) {
  const size_t e = element_id();
  if (e < n) y[e] = (long)modulo(e, columns) == ids[quotient(e, columns)] ? 1.0f : 0.0f;
}
