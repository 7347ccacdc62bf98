/* leaky_relu and its gradient. */
#include "ops/pointwise/leaky_relu.h"

#include "backend/opencl/shared/opencl.h"

static float slope_of(const ac_op_args *args) {
  return ((const ac_leaky_relu_attributes *)args->attributes)->slope;
}

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"leaky_relu", "leaky_relu", NULL}),
                      ac_cl_elements(cl, x->count), AC_CL_OPERAND(*x), AC_CL_OPERAND(args->out[0]),
                      AC_CL_LONG(x->count), AC_CL_FLOAT(slope_of(args)));
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dy = &args->in[0], *y = &args->in[1];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"leaky_relu", "leaky_relu_gradient", NULL}),
                      ac_cl_elements(cl, dy->count), AC_CL_OPERAND(*dy), AC_CL_OPERAND(*y),
                      AC_CL_OPERAND(args->out[0]), AC_CL_LONG(dy->count),
                      AC_CL_FLOAT(slope_of(args)));
}

const ac_cl_op ac_cl_op_leaky_relu = {.run = forward};
const ac_cl_op ac_cl_op_leaky_relu_gradient = {.run = gradient};
