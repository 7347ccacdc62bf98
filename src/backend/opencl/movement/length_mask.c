/* length_mask and one_hot: rows of ones and zeros. */
#include "backend/opencl/shared/opencl.h"

static ac_status run(ac_opencl *cl, const ac_op_args *args, const char *kernel) {
  const ac_operand *lengths = &args->in[0], *y = &args->out[0];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"length_mask", kernel, NULL}),
                      ac_cl_elements(cl, y->count), AC_CL_OPERAND(*lengths), AC_CL_OPERAND(*y),
                      AC_CL_LONG(y->count), AC_CL_LONG(ac_columns(y)));
}

static ac_status length_mask(ac_opencl *cl, const ac_op_args *args) {
  return run(cl, args, "length_mask");
}
static ac_status one_hot(ac_opencl *cl, const ac_op_args *args) {
  return run(cl, args, "one_hot");
}

const ac_cl_op ac_cl_op_length_mask = {.run = length_mask};
const ac_cl_op ac_cl_op_one_hot = {.run = one_hot};
