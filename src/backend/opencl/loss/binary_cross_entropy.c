/* binary_cross_entropy of each sample, and its gradient. */
#include "backend/opencl/loss/losses.h"

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_sample_losses(
      cl, (ac_cl_kernel){"binary_cross_entropy", "binary_cross_entropy", NULL}, args);
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_sample_gradients(
      cl, (ac_cl_kernel){"binary_cross_entropy", "binary_cross_entropy_gradient", NULL}, args,
      ac_loss_scale(args));
}

const ac_cl_op ac_cl_op_binary_cross_entropy = {.run = forward,
                                                .workspace = ac_cl_sample_losses_workspace};
const ac_cl_op ac_cl_op_binary_cross_entropy_gradient = {.run = gradient};
