/* leaky_relu: y = x where x > 0, else slope x, NaN staying NaN; gradient from the result:
 * dx = y > 0 ? dy : slope dy. In place allowed. One work-item an element, groups of GROUP. Dtypes:
 * storage. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void leaky_relu(const global storage *x, global storage *y, long n,
                                            float slope) {
  const size_t i = element_id();
  if (i >= n) return;
  const float v = load(x, i);
  store(y, i, v > 0 ? v : slope * v);
}

kernel WORK_GROUP(GROUP, 1) void leaky_relu_gradient(const global storage *dy,
                                                     const global storage *y, global storage *dx,
                                                     long n, float slope) {
  const size_t i = element_id();
  if (i < n) store(dx, i, load(dy, i) * (load(y, i) > 0 ? 1 : slope));
}
