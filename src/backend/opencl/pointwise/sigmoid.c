/* sigmoid and its gradient. */
#include "backend/opencl/shared/opencl.h"

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_map(cl, (ac_cl_kernel){"sigmoid", "sigmoid", NULL}, args);
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_map(cl, (ac_cl_kernel){"sigmoid", "sigmoid_gradient", NULL}, args);
}

const ac_cl_op ac_cl_op_sigmoid = {.run = forward};
const ac_cl_op ac_cl_op_sigmoid_gradient = {.run = gradient};
