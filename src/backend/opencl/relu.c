/* relu and its gradient. */
#include "backend/opencl/opencl.h"

ac_status ac_cl_relu(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_map(cl, (ac_cl_kernel){"relu", "relu", NULL}, args);
}

ac_status ac_cl_relu_gradient(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_map(cl, (ac_cl_kernel){"relu", "relu_gradient", NULL}, args);
}
