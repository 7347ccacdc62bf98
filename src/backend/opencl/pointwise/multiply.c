/* multiply: element by element. */
#include "backend/opencl/shared/opencl.h"

static ac_status run(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *a = &args->in[0], *b = &args->in[1];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"multiply", "multiply", NULL}),
                      ac_cl_elements(cl, a->count), AC_CL_OPERAND(*a), AC_CL_OPERAND(*b),
                      AC_CL_OPERAND(args->out[0]), AC_CL_LONG(a->count), AC_CL_LONG(b->count),
                      AC_CL_INT(args->add[0]));
}

const ac_cl_op ac_cl_op_multiply = {.run = run};
