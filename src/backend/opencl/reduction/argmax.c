/* argmax. Its kernel is in along.cl. */
#include "backend/opencl/shared/opencl.h"
#include "ops/reduction/along.h"

static ac_status run(ac_opencl *cl, const ac_op_args *args) {
  const ac_argmax_attributes *attributes = args->attributes;
  const ac_operand *x = &args->in[0], *ids = &args->out[0];
  const ac_along a = ac_along_axis(x, attributes->axis);
  cl->storage = x->dtype;
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"along", "argmax", NULL}),
                      ac_cl_groups(ac_ceil_div(ids->count, 32), 32, ac_cl_lanes(cl)),
                      AC_CL_OPERAND(*x), AC_CL_OPERAND(*ids), AC_CL_LONG(a.length),
                      AC_CL_LONG(a.inner), AC_CL_LONG(ids->count));
}

const ac_cl_op ac_cl_op_argmax = {.run = run};
