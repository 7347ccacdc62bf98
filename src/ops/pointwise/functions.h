/* The table of functions of elements. Formulas, gradients, kernels of both backends, references,
 * random graphs, bench shapes and the manual are made from it: a function is in no other list.
 *
 * A row is X(name, operands, text, cpu, opencl, value, da, db, dc, flops, low, high, kinks, is):
 *
 *   name      in formulas, and of AC_FUNCTION_name
 *   operands  how many: a, b, c
 *   text      the formula, for the manual
 *   cpu       an expression of floats a, b, c without branches or calls, so that loops over it
 *             vectorise; made of the functions of backend/cpu/shared/vector_functions.h, and only
 *             used where that is included
 *   opencl    the body of a function of floats a, b, c
 *   value     an expression of doubles a, b, c: the reference
 *   da db dc  the gradient with respect to each operand, as a formula of the operands a, b, c, the
 *             result y and the result's gradient g; NULL: none. It reads y instead of operands
 *             where y alone suffices, because then operands need not be kept.
 *   flops     for an element; a transcendental function counts as 8
 *   low high  operands that tests draw are in this range,
 *   kinks     and not next to 0 and these points, where derivatives jump, or each other
 *   is        HIDDEN: not in formulas of users, and without a gradient of its own; SIGN_KEPT: if
 *             operand b is a constant that is not negative, y > 0 just where a > 0, so that y can
 *             take the place of a in da; STOPPED: it has no gradient though it has a derivative
 *
 * Where a derivative does not exist, the gradient is PyTorch's. Slopes have rows of their own where
 * what elementary functions would make of them cancels, or takes several exponentials. */
#ifndef AC_OPS_FUNCTIONS_H
#define AC_OPS_FUNCTIONS_H

#include <stdbool.h>

