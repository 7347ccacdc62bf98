/* y = x in another float type: inserted where a tensor's dtype is not the one that an op wants
 * (graph/precision.c), after differentiation, so it needs no gradient rule. */
#include "ops/description.h"

const ac_op_desc ac_op_desc_cast = {
    .can_add = 1,
    .converts = true,
    .sample = {{"n"}, {"n"}, NULL},
};
