/** @file
 * Functions of elements: arithmetic, activations, comparisons, and formulas of one's own.
 *
 * Each function computes every element of its result from the elements at the same place of its
 * operands. Operands are f32. They need not have the same shape. Shapes are compared from the last
 * dimension backwards, as in NumPy. A dimension of 1, or one that is absent, is repeated to the
 * size of the other operands. So [B, T, C] goes with [C], [T, 1], [1] and [B, 1, C]. The batch goes
 * with the batch alone, or with what is repeated. The gradient of an operand that was repeated is
 * the sum over its repetitions, added in a fixed order.
 *
 * Neighbouring functions become one: they are computed together, element by element. Only the
 * graph decides this, so the memory budget changes no bits.
 *
 * NaN stays NaN, except where a comparison decides. Where a derivative does not exist, the gradient
 * is the one of PyTorch: the text of the function says which. */
#ifndef ACCRUE_POINTWISE_H
#define ACCRUE_POINTWISE_H

#include <accrue/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- arithmetic ------------------------------------------------------------------------------ */

/** a + b. */
AC_API ac_tensor *ac_add(ac_tensor *a, ac_tensor *b);
/** a - b. */
AC_API ac_tensor *ac_subtract(ac_tensor *a, ac_tensor *b);
/** a * b. */
AC_API ac_tensor *ac_multiply(ac_tensor *a, ac_tensor *b);
/** a / b. */
AC_API ac_tensor *ac_divide(ac_tensor *a, ac_tensor *b);
/** factor * x. */
AC_API ac_tensor *ac_scale(ac_tensor *x, float factor);
/** x + value. */
AC_API ac_tensor *ac_add_scalar(ac_tensor *x, float value);
/** The larger of a and b. NaN if one of them is NaN. If they are equal, each gets half of the
 * gradient. */
AC_API ac_tensor *ac_maximum(ac_tensor *a, ac_tensor *b);
/** The smaller of a and b. NaN if one of them is NaN. If they are equal, each gets half of the
 * gradient. */
AC_API ac_tensor *ac_minimum(ac_tensor *a, ac_tensor *b);
/** a to the power of b, as C's pow: NaN if a < 0 and b is not a whole number, and 1 if b = 0. The
 * derivative by a is b a^(b - 1), and 0 if b = 0. The derivative by b is a^b log(a), and 0 if a = 0
 * and b >= 0. */
AC_API ac_tensor *ac_power(ac_tensor *a, ac_tensor *b);
/** x * x. */
AC_API ac_tensor *ac_square(ac_tensor *x);
/** The square root of x. NaN if x < 0. Its derivative at 0 is infinite. */
AC_API ac_tensor *ac_sqrt(ac_tensor *x);
/** 1 / sqrt(x). */
AC_API ac_tensor *ac_rsqrt(ac_tensor *x);
/** 1 / x. */
AC_API ac_tensor *ac_reciprocal(ac_tensor *x);
/** The absolute value of x. Its derivative at 0 is 0. */
AC_API ac_tensor *ac_abs(ac_tensor *x);
/** 1 if x > 0, -1 if x < 0, else 0. Its derivative is 0. */
AC_API ac_tensor *ac_sign(ac_tensor *x);
/** The element of x, but at least low and at most high: min(max(x, low), high). A bound that is
 * infinite is none. The derivative is 1 between low and high, and 0 elsewhere, also at these
 * (PyTorch 2.15; earlier ones had 1 there). */
AC_API ac_tensor *ac_clamp(ac_tensor *x, float low, float high);

/* ---- elementary functions -------------------------------------------------------------------- */

/** e to the power of x. */
AC_API ac_tensor *ac_exp(ac_tensor *x);
/** e to the power of x, minus 1. It keeps its accuracy near x = 0. */
AC_API ac_tensor *ac_expm1(ac_tensor *x);
/** The natural logarithm of x. NaN if x < 0. */
AC_API ac_tensor *ac_log(ac_tensor *x);
/** The natural logarithm of 1 + x. It keeps its accuracy near x = 0. */
AC_API ac_tensor *ac_log1p(ac_tensor *x);
/** The sine of x, an angle in radians. */
AC_API ac_tensor *ac_sin(ac_tensor *x);
/** The cosine of x, an angle in radians. */
AC_API ac_tensor *ac_cos(ac_tensor *x);
/** The error function: 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x. */
AC_API ac_tensor *ac_erf(ac_tensor *x);
/** The hyperbolic tangent of x. */
AC_API ac_tensor *ac_tanh(ac_tensor *x);

/* ---- activations ----------------------------------------------------------------------------- */

/** 1 / (1 + exp(-x)). */
AC_API ac_tensor *ac_sigmoid(ac_tensor *x);
/** log(1 + exp(x)); Dugas et al. 2000. It neither overflows nor loses its tail. */
AC_API ac_tensor *ac_softplus(ac_tensor *x);
/** log(sigmoid(x)) = -softplus(-x). */
AC_API ac_tensor *ac_log_sigmoid(ac_tensor *x);
/** max(x, 0). Its derivative at 0 is 0. */
AC_API ac_tensor *ac_relu(ac_tensor *x);
/** min(max(x, 0), 6); arXiv 1704.04861. Its derivative at 0 and at 6 is 0. */
AC_API ac_tensor *ac_relu6(ac_tensor *x);
/** x if x > 0, else slope x. 0 <= slope < infinity. Maas, Hannun, Ng 2013 (slope 0.01). Its
 * derivative at 0 is the slope. For a slope that is trained, as in PReLU, see ac_formula. */
