/* A gradient clipped by value, or by the sizes of units of its parameter and of it. */
#include "ops/update/clip.h"

#include "ops/description.h"

static const ac_clip_attributes example = {1, 0.01f, true, false};

const ac_op_desc ac_op_desc_clip = {
    .phase = AC_PHASE_UPDATE,
    .by_window = true,
    .rewrites = true,
    .flops_per_element = 6,
    .sample = {{"io", "io"}, {"io"}, &example},
};
