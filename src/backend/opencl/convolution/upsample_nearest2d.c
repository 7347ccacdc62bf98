/* Nearest-neighbour upsampling and its gradient. */
#include "ops/convolution/upsample_nearest2d.h"

#include "backend/opencl/shared/opencl.h"

static int64_t factor_of(const ac_op_args *args) {
  return ((const ac_upsample_nearest2d_attributes *)args->attributes)->factor;
}

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"upsample_nearest2d", "upsample_nearest2d", NULL}),
                      ac_cl_elements(cl, y->count), AC_CL_OPERAND(*x), AC_CL_OPERAND(*y),
                      AC_CL_LONG(y->count), AC_CL_LONG(x->dim[3]), AC_CL_LONG(factor_of(args)));
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dy = &args->in[0], *dx = &args->out[0];
  return AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"upsample_nearest2d", "upsample_nearest2d_gradient", NULL}),
      ac_cl_elements(cl, dx->count), AC_CL_OPERAND(*dy), AC_CL_OPERAND(*dx), AC_CL_LONG(dx->count),
      AC_CL_LONG(dx->dim[3]), AC_CL_LONG(factor_of(args)), AC_CL_INT(args->add[0]));
}

const ac_cl_op ac_cl_op_upsample_nearest2d = {.run = forward};
const ac_cl_op ac_cl_op_upsample_nearest2d_gradient = {.run = gradient};
