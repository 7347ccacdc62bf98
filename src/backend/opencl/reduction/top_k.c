/* top_k, and its gradient. Their kernels are in along.cl. */
#include "backend/opencl/shared/opencl.h"
#include "core/error.h"

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"along", "top_k", NULL}),
                      ac_cl_groups(ac_rows(x), cl->group, 1), AC_CL_OPERAND(*x), AC_CL_OPERAND(*y),
                      AC_CL_OPERAND(args->out[1]), AC_CL_LONG(ac_columns(x)),
                      AC_CL_LONG(ac_columns(y)));
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *dy = &args->in[0], *dx = &args->out[0];
  if (!args->add[0] && !cl->preparing)
    AC_TRY(ac_cl_zero(cl, dx->data, (uint64_t)dx->count * ac_dtype_bytes(dx->dtype)));
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"along", "top_k_gradient", NULL}),
                      ac_cl_elements(cl, dy->count), AC_CL_OPERAND(*dy), AC_CL_OPERAND(args->in[1]),
                      AC_CL_OPERAND(*dx), AC_CL_LONG(dy->count), AC_CL_LONG(ac_columns(dy)),
                      AC_CL_LONG(ac_columns(dx)), AC_CL_INT(args->add[0]));
}

const ac_cl_op ac_cl_op_top_k = {.run = forward};
const ac_cl_op ac_cl_op_top_k_gradient = {.run = gradient};