/* clang-format off */
#define AC_FUNCTION_LIST(X)                                                                                            \
  X(add, 2, "a + b", a + b, "return a + b;", a + b,                                                                    \
    "g", "g", NULL, 1, -4, 4, (0), 0)                                                                                  \
  X(subtract, 2, "a - b", a - b, "return a - b;", a - b,                                                               \
    "g", "-g", NULL, 1, -4, 4, (0), 0)                                                                                 \
  X(multiply, 2, "a * b", a * b, "return a * b;", a * b,                                                               \
    "g * b", "g * a", NULL, 1, -4, 4, (0), 0)                                                                          \
  X(divide, 2, "a / b", a / b, "return a / b;", a / b,                                                                 \
    "g / b", "-g * (y / b)", NULL, 1, 0.25, 4, (0), 0)                                                                 \
  X(negate, 1, "-a", -a, "return -a;", -a,                                                                             \
    "-g", NULL, NULL, 1, -4, 4, (0), 0)                                                                                \
  X(maximum, 2, "the larger of a and b", maximum(a, b), "return a >= b || a != a ? a : b;", maximum_of(a, b),          \
    "where(a < b, 0, where(a == b, 0.5 * g, g))", "where(b < a, 0, where(a == b, 0.5 * g, g))", NULL,                  \
    1, -4, 4, (0), 0)                                                                                                  \
  X(minimum, 2, "the smaller of a and b", minimum(a, b), "return a <= b || a != a ? a : b;", minimum_of(a, b),         \
    "where(a > b, 0, where(a == b, 0.5 * g, g))", "where(b > a, 0, where(a == b, 0.5 * g, g))", NULL,                  \
    1, -4, 4, (0), 0)                                                                                                  \
  X(power, 2, "a^b", to_the_power(a, b), "return pow(a, b);", pow(a, b),                                               \
    "where(b == 0, 0, g * (b * a ^ (b - 1)))", "where((a == 0) * (b >= 0), 0, g * (y * log(a)))", NULL,                \
    16, 0.25, 3, (0), 0)                                                                                               \
  X(square, 1, "a^2", a * a, "return a * a;", a * a,                                                                   \
    "g * (a + a)", NULL, NULL, 1, -4, 4, (0), 0)                                                                       \
  X(sqrt, 1, "the square root of a", sqrtf(a), "return sqrt(a);", sqrt(a),                                             \
    "g / (y + y)", NULL, NULL, 1, 0.01, 9, (0), 0)                                                                     \
  X(rsqrt, 1, "1 / sqrt(a)", 1.0f / sqrtf(a), "return 1 / sqrt(a);", 1 / sqrt(a),                                      \
    "-0.5 * g * (y * y * y)", NULL, NULL, 2, 0.1, 9, (0), 0)                                                           \
  X(reciprocal, 1, "1 / a", 1.0f / a, "return 1 / a;", 1 / a,                                                          \
    "-g * square(y)", NULL, NULL, 1, 0.25, 4, (0), 0)                                                                  \
  X(abs, 1, "a if a >= 0, else -a", fabsf(a), "return fabs(a);", fabs(a),                                              \
    "g * sign(a)", NULL, NULL, 1, -4, 4, (0), 0)                                                                       \
  X(sign, 1, "1 if a > 0, -1 if a < 0, else 0", (a > 0.0f ? 1.0f : 0.0f) - (a < 0.0f ? 1.0f : 0.0f),                   \
    "return (a > 0) - (a < 0);", (a > 0) - (a < 0),                                                                    \
    NULL, NULL, NULL, 1, -4, 4, (0), 0)                                                                                \
  X(stop_gradient, 1, "a, as a constant", a, "return a;", a,                                                           \
    NULL, NULL, NULL, 0, -4, 4, (0), STOPPED)                                                                          \
  X(clamp, 3, "min(max(a, b), c)", smaller(larger(a, b), c), "a = a < b ? b : a; return a > c ? c : a;",               \
    smaller_of(larger_of(a, b), c),                                                                                    \
    "where((a > b) * (a < c), g, 0)", "where((a <= b) * not(b >= c), g, 0)", "where((a >= c) + (b >= c), g, 0)",       \
    2, -4, 4, (0), 0)                                                                                                  \
  X(exp, 1, "e^a", full_exponential(a), "return exp(a);", exp(a),                                                      \
    "g * y", NULL, NULL, 8, -6, 3, (0), 0)                                                                             \
  X(expm1, 1, "e^a - 1", exponential_less_one(a), "return expm1(a);", expm1(a),                                        \
    "g * (y + 1)", NULL, NULL, 8, -6, 3, (0), 0)                                                                       \
  X(log, 1, "the natural logarithm of a", logarithm(a), "return log(a);", log(a),                                      \
    "g / a", NULL, NULL, 8, 0.1, 9, (0), 0)                                                                            \
  X(log1p, 1, "log(1 + a)", logarithm_of_one_more(a), "return log1p(a);", log1p(a),                                    \
    "g / (1 + a)", NULL, NULL, 8, -0.8, 9, (0), 0)                                                                     \
  X(sin, 1, "the sine of a", sine(a), "return sin(a);", sin(a),                                                        \
    "g * cos(a)", NULL, NULL, 8, -8, 8, (0), 0)                                                                        \
  X(cos, 1, "the cosine of a", cosine(a), "return cos(a);", cos(a),                                                    \
    "-g * sin(a)", NULL, NULL, 8, -8, 8, (0), 0)                                                                       \
  X(erf, 1, "2 / sqrt(pi) times the integral of e^(-t^2) from 0 to a", error_function(a), "return erf(a);", erf(a),    \
    "g * (1.1283791670955126 * exp(-square(a)))", NULL, NULL, 8, -3, 3, (0), 0)                                        \
  X(tanh, 1, "the hyperbolic tangent of a", hyperbolic_tangent(a),                                                     \
    "const float d = expm1(-2 * fabs(a)); return copysign(d / (2 + d), a);", tanh(a),                                  \
    "g * ((1 - y) * (1 + y))", NULL, NULL, 8, -4, 4, (0), 0)                                                           \
  X(sigmoid, 1, "1 / (1 + e^-a)", logistic(a), "return 1 / (1 + exp(-a));", logistic_of(a),                            \
    "g * (y * (1 - y))", NULL, NULL, 10, -6, 6, (0), 0)                                                                \
  X(softplus, 1, "log(1 + e^a)", softplus(a), "return fmax(a, 0.0f) + log1p(exp(-fabs(a)));", softplus_of(a),          \
    "-g * expm1(-y)", NULL, NULL, 16, -6, 6, (0), 0)                                                                   \
  X(log_sigmoid, 1, "log(1 / (1 + e^-a))", -softplus(-a), "return fmin(a, 0.0f) - log1p(exp(-fabs(a)));",              \
    -softplus_of(-a),                                                                                                  \
    "-g * expm1(y)", NULL, NULL, 16, -6, 6, (0), 0)                                                                    \
  X(relu, 1, "max(a, 0)", a < 0.0f ? 0.0f : a, "return a < 0 ? 0 : a;", a < 0 ? 0 : a,                                 \
    "where(y <= 0, 0, g)", NULL, NULL, 1, -4, 4, (0), 0)                                                               \
  X(relu6, 1, "min(max(a, 0), 6)", smaller(larger(a, 0.0f), 6.0f), "a = a < 0 ? 0 : a; return a > 6 ? 6 : a;",         \
    smaller_of(larger_of(a, 0), 6),                                                                                    \
    "where((y <= 0) + (y >= 6), 0, g)", NULL, NULL, 2, -4, 9, (6), 0)                                            \
  X(leaky_relu, 2, "a if a > 0, else b a", a > 0.0f ? a : b * a, "return a > 0 ? a : b * a;", a > 0 ? a : b * a,       \
    "where(a > 0, g, b * g)", "where(a > 0, 0, g * a)", NULL, 2, -4, 4, (0), SIGN_KEPT)                                \
  X(elu, 2, "a if a > 0, else b (e^a - 1)", a > 0.0f ? a : b * exponential_less_one(a),                                \
    "return a > 0 ? a : b * expm1(a);", a > 0 ? a : b * expm1(a),                                                      \
    "where(a <= 0, g * (y + b), g)", "where(a > 0, 0, g * expm1(a))", NULL, 10, -4, 4, (0), SIGN_KEPT)                 \
  X(selu, 1, "s a if a > 0, else s t (e^a - 1), with s = 1.0507009873554805 and t = 1.6732632423543772",               \
    a > 0.0f ? 1.0507009873554805f * a : 1.7580993408473768f * exponential_less_one(a),                                \
    "return a > 0 ? 1.0507009873554805f * a : 1.7580993408473768f * expm1(a);",                                        \
    a > 0 ? 1.0507009873554805 * a : 1.7580993408473768 * expm1(a),                                                    \
    "where(y <= 0, g * (y + 1.7580993408473768), 1.0507009873554805 * g)", NULL, NULL, 10, -4, 4, (0), 0)              \
  X(gelu, 1, "a Phi(a), Phi the normal distribution", a * normal_distribution(a),                                      \
    "return a * (0.5f * erfc(-0.70710678118654752f * a));", a * normal_of(a),                                          \
    "g * gelu_slope(a)", NULL, NULL, 12, -4, 4, (0), 0)                                                                \
  X(gelu_slope, 1, "Phi(a) + a phi(a)", gelu_slope(a),                                                                 \
    "return 0.5f * erfc(-0.70710678118654752f * a) + a * 0.39894228040143268f * exp(-0.5f * a * a);",                  \
    normal_of(a) + a * density_of(a),                                                                                  \
    NULL, NULL, NULL, 20, -4, 4, (0), HIDDEN)                                                                          \
  X(gelu_tanh, 1, "0.5 a (1 + tanh(sqrt(2 / pi) (a + 0.044715 a^3)))", gelu_tanh(a),                                   \
    "return a / (1 + exp(-1.5957691216057308f * (a + 0.044715f * a * a * a)));", a * gelu_share(a),                    \
    "g * gelu_tanh_slope(a)", NULL, NULL, 14, -4, 4, (0), 0)                                                           \
  X(gelu_tanh_slope, 1, "the derivative of gelu_tanh", gelu_tanh_slope(a),                                             \
    "const float u = 1.5957691216057308f * (a + 0.044715f * a * a * a), e = exp(-fabs(u)), r = 1 / (1 + e);"           \
    "return (a < 0 ? e * r : r) + a * (e * r * r) * (1.5957691216057308f + 0.21406448f * a * a);",                     \
    gelu_tanh_slope_of(a),                                                                                             \
    NULL, NULL, NULL, 20, -4, 4, (0), HIDDEN)                                                                          \
  X(silu, 1, "a / (1 + e^-a)", a * logistic(a), "return a / (1 + exp(-a));", a * logistic_of(a),                       \
    "g * silu_slope(a)", NULL, NULL, 11, -6, 6, (0), 0)                                                                \
  X(silu_slope, 1, "s + a s (1 - s), with s = 1 / (1 + e^-a)", silu_slope(a),                                          \
    "const float e = exp(-fabs(a)), r = 1 / (1 + e); return (a < 0 ? e * r : r) + a * (e * r * r);",                   \
    logistic_of(a) * (1 + a * logistic_of(-a)),                                                                        \
    NULL, NULL, NULL, 14, -6, 6, (0), HIDDEN)                                                                          \
  X(mish, 1, "a tanh(softplus(a))", mish(a),                                                                           \
    "const float e = exp(-fabs(a)), n = a < 0 ? e * (e + 2) : 1 + 2 * e;"                                              \
    "return a * (n / (n + (a < 0 ? 2 : 2 * e * e)));", a * tanh(softplus_of(a)),                                       \
    "g * mish_slope(a)", NULL, NULL, 14, -6, 6, (0), 0)                                                                \
  X(mish_slope, 1, "the derivative of mish", mish_slope(a),                                                            \
    "const float e = exp(-fabs(a)), n = a < 0 ? e * (e + 2) : 1 + 2 * e, c = a < 0 ? 2 : 2 * e * e;"                   \
    "const float r = 1 / (n + c), t = n * r; return t + a * (c * r) * (1 + t) * ((a < 0 ? e : 1) / (1 + e));",         \
    mish_slope_of(a),                                                                                                  \
    NULL, NULL, NULL, 24, -6, 6, (0), HIDDEN)                                                                          \
  X(hard_sigmoid, 1, "min(max(a + 3, 0), 6) / 6", smaller(larger(a + 3.0f, 0.0f), 6.0f) * 0.16666667f,                 \
    "a = a + 3 < 0 ? 0 : a + 3; return (a > 6 ? 6 : a) * 0.16666667f;", smaller_of(larger_of(a + 3, 0), 6) / 6,        \
    "where((y > 0) * (y < 1), 0.16666666666666666 * g, 0)", NULL, NULL, 4, -6, 6, (-3, 3), 0)                       \
  X(hard_swish, 1, "a min(max(a + 3, 0), 6) / 6", a * (smaller(larger(a + 3.0f, 0.0f), 6.0f) * 0.16666667f),           \
    "const float s = a + 3 < 0 ? 0 : a + 3; return a * ((s > 6 ? 6 : s) * 0.16666667f);",                              \
    a * smaller_of(larger_of(a + 3, 0), 6) / 6,                                                                        \
    "where(a <= -3, 0, where(a < 3, g * (a / 3 + 0.5), g))", NULL, NULL, 5, -6, 6, (-3, 3), 0)                      \
  X(softsign, 1, "a / (1 + abs(a))", a / (1.0f + fabsf(a)), "return a / (1 + fabs(a));", a / (1 + fabs(a)),            \
    "g / square(1 + abs(a))", NULL, NULL, 3, -4, 4, (0), 0)                                                            \
  X(less, 2, "1 if a < b, else 0", a < b ? 1.0f : 0.0f, "return a < b;", a < b,                                        \
    NULL, NULL, NULL, 1, -4, 4, (0), 0)                                                                                \
  X(less_equal, 2, "1 if a <= b, else 0", a <= b ? 1.0f : 0.0f, "return a <= b;", a <= b,                              \
    NULL, NULL, NULL, 1, -4, 4, (0), 0)                                                                                \
  X(greater, 2, "1 if a > b, else 0", a > b ? 1.0f : 0.0f, "return a > b;", a > b,                                     \
    NULL, NULL, NULL, 1, -4, 4, (0), 0)                                                                                \
  X(greater_equal, 2, "1 if a >= b, else 0", a >= b ? 1.0f : 0.0f, "return a >= b;", a >= b,                           \
    NULL, NULL, NULL, 1, -4, 4, (0), 0)                                                                                \
  X(equal, 2, "1 if a = b, else 0", a == b ? 1.0f : 0.0f, "return a == b;", a == b,                                    \
    NULL, NULL, NULL, 1, -4, 4, (0), 0)                                                                                \
  X(not_equal, 2, "0 if a = b, else 1", a != b ? 1.0f : 0.0f, "return a != b;", a != b,                                \
    NULL, NULL, NULL, 1, -4, 4, (0), 0)                                                                                \
  X(not, 1, "1 if a = 0, else 0", a == 0.0f ? 1.0f : 0.0f, "return a == 0;", a == 0,                                   \
    NULL, NULL, NULL, 1, -4, 4, (0), 0)                                                                                \
  X(where, 3, "b if a is not 0, else c", a != 0.0f ? b : c, "return a != 0 ? b : c;", a != 0 ? b : c,                  \
    NULL, "where(a, g, 0)", "where(a, 0, g)", 1, -4, 4, (0), 0)
/* clang-format on */

typedef enum ac_function_id {
#define AC_FUNCTION_ENUM(name, ...) AC_FUNCTION_##name,
  AC_FUNCTION_LIST(AC_FUNCTION_ENUM)
#undef AC_FUNCTION_ENUM
      AC_FUNCTION_COUNT
} ac_function_id;

typedef struct ac_function {
  const char *name, *text, *opencl;
  const char *gradient[3];
  int operands;
  double flops, low, high, kinks[2];
  bool hidden, sign_kept, stopped;
} ac_function;
extern const ac_function ac_functions[AC_FUNCTION_COUNT];

/* In double precision; operands that it does not have are ignored. */
double ac_function_value(int function, double a, double b, double c);

#endif
