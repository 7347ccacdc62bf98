/* weight_standardisation and its gradient. */
#include "ops/weight_standardisation.h"

#include "backend/opencl/opencl.h"

ac_status ac_cl_weight_standardisation(ac_opencl *cl, const ac_op_args *args) {
  const ac_weight_standardisation_attributes *a = args->attributes;
  const ac_operand *w = &args->in[0];
  char options[AC_CL_ROW_OPTIONS];
  const int group = ac_cl_row_group(cl, ac_weight_row(w), options);
  return AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"weight_standardisation", "weight_standardisation", options}),
      ac_cl_groups(w->dim[0], group, 1), AC_CL_OPERAND(*w), AC_CL_OPERAND(args->out[0]),
      AC_CL_OPERAND(args->out[1]), AC_CL_LONG(ac_weight_row(w)), AC_CL_FLOAT(a->epsilon));
}

ac_status ac_cl_weight_standardisation_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *w = &args->in[1];
  char options[AC_CL_ROW_OPTIONS];
  const int group = ac_cl_row_group(cl, ac_weight_row(w), options);
  return AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"weight_standardisation", "weight_standardisation_gradient", options}),
      ac_cl_groups(w->dim[0], group, 1), AC_CL_OPERAND(args->in[0]), AC_CL_OPERAND(*w),
      AC_CL_OPERAND(args->in[2]), AC_CL_OPERAND(args->out[0]), AC_CL_LONG(ac_weight_row(w)),
      AC_CL_INT(args->add[0]));
}
