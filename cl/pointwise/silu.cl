/* silu: y = x s, s = 1 / (1 + exp(-x)); dx = dy s (1 + x (1 - s)). In place allowed. One work-item
 * an element, groups of GROUP. Dtypes: storage. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void silu(const global storage *x, global storage *y, long n) {
  const size_t i = element_id();
  if (i >= n) return;
  const float v = load(x, i);
  store(y, i, v / (1 + exp(-v)));
}

kernel WORK_GROUP(GROUP, 1) void silu_gradient(const global storage *dy, const global storage *x,
                                               global storage *dx, long n) {
  const size_t i = element_id();
  if (i >= n) return;
  const float v = load(x, i), s = 1 / (1 + exp(-v));
  store(dx, i, load(dy, i) * s * (1 + v * (1 - s)));
}
