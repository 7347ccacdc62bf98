/* Of what the head computes: which ops have a result for each row, and not sums of them. Attributes
 * are those of linear_cross_entropy. */
#ifndef AC_OPS_LINEAR_LOG_PROBABILITY_H
#define AC_OPS_LINEAR_LOG_PROBABILITY_H

#include "ops/loss/linear_cross_entropy.h"

static inline bool ac_head_has_rows(const ac_op_args *args) {
  return args->op == AC_OP_linear_log_probability ||
         args->op == AC_OP_linear_log_probability_gradient;
}

/* Whether rows' gradients are asked for, by an op that has rows. */
static inline bool ac_head_has_row_gradients(const ac_op_args *args) {
  return args->op == AC_OP_linear_log_probability_gradient;
}

#endif
