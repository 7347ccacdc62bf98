/* cross_entropy with softmax, and its gradient. */
#include "ops/cross_entropy.h"

#include "backend/opencl/opencl.h"
#include "core/error.h"

/* Loss, weight and weight if right of each row. */
uint64_t ac_cl_cross_entropy_workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  return 3 * sizeof(float) * (uint64_t)ac_rows(&args->in[0]);
}

ac_status ac_cl_cross_entropy(ac_opencl *cl, const ac_op_args *args) {
  const ac_cross_entropy_attributes *a = args->attributes;
  const ac_operand *logits = &args->in[0];
  const int64_t n = ac_rows(logits), width = ac_columns(logits);
  char options[AC_CL_ROW_OPTIONS];
  const int group = ac_cl_row_group(cl, width, options);
  AC_TRY(AC_CL_LAUNCH(cl, ((ac_cl_kernel){"cross_entropy", "cross_entropy", options}),
                      ac_cl_groups(n, group, 1), AC_CL_OPERAND(*logits), AC_CL_OPERAND(args->in[1]),
                      AC_CL_OPERAND(args->in[2]), AC_CL_OPERAND(args->out[1]),
                      AC_CL_BUFFER(args->workspace), AC_CL_LONG(width), AC_CL_INT(a->ignore),
                      AC_CL_INT(a->ignore_index)));
  return ac_cl_sum_losses(cl, args->workspace, n, &args->out[0], args->add[0]);
}

ac_status ac_cl_cross_entropy_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_cross_entropy_attributes *a = args->attributes;
  const ac_operand *logits = &args->in[0];
  char options[AC_CL_ROW_OPTIONS];
  ac_cl_row_group(cl, ac_columns(logits), options);
  return AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"cross_entropy", "cross_entropy_gradient", options}),
      ac_cl_elements(cl, logits->count), AC_CL_OPERAND(*logits), AC_CL_OPERAND(args->in[1]),
      AC_CL_OPERAND(args->in[2]), AC_CL_OPERAND(args->in[3]), AC_CL_OPERAND(args->out[0]),
      AC_CL_LONG(ac_rows(logits)), AC_CL_LONG(ac_columns(logits)),
      AC_CL_FLOAT(args->run->loss_scale), AC_CL_INT(a->ignore), AC_CL_INT(a->ignore_index));
}
