#ifndef AC_OPS_OPTIMIZER_H
#define AC_OPS_OPTIMIZER_H

#include "ops/arguments.h"

/* out[0] = sum of (g * scale)^2 / 4^out[1]. out[1] is 0. If the sum is too large or too small for a
 * float without loss, out[1] is AC_SQUARES_EXPONENT or its negative. If a g is not finite, which an
 * integer test of the exponent bits finds, out[1] is AC_SQUARES_NOT_FINITE. Too small means below
 * AC_SQUARES_LEAST: there, squares of single elements may be too small for a float. */
enum { AC_SQUARES_NOT_FINITE = 1, AC_SQUARES_EXPONENT = 96 };
#define AC_SQUARES_LEAST 0x1p-80
#define AC_SQUARES_MOST 0x1p100
typedef struct ac_gradient_statistics_attributes {
  float scale;
} ac_gradient_statistics_attributes;

/* AdamW (Loshchilov and Hutter, arXiv 1711.05101), with g' = gradient_factor * g:
 *   p -= rate * weight_decay * p;  m += take1 (g' - m);  v += take2 (g'^2 - v)
 *   p -= rate / correction1 * m / (sqrt(v) / sqrt_correction2 + epsilon)
 * where take = 1 - beta, correction1 = 1 - beta1^t and sqrt_correction2 = sqrt(1 - beta2^t) for the
 * t-th update. All four are computed in double and rounded once: a beta near 1 that is rounded
 * first leaves few digits of 1 - beta, or none. */
typedef struct ac_adamw_attributes {
  float gradient_factor; /* unscale, clip and divide in one */
  float rate, weight_decay;
  float take1, take2, epsilon;
  float correction1, sqrt_correction2;
} ac_adamw_attributes;

/* SGD as PyTorch's: g' = gradient_factor * g + weight_decay * p;  b = first ? g' : momentum * b +
 * g'; p -= rate * (nesterov ? g' + momentum * b : b). Without a momentum operand: p -= rate * g'.
 */
typedef struct ac_sgd_attributes {
  float gradient_factor;
  float rate, weight_decay, momentum;
  int32_t nesterov;
  int32_t first; /* the first update: the momentum buffer holds nothing yet */
} ac_sgd_attributes;

#endif
