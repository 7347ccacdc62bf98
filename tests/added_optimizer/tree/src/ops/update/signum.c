/* Signum: a step of one size for each element, by the sign of its momentum. */
#include "ops/update/signum.h"

#include "ops/update/update.h"

static const ac_signum_attributes example = {1, 1e-4f, 0.1f, 0.1f};

const ac_op_desc ac_op_desc_signum = {
    .by_element = true,
    .phase = AC_PHASE_UPDATE,
    .by_window = true,
    .flops_per_element = 8,
    .bytes = ac_update_bytes,
    .sample = {{"p"}, {"p", "p"}, &example},
};
