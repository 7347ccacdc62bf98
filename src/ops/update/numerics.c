/* How many elements of x are not finite, and how many were flushed to zero: for f16 with
 * ac_run_state.mark_flushed those that are -0, for other types none. Counts are i32 and stop at
 * INT32_MAX. It is not part of a graph: an instance runs it on what an op stored, if it is asked to
 * watch numbers. */
#include "ops/description.h"

const ac_op_desc ac_op_desc_numerics = {
    .can_add = 1,
    .sample = {{"n"}, {"#2"}, NULL},
};
