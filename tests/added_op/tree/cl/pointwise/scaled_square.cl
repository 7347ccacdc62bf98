/* scaled_square: y = factor x^2; gradient: dx = dy s of the slopes s = 2 factor x. In place allowed. One
 * work-item an element, groups of GROUP. Dtypes: storage, float for s. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void scaled_square(const global storage *x, global storage *y, float factor,
                                        int n) {
  const size_t i = element_id();
  if (i < n) store(y, i, factor * load(x, i) * load(x, i));
}

kernel WORK_GROUP(GROUP, 1) void scaled_square_slopes(const global storage *x, global float *slopes,
                                               float factor, int n) {
  const size_t i = element_id();
  if (i < n) slopes[i] = 2 * factor * load(x, i);
}

kernel WORK_GROUP(GROUP, 1) void scaled_square_gradient(const global storage *dy,
                                                 const global float *slopes, global storage *dx,
                                                 int n) {
  const size_t i = element_id();
  if (i < n) store(dx, i, load(dy, i) * slopes[i]);
}
