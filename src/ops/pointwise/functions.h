/* Stand-in. X(name, operands, C) */
#ifndef AC_OPS_FUNCTIONS_H
#define AC_OPS_FUNCTIONS_H
#define AC_FUNCTIONS(X)                       \
  X(add, 2, a + b, "a + b", a + b)            \
  X(multiply, 2, a *b, "a * b", a *b)         \
  X(exp, 1, exponential(a), "exp(a)", exp(a)) \
  X(relu, 1, a < 0.0f ? 0.0f : a, "a < 0 ? 0 : a", a < 0 ? 0 : a)
enum {
#define AC_FUNCTION_ENUM(name, ...) AC_FUNCTION_##name,
  AC_FUNCTIONS(AC_FUNCTION_ENUM) AC_FUNCTION_COUNT
};
#endif
