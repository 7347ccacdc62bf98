/* length_mask: rows of ones and zeros. */
#include "backend/opencl/shared/opencl.h"

static ac_status run(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *lengths = &args->in[0], *y = &args->out[0];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"length_mask", "length_mask", NULL}),
                      ac_cl_elements(cl, y->count), AC_CL_OPERAND(*lengths), AC_CL_OPERAND(*y),
                      AC_CL_LONG(y->count), AC_CL_LONG(ac_columns(y)));
}

const ac_cl_op ac_cl_op_length_mask = {.run = run};
