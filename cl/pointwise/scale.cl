/* scale: y[i] (+)= factor x[i]. y may be x. One work-item an element, groups of GROUP. Dtypes:
 * storage. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void scale(const global storage *x, global storage *y, long n,
                                       float factor, int add) {
  const size_t i = element_id();
  if (i >= n) return;
  const float v = factor * load(x, i);
  store(y, i, add ? load(y, i) + v : v);
}
