#ifndef AC_OPS_MUON_H
#define AC_OPS_MUON_H

#include "ops/arguments.h"

/* Muon (Jordan and others, https://kellerjordan.github.io/posts/muon) as torch.optim.Muon. A
 * parameter is treated as a matrix p[R, C] of its first dimension by the rest; torch does so for
 * filters. With g' = gradient_factor * g and |u| the root of the sum of squares:
 *
 *   m += take (g' - m);  u = nesterov ? g' + momentum (m - g') : m
 *   X = u / max(|u|, 1e-7), and AC_MUON_STEPS times, where R <= C:
 *     A = X X^T;  X = (3.4445 + (-4.7750) A + 2.0315 A^2) X
 *   or, where R > C, A = X^T X and X times the same polynomial
 *   p -= rate * weight_decay * p;  p -= rate * scale * X
 *
 * where take = 1 - momentum, computed in double.
 *
 * The iteration moves the singular values of u to between 0.7 and 1.2 and leaves its singular
 * vectors, so that a step is of about one size in every direction. Where `factors` is AC_BF16, a
 * device that multiplies bf16 by instructions keeps X, A and the polynomial in bf16, as PyTorch
 * always does; sums stay in f32, and all else computes in f32. */
typedef struct ac_muon_attributes {
  float gradient_factor; /* unscale, clip and divide in one */
  float rate, weight_decay, momentum, take;
  float scale; /* by the shape of the matrix */
  int32_t nesterov;
  ac_dtype factors; /* AC_F32 or AC_BF16 */
} ac_muon_attributes;

enum { AC_MUON_STEPS = 5 };
static const float ac_muon_polynomial[3] = {3.4445f, -4.7750f, 2.0315f};
#define AC_MUON_EPSILON 1e-7f

typedef struct ac_muon_matrix {
  int64_t rows, columns, side; /* the lesser of the two */
} ac_muon_matrix;

static inline ac_muon_matrix ac_muon_matrix_of(const ac_op_args *args) {
  ac_muon_matrix m = {.rows = args->in[0].dim[0]};
  m.columns = args->in[0].count / m.rows;
  m.side = m.rows < m.columns ? m.rows : m.columns;
  return m;
}

#endif
