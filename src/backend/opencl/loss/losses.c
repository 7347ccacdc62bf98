/* The sums that losses are kept in, and losses that are means over the elements of samples. */
#include "backend/opencl/loss/losses.h"
#include "core/error.h"

ac_status ac_cl_sum_losses(ac_opencl *cl, const void *rows, int64_t n, const ac_operand *sums,
                           bool add) {
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"losses", "sum_losses", NULL}),
                      ac_cl_groups(1, cl->group, 1), AC_CL_BUFFER(rows), AC_CL_OPERAND(*sums),
                      AC_CL_LONG(n), AC_CL_INT(add));
}

static int64_t sample_elements(const ac_op_args *args) {
  return args->in[0].count / args->in[0].dim[0];
}

uint64_t ac_cl_sample_losses_workspace(ac_opencl *cl, const ac_op_args *args) {
  (void)cl;
  return 3 * sizeof(float) * (uint64_t)args->in[0].dim[0];
}

ac_status ac_cl_sample_losses(ac_opencl *cl, ac_cl_kernel kernel, const ac_op_args *args) {
  const int64_t n = args->in[0].dim[0], m = sample_elements(args);
  kernel.options = ac_cl_row_options(cl, m);
  AC_TRY(AC_CL_LAUNCH(cl, kernel, ac_cl_rows(cl, n, m), AC_CL_OPERAND(args->in[0]),
                      AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]),
                      AC_CL_BUFFER(args->workspace), AC_CL_LONG(m)));
  return ac_cl_sum_losses(cl, args->workspace, n, &args->out[0], args->add[0]);
}

ac_status ac_cl_sample_gradients(ac_opencl *cl, ac_cl_kernel kernel, const ac_op_args *args,
                                 float factor) {
  const int64_t n = args->in[0].count, m = sample_elements(args);
  kernel.options = ac_cl_row_options(cl, m);
  return AC_CL_LAUNCH(cl, kernel, ac_cl_elements(cl, n), AC_CL_OPERAND(args->in[0]),
                      AC_CL_OPERAND(args->in[1]), AC_CL_OPERAND(args->in[2]),
                      AC_CL_OPERAND(args->out[0]), AC_CL_LONG(n), AC_CL_LONG(m),
                      AC_CL_FLOAT(factor / (float)m));
}
