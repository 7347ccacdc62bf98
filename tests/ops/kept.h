/* What optimizers keep, in f32 or in blocks of 8 bits as arXiv 2110.02861 makes them, as doubles
 * for their references. */
#ifndef AC_TESTS_OPS_KEPT_H
#define AC_TESTS_OPS_KEPT_H

#include "ops/arguments.h"

/* What an operand of reals holds of `count` elements; to be put back by op_put_kept. */
double *op_take_kept(const ac_operand *x, int64_t count, bool is_signed);
void op_put_kept(ac_operand *x, double *kept, int64_t count, bool is_signed);

/* The value of a code; codes ascend with their values. */
double op_code_value(int code, bool is_signed);
/* The scale of a block, given by its bytes as doubles. */
float op_block_scale(const double *block);

#endif
