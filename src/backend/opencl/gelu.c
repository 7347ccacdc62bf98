/* gelu, by tanh or by the error function, and its gradient. */
#include "ops/gelu.h"

#include "backend/opencl/opencl.h"

static const char *options_of(const ac_op_args *args) {
  const ac_gelu_attributes *a = args->attributes;
  return a->kind == AC_GELU_ERF ? "-DGELU_ERF" : NULL;
}

ac_status ac_cl_gelu(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"gelu", "gelu", options_of(args)}),
                      ac_cl_elements(cl, x->count), AC_CL_OPERAND(*x), AC_CL_OPERAND(args->out[0]),
                      AC_CL_LONG(x->count));
}

ac_status ac_cl_gelu_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dy = &args->in[0], *x = &args->in[1];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"gelu", "gelu_gradient", options_of(args)}),
                      ac_cl_elements(cl, dy->count), AC_CL_OPERAND(*dy), AC_CL_OPERAND(*x),
                      AC_CL_OPERAND(args->out[0]), AC_CL_LONG(dy->count));
}
