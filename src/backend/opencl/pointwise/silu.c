/* silu and its gradient. */
#include "backend/opencl/shared/opencl.h"

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_map(cl, (ac_cl_kernel){"silu", "silu", NULL}, args);
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_map(cl, (ac_cl_kernel){"silu", "silu_gradient", NULL}, args);
}

const ac_cl_op ac_cl_op_silu = {.run = forward};
const ac_cl_op ac_cl_op_silu_gradient = {.run = gradient};
