/* gelu, by tanh or by the error function, and its gradient. */
#include "ops/gelu.h"

#include "backend/opencl/opencl.h"

static const char *options_of(const ac_op_args *args) {
  const ac_gelu_attributes *a = args->attributes;
  return a->kind == AC_GELU_ERF ? "-DGELU_ERF" : NULL;
}

ac_status ac_cl_gelu(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_map(cl, (ac_cl_kernel){"gelu", "gelu", options_of(args)}, args);
}

ac_status ac_cl_gelu_gradient(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_map(cl, (ac_cl_kernel){"gelu", "gelu_gradient", options_of(args)}, args);
}
