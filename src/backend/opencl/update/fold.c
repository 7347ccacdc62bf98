/* A gradient folded into an optimizer's state. */
#include "ops/update/fold.h"

#include "backend/opencl/shared/opencl.h"

static ac_status fold(ac_opencl *cl, const ac_op_args *args) {
  const ac_fold_attributes *a = args->attributes;
  const ac_operand *g = &args->in[0];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"fold", "fold", NULL}), ac_cl_elements(cl, g->count),
                      AC_CL_OPERAND(*g), AC_CL_OPERAND(args->out[0]), AC_CL_OPERAND(args->out[1]),
                      AC_CL_LONG(g->count), AC_CL_FLOAT(a->gradient_factor), AC_CL_FLOAT(a->keep1),
                      AC_CL_FLOAT(a->take1), AC_CL_FLOAT(a->keep2), AC_CL_FLOAT(a->take2),
                      AC_CL_INT(a->is_average));
}

const ac_cl_op ac_cl_op_fold = {.run = fold};
