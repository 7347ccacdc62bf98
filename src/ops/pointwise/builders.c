/* The public functions of elements: each checks its numbers and makes a program of few steps, with
 * its operands and then its numbers as values. */
#include <accrue/pointwise.h>

#include "ops/pointwise/elementwise.h"
#include "ops/pointwise/functions.h"

#include <math.h>
#include <string.h>

/* ---- one function ---------------------------------------------------------------------------- */

enum { MOST = 3 };

/* `function` of the tensors and then of the numbers. */
static ac_tensor *apply(const ac_builder *builder, int function, ac_tensor *const *tensors,
                        int numbers, const float *number) {
  ac_program program;
  int value[MOST] = {0};
  ac_program_begin(&program, builder->count);
  for (int i = 0; i < builder->count; i++) value[i] = i;
  for (int k = 0; k < numbers; k++)
    value[builder->count + k] = ac_program_constant(&program, (double)number[k]);
  const int y = ac_program_apply(&program, function, value[0], value[1], value[2]);
  ac_program_end(&program, 1, &y, NULL);
  return ac_pointwise(builder, tensors, &program);
}

#define UNARY(name)                                          \
  ac_tensor *ac_##name(ac_tensor *x) {                       \
    static const ac_builder builder = {#name, 1, {"x f32"}}; \
    return apply(&builder, AC_FUNCTION_##name, &x, 0, NULL); \
  }
#define BINARY(name)                                                  \
  ac_tensor *ac_##name(ac_tensor *a, ac_tensor *b) {                  \
    static const ac_builder builder = {#name, 2, {"a f32", "b f32"}}; \
    ac_tensor *tensors[] = {a, b};                                    \
    return apply(&builder, AC_FUNCTION_##name, tensors, 0, NULL);     \
  }

BINARY(add)
BINARY(subtract)
BINARY(multiply)
BINARY(divide)
BINARY(maximum)
BINARY(minimum)
BINARY(power)
UNARY(square)
UNARY(sqrt)
UNARY(rsqrt)
UNARY(reciprocal)
UNARY(abs)
UNARY(sign)
UNARY(exp)
UNARY(expm1)
UNARY(log)
UNARY(log1p)
UNARY(sin)
UNARY(cos)
UNARY(erf)
UNARY(tanh)
UNARY(sigmoid)
UNARY(softplus)
UNARY(log_sigmoid)
UNARY(relu)
UNARY(relu6)
UNARY(silu)
UNARY(selu)
UNARY(mish)
UNARY(hard_sigmoid)
UNARY(hard_swish)
UNARY(softsign)
BINARY(less)
BINARY(equal)
UNARY(not )

ac_tensor *ac_where(ac_tensor *condition, ac_tensor *a, ac_tensor *b) {
  static const ac_builder builder = {"where", 3, {"condition f32", "a f32", "b f32"}};
  ac_tensor *tensors[] = {condition, a, b};
  return apply(&builder, AC_FUNCTION_where, tensors, 0, NULL);
}

/* ---- with numbers ---------------------------------------------------------------------------- */

/* Whether the tensor is good and the number finite; the sentence says what it is. */
static bool takes(const ac_builder *builder, ac_tensor *const *x, const char *what, float number) {
  ac_graph *graph = ac_builder_graph(builder, x);
  if (graph && !isfinite(number))
    ac_builder_fail(graph, builder, x, "the %s %g is not finite", what, (double)number);
  return graph && isfinite(number);
}

/* The same of one that is not negative. */
static bool takes_positive(const ac_builder *builder, ac_tensor *const *x, const char *what,
                           float number) {
  ac_graph *graph = ac_builder_graph(builder, x);
  const bool good = number >= 0 && !isinf(number);
  if (graph && !good)
    ac_builder_fail(graph, builder, x, "the %s is %g; it must be finite and not negative", what,
                    (double)number);
  return graph && good;
}

ac_tensor *ac_add_scalar(ac_tensor *x, float value) {
  static const ac_builder builder = {"add_scalar", 1, {"x f32"}};
  if (!takes(&builder, &x, "value", value)) return NULL;
  return apply(&builder, AC_FUNCTION_add, &x, 1, &value);
}

ac_tensor *ac_scale(ac_tensor *x, float factor) {
  static const ac_builder builder = {"scale", 1, {"x f32"}};
  if (!takes(&builder, &x, "factor", factor)) return NULL;
  return apply(&builder, AC_FUNCTION_multiply, &x, 1, &factor);
}

ac_tensor *ac_leaky_relu(ac_tensor *x, float slope) {
  static const ac_builder builder = {"leaky_relu", 1, {"x f32"}};
  if (!takes_positive(&builder, &x, "slope", slope)) return NULL;
  return apply(&builder, AC_FUNCTION_leaky_relu, &x, 1, &slope);
}

ac_tensor *ac_gelu(ac_tensor *x, ac_gelu_kind kind) {
  static const ac_builder builder = {"gelu", 1, {"x f32"}};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  if (kind != AC_GELU_TANH && kind != AC_GELU_ERF)
    return ac_builder_fail(graph, &builder, &x, "unknown kind %d", (int)kind);
  return apply(&builder, kind == AC_GELU_TANH ? AC_FUNCTION_gelu_tanh : AC_FUNCTION_gelu, &x, 0,
               NULL);
}

ac_tensor *ac_elu(ac_tensor *x, float alpha) {
  static const ac_builder builder = {"elu", 1, {"x f32"}};
  if (!takes_positive(&builder, &x, "alpha", alpha)) return NULL;
  return apply(&builder, AC_FUNCTION_elu, &x, 1, &alpha);
}

ac_tensor *ac_clamp(ac_tensor *x, float low, float high) {
  static const ac_builder builder = {"clamp", 1, {"x f32"}};
  const float numbers[] = {low, high};
  ac_graph *graph = ac_builder_graph(&builder, &x);
  if (!graph) return NULL;
  if (isnan(low) || isnan(high))
    return ac_builder_fail(graph, &builder, &x, "the %s bound is not a number",
                           isnan(low) ? "low" : "high");
  if (low > high)
    return ac_builder_fail(graph, &builder, &x, "the low bound %g is above the high bound %g",
                           (double)low, (double)high);
  return apply(&builder, AC_FUNCTION_clamp, &x, 2, numbers);
}

/* ---- of several steps ------------------------------------------------------------------------ */

/* function(gate) * up */
static ac_tensor *gated(const char *name, int function, ac_tensor *gate, ac_tensor *up) {
  const ac_builder builder = {name, 2, {"gate f32", "up f32"}};
  ac_tensor *tensors[] = {gate, up};
  ac_program program;
  ac_program_begin(&program, 2);
  const int open = ac_program_apply(&program, function, 0, 0, 0);
  const int y = ac_program_apply(&program, AC_FUNCTION_multiply, open, 1, 0);
  ac_program_end(&program, 1, &y, NULL);
  return ac_pointwise(&builder, tensors, &program);
}

ac_tensor *ac_swiglu(ac_tensor *gate, ac_tensor *up) {
  return gated("swiglu", AC_FUNCTION_silu, gate, up);
}

ac_tensor *ac_geglu(ac_tensor *gate, ac_tensor *up) {
  return gated("geglu", AC_FUNCTION_gelu, gate, up);
}

/* Whether there is room for the gradient by each operand. */
static bool has_gradient(const ac_program *program) {
  ac_program gradient;
  int of[AC_PROGRAM_OPERANDS];
  for (int i = 0; i < program->operands; i++)
    if (ac_program_reaches(program, i) && !ac_program_differentiate(program, 1, &i, &gradient, of))
      return false;
  return true;
}

ac_tensor *ac_formula(ac_graph *graph, const char *formula, ac_tensor *const *operands, int count) {
  if (!AC_GIVEN(graph)) return NULL;
  const int given = !operands || count < 0 ? 0 : count < AC_MAX_INPUTS ? count : AC_MAX_INPUTS;
  const ac_builder builder = {"formula", given, {"operands[] f32"}};
  if (count < 1 || count > AC_FORMULA_OPERANDS || !operands)
    return ac_builder_fail(graph, &builder, operands, "%d operands%s; there must be 1 to %d", count,
                           operands ? "" : " at NULL", AC_FORMULA_OPERANDS);
  if (!ac_builder_begin(graph, &builder, operands)) return NULL;
  if (!formula) return ac_builder_fail(graph, &builder, operands, "the formula is missing");
  ac_program program;
  char message[AC_FORMULA_MESSAGE];
  if (!ac_program_parse(&program, formula, count, message))
    return ac_builder_fail(graph, &builder, operands, "%s", message);
  if (program.steps > AC_FORMULA_STEPS || !has_gradient(&program))
    return ac_builder_fail(graph, &builder, operands,
                           "the formula is too long; make it of parts that are formulas");
  return ac_pointwise(&builder, operands, &program);
}
