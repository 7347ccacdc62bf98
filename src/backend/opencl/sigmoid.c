/* sigmoid and its gradient. */
#include "backend/opencl/opencl.h"

ac_status ac_cl_sigmoid(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"sigmoid", "sigmoid", NULL}),
                      ac_cl_elements(cl, x->count), AC_CL_OPERAND(*x), AC_CL_OPERAND(args->out[0]),
                      AC_CL_LONG(x->count));
}

ac_status ac_cl_sigmoid_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dy = &args->in[0], *y = &args->in[1];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"sigmoid", "sigmoid_gradient", NULL}),
                      ac_cl_elements(cl, dy->count), AC_CL_OPERAND(*dy), AC_CL_OPERAND(*y),
                      AC_CL_OPERAND(args->out[0]), AC_CL_LONG(dy->count));
}
