/* binary_cross_entropy of each sample, and its gradient. */
#include "backend/opencl/opencl.h"

uint64_t ac_cl_binary_cross_entropy_workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  return ac_cl_sample_losses_workspace(args);
}

ac_status ac_cl_binary_cross_entropy(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_sample_losses(
      cl, (ac_cl_kernel){"binary_cross_entropy", "binary_cross_entropy", NULL}, args);
}

ac_status ac_cl_binary_cross_entropy_gradient(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_sample_gradients(
      cl, (ac_cl_kernel){"binary_cross_entropy", "binary_cross_entropy_gradient", NULL}, args,
      ac_loss_scale(args));
}
