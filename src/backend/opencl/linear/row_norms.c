/* row_norms: a work-group for each output of W. */
#include "ops/linear/row_norms.h"

#include "backend/opencl/shared/opencl.h"

static ac_status run(ac_opencl *cl, const ac_op_args *args) {
  const ac_row_norms_attributes *a = args->attributes;
  const int64_t rank = args->in[1].dim[0], in = args->in[1].dim[1], out = args->in[2].dim[0];
  const bool in_out = a->layout == AC_IN_OUT;
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"row_norms", "row_norms", ac_cl_row_options(cl, in)}),
                      ac_cl_rows(cl, out, in), AC_CL_OPERAND(args->in[0]),
                      AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]),
                      AC_CL_OPERAND(args->out[0]), AC_CL_OPERAND(args->out[1]), AC_CL_LONG(in),
                      AC_CL_LONG(rank), AC_CL_LONG(in_out ? 1 : in), AC_CL_LONG(in_out ? out : 1),
                      AC_CL_FLOAT(a->scale));
}

const ac_cl_op ac_cl_op_row_norms = {.run = run};
