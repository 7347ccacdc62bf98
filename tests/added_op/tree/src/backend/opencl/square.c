/* square and its gradient. */
#include "ops/square.h"

#include "backend/opencl/opencl.h"

ac_status ac_cl_square(ac_opencl *cl, const ac_op_args *args) {
  const ac_square_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"square", "square", NULL}), ac_cl_elements(cl, x->count),
                      AC_CL_OPERAND(*x), AC_CL_OPERAND(args->out[0]), AC_CL_FLOAT(a->factor),
                      AC_CL_LONG(x->count));
}

ac_status ac_cl_square_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_square_attributes *a = args->attributes;
  const ac_operand *dy = &args->in[0], *x = &args->in[1];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"square", "square_gradient", NULL}),
                      ac_cl_elements(cl, dy->count), AC_CL_OPERAND(*dy), AC_CL_OPERAND(*x),
                      AC_CL_OPERAND(args->out[0]), AC_CL_FLOAT(a->factor), AC_CL_LONG(dy->count));
}
