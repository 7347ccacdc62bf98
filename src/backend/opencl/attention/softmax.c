/* softmax over the last dimension, and its gradient. */
#include "backend/opencl/shared/opencl.h"

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0];
  return AC_CL_LAUNCH(cl,
                      ((ac_cl_kernel){"softmax", "softmax", ac_cl_row_options(cl, ac_columns(x))}),
                      ac_cl_rows(cl, ac_rows(x), ac_columns(x)), AC_CL_OPERAND(*x),
                      AC_CL_OPERAND(args->out[0]), AC_CL_LONG(ac_columns(x)));
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dy = &args->in[0], *y = &args->in[1];
  return AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"softmax", "softmax_gradient", ac_cl_row_options(cl, ac_columns(dy))}),
      ac_cl_rows(cl, ac_rows(dy), ac_columns(dy)), AC_CL_OPERAND(*dy), AC_CL_OPERAND(*y),
      AC_CL_OPERAND(args->out[0]), AC_CL_LONG(ac_columns(dy)));
}

const ac_cl_op ac_cl_op_softmax = {.run = forward};
const ac_cl_op ac_cl_op_softmax_gradient = {.run = gradient};
