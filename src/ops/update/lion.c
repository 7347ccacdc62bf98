/* Lion: a step of one size for each element, in the direction of its momentum. */
#include "ops/update/lion.h"

#include "ops/update/update.h"

static const ac_lion_attributes example = {1, 1e-4f, 0.1f, 0.9f, 0.1f, 0.01f};

const ac_op_desc ac_op_desc_lion = {
    .by_element = true,
    .phase = AC_PHASE_UPDATE,
    .by_window = true,
    .flops_per_element = 10,
    .bytes = ac_update_bytes,
    .sample = {{"p"}, {"p", "p"}, &example},
};
