#ifndef AC_OPS_ADAFACTOR_H
#define AC_OPS_ADAFACTOR_H

#include "ops/arguments.h"

/* Adafactor (Shazeer and Stern, arXiv 1804.04235) without momentum, for vectors and matrices as
 * torch.optim.Adafactor. A parameter of more than one dimension is treated as a matrix p[R, C] of
 * its first dimension by the rest. With g' = gradient_factor * g, rms(x) the root of the mean of
 * squares, and t the number of this update, from 1:
 *   step = max(epsilon2, rms(p)) * min(rate, 1 / sqrt(t))
 *   p -= rate * weight_decay * p
 *   r_i += t^-0.8 (mean over j of g'_ij^2 - r_i);  c_j += t^-0.8 (mean over i of g'_ij^2 - c_j)
 *   v_ij = r_i c_j / max(mean of r, epsilon1)
 *   u = g' / sqrt(max(v, epsilon1^2));  p -= step / max(1, rms(u) / threshold) * u
 * For a vector, v itself is kept in the place of c, and r_i / max(...) is 1. */
typedef struct ac_adafactor_attributes {
  float gradient_factor; /* unscale, clip and divide in one */
  float rate, weight_decay;
  float relative; /* min(rate, 1 / sqrt(t)) */
  float blend;    /* t^-0.8 */
  float epsilon1, epsilon2, threshold;
} ac_adafactor_attributes;

/* Outputs: p, then r and c, or v. */
static inline int64_t ac_adafactor_rows(const ac_op_args *args) {
  return args->out[2].count ? args->out[0].dim[0] : 1;
}
static inline const ac_operand *ac_adafactor_columns(const ac_op_args *args) {
  return &args->out[args->out[2].count ? 2 : 1];
}

#endif