AC_API ac_tensor *ac_leaky_relu(ac_tensor *x, float slope);
/** x if x > 0, else alpha (exp(x) - 1); arXiv 1511.07289 (alpha 1). 0 <= alpha < infinity. Its
 * derivative at 0 is alpha. */
AC_API ac_tensor *ac_elu(ac_tensor *x, float alpha);
/** 1.0507 x if x > 0, else 1.0507 * 1.67326 (exp(x) - 1), with more digits; arXiv 1706.02515. Its
 * derivative at 0 is the one from below. */
AC_API ac_tensor *ac_selu(ac_tensor *x);
/** Which formula of GELU. */
typedef enum ac_gelu_kind {
  AC_GELU_TANH = 0, /**< 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), as in GPT-2. */
  AC_GELU_ERF       /**< x Phi(x); arXiv 1606.08415. */
} ac_gelu_kind;
/** GELU of each element. */
AC_API ac_tensor *ac_gelu(ac_tensor *x, ac_gelu_kind kind);
/** x / (1 + exp(-x)), also called swish; arXiv 1702.03118. */
AC_API ac_tensor *ac_silu(ac_tensor *x);
/** x tanh(softplus(x)); arXiv 1908.08681. */
AC_API ac_tensor *ac_mish(ac_tensor *x);
/** min(max(x + 3, 0), 6) / 6; arXiv 1905.02244. Its derivative at -3 and at 3 is 0. */
AC_API ac_tensor *ac_hard_sigmoid(ac_tensor *x);
/** x min(max(x + 3, 0), 6) / 6; arXiv 1905.02244. Its derivative at -3 is 0, and at 3 it is 1. */
AC_API ac_tensor *ac_hard_swish(ac_tensor *x);
/** x / (1 + |x|); Turian, Bergstra, Bengio 2009. */
AC_API ac_tensor *ac_softsign(ac_tensor *x);
/** silu(gate) * up, the gated unit of many transformers; arXiv 2002.05202. */
AC_API ac_tensor *ac_swiglu(ac_tensor *gate, ac_tensor *up);
/** gelu(gate) * up, with AC_GELU_ERF; arXiv 2002.05202. */
AC_API ac_tensor *ac_geglu(ac_tensor *gate, ac_tensor *up);

/* ---- comparisons ----------------------------------------------------------------------------- */

/* They give 1 where they are true, else 0, and have no gradient. With NaN they are false. */

/** 1 where a < b, else 0. */
AC_API ac_tensor *ac_less(ac_tensor *a, ac_tensor *b);
/** 1 where a = b, else 0. */
AC_API ac_tensor *ac_equal(ac_tensor *a, ac_tensor *b);
/** 1 where x is 0, else 0. */
AC_API ac_tensor *ac_not(ac_tensor *x);
/** a where the condition is not 0, else b. Only the one that is chosen gets a gradient: what the
 * other one is there, even NaN, has no effect. The condition has no gradient. */
AC_API ac_tensor *ac_where(ac_tensor *condition, ac_tensor *a, ac_tensor *b);

/* ---- functions of one's own ------------------------------------------------------------------ */

/** Limits of ac_formula. */
enum {
  AC_MAX_FORMULA_OPERANDS = 6, /**< Most operands of a formula. */
  AC_MAX_FORMULA_BYTES = 1000  /**< Most bytes of a formula. */
};

/** A function that is written as a formula, such as `"a * tanh(softplus(b))"`. `operands[0]` is
 * named a, `operands[1]` b, and so on up to f. The formula must use each of them.
 *
 *     formula     sum, or sum < sum; also > <= >= == !=, which give 1 or 0
 *     sum         products with + and - between them
 *     product     signed ones with * and / between them
 *     signed      a power, with + or - before it or without: -a^2 is -(a^2)
 *     power       a value, or value ^ signed; 2^3^2 is 2^(3^2)
 *     value       a number such as 2, 0.5, .5 or 1e-3, a name, function(formula, ...), or (formula)
 *
 * Blanks and new lines may be between them. The functions are those of this header, without `ac_`:
 * add, subtract, multiply, divide, negate, maximum, minimum, power, square, sqrt, rsqrt,
 * reciprocal, abs, sign, stop_gradient, clamp, exp, expm1, log, log1p, sin, cos, erf, tanh,
 * sigmoid, softplus, log_sigmoid, relu, relu6, leaky_relu, elu, selu, gelu (AC_GELU_ERF),
 * gelu_tanh, silu, mish, hard_sigmoid, hard_swish, softsign, less, less_equal, greater,
 * greater_equal, equal, not_equal, not and where. What is a number there may be any formula here:
 * leaky_relu(a, b) is a PReLU.
 *
 * The formula is parsed at once. A fault is refused with its position: `formula: column 5: ...`.
 * Its gradient is derived from the formula, by the same rules as for the functions. Refused are
 * parentheses more than 64 deep, and a formula that is too long: more than AC_MAX_FORMULA_BYTES, 24
 * different steps, 24 numbers, or a gradient of more than 96 steps. The text is not needed
 * afterwards. */
AC_API ac_tensor *ac_formula(ac_graph *graph, const char *formula, ac_tensor *const *operands,
                             int count);

#ifdef __cplusplus
}
#endif
#endif
