/* sigmoid: y = 1 / (1 + exp(-x)); gradient from the result: dx = dy y (1 - y). In place allowed.
 * One work-item an element, groups of GROUP. Dtypes: storage. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void sigmoid(const global storage *x, global storage *y, long n) {
  const size_t i = element_id();
  if (i < n) store(y, i, 1 / (1 + exp(-load(x, i))));
}

kernel WORK_GROUP(GROUP, 1) void sigmoid_gradient(const global storage *dy, const global storage *y,
                                                  global storage *dx, long n) {
  const size_t i = element_id();
  if (i >= n) return;
  const float v = load(y, i);
  store(dx, i, load(dy, i) * (v * (1 - v)));
}
