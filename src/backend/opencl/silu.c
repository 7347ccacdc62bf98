/* silu and its gradient. */
#include "backend/opencl/opencl.h"

ac_status ac_cl_silu(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_map(cl, (ac_cl_kernel){"silu", "silu", NULL}, args);
}

ac_status ac_cl_silu_gradient(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_map(cl, (ac_cl_kernel){"silu", "silu_gradient", NULL}, args);
}
