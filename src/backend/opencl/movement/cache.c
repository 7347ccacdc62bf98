/* cache: one launch for all rows. */
#include "backend/opencl/shared/opencl.h"

static ac_status cache(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *ends = &args->in[1], *y = &args->out[0];
  const int64_t rows = x->dim[1];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"cache", "cache", NULL}), ac_cl_elements(cl, x->count),
                      AC_CL_OPERAND(*x), AC_CL_OPERAND(*ends), AC_CL_OPERAND(*y),
                      AC_CL_LONG(x->count), AC_CL_LONG(rows), AC_CL_LONG(y->dim[1]),
                      AC_CL_LONG(x->count / (x->dim[0] * rows)));
}

const ac_cl_op ac_cl_op_cache = {.run = cache};
