/* Adam-mini: AdamW with a second moment for each block instead of each element. */
#include "ops/update/adam_mini.h"

#include "ops/update/update.h"

static const ac_adam_mini_attributes example = {1, 1e-3f, 0.01f, 0.1f, 0.001f, 1e-8f, 0.1f, 0.03f};

/* A column's moment needs all of the gradient before any of its elements is stepped. */
static double bytes(const ac_op_args *args) {
  const bool twice = ac_adam_mini_matrix_of(args).by_column;
  return ac_update_bytes(args) + (twice ? ac_operand_bytes(&args->in[0]) : 0);
}

const ac_op_desc ac_op_desc_adam_mini = {
    .phase = AC_PHASE_UPDATE,
    .by_window = true,
    .flops_per_element = 10,
    .bytes = bytes,
    .sample = {{"RC"}, {"RC", "RC", "R1"}, &example},
};
