/* softmax over the last dimension, and its gradient. */
#include "backend/opencl/opencl.h"

ac_status ac_cl_softmax(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0];
  char options[AC_CL_ROW_OPTIONS];
  const int group = ac_cl_row_group(cl, ac_columns(x), options);
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"softmax", "softmax", options}),
                      ac_cl_groups(ac_rows(x), group, 1), AC_CL_OPERAND(*x),
                      AC_CL_OPERAND(args->out[0]), AC_CL_LONG(ac_columns(x)));
}

ac_status ac_cl_softmax_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dy = &args->in[0], *y = &args->in[1];
  char options[AC_CL_ROW_OPTIONS];
  const int group = ac_cl_row_group(cl, ac_columns(dy), options);
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"softmax", "softmax_gradient", options}),
                      ac_cl_groups(ac_rows(dy), group, 1), AC_CL_OPERAND(*dy), AC_CL_OPERAND(*y),
                      AC_CL_OPERAND(args->out[0]), AC_CL_LONG(ac_columns(dy)));
}
