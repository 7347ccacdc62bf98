/* gelu. With GELU_ERF: y = x Phi(x), dx = dy (Phi(x) + x phi(x)), where Phi and phi are the normal
 * distribution and its density. Else, with u = sqrt(2/pi) (x + 0.044715 x^3) and
 * s = (1 + tanh u) / 2 = 1 / (1 + exp(-2 u)): y = x s, dx = dy (s + 2 x s (1 - s) u'). It is
 * written with exp because a device's tanh need not reach 1. In place allowed. One work-item an
 * element, groups of GROUP. Dtypes: storage. */
#include "common.h"

#ifdef GELU_ERF
/* erfc keeps the tail that 1 + erf(x) would round away. */
float normal_distribution(float x) {
  return 0.5f * erfc(-0.70710678118654752f * x);
}

float gelu_value(float x) {
  return x * normal_distribution(x);
}

float gelu_slope(float x) {
  return normal_distribution(x) + x * 0.39894228040143268f * exp(-0.5f * x * x);
}
#else
#define ROOT 0.79788456080286536f
#define CUBIC 0.044715f

float gelu_share(float x) {
  return 1 / (1 + exp(-2 * ROOT * (x + CUBIC * x * x * x)));
}

float gelu_value(float x) {
  return x * gelu_share(x);
}

float gelu_slope(float x) {
  const float s = gelu_share(x);
  return s + 2 * x * s * (1 - s) * ROOT * (1 + 3 * CUBIC * x * x);
}
#endif

kernel WORK_GROUP(GROUP, 1) void gelu(const global storage *x, global storage *y, long n) {
  const size_t i = element_id();
  if (i < n) store(y, i, gelu_value(load(x, i)));
}

kernel WORK_GROUP(GROUP, 1) void gelu_gradient(const global storage *dy, const global storage *x,
                                               global storage *dx, long n) {
  const size_t i = element_id();
  if (i < n) store(dx, i, load(dy, i) * gelu_slope(load(x, i)));
}
