/* A gradient that is folded into an optimizer's state as soon as it is final, and dropped. */
#include "ops/update/fold.h"

#include "ops/update/update.h"

static const ac_fold_attributes example = {1, 0.9f, 0.1f, 0.999f, 0.001f, false};

const ac_op_desc ac_op_desc_fold = {
    .phase = AC_PHASE_FOLD,
    .by_window = true,
    .flops_per_element = 8,
    .bytes = ac_update_bytes,
    .sample = {{"p"}, {"p", "p"}, &example},
};
