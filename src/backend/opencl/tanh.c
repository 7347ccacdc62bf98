/* tanh and its gradient. */
#include "backend/opencl/opencl.h"

ac_status ac_cl_tanh(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_map(cl, (ac_cl_kernel){"tanh", "tanh_forward", NULL}, args);
}

ac_status ac_cl_tanh_gradient(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_map(cl, (ac_cl_kernel){"tanh", "tanh_gradient", NULL}, args);
}
