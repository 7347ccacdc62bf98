/* scale: by a constant. */
#include "ops/pointwise/scale.h"

#include "backend/opencl/shared/opencl.h"

static ac_status run(ac_opencl *cl, const ac_op_args *args) {
  const ac_scale_attributes *a = args->attributes;
  const ac_operand *x = &args->in[0];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"scale", "scale", NULL}), ac_cl_elements(cl, x->count),
                      AC_CL_OPERAND(*x), AC_CL_OPERAND(args->out[0]), AC_CL_LONG(x->count),
                      AC_CL_FLOAT(a->factor), AC_CL_INT(args->add[0]));
}

const ac_cl_op ac_cl_op_scale = {.run = run};
