/* sigmoid and its gradient. */
#include "backend/opencl/opencl.h"

ac_status ac_cl_sigmoid(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_map(cl, (ac_cl_kernel){"sigmoid", "sigmoid", NULL}, args);
}

ac_status ac_cl_sigmoid_gradient(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_map(cl, (ac_cl_kernel){"sigmoid", "sigmoid_gradient", NULL}, args);
}
