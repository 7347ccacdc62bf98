#ifndef AC_OPS_ADAM_MINI_H
#define AC_OPS_ADAM_MINI_H

#include "ops/arguments.h"

/* Adam-mini (Zhang and others, arXiv 2406.16793): AdamW with one second moment for each block of a
 * parameter, with g' = gradient_factor * g:
 *   p -= rate * weight_decay * p;  m += take1 (g' - m)
 *   v_b += take2 (mean over block b of g'^2 - v_b)
 *   p -= rate / correction1 * m / (sqrt(v_b) / sqrt_correction2 + epsilon)
 * where take = 1 - beta, correction1 = 1 - beta1^t and sqrt_correction2 = sqrt(1 - beta2^t) for the
 * t-th update, all computed in double.
 *
 * A parameter is seen as a matrix p[R, C] of its first dimension by the rest, a vector as one row.
 * The second moments say what the blocks are: v[R, 1] rows, v[1, C] columns, v[1, 1] all of it. As
 * in the authors' partition, a block is all weights of one output of a layer: a row of weights
 * [out, in], or a column of [in, out]. Or it is a row of a table of embeddings, which is one
 * token's; or a whole vector. Two kinds of block differ from theirs. For queries and keys they take
 * a head at a time; here these are packed with values into one layer, and have a block for each
 * output like the values. And their latest code steps each element of a vector that is added by
 * itself; here such a vector is one block, as in the paper. */
typedef struct ac_adam_mini_attributes {
  float gradient_factor; /* unscale, clip and divide in one */
  float rate, weight_decay;
  float take1, take2, epsilon;
  float correction1, sqrt_correction2;
} ac_adam_mini_attributes;

typedef struct ac_adam_mini_matrix {
  int64_t rows, columns;
  bool by_column;
} ac_adam_mini_matrix;

static inline ac_adam_mini_matrix ac_adam_mini_matrix_of(const ac_op_args *args) {
  const ac_operand *p = &args->out[0], *v = &args->out[2];
  ac_adam_mini_matrix m = {.rows = 1, .by_column = v->dim[1] > 1};
  if (p->rank > 1 && v->count > 1) m.rows = p->dim[0];
  m.columns = p->count / m.rows;
  return m;
}

#endif
