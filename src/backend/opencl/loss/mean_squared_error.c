/* mean_squared_error of each sample, and its gradient. */
#include "backend/opencl/loss/losses.h"

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_sample_losses(cl, (ac_cl_kernel){"mean_squared_error", "mean_squared_error", NULL},
                             args);
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_sample_gradients(
      cl, (ac_cl_kernel){"mean_squared_error", "mean_squared_error_gradient", NULL}, args,
      2.0f * ac_loss_scale(args));
}

const ac_cl_op ac_cl_op_mean_squared_error = {.run = forward,
                                              .workspace = ac_cl_sample_losses_workspace};
const ac_cl_op ac_cl_op_mean_squared_error_gradient = {.run = gradient};
