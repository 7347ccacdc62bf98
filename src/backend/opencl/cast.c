/* cast: between a 16-bit type and float. */
#include "backend/opencl/opencl.h"

ac_status ac_cl_cast(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  bool widen = y->dtype == AC_F32;
  cl->storage = widen ? x->dtype : y->dtype;
  const char *name = widen ? "cast_to_float" : "cast_to_storage";
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"cast", name, NULL}), ac_cl_elements(cl, y->count),
                      AC_CL_OPERAND(*x), AC_CL_OPERAND(*y), AC_CL_LONG(y->count),
                      AC_CL_INT(args->add[0]));
}
