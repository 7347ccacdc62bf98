/* binary_cross_entropy of each sample, and its gradient. */
#include "backend/opencl/opencl.h"
#include "core/error.h"

static int64_t sample_elements(const ac_operand *x) {
  return x->count / x->dim[0];
}

uint64_t ac_cl_binary_cross_entropy_workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  return 3 * sizeof(float) * (uint64_t)args->in[0].dim[0];
}

ac_status ac_cl_binary_cross_entropy(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *logits = &args->in[0];
  const int64_t n = logits->dim[0], m = sample_elements(logits);
  char options[AC_CL_ROW_OPTIONS];
  const int group = ac_cl_row_group(cl, m, options);
  AC_TRY(AC_CL_LAUNCH(cl, ((ac_cl_kernel){"binary_cross_entropy", "binary_cross_entropy", options}),
                      ac_cl_groups(n, group, 1), AC_CL_OPERAND(*logits), AC_CL_OPERAND(args->in[1]),
                      AC_CL_OPERAND(args->in[2]), AC_CL_BUFFER(args->workspace), AC_CL_LONG(m)));
  return ac_cl_sum_losses(cl, args->workspace, n, &args->out[0], args->add[0]);
}

ac_status ac_cl_binary_cross_entropy_gradient(ac_opencl *cl, const ac_op_args *args) {
  const ac_operand *logits = &args->in[0];
  const int64_t m = sample_elements(logits);
  char options[AC_CL_ROW_OPTIONS];
  ac_cl_row_group(cl, m, options);
  return AC_CL_LAUNCH(
      cl, ((ac_cl_kernel){"binary_cross_entropy", "binary_cross_entropy_gradient", options}),
      ac_cl_elements(cl, logits->count), AC_CL_OPERAND(*logits), AC_CL_OPERAND(args->in[1]),
      AC_CL_OPERAND(args->in[2]), AC_CL_OPERAND(args->out[0]), AC_CL_LONG(logits->count),
      AC_CL_LONG(m), AC_CL_FLOAT(args->run->loss_scale / (float)m));
}
