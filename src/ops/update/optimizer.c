/* gradient_statistics, and the steps of AdamW and SGD (optimizer.h). */
#include "ops/update/optimizer.h"

#include "ops/update/update.h"

/* Attributes of a middling update, for measuring alone. */
static const ac_gradient_statistics_attributes unscaled = {1};
static const ac_adamw_attributes adamw_example = {1,      1e-3f, 0.01f, 0.1f,
                                                  0.001f, 1e-8f, 0.1f,  0.03f};
static const ac_sgd_attributes sgd_example = {1, 1e-3f, 0.01f, 0.9f, false, false};

double ac_update_bytes(const ac_op_args *args) {
  double bytes = ac_op_operand_bytes(args);
  for (int i = 0; i < AC_MAX_OUTPUTS; i++)
    if (ac_op_output_kind(args->op, i) != 's') bytes += ac_operand_bytes(&args->out[i]);
  return bytes;
}

const ac_op_desc ac_op_desc_gradient_statistics = {
    .phase = AC_PHASE_REDUCE,
    .by_window = true,
    .flops_per_element = 3,
    .sample = {{"p"}, {"2"}, &unscaled},
};
const ac_op_desc ac_op_desc_adamw = {
    .by_element = true,
    .phase = AC_PHASE_UPDATE,
    .by_window = true,
    .flops_per_element = 14,
    .bytes = ac_update_bytes,
    .sample = {{"p"}, {"p", "p", "p"}, &adamw_example},
};
const ac_op_desc ac_op_desc_sgd = {
    .by_element = true,
    .phase = AC_PHASE_UPDATE,
    .by_window = true,
    .flops_per_element = 6,
    .bytes = ac_update_bytes,
    .sample = {{"p"}, {"p", "p"}, &sgd_example},
};
