/* weight_standardisation and its gradient. */
#include "ops/norm/weight_standardisation.h"

#include "backend/opencl/shared/opencl.h"

static ac_status forward(ac_opencl *cl, const ac_op_args *args) {
  const ac_weight_standardisation_attributes *a = args->attributes;
  const ac_operand *w = &args->in[0];
  const int64_t row = ac_weight_row(w);
  return AC_CL_LAUNCH(cl,
                      ((ac_cl_kernel){"weight_standardisation", "weight_standardisation",
                                      ac_cl_row_options(cl, row)}),
                      ac_cl_rows(cl, w->dim[0], row), AC_CL_OPERAND(*w),
                      AC_CL_OPERAND(args->out[0]), AC_CL_OPERAND(args->out[1]), AC_CL_LONG(row),
                      AC_CL_FLOAT(a->epsilon));
}

static ac_status gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *w = &args->in[1];
  const ac_cl_kernel kernel = {"weight_standardisation", "weight_standardisation_gradient", NULL};
  return ac_cl_map_rows(cl, kernel, args, w->dim[0], ac_weight_row(w));
}

const ac_cl_op ac_cl_op_weight_standardisation = {.run = forward};
const ac_cl_op ac_cl_op_weight_standardisation_gradient = {.run = gradient};
