/* numerics: counts of what overflowed and of what was flushed to zero. */
#include "backend/opencl/opencl.h"

static ac_status run(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"numerics", "numerics", NULL}),
                      ac_cl_groups(1, cl->group, 1), AC_CL_OPERAND(*x), AC_CL_OPERAND(args->out[0]),
                      AC_CL_LONG(x->count), AC_CL_INT(args->add[0]));
}

const ac_cl_op ac_cl_op_numerics = {.run = run};
