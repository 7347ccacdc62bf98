/* cast: between a 16-bit type and float. */
#include "backend/opencl/shared/opencl.h"

static ac_status run(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  bool widen = y->dtype == AC_F32;
  cl->storage = widen ? x->dtype : y->dtype;
  const char *name = widen ? "cast_to_float" : "cast_to_storage";
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"cast", name, NULL}), ac_cl_elements(cl, y->count),
                      AC_CL_OPERAND(*x), AC_CL_OPERAND(*y), AC_CL_LONG(y->count),
                      AC_CL_INT(args->add[0]));
}

/* Kernels are compiled for one storage type, so the other side is float. */
static bool fits(const ac_op_args *args) {
  return args->in[0].dtype == AC_F32 || args->out[0].dtype == AC_F32;
}

const ac_cl_op ac_cl_op_cast = {.run = run, .fits = fits};
