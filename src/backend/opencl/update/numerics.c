/* numerics: counts of what overflowed and of what was flushed to zero. */
#include "backend/opencl/shared/opencl.h"
#include "core/error.h"

static ac_status run(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *counts = &args->out[0];
  if (!args->add[0]) AC_TRY(ac_cl_zero(cl, counts->data, (uint64_t)counts->count * sizeof(cl_int)));
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"numerics", "numerics", NULL}),
                      ac_cl_groups(ac_cl_some_groups(cl, x->count), cl->group, 1),
                      AC_CL_OPERAND(*x), AC_CL_OPERAND(*counts), AC_CL_LONG(x->count));
}

const ac_cl_op ac_cl_op_numerics = {.run = run};
