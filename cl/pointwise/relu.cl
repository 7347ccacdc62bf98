/* relu: y = max(x, 0), NaN staying NaN; gradient from the result: dx = y > 0 ? dy : 0. In place
 * allowed. One work-item an element, groups of GROUP. Dtypes: storage. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void relu(const global storage *x, global storage *y, long n) {
  const size_t i = element_id();
  if (i >= n) return;
  const float v = load(x, i);
  store(y, i, v < 0 ? 0 : v);
}

kernel WORK_GROUP(GROUP, 1) void relu_gradient(const global storage *dy, const global storage *y,
                                               global storage *dx, long n) {
  const size_t i = element_id();
  if (i < n) store(dx, i, load(y, i) > 0 ? load(dy, i) : 0);
}
