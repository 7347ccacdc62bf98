/* tanh: y = tanh x; gradient from the result: dx = dy (1 - y^2). It is written with expm1, which
 * cancels nothing near zero, because a device's tanh need not reach 1. In place allowed. One
 * work-item an element, groups of GROUP. Dtypes: storage. */
#include "common.h"

kernel WORK_GROUP(GROUP, 1) void tanh_forward(const global storage *x, global storage *y, long n) {
  const size_t i = element_id();
  if (i >= n) return;
  const float v = load(x, i), d = expm1(-2 * fabs(v));
  store(y, i, copysign(d / (2 + d), v));
}

kernel WORK_GROUP(GROUP, 1) void tanh_gradient(const global storage *dy, const global storage *y,
                                               global storage *dx, long n) {
  const size_t i = element_id();
  if (i >= n) return;
  const float v = load(y, i);
  store(dx, i, load(dy, i) * ((1 - v) * (1 + v)));
}
