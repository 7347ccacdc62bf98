#include "ops/pointwise/functions.h"

#include <math.h>
#include <stddef.h>

enum { HIDDEN = 1, SIGN_KEPT = 2, STOPPED = 4 };

#define LIST(...) \
  { __VA_ARGS__ }
const ac_function ac_functions[AC_FUNCTION_COUNT] = {
#define ROW(name, operands, text, cpu, opencl, value, da, db, dc, flops, low, high, kinks, is) \
  {#name,                                                                                      \
   text,                                                                                       \
   opencl,                                                                                     \
   {da, db, dc},                                                                               \
   operands,                                                                                   \
   flops,                                                                                      \
   low,                                                                                        \
   high,                                                                                       \
   LIST kinks,                                                                                 \
   ((is)&HIDDEN) != 0,                                                                         \
   ((is)&SIGN_KEPT) != 0,                                                                      \
   ((is)&STOPPED) != 0},
    AC_FUNCTION_LIST(ROW)
#undef ROW
};

static double maximum_of(double a, double b) {
  return a >= b || a != a ? a : b;
}
static double minimum_of(double a, double b) {
  return a <= b || a != a ? a : b;
}
static double larger_of(double a, double b) {
  return a < b ? b : a;
}
static double smaller_of(double a, double b) {
  return a > b ? b : a;
}
static double logistic_of(double a) {
  return 1 / (1 + exp(-a));
}
static double softplus_of(double a) {
  return (a < 0 ? 0 : a) + log1p(exp(-fabs(a)));
}
static double normal_of(double a) {
  return 0.5 * erfc(-0.70710678118654752440 * a);
}
static double density_of(double a) {
  return 0.39894228040143267794 * exp(-0.5 * a * a);
}

/* The share of a that gelu_tanh lets through, and its derivative. */
static const double root = 0.79788456080286535588, cubic = 0.044715;

static double gelu_share(double a) {
  return logistic_of(2 * root * (a + cubic * a * a * a));
}
static double gelu_tanh_slope_of(double a) {
  double u = 2 * root * (a + cubic * a * a * a), s = logistic_of(u);
  return s + a * s * logistic_of(-u) * 2 * root * (1 + 3 * cubic * a * a);
}
static double mish_slope_of(double a) {
  double t = tanh(softplus_of(a)), c = 1 / cosh(softplus_of(a));
  return t + a * c * c * logistic_of(a);
}

double ac_function_value(int function, double a, double b, double c) {
  switch (function) {
#define ROW(name, operands, text, cpu, opencl, value, ...) \
  case AC_FUNCTION_##name:                                 \
    return value;
    AC_FUNCTION_LIST(ROW)
#undef ROW
  default:
    return NAN;
  }
}
