/* Log-probabilities of targets: linear_cross_entropy.c computes both. */
#include "backend/opencl/loss/head.h"

const ac_cl_op ac_cl_op_linear_log_probability = {.run = ac_cl_head_run,
                                                  .workspace = ac_cl_head_workspace};
const ac_cl_op ac_cl_op_linear_log_probability_gradient = {.run = ac_cl_head_run,
                                                           .workspace = ac_cl_head_workspace};
