/* Log-probabilities of targets: linear_cross_entropy.c computes both. */
#include "backend/cpu/loss/head.h"

const ac_cpu_kernel AC_CPU_KERNEL(linear_log_probability) = {.run = ac_cpu_head_run,
                                                             .workspace = ac_cpu_head_workspace,
                                                             .rounds = 1u << 1,
                                                             .decodes = 1u << 1};
const ac_cpu_kernel AC_CPU_KERNEL(linear_log_probability_gradient) = {
    .run = ac_cpu_head_run,
    .workspace = ac_cpu_head_workspace,
    .rounds = 1u << 1,
    .decodes = 1u << 1};
