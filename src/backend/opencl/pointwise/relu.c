/* relu and its gradient. */
#include "backend/opencl/shared/opencl.h"

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_map(cl, (ac_cl_kernel){"relu", "relu", NULL}, args);
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_map(cl, (ac_cl_kernel){"relu", "relu_gradient", NULL}, args);
}

const ac_cl_op ac_cl_op_relu = {.run = forward};
const ac_cl_op ac_cl_op_relu_gradient = {.run = gradient};
