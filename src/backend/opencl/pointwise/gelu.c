/* gelu, by tanh or by the error function, and its gradient. */
#include "ops/pointwise/gelu.h"

#include "backend/opencl/shared/opencl.h"

static const char *options_of(const ac_op_args *args) {
  const ac_gelu_attributes *a = args->attributes;
  return a->kind == AC_GELU_ERF ? "-DGELU_ERF" : NULL;
}

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_map(cl, (ac_cl_kernel){"gelu", "gelu", options_of(args)}, args);
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  return ac_cl_map(cl, (ac_cl_kernel){"gelu", "gelu_gradient", options_of(args)}, args);
}

const ac_cl_op ac_cl_op_gelu = {.run = forward};
const ac_cl_op ac_cl_op_gelu_gradient = {.run = gradient};
