/* mean_squared_error of each sample, and its gradient. */
#include "backend/opencl/opencl.h"

uint64_t ac_cl_mean_squared_error_workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  return ac_cl_sample_losses_workspace(args);
}

ac_status ac_cl_mean_squared_error(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_sample_losses(cl, (ac_cl_kernel){"mean_squared_error", "mean_squared_error", NULL},
                             args);
}

ac_status ac_cl_mean_squared_error_gradient(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_sample_gradients(
      cl, (ac_cl_kernel){"mean_squared_error", "mean_squared_error_gradient", NULL}, args,
      2.0f * ac_loss_scale(args));
}
